// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attempts under way, found by number and by tuple.

use tidegate_client::Attempt;

use crate::raw::tuples::Tuple;

const NONE: u32 = u32::MAX;
const BUCKETS_MIN: usize = 1 << 12;

/// An attempt and what we know of it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub attempt: Attempt,
    pub intended_ns: u64,
    pub tuple: Tuple,
    /// How long packets take, one way.
    pub delay_ns: u64,
    /// Whose: the person's place.
    pub person: u32,
    /// The place of the visit that it belongs to, or [`ALONE`](crate::visits::ALONE).
    pub visit: u32,
    /// The next of the same bucket.
    next: u32,
    /// How many packets it has sent, for IPv4's identification.
    pub packets: u16,
    /// Whether it has come to its end, and only its connection has not.
    pub ended: bool,
    /// Whether it started in the part of the run that counts.
    pub counts: bool,
}

/// What a new attempt begins with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    pub tuple: Tuple,
    pub person: u32,
    pub visit: u32,
    pub delay_ns: u64,
    pub intended_ns: u64,
    pub counts: bool,
    pub packets: u16,
}

/// Attempts under way. Tuples of one time are close together, so that their low bits are a hash
/// without collisions: neighbours in time are neighbours in memory.
#[derive(Debug)]
pub(crate) struct Attempts {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// The first of each bucket.
    buckets: Vec<u32>,
    /// Those whose end is not known.
    pub under_way: usize,
    /// Those of them that count.
    pub counting: usize,
    /// All, with those whose connection is still closing.
    pub open: usize,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            buckets: vec![NONE; BUCKETS_MIN],
            under_way: 0,
            counting: 0,
            open: 0,
        }
    }

    /// Takes an attempt in and returns its number.
    pub(crate) fn insert(&mut self, attempt: Attempt, new: New) -> u32 {
        if self.open >= self.buckets.len() {
            self.grow();
        }
        let bucket = self.bucket(new.tuple);
        let slot = Slot {
            attempt,
            intended_ns: new.intended_ns,
            tuple: new.tuple,
            delay_ns: new.delay_ns,
            person: new.person,
            visit: new.visit,
            next: self.buckets[bucket],
            packets: new.packets,
            ended: false,
            counts: new.counts,
        };
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(slot);
                number
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).expect("memory ends before numbers do")
            }
        };
        self.buckets[bucket] = number;
        self.open += 1;
        self.under_way += 1;
        self.counting += usize::from(new.counts);
        number
    }

    /// The attempt of a number, if there still is one.
    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut Slot> {
        self.slots.get_mut(number as usize)?.as_mut()
    }

    /// The number of a tuple's attempt.
    #[inline]
    pub(crate) fn find(&self, tuple: Tuple) -> Option<u32> {
        let mut number = self.buckets[self.bucket(tuple)];
        while number != NONE {
            let slot = self.slots[number as usize].as_ref().expect("buckets list what is there");
            if slot.tuple == tuple {
                return Some(number);
            }
            number = slot.next;
        }
        None
    }

    /// Notes that an attempt has come to its end; its connection stays.
    pub(crate) fn end(&mut self, number: u32) {
        let Some(slot) = self.slots[number as usize].as_mut() else { return };
        debug_assert!(!slot.ended);
        slot.ended = true;
        self.under_way -= 1;
        self.counting -= usize::from(slot.counts);
    }

    /// Forgets an attempt that has come to its end.
    pub(crate) fn remove(&mut self, number: u32) {
        let Some(slot) = self.slots[number as usize].take() else { return };
        debug_assert!(slot.ended);
        let bucket = self.bucket(slot.tuple);
        let mut at = self.buckets[bucket];
        if at == number {
            self.buckets[bucket] = slot.next;
        } else {
            loop {
                let before = self.slots[at as usize].as_mut().expect("it is in its bucket");
                if before.next == number {
                    before.next = slot.next;
                    break;
                }
                at = before.next;
            }
        }
        self.free.push(number);
        self.open -= 1;
    }

    /// The numbers of all.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let there: Vec<u32> = (0_u32..)
            .zip(&self.slots)
            .filter_map(|(number, slot)| slot.as_ref().map(|_| number))
            .collect();
        there.into_iter()
    }

    fn bucket(&self, tuple: Tuple) -> usize {
        tuple as usize & (self.buckets.len() - 1)
    }

    fn grow(&mut self) {
        self.buckets = vec![NONE; self.buckets.len() * 4];
        for number in 0..self.slots.len() {
            let Some(tuple) = self.slots[number].as_ref().map(|slot| slot.tuple) else { continue };
            let bucket = self.bucket(tuple);
            let first = std::mem::replace(&mut self.buckets[bucket], number as u32);
            if let Some(slot) = self.slots[number].as_mut() {
                slot.next = first;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::visits::ALONE;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};
    use std::collections::HashMap;
    use tidegate_client::{Close, Os, Out, Person, Requests, Segment};

    struct Nowhere;

    impl Out for Nowhere {
        fn send(&mut self, _: Segment<'_>) {}
    }

    /// Against a map, with tuples that share buckets, and more than there are buckets at first.
    #[test]
    fn attempts_are_found_by_their_tuples() {
        let person = Person {
            os: Os::linux(),
            mss: 1460,
            timeout_ns: 1,
            close: Close::Fin,
            time_wait: Default::default(),
            requests: Requests::get("h", ["/"]),
        };
        let mut chance = ChaCha8Rng::seed_from_u64(3);
        let (mut attempts, mut known) = (Attempts::new(), HashMap::new());
        for step in 0..60_000_u32 {
            let tuple = u64::from(chance.next_u32() % 40_000) * 64;
            match known.get(&tuple) {
                Some(&number) if chance.next_u32() % 4 == 0 => {
                    attempts.end(number);
                    attempts.remove(number);
                    known.remove(&tuple);
                }
                Some(&number) => assert_eq!(attempts.find(tuple), Some(number)),
                None => {
                    assert_eq!(attempts.find(tuple), None, "step {step}");
                    let attempt = Attempt::start(0, &person, 0, 1, &mut chance, &mut Nowhere);
                    let new = New {
                        tuple,
                        person: 0,
                        visit: ALONE,
                        delay_ns: 0,
                        intended_ns: 0,
                        counts: true,
                        packets: 1,
                    };
                    known.insert(tuple, attempts.insert(attempt, new));
                }
            }
            assert_eq!((attempts.open, attempts.counting), (known.len(), known.len()));
        }
        assert!(known.len() > BUCKETS_MIN, "the table has grown");
        for (&tuple, &number) in &known {
            assert_eq!(attempts.find(tuple), Some(number));
            assert_eq!(attempts.get(number).unwrap().tuple, tuple);
        }
        assert_eq!(attempts.numbers().count(), known.len());
    }

    #[test]
    fn an_attempt_in_flight_is_small() {
        assert!(size_of::<Option<Slot>>() <= 256, "{}", size_of::<Option<Slot>>());
    }
}
