// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interface is another's master, asked by rtnetlink: sysfs tells of the namespace that it was
//! mounted in.

use std::collections::BTreeMap;
use std::io;

use crate::dump::{self, Listed};
use crate::netlink::{HEADER_BYTES, word, word_in};

// linux/rtnetlink.h and linux/if_link.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
/// Their counters would be most of the answer.
const RTEXT_FILTER_SKIP_STATS: u32 = 8;
/// struct ifinfomsg, with the index at its fourth byte.
const LINK_BYTES: usize = 16;

fn question() -> Vec<u8> {
    let mut message = dump::question(RTM_GETLINK, LINK_BYTES);
    message.extend(8_u16.to_ne_bytes());
    message.extend(IFLA_EXT_MASK.to_ne_bytes());
    message.extend(RTEXT_FILTER_SKIP_STATS.to_ne_bytes());
    message
}

/// The interface that a message is about and its master, where it has one.
fn master_in(link: &[u8]) -> Option<(u32, u32)> {
    let attributes = link.get(HEADER_BYTES + LINK_BYTES..)?;
    Some((word(link, HEADER_BYTES + 4)?, word_in(attributes, IFLA_MASTER)?))
}

/// The masters of all interfaces that have one, both by index.
///
/// # Errors
/// The kernel's.
pub(crate) fn all() -> io::Result<BTreeMap<u32, u32>> {
    let listed = Listed { kind: RTM_NEWLINK, read: master_in };
    Ok(listed.all(&question())?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{attribute, message};

    /// An interface with a name of five bytes, and with a master where that is not 0.
    fn link(index: u32, master: u32) -> Vec<u8> {
        const IFLA_IFNAME: u16 = 3;
        let mut body = vec![0; LINK_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
        if master != 0 {
            body.extend(attribute(IFLA_MASTER, &master.to_ne_bytes()));
        }
        message(RTM_NEWLINK, 0, &body)
    }

    #[test]
    fn an_interface_is_told_with_its_master_where_it_has_one() {
        let links = [link(1, 0), link(2, 7), link(7, 0), link(9, 7)];
        let masters: Vec<_> = links.iter().filter_map(|link| master_in(link)).collect();
        assert_eq!(masters, [(2, 7), (9, 7)]);
    }

    #[test]
    fn loopback_has_no_master() {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        assert!(!all().unwrap().contains_key(&loopback));
    }
}
