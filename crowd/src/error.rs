// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a crowd could not be sent. What happens to an attempt is never an error; it is an outcome.

use std::io;
use std::net::{IpAddr, SocketAddr};

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
    /// Sources that cannot be told apart by whose they are.
    #[error(
        "the classes' sources for {target} are more than 2^32 addresses together: give longer \
         prefixes, such as a /104 each"
    )]
    Addresses {
        /// The target that they go to.
        target: SocketAddr,
    },
    /// A rate that is no rate.
    #[error("{per_s} attempts a second is no rate: give a number above 0 and up to 10000000")]
    Rate {
        /// What was given.
        per_s: f64,
    },
    /// Ports that cannot be had.
    #[error("{ports} ports a source cannot be had: give 1 to 64512, and driver raw")]
    Ports {
        /// What was given.
        ports: u16,
    },
    /// Ports that cannot be shared.
    #[error(
        "{ports} port a source is too few for classes that browse beside others that do not: \
         give at least 2"
    )]
    SharedPorts {
        /// What was given.
        ports: u16,
    },
    /// A closed loop of more clients than can be told apart.
    #[error(
        "{clients} clients at a time have {tuples} addresses and ports to come from: give fewer of \
         them, or more sources or ports"
    )]
    FewPorts {
        /// How many clients.
        clients: usize,
        /// How many there can be, each with one connection.
        tuples: u64,
    },
    /// A trace that cannot be scaled.
    #[error("all starts of the trace are at one time, so it has no rate: play it as recorded")]
    NoRate,
    /// Visits that cannot be.
    #[error("{what} {given} is out of range: give {fix}")]
    Browsing {
        /// What of a browser's visits.
        what: &'static str,
        /// What was given.
        given: f64,
        /// What may be given.
        fix: &'static str,
    },
    /// Sources of their own, for clients that browse.
    #[error("a class that browses has no sources of its own: give the plan's")]
    VisitorsSources,
    /// Classes that are told apart, for the kernel's sockets.
    #[error("a class has sources, or a part of the crowd, of its own with driver raw only")]
    RawClasses,
    /// A closed loop of nobody.
    #[error("a closed loop needs at least one client")]
    NoClients,
    /// A crowd of nobody.
    #[error("no class of people: give at least one")]
    NoClasses,
    /// Attempts that ask for nothing, or for ever.
    #[error("{given} requests a connection is out of range: give 1 to 10000 on average")]
    Requests {
        /// What was given.
        given: f64,
    },
    /// A class of nobody, among others.
    #[error("a class of {share} has no weight among the others: give one above 0")]
    Weight {
        /// What was given.
        share: f64,
    },
    /// A share of packets that is none.
    #[error("{what} of {share} is no chance: give 0 to 1")]
    Share {
        /// Of what.
        what: &'static str,
        /// What was given.
        share: f64,
    },
    /// A delay that cannot be.
    #[error(
        "{given} is no delay: times are in ms from 0 to 60000, the least first; a Pareto's least \
         and shape are above 0"
    )]
    Delay {
        /// What was given.
        given: String,
    },
    /// The kernel's sockets can only be what they are.
    #[error("kernel sockets cannot {what}: use raw packets for this class")]
    Sockets {
        /// What was asked of them, as a verb phrase.
        what: String,
    },
    /// The kernel has no way to a target.
    #[error("no way to {target}: {reason}; give a target behind an Ethernet interface")]
    NoRoute {
        /// Where to.
        target: SocketAddr,
        /// What the kernel said.
        reason: String,
    },
    /// Raw packets leave by one interface.
    #[error("targets lie behind different interfaces: send a crowd for each, or name an interface")]
    SeveralInterfaces,
    /// There is no such interface here.
    #[error("no interface {interface} in this network namespace: `ip link` lists them")]
    NoInterface {
        /// The name given.
        interface: String,
    },
    /// Frames need an Ethernet address.
    #[error("interface {interface} is no Ethernet: use kernel sockets there")]
    NoEthernet {
        /// Its name.
        interface: String,
    },
    /// Nobody answered for the next hop.
    #[error("next hop {hop} does not answer: is it up, and is its address right?")]
    NoNeighbour {
        /// Its address.
        hop: IpAddr,
    },
    /// Raw packets cannot be sent or received.
    #[error("raw packets on {interface}: cannot {step}: {source}; it takes root")]
    Device {
        /// The interface.
        interface: String,
        /// The step, as a verb phrase.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
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
    /// It was told to.
    #[error(
        "the crowd was told to stop before its time was over: what it saw until then is not told"
    )]
    Stopped,
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
