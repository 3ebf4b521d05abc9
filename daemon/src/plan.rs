// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interfaces are guarded, and at which hooks.

mod require;
mod stands;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::{Hooks, Plan, PlannedGuard};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::*;
use tidegate_policy::raw::TG_ROOM_RESERVE;

pub use self::require::{left_out, require_all, require_named, require_others, wrongs};
pub use self::stands::{down, named, up, vrf_of};
use self::stands::{has_no_driver, is_virtual};

/// The listening sockets by which interfaces are chosen for guards without an address: those that there
/// are `now`; and those `before` at addresses that none listens at just now, as while an application, or one of
/// several, starts anew. A card may begin anew each time that its driver takes a program. One at an address that is
/// new says that the application has moved: those before are forgotten.
pub fn listened(
    guards: &[Guarded],
    before: &[tg_listener_row],
    now: &[tg_listener_row],
) -> Vec<tg_listener_row> {
    let last = |guarded: &Guarded| {
        let here = addresses(guarded.port, now);
        let has_moved = !here.is_subset(&addresses(guarded.port, before));
        let is_missed = |row: &&tg_listener_row| !has_moved && !here.contains(&row.address());
        let missed = on(guarded.port, before).filter(is_missed);
        on(guarded.port, now).chain(missed).copied().collect::<Vec<_>>()
    };
    guards.iter().filter(|g| g.address.is_none()).flat_map(last).collect()
}

fn on(port: u16, listeners: &[tg_listener_row]) -> impl Iterator<Item = &tg_listener_row> {
    listeners.iter().filter(move |row| row.port == u32::from(port))
}

fn addresses(port: u16, listeners: &[tg_listener_row]) -> BTreeSet<IpAddr> {
    on(port, listeners).map(tg_listener_row::address).collect()
}

/// The interfaces as guards are placed by them. One with a program at its driver goes on having an address that it
/// had by the look `before`, until another interface has that: a card may lose its carrier each time that its driver takes
/// a program or gives one up, and its addresses with that. What no guard goes by is not kept: they go by the addresses
/// that their listening sockets are bound to, and by whether there is any.
pub fn kept(
    guards: &[Guarded],
    listeners: &[tg_listener_row],
    before: &[Interface],
    now: &[Interface],
    is_at_driver: impl Fn(u32) -> bool,
) -> Vec<Interface> {
    let asked: BTreeSet<IpAddr> = guards.iter().flat_map(|g| bound(g, listeners)).collect();
    let there: BTreeSet<IpAddr> = now.iter().flat_map(|i| &i.addresses).copied().collect();
    let lost = |interface: &Interface| {
        let was = before.iter().find(|i| i.index == interface.index && is_at_driver(i.index));
        let counts = |a: &&IpAddr| interface.addresses.is_empty() || asked.contains(*a);
        let had = was.into_iter().flat_map(|was| &was.addresses).filter(counts);
        had.copied().filter(|address| !there.contains(address)).collect::<Vec<IpAddr>>()
    };
    let with_lost = |interface: &Interface| {
        let addresses = [interface.addresses.clone(), lost(interface)].concat();
        Interface { addresses, ..interface.clone() }
    };
    now.iter().map(with_lost).collect()
}

/// The addresses that a guard's listening sockets are bound to; empty where none has listened yet.
fn bound(guarded: &Guarded, listeners: &[tg_listener_row]) -> BTreeSet<IpAddr> {
    match guarded.address {
        Some(address) => BTreeSet::from([address]),
        None => addresses(guarded.port, listeners),
    }
}

/// An interface that only this host's own packets are judged at: what comes from elsewhere for an address on
/// it comes in at another, or once more at its master.
fn has_no_outside(interface: &Interface) -> bool {
    interface.loopback
        || interface.master.is_some()
        || interface.is_vrf()
        || interface.driver == "dummy"
}

/// The host's addresses, and of each whether nothing comes in at any interface that has it.
fn standing(interfaces: &[Interface]) -> BTreeMap<IpAddr, bool> {
    let mut standing = BTreeMap::new();
    for interface in interfaces {
        for address in &interface.addresses {
            *standing.entry(*address).or_insert(true) &= has_no_outside(interface);
        }
    }
    standing
}

/// Whether packets for this address may come in at any interface: it is every one; or, as a virtual service's,
/// it stands where nothing comes in. One that stands nowhere may be that of an interface which is down.
fn comes_in_anywhere(address: &IpAddr, standing: &BTreeMap<IpAddr, bool>) -> bool {
    let is_inside = || standing.get(address).is_some_and(|is_inside| *is_inside);
    address.is_unspecified() || !address.is_loopback() && is_inside()
}

/// The addresses at whose interfaces a guard's packets come in; empty where they may at any.
fn where_met(
    guarded: &Guarded,
    standing: &BTreeMap<IpAddr, bool>,
    listeners: &[tg_listener_row],
) -> BTreeSet<IpAddr> {
    let bound = bound(guarded, listeners);
    match bound.iter().any(|address| comes_in_anywhere(address, standing)) {
        true => BTreeSet::new(),
        false => bound,
    }
}

/// A path's packets only pass this host: its address is another's, and any interface may be the
/// one that they come in at.
fn may_forward(interface: &Interface) -> bool {
    !interface.loopback && !interface.addresses.is_empty()
}

fn carries(interface: &Interface, addresses: &BTreeSet<IpAddr>) -> bool {
    let own = &interface.addresses;
    !own.is_empty() && (addresses.is_empty() || own.iter().any(|own| addresses.contains(own)))
}

/// The driver's place on a card is for what the card hands up as it came: it takes the tags of VLANs out
/// (rx-vlan-offload, which is on as a rule), and an answer from there would leave without.
fn hooks(interface: &Interface, interfaces: &[Interface], guards: &[&Guarded]) -> Hooks {
    let is_its_vlan = |i: &Interface| i.is_vlan() && i.below.as_ref() == Some(&interface.name);
    let has_vlans = || interfaces.iter().any(is_its_vlan);
    if has_no_driver(interface) {
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

/// The interfaces that can be guarded: those that the operator named; or all, but no ports of a bridge and
/// the like, which have addresses (link-local ones) and whose packets come in once more at their master.
fn candidates<'a>(
    names: &[String],
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let is_meant = |i: &&Interface| {
        if names.is_empty() { i.master.is_none() } else { names.contains(&i.name) }
    };
    interfaces.iter().filter(|i| i.ethernet).filter(is_meant)
}

/// Which of the chosen interfaces packets for this one meet first. What stands there judges them, and
/// they are not to be judged again; an interface that is not chosen may be a bridge's port, whose
/// packets are judged at the bridge.
fn first_met<'a>(
    interface: &'a Interface,
    chosen: &[&'a Interface],
    interfaces: &'a [Interface],
) -> &'a Interface {
    let is_chosen = |i: &&Interface| chosen.iter().any(|c| c.index == i.index);
    down(interface, interfaces).filter(is_chosen).last().unwrap_or(interface)
}

/// What should be attached for these guards.
pub fn plan(
    guards: &[Guarded],
    names: &[String],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
) -> Plan {
    let only_paths = configuration::only_paths(guards);
    let mut plan = Plan { only_paths, is_named: !names.is_empty(), ..Default::default() };
    plan.guards =
        guards.iter().map(|g| PlannedGuard { hook: g.hook, ..Default::default() }).collect();
    let standing = standing(interfaces);
    let met: Vec<(&Guarded, BTreeSet<IpAddr>)> =
        guards.iter().map(|g| (g, where_met(g, &standing, listeners))).collect();
    let concerning = |interface: &Interface| -> Vec<usize> {
        let concerns = |(g, addresses): &(&Guarded, BTreeSet<IpAddr>)| match g.is_path {
            _ if !names.is_empty() => true,
            true => may_forward(interface),
            false => carries(interface, addresses),
        };
        met.iter().enumerate().filter(|(_, met)| concerns(met)).map(|(place, _)| place).collect()
    };
    let chosen: Vec<&Interface> =
        candidates(names, interfaces).filter(|i| !concerning(i).is_empty()).collect();
    let mut here: BTreeMap<u32, (&Interface, BTreeSet<usize>)> = BTreeMap::new();
    for interface in &chosen {
        let first = first_met(interface, &chosen, interfaces);
        let (_, judged) = here.entry(first.index).or_insert((first, BTreeSet::new()));
        judged.extend(concerning(interface));
    }
    for (index, (interface, judged)) in here {
        let judging: Vec<&Guarded> = judged.iter().map(|place| &guards[*place]).collect();
        let hooks = hooks(interface, interfaces, &judging);
        plan.interfaces.insert(index, (interface.into(), hooks));
        for place in judged {
            plan.guards[place].interfaces.insert(index);
        }
    }
    plan.local_in = guards.iter().any(|g| g.hook == TG_HOOK_TCP || g.rules.room == TG_ROOM_RESERVE);
    plan
}

/// The interfaces at which the ends of connections are decided, by index: all that carry any.
pub fn ends(names: &[String], interfaces: &[Interface]) -> BTreeMap<u32, String> {
    let carries_any = |i: &&Interface| !names.is_empty() || !i.addresses.is_empty();
    let chosen: Vec<&Interface> = candidates(names, interfaces).filter(carries_any).collect();
    let first = chosen.iter().map(|interface| first_met(interface, &chosen, interfaces));
    first.map(|i| (i.index, i.name.clone())).collect()
}
