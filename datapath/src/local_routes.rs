// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which addresses are this host's own, as the programs know them. bpf_fib_lookup() says of what has no route, and of all
//! that comes in where nothing is forwarded, what it says of the host's own.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libbpf_rs::{MapCore, MapFlags};

use crate::addresses;
use crate::control;
use crate::dump::{self, Listed};
use crate::error::{Error, Result, map_error};
use crate::netlink::{HEADER_BYTES, bytes_in};
use crate::network::Network;
use crate::networks::key_of;
use crate::plain::bytes_of;
use crate::programs::Programs;
use crate::raw::*;
use crate::route::{ROUTE_BYTES, RTA_DST, RTM_GETROUTE, RTM_NEWROUTE, RTN_LOCAL, TYPE_AT};

pub(crate) const MAP: &str = "local_routes";
/// Old ones go when new ones have come: the map has room for both.
const MOST: usize = TG_LOCAL_ROUTES as usize / 2;

// linux/rtnetlink.h, struct rtmsg: where its parts stand.
const FAMILY_AT: usize = 0;
const BITS_AT: usize = 1;
const TABLE_AT: usize = 4;
const RT_TABLE_LOCAL: u8 = 255;

/// The network that a message says is routed to this host. What other tables have for every address is for packets that
/// a firewall has marked (TPROXY), and makes nothing the host's own.
fn network_in(message: &[u8]) -> Option<Network> {
    let (route, attributes) = message.get(HEADER_BYTES..)?.split_at_checked(ROUTE_BYTES)?;
    let (family, bits, table) = (route[FAMILY_AT], route[BITS_AT], route[TABLE_AT]);
    if route[TYPE_AT] != RTN_LOCAL || bits == 0 && table != RT_TABLE_LOCAL {
        return None;
    }
    let address = match bytes_in(attributes, RTA_DST) {
        Some(bytes) => addresses::address(family, bytes)?,
        None => any(family, bits)?,
    };
    Some(Network { address, bits })
}

/// Every address of a family: it is not named.
fn any(family: u8, bits: u8) -> Option<IpAddr> {
    match i32::from(family) {
        _ if bits != 0 => None,
        libc::AF_INET => Some(Ipv4Addr::UNSPECIFIED.into()),
        libc::AF_INET6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

/// Those of a family, of which a router has a million others: the kernel is to leave these out. The tables are all, as a
/// VRF and a rule have their own.
fn question(family: libc::c_int) -> Vec<u8> {
    let mut question = dump::question(RTM_GETROUTE, ROUTE_BYTES);
    question[HEADER_BYTES + FAMILY_AT] = family as u8;
    question[HEADER_BYTES + TYPE_AT] = RTN_LOCAL;
    question
}

/// All networks that are routed to this host: its addresses, 127.0.0.0/8, and what it has of others (AnyIP).
///
/// # Errors
/// The kernel's.
pub fn all() -> Result<BTreeSet<Network>> {
    let listed = Listed { kind: RTM_NEWROUTE, read: network_in };
    let fail = |source: io::Error| Error::Read { what: "the kernel's routes".to_owned(), source };
    let mut all = listed.all(&question(libc::AF_INET)).map_err(fail)?;
    all.extend(listed.all(&question(libc::AF_INET6)).map_err(fail)?);
    Ok(all.into_iter().collect())
}

/// As tg_local_owner() has it.
fn key(network: &Network) -> tg_network {
    key_of(network, 0, 0)
}

/// Tells the programs that these are this host's, and nothing else.
///
/// # Errors
/// What there is no room for; what they knew before they know still.
pub fn write(programs: &Programs, networks: &BTreeSet<Network>) -> Result<()> {
    if networks.len() > MOST {
        let what = "networks of this host's own";
        return Err(Error::Limit { what, asked: networks.len(), limit: MOST });
    }
    let map = programs.map(MAP);
    let wanted: BTreeSet<Vec<u8>> = networks.iter().map(|n| bytes_of(&key(n)).to_vec()).collect();
    let standing: BTreeSet<Vec<u8>> = map.keys().collect();
    for new in wanted.difference(&standing) {
        map.update(new, bytes_of(&1_u32), MapFlags::ANY).map_err(map_error(MAP))?;
    }
    know(programs, true)?;
    for gone in standing.difference(&wanted) {
        map.delete(gone).map_err(map_error(MAP))?;
    }
    Ok(())
}

/// Tells them that nobody knows: they take for this host's whatever it does not forward.
///
/// # Errors
/// The kernel's.
pub fn forget(programs: &Programs) -> Result<()> {
    know(programs, false)
}

/// Whether they take this address for the host's own; where nobody knows, any.
///
/// # Errors
/// The kernel's.
pub fn takes(programs: &Programs, address: IpAddr) -> Result<bool> {
    let known = control::read(programs)?.knows_local != 0;
    let key = key(&Network::from(address));
    let of = |found: Option<Vec<u8>>| !known || found.is_some();
    programs.map(MAP).lookup(bytes_of(&key), MapFlags::ANY).map(of).map_err(map_error(MAP))
}

fn know(programs: &Programs, knows_local: bool) -> Result<()> {
    let mut control = control::read(programs)?;
    control.knows_local = knows_local.into();
    control::write(programs, &control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dump::{attribute, message};

    const RTN_BROADCAST: u8 = 3;

    /// A route with these words at its beginning.
    fn told(family: i32, bits: u8, table: u8, kind: u8, to: Option<&[u8]>) -> Option<String> {
        let mut body = vec![0; ROUTE_BYTES];
        (body[FAMILY_AT], body[BITS_AT]) = (family as u8, bits);
        (body[TABLE_AT], body[TYPE_AT]) = (table, kind);
        body.extend(to.map_or(Vec::new(), |bytes| attribute(RTA_DST, bytes)));
        network_in(&message(RTM_NEWROUTE, 0, &body)).map(|network| network.to_string())
    }

    #[test]
    fn a_network_that_is_routed_here_is_told_whatever_table_has_it() {
        let to = Some(&[192, 0, 2, 0][..]);
        for table in [RT_TABLE_LOCAL, 254, 7] {
            let found = told(libc::AF_INET, 24, table, RTN_LOCAL, to);
            assert_eq!(found.as_deref(), Some("192.0.2.0/24"), "table {table}");
        }
        let mut v6 = [0; 16];
        v6[..2].copy_from_slice(&[0xfd, 7]);
        let found = told(libc::AF_INET6, 128, RT_TABLE_LOCAL, RTN_LOCAL, Some(&v6));
        assert_eq!(found.as_deref(), Some("fd07::/128"));
    }

    /// The kernel may tell more than it was asked for.
    #[test]
    fn what_is_not_routed_here_is_none_of_the_hosts() {
        let to = Some(&[192, 0, 2, 255][..]);
        assert_eq!(told(libc::AF_INET, 32, RT_TABLE_LOCAL, RTN_BROADCAST, to), None);
        assert_eq!(told(libc::AF_INET, 32, RT_TABLE_LOCAL, RTN_LOCAL, None), None, "it is cut");
        assert_eq!(told(libc::AF_BRIDGE, 32, RT_TABLE_LOCAL, RTN_LOCAL, to), None);
        assert_eq!(network_in(&[0; HEADER_BYTES]), None);
    }

    #[test]
    fn every_address_is_the_hosts_only_where_its_own_table_says_so() {
        for (family, all) in [(libc::AF_INET, "0.0.0.0/0"), (libc::AF_INET6, "::/0")] {
            let own = told(family, 0, RT_TABLE_LOCAL, RTN_LOCAL, None);
            assert_eq!(own.as_deref(), Some(all));
            assert_eq!(told(family, 0, 100, RTN_LOCAL, None), None, "of what is marked");
        }
    }

    #[test]
    fn loopbacks_network_is_this_hosts() {
        assert!(all().unwrap().contains(&"127.0.0.0/8".parse().unwrap()));
    }
}
