// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `io_uring(7)`: what is to be watched goes to the kernel with the call that waits.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::{Events, Interest, Told};
use crate::error::ServerError;
use crate::ring::{Completions, Ring};

#[derive(Debug)]
pub(super) struct Uring(Ring);

impl Uring {
    pub(super) fn new() -> Result<Self, ServerError> {
        Ring::new(Completions::AtCalls).map(Self)
    }
}

impl Events for Uring {
    fn start(&mut self) -> io::Result<()> {
        self.0.start()
    }

    fn tells_once(&self) -> bool {
        true
    }

    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.0.watch(fd, token, interest)
    }

    fn change(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.0.forget(token)?;
        self.0.watch(fd, token, interest)
    }

    fn remove(&mut self, _fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.0.forget(token)
    }

    fn wait(&mut self, at_most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()> {
        self.0.wait(at_most)?;
        self.0.completed(|one| told.push(one))
    }
}
