// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of clients that have closed their side, until there is room to send in.
//!
//! `io_uring(7)` tells of a closed side with every poll, asked or not (`IO_POLL_UNMASK` in the
//! kernel's io_uring/poll.c, Linux 5.13 to 6.18). A reply that does not fit the socket of such a
//! client, who may be gone for good, would be tried again and again as fast as the processor goes.
//! `epoll(7)` waits for what it is asked for.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

/// Told of in one call.
const EVENTS_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct HalfClosed {
    epoll: Epoll,
    /// Their descriptors, by token. Each is open until it is told of or forgotten.
    waiting: HashMap<u64, RawFd>,
}

impl HalfClosed {
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        Ok(Self { epoll, waiting: HashMap::new() })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What can be read while any of them can be sent to.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.0.as_fd()
    }

    /// Watches one, which must stay open until it is told of or forgotten.
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.epoll.add(fd, EpollEvent::new(EpollFlags::EPOLLOUT, token))?;
        self.waiting.insert(token, fd.as_raw_fd());
        Ok(())
    }

    /// Watches one no longer, and says whether it did.
    pub(crate) fn forget(&mut self, token: u64) -> bool {
        let Some(fd) = self.waiting.remove(&token) else { return false };
        // SAFETY: open as long as it is waited for: see `watch`.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        // It was added, and is open.
        let _ = self.epoll.delete(fd);
        true
    }

    /// Those that can be sent to now, or whose connections are broken; they are watched no longer.
    pub(crate) fn take_ready(&mut self) -> Vec<u64> {
        let mut events = [EpollEvent::empty(); EVENTS_MAX];
        let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
            Ok(count) => count,
            // Asked again the next time.
            Err(Errno::EINTR) => 0,
            Err(error) => unreachable!("an epoll instance of our own: {error}"),
        };
        let ready: Vec<u64> = events[..count].iter().map(EpollEvent::data).collect();
        for token in &ready {
            self.forget(*token);
        }
        ready
    }
}
