// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a crowd could not be sent. What happens to an attempt is never an error; it is an outcome.

use std::io;
use std::net::SocketAddr;

/// Why a crowd could not be sent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrowdError {
    /// There was nobody to go to.
    #[error("no target: give at least one address, such as 10.0.0.1:80")]
    NoTarget,
    /// No source address can reach a target.
    #[error(
        "no source address reaches {target}: give one of the same family (IPv4 or IPv6), or none at all"
    )]
    NoSource {
        /// The target left without sources.
        target: SocketAddr,
    },
    /// A rate that is no rate.
    #[error("{per_s} attempts a second is no rate: give a number above 0 and up to 10000000")]
    Rate {
        /// What was given.
        per_s: f64,
    },
    /// A closed loop of nobody.
    #[error("a closed loop needs at least one client")]
    NoClients,
    /// The path would not survive being put into a request line.
    #[error(
        "`{path}` is no path to request: it must start with / and have no blanks or control characters"
    )]
    Path {
        /// What was given.
        path: String,
    },
    /// A duration that cannot be.
    #[error("{what} of {given_s} s is out of range: give more than 0 and up to 86400 s")]
    Duration {
        /// Which duration.
        what: &'static str,
        /// What was given, in seconds.
        given_s: f64,
    },
    /// The event loop itself failed.
    #[error("the crowd's event loop cannot {step}: {source}")]
    Events {
        /// The step, as a verb phrase.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl CrowdError {
    pub(crate) fn events<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Events { step, source: source.into() }
    }
}
