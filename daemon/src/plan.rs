// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interfaces are guarded, and at which hooks.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::{Hooks, Plan};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::*;
use tidegate_policy::raw::TG_ROOM_RESERVE;

use crate::failure::{Failure, Result};

/// Drivers of interfaces whose packets pass another, guarded one first.
const STACKED: [&str; 1] = ["802.1Q VLAN Support"];

/// The addresses that a guard's listening sockets are bound to; empty where none listens yet.
fn bound(guarded: &Guarded, listeners: &[tg_listener_row]) -> Vec<IpAddr> {
    match guarded.address {
        Some(address) => vec![address],
        None => listeners
            .iter()
            .filter(|row| row.port == u32::from(guarded.port))
            .map(tg_listener_row::address)
            .collect(),
    }
}

/// A path's packets only pass this host: its address is another's, and any interface may be the
/// one that they come in at.
fn may_forward(interface: &Interface) -> bool {
    !interface.loopback && !interface.addresses.is_empty()
}

fn carries(interface: &Interface, addresses: &[IpAddr]) -> bool {
    if interface.addresses.is_empty() {
        return false;
    }
    addresses.is_empty()
        || addresses.iter().any(|a| a.is_unspecified() || interface.addresses.contains(a))
}

/// An interface that has hardware behind it, by its driver's name.
fn is_virtual(interface: &Interface) -> bool {
    interface.loopback
        || matches!(interface.driver.as_str(), "" | "veth" | "bridge" | "bonding" | "tun" | "dummy")
}

fn hooks(interface: &Interface, guards: &[&Guarded]) -> Hooks {
    // Loopback has no driver: what is asked of the driver is decided at the IP entry.
    if interface.loopback {
        Hooks::Ip
    } else if guards.iter().any(|g| g.hook == TG_HOOK_DRIVER) {
        Hooks::DriverAndIp
    } else if !is_virtual(interface) && guards.iter().any(|g| g.hook == TG_HOOK_AUTO) {
        Hooks::DriverIfPossible
    } else {
        Hooks::Ip
    }
}

/// The interfaces by name, where the operator named them.
pub fn named<'a>(names: &[String], interfaces: &'a [Interface]) -> Result<Vec<&'a Interface>> {
    names
        .iter()
        .map(|name| {
            let found = interfaces.iter().find(|i| i.name == *name).ok_or_else(|| {
                let known: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
                Failure::argument(
                    format!("interface \"{name}\" is not here or not up"),
                    format!("name one of: {}", known.join(", ")),
                )
            })?;
            if !found.ethernet {
                return Err(Failure::argument(
                    format!("interface \"{name}\" does not carry Ethernet frames"),
                    "guard the interface below it",
                ));
            }
            Ok(found)
        })
        .collect()
}

fn own_address(guarded: &Guarded, interfaces: &[Interface]) -> Option<IpAddr> {
    guarded.address.filter(|own| interfaces.iter().any(|i| i.addresses.contains(own)))
}

/// What should be attached for these guards.
pub fn plan(
    guards: &[Guarded],
    names: &[String],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
) -> Result<Plan> {
    let chosen = if names.is_empty() {
        interfaces.iter().filter(|i| i.ethernet && !STACKED.contains(&i.driver.as_str())).collect()
    } else {
        named(names, interfaces)?
    };
    if let Some(own) = guards.iter().filter(|g| g.is_path).find_map(|g| own_address(g, interfaces))
    {
        return Err(Failure::argument(
            format!("[[path]] names {own}, which is this host's own address"),
            "make it a [[listener]]",
        ));
    }
    let only_paths = configuration::only_paths(guards);
    let mut plan = Plan { only_paths, ..Default::default() };
    for interface in chosen {
        let concerns = |g: &Guarded| match g.is_path {
            true => may_forward(interface),
            false => carries(interface, &bound(g, listeners)),
        };
        let here: Vec<&Guarded> =
            guards.iter().filter(|g| !names.is_empty() || concerns(g)).collect();
        if !here.is_empty() {
            plan.interfaces.insert(interface.index, (interface.into(), hooks(interface, &here)));
        }
    }
    plan.local_in = guards.iter().any(|g| g.hook == TG_HOOK_TCP || g.rules.room == TG_ROOM_RESERVE);
    Ok(plan)
}

/// The interfaces at which the ends of connections are decided, by index: all that carry any.
pub fn ends(names: &[String], interfaces: &[Interface]) -> Result<BTreeMap<u32, String>> {
    let chosen = if names.is_empty() {
        let carries_any = |i: &&Interface| {
            i.ethernet && !i.addresses.is_empty() && !STACKED.contains(&i.driver.as_str())
        };
        interfaces.iter().filter(carries_any).collect()
    } else {
        named(names, interfaces)?
    };
    Ok(chosen.into_iter().map(|i| (i.index, i.name.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, index: u32, driver: &str, addresses: &[&str]) -> Interface {
        Interface {
            name: name.to_owned(),
            index,
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            ethernet: true,
            loopback: name == "lo",
            driver: driver.to_owned(),
        }
    }

    fn host() -> Vec<Interface> {
        vec![
            interface("lo", 1, "", &["127.0.0.1", "::1"]),
            interface("eth0", 2, "ixgbe", &["192.0.2.1"]),
            interface("eth1", 3, "veth", &["198.51.100.1"]),
            interface("bare", 4, "ixgbe", &[]),
        ]
    }

    fn guarded(address: Option<&str>, hook: u32) -> Guarded {
        let address = address.map(|a| a.parse().unwrap());
        Guarded { address, port: 80, hook, ..Default::default() }
    }

    #[test]
    fn a_wildcard_stands_on_every_interface_with_an_address() {
        let plan = plan(&[guarded(None, TG_HOOK_AUTO)], &[], &host(), &[]).unwrap();
        let hooks: Vec<_> = plan.interfaces.iter().map(|(i, (_, h))| (*i, *h)).collect();
        assert_eq!(hooks, [(1, Hooks::Ip), (2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
    }

    #[test]
    fn an_address_stands_on_its_interface_only() {
        let plan =
            plan(&[guarded(Some("198.51.100.1"), TG_HOOK_DRIVER)], &[], &host(), &[]).unwrap();
        let hooks: Vec<_> = plan.interfaces.iter().map(|(i, (_, h))| (*i, *h)).collect();
        assert_eq!(hooks, [(3, Hooks::DriverAndIp)]);
    }

    #[test]
    fn a_path_stands_wherever_its_packets_may_come_in() {
        let path = |address| Guarded { is_path: true, ..guarded(Some(address), TG_HOOK_AUTO) };
        let found = plan(&[path("203.0.113.5")], &[], &host(), &[]).unwrap();
        let hooks: Vec<_> = found.interfaces.iter().map(|(i, (_, h))| (*i, *h)).collect();
        assert_eq!(hooks, [(2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
        assert!(found.only_paths);
        let both = [path("203.0.113.5"), guarded(None, TG_HOOK_AUTO)];
        assert!(!plan(&both, &[], &host(), &[]).unwrap().only_paths);
        let error = plan(&[path("192.0.2.1")], &[], &host(), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[[path]] names 192.0.2.1, which is this host's own address; make it a [[listener]]"
        );
    }

    #[test]
    fn a_missing_interface_is_told_with_those_that_are_there() {
        let names = ["eth9".to_owned()];
        let error = plan(&[guarded(None, TG_HOOK_AUTO)], &names, &host(), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "interface \"eth9\" is not here or not up; name one of: lo, eth0, eth1, bare"
        );
    }
}
