// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `select(2)`: a bit for each descriptor, declared anew with every call.
//!
//! The sets grow with the descriptors: the limit of 1,024 (`FD_SETSIZE`) is the C library's, not
//! the kernel's, and the thesis raised it too (Pariag 3.2.1).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr;
use std::time::Duration;

use nix::libc;

use super::{Events, Interest, Told};

/// What the kernel counts bits in.
type Word = libc::c_ulong;
const WORD_BITS: usize = Word::BITS as usize;
/// Keeps `timeval` within what every kernel takes.
const WAIT_MAX: Duration = Duration::from_secs(1_000_000);

/// A set of descriptors, as `fd_set` but of any size.
#[derive(Clone, Debug, Default)]
struct Set(Vec<Word>);

impl Set {
    fn put(&mut self, fd: RawFd, is_in: bool) {
        let bit = 1 << (fd as usize % WORD_BITS);
        let word = &mut self.0[fd as usize / WORD_BITS];
        *word = if is_in { *word | bit } else { *word & !bit };
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(index * WORD_BITS + bit)
            })
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Select {
    readable: Set,
    writable: Set,
    /// What the kernel answers with, which is also what it is asked with.
    answer: (Set, Set),
    /// By descriptor.
    tokens: Vec<u64>,
}

impl Select {
    fn watch(&mut self, fd: RawFd, interest: Option<Interest>) {
        self.readable.put(fd, interest == Some(Interest::Read));
        self.writable.put(fd, interest == Some(Interest::Write));
    }
}

impl Events for Select {
    fn add(&mut self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        let fd = fd.as_raw_fd();
        let words = fd as usize / WORD_BITS + 1;
        if self.readable.0.len() < words {
            self.readable.0.resize(words, 0);
            self.writable.0.resize(words, 0);
            self.tokens.resize(words * WORD_BITS, 0);
        }
        self.tokens[fd as usize] = token;
        self.watch(fd, Some(interest));
        Ok(())
    }

    fn change(&mut self, fd: BorrowedFd<'_>, _token: u64, interest: Interest) -> io::Result<()> {
        self.watch(fd.as_raw_fd(), Some(interest));
        Ok(())
    }

    fn remove(&mut self, fd: BorrowedFd<'_>, _token: u64) -> io::Result<()> {
        self.watch(fd.as_raw_fd(), None);
        Ok(())
    }

    fn wait(&mut self, at_most: Option<Duration>, told: &mut Vec<Told>) -> io::Result<()> {
        self.answer.0.0.clone_from(&self.readable.0);
        self.answer.1.0.clone_from(&self.writable.0);
        let limit = libc::c_int::try_from(self.tokens.len()).unwrap_or(libc::c_int::MAX);
        let mut timeout = at_most.map(|time| {
            let time = time.min(WAIT_MAX);
            libc::timeval {
                tv_sec: time.as_secs() as libc::time_t,
                tv_usec: libc::suseconds_t::from(time.subsec_micros()),
            }
        });
        // SAFETY: each set has a bit for every descriptor below `limit`, and the kernel reads and
        // writes no more; the timeout outlives the call.
        let ready = unsafe {
            libc::select(
                limit,
                self.answer.0.0.as_mut_ptr().cast(),
                self.answer.1.0.as_mut_ptr().cast(),
                ptr::null_mut(),
                timeout.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
            )
        };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        if ready > 0 {
            let members = self.answer.0.members().chain(self.answer.1.members());
            told.extend(members.map(|fd| Told { token: self.tokens[fd], client_left: false }));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_what_was_put_in() {
        let mut set = Set(vec![0; 20]);
        let fds = [0, 1, 63, 64, 1023, 1024, 1279];
        for fd in fds {
            set.put(fd, true);
        }
        set.put(64, false);
        let expected: Vec<usize> =
            fds.into_iter().filter(|&fd| fd != 64).map(|fd| fd as usize).collect();
        assert_eq!(set.members().collect::<Vec<_>>(), expected);
    }
}
