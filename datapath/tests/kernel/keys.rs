// SPDX-License-Identifier: Apache-2.0 OR MIT
//! New keys of our cookies, in place of those in force.

use std::net::SocketAddr;

use crate::common::cookie;
use crate::common::scene::*;
use crate::common::segment::*;
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_policy::agree;
use tidegate_policy::raw::*;

/// The daemon's next pair: a fresh key, and the one that was current.
fn rotated(keys: &tg_cookie_keys) -> tg_cookie_keys {
    let fresh = tg_key { k0: keys.current.k0 + 100, k1: keys.current.k1 + 100 };
    tg_cookie_keys { current: fresh, previous: keys.current }
}

/// The ACK that brings back the cookie which a client with this port is given now.
fn cookie_ack(guards: &Guards, to: SocketAddr, port: u16) -> Segment {
    let asks = syn(to).with(|s| s.from.set_port(port));
    let (_, reply, counted) = one(guards, IP, &asks.bytes());
    assert_eq!(counted, [(0, "ListenQFullAtSyn", "cookie", 1)], "{to}");
    asks.acknowledging(&reply)
}

/// Whether this key opens the cookie that comes back.
fn opens(key: tg_key, ack: &Segment) -> bool {
    let (client_isn, isn) = (ack.seq.wrapping_sub(1), ack.ack.wrapping_sub(1));
    let keys = tg_cookie_keys { current: key, previous: key };
    let case = tg_case { keys, ..cookie::case(ack.from, ack.to, client_isn, isn) };
    agree(&case).opened_ok == 1
}

#[test]
fn a_cookie_is_let_in_until_the_keys_have_been_changed_twice() {
    in_a_namespace("a_cookie_is_let_in_until_the_keys_have_been_changed_twice", |_| {
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let once = rotated(&KEYS);
        for to in both_families() {
            configuration::write_keys(&guards.programs, KEYS).unwrap();
            let server = Server::full(to);
            let [before, too_late] = [40_001, 40_002].map(|port| cookie_ack(&guards, to, port));

            configuration::write_keys(&guards.programs, once).unwrap();
            let meanwhile = cookie_ack(&guards, to, 40_003);
            assert!(opens(KEYS.current, &before) && opens(once.current, &meanwhile), "{to}");
            let _accepted = server.listener.accept().unwrap();
            let judged = |ack: &Segment| one(&guards, IP, &ack.bytes()).2;
            assert_eq!(judged(&before), [(0, "CookieValid", "admit", 1)], "{to}");

            configuration::write_keys(&guards.programs, rotated(&once)).unwrap();
            assert_eq!(judged(&too_late), [(0, "CookieForeign", "pass", 1)], "{to}");
            assert_eq!(judged(&meanwhile), [(0, "CookieValid", "admit", 1)], "{to}");
        }
    });
}

/// It is another configuration, of the same listeners: whose networks are policed or exempt, and who has spent what
/// its network may send, is as it was.
#[test]
fn a_change_of_keys_changes_nothing_for_networks_of_clients() {
    in_a_namespace("a_change_of_keys_changes_nothing_for_networks_of_clients", |_| {
        let of = |network: &str, limit| (network.parse().unwrap(), limit);
        // One SYN, and no other for 18 minutes.
        let policed = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let limits = vec![
            of("0.0.0.0/0", tg_limit::exempt()),
            of("::/0", tg_limit::exempt()),
            of("10.9.0.77", policed),
            of("fd09::77", policed),
        ];
        let rst = guarded(None, ROOMY, refusing(TG_SYN_RESET));
        let guards = Guards::new(vec![Guarded { limits, ..rst }]);
        let servers = [at(V4, ROOMY), at(V6, ROOMY)].map(|to| (to, Server::new(to, 128, 1)));
        for (to, _) in &servers {
            assert_eq!(one(&guards, IP, &syn(*to).bytes()).2, [(0, "Room", "pass", 1)], "{to}");
        }
        let mut keys = KEYS;
        for changes in 0..3 {
            for (to, _) in &servers {
                let other = at(if to.is_ipv4() { "10.9.0.78" } else { "fd09::78" }, 40_000);
                let others = syn(*to).with(|s| s.from = other);
                for hook in HOOKS {
                    let judged = |segment: &Segment| one(&guards, hook, &segment.bytes()).2;
                    let why = format!("{to}, after {changes} changes, {hook:?}");
                    assert_eq!(judged(&syn(*to)), [(0, "Policed", "reset", 1)], "{why}");
                    assert_eq!(judged(&others), [(0, "Exempt", "pass", 1)], "{why}");
                }
            }
            keys = rotated(&keys);
            configuration::write_keys(&guards.programs, keys).unwrap();
        }
    });
}
