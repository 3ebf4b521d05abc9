// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a server could not start or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a server could not start or go on. What clients do wrong is never an error; it is counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There was nothing to listen on.
    #[error("no address to listen on: give at least one, such as 0.0.0.0:8080")]
    NoAddress,
    /// An address could not be listened on.
    #[error("cannot listen on {address}: {source}; choose an address of this host and a free port")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The directory to serve cannot be served.
    #[error(
        "cannot serve files from {}: {source}; name a directory that this user may read and enter",
        path.display()
    )]
    Root {
        /// The root asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// An accept limit of zero would never accept anything.
    #[error("`{given}` is no accept limit: give a number from 1, or `inf`")]
    AcceptLimit {
        /// What was given.
        given: String,
    },
    /// The event loop itself failed.
    #[error("the server's event loop cannot {step}: {source}")]
    Events {
        /// The step, as a verb phrase.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl ServerError {
    pub(crate) fn events<E: Into<io::Error>>(step: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::Events { step, source: source.into() }
    }
}
