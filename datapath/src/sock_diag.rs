// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets by sock_diag: one looked at, one removed (SOCK_DESTROY).

use std::io;
use std::mem::zeroed;

use nix::sys::socket::SockProtocol;

use crate::netlink::{self, HEADER_BYTES, NLM_F_DUMP, NLM_F_REQUEST};
use crate::plain::{Plain, bytes_of};
use crate::raw::tg_request_row;
use tidegate_policy::raw::tg_tuple;

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
    let answer = netlink::answer(SockProtocol::NetlinkSockDiag, bytes_of(&request).to_vec())?;
    if answer.len() < HEADER_BYTES + 4 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match netlink::error_in(&answer) {
        Some(error) => Err(error),
        None => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
