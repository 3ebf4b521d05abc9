// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's TCP sockets, read by BPF iterators: they show both queues of a listening
//! socket, where sock_diag shows one.

use std::fs::File;
use std::io::{self, Read};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

use crate::address;
use crate::error::{Error, Result};
use crate::plain::{Plain, bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::{tg_listener_row, tg_request_row};
use tidegate_policy::raw::tg_tuple;

/// Rows of an iterator, until `enough` says so of one, which is left out.
fn iterate<T: Plain>(
    programs: &Programs,
    program: &str,
    enough: impl Fn(&T) -> bool,
) -> Result<Vec<T>> {
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
    let (mut rows, mut bytes) = (Vec::new(), vec![0; size_of::<T>()]);
    // A row at a time: the kernel walks no further than what is asked for.
    loop {
        match file.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(rows),
            Err(e) => return Err(fail(e)),
        }
        let row = from_bytes(&bytes);
        if enough(&row) {
            return Ok(rows);
        }
        rows.push(row);
    }
}

/// Every listening TCP socket of the calling thread's network namespace.
pub fn listeners(programs: &Programs) -> Result<Vec<tg_listener_row>> {
    let through = |row: &tg_listener_row| row.socket_cookie == 0;
    let mut rows = iterate(programs, "listeners", through)?;
    rows.sort_by_key(|row| (row.port, row.is_ipv6, row.addr, row.socket_cookie));
    Ok(rows)
}

/// Has listeners that are guarded, and stood before us, ask about their SYN/ACKs (Linux 6.12).
pub fn mark_speaking(programs: &Programs) -> Result<()> {
    let through = |row: &tg_listener_row| row.socket_cookie == 0;
    iterate(programs, "speaking_listeners", through).map(drop)
}

/// Half-open requests whose reservation is older than their guard allows, while its
/// places are short.
pub fn stale_requests(programs: &Programs) -> Result<Vec<tg_request_row>> {
    iterate(programs, "stale_requests", |_| false)
}

impl tg_listener_row {
    /// The address that the socket is bound to.
    pub fn address(&self) -> std::net::IpAddr {
        address::either(self.is_ipv6 != 0, &self.addr)
    }
}

const SOCK_DESTROY: u16 = 21;
const NLM_F_REQUEST_ACK: u16 = 1 | 4;

/// linux/inet_diag.h, struct inet_diag_req_v2, behind a netlink header.
#[repr(C)]
#[derive(Clone, Copy)]
struct DestroyRequest {
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
unsafe impl Plain for DestroyRequest {}

/// Removes a half-open request, as `ss --kill` would (CONFIG_INET_DIAG_DESTROY). The client
/// learns of it by RST when it sends its ACK.
pub fn destroy_request(row: &tg_request_row) -> io::Result<()> {
    destroy(&row.tuple, None)
}

/// Removes the socket to which packets with this tuple come: the one with this cookie, or any.
pub(crate) fn destroy(tuple: &tg_tuple, cookie: Option<u64>) -> io::Result<()> {
    let netlink = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkSockDiag,
    )?;
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut request: DestroyRequest = unsafe { zeroed() };
    request.length = size_of::<DestroyRequest>() as u32;
    request.kind = SOCK_DESTROY;
    request.flags = NLM_F_REQUEST_ACK;
    request.family = if tuple.is_ipv6 != 0 { libc::AF_INET6 } else { libc::AF_INET } as u8;
    request.protocol = libc::IPPROTO_TCP as u8;
    request.states = u32::MAX;
    // The server's side is the local one.
    request.sport = tuple.dport;
    request.dport = tuple.sport;
    request.src = tuple.daddr;
    request.dst = tuple.saddr;
    request.cookie = cookie.map_or([u32::MAX; 2], |c| [c as u32, (c >> 32) as u32]);
    send(netlink.as_raw_fd(), bytes_of(&request), MsgFlags::empty())?;
    let mut answer = [0u8; 256];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    if length < 20 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    // An NLMSG_ERROR carries the negative errno behind its header.
    match i32::from_ne_bytes(answer[16..20].try_into().expect("four bytes")) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(-errno)),
    }
}
