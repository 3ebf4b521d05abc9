// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the userver learns of work: one shape for all the calls there are.

mod epoll;
mod poll;
mod select;
mod uring;

use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::error::ServerError;
use crate::settings::EventsKind;

pub use epoll::EVENTS_MAX;

/// Tokens with this bit are the server's own; connections have none with it.
const OWN: u64 = 1 << 63;
/// Of the descriptor that says that the server is to stop.
pub(crate) const STOP: u64 = OWN;

/// The token of a listening socket.
pub(crate) fn listener_token(index: usize) -> u64 {
    OWN | (index as u64 + 1)
}

/// Whether the token is of a listening socket.
pub(crate) fn is_listener(token: u64) -> bool {
    token & OWN != 0 && token != STOP
}

/// What to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Something can be read, or the client has closed its side.
    Read,
    /// There is room to send in.
    Write,
}

/// Something that can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub token: u64,
    /// Its client is known to have closed its side.
    pub client_left: bool,
}

/// A call by which the kernel tells of events.
///
/// Descriptors are told of as long as they are ready, unless `tells_once`.
pub(crate) trait Events: Debug + Send {
    /// The thread that calls this is the one that will wait.
    fn start(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether what was told of is watched no longer: to be added again then.
    fn tells_once(&self) -> bool {
        false
    }

    /// Watches a descriptor.
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Watches a descriptor for something else than until now.
    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()>;

    /// Watches a descriptor no longer.
    fn remove(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()>;

    /// A descriptor that is watched is about to be closed.
    fn closes(&mut self, fd: BorrowedFd<'_>, token: u64) {
        // It fails only if the descriptor was not watched.
        let _ = self.remove(fd, token);
    }

    /// Waits until there is something to tell of, at most so long, and adds it. An interruption is
    /// nothing to tell of.
    fn wait(&mut self, at_most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()>;
}

/// The call that is asked for.
///
/// # Errors
/// [`ServerError::Events`], [`ServerError::NoIoUring`].
pub(crate) fn events_of(kind: EventsKind) -> Result<Box<dyn Events>, ServerError> {
    Ok(match kind {
        EventsKind::Select => Box::new(select::Select::default()),
        EventsKind::Poll => Box::new(poll::Poll::default()),
        EventsKind::Epoll => Box::new(epoll::Epoll::new()?),
        EventsKind::IoUring => Box::new(uring::Uring::new()?),
    })
}

/// Rounded up, lest the server spin through the last fraction of a millisecond; none is for ever.
pub(crate) fn timeout_ms(at_most: Option<Duration>) -> i32 {
    at_most
        .map_or(-1, |time| i32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    const SOON: Option<Duration> = Some(Duration::from_millis(20));
    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn each(story: impl Fn(Box<dyn Events>)) {
        for kind in EventsKind::ALL {
            let mut events = events_of(kind).unwrap_or_else(|error| panic!("{kind}: {error}"));
            events.start().unwrap();
            story(events);
        }
    }

    fn told(events: &mut dyn Events, at_most: Option<Duration>) -> Vec<u64> {
        let mut told = Vec::new();
        events.wait(at_most, &mut told).unwrap();
        let mut tokens: Vec<u64> = told.iter().map(|told| told.token).collect();
        tokens.sort_unstable();
        tokens
    }

    #[test]
    fn what_can_go_on_is_told_of_and_nothing_else() {
        each(|mut events| {
            let (a, mut a_peer) = UnixStream::pair().unwrap();
            let (b, _b_peer) = UnixStream::pair().unwrap();
            events.add(a.as_fd(), 7, Interest::Read).unwrap();
            events.add(b.as_fd(), 8, Interest::Read).unwrap();
            assert!(told(&mut *events, SOON).is_empty());
            a_peer.write_all(b"x").unwrap();
            assert_eq!(told(&mut *events, None), [7], "{events:?}");
            if events.tells_once() {
                assert!(told(&mut *events, SOON).is_empty());
                events.add(a.as_fd(), 7, Interest::Read).unwrap();
            }
            assert_eq!(told(&mut *events, None), [7], "{events:?}");
            (&a).read_exact(&mut [0]).unwrap();
            if events.tells_once() {
                events.add(a.as_fd(), 7, Interest::Read).unwrap();
            }
            assert!(told(&mut *events, SOON).is_empty(), "{events:?}");
        });
    }

    #[test]
    fn interest_changes_and_ends() {
        each(|mut events| {
            let (a, _a_peer) = UnixStream::pair().unwrap();
            let (b, mut b_peer) = UnixStream::pair().unwrap();
            events.add(a.as_fd(), 1, Interest::Read).unwrap();
            events.change(a.as_fd(), 1, Interest::Write).unwrap();
            assert_eq!(told(&mut *events, None), [1], "{events:?}");
            if events.tells_once() {
                events.add(a.as_fd(), 1, Interest::Read).unwrap();
            } else {
                events.change(a.as_fd(), 1, Interest::Read).unwrap();
            }
            assert!(told(&mut *events, SOON).is_empty(), "{events:?}");
            events.add(b.as_fd(), 2, Interest::Read).unwrap();
            events.remove(b.as_fd(), 2).unwrap();
            b_peer.write_all(b"x").unwrap();
            assert!(told(&mut *events, SOON).is_empty(), "{events:?}");
            events.closes(a.as_fd(), 1);
            drop(a);
            assert!(told(&mut *events, SOON).is_empty(), "{events:?}");
        });
    }

    #[test]
    fn a_client_that_left_is_told_of() {
        each(|mut events| {
            let (a, a_peer) = UnixStream::pair().unwrap();
            events.add(a.as_fd(), 1, Interest::Read).unwrap();
            drop(a_peer);
            assert_eq!(told(&mut *events, None), [1], "{events:?}");
        });
    }

    #[test]
    fn many_descriptors_are_watched_and_each_is_told_of() {
        each(|mut events| {
            // More than FD_SETSIZE.
            let pairs: Vec<_> = (0..1500).map(|_| UnixStream::pair().unwrap()).collect();
            for (token, (a, _)) in pairs.iter().enumerate() {
                events.add(a.as_fd(), token as u64, Interest::Read).unwrap();
            }
            let ready: Vec<u64> = (0..1500).filter(|token| token % 7 == 3).collect();
            for &token in &ready {
                (&pairs[token as usize].1).write_all(b"x").unwrap();
            }
            let mut seen = Vec::new();
            while seen.len() < ready.len() {
                let tokens = told(&mut *events, NOW);
                assert!(!tokens.is_empty(), "{} of {}", seen.len(), ready.len());
                for &token in &tokens {
                    (&pairs[token as usize].0).read_exact(&mut [0]).unwrap();
                }
                seen.extend(tokens);
            }
            seen.sort_unstable();
            assert_eq!(seen, ready);
            for (token, (a, _)) in pairs.iter().enumerate() {
                if !events.tells_once() || token % 7 != 3 {
                    events.closes(a.as_fd(), token as u64);
                }
            }
            drop(pairs);
            assert!(told(&mut *events, NOW).is_empty());
        });
    }

    #[test]
    fn time_is_rounded_up() {
        assert_eq!(timeout_ms(None), -1);
        assert_eq!(timeout_ms(Some(Duration::ZERO)), 0);
        assert_eq!(timeout_ms(Some(Duration::from_nanos(1))), 1);
        assert_eq!(timeout_ms(Some(Duration::MAX)), i32::MAX);
    }
}
