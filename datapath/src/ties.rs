// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interface is another's master, and which stands on another, asked by rtnetlink: sysfs tells of the
//! namespace that it was mounted in.

use std::collections::BTreeMap;
use std::io;

use crate::dump::{self, Listed};
use crate::netlink::{HEADER_BYTES, word, word_in};

// linux/rtnetlink.h and linux/if_link.h.
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_EXT_MASK: u16 = 29;
/// Where `IFLA_LINK` is an index of another namespace's.
const IFLA_LINK_NETNSID: u16 = 37;
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

/// What an interface has to do with others of its namespace, by their indexes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Ties {
    /// The one that it is a port or slave of.
    pub master: Option<u32>,
    /// The one that it stands on, or a veth's other end.
    pub below: Option<u32>,
}

/// The interface that a message is about, and its ties.
fn ties_in(link: &[u8]) -> Option<(u32, Ties)> {
    let attributes = link.get(HEADER_BYTES + LINK_BYTES..)?;
    let is_here = word_in(attributes, IFLA_LINK_NETNSID).is_none();
    let ties = Ties {
        master: word_in(attributes, IFLA_MASTER),
        below: word_in(attributes, IFLA_LINK).filter(|_| is_here),
    };
    Some((word(link, HEADER_BYTES + 4)?, ties))
}

/// Those of all interfaces.
///
/// # Errors
/// The kernel's.
pub(crate) fn all() -> io::Result<BTreeMap<u32, Ties>> {
    let listed = Listed { kind: RTM_NEWLINK, read: ties_in };
    Ok(listed.all(&question())?.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{attribute, message};

    /// An interface with a name of five bytes, and with these words.
    fn told(index: u32, words: &[(u16, u32)]) -> Option<(u32, Ties)> {
        const IFLA_IFNAME: u16 = 3;
        let mut body = vec![0; LINK_BYTES];
        body[4..8].copy_from_slice(&index.to_ne_bytes());
        body.extend(attribute(IFLA_IFNAME, b"eth0\0"));
        for (kind, word) in words {
            body.extend(attribute(*kind, &word.to_ne_bytes()));
        }
        ties_in(&message(RTM_NEWLINK, 0, &body))
    }

    #[test]
    fn an_interface_is_told_with_its_master_where_it_has_one() {
        assert_eq!(told(1, &[]), Some((1, Ties::default())));
        let port = Ties { master: Some(7), below: None };
        assert_eq!(told(2, &[(IFLA_MASTER, 7)]), Some((2, port)));
        assert_eq!(ties_in(&[0; HEADER_BYTES]), None);
    }

    /// There its index may be another interface's of this one.
    #[test]
    fn what_an_interface_stands_on_is_told_unless_that_is_in_another_namespace() {
        let above = Ties { master: None, below: Some(7) };
        assert_eq!(told(2, &[(IFLA_LINK, 7)]), Some((2, above)));
        let elsewhere = told(2, &[(IFLA_LINK, 7), (IFLA_LINK_NETNSID, 0)]);
        assert_eq!(elsewhere, Some((2, Ties::default())));
    }

    #[test]
    fn loopback_has_no_master() {
        let loopback = nix::net::if_::if_nametoindex("lo").unwrap();
        assert_eq!(all().unwrap().get(&loopback), Some(&Ties::default()));
    }
}
