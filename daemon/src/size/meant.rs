// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one guard of a port that is meant.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

use tidegate_datapath::configuration::Guarded;

use crate::failure::{Failure, Result};

/// Whether `address` names this guard: `0.0.0.0` and `::` are every address, as of a socket that is bound to them.
fn is_named(guarded: &Guarded, address: Option<IpAddr>) -> bool {
    match address {
        Some(address) if address.is_unspecified() => guarded.address.is_none(),
        Some(_) => guarded.address == address,
        None => true,
    }
}

/// The one guard of this port that is meant.
pub(super) fn guard_on(
    guards: &[(u32, Guarded)],
    port: u16,
    address: Option<IpAddr>,
) -> Result<(u32, Guarded)> {
    let found: Vec<&(u32, Guarded)> =
        listeners_on(guards, port).filter(|(_, g)| is_named(g, address)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => Err(not_guarded(guards, port, address)),
        _ => Err(Failure::argument(
            format!("port {port} has several guards"),
            format!("name one by --address: {}", addresses_on(guards, port).join(", ")),
        )),
    }
}

/// The guards on a port that are no paths.
fn listeners_on(guards: &[(u32, Guarded)], port: u16) -> impl Iterator<Item = &(u32, Guarded)> {
    guards.iter().filter(move |(_, g)| !g.is_path && g.port == port)
}

/// Their addresses, as they are named.
fn addresses_on(guards: &[(u32, Guarded)], port: u16) -> Vec<String> {
    let address = |g: &Guarded| g.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    listeners_on(guards, port).map(|(_, g)| address(g).to_string()).collect()
}

fn not_guarded(guards: &[(u32, Guarded)], port: u16, address: Option<IpAddr>) -> Failure {
    let addresses = addresses_on(guards, port);
    if let (Some(address), false) = (address, addresses.is_empty()) {
        return Failure::argument(
            format!("{address} has no guard of its own on port {port}"),
            format!("name one that has by --address: {}", addresses.join(", ")),
        );
    }
    let listeners = guards.iter().filter(|(_, g)| !g.is_path);
    let ports: BTreeSet<u16> = listeners.map(|(_, g)| g.port).collect();
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    match ports[..] {
        [] => Failure::argument(
            "no listener is guarded here, but paths to others'",
            "watch on the listener's host",
        ),
        _ => Failure::argument(
            format!("port {port} is not guarded"),
            format!("give one of those that are: {}", ports.join(", ")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::example::guards;

    #[test]
    fn of_several_guards_on_a_port_one_is_to_be_named() {
        let all = guards([None, Some("192.0.2.1"), Some("2001:db8::1")]);
        let on = |guards: &[(u32, Guarded)], address: Option<&str>| {
            let found = guard_on(guards, 443, address.map(|a| a.parse().unwrap()));
            found.map(|(index, _)| index).map_err(|failure| failure.to_string())
        };
        let several = "port 443 has several guards; name one by --address: ";
        assert_eq!(on(&all, None), Err(format!("{several}0.0.0.0, 192.0.2.1, 2001:db8::1")));
        assert_eq!(on(&all, Some("192.0.2.1")), Ok(1));
        assert_eq!((on(&all, Some("0.0.0.0")), on(&all, Some("::"))), (Ok(0), Ok(0)));
        assert_eq!(on(&all[2..], None), Ok(2), "it is the only one");
        let own = "has no guard of its own on port 443; name one that has by --address: ";
        assert_eq!(
            on(&all[1..], Some("0.0.0.0")),
            Err(format!("0.0.0.0 {own}192.0.2.1, 2001:db8::1"))
        );
        assert_eq!(on(&all[..1], Some("192.0.2.9")), Err(format!("192.0.2.9 {own}0.0.0.0")));
        let told = |guards: &[(u32, Guarded)]| {
            guard_on(guards, 80, None).err().map(|failure| failure.to_string())
        };
        let expected = "port 80 is not guarded; give one of those that are: 443";
        assert_eq!(told(&all), Some(expected.to_owned()), "each port once");
        let path = (0, Guarded { is_path: true, ..all[1].1.clone() });
        assert!(told(&[path]).is_some_and(|told| told.starts_with("no listener is guarded here")));
    }
}
