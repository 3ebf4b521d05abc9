// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which interfaces are guarded, and at which hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::{Hooks, Plan};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::*;
use tidegate_policy::raw::TG_ROOM_RESERVE;

use crate::failure::{Failure, Result};

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
    let is_nowhere = |address: &IpAddr| now.iter().all(|i| !i.addresses.contains(address));
    let lost = |interface: &Interface| {
        let was = before.iter().find(|i| i.index == interface.index && is_at_driver(i.index));
        let counts = |a: &&IpAddr| interface.addresses.is_empty() || asked.contains(*a);
        let had = was.into_iter().flat_map(|was| &was.addresses).filter(counts);
        had.copied().filter(is_nowhere).collect::<Vec<IpAddr>>()
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

/// Whether packets for this address may come in at any interface: it is every one; or, as a virtual service's,
/// it stands where nothing comes in. One that stands nowhere may be that of an interface which is down.
fn comes_in_anywhere(address: &IpAddr, interfaces: &[Interface]) -> bool {
    let mut having = interfaces.iter().filter(|i| i.addresses.contains(address)).peekable();
    let stands = having.peek().is_some();
    address.is_unspecified() || !address.is_loopback() && stands && having.all(has_no_outside)
}

/// The addresses at whose interfaces a guard's packets come in; empty where they may at any.
fn where_met(
    guarded: &Guarded,
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
) -> BTreeSet<IpAddr> {
    let bound = bound(guarded, listeners);
    match bound.iter().any(|address| comes_in_anywhere(address, interfaces)) {
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

/// The drivers of interfaces that have no hardware behind them, or another machine's. With a program virtio_net does
/// without its receive offloads (`virtnet_xdp_set()`); and Xen's says that it has taken one, and runs none, where the
/// other end leaves no room before frames (`xennet_xdp_set()`). Hyper-V's gives it to another ([`HANDS_ON`]).
const VIRTUAL: [&str; 9] =
    ["", "veth", "bridge", "bonding", "tun", "dummy", "virtio_net", "vif", "hv_netvsc"];

/// The drivers that give their program to an interface below them, a bond's to its slaves (`bond_xdp_set()`) and
/// Hyper-V's to the card's virtual function (`netvsc_vf_setxdp()`): there it goes by that one's index.
const HANDS_ON: [&str; 2] = ["bonding", "hv_netvsc"];

/// An interface whose driver gets a program only where it is asked for.
fn is_virtual(interface: &Interface) -> bool {
    interface.loopback || interface.below.is_some() || VIRTUAL.contains(&interface.driver.as_str())
}

/// Loopback has no driver, and a VLAN, an ipvlan or a macvlan none that takes a program: what is asked of the driver is
/// decided at the IP entry.
fn has_no_driver(interface: &Interface) -> bool {
    interface.loopback || interface.below.is_some()
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

fn by_name<'a>(name: &str, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    interfaces.iter().find(|i| i.name == name)
}

/// The interface of this name, whether it can be guarded or not.
pub fn named<'a>(name: &str, interfaces: &'a [Interface]) -> Result<&'a Interface> {
    by_name(name, interfaces).ok_or_else(|| {
        let known: Vec<&str> = interfaces.iter().map(|i| i.name.as_str()).collect();
        Failure::argument(
            format!("interface \"{name}\" is not here or not up"),
            format!("name one of: {}", known.join(", ")),
        )
    })
}

/// The interface of this name, or why it cannot be guarded. Below a tunnel there is no TCP of its own to judge.
fn one<'a>(name: &str, interfaces: &'a [Interface]) -> Result<&'a Interface> {
    let found = named(name, interfaces)?;
    match found.ethernet {
        true => Ok(found),
        false => Err(Failure::argument(
            format!("interface \"{name}\" does not carry Ethernet frames"),
            "none of its kind is guarded; leave it out",
        )),
    }
}

/// Why each of the interfaces that the operator named is not guarded that is not.
pub fn left_out(names: &[String], interfaces: &[Interface]) -> impl Iterator<Item = Failure> {
    names.iter().filter_map(|name| one(name, interfaces).err())
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

/// The interface at which a VLAN's, an ipvlan's or a macvlan's packets can be judged before they come to it: that below
/// it, where they are for it by their frame's address. A macvlan has the same in passthru mode alone. Of a VLAN with an
/// address of its own they are others' there (`PACKET_OTHERHOST`, until `vlan_do_receive()`); and where a container has
/// a VLAN of its host's, another interface may have the name of the one below it.
fn below<'a>(above: &Interface, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    let below = by_name(above.below.as_deref()?, interfaces)?;
    (below.index != above.index && below.hardware == above.hardware).then_some(below)
}

/// An interface, and those below it.
pub fn down<'a>(
    interface: &'a Interface,
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let next = |above: &&'a Interface| below(above, interfaces);
    // No deeper than there are interfaces, whatever they are called.
    std::iter::successors(Some(interface), next).take(interfaces.len().max(1))
}

/// An interface, its master, and so on: where what comes in at a port comes in once more.
pub fn up<'a>(
    interface: &'a Interface,
    interfaces: &'a [Interface],
) -> impl Iterator<Item = &'a Interface> {
    let next = |port: &&'a Interface| interfaces.iter().find(|i| port.master == Some(i.index));
    std::iter::successors(Some(interface), next).take(interfaces.len().max(1))
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

/// That some interface has a driver, where one is asked for and the operator has named the interfaces. One that is
/// not there yet may have one; and loopback beside a card is for this host's own clients.
pub fn require_driver(
    guards: &[Guarded],
    names: &[String],
    interfaces: &[Interface],
) -> Result<()> {
    let none_has = || names.iter().all(|name| by_name(name, interfaces).is_some_and(has_no_driver));
    if names.is_empty() || !guards.iter().any(|g| g.hook == TG_HOOK_DRIVER) || !none_has() {
        return Ok(());
    }
    Err(Failure::argument(
        format!("the hook \"driver\" is chosen, and {} has no driver of its own", names.join(", ")),
        "choose \"ip\", or name an interface that has one",
    ))
}

fn own_address(guarded: &Guarded, interfaces: &[Interface]) -> Option<IpAddr> {
    guarded.address.filter(|own| interfaces.iter().any(|i| i.addresses.contains(own)))
}

/// That every path leads to another host. One whose address has come to this host later (VRRP) keeps nobody
/// from following the host for all others.
pub fn require_others(guards: &[Guarded], interfaces: &[Interface]) -> Result<()> {
    let mut paths = guards.iter().filter(|g| g.is_path);
    let Some(own) = paths.find_map(|g| own_address(g, interfaces)) else { return Ok(()) };
    Err(Failure::argument(
        format!("[[path]] names {own}, which is this host's own address"),
        "make it a [[listener]]",
    ))
}

/// That there are none of these; or all of them, each once.
fn none_of(places: impl Iterator<Item = String>, what: &str, fix: &str) -> Result<()> {
    let places: BTreeSet<String> = places.collect();
    if places.is_empty() {
        return Ok(());
    }
    let places: Vec<String> = places.into_iter().collect();
    Err(Failure::argument(format!("{what}: {}", places.join(", ")), fix))
}

/// The VRF that a listening socket is bound to.
pub fn vrf_of<'a>(row: &tg_listener_row, interfaces: &'a [Interface]) -> Option<&'a Interface> {
    interfaces.iter().find(|i| i.index == row.bound_ifindex && i.is_vrf())
}

/// That the guards find all of their listening sockets. The kernel's look-up for BPF goes by the interface that a SYN
/// comes in at, and finds none that is bound to the VRF above that.
pub fn require_found(
    guards: &[Guarded],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
) -> Result<()> {
    let is_guarded = |row: &&tg_listener_row| guards.iter().any(|g| g.covers(row));
    let place = |row: &tg_listener_row| {
        let vrf = vrf_of(row, interfaces)?;
        Some(format!("{} in {}", SocketAddr::new(row.address(), row.port as u16), vrf.name))
    };
    none_of(
        listeners.iter().filter(is_guarded).filter_map(place),
        "no guard finds what listens in a VRF",
        "bind it to an interface of the VRF's, or to none and set net.ipv4.tcp_l3mdev_accept to 1",
    )
}

/// The interface that a listening socket is bound to, where its driver's program goes by another's index.
fn handed_on_of<'a>(
    row: &tg_listener_row,
    interfaces: &'a [Interface],
    plan: &Plan,
) -> Option<&'a Interface> {
    let bound = interfaces.iter().find(|i| i.index == row.bound_ifindex)?;
    let (_, hooks) = plan.interfaces.get(&bound.index)?;
    (*hooks != Hooks::Ip && HANDS_ON.contains(&bound.driver.as_str())).then_some(bound)
}

/// That the guards which are judged at the driver find theirs. The kernel's look-up there goes by the interface that
/// runs the program, and finds none that is bound to the one which was given it.
pub fn require_found_at_driver(
    guards: &[Guarded],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
    plan: &Plan,
) -> Result<()> {
    let goes_there = |g: &Guarded| matches!(g.hook, TG_HOOK_DRIVER | TG_HOOK_AUTO);
    let is_judged_there =
        |row: &&tg_listener_row| guards.iter().any(|g| goes_there(g) && g.covers(row));
    let place = |row: &tg_listener_row| {
        let bound = handed_on_of(row, interfaces, plan)?;
        Some(format!("{} on {}", SocketAddr::new(row.address(), row.port as u16), bound.name))
    };
    none_of(
        listeners.iter().filter(is_judged_there).filter_map(place),
        "at the driver no guard finds what is bound to its interface",
        "choose the hook \"ip\"",
    )
}

/// That no two sections of `auto` watch one listening socket. Each measures the whole of its queues, and knows of its own
/// clients alone.
pub fn require_one_auto(guards: &[Guarded], listeners: &[tg_listener_row]) -> Result<()> {
    let is_shared = |row: &&tg_listener_row| {
        guards.iter().filter(|g| g.rules.is_auto != 0 && g.judges(row, guards)).count() > 1
    };
    let place = |row: &tg_listener_row| SocketAddr::new(row.address(), row.port as u16).to_string();
    none_of(
        listeners.iter().filter(is_shared).map(place),
        "several sections of auto take one listening socket's queues for their own",
        "write one section of the port without an address, or give all but one another mechanism",
    )
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
    let met: Vec<(&Guarded, BTreeSet<IpAddr>)> =
        guards.iter().map(|g| (g, where_met(g, interfaces, listeners))).collect();
    let concerning = |interface: &Interface| -> Vec<&Guarded> {
        let concerns = |(g, addresses): &&(&Guarded, BTreeSet<IpAddr>)| match g.is_path {
            _ if !names.is_empty() => true,
            true => may_forward(interface),
            false => carries(interface, addresses),
        };
        met.iter().filter(concerns).map(|(g, _)| *g).collect()
    };
    let chosen: Vec<&Interface> =
        candidates(names, interfaces).filter(|i| !concerning(i).is_empty()).collect();
    let mut here: BTreeMap<u32, (&Interface, Vec<&Guarded>)> = BTreeMap::new();
    for interface in &chosen {
        let first = first_met(interface, &chosen, interfaces);
        let (_, guards) = here.entry(first.index).or_insert((first, Vec::new()));
        guards.extend(concerning(interface));
    }
    for (index, (interface, guards)) in here {
        let hooks = hooks(interface, interfaces, &guards);
        plan.interfaces.insert(index, (interface.into(), hooks));
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
            master: None,
            vrf: None,
        }
    }

    fn vlan(name: &str, index: u32, below: &str, addresses: &[&str]) -> Interface {
        let below = Some(below.to_owned());
        Interface { below, ..interface(name, index, "802.1Q VLAN Support", addresses) }
    }

    fn ipvlan(name: &str, index: u32, below: &str, addresses: &[&str]) -> Interface {
        let below = Some(below.to_owned());
        Interface { below, ..interface(name, index, "ipvlan", addresses) }
    }

    fn macvlan(name: &str, index: u32, below: &str, addresses: &[&str]) -> Interface {
        let below = Some(below.to_owned());
        Interface { below, ..interface(name, index, "macvlan", addresses) }
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
        let plan = plan(&[guarded(None, TG_HOOK_AUTO)], &[], &host(), &[]);
        assert_eq!(hooks_of(&plan), [(1, Hooks::Ip), (2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
    }

    /// What it would save with SYNs, bulk transfers would pay for.
    #[test]
    fn the_driver_of_a_virtual_machine_is_left_alone_unless_it_is_asked_for() {
        for driver in ["virtio_net", "vif", "hv_netvsc"] {
            let host = [interface("eth0", 2, driver, &["192.0.2.1"])];
            for (hook, at) in [(TG_HOOK_AUTO, Hooks::Ip), (TG_HOOK_DRIVER, Hooks::DriverAndIp)] {
                let found = plan(&[guarded(None, hook)], &[], &host, &[]);
                assert_eq!(hooks_of(&found), [(2, at)], "{driver}");
            }
        }
    }

    #[test]
    fn an_address_stands_on_its_interface_only() {
        let plan = plan(&[guarded(Some("198.51.100.1"), TG_HOOK_DRIVER)], &[], &host(), &[]);
        assert_eq!(hooks_of(&plan), [(3, Hooks::DriverAndIp)]);
    }

    /// Its application starts anew, is gone for good, or comes back at another address; or one of two does.
    #[test]
    fn a_guard_whose_socket_is_gone_stays_where_it_was() {
        let guards = [guarded(None, TG_HOOK_AUTO)];
        let socket = |address: [u8; 4], port| tg_listener_row {
            addr: [u32::from_ne_bytes(address), 0, 0, 0],
            port,
            ..Default::default()
        };
        let mut rows = Vec::new();
        let mut look = |now: &[tg_listener_row]| {
            rows = listened(&guards, &rows, now);
            assert!(rows.iter().all(|row| row.port == 80), "others are none of its");
            hooks_of(&plan(&guards, &[], &host(), &rows))
        };
        let other = socket([192, 0, 2, 1], 81);
        assert_eq!(look(&[other]).len(), 3, "it may come anywhere");
        let at = [(3, Hooks::Ip)];
        assert_eq!(look(&[socket([198, 51, 100, 1], 80), other]), at);
        assert_eq!(look(&[other]), at);
        assert_eq!(look(&[]), at);
        let one = [(2, Hooks::DriverIfPossible)];
        assert_eq!(look(&[socket([192, 0, 2, 1], 80)]), one);
        let both = [one[0], at[0]];
        assert_eq!(look(&[socket([192, 0, 2, 1], 80), socket([198, 51, 100, 1], 80)]), both);
        for left in [[192, 0, 2, 1], [198, 51, 100, 1]] {
            assert_eq!(look(&[socket(left, 80), other]), both, "the other starts anew");
        }
        assert_eq!(look(&[]), both);
        let (at_one, at_loopback) = (socket([192, 0, 2, 1], 80), socket([127, 0, 0, 1], 80));
        assert_eq!(look(&[at_one, at_loopback]), [(1, Hooks::Ip), one[0]], "the other has moved");
    }

    /// Its card has no carrier for a moment, because its driver has taken a program, or for longer.
    #[test]
    fn a_guard_whose_address_is_gone_stays_at_the_driver_where_it_was() {
        let card = |addresses: &[&str]| interface("eth0", 2, "ixgbe", addresses);
        let other = |addresses: &[&str]| interface("eth1", 3, "ixgbe", addresses);
        let at_card = [(2, Hooks::DriverIfPossible)];
        let own = [guarded(Some("192.0.2.1"), TG_HOOK_AUTO)];
        let mut before = Vec::new();
        let mut look = |guards: &[Guarded], now: &[Interface], stands: bool| {
            before = kept(guards, &[], &before, now, |index| stands && index == 2);
            hooks_of(&plan(guards, &[], &before, &[]))
        };
        let rest = other(&["198.51.100.1"]);
        let with = |addresses: &[&str]| [card(addresses), rest.clone()];
        assert!(look(&own, &with(&[]), true).is_empty(), "it never had it");
        assert_eq!(look(&own, &with(&["192.0.2.1", "192.0.2.2"]), true), at_card);
        for round in 0..2 {
            assert_eq!(look(&own, &with(&[]), true), at_card, "round {round}: none is left");
            assert_eq!(look(&own, &with(&["192.0.2.2"]), true), at_card, "round {round}");
        }
        let moved = [card(&["192.0.2.2"]), other(&["192.0.2.1"])];
        assert_eq!(look(&own, &moved, true), [(3, Hooks::DriverIfPossible)], "it follows it");
        assert!(look(&own, &with(&["192.0.2.2"]), true).is_empty(), "no program stands there yet");
        let any = [guarded(None, TG_HOOK_AUTO)];
        let both = [at_card[0], (3, Hooks::DriverIfPossible)];
        assert_eq!(look(&any, &with(&["192.0.2.2"]), true), both);
        assert_eq!(look(&any, &with(&[]), true), both, "any is one that it had");
        assert_eq!(look(&any, std::slice::from_ref(&rest), true), both[1..], "the card is down");
        assert_eq!(look(&any, &with(&["192.0.2.2"]), false), both);
        assert_eq!(look(&any, &with(&[]), false), both[1..], "at the IP entry no card begins anew");
    }

    /// A host may have other addresses each day (RFC 8981).
    #[test]
    fn an_address_that_no_guard_goes_by_is_not_kept() {
        let own = [guarded(Some("192.0.2.1"), TG_HOOK_AUTO)];
        let card = |addresses: &[&str]| [interface("eth0", 2, "ixgbe", addresses)];
        let before = card(&["192.0.2.1", "2001:db8::1"]);
        let found = kept(&own, &[], &before, &card(&["2001:db8::2"]), |_| true);
        assert_eq!(found, card(&["2001:db8::2", "192.0.2.1"]));
    }

    #[test]
    fn a_path_stands_wherever_its_packets_may_come_in() {
        let path = |address| Guarded { is_path: true, ..guarded(Some(address), TG_HOOK_AUTO) };
        let found = plan(&[path("203.0.113.5")], &[], &host(), &[]);
        assert_eq!(hooks_of(&found), [(2, Hooks::DriverIfPossible), (3, Hooks::Ip)]);
        assert!(found.only_paths);
        let both = [path("203.0.113.5"), guarded(None, TG_HOOK_AUTO)];
        assert!(!plan(&both, &[], &host(), &[]).only_paths);
        let error = require_others(&[path("192.0.2.1")], &host()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "[[path]] names 192.0.2.1, which is this host's own address; make it a [[listener]]"
        );
    }

    /// Its packets pass the one below it first, with their tags, unless the card has taken those out.
    #[test]
    fn a_vlan_is_guarded_once_and_not_at_the_driver() {
        let own = [guarded(Some("10.0.0.1"), TG_HOOK_AUTO)];
        let above = vlan("eth0.7", 5, "eth0", &["10.0.0.1"]);
        let host = [host(), vec![above, vlan("eth0.7.8", 6, "eth0.7", &["10.9.0.1"])]].concat();
        for (address, at) in [
            (&["10.0.0.1"][..], vec![(5, Hooks::Ip)]),
            (&["10.9.0.1"], vec![(6, Hooks::Ip)]),
            (&["10.0.0.1", "10.9.0.1"], vec![(5, Hooks::Ip)]),
            (&["192.0.2.1"], vec![(2, Hooks::Ip)]),
            (&["192.0.2.1", "10.9.0.1"], vec![(2, Hooks::Ip)]),
            (&["198.51.100.1"], vec![(3, Hooks::Ip)]),
        ] {
            let guards: Vec<Guarded> =
                address.iter().map(|address| guarded(Some(address), TG_HOOK_AUTO)).collect();
            assert_eq!(hooks_of(&plan(&guards, &[], &host, &[])), at, "{address:?}");
        }
        let every = [guarded(None, TG_HOOK_AUTO)];
        let at = [(1, Hooks::Ip), (2, Hooks::Ip), (3, Hooks::Ip)];
        assert_eq!(hooks_of(&plan(&every, &[], &host, &[])), at);
        assert_eq!(ends(&[], &host).into_keys().collect::<Vec<_>>(), [1, 2, 3]);
        // A trunk has no address of its own.
        let trunk = [interface("trunk", 8, "ixgbe", &[]), vlan("t.7", 9, "trunk", &["10.0.0.1"])];
        assert_eq!(hooks_of(&plan(&own, &[], &trunk, &[])), [(9, Hooks::Ip)]);
        // In a container the one below is its host's, and may have its namesake here.
        let alone = vlan("eth0.7", 5, "eth0", &["10.0.0.1"]);
        assert_eq!(hooks_of(&plan(&own, &[], std::slice::from_ref(&alone), &[])), [(5, Hooks::Ip)]);
        let namesake =
            Interface { hardware: Some([4; 6]), ..interface("eth0", 2, "veth", &["10.8.0.1"]) };
        let container = [namesake, alone];
        assert_eq!(hooks_of(&plan(&own, &[], &container, &[])), [(5, Hooks::Ip)]);
        // Both are named: one is enough.
        for (names, at) in [
            (&["eth0", "eth0.7"][..], 2),
            (&["eth0", "eth0.7.8"], 2),
            (&["eth0.7"], 5),
            (&["eth0"], 2),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(hooks_of(&plan(&own, &names, &host, &[])), [(at, Hooks::Ip)]);
            assert_eq!(ends(&names, &host).into_keys().collect::<Vec<_>>(), [at]);
        }
        // Or its own.
        let of_itself = [vlan("a", 5, "a", &["10.0.0.1"])];
        for names in [&[][..], &["a".to_owned()]] {
            assert_eq!(hooks_of(&plan(&own, names, &of_itself, &[])), [(5, Hooks::Ip)]);
        }
        let driver = [guarded(Some("10.0.0.1"), TG_HOOK_DRIVER)];
        assert_eq!(hooks_of(&plan(&driver, &[], &of_itself, &[])), [(5, Hooks::Ip)]);
    }

    /// Its packets come in at the one below it as they are, and at the driver, too.
    #[test]
    fn an_ipvlan_is_guarded_once() {
        let above = ipvlan("ipvl0", 5, "eth0", &["192.0.2.7"]);
        let host = [host(), vec![above.clone()]].concat();
        let at = |guards: &[Guarded], names: &[String], host: &[Interface]| {
            hooks_of(&plan(guards, names, host, &[]))
        };
        let every = [guarded(None, TG_HOOK_AUTO)];
        let everywhere = [(1, Hooks::Ip), (2, Hooks::DriverIfPossible), (3, Hooks::Ip)];
        assert_eq!(at(&every, &[], &host), everywhere);
        assert_eq!(ends(&[], &host).into_keys().collect::<Vec<_>>(), [1, 2, 3]);
        let both = ["192.0.2.1", "192.0.2.7"].map(|own| guarded(Some(own), TG_HOOK_AUTO));
        assert_eq!(at(&both, &[], &host), [(2, Hooks::DriverIfPossible)]);
        // The one below is not guarded.
        let own = [guarded(Some("192.0.2.7"), TG_HOOK_AUTO)];
        assert_eq!(at(&own, &[], &host), [(5, Hooks::Ip)]);
        assert_eq!(at(&every, &["ipvl0".to_owned()], &host), [(5, Hooks::Ip)]);
        // In a container it is its host's.
        let container = [host[0].clone(), host[2].clone(), Interface { below: None, ..above }];
        let found: Vec<u32> = at(&every, &[], &container).iter().map(|(index, _)| *index).collect();
        assert_eq!(found, [1, 3, 5]);
    }

    /// In passthru mode all that comes in below goes on to it, and both have one hardware address. In any other
    /// it has its own.
    #[test]
    fn a_macvlan_in_passthru_mode_is_guarded_once_and_any_other_apart() {
        let every = [guarded(None, TG_HOOK_AUTO)];
        let passthru = macvlan("mv0", 5, "eth0", &["192.0.2.7"]);
        let apart = Interface { hardware: Some([4; 6]), ..passthru.clone() };
        let below = [(1, Hooks::Ip), (2, Hooks::DriverIfPossible), (3, Hooks::Ip)];
        for (above, at) in
            [(passthru, &below[..]), (apart, &[&below[..], &[(5, Hooks::Ip)]].concat())]
        {
            let host = [host(), vec![above.clone()]].concat();
            assert_eq!(hooks_of(&plan(&every, &[], &host, &[])), at, "{above:?}");
            let own = [guarded(Some("192.0.2.7"), TG_HOOK_AUTO)];
            assert_eq!(hooks_of(&plan(&own, &[], &host, &[])), [(5, Hooks::Ip)], "it alone");
        }
    }

    /// A port has a link-local address. What comes in there comes in at the bridge, too, and with a VLAN's
    /// tag at the VLAN.
    #[test]
    fn a_port_is_judged_at_its_bridge_unless_it_is_named() {
        let every = [guarded(None, TG_HOOK_AUTO)];
        let port = |name, index| {
            let card = interface(name, index, "ixgbe", &["fe80::1"]);
            Interface { master: Some(7), ..card }
        };
        let bridged = [
            port("eth0", 2),
            vlan("eth0.7", 3, "eth0", &["10.0.0.1"]),
            port("eth1", 4),
            interface("br0", 7, "bridge", &["10.1.0.1"]),
        ];
        let at = |names: &[String], guards: &[Guarded]| {
            let plan = plan(guards, names, &bridged, &[]);
            let at: Vec<u32> = plan.interfaces.into_keys().collect();
            assert_eq!(ends(names, &bridged).into_keys().collect::<Vec<_>>(), at);
            at
        };
        assert_eq!(at(&[], &every), [3, 7]);
        let path = Guarded { is_path: true, ..guarded(Some("203.0.113.5"), TG_HOOK_AUTO) };
        assert_eq!(at(&[], &[path]), [3, 7]);
        assert_eq!(at(&["eth1".to_owned()], &every), [4]);
        let above: Vec<&str> = up(&bridged[0], &bridged).map(|i| i.name.as_str()).collect();
        assert_eq!(above, ["eth0", "br0"]);
        // Open vSwitch's own interface is down, and so not among those that are listed.
        assert_eq!(up(&bridged[0], &bridged[..3]).count(), 1);
    }

    #[test]
    fn an_address_that_nothing_comes_in_at_is_guarded_where_packets_may() {
        let with = |driver, name, index| interface(name, index, driver, &["203.0.113.5"]);
        let everywhere = [1_u32, 2, 3];
        let guards = [guarded(Some("203.0.113.5"), TG_HOOK_IP)];
        let at = |guards: &[Guarded], more: &[Interface], rows: &[tg_listener_row]| {
            let plan = plan(guards, &[], &[&host()[..], more].concat(), rows);
            plan.interfaces.into_keys().collect::<Vec<u32>>()
        };
        assert_eq!(at(&guards, &[], &[]), [] as [u32; 0], "the interface that has it may be down");
        let dummy = with("dummy", "kube-ipvs0", 5);
        assert_eq!(at(&guards, std::slice::from_ref(&dummy), &[]), [1, 2, 3, 5]);
        let both = [dummy, with("ixgbe", "eth2", 6)];
        assert_eq!(at(&guards, &both, &[]), [5, 6], "it comes in where it is");
        let mut own = host();
        own[0].addresses.push("203.0.113.5".parse().unwrap());
        let on_loopback = plan(&guards, &[], &own, &[]);
        assert_eq!(on_loopback.interfaces.into_keys().collect::<Vec<_>>(), everywhere);
        for address in ["127.0.0.1", "::1"] {
            assert_eq!(at(&[guarded(Some(address), TG_HOOK_IP)], &[], &[]), [1], "{address}");
        }
        let socket = tg_listener_row {
            addr: [u32::from_ne_bytes([203, 0, 113, 5]), 0, 0, 0],
            port: 80,
            ..Default::default()
        };
        let on_a_port = Interface { master: Some(1), ..with("ixgbe", "eth2", 6) };
        assert_eq!(at(&[guarded(None, TG_HOOK_IP)], &[on_a_port], &[socket]), everywhere);
    }

    #[test]
    fn who_listens_in_a_vrf_is_told_of() {
        let blue = interface("blue", 5, "vrf", &["192.0.2.9"]);
        let slave = Interface { vrf: Some(5), ..interface("eth5", 6, "ixgbe", &["192.0.2.8"]) };
        let host = [host(), vec![blue, slave]].concat();
        let row = |port, bound_ifindex| tg_listener_row {
            addr: [u32::from_ne_bytes([192, 0, 2, 8]), 0, 0, 0],
            port,
            bound_ifindex,
            ..Default::default()
        };
        let guards = [guarded(None, TG_HOOK_AUTO)];
        let told = |rows: &[tg_listener_row]| require_found(&guards, &host, rows).err();
        // Bound to none, to the slave, or not guarded.
        assert!(told(&[row(80, 0), row(80, 6), row(81, 5)]).is_none());
        // Of one port there may be many.
        assert_eq!(
            told(&[row(80, 5), row(80, 0), row(80, 5)]).unwrap().to_string(),
            "no guard finds what listens in a VRF: 192.0.2.8:80 in blue; bind it to an interface of the VRF's, or \
             to none and set net.ipv4.tcp_l3mdev_accept to 1"
        );
    }

    /// A bond, and a network card of Azure's.
    #[test]
    fn who_is_bound_to_an_interface_that_hands_its_program_on_is_told_of() {
        let row =
            |port, bound_ifindex| tg_listener_row { port, bound_ifindex, ..Default::default() };
        for driver in HANDS_ON {
            let host = [host(), vec![interface("up0", 5, driver, &["203.0.113.1"])]].concat();
            let told = |guards: &[Guarded], rows: &[tg_listener_row]| {
                let plan = plan(guards, &[], &host, &[]);
                require_found_at_driver(guards, &host, rows, &plan).err()
            };
            let at_driver = [guarded(None, TG_HOOK_DRIVER)];
            let bound = [row(80, 5), row(80, 0), row(80, 5)];
            assert_eq!(
                told(&at_driver, &bound).unwrap().to_string(),
                "at the driver no guard finds what is bound to its interface: 0.0.0.0:80 on up0; choose the hook \
                 \"ip\"",
                "{driver}"
            );
            // Bound to none, to a card that runs its program, or not guarded.
            assert!(told(&at_driver, &[row(80, 0), row(80, 2), row(81, 5)]).is_none(), "{driver}");
            for hook in [TG_HOOK_AUTO, TG_HOOK_IP] {
                assert!(told(&[guarded(None, hook)], &bound).is_none(), "{driver}");
            }
            // auto is judged by what another section has put there.
            let other = Guarded { port: 81, ..guarded(None, TG_HOOK_DRIVER) };
            for (hook, is_told) in [(TG_HOOK_AUTO, true), (TG_HOOK_IP, false)] {
                let both = [guarded(None, hook), other.clone()];
                assert_eq!(told(&both, &bound).is_some(), is_told, "{driver}");
            }
        }
    }

    /// A socket for both families has one queue for both.
    #[test]
    fn a_socket_that_several_sections_of_auto_watch_is_told_of() {
        let auto = |address| {
            let rules = tidegate_policy::raw::tg_rules { is_auto: 1, ..Default::default() };
            Guarded { rules, ..guarded(address, TG_HOOK_AUTO) }
        };
        let [v4, v6] = [auto(Some("192.0.2.1")), auto(Some("2001:db8::1"))];
        let both = tg_listener_row { port: 80, is_ipv6: 1, ..Default::default() };
        let told = |guards: &[Guarded], row| require_one_auto(guards, &[row, row]).err();
        assert_eq!(
            told(&[v4.clone(), v6.clone()], both).unwrap().to_string(),
            "several sections of auto take one listening socket's queues for their own: [::]:80; write one section \
             of the port without an address, or give all but one another mechanism"
        );
        assert!(
            told(&[auto(None), v6.clone()], both).is_some(),
            "what is not for v6 is the other's"
        );
        // A family, or a mechanism, of its own; a section alone; or a socket for each.
        let for_v6 = tg_listener_row { ipv6_only: 1, ..both };
        assert!(told(&[v4.clone(), v6.clone()], for_v6).is_none());
        assert!(told(&[v4.clone(), guarded(Some("2001:db8::1"), TG_HOOK_AUTO)], both).is_none());
        assert!(told(&[auto(None)], both).is_none());
        let own = tg_listener_row {
            addr: [u32::from_ne_bytes([192, 0, 2, 1]), 0, 0, 0],
            port: 80,
            ..Default::default()
        };
        assert!(told(&[auto(None), v4], own).is_none());
    }

    #[test]
    fn who_names_none_with_a_driver_cannot_choose_it() {
        let host = [host(), vec![vlan("eth0.7", 5, "eth0", &["10.0.0.1"])]].concat();
        let told = |hook, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            require_driver(&[guarded(None, TG_HOOK_IP), guarded(None, hook)], &names, &host).err()
        };
        let fix = "choose \"ip\", or name an interface that has one";
        for (names, who) in [(&["lo"][..], "lo"), (&["eth0.7", "lo"], "eth0.7, lo")] {
            let what = format!("the hook \"driver\" is chosen, and {who} has no driver of its own");
            let error = told(TG_HOOK_DRIVER, names).unwrap();
            assert_eq!(error.to_string(), format!("{what}; {fix}"));
            assert!(told(TG_HOOK_AUTO, names).is_none());
        }
        for names in [&[][..], &["lo", "eth0"], &["lo", "eth9"]] {
            assert!(told(TG_HOOK_DRIVER, names).is_none(), "{names:?}");
        }
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
            let found = plan(&[guarded(None, TG_HOOK_IP)], &names, &host, &[]);
            assert_eq!(hooks_of(&found), [(2, Hooks::Ip)]);
            assert_eq!(ends(&names, &host).into_keys().collect::<Vec<_>>(), [2]);
            assert!(require_any(&names, &host).is_ok());
            let told: Vec<String> = left_out(&names, &host).map(|f| f.what()).collect();
            assert_eq!(told, [what]);
            assert_eq!(require_any(&names[..1], &host).unwrap_err().what(), what);
        }
    }
}
