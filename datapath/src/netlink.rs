// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages by netlink (linux/netlink.h): a header, a part that each kind has, and attributes behind it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

pub(crate) const HEADER_BYTES: usize = 16;
pub(crate) const NLMSG_ERROR: u16 = 2;
pub(crate) const NLMSG_DONE: u16 = 3;
pub(crate) const NLM_F_REQUEST: u16 = 1;
pub(crate) const NLM_F_DUMP: u16 = 0x300;

/// A question of this kind, whose own part is of so many bytes, all 0. [`ask`] says how long it is.
pub(crate) fn question(kind: u16, flags: u16, own_bytes: usize) -> Vec<u8> {
    let mut message = vec![0; HEADER_BYTES + own_bytes];
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
    message
}

fn open(protocol: SockProtocol) -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol)?)
}

fn put(netlink: &OwnedFd, mut question: Vec<u8>) -> io::Result<()> {
    let length = question.len() as u32;
    question[..4].copy_from_slice(&length.to_ne_bytes());
    send(netlink.as_raw_fd(), &question, MsgFlags::empty())?;
    Ok(())
}

/// Puts a question to the kernel, which answers on this socket.
pub(crate) fn ask(protocol: SockProtocol, question: Vec<u8>) -> io::Result<OwnedFd> {
    let netlink = open(protocol)?;
    put(&netlink, question)?;
    Ok(netlink)
}

/// The same of a question for many things, of which the kernel picks out those that it names: unless it is to, it
/// tells of all.
pub(crate) fn ask_strictly(protocol: SockProtocol, question: Vec<u8>) -> io::Result<OwnedFd> {
    const NETLINK_GET_STRICT_CHK: libc::c_int = 12;
    let netlink = open(protocol)?;
    let on: libc::c_int = 1;
    // SAFETY: the value is an int, as this option wants it, and outlives the call.
    let set = unsafe {
        libc::setsockopt(
            netlink.as_raw_fd(),
            libc::SOL_NETLINK,
            NETLINK_GET_STRICT_CHK,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    put(&netlink, question)?;
    Ok(netlink)
}

/// The one message that answers a question.
pub(crate) fn answer(protocol: SockProtocol, question: Vec<u8>) -> io::Result<Vec<u8>> {
    let netlink = ask(protocol, question)?;
    let mut answer = vec![0; 4096];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// The error that a message tells: the negative errno behind its header. That of an ACK, or of a list that is whole,
/// is 0.
pub(crate) fn error_in(message: &[u8]) -> Option<io::Error> {
    let errno = match half(message, 4)? {
        NLMSG_ERROR | NLMSG_DONE => word(message, HEADER_BYTES)? as i32,
        _ => 0,
    };
    (errno < 0).then(|| io::Error::from_raw_os_error(-errno))
}

pub(crate) fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// What the first attribute of this kind holds.
pub(crate) fn bytes_in(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let (Some(bytes), Some(kind)) = (half(attributes, 0), half(attributes, 2)) {
        if kind == wanted {
            return attributes.get(4..bytes.into());
        }
        let next = usize::from(bytes).next_multiple_of(4).max(4);
        attributes = attributes.get(next..).unwrap_or_default();
    }
    None
}

/// The same, of one that holds a word.
pub(crate) fn word_in(attributes: &[u8], wanted: u16) -> Option<u32> {
    word(bytes_in(attributes, wanted)?, 0)
}
