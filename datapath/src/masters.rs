// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interface is another's master, asked by rtnetlink: sysfs tells of the namespace that it was
//! mounted in.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, SockProtocol, recv};

use crate::netlink::{self, HEADER_BYTES, NLMSG_ERROR, half, word};

// linux/rtnetlink.h, linux/netlink.h and linux/if_link.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const NLMSG_DONE: u16 = 3;
const NLM_F_DUMP: u16 = 0x300;
/// Interfaces came or went meanwhile: one may be missing.
const NLM_F_DUMP_INTR: u16 = 0x10;
const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
/// Their counters would be most of the answer.
const RTEXT_FILTER_SKIP_STATS: u32 = 8;
/// struct ifinfomsg, with the index at its fourth byte.
const LINK_BYTES: usize = 16;
/// The kernel puts no more into one answer.
const ANSWER_BYTES: usize = 32 << 10;

/// What the kernel has told so far.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    masters: BTreeMap<u32, u32>,
    is_torn: bool,
}

fn question() -> Vec<u8> {
    let mut message = netlink::question(RTM_GETLINK, NLM_F_DUMP, LINK_BYTES);
    message.extend(8_u16.to_ne_bytes());
    message.extend(IFLA_EXT_MASK.to_ne_bytes());
    message.extend(RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    message
}

/// The interface that a message is about and its master, where it has one.
fn master_in(link: &[u8]) -> Option<(u32, u32)> {
    let attributes = link.get(HEADER_BYTES + LINK_BYTES..)?;
    Some((word(link, HEADER_BYTES + 4)?, netlink::word_in(attributes, IFLA_MASTER)?))
}

/// Takes in the messages of an answer; whether the last was among them.
fn take(mut answer: &[u8], told: &mut Told) -> io::Result<bool> {
    while let (Some(bytes), Some(kind), Some(flags)) =
        (word(answer, 0), half(answer, 4), half(answer, 6))
    {
        let bytes = bytes as usize;
        let message = answer.get(..bytes).filter(|message| message.len() >= HEADER_BYTES);
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        told.is_torn |= flags & NLM_F_DUMP_INTR != 0;
        match kind {
            NLMSG_DONE | NLMSG_ERROR => {
                let errno = word(message, HEADER_BYTES).unwrap_or(0) as i32;
                return if errno < 0 {
                    Err(io::Error::from_raw_os_error(-errno))
                } else {
                    Ok(true)
                };
            }
            RTM_NEWLINK => told.masters.extend(master_in(message)),
            _ => {}
        }
        answer = answer.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn once() -> io::Result<Told> {
    let netlink = netlink::ask(SockProtocol::NetlinkRoute, question())?;
    let (mut told, mut answer) = (Told::default(), vec![0; ANSWER_BYTES]);
    loop {
        let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
        if take(&answer[..length], &mut told)? {
            return Ok(told);
        }
    }
}

/// The masters of all interfaces that have one, both by index.
///
/// # Errors
/// The kernel's.
pub(crate) fn all() -> io::Result<BTreeMap<u32, u32>> {
    const TRIES: u32 = 4;
    let mut told = once()?;
    for _ in 1..TRIES {
        if !told.is_torn {
            break;
        }
        told = once()?;
    }
    Ok(told.masters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend([kind, flags].map(u16::to_ne_bytes).concat());
        message.extend([0_u8; 8]);
        message.extend(body);
        message.resize(message.len().next_multiple_of(4), 0);
        message
    }

    /// An interface with a name of five bytes, and with a master where that is not 0.
    fn link(index: u32, master: u32) -> Vec<u8> {
        const IFLA_IFNAME: u16 = 3;
        let mut body = vec![0; LINK_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body.extend([9, IFLA_IFNAME].map(u16::to_ne_bytes).concat());
        body.extend(b"eth0\0\0\0\0");
        if master != 0 {
            body.extend([8, IFLA_MASTER].map(u16::to_ne_bytes).concat());
            body.extend(master.to_ne_bytes());
        }
        message(RTM_NEWLINK, 0, &body)
    }

    fn taken(answers: &[Vec<u8>]) -> io::Result<(Told, bool)> {
        let mut told = Told::default();
        let is_through = take(&answers.concat(), &mut told)?;
        Ok((told, is_through))
    }

    #[test]
    fn an_interface_is_told_with_its_master_where_it_has_one() {
        let masters = BTreeMap::from([(2, 7), (9, 7)]);
        let links = [link(1, 0), link(2, 7), link(7, 0), link(9, 7)];
        let told = Told { masters, is_torn: false };
        assert_eq!(taken(&links).unwrap(), (told, false), "more may come");
    }

    #[test]
    fn the_last_message_says_how_it_ended() {
        let end = |kind, errno: i32| message(kind, 0, &errno.to_ne_bytes());
        assert!(taken(&[link(2, 7), end(NLMSG_DONE, 0), link(3, 7)]).unwrap().1);
        for kind in [NLMSG_DONE, NLMSG_ERROR] {
            let error = taken(&[end(kind, -1)]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        let torn = message(NLMSG_DONE, NLM_F_DUMP_INTR, &[0; 4]);
        assert!(taken(&[link(2, 7), torn]).unwrap().0.is_torn);
        let cut = link(2, 7);
        assert!(taken(&[cut[..cut.len() - 1].to_vec()]).is_err() && taken(&[vec![0; 16]]).is_err());
    }

    #[test]
    fn loopback_has_no_master() {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        assert!(!all().unwrap().contains_key(&loopback));
    }
}
