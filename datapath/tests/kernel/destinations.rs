// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks that TIME-WAIT is negotiated with: the longest that has an address counts, in the
//! configuration in force, and none of one before it.

use std::net::IpAddr;

use crate::common::scene::{KEYS, in_a_namespace};
use libbpf_rs::{MapCore, MapFlags};
use tidegate_datapath::configuration::{self, Configuration};
use tidegate_datapath::control;
use tidegate_datapath::network::Network;
use tidegate_datapath::plain::{bytes_of, from_bytes};
use tidegate_datapath::programs::{Programs, Sizes};
use tidegate_datapath::raw::*;
use tidegate_policy::raw::*;

const BY_CLIENT: tg_tw_rules = tg_tw_rules { negotiate: TG_TW_CLIENT, insist: 1, close_swap: 0 };
const BY_SERVER: tg_tw_rules = tg_tw_rules { negotiate: TG_TW_SERVER, insist: 0, close_swap: 1 };

fn put_in_force(programs: &Programs, destinations: &[(&str, tg_tw_rules)]) {
    let network = |text: &str| -> Network { text.parse().unwrap() };
    let destinations = destinations.iter().map(|(text, rules)| (network(text), *rules)).collect();
    let configuration = Configuration { destinations, keys: KEYS, ..Default::default() };
    configuration::write(programs, &configuration).unwrap();
}

/// What is wanted of connections to an address, looked up as the programs do.
fn wanted(programs: &Programs, address: &str) -> Option<tg_tw_rules> {
    let active = control::read(programs).unwrap().active;
    let (is_ipv6, octets) = match address.parse().unwrap() {
        IpAddr::V4(address) => (0, address.octets().to_vec()),
        IpAddr::V6(address) => (1, address.octets().to_vec()),
    };
    let mut addr = [0; 4];
    for (word, bytes) in addr.iter_mut().zip(octets.chunks_exact(4)) {
        *word = u32::from_ne_bytes(bytes.try_into().unwrap());
    }
    let prefix_bits = TG_NETWORK_OWNER_BITS + 8 * octets.len() as u32;
    // As tg_destination_owner() has it.
    let key = tg_network { prefix_bits, owner: active << 8 | is_ipv6, addr };
    let found = programs.map("destinations").lookup(bytes_of(&key), MapFlags::ANY).unwrap();
    found.map(|bytes| from_bytes(&bytes))
}

#[test]
fn the_longest_network_of_the_configuration_in_force_counts() {
    in_a_namespace("the_longest_network_of_the_configuration_in_force_counts", |_| {
        let programs = Programs::load_maps(Default::default(), Sizes::default()).unwrap();
        let all = [
            ("0.0.0.0/0", BY_CLIENT),
            ("192.0.2.0/24", BY_SERVER),
            ("2001:db8::/32", BY_SERVER),
            ("2001:db8:1::/48", BY_CLIENT),
        ];
        put_in_force(&programs, &all);
        for _ in 0..3 {
            assert_eq!(wanted(&programs, "192.0.2.7"), Some(BY_SERVER));
            assert_eq!(wanted(&programs, "192.0.3.7"), Some(BY_CLIENT));
            assert_eq!(wanted(&programs, "2001:db8::1"), Some(BY_SERVER));
            assert_eq!(wanted(&programs, "2001:db8:1::1"), Some(BY_CLIENT));
            assert_eq!(wanted(&programs, "2001:db9::1"), None, "IPv4's are not IPv6's");
            // New cookie keys are another configuration, with the same destinations.
            configuration::write_keys(&programs, KEYS).unwrap();
        }
        // Either configuration has had all four; what is not asked any more is in neither.
        for _ in 0..2 {
            put_in_force(&programs, &[("192.0.2.0/24", BY_CLIENT)]);
            assert_eq!(wanted(&programs, "192.0.2.7"), Some(BY_CLIENT));
            assert_eq!(wanted(&programs, "192.0.3.7"), None);
            assert_eq!(wanted(&programs, "2001:db8:1::1"), None);
        }
        assert_eq!(programs.map("destinations").keys().count(), 2, "one in each");
        put_in_force(&programs, &[]);
        configuration::write_keys(&programs, KEYS).unwrap();
        assert_eq!(programs.map("destinations").keys().count(), 0);
    });
}
