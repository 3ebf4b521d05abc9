// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens next: events in the order of their time, to the ns.
//!
//! Two heaps in one. Events of the present 4 µs are in a binary heap, small enough for the nearest
//! cache. Those to come are in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster algorithms
//! for the shortest path problem*, JACM 1990): time never goes back, so an event is kept by the
//! highest digit in which its time differs from the present, and looked at again only when the
//! present reaches that digit; mostly once or twice.
//!
//! What is moved about are 16 bytes an event, side by side. The event itself stays where it was put,
//! in a slab, and is touched twice: when it is added and when it comes. An event that is taken back
//! leaves its 16 bytes behind, which are known as nobody's by the number of their addition. Nothing
//! is allocated for an event once slab and buckets have grown.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The present is so many bits of ns long.
const PRESENT_BITS: u32 = 12;
const DIGIT_BITS: u32 = 8;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (u64::BITS - PRESENT_BITS).div_ceil(DIGIT_BITS) as usize;
const WORDS: usize = BUCKETS / 64;
const NONE: u32 = u32::MAX;

/// Events of a kind. Those of one time come in the order in which they were added.
#[derive(Debug)]
pub struct Queue<E> {
    now_ns: u64,
    /// A time in the present: now, or where the next event was looked for.
    here_ns: u64,
    present: BinaryHeap<Due>,
    levels: Vec<Level>,
    /// A bucket's memory, to be used again.
    spare: Vec<Due>,
    nodes: Vec<Node<E>>,
    free: u32,
    len: usize,
    /// The number of the next addition.
    number: u32,
}

#[derive(Debug)]
struct Level {
    buckets: Vec<Vec<Due>>,
    /// Which buckets have any, a bit each.
    occupied: [u64; WORDS],
}

/// An event's time and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Due {
    at_ns: u64,
    number: u32,
    place: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    /// The number of its addition.
    number: u32,
    /// The next free one; of one in use, itself.
    next: u32,
    event: E,
}

/// An event that was added, to take it back by. It means nothing once the event has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    place: u32,
    number: u32,
}

/// The earliest is the greatest. Numbers wrap around: of two additions more than 2^31 apart whose
/// events have the same ns, the later one comes first, which is as good an order.
impl Ord for Due {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = other.at_ns.cmp(&self.at_ns);
        by_time.then_with(|| (other.number.wrapping_sub(self.number) as i32).cmp(&0))
    }
}

impl PartialOrd for Due {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Level {
    fn empty() -> Self {
        Self { buckets: vec![Vec::new(); BUCKETS], occupied: [0; WORDS] }
    }

    #[inline]
    fn first(&self) -> Option<usize> {
        let word = self.occupied.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    #[inline]
    fn put(&mut self, bucket: usize, due: Due) {
        self.buckets[bucket].push(due);
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
    }
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self {
            now_ns: 0,
            here_ns: 0,
            present: BinaryHeap::new(),
            levels: (0..LEVELS).map(|_| Level::empty()).collect(),
            spare: Vec::new(),
            nodes: Vec::new(),
            free: NONE,
            len: 0,
            number: 0,
        }
    }
}

impl<E: Copy> Queue<E> {
    /// Memory that an event to come takes, in bytes.
    #[must_use]
    pub const fn bytes_an_event() -> usize {
        size_of::<Node<E>>() + size_of::<Due>()
    }

    /// All that are to come, in no order.
    pub fn each(&self) -> impl Iterator<Item = &E> {
        let live = (0..).zip(&self.nodes).filter(|(place, node): &(u32, _)| node.next == *place);
        live.map(|(_, node)| &node.event)
    }

    /// How many are to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is to come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The time of the event that came last, in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds an event; one of the past comes now.
    #[inline]
    pub fn add(&mut self, at_ns: u64, event: E) -> Ticket {
        let number = self.number;
        self.number = number.wrapping_add(1);
        let place = if self.free == NONE {
            let place = u32::try_from(self.nodes.len()).expect("memory ends before numbers do");
            self.nodes.push(Node { number, next: place, event });
            place
        } else {
            let place = self.free;
            self.free = self.nodes[place as usize].next;
            self.nodes[place as usize] = Node { number, next: place, event };
            place
        };
        self.len += 1;
        self.put(Due { at_ns: at_ns.max(self.now_ns), number, place });
        Ticket { place, number }
    }

    /// Takes an event back that has not come yet.
    #[inline]
    pub fn take_back(&mut self, ticket: Ticket) {
        if self.stands(ticket.place, ticket.number) {
            self.release(ticket.place);
        }
    }

    /// The next event and its time.
    #[inline]
    pub fn take_next(&mut self) -> Option<(u64, E)> {
        loop {
            while let Some(due) = self.present.pop() {
                if self.stands(due.place, due.number) {
                    self.now_ns = due.at_ns;
                    let event = self.nodes[due.place as usize].event;
                    self.release(due.place);
                    return Some((due.at_ns, event));
                }
            }
            if !self.go_on() {
                // Only what was taken back was left: the present is where it was.
                self.here_ns = self.now_ns;
                return None;
            }
        }
    }

    /// Makes the time of the next event the present; `false` when there is none.
    fn go_on(&mut self) -> bool {
        let occupied = |level: &Level| level.first();
        let Some((level, bucket)) =
            self.levels.iter().enumerate().find_map(|(n, level)| Some((n, occupied(level)?)))
        else {
            return false;
        };
        let mut moved = std::mem::take(&mut self.spare);
        std::mem::swap(&mut moved, &mut self.levels[level].buckets[bucket]);
        self.levels[level].occupied[bucket / 64] &= !(1 << (bucket % 64));
        self.here_ns = moved.iter().map(|due| due.at_ns).min().unwrap_or(self.here_ns);
        for due in moved.drain(..) {
            // From far away come mostly timers, and most of them have been taken back.
            if level == 0 || self.stands(due.place, due.number) {
                self.put(due);
            }
        }
        self.spare = moved;
        true
    }

    /// Puts it where it belongs now.
    #[inline]
    fn put(&mut self, due: Due) {
        let differs = due.at_ns ^ self.here_ns;
        if differs >> PRESENT_BITS == 0 {
            self.present.push(due);
            return;
        }
        let level = (63 - differs.leading_zeros() - PRESENT_BITS) / DIGIT_BITS;
        let bucket = (due.at_ns >> (PRESENT_BITS + level * DIGIT_BITS)) as usize % BUCKETS;
        self.levels[level as usize].put(bucket, due);
    }

    #[inline]
    fn stands(&self, place: u32, number: u32) -> bool {
        let node = &self.nodes[place as usize];
        node.number == number && node.next == place
    }

    #[inline]
    fn release(&mut self, place: u32) {
        self.nodes[place as usize].next = self.free;
        self.free = place;
        self.len -= 1;
    }
}

#[cfg(test)]
mod tests {
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
        TakeBack { which: usize },
        Next,
    }

    fn act() -> impl Strategy<Value = Act> {
        prop_oneof![
            4 => (0_u32..40, any::<u64>()).prop_map(|(bits, raw)| Act::Add {
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
            let mut model: BTreeMap<(u64, usize), Ticket> = BTreeMap::new();
            let mut added = 0;
            for act in acts {
                match act {
                    Act::Add { after_ns } => {
                        let at_ns = queue.now_ns() + after_ns;
                        model.insert((at_ns, added), queue.add(at_ns, added));
                        added += 1;
                    }
                    Act::TakeBack { which } if !model.is_empty() => {
                        let key = *model.keys().nth(which % model.len()).unwrap();
                        queue.take_back(model.remove(&key).unwrap());
                    }
                    Act::TakeBack { .. } => {}
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
}
