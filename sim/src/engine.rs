// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens next: events in the order of their time, to the ns.
//!
//! Two heaps in one. Events of the present 4 µs are in a binary heap, small enough for the nearest
//! cache. Those to come are in a radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster algorithms
//! for the shortest path problem*, JACM 1990): time never goes back, so an event is kept by the
//! highest digit in which its time differs from the present, and looked at again only when the
//! present reaches that digit; mostly once or twice.
//!
//! Events of which each comes after the one added before it, such as packets on a cable, need no
//! sorting among each other: each kind of them has a *lane*, from which the first is taken when it
//! is earlier than all others.
//!
//! What is moved about are 16 bytes an event, side by side. The event itself stays where it was put,
//! in a slab, and is touched twice: when it is added and when it comes. An event that is taken back
//! leaves its 16 bytes behind, which are known as nobody's by the number of their addition. Nothing
//! is allocated for an event once slab and buckets have grown.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

/// The present is so many bits of ns long.
const PRESENT_BITS: u32 = 12;
const DIGIT_BITS: u32 = 8;
const BUCKETS: usize = 1 << DIGIT_BITS;
const LEVELS: usize = (u64::BITS - PRESENT_BITS).div_ceil(DIGIT_BITS) as usize;
const WORDS: usize = BUCKETS / 64;
const NONE: u32 = u32::MAX;
/// The place of [`Due::NEVER`]; one in a lane has [`NONE`].
const NEVER_PLACE: u32 = u32::MAX - 1;
/// How many lanes there are.
pub const LANES: usize = 4;

/// Events of a kind. Those of one time come in the order in which they were added.
#[derive(Debug)]
pub struct Queue<E> {
    now_ns: u64,
    /// A time in the present: now, or where the next event was looked for.
    here_ns: u64,
    present: BinaryHeap<Due>,
    levels: Vec<Level>,
    lanes: [VecDeque<(Due, E)>; LANES],
    /// The first of each lane, side by side.
    firsts: [Due; LANES],
    /// Nothing in the levels is earlier.
    far_from_ns: u64,
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
    /// Memory of buckets that had as much to hold as others of this level, to be used again.
    spare: Vec<Vec<Due>>,
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

impl Due {
    /// Of a lane that has none.
    const NEVER: Self = Self { at_ns: u64::MAX, number: 0, place: NEVER_PLACE };

    #[inline]
    fn is_never(self) -> bool {
        self.place == NEVER_PLACE
    }
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
        Self { buckets: vec![Vec::new(); BUCKETS], occupied: [0; WORDS], spare: Vec::new() }
    }

    #[inline]
    fn first(&self) -> Option<usize> {
        let word = self.occupied.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    #[inline]
    fn put(&mut self, bucket: usize, due: Due) {
        let into = &mut self.buckets[bucket];
        if into.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *into = spare;
        }
        into.push(due);
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
    }

    /// Empties a bucket.
    fn take(&mut self, bucket: usize) -> Vec<Due> {
        self.occupied[bucket / 64] &= !(1 << (bucket % 64));
        std::mem::take(&mut self.buckets[bucket])
    }
}

impl<E: Copy> Default for Queue<E> {
    fn default() -> Self {
        Self {
            now_ns: 0,
            here_ns: 0,
            present: BinaryHeap::new(),
            levels: (0..LEVELS).map(|_| Level::empty()).collect(),
            lanes: Default::default(),
            firsts: [Due::NEVER; LANES],
            far_from_ns: u64::MAX,
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
        let in_lanes = self.lanes.iter().flatten().map(|(_, event)| event);
        live.map(|(_, node)| &node.event).chain(in_lanes)
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

    /// Adds an event that cannot be taken back, and most likely comes after those added to the same
    /// lane before. `lane` is below [`LANES`].
    ///
    /// # Panics
    /// Where there is no such lane.
    #[inline]
    pub fn add_to(&mut self, lane: usize, at_ns: u64, event: E) {
        let at_ns = at_ns.max(self.now_ns);
        let last_ns = self.lanes[lane].back().map_or(0, |(last, _)| last.at_ns);
        if last_ns > at_ns || at_ns == u64::MAX {
            self.add(at_ns, event);
            return;
        }
        let due = Due { at_ns, number: self.number, place: NONE };
        self.number = self.number.wrapping_add(1);
        self.len += 1;
        if self.firsts[lane].is_never() {
            self.firsts[lane] = due;
        }
        self.lanes[lane].push_back((due, event));
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
        let (lane, first) = self.first_lane();
        loop {
            while let Some(due) = self.present.peek() {
                // The greater comes first.
                if first > *due && !first.is_never() {
                    return self.take_from(lane);
                }
                let due = *due;
                self.present.pop();
                if self.stands(due.place, due.number) {
                    self.now_ns = due.at_ns;
                    let event = self.nodes[due.place as usize].event;
                    self.release(due.place);
                    return Some((due.at_ns, event));
                }
            }
            if self.far_from_ns > first.at_ns || !self.go_on(first.at_ns) {
                return self.take_from(lane);
            }
        }
    }

    /// The lane whose first is earliest, and that first.
    #[inline]
    fn first_lane(&self) -> (usize, Due) {
        let mut first = (0, self.firsts[0]);
        for lane in 1..LANES {
            if self.firsts[lane] > first.1 {
                first = (lane, self.firsts[lane]);
            }
        }
        first
    }

    #[inline]
    fn take_from(&mut self, lane: usize) -> Option<(u64, E)> {
        let Some((due, event)) = self.lanes[lane].pop_front() else {
            // Only what was taken back was left: the present is where it was.
            self.here_ns = self.now_ns;
            return None;
        };
        self.firsts[lane] = self.lanes[lane].front().map_or(Due::NEVER, |(due, _)| *due);
        self.now_ns = due.at_ns;
        self.len -= 1;
        Some((due.at_ns, event))
    }

    /// Makes the time of the next event the present, but none later than `most_ns`; `false` when
    /// there is none so early.
    fn go_on(&mut self, most_ns: u64) -> bool {
        let mut levels = self.levels.iter().enumerate();
        let Some((level, bucket)) = levels.find_map(|(n, level)| Some((n, level.first()?))) else {
            self.far_from_ns = u64::MAX;
            return false;
        };
        let begins_ns = self.begins_ns(level, bucket);
        if begins_ns > most_ns {
            self.far_from_ns = begins_ns;
            return false;
        }
        let mut moved = self.levels[level].take(bucket);
        let first_ns = moved.iter().map(|due| due.at_ns).min().unwrap_or(self.here_ns);
        // Nothing is ever put before the present.
        self.here_ns = first_ns.min(most_ns);
        for due in moved.drain(..) {
            // From far away come mostly timers, and most of them have been taken back.
            if level == 0 || self.stands(due.place, due.number) {
                self.put(due);
            }
        }
        self.levels[level].spare.push(moved);
        true
    }

    /// The earliest time that belongs to a bucket now.
    fn begins_ns(&self, level: usize, bucket: usize) -> u64 {
        let shift = PRESENT_BITS + level as u32 * DIGIT_BITS;
        let above = self.here_ns.checked_shr(shift + DIGIT_BITS).unwrap_or(0);
        let above_ns = above.checked_shl(shift + DIGIT_BITS).unwrap_or(0);
        above_ns | ((bucket as u64) << shift)
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
        self.far_from_ns = self.far_from_ns.min(due.at_ns);
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
mod tests;
