// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's TCP sockets, read by BPF iterators: they show both queues of a listening
//! socket, where sock_diag shows one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::address;
use crate::error::{Error, Result};
use crate::plain::{Plain, from_bytes};
use crate::programs::Programs;
use crate::raw::{tg_inside_row, tg_listener_row, tg_request_row};
use tidegate_policy::raw::tg_inside;

/// Reads the next row; `false` where there is none. Of a million sockets that are no rows the kernel wants to be
/// asked once more (`MAX_ITER_OBJECTS` in bpf_iter.c).
fn read_row(from: &mut impl Read, row: &mut [u8]) -> io::Result<bool> {
    loop {
        match from.read_exact(row) {
            Ok(()) => return Ok(true),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
}

/// What an iterator of listening sockets shows, until it says by EAGAIN that these are through. (It says so of a
/// million that are no rows as well: as many do not listen.)
struct UntilThrough<R>(R);

impl<R: Read> Read for UntilThrough<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self.0.read(to) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
            read => read,
        }
    }
}

/// As many bytes of whole rows the kernel gives at once (bpf_seq_read()).
const AT_ONCE_BYTES: usize = 32 << 10;

/// Listening sockets are read by as many as there are at once: at each read(2) the kernel takes hold of all those
/// anew that share a port, of which any user may open thousands.
fn listening(iterator: impl Read) -> impl Read {
    BufReader::with_capacity(AT_ONCE_BYTES, UntilThrough(iterator))
}

/// Hands over each row as it is read.
fn each_row<T: Plain>(mut from: impl Read, mut take: impl FnMut(T)) -> io::Result<()> {
    let mut bytes = vec![0; size_of::<T>()];
    while read_row(&mut from, &mut bytes)? {
        take(from_bytes(&bytes));
    }
    Ok(())
}

fn open(programs: &Programs, program: &str) -> io::Result<File> {
    let fd = programs.program(program).expect("the iterators are in every set that reads");
    // SAFETY: an open program; no options are passed.
    let link = unsafe {
        libbpf_sys::bpf_link_create(fd.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, std::ptr::null())
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    // SAFETY: an open link.
    let iter = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if iter < 0 {
        return Err(io::Error::from_raw_os_error(-iter));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(iter) })
}

/// Hands each row of an iterator to `take`, read `by` its kind.
fn iterate<T: Plain, R: Read>(
    programs: &Programs,
    program: &str,
    by: impl FnOnce(File) -> R,
    take: impl FnMut(T),
) -> Result<()> {
    let through = open(programs, program).and_then(|iterator| each_row(by(iterator), take));
    through.map_err(|source| Error::Read { what: format!("sockets by {program}"), source })
}

/// Every listening TCP socket of the calling thread's network namespace.
pub fn listeners(programs: &Programs) -> Result<Vec<tg_listener_row>> {
    let mut rows = Vec::new();
    iterate(programs, "listeners", listening, |row| rows.push(row))?;
    Ok(in_order(rows))
}

/// Each socket once, in an order that stays. One that begins to listen between two reads may be shown twice, and
/// before Linux 6.16 others when one begins or closes.
fn in_order(mut rows: Vec<tg_listener_row>) -> Vec<tg_listener_row> {
    rows.sort_by_key(|row| (row.port, row.is_ipv6, row.addr, row.socket_cookie));
    rows.dedup_by_key(|row| row.socket_cookie);
    rows
}

/// The sockets that a look has found, and those that it misses and the one before had: an iterator may pass one
/// over while another closes (before Linux 6.16), and what is kept of it is not to go for that.
#[must_use]
pub fn still_there(before: &[tg_listener_row], now: &[tg_listener_row]) -> Vec<tg_listener_row> {
    let found: BTreeSet<u64> = now.iter().map(|row| row.socket_cookie).collect();
    let missed = before.iter().filter(|row| !found.contains(&row.socket_cookie));
    now.iter().chain(missed).copied().collect()
}

/// As [`listeners`], by two looks where there was none before.
pub fn listeners_by_two_looks(programs: &Programs) -> Result<Vec<tg_listener_row>> {
    let first = listeners(programs)?;
    Ok(still_there(&first, &listeners(programs)?))
}

/// Has listeners that are guarded, and stood before us, ask about their SYN/ACKs (Linux 6.12).
pub fn mark_speaking(programs: &Programs) -> Result<()> {
    iterate(programs, "speaking_listeners", listening, drop::<tg_listener_row>)
}

/// Hands over the half-open requests whose reservation is older than their guard allows, while its
/// places are short: each as it is read, for it may complete at any moment.
pub fn stale_requests(programs: &Programs, take: impl FnMut(tg_request_row)) -> Result<()> {
    iterate(programs, "stale_requests", |iterator| iterator, take)
}

/// Who waits inside an application, by guard; guards for which nobody does are left out. Every socket of the host is
/// walked for it.
pub fn waiting_inside(programs: &Programs) -> Result<BTreeMap<u32, tg_inside>> {
    let mut inside = BTreeMap::<u32, tg_inside>::new();
    iterate(programs, "waiting_inside", BufReader::new, |row: tg_inside_row| {
        let count = inside.entry(row.guard).or_default();
        count.unanswered += 1;
        count.unread += row.is_unread;
        count.gone += row.is_gone;
    })?;
    Ok(inside)
}

impl tg_listener_row {
    /// The address that the socket is bound to. One of IPv6 that is bound to an IPv4-mapped address, as a
    /// JVM binds to IPv4 ones, serves IPv4 alone.
    pub fn address(&self) -> std::net::IpAddr {
        address::either(self.is_ipv6 != 0, &self.addr).to_canonical()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel answers, one after the other; nothing is the end.
    struct Answers(Vec<io::Result<&'static [u8]>>);

    impl Read for Answers {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Ok(0);
            }
            let bytes = self.0.remove(0)?;
            to[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    const ROWS: [&[u8]; 2] = [b"abcd", b"efgh"];

    #[test]
    fn a_socket_is_gone_when_a_second_look_misses_it() {
        let row = |socket_cookie| tg_listener_row { socket_cookie, ..Default::default() };
        let there = |before: &[tg_listener_row], now: &[tg_listener_row]| -> Vec<u64> {
            still_there(before, now).iter().map(|row| row.socket_cookie).collect()
        };
        assert_eq!(there(&[row(1), row(2)], &[row(2), row(3)]), [2, 3, 1]);
        assert_eq!(there(&[row(2), row(3)], &[row(2), row(3)]), [2, 3]);
    }

    #[test]
    fn a_socket_that_is_shown_twice_is_one() {
        let row = |socket_cookie| tg_listener_row { socket_cookie, ..Default::default() };
        let cookies: Vec<u64> =
            in_order([7, 8, 7].map(row).into()).iter().map(|row| row.socket_cookie).collect();
        assert_eq!(cookies, [7, 8]);
    }

    /// An iterator, of which each read(2) gives as many whole rows as are asked for.
    struct Rows {
        left: usize,
        reads: usize,
    }

    impl Read for &mut Rows {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let rows = self.left.min(to.len() / size_of::<tg_listener_row>());
            self.left -= rows;
            match rows * size_of::<tg_listener_row>() {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                bytes => Ok(bytes),
            }
        }
    }

    #[test]
    fn listening_sockets_are_read_by_the_hundred_until_they_are_through() {
        let (mut rows, mut found) = (Rows { left: 1000, reads: 0 }, 0);
        each_row(listening(&mut rows), |_: tg_listener_row| found += 1).unwrap();
        assert_eq!((found, rows.left), (1000, 0));
        assert!(rows.reads <= 4, "{} reads", rows.reads);
    }

    #[test]
    fn who_is_to_ask_once_more_does() {
        let fails = |kind: io::ErrorKind| -> io::Result<&'static [u8]> { Err(kind.into()) };
        let again = || fails(io::ErrorKind::WouldBlock);
        let broken = fails(io::ErrorKind::PermissionDenied);
        let said = [again(), again(), Ok(ROWS[0]), again(), Ok(ROWS[1]), broken];
        let mut answers = Answers(said.into());
        let mut row = [0; 4];
        for expected in ROWS {
            assert!(read_row(&mut answers, &mut row).unwrap());
            assert_eq!(&row[..], expected);
        }
        let told = read_row(&mut answers, &mut row).unwrap_err();
        assert_eq!(told.kind(), io::ErrorKind::PermissionDenied);
        assert!(!read_row(&mut answers, &mut row).unwrap());
    }
}
