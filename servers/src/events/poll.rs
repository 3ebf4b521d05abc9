// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `poll(2)`: everything watched is handed over with every call, and looked through after it.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use nix::libc;

use super::{Events, Interest, Told, timeout_ms};

#[derive(Debug, Default)]
pub(super) struct Poll {
    watched: Vec<libc::pollfd>,
    /// Of each entry above.
    tokens: Vec<u64>,
    /// Where a descriptor is above, by its number.
    places: Vec<Option<usize>>,
}

impl Poll {
    fn place(&self, fd: RawFd) -> io::Result<usize> {
        self.places
            .get(fd as usize)
            .copied()
            .flatten()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

fn flags(interest: Interest) -> libc::c_short {
    match interest {
        Interest::Read => libc::POLLIN | libc::POLLRDHUP,
        Interest::Write => libc::POLLOUT,
    }
}

impl Events for Poll {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        if self.places.len() <= fd as usize {
            self.places.resize(fd as usize + 1, None);
        }
        self.places[fd as usize] = Some(self.watched.len());
        self.watched.push(libc::pollfd { fd, events: flags(interest), revents: 0 });
        self.tokens.push(token);
        Ok(())
    }

    fn change(&mut self, fd: BorrowedFd<'_>, _token: u64, interest: Interest) -> io::Result<()> {
        let place = self.place(fd.as_raw_fd())?;
        self.watched[place].events = flags(interest);
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, _token: u64) -> io::Result<()> {
        let place = self.place(fd.as_raw_fd())?;
        self.places[fd.as_raw_fd() as usize] = None;
        self.watched.swap_remove(place);
        self.tokens.swap_remove(place);
        if let Some(moved) = self.watched.get(place) {
            self.places[moved.fd as usize] = Some(place);
        }
        Ok(())
    }

    fn wait(&mut self, at_most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()> {
        let count = self.watched.len() as libc::nfds_t;
        // SAFETY: the pointer is to `count` entries, which the kernel may write to.
        let ready = unsafe { libc::poll(self.watched.as_mut_ptr(), count, timeout_ms(at_most)) };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        let all = self.watched.iter().zip(&self.tokens);
        told.extend(all.filter(|(entry, _)| entry.revents != 0).take(ready as usize).map(
            |(entry, &token)| Told { token, client_left: entry.revents & libc::POLLRDHUP != 0 },
        ));
        Ok(())
    }
}
