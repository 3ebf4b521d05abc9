// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tuples in TIME-WAIT, where clients have so few that they would be, or are, used again within it.

use std::collections::{HashSet, VecDeque};

use tidegate_client::TIME_WAIT_NS;

use crate::raw::tuples::Tuple;

/// Tuples whose client closed first: for a minute nobody uses them. A RST does not end it (RFC
/// 1337).
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    held: HashSet<Tuple>,
    /// And until when, in order.
    until: VecDeque<(u64, Tuple)>,
}

impl Waiting {
    /// A tuple comes to it.
    pub(crate) fn hold(&mut self, tuple: Tuple, now_ns: u64) {
        if self.held.insert(tuple) {
            self.until.push_back((now_ns + TIME_WAIT_NS, tuple));
        }
    }

    /// Lets those go whose time has come, and shows each.
    pub(crate) fn release_due(&mut self, now_ns: u64, mut show: impl FnMut(Tuple)) {
        while let Some((_, tuple)) = self.until.pop_front_if(|(until_ns, _)| *until_ns <= now_ns) {
            self.held.remove(&tuple);
            show(tuple);
        }
    }

    #[inline]
    pub(crate) fn has(&self, tuple: Tuple) -> bool {
        !self.held.is_empty() && self.held.contains(&tuple)
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }
}

/// Of more tuples it is not known since when they are: a minute's at 70,000 a second are as many. What
/// comes faster still, from more of them than these, counts one that is used again in its minute twice.
const KNOWN_MAX: u64 = 1 << 22;

/// Tuples in TIME-WAIT that may be used again, as where a client's host has `tcp_tw_reuse`: with the
/// next connection theirs is over.
#[derive(Debug)]
pub(crate) struct Reusable {
    tuples: usize,
    /// When that of each tuple began, or 0. There once there was one; its memory is used as tuples are.
    begun_ns: Vec<u64>,
}

impl Reusable {
    /// None yet, of tuples whose numbers are below this one.
    pub(crate) fn new(tuples: u64) -> Self {
        let tuples = if tuples > KNOWN_MAX { 0 } else { tuples as usize };
        Self { tuples, begun_ns: Vec::new() }
    }

    /// A tuple comes to it, at a time that is not 0.
    pub(crate) fn hold(&mut self, tuple: Tuple, now_ns: u64) {
        if self.begun_ns.is_empty() {
            self.begun_ns = vec![0; self.tuples];
        }
        if let Some(begun_ns) = self.begun_ns.get_mut(tuple as usize) {
            *begun_ns = now_ns;
        }
    }

    /// A tuple is used again: when what is over with that had begun, however long ago.
    #[inline]
    pub(crate) fn reuse(&mut self, tuple: Tuple) -> Option<u64> {
        let begun_ns = std::mem::take(self.begun_ns.get_mut(tuple as usize)?);
        (begun_ns > 0).then_some(begun_ns)
    }
}

/// The tuples that came to TIME-WAIT last, [`KNOWN_MAX`] of them; all, where there are no more tuples
/// than that. The rest are taken for over: what comes for them is refused, as where a host has forgotten.
#[derive(Debug)]
pub(crate) struct Latest {
    /// At each place the number behind its tuple's, or 0. Its memory is used as tuples are.
    behind: Vec<u64>,
}

/// Between the places of two tuples whose numbers are [`KNOWN_MAX`] apart (that, by the golden ratio): clients
/// of several homes come in turn, and these may be so far apart.
const SPREAD: u64 = 2_592_183;

impl Latest {
    /// None yet, of tuples whose numbers are below this one.
    pub(crate) fn new(tuples: u64) -> Self {
        let places = tuples.clamp(1, KNOWN_MAX).next_power_of_two();
        Self { behind: vec![0; places as usize] }
    }

    /// A tuple's connection is over, and its client's TCP holds TIME-WAIT or not.
    #[inline]
    pub(crate) fn ended(&mut self, tuple: Tuple, in_time_wait: bool) {
        let place = self.place(tuple);
        if in_time_wait {
            self.behind[place] = tuple + 1;
        } else if self.behind[place] == tuple + 1 {
            self.behind[place] = 0;
        }
    }

    pub(crate) fn has(&self, tuple: Tuple) -> bool {
        self.behind[self.place(tuple)] == tuple + 1
    }

    /// Neighbours in time are neighbours in memory.
    #[inline]
    fn place(&self, tuple: Tuple) -> usize {
        let spread = (tuple / KNOWN_MAX).wrapping_mul(SPREAD);
        tuple.wrapping_add(spread) as usize & (self.behind.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_again_is_over_once() {
        let mut reusable = Reusable::new(10);
        assert_eq!(reusable.reuse(9), None);
        reusable.hold(9, 5);
        assert_eq!([9, 8, 9].map(|tuple| reusable.reuse(tuple)), [Some(5), None, None]);
        let mut reusable = Reusable::new(KNOWN_MAX + 1);
        reusable.hold(9, 5);
        assert_eq!(reusable.reuse(9), None, "of so many it is not known");
    }

    #[test]
    fn of_few_tuples_it_is_known_of_each_how_it_ended() {
        let mut latest = Latest::new(1000);
        for tuple in 0..1000 {
            latest.ended(tuple, tuple % 3 > 0);
        }
        assert!((0..1000).all(|tuple| latest.has(tuple) == (tuple % 3 > 0)));
        latest.ended(1, false);
        assert!(!latest.has(1) && latest.has(2));
    }

    /// Two homes whose addresses lie as far apart as the table is large, or twice as far, each with its
    /// clients in turn.
    #[test]
    fn of_many_the_last_are_known_though_homes_come_in_turn() {
        for apart in [KNOWN_MAX, 2 * KNOWN_MAX] {
            let mut latest = Latest::new(1 << 40);
            let last = 1 << 20;
            for place in 0..last {
                latest.ended(place, true);
                latest.ended(place + apart, true);
            }
            for place in last - 100_000..last {
                assert!(latest.has(place) && latest.has(place + apart), "{place}");
            }
            assert!(!latest.has(last) && !latest.has(5 * apart));
        }
    }

    #[test]
    fn each_is_held_for_a_minute() {
        let mut waiting = Waiting::default();
        waiting.hold(7, 5);
        waiting.hold(9, 6);
        let mut shown = Vec::new();
        waiting.release_due(TIME_WAIT_NS + 4, |tuple| shown.push(tuple));
        assert!(waiting.has(7) && waiting.has(9) && !waiting.has(8));
        waiting.release_due(TIME_WAIT_NS + 5, |tuple| shown.push(tuple));
        assert!(!waiting.has(7) && waiting.has(9));
        assert_eq!(waiting.len(), 1);
        waiting.release_due(TIME_WAIT_NS + 6, |tuple| shown.push(tuple));
        assert_eq!(waiting.len(), 0);
        assert_eq!(shown, [7, 9]);
    }
}
