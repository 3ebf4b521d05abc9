// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's TCP sockets, read by BPF iterators: they show both queues of a listening
//! socket, where sock_diag shows one.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::mem::zeroed;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{MsgFlags, SockProtocol, recv};

use crate::address;
use crate::error::{Error, Result};
use crate::netlink::{self, HEADER_BYTES, NLM_F_DUMP, NLM_F_REQUEST, NLMSG_DONE, NLMSG_ERROR};
use crate::plain::{Plain, bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::{tg_listener_row, tg_request_row};
use tidegate_policy::raw::tg_tuple;

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

/// Hands each row of an iterator to `take`, as it is read, until that has had enough.
fn iterate<T: Plain>(
    programs: &Programs,
    program: &str,
    mut take: impl FnMut(T) -> ControlFlow<()>,
) -> Result<()> {
    let fail = |source| Error::Read { what: format!("sockets by {program}"), source };
    let fd = programs.program(program).expect("the iterators are in every set that reads");
    // SAFETY: an open program; no options are passed.
    let link = unsafe {
        libbpf_sys::bpf_link_create(fd.as_raw_fd(), 0, libbpf_sys::BPF_TRACE_ITER, std::ptr::null())
    };
    if link < 0 {
        return Err(fail(io::Error::from_raw_os_error(-link)));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let link = unsafe { OwnedFd::from_raw_fd(link) };
    // SAFETY: an open link.
    let iter = unsafe { libbpf_sys::bpf_iter_create(link.as_raw_fd()) };
    if iter < 0 {
        return Err(fail(io::Error::from_raw_os_error(-iter)));
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let mut file = unsafe { File::from_raw_fd(iter) };
    let mut bytes = vec![0; size_of::<T>()];
    // A row at a time: the kernel walks no further than what is asked for.
    while read_row(&mut file, &mut bytes).map_err(fail)? {
        if take(from_bytes(&bytes)).is_break() {
            break;
        }
    }
    Ok(())
}

/// The iterators of listening sockets end with an empty row.
fn until_through(
    mut take: impl FnMut(tg_listener_row),
) -> impl FnMut(tg_listener_row) -> ControlFlow<()> {
    move |row| {
        if row.socket_cookie == 0 {
            return ControlFlow::Break(());
        }
        take(row);
        ControlFlow::Continue(())
    }
}

/// Every listening TCP socket of the calling thread's network namespace.
pub fn listeners(programs: &Programs) -> Result<Vec<tg_listener_row>> {
    let mut rows = Vec::new();
    iterate(programs, "listeners", until_through(|row| rows.push(row)))?;
    rows.sort_by_key(|row| (row.port, row.is_ipv6, row.addr, row.socket_cookie));
    Ok(rows)
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
    iterate(programs, "speaking_listeners", until_through(drop))
}

/// Hands over the half-open requests whose reservation is older than their guard allows, while its
/// places are short: each as it is read, for it may complete at any moment.
pub fn stale_requests(programs: &Programs, mut take: impl FnMut(tg_request_row)) -> Result<()> {
    iterate(programs, "stale_requests", |row| {
        take(row);
        ControlFlow::Continue(())
    })
}

impl tg_listener_row {
    /// The address that the socket is bound to. One of IPv6 that is bound to an IPv4-mapped address, as a
    /// JVM binds to IPv4 ones, serves IPv4 alone.
    pub fn address(&self) -> std::net::IpAddr {
        address::either(self.is_ipv6 != 0, &self.addr).to_canonical()
    }
}

/// linux/sock_diag.h
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const SOCK_DESTROY: u16 = 21;
/// linux/netlink.h
const NLM_F_ACK: u16 = 4;
/// linux/tcp_states.h: what sock_diag says of a half-open request.
const TCP_SYN_RECV: u8 = 3;

/// linux/inet_diag.h, struct inet_diag_req_v2, behind a netlink header.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    length: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    port_id: u32,
    family: u8,
    protocol: u8,
    ext: u8,
    pad: u8,
    states: u32,
    sport: u16,
    dport: u16,
    src: [u32; 4],
    dst: [u32; 4],
    interface: u32,
    cookie: [u32; 2],
}

// SAFETY: integers in C's layout; every field stands at its own alignment without a gap.
unsafe impl Plain for Request {}

/// Removes a half-open request, as `ss --kill` would (CONFIG_INET_DIAG_DESTROY). The client
/// learns of it by RST when it sends its ACK.
///
/// Without the cookie the kernel would take the listening socket for a request that is gone. One that
/// has completed goes on as a connection with the same cookie, and SOCK_DESTROY heeds no state: so it
/// is looked at just before. A client whose ACK comes in these microseconds is reset, as one whose ACK
/// comes behind them.
///
/// # Errors
/// The kernel's; `NotFound` where it is no request any more.
pub fn destroy_request(row: &tg_request_row) -> io::Result<()> {
    let which =
        Which { tuple: &row.tuple, bound_ifindex: row.bound_ifindex, cookie: row.socket_cookie };
    let answer = ask(SOCK_DIAG_BY_FAMILY, 0, which)?;
    // struct inet_diag_msg: the family, and the state.
    if answer.get(HEADER_BYTES + 1) != Some(&TCP_SYN_RECV) {
        return Err(io::ErrorKind::NotFound.into());
    }
    destroy(which)
}

/// One socket, as sock_diag is asked for it.
#[derive(Clone, Copy)]
pub(crate) struct Which<'a> {
    /// Packets that come to it have this.
    pub tuple: &'a tg_tuple,
    /// The interface that it is bound to, by an option, a VRF or an address that only that has; 0: none.
    /// The kernel finds no bound socket without (`inet_sk_bound_dev_eq()`).
    pub bound_ifindex: u32,
    /// Where it has another cookie than this one the kernel does nothing, and says so.
    pub cookie: u64,
}

/// Removes a socket.
pub(crate) fn destroy(which: Which<'_>) -> io::Result<()> {
    ask(SOCK_DESTROY, NLM_F_ACK, which).map(drop)
}

/// Why no socket can be removed on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unremovable {
    /// It has no sock_diag for TCP: its module is not there, or not loaded by itself.
    NoModule,
    /// It was built without CONFIG_INET_DIAG_DESTROY.
    NotBuilt,
}

impl Unremovable {
    /// By what was said to who asks for a list, and to who removes a socket that nobody has: that it is not there is
    /// how a kernel answers that could.
    fn by(listed: &io::Result<()>, removed: &io::Result<()>) -> Option<Self> {
        let errno = |said: &io::Result<()>| said.as_ref().err().and_then(io::Error::raw_os_error);
        match (errno(listed), errno(removed)) {
            (Some(libc::ENOENT | libc::EPROTONOSUPPORT), _) => Some(Unremovable::NoModule),
            (_, Some(libc::EOPNOTSUPP)) => Some(Unremovable::NotBuilt),
            _ => None,
        }
    }
}

/// Why sockets cannot be removed here, if they cannot: [`destroy_request`] would fail without a word.
pub fn unremovable() -> Option<Unremovable> {
    let tuple = &tg_tuple::default();
    let nobody = Which { tuple, bound_ifindex: 0, cookie: 0 };
    // Of sockets in no state: an empty list, for which none is walked.
    let listed = ask_of(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, 0, nobody).map(drop);
    Unremovable::by(&listed, &destroy(nobody))
}

fn ask(kind: u16, flags: u16, which: Which<'_>) -> io::Result<Vec<u8>> {
    ask_of(kind, flags, u32::MAX, which)
}

/// The same of sockets in some states, a bit each.
fn ask_of(kind: u16, flags: u16, states: u32, which: Which<'_>) -> io::Result<Vec<u8>> {
    let Which { tuple, bound_ifindex, cookie } = which;
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut request: Request = unsafe { zeroed() };
    request.kind = kind;
    request.flags = NLM_F_REQUEST | flags;
    request.family = if tuple.is_ipv6 != 0 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    request.protocol = libc::IPPROTO_TCP as u8;
    request.states = states;
    // The server's side is the local one.
    request.sport = tuple.dport;
    request.dport = tuple.sport;
    request.src = tuple.daddr;
    request.dst = tuple.saddr;
    request.interface = bound_ifindex;
    request.cookie = [cookie as u32, (cookie >> 32) as u32];
    let netlink = netlink::ask(SockProtocol::NetlinkSockDiag, bytes_of(&request).to_vec())?;
    let mut answer = vec![0; 1024];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    if length < HEADER_BYTES + 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let kind = u16::from_ne_bytes([answer[4], answer[5]]);
    // They carry the negative errno behind their header; that of an ACK, or of a list that is whole, is 0.
    let errno = i32::from_ne_bytes(answer[16..20].try_into().expect("four bytes"));
    if matches!(kind, NLMSG_ERROR | NLMSG_DONE) && errno != 0 {
        return Err(io::Error::from_raw_os_error(-errno));
    }
    Ok(answer)
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
    fn why_sockets_cannot_be_removed_is_told_by_what_the_kernel_says() {
        let said = |errno: i32| Err(io::Error::from_raw_os_error(errno));
        for (listed, removed, expected) in [
            (Ok(()), said(libc::ENOENT), None),
            // Who may not remove any is told so where it matters.
            (Ok(()), said(libc::EPERM), None),
            (Ok(()), said(libc::EOPNOTSUPP), Some(Unremovable::NotBuilt)),
            (said(libc::ENOENT), said(libc::ENOENT), Some(Unremovable::NoModule)),
            (said(libc::EPROTONOSUPPORT), said(libc::EPROTONOSUPPORT), Some(Unremovable::NoModule)),
            (said(libc::EMFILE), said(libc::EMFILE), None),
        ] {
            assert_eq!(Unremovable::by(&listed, &removed), expected, "{listed:?}, {removed:?}");
        }
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
