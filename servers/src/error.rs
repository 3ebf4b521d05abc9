// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a server could not start or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::settings::ServerKind;

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
    #[error("`{given}` is no accept limit: give a number from 1, `inf` or `dynamic`")]
    AcceptLimit {
        /// What was given.
        given: String,
    },
    /// There is no such server.
    #[error("`{given}` is no server: choose userver, knot-c, knot-a or tux")]
    ServerKind {
        /// What was given.
        given: String,
    },
    /// There is no such way to get events.
    #[error("`{given}` is no way to get events: choose select, poll, epoll or io_uring")]
    EventsKind {
        /// What was given.
        given: String,
    },
    /// Only one server gets its events by a call that can be chosen.
    #[error("{server} has no choice of events: leave it out, or choose the userver")]
    EventsNotChosen {
        /// The server asked for.
        server: ServerKind,
    },
    /// Only Knot has threads.
    #[error("{server} has no threads: leave their number out, or choose knot-c or knot-a")]
    ThreadsNotChosen {
        /// The server asked for.
        server: ServerKind,
    },
    /// The kernel has no room for so many threads in a process.
    #[error(
        "{threads} threads are more than this kernel's vm.max_map_count has room for: ask for at most \
         {most}, or set that sysctl to {mappings}"
    )]
    ThreadsTooMany {
        /// Of all workers.
        threads: u64,
        /// As many there may be.
        most: u64,
        /// What would do.
        mappings: u64,
    },
    /// The kernel offers no `io_uring`.
    #[error(
        "the kernel refuses io_uring: {source}; choose the userver with epoll, or set \
         kernel.io_uring_disabled to 0"
    )]
    NoIoUring {
        /// What the kernel said.
        source: io::Error,
    },
    /// Only one server, and only its one page, is for the kernel to answer.
    #[error(
        "only tux answers inside the kernel, and only its own page: leave that out, or choose tux \
         without a root and without a cost"
    )]
    InKernelNotFit,
    /// The kernel takes no programs that answer.
    #[error("cannot answer inside the kernel: {source}; be root, or leave it out")]
    InKernel {
        /// What the kernel said.
        source: io::Error,
    },
    /// A thread could not be started.
    #[error(
        "cannot start thread {number}: {source}; ask for fewer workers or threads, or raise \
         `ulimit -u`"
    )]
    Thread {
        /// How many there would have been.
        number: u32,
        /// What the kernel said.
        source: io::Error,
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
