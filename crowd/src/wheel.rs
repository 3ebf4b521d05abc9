// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A timer for each of a million things, at a few ns each and without allocation.
//!
//! A hierarchical timing wheel (Varghese and Lauck, *Hashed and Hierarchical Timing Wheels*, SOSP
//! 1987, section 6.2): 64 buckets a level, each level 64 times coarser than the one below. A timer
//! sits in the level of its distance and moves down as its time comes near.

/// Buckets in a level: as many as a word has bits.
const BUCKETS: usize = 64;
const BUCKET_BITS: u32 = 6;
/// 64^7 ticks: 9 years of ticks of 65 µs.
const LEVELS: usize = 7;
const SPAN_TICKS: u64 = 1 << (BUCKET_BITS * LEVELS as u32);
const NONE: u32 = u32::MAX;

/// Timers by key, where keys are small numbers such as indices into a table. Each key has at most
/// one timer.
///
/// Timers fire at the first tick at or after their time, those of one tick in the order in which
/// they were set.
#[derive(Clone, Debug)]
pub struct Wheel {
    tick_bits: u32,
    /// The tick that is expired next; everything before has fired.
    now: u64,
    /// First key of each bucket's list.
    heads: [[u32; BUCKETS]; LEVELS],
    /// Which buckets have any, a bit each.
    occupied: [u64; LEVELS],
    nodes: Vec<Node>,
    /// Timers that are set.
    set: usize,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// [`Node::UNSET`] when there is no timer.
    at: u64,
    /// [`NONE`] for the last of its bucket.
    next: u32,
    /// For the first of its bucket: the last.
    previous: u32,
}

impl Node {
    const UNSET: u64 = u64::MAX;
    const EMPTY: Self = Self { at: Self::UNSET, next: NONE, previous: NONE };
}

impl Wheel {
    /// A wheel that turns in ticks of `2^tick_bits` ns and begins at `now_ns`.
    ///
    /// # Panics
    /// When a tick would be longer than 2^31 ns.
    #[must_use]
    pub fn new(tick_bits: u32, now_ns: u64) -> Self {
        assert!(tick_bits < 32, "a tick of 2^{tick_bits} ns is no tick");
        Self {
            tick_bits,
            now: now_ns >> tick_bits,
            heads: [[NONE; BUCKETS]; LEVELS],
            occupied: [0; LEVELS],
            nodes: Vec::new(),
            set: 0,
        }
    }

    /// How many timers are set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.set
    }

    /// Whether no timer is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set == 0
    }

    /// Sets the key's timer to `at_ns`, wherever it was before.
    pub fn set(&mut self, key: u32, at_ns: u64) {
        self.cancel(key);
        let at = self.tick_at_or_after(at_ns);
        self.link(key, at);
        self.set += 1;
    }

    /// Makes sure that the key's timer fires at `at_ns` or earlier: it is moved forward, never
    /// back. For owners who move timers back far more often than they let them fire: they ask
    /// themselves, when it has fired, whether it was time.
    #[inline]
    pub fn set_no_later(&mut self, key: u32, at_ns: u64) {
        let at = self.tick_at_or_after(at_ns);
        match self.nodes.get(key as usize) {
            Some(node) if node.at <= at => {}
            _ => self.set(key, at_ns),
        }
    }

    /// Takes the key's timer away, if it has one.
    pub fn cancel(&mut self, key: u32) {
        if self.nodes.get(key as usize).is_some_and(|node| node.at != Node::UNSET) {
            self.unlink(key);
            self.set -= 1;
        }
    }

    /// Takes one timer whose time has come by `now_ns` and returns its key; `None` when all have
    /// fired. Time does not go back.
    pub fn fire(&mut self, now_ns: u64) -> Option<u32> {
        let until = now_ns >> self.tick_bits;
        loop {
            let key = self.heads[0][self.now as usize % BUCKETS];
            if key != NONE && self.now <= until {
                self.unlink(key);
                self.set -= 1;
                return Some(key);
            }
            if self.now >= until {
                return None;
            }
            // On to the next bucket that has any, of any level, or to the end.
            let next = self.next_tick().unwrap_or(u64::MAX).min(until);
            self.turn_to(next);
        }
    }

    /// When to look again: no timer fires before, in ns. Where timers are far away it may be
    /// earlier than the first of them, but never so early that it has been already.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        self.next_tick().map(|tick| tick << self.tick_bits)
    }

    /// The next tick at which a bucket is due, to fire or to move down.
    fn next_tick(&self) -> Option<u64> {
        let mut first: Option<u64> = None;
        for level in 0..LEVELS {
            if self.occupied[level] == 0 {
                continue;
            }
            let shift = BUCKET_BITS * level as u32;
            let here = self.now >> shift;
            // The bucket of the present is empty above level 0: it has moved down.
            let turned = self.occupied[level].rotate_right((here % BUCKETS as u64) as u32);
            let tick = (here + u64::from(turned.trailing_zeros())) << shift;
            let tick = tick.max(self.now);
            first = Some(first.map_or(tick, |known| known.min(tick)));
        }
        first
    }

    /// Moves the present to `tick`, before which nothing is due.
    fn turn_to(&mut self, tick: u64) {
        let before = self.now;
        self.now = tick;
        // From the coarsest level down, so that what moves down can move on at once.
        for level in (1..LEVELS).rev() {
            let shift = BUCKET_BITS * level as u32;
            if before >> shift == tick >> shift {
                continue;
            }
            let bucket = (tick >> shift) as usize % BUCKETS;
            if self.occupied[level] & (1 << bucket) == 0 {
                continue;
            }
            let mut key = std::mem::replace(&mut self.heads[level][bucket], NONE);
            self.occupied[level] &= !(1 << bucket);
            while key != NONE {
                let node = self.nodes[key as usize];
                self.link(key, node.at);
                key = node.next;
            }
        }
    }

    fn tick_at_or_after(&self, at_ns: u64) -> u64 {
        let up = (1_u64 << self.tick_bits) - 1;
        let at = at_ns.saturating_add(up) >> self.tick_bits;
        // What is too far away comes back to be asked at the end of the wheel's reach.
        at.clamp(self.now, self.now + SPAN_TICKS - SPAN_TICKS / BUCKETS as u64 - 1)
    }

    fn place(&self, at: u64) -> (usize, usize) {
        let apart = at ^ self.now;
        let level = (63 - (apart | 1).leading_zeros()) / BUCKET_BITS;
        // A carry across the highest bit looks further than the reach; it is not.
        let level = (level as usize).min(LEVELS - 1);
        (level, (at >> (BUCKET_BITS * level as u32)) as usize % BUCKETS)
    }

    fn link(&mut self, key: u32, at: u64) {
        let index = key as usize;
        if index >= self.nodes.len() {
            self.nodes.resize(index + 1, Node::EMPTY);
        }
        let (level, bucket) = self.place(at);
        let first = self.heads[level][bucket];
        let last = if first == NONE {
            self.heads[level][bucket] = key;
            self.occupied[level] |= 1 << bucket;
            key
        } else {
            let last = std::mem::replace(&mut self.nodes[first as usize].previous, key);
            self.nodes[last as usize].next = key;
            last
        };
        self.nodes[index] = Node { at, next: NONE, previous: last };
    }

    fn unlink(&mut self, key: u32) {
        let Node { at, next, previous } = self.nodes[key as usize];
        self.nodes[key as usize].at = Node::UNSET;
        // It is where place() put it and would put it still: a bucket moves down before the
        // present enters it.
        let (level, bucket) = self.place(at);
        let first = self.heads[level][bucket];
        if first == key {
            self.heads[level][bucket] = next;
            if next == NONE {
                self.occupied[level] &= !(1 << bucket);
            } else {
                self.nodes[next as usize].previous = previous;
            }
            return;
        }
        self.nodes[previous as usize].next = next;
        let after = if next == NONE { first } else { next };
        self.nodes[after as usize].previous = previous;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK_BITS: u32 = 16;
    const TICK_NS: u64 = 1 << TICK_BITS;

    fn fired(wheel: &mut Wheel, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| wheel.fire(now_ns)).collect()
    }

    #[test]
    fn a_timer_fires_at_its_tick_and_not_before() {
        for distance_ns in [0, 1, TICK_NS, 3 * TICK_NS + 5, 1_000_000_000, 75_000_000_000] {
            for begin_ns in [0, 1, 12_345_678_901, u64::from(u32::MAX) * TICK_NS] {
                let mut wheel = Wheel::new(TICK_BITS, begin_ns);
                let at_ns = begin_ns + distance_ns;
                wheel.set(7, at_ns);
                let tick_ns = at_ns.next_multiple_of(TICK_NS);
                if tick_ns > begin_ns {
                    assert_eq!(fired(&mut wheel, tick_ns - 1), [], "{begin_ns} + {distance_ns}");
                }
                assert_eq!(fired(&mut wheel, tick_ns), [7], "{begin_ns} + {distance_ns}");
                assert!(wheel.is_empty());
            }
        }
    }

    #[test]
    fn moving_is_forward_only_when_asked_so() {
        let mut wheel = Wheel::new(TICK_BITS, 0);
        wheel.set_no_later(1, 10 * TICK_NS);
        wheel.set_no_later(1, 20 * TICK_NS);
        assert_eq!(fired(&mut wheel, 10 * TICK_NS), [1]);
        wheel.set(1, 30 * TICK_NS);
        wheel.set(1, 40 * TICK_NS);
        assert_eq!(fired(&mut wheel, 39 * TICK_NS), []);
        wheel.set_no_later(1, 39 * TICK_NS);
        assert_eq!(fired(&mut wheel, 39 * TICK_NS), [1]);
        wheel.set(1, 50 * TICK_NS);
        wheel.cancel(1);
        wheel.cancel(2);
        assert_eq!(wheel.next_ns(), None);
        assert_eq!(fired(&mut wheel, 60 * TICK_NS), []);
    }

    #[test]
    fn what_is_past_fires_at_once() {
        let mut wheel = Wheel::new(TICK_BITS, 0);
        assert_eq!(fired(&mut wheel, 1_000_000_000), []);
        wheel.set(3, 5);
        assert!(wheel.next_ns().unwrap() <= 1_000_000_000);
        assert_eq!(fired(&mut wheel, 1_000_000_000), [3]);
    }

    #[test]
    fn within_a_tick_first_come_is_first_served() {
        let mut wheel = Wheel::new(TICK_BITS, 0);
        let at_ns = 5000 * TICK_NS;
        wheel.set(1, at_ns);
        wheel.set(9, at_ns - 1);
        assert_eq!(fired(&mut wheel, at_ns - 100 * TICK_NS), []);
        wheel.set(4, at_ns - 2);
        assert_eq!(fired(&mut wheel, at_ns - 2 * TICK_NS), []);
        wheel.set(5, at_ns);
        wheel.set(3, at_ns);
        wheel.cancel(9);
        wheel.cancel(3);
        wheel.set(2, at_ns);
        wheel.set(1, at_ns);
        assert_eq!(fired(&mut wheel, at_ns), [4, 5, 2, 1]);
    }

    /// Against a list that is looked through: random times, moves, cancellations and steps.
    #[test]
    fn it_agrees_with_a_list() {
        use rand_chacha::ChaCha8Rng;
        use rand_chacha::rand_core::{Rng, SeedableRng};
        for seed in 0..20 {
            let mut chance = ChaCha8Rng::seed_from_u64(seed);
            let mut now_ns = chance.next_u64() >> 20;
            let mut wheel = Wheel::new(TICK_BITS, now_ns);
            // When, and as the how-manieth it was set.
            let mut list = vec![None::<(u64, u64)>; 200];
            let mut settings = 0;
            for _ in 0..5000 {
                let key = (chance.next_u32() % 200) as usize;
                // Distances from ns to hours, each magnitude as likely.
                let distance_ns = chance.next_u64() >> (64 - chance.next_u32() % 44).min(63);
                match chance.next_u32() % 8 {
                    0 => {
                        wheel.cancel(key as u32);
                        list[key] = None;
                    }
                    1..5 => {
                        wheel.set(key as u32, now_ns + distance_ns);
                        settings += 1;
                        list[key] = Some((now_ns + distance_ns, settings));
                    }
                    _ => {
                        let due = list.iter().flatten().map(|(at_ns, _)| *at_ns).min();
                        if let (Some(next_ns), Some(due)) = (wheel.next_ns(), due) {
                            assert!(next_ns <= due.next_multiple_of(TICK_NS).max(now_ns));
                        }
                        now_ns += distance_ns >> 8;
                        let mut expected = Vec::new();
                        for (key, timer) in list.iter_mut().enumerate() {
                            let tick = timer.map_or(u64::MAX, |(at, _)| at.div_ceil(TICK_NS));
                            if tick <= now_ns / TICK_NS {
                                expected.push((tick, timer.take().unwrap().1, key as u32));
                            }
                        }
                        expected.sort_unstable();
                        let expected: Vec<u32> = expected.iter().map(|due| due.2).collect();
                        assert_eq!(fired(&mut wheel, now_ns), expected, "seed {seed}");
                    }
                }
                assert_eq!(wheel.len(), list.iter().flatten().count());
            }
        }
    }
}
