// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events in their order.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::prelude::*;

#[test]
fn events_of_one_time_keep_their_order() {
    let mut queue = Queue::default();
    queue.add(5_000_000, 'a');
    queue.add(4_999_999, 'b');
    queue.add(5_000_000, 'c');
    assert_eq!(queue.take_next(), Some((4_999_999, 'b')));
    queue.add(5_000_000, 'd');
    queue.add(3, 'e');
    let order: Vec<_> = std::iter::from_fn(|| queue.take_next()).collect();
    let then = 5_000_000;
    assert_eq!(order, [(4_999_999, 'e'), (then, 'a'), (then, 'c'), (then, 'd')]);
    assert!(queue.is_empty());
}

#[derive(Clone, Debug)]
enum Act {
    Add { after_ns: u64 },
    AddTo { lane: usize, after_ns: u64 },
    TakeBack { which: usize },
    Next,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0_u32..40, any::<u64>()).prop_map(|(bits, raw)| Act::Add {
            after_ns: raw & ((1 << bits) - 1)
        }),
        3 => (0..LANES, 0_u32..40, any::<u64>()).prop_map(|(lane, bits, raw)| Act::AddTo {
            lane,
            after_ns: raw & ((1 << bits) - 1)
        }),
        1 => any::<usize>().prop_map(|which| Act::TakeBack { which }),
        3 => Just(Act::Next),
    ]
}

proptest! {
    /// It is a sorted map by time and order of addition, however it is used.
    #[test]
    fn it_is_a_sorted_map(acts in prop::collection::vec(act(), 1..400)) {
        let mut queue = Queue::default();
        let mut model: BTreeMap<(u64, usize), Option<Ticket>> = BTreeMap::new();
        let mut added = 0;
        for act in acts {
            match act {
                Act::Add { after_ns } => {
                    let at_ns = queue.now_ns() + after_ns;
                    model.insert((at_ns, added), Some(queue.add(at_ns, added)));
                    added += 1;
                }
                Act::AddTo { lane, after_ns } => {
                    let at_ns = queue.now_ns() + after_ns;
                    queue.add_to(lane, at_ns, added);
                    model.insert((at_ns, added), None);
                    added += 1;
                }
                Act::TakeBack { which } => {
                    let tickets = model.iter().filter_map(|(key, ticket)| {
                        Some((*key, (*ticket)?))
                    });
                    let tickets: Vec<_> = tickets.collect();
                    if !tickets.is_empty() {
                        let (key, ticket) = tickets[which % tickets.len()];
                        queue.take_back(ticket);
                        model.remove(&key);
                    }
                }
                Act::Next => {
                    let expected = model.pop_first().map(|(key, _)| key);
                    prop_assert_eq!(queue.take_next(), expected);
                }
            }
            prop_assert_eq!(queue.len(), model.len());
            let all: BTreeSet<_> = queue.each().copied().collect();
            prop_assert_eq!(all, model.keys().map(|(_, number)| *number).collect());
        }
        let rest: Vec<_> = std::iter::from_fn(|| queue.take_next()).collect();
        prop_assert_eq!(rest, model.into_keys().collect::<Vec<_>>());
    }
}
