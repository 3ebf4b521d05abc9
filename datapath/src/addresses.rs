// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addresses of interfaces, asked by rtnetlink. getifaddrs() tells an IPv4 address with its label, which
//! need not be the interface's name: systemd-networkd takes any (`Label=`).

use std::io;
use std::net::IpAddr;

use crate::dump::{self, Listed};
use crate::netlink::{HEADER_BYTES, bytes_in, word};

// linux/rtnetlink.h and linux/if_addr.h.
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// struct ifaddrmsg, with the family at its first byte and the interface's index at its fourth.
const OWN_BYTES: usize = 8;

/// The address of these bytes; they may be of a family that is not TCP's.
pub(crate) fn address(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        libc::AF_INET6 => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
        _ => None,
    }
}

/// The interface that a message is about, and its address there. At an end of a tunnel `IFA_ADDRESS` is the
/// other end's, and elsewhere IPv6 has only that.
fn address_in(message: &[u8]) -> Option<(u32, IpAddr)> {
    let attributes = message.get(HEADER_BYTES + OWN_BYTES..)?;
    let own = bytes_in(attributes, IFA_LOCAL).or_else(|| bytes_in(attributes, IFA_ADDRESS))?;
    Some((word(message, HEADER_BYTES + 4)?, address(message[HEADER_BYTES], own)?))
}

/// All of every interface, each with the interface's index.
///
/// # Errors
/// The kernel's.
pub(crate) fn all() -> io::Result<Vec<(u32, IpAddr)>> {
    let listed = Listed { kind: RTM_NEWADDR, read: address_in };
    listed.all(&dump::question(RTM_GETADDR, OWN_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{attribute, message};

    const IFA_LABEL: u16 = 3;

    fn told(family: i32, attributes: &[Vec<u8>]) -> Option<(u32, IpAddr)> {
        let mut body = vec![0; OWN_BYTES];
        body[0] = family as u8;
        body[4..].copy_from_slice(&7_u32.to_ne_bytes());
        body.extend(attributes.concat());
        address_in(&message(RTM_NEWADDR, 0, &body))
    }

    #[test]
    fn an_address_is_its_interfaces_whatever_its_label() {
        let [own, peer] = [1, 2].map(|end| [192, 0, 2, end]);
        let label = attribute(IFA_LABEL, b"lo\0");
        let (first, second) = (attribute(IFA_ADDRESS, &own), attribute(IFA_LOCAL, &own));
        let found = Some((7, IpAddr::from(own)));
        assert_eq!(told(libc::AF_INET, &[first, second.clone(), label]), found);
        assert_eq!(told(libc::AF_INET, &[attribute(IFA_ADDRESS, &peer), second]), found);
    }

    #[test]
    fn an_ipv6_address_is_told_alone_or_with_the_other_ends() {
        let [own, peer] = [1, 2].map(|end| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        let found = Some((7, IpAddr::from(own)));
        assert_eq!(told(libc::AF_INET6, &[attribute(IFA_ADDRESS, &own)]), found);
        let both = [attribute(IFA_ADDRESS, &peer), attribute(IFA_LOCAL, &own)];
        assert_eq!(told(libc::AF_INET6, &both), found);
    }

    #[test]
    fn what_is_no_address_of_ip_is_none() {
        let bytes = attribute(IFA_LOCAL, &[9; 4]);
        for family in [libc::AF_INET6, libc::AF_BRIDGE] {
            assert_eq!(told(family, std::slice::from_ref(&bytes)), None);
        }
        assert_eq!(told(libc::AF_INET, &[]), None);
        assert_eq!(address_in(&[0; HEADER_BYTES]), None);
    }
}
