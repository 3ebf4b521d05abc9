// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet that a processor has in hand.

use libbpf_rs::{MapCore, MapFlags};

use crate::common::scene::*;
use tidegate_policy::raw::*;

const HAND: [u8; 4] = 0u32.to_ne_bytes();

/// As PREEMPT_RT may have it since Linux 6.18: a softirq gives way to another on the same processor, in whose hand
/// there is a SYN that is not judged to its end. Here the hands of all are full.
#[test]
fn a_packet_that_comes_between_another_and_its_decision_is_left_to_the_kernel() {
    in_a_namespace("a_packet_that_comes_between_another_and_its_decision_is_left", |_| {
        let _servers = both_full();
        let refused = [(0, "ListenQFullAtSyn", "reset", 1)];
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let hands = guards.programs.map("at_hand");
        let empty = hands.lookup_percpu(&HAND, MapFlags::ANY).unwrap().expect("there is one");
        let full: Vec<Vec<u8>> = empty.iter().map(|hand| vec![1; hand.len()]).collect();
        for to in both_families() {
            let segment = syn(to).bytes();
            for hook in HOOKS {
                hands.update_percpu(&HAND, &full, MapFlags::ANY).unwrap();
                let (outcome, left, counted) = one(&guards, hook, &segment);
                assert_eq!((outcome, left), (Outcome::Pass, segment.clone()), "{to}, {hook:?}");
                assert_eq!(counted, [], "{to}, {hook:?}");

                hands.update_percpu(&HAND, &empty, MapFlags::ANY).unwrap();
                for _ in 0..2 {
                    let (outcome, _, counted) = one(&guards, hook, &segment);
                    assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                    assert_eq!(counted, refused, "{to}, {hook:?}");
                }
            }
        }
    });
}
