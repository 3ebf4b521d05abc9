// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `epoll(7)`, level-triggered: the kernel keeps what is watched, and tells only what is ready.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::epoll::{self, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::{Events, Interest, Told, timeout_ms};
use crate::error::ServerError;

/// Events that epoll is let tell in one call.
pub const EVENTS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Epoll {
    epoll: epoll::Epoll,
    events: Vec<EpollEvent>,
}

impl Epoll {
    pub(super) fn new() -> Result<Self, ServerError> {
        let epoll = epoll::Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(ServerError::events("create an epoll instance"))?;
        Ok(Self { epoll, events: vec![EpollEvent::empty(); EVENTS_MAX] })
    }
}

fn event(token: u64, interest: Interest) -> EpollEvent {
    let flags = match interest {
        Interest::Read => EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP,
        Interest::Write => EpollFlags::EPOLLOUT,
    };
    EpollEvent::new(flags, token)
}

impl Events for Epoll {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.epoll.add(fd, event(token, interest))?)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        Ok(self.epoll.modify(fd, &mut event(token, interest))?)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, _token: u64) -> io::Result<()> {
        Ok(self.epoll.delete(fd)?)
    }

    fn closes(&mut self, _fd: BorrowedFd<'_>, _token: u64) {
        // The kernel forgets a descriptor when it is closed: that saves a call.
    }

    fn wait(&mut self, at_most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()> {
        let timeout = EpollTimeout::try_from(timeout_ms(at_most)).unwrap_or(EpollTimeout::MAX);
        let count = match self.epoll.wait(&mut self.events, timeout) {
            Err(Errno::EINTR) => 0,
            count => count?,
        };
        told.extend(self.events[..count].iter().map(|event| Told {
            token: event.data(),
            client_left: event.events().contains(EpollFlags::EPOLLRDHUP),
        }));
        Ok(())
    }
}
