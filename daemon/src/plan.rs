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
        || interface.below.is_some()
        || matches!(interface.driver.as_str(), "" | "veth" | "bridge" | "bonding" | "tun" | "dummy")
}

/// The driver's place on a card is for what the card hands up as it came: it takes the tags of VLANs out
/// (rx-vlan-offload, which is on as a rule), and an answer from there would leave without.
fn hooks(interface: &Interface, interfaces: &[Interface], guards: &[&Guarded]) -> Hooks {
    let has_vlans = || interfaces.iter().any(|i| i.below.as_ref() == Some(&interface.name));
    // Loopback has no driver, and a VLAN none of its own: what is asked of the driver is decided at the IP
    // entry.
    if interface.loopback || interface.below.is_some() {
        Hooks::Ip
    } else if guards.iter().any(|g| g.hook == TG_HOOK_DRIVER) {
        Hooks::DriverAndIp
    } else if !is_virtual(interface)
        && !has_vlans()
        && guards.iter().any(|g| g.hook == TG_HOOK_AUTO)
    {
        Hooks::DriverIfPossible
    } else {
        Hooks::Ip
    }
}

fn by_name<'a>(name: &str, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    interfaces.iter().find(|i| i.name == name)
}

/// Why an interface that the operator named cannot be guarded, if it cannot.
fn wrong(name: &str, interfaces: &[Interface]) -> Option<Failure> {
    match by_name(name, interfaces) {
        Some(found) if found.ethernet => None,
        Some(_) => Some(Failure::argument(
            format!("interface \"{name}\" does not carry Ethernet frames"),
            "guard the interface below it",
        )),
        None => {
            let known: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
            Some(Failure::argument(
                format!("interface \"{name}\" is not here or not up"),
                format!("name one of: {}", known.join(", ")),
            ))
        }
    }
}

/// Why each of the interfaces that the operator named is not guarded that is not.
pub fn left_out(names: &[String], interfaces: &[Interface]) -> impl Iterator<Item = Failure> {
    names.iter().filter_map(|name| wrong(name, interfaces))
}

/// That all interfaces that the operator named can be guarded.
pub fn require(names: &[String], interfaces: &[Interface]) -> Result<()> {
    let Some(first) = left_out(names, interfaces).next() else { return Ok(()) };
    let others: Vec<String> = left_out(names, interfaces).skip(1).map(|f| f.what()).collect();
    Err(match (first, others.is_empty()) {
        (Failure::Argument { what, fix }, false) => {
            Failure::argument(format!("{what}, {}", others.join(", ")), fix)
        }
        (first, _) => first,
    })
}

/// That one of them can be. One that is down, or not made yet, keeps nobody from guarding the others.
pub fn require_any(names: &[String], interfaces: &[Interface]) -> Result<()> {
    match left_out(names, interfaces).count() == names.len() {
        true => require(names, interfaces),
        false => Ok(()),
    }
}

/// Those of the interfaces that the operator named that can be guarded. A VLAN is already, where one
/// below it is named, too.
fn named<'a>(names: &[String], interfaces: &'a [Interface]) -> Vec<&'a Interface> {
    let here = names.iter().filter_map(|name| by_name(name, interfaces)).filter(|i| i.ethernet);
    let is_named_below =
        |i: &Interface| down(i, interfaces).skip(1).any(|lower| names.contains(&lower.name));
    here.filter(|i| !is_named_below(i)).collect()
}

/// The one interface of this name.
pub fn one(name: &str, interfaces: &[Interface]) -> Result<Interface> {
    let names = [name.to_owned()];
    require(&names, interfaces)?;
    Ok(by_name(name, interfaces).expect("it is required").clone())
}

/// The interface at which a VLAN's packets can be judged first: that below it, where they are for it by
/// their frame's address. Of a VLAN with an address of its own they are others' there
/// (`PACKET_OTHERHOST`, until `vlan_do_receive()`); and where a container has a VLAN of its host's,
/// another interface may have the name of the one below it.
fn below<'a>(vlan: &Interface, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    let below = by_name(vlan.below.as_deref()?, interfaces)?;
    (below.index != vlan.index && below.hardware == vlan.hardware).then_some(below)
}

/// An interface, and those below it.
fn down<'a>(
    interface: &'a Interface,
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let next = |above: &&'a Interface| below(above, interfaces);
    // No deeper than there are interfaces, whatever they are called.
    std::iter::successors(Some(interface), next).take(interfaces.len())
}

/// The interface whose packets can be judged at no other of this host's first.
fn lowest<'a>(interface: &'a Interface, interfaces: &'a [Interface]) -> &'a Interface {
    down(interface, interfaces).last().unwrap_or(interface)
}

/// The interfaces that packets pass first, each with those whose packets it carries, itself among them.
fn first_passed(interfaces: &[Interface]) -> Vec<(&Interface, Vec<&Interface>)> {
    let carried = |lower: &Interface| {
        let is_carried = |i: &&Interface| lowest(i, interfaces).index == lower.index;
        interfaces.iter().filter(is_carried).collect()
    };
    let is_lowest = |i: &&Interface| i.ethernet && lowest(i, interfaces).index == i.index;
    interfaces.iter().filter(is_lowest).map(|lower| (lower, carried(lower))).collect()
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
    if let Some(own) = guards.iter().filter(|g| g.is_path).find_map(|g| own_address(g, interfaces))
    {
        return Err(Failure::argument(
            format!("[[path]] names {own}, which is this host's own address"),
            "make it a [[listener]]",
        ));
    }
    let only_paths = configuration::only_paths(guards);
    let mut plan = Plan { only_paths, ..Default::default() };
    let chosen: Vec<(&Interface, Vec<&Guarded>)> = if names.is_empty() {
        let concerning = |carried: &[&Interface]| {
            let concerns = |g: &&Guarded| match g.is_path {
                true => carried.iter().any(|i| may_forward(i)),
                false => carried.iter().any(|i| carries(i, &bound(g, listeners))),
            };
            guards.iter().filter(concerns).collect()
        };
        let passed = first_passed(interfaces).into_iter();
        passed.map(|(lower, carried)| (lower, concerning(&carried))).collect()
    } else {
        let named = named(names, interfaces).into_iter();
        named.map(|interface| (interface, guards.iter().collect())).collect()
    };
    for (interface, here) in chosen.into_iter().filter(|(_, here)| !here.is_empty()) {
        let hooks = hooks(interface, interfaces, &here);
        plan.interfaces.insert(interface.index, (interface.into(), hooks));
    }
    plan.local_in = guards.iter().any(|g| g.hook == TG_HOOK_TCP || g.rules.room == TG_ROOM_RESERVE);
    Ok(plan)
}

/// The interfaces at which the ends of connections are decided, by index: all that carry any.
pub fn ends(names: &[String], interfaces: &[Interface]) -> BTreeMap<u32, String> {
    let chosen = if names.is_empty() {
        let carries_any =
            |(_, carried): &(_, Vec<&Interface>)| carried.iter().any(|i| !i.addresses.is_empty());
        first_passed(interfaces).into_iter().filter(carries_any).map(|(lower, _)| lower).collect()
    } else {
        named(names, interfaces)
    };
    chosen.into_iter().map(|i| (i.index, i.name.clone())).collect()
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
            hardware: Some([2; 6]),
            below: None,
        }
    }

    fn vlan(name: &str, index: u32, below: &str, addresses: &[&str]) -> Interface {
        let below = Some(below.to_owned());
        Interface { below, ..interface(name, index, "802.1Q VLAN Support", addresses) }
    }

    fn hooks_of(plan: &Plan) -> Vec<(u32, Hooks)> {
        plan.interfaces.iter().map(|(index, (_, hooks))| (*index, *hooks)).collect()
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
        assert_eq!(hooks_of(&plan), [(1, Hooks::Ip), (2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
    }

    #[test]
    fn an_address_stands_on_its_interface_only() {
        let plan =
            plan(&[guarded(Some("198.51.100.1"), TG_HOOK_DRIVER)], &[], &host(), &[]).unwrap();
        assert_eq!(hooks_of(&plan), [(3, Hooks::DriverAndIp)]);
    }

    #[test]
    fn a_path_stands_wherever_its_packets_may_come_in() {
        let path = |address| Guarded { is_path: true, ..guarded(Some(address), TG_HOOK_AUTO) };
        let found = plan(&[path("203.0.113.5")], &[], &host(), &[]).unwrap();
        assert_eq!(hooks_of(&found), [(2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
        assert!(found.only_paths);
        let both = [path("203.0.113.5"), guarded(None, TG_HOOK_AUTO)];
        assert!(!plan(&both, &[], &host(), &[]).unwrap().only_paths);
        let error = plan(&[path("192.0.2.1")], &[], &host(), &[]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[[path]] names 192.0.2.1, which is this host's own address; make it a [[listener]]"
        );
    }

    /// Its packets pass the one below it first, with their tags, unless the card has taken those out.
    #[test]
    fn a_vlan_is_guarded_at_the_interface_below_it_and_not_at_the_driver() {
        let own = [guarded(Some("10.0.0.1"), TG_HOOK_AUTO)];
        let above = vlan("eth0.7", 5, "eth0", &["10.0.0.1"]);
        let host = [host(), vec![above, vlan("eth0.7.8", 6, "eth0.7", &["10.9.0.1"])]].concat();
        for (address, at) in [
            ("10.0.0.1", vec![(2, Hooks::Ip)]),
            ("10.9.0.1", vec![(2, Hooks::Ip)]),
            ("192.0.2.1", vec![(2, Hooks::Ip)]),
            ("198.51.100.1", vec![(3, Hooks::Ip)]),
        ] {
            let guards = [guarded(Some(address), TG_HOOK_AUTO)];
            assert_eq!(hooks_of(&plan(&guards, &[], &host, &[]).unwrap()), at, "{address}");
        }
        assert_eq!(ends(&[], &host).into_keys().collect::<Vec<_>>(), [1, 2, 3]);
        // A trunk has no address of its own.
        let trunk = [interface("trunk", 8, "ixgbe", &[]), vlan("t.7", 9, "trunk", &["10.0.0.1"])];
        assert_eq!(hooks_of(&plan(&own, &[], &trunk, &[]).unwrap()), [(8, Hooks::Ip)]);
        // In a container the one below is its host's, and may have its namesake here.
        let alone = vlan("eth0.7", 5, "eth0", &["10.0.0.1"]);
        assert_eq!(
            hooks_of(&plan(&own, &[], std::slice::from_ref(&alone), &[]).unwrap()),
            [(5, Hooks::Ip)]
        );
        let namesake =
            Interface { hardware: Some([4; 6]), ..interface("eth0", 2, "veth", &["10.8.0.1"]) };
        let container = [namesake, alone];
        assert_eq!(hooks_of(&plan(&own, &[], &container, &[]).unwrap()), [(5, Hooks::Ip)]);
        // Both are named: one is enough.
        for (names, at) in [
            (&["eth0", "eth0.7"][..], 2),
            (&["eth0", "eth0.7.8"], 2),
            (&["eth0.7"], 5),
            (&["eth0"], 2),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(hooks_of(&plan(&own, &names, &host, &[]).unwrap()), [(at, Hooks::Ip)]);
            assert_eq!(ends(&names, &host).into_keys().collect::<Vec<_>>(), [at]);
        }
        // Or its own.
        let of_itself = [vlan("a", 5, "a", &["10.0.0.1"])];
        for names in [&[][..], &["a".to_owned()]] {
            assert_eq!(hooks_of(&plan(&own, names, &of_itself, &[]).unwrap()), [(5, Hooks::Ip)]);
        }
        let driver = [guarded(Some("10.0.0.1"), TG_HOOK_DRIVER)];
        assert_eq!(hooks_of(&plan(&driver, &[], &of_itself, &[]).unwrap()), [(5, Hooks::Ip)]);
    }

    #[test]
    fn a_missing_interface_is_told_with_those_that_are_there() {
        let names = ["eth0".to_owned(), "eth9".to_owned()];
        let told = "interface \"eth9\" is not here or not up; name one of: lo, eth0, eth1, bare";
        assert_eq!(require(&names, &host()).unwrap_err().to_string(), told);
        assert_eq!(require_any(&names[1..], &host()).unwrap_err().to_string(), told);
        assert!(require_any(&names, &host()).is_ok() && require_any(&[], &host()).is_ok());
    }

    #[test]
    fn an_interface_that_cannot_be_guarded_keeps_nobody_from_guarding_the_others() {
        let tunnel = Interface { ethernet: false, ..interface("wg0", 9, "wireguard", &[]) };
        let host = [host(), vec![tunnel]].concat();
        for (name, what) in [
            ("eth9", "interface \"eth9\" is not here or not up"),
            ("wg0", "interface \"wg0\" does not carry Ethernet frames"),
        ] {
            let names = [name.to_owned(), "eth0".to_owned()];
            let found = plan(&[guarded(None, TG_HOOK_IP)], &names, &host, &[]).unwrap();
            assert_eq!(hooks_of(&found), [(2, Hooks::Ip)]);
            assert_eq!(ends(&names, &host).into_keys().collect::<Vec<_>>(), [2]);
            assert!(require_any(&names, &host).is_ok());
            let told: Vec<String> = left_out(&names, &host).map(|f| f.what()).collect();
            assert_eq!(told, [what]);
            assert_eq!(require_any(&names[..1], &host).unwrap_err().what(), what);
        }
    }
}
