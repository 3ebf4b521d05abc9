// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of clients of which the kernel alone decides.

use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::Tap;
use tidegate_datapath::array::read_one;
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::raw::*;

/// The same for everybody.
fn limiting(limit: tg_limit, guard: Guarded) -> Guarded {
    let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
    Guarded { limits: everybody.to_vec(), ..guard }
}

fn exempting(guard: Guarded) -> Guarded {
    limiting(tg_limit::exempt(), guard)
}

#[test]
fn an_exempt_syn_without_room_is_left_to_the_kernel() {
    in_a_namespace("an_exempt_syn_without_room_is_left_to_the_kernel", |_| {
        let _servers = both_full();
        let auto = tg_rules { is_auto: 1, ..refusing(TG_SYN_RESET) };
        let guards = Guards::new(Vec::new());
        for rules in [refusing(TG_SYN_DROP), refusing(TG_SYN_RESET), refusing(TG_SYN_COOKIE), auto]
        {
            guards.rewrite(vec![exempting(guarded(None, FULL, rules))]);
            for to in both_families() {
                assert_passed(&guards, &syn(to).bytes(), "ListenQFullAtSyn");
            }
        }
    });
}

/// `abort` has the kernel refuse by a change to the client's ACK.
#[test]
fn an_exempt_ack_without_room_is_left_as_it_is() {
    in_a_namespace("an_exempt_ack_without_room_is_left_as_it_is", |namespace| {
        let outside = Outside::of(namespace);
        let abort = guarded(None, FULL, tg_rules { ack: TG_ACK_RESET, ..Default::default() });
        let guards = Guards::new(vec![exempting(abort.clone())]);
        for to in both_families() {
            let _server = Server::bound(to, 0, false);
            let tap = Tap::open("srv0");
            let asks = Segment::syn(Outside::client(to, 660), to);
            outside.sends(&asks);
            let ack = asks.acknowledging(&tap.syn_ack()).bytes();
            let _waits = connect(to);
            for (guard, verdict) in [(exempting(abort.clone()), "pass"), (abort.clone(), "reset")] {
                guards.rewrite(vec![guard]);
                let (outcome, left, counted) = one(&guards, IP, &ack);
                assert_eq!(counted, [(0, "ListenQOverflow SYN/ACK ACK", verdict, 1)], "{to}");
                assert_eq!(outcome, Outcome::Pass, "{to}");
                assert_eq!(left == ack, verdict == "pass", "{to}: nobody else's ACK is changed");
            }
        }
    });
}

/// Nor is who is policed, of whom police has the last word.
#[test]
fn who_is_exempt_is_not_shed() {
    in_a_namespace("who_is_exempt_is_not_shed", |_| {
        let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = listeners.map(|to| Server::bound(to, 128, false));
        let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
        // One SYN, and no other for 18 minutes.
        let spent = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let guards = Guards::new(Vec::new());
        for hook in HOOKS {
            for to in listeners {
                let judged = |guard: Guarded| {
                    guards.rewrite(vec![guard]);
                    // The first spends what there is.
                    one(&guards, hook, &syn(to).bytes());
                    one(&guards, hook, &syn(to).bytes()).2
                };
                let shed = shedding(ROOMY, everyone);
                let why = format!("{to}, {hook:?}");
                assert_eq!(judged(shed.clone()), [(0, "ShedStateless", "drop", 1)], "{why}");
                assert_eq!(judged(exempting(shed.clone())), [(0, "Exempt", "pass", 1)], "{why}");
                let dropped = [(0, "Policed", "drop", 1)];
                assert_eq!(judged(limiting(spent, shed)), dropped, "{why}");
            }
        }
    });
}

/// They take places that it has given to nobody.
#[test]
fn auto_counts_those_exempt_who_find_room() {
    in_a_namespace("auto_counts_those_exempt_who_find_room", |_| {
        let to = at(V4, ROOMY);
        let _server = Server::new(to, 128, 1);
        let auto = tg_rules { is_auto: 1, ..refusing(TG_SYN_RESET) };
        let guards = Guards::new(vec![exempting(guarded(None, ROOMY, auto))]);
        for (hook, passed) in HOOKS.into_iter().zip(1..) {
            let (.., counted) = one(&guards, hook, &syn(to).bytes());
            assert_eq!(counted, [(0, "Exempt", "pass", 1)], "{hook:?}");
            let met: tg_overload = read_one(&guards.programs, "overload", 0).unwrap();
            assert_eq!((met.exempted, met.seen), (passed, 0), "{hook:?}");
        }
    });
}
