// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is this host's own: the kernel tells it, and the map that the programs look it up in has that and nothing else.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::common::scene::{V4, V6, in_a_namespace};
use libbpf_rs::MapCore;
use tidegate_datapath::control;
use tidegate_datapath::local_routes;
use tidegate_datapath::network::Network;
use tidegate_datapath::programs::{Programs, Sizes};
use tidegate_datapath::raw::TG_LOCAL_ROUTES;

fn networks<const N: usize>(texts: [&str; N]) -> BTreeSet<Network> {
    texts.into_iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn the_host_has_its_addresses_and_what_is_routed_to_it_by_any_table() {
    const TEST: &str = "the_host_has_its_addresses_and_what_is_routed_to_it_by_any_table";
    in_a_namespace(TEST, |namespace| {
        namespace.ip("link add eth0 type veth peer name eth1").unwrap();
        namespace.ip("link set eth0 up").unwrap();
        namespace.ip("address add 192.0.2.1/24 dev eth0").unwrap();
        // Its addresses are the host's also where it is down.
        namespace.ip("address add 198.51.100.1/24 dev eth1").unwrap();
        namespace.ip("route add 10.7.0.0/16 dev eth0").unwrap();
        for to in ["local 10.9.0.0/16", "local fd09::/64", "local 10.10.0.0/16 table 7"] {
            namespace.ip(&format!("route add {to} dev lo")).unwrap();
        }
        // As TPROXY has it.
        namespace.ip("route add local 0.0.0.0/0 dev lo table 100").unwrap();
        let own = networks([V4, V6, "127.0.0.0/8", "127.0.0.1", "::1", "192.0.2.1"]);
        let down = networks(["198.51.100.1"]);
        let routed = networks(["10.9.0.0/16", "fd09::/64", "10.10.0.0/16"]);
        let is_link_local = |network: &Network| network.to_string().starts_with("fe80:");
        let mut found = local_routes::all().unwrap();
        found.retain(|network| !is_link_local(network));
        assert_eq!(found, &(&own | &down) | &routed);
    });
}

#[test]
fn the_map_has_what_is_the_hosts_and_nothing_from_before() {
    in_a_namespace("the_map_has_what_is_the_hosts_and_nothing_from_before", |_| {
        let programs = Programs::load_maps(Default::default(), Sizes::default()).unwrap();
        let knows = || control::read(&programs).unwrap().knows_local != 0;
        let count = || programs.map("local_routes").keys().count();
        let takes = |to: &str| local_routes::takes(&programs, to.parse().unwrap()).unwrap();
        assert!(!knows() && takes("192.0.2.1"), "nothing is known at first");
        for own in [networks(["192.0.2.1", "192.0.2.0/24", "::1"]), networks(["192.0.2.1"])] {
            local_routes::write(&programs, &own).unwrap();
            assert_eq!((knows(), count()), (true, own.len()));
            assert_eq!(takes("192.0.2.9"), own.len() > 1, "it is of the network");
            assert!(takes("192.0.2.1") && !takes("198.51.100.1") && !takes("2001:db8::1"));
        }
        let many = (0..=TG_LOCAL_ROUTES / 2).map(|n| Network::from(IpAddr::from(n.to_be_bytes())));
        let told = local_routes::write(&programs, &many.collect()).unwrap_err().to_string();
        assert_eq!(told, "networks of this host's own: 32769 asked for, 32768 is the most");
        assert_eq!((knows(), count()), (true, 1), "what was known is");
        local_routes::forget(&programs).unwrap();
        assert!(!knows() && takes("198.51.100.1"));
    });
}
