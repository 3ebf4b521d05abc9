// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs that this host forwards, or would, and those for nobody.

use crate::common::scene::*;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::local_routes;
use tidegate_lab::{Link, Namespace};
use tidegate_policy::raw::*;

fn forwards(namespace: &Namespace, value: u64) {
    for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        namespace.sysctl(name, value).unwrap();
    }
}

/// A way out, to 10.8.0.0/24 and fd08::/64.
fn way_out(namespace: &Namespace) -> (Namespace, Link) {
    let beyond = Namespace::new("beyond").unwrap();
    let link = Link::between(namespace, "out0", &beyond, "in0").unwrap();
    link.a().add_address("10.8.0.1/24").unwrap();
    link.a().add_address("fd08::1/64").unwrap();
    link.up().unwrap();
    (beyond, link)
}

/// What a host forwards is not its own, though its wildcard listener matches every address.
#[test]
fn what_the_host_forwards_passes() {
    in_a_namespace("what_the_host_forwards_passes", |namespace| {
        let _way_out = way_out(namespace);
        forwards(namespace, 1);
        let _server = Server::bound(at("::", FULL), 0, false);
        let _waits = connect(at(V4, FULL));
        // Their network may send three SYNs, and no other for 18 minutes: these take none of them.
        let limit = tg_limit { cost_ns: 1 << 40, burst_ns: 2 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let refusing = guarded(None, FULL, refusing(TG_SYN_RESET));
        let guards = Guards::new(vec![Guarded { limits: everybody.to_vec(), ..refusing }]);
        for address in ["10.8.0.5", "fd08::5"] {
            for _ in 0..3 {
                assert_not_judged(&guards, &syn(at(address, FULL)).bytes(), "it is forwarded");
            }
        }
        for to in both_families() {
            for hook in HOOKS {
                let (outcome, _, counted) = one(&guards, hook, &syn(to).bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}");
                assert_eq!(counted, [(0, "ListenQFullAtSyn", "reset", 1)], "{to}, {hook:?}");
            }
        }
    });
}

/// Of no route, of broadcast and anycast, and of all where it forwards nothing, bpf_fib_lookup() says what it says of
/// the host's own.
#[test]
fn what_is_neither_the_hosts_nor_forwarded_passes_where_the_host_is_known() {
    const TEST: &str = "what_is_neither_the_hosts_nor_forwarded_passes_where_the_host_is_known";
    in_a_namespace(TEST, |namespace| {
        let _way_out = way_out(namespace);
        namespace.ip("route add local 10.66.1.0/24 dev lo").unwrap();
        let _server = Server::bound(at("::", FULL), 0, false);
        let _waits = connect(at(V4, FULL));
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let own = [V4, V6, "10.66.1.7", "10.8.0.1", "fd08::1"];
        let others: [(u64, &[&str]); 2] = [
            (0, &["10.66.0.5", "fd66::5", "10.8.0.9", "fd08::9"]),
            (1, &["10.66.0.5", "fd66::5", "10.8.0.255", "fd08::"]),
        ];
        let assert_judged = |address: &str, why: &str| {
            for hook in HOOKS {
                let (outcome, _, counted) = one(&guards, hook, &syn(at(address, FULL)).bytes());
                let expected = (Outcome::Answer, vec![(0, "ListenQFullAtSyn", "reset", 1)]);
                assert_eq!((outcome, counted), expected, "{address} {why}, {hook:?}");
            }
        };
        for (does_forward, others) in others {
            forwards(namespace, does_forward);
            local_routes::write(&guards.programs, &local_routes::all().unwrap()).unwrap();
            forget();
            for address in others {
                let frame = syn(at(address, FULL)).bytes();
                assert_not_judged(&guards, &frame, &format!("{address} is nobody's here"));
            }
            own.iter().for_each(|address| assert_judged(address, "is the host's"));
            local_routes::forget(&guards.programs).unwrap();
            own.iter()
                .chain(others)
                .for_each(|address| assert_judged(address, "may be the host's"));
        }
    });
}
