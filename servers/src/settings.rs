// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a server is to be.

use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::accept::AcceptLimit;
use crate::error::ServerError;

/// As many as Pariag found best for Knot (3.2.1).
const KNOT_THREADS: u32 = 1000;
/// How long a connection may usually stand still: [`Settings::patience`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Which server: they differ in how they learn of work and when they accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServerKind {
    /// Event-driven, one thread: gets events, accepts, works (Pariag 3.1.1).
    #[default]
    Userver,
    /// A fixed pool of threads, each of which accepts and finishes what it accepted (Pariag 3.1.2).
    KnotC,
    /// One thread accepts; each connection has a thread of its own (Pariag 3.1.2).
    KnotA,
    /// Accepts and works in turn, with no call for events between them (Pariag 3.1.3).
    Tux,
}

impl ServerKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Userver, Self::KnotC, Self::KnotA, Self::Tux];
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Userver => "userver",
            Self::KnotC => "knot-c",
            Self::KnotA => "knot-a",
            Self::Tux => "tux",
        })
    }
}

impl FromStr for ServerKind {
    type Err = ServerError;

    fn from_str(given: &str) -> Result<Self, ServerError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == given)
            .ok_or_else(|| ServerError::ServerKind { given: given.to_owned() })
    }
}

/// The call by which the `userver` gets its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventsKind {
    /// `select`, with sets as large as the descriptors are many.
    Select,
    /// `poll`.
    Poll,
    /// `epoll`, level-triggered.
    #[default]
    Epoll,
    /// `io_uring`, by one-shot polls; Linux 6.1 or later.
    IoUring,
}

impl EventsKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Select, Self::Poll, Self::Epoll, Self::IoUring];
}

impl fmt::Display for EventsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Select => "select",
            Self::Poll => "poll",
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
        })
    }
}

impl FromStr for EventsKind {
    type Err = ServerError;

    fn from_str(given: &str) -> Result<Self, ServerError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_string() == given)
            .ok_or_else(|| ServerError::EventsKind { given: given.to_owned() })
    }
}

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which server.
    pub server: ServerKind,
    /// How the `userver` gets its events; by default `epoll`. The others have no choice.
    pub events: Option<EventsKind>,
    /// Knot's threads, by default 1,000: as many as Knot-C has, and at most as many connections as
    /// Knot-A works on at a time. The others have none.
    pub threads: Option<NonZeroU32>,
    /// How many such servers share the addresses, each with listening sockets of its own
    /// (`SO_REUSEPORT`).
    pub workers: NonZeroU32,
    /// Where to listen; port 0 lets the kernel choose.
    pub addresses: Vec<SocketAddr>,
    /// The listen queue's length as given to `listen`; the kernel caps it at `somaxconn`. Of each
    /// worker.
    pub backlog: u32,
    /// The most connections accepted in one accept phase; of Knot-C, by each thread.
    pub accept_limit: AcceptLimit,
    /// Work done for each answered request: what takes an undisturbed processor so many µs.
    pub cost_us: u64,
    /// The speed at which a cost in µs is turned into steps of work, in steps a µs
    /// ([`steps_per_us`](crate::steps_per_us)); by default measured when the server is made.
    pub steps_per_us: Option<NonZeroU64>,
    /// The body of an ordinary reply, in bytes; up to about 1,300 the reply is one packet. Without
    /// a root only.
    pub body_bytes: u64,
    /// The directory whose files are served. Without it, `/bytes/N` is answered with N bytes, and
    /// every other path with the ordinary reply. With and without, `/work/N` is computed: it takes
    /// an undisturbed processor N µs, and its body says what came of it.
    ///
    /// Nothing outside it is served: `..` may not lead out, and links may neither lead out nor be
    /// absolute. A directory is served as its `index.html`. Files asked for are held, so a change
    /// may take a second to be seen.
    pub root: Option<PathBuf>,
    /// How long a connection may stand still in the middle of a request or of a reply, or idle.
    /// It is noticed an eighth of that later, or less.
    pub patience: Duration,
    /// Whether the kernel itself answers requests for the ordinary page on connections that stay
    /// open; of `tux` alone, without a root and without a cost. A build with the feature
    /// `in-kernel` can.
    ///
    /// Its reply is under way for a moment in which nobody knows of it: a client that closes its
    /// side right behind such a request may get none, for the server then closes, too. One that sends
    /// the next request without waiting for it, and that one is the server's, may get its reply first.
    pub in_kernel: bool,
    /// Whether others may listen on the same addresses (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server: ServerKind::default(),
            events: None,
            threads: None,
            workers: NonZeroU32::MIN,
            addresses: Vec::new(),
            backlog: 128,
            accept_limit: AcceptLimit::INF,
            cost_us: 0,
            steps_per_us: None,
            body_bytes: 1024,
            root: None,
            patience: PATIENCE,
            in_kernel: false,
            reuse_port: false,
        }
    }
}

impl Settings {
    /// Whether they fit together.
    ///
    /// # Errors
    /// [`ServerError::EventsNotChosen`], [`ServerError::ThreadsNotChosen`],
    /// [`ServerError::InKernelNotFit`].
    pub fn check(&self) -> Result<(), ServerError> {
        let server = self.server;
        if self.events.is_some() && server != ServerKind::Userver {
            return Err(ServerError::EventsNotChosen { server });
        }
        if self.threads.is_some() && !self.has_threads() {
            return Err(ServerError::ThreadsNotChosen { server });
        }
        let is_plain = self.root.is_none() && self.cost_us == 0;
        if self.in_kernel && !(server == ServerKind::Tux && is_plain) {
            return Err(ServerError::InKernelNotFit);
        }
        Ok(())
    }

    pub(crate) fn knot_threads(&self) -> u32 {
        self.threads.map_or(KNOT_THREADS, NonZeroU32::get)
    }

    /// Of all workers, beside these themselves.
    pub(crate) fn all_threads(&self) -> u64 {
        let each = if self.has_threads() { self.knot_threads() } else { 0 };
        u64::from(self.workers.get()) * u64::from(each)
    }

    fn has_threads(&self) -> bool {
        matches!(self.server, ServerKind::KnotC | ServerKind::KnotA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in ServerKind::ALL {
            assert_eq!(kind.to_string().parse::<ServerKind>().unwrap(), kind);
        }
        for kind in EventsKind::ALL {
            assert_eq!(kind.to_string().parse::<EventsKind>().unwrap(), kind);
        }
        let message = "apache".parse::<ServerKind>().unwrap_err().to_string();
        assert!(message.contains("knot-c") && message.lines().count() == 1, "{message}");
        let message = "kqueue".parse::<EventsKind>().unwrap_err().to_string();
        assert!(message.contains("io_uring") && message.lines().count() == 1, "{message}");
    }

    #[test]
    fn what_does_not_fit_together_is_said() {
        let fits = |server, events: bool, threads: bool| {
            Settings {
                server,
                events: events.then_some(EventsKind::Poll),
                threads: threads.then_some(NonZeroU32::MIN),
                ..Settings::default()
            }
            .check()
            .is_ok()
        };
        assert!(fits(ServerKind::Userver, true, false) && !fits(ServerKind::Userver, false, true));
        assert!(fits(ServerKind::Tux, false, false) && !fits(ServerKind::Tux, true, false));
        assert!(fits(ServerKind::KnotC, false, true) && !fits(ServerKind::KnotC, true, true));
        assert!(fits(ServerKind::KnotA, false, true) && !fits(ServerKind::Tux, false, true));
    }
}
