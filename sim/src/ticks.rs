// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Multiples of a time, at which somebody looks.

use crate::machine::Attention;

/// How the clients' machine attends to its clients, at work.
#[derive(Debug)]
pub(crate) struct Attentive {
    poll: Ticks,
    tick: Ticks,
}

impl Attentive {
    pub(crate) fn new(attention: Attention) -> Self {
        Self { poll: Ticks::every(attention.poll_ns), tick: Ticks::every(attention.tick_ns) }
    }

    /// When a packet that arrives then is seen.
    #[inline]
    pub(crate) fn sees_ns(&mut self, at_ns: u64) -> u64 {
        self.poll.next_ns(at_ns)
    }

    /// When a timer for that time is seen to be due.
    #[inline]
    pub(crate) fn wakes_ns(&mut self, at_ns: u64) -> u64 {
        self.tick.next_ns(at_ns)
    }
}

/// The multiples of a time. Who asks mostly asks for a time close behind the one before, so that the
/// last answer is the next one too, without a division.
#[derive(Debug)]
struct Ticks {
    every_ns: u64,
    last_ns: u64,
}

impl Ticks {
    fn every(every_ns: u64) -> Self {
        Self { every_ns, last_ns: 0 }
    }

    /// The first at that time or after; of a time of 0, itself.
    #[inline]
    fn next_ns(&mut self, at_ns: u64) -> u64 {
        if self.every_ns == 0 {
            return at_ns;
        }
        // Wrapped, a time behind the last answer is further away than any multiple.
        if self.last_ns.wrapping_sub(at_ns) >= self.every_ns {
            self.last_ns = at_ns.next_multiple_of(self.every_ns);
        }
        self.last_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_next_multiple_whatever_was_asked_before() {
        let mut ticks = Ticks::every(30);
        for at_ns in [0, 1, 29, 30, 31, 60, 15, 1_000_000_000, 3, 59, 61] {
            assert_eq!(ticks.next_ns(at_ns), at_ns.next_multiple_of(30), "{at_ns}");
        }
        assert_eq!(Ticks::every(0).next_ns(7), 7);
    }
}
