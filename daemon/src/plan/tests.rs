// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans of hosts with cards, VLANs, bridges and the like.

use super::require::{
    require_any_named, require_driver, require_found, require_found_at_driver, require_one_auto,
};
use super::stands::HANDS_ON;
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

/// What it would save with SYNs, bulk transfers would pay for; or nothing would be judged there.
#[test]
fn the_driver_of_a_virtual_machine_is_left_alone_unless_it_is_asked_for() {
    for driver in ["virtio_net", "vif", "hv_netvsc", "vmxnet3"] {
        let host = [interface("eth0", 2, driver, &["192.0.2.1"])];
        for (hook, at) in [(TG_HOOK_AUTO, Hooks::Ip), (TG_HOOK_DRIVER, Hooks::DriverAndIp)] {
            let found = plan(&[guarded(None, hook)], &[], &host, &[]);
            assert_eq!(hooks_of(&found), [(2, at)], "{driver}");
        }
    }
}

/// So each is asked what a SYN costs at its own: docs/auto.md.
#[test]
fn a_guard_is_planned_at_the_interfaces_where_its_packets_are_met_first() {
    let host = [host(), vec![vlan("eth0.7", 5, "eth0", &["10.0.0.1"])]].concat();
    let own = |address, hook| guarded(Some(address), hook);
    let guards = [
        own("198.51.100.1", TG_HOOK_AUTO),
        own("192.0.2.1", TG_HOOK_IP),
        own("10.0.0.1", TG_HOOK_AUTO),
        own("203.0.113.5", TG_HOOK_AUTO),
        Guarded { is_path: true, ..own("203.0.113.6", TG_HOOK_AUTO) },
        guarded(None, TG_HOOK_DRIVER),
    ];
    let at = |guards: &[Guarded], names: &[String]| -> Vec<(u32, Vec<u32>)> {
        let planned = plan(guards, names, &host, &[]).guards;
        planned.into_iter().map(|g| (g.hook, g.interfaces.into_iter().collect())).collect()
    };
    let expected = [
        (TG_HOOK_AUTO, vec![3]),
        (TG_HOOK_IP, vec![2]),
        (TG_HOOK_AUTO, vec![2]),
        (TG_HOOK_AUTO, vec![]),
        (TG_HOOK_AUTO, vec![2, 3]),
        (TG_HOOK_DRIVER, vec![1, 2, 3]),
    ];
    assert_eq!(at(&guards, &[]), expected);
    assert_eq!(at(&guards[2..3], &[]), [(TG_HOOK_AUTO, vec![5])], "eth0 is not guarded");
    let named = ["eth1".to_owned(), "eth0".to_owned()];
    assert_eq!(at(&guards[1..2], &named), [(TG_HOOK_IP, vec![2, 3])], "by the operator's word");
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
    for (names, at) in
        [(&["eth0", "eth0.7"][..], 2), (&["eth0", "eth0.7.8"], 2), (&["eth0.7"], 5), (&["eth0"], 2)]
    {
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
    for (above, at) in [(passthru, &below[..]), (apart, &[&below[..], &[(5, Hooks::Ip)]].concat())]
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
    let row = |port, bound_ifindex| tg_listener_row { port, bound_ifindex, ..Default::default() };
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
    assert!(told(&[auto(None), v6.clone()], both).is_some(), "what is not for v6 is the other's");
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
    assert_eq!(require_named(&names, &host()).unwrap_err().to_string(), told);
    assert_eq!(require_any_named(&names[1..], &host()).unwrap_err().to_string(), told);
    assert!(require_any_named(&names, &host()).is_ok() && require_any_named(&[], &host()).is_ok());
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
        assert!(require_any_named(&names, &host).is_ok());
        let told: Vec<String> = left_out(&names, &host).map(|f| f.what()).collect();
        assert_eq!(told, [what]);
        assert_eq!(require_any_named(&names[..1], &host).unwrap_err().what(), what);
    }
}
