// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How evenly a processor works.
//!
//! None is as fast in one moment as in the next: caches, interrupts, whoever else has the core. A
//! model that leaves it out is in step with itself. A server that accepts a queue at a time has it
//! full, and open, by turns; clients whose SYN is dropped come again after exactly a second, and
//! where that is a whole number of turns they meet the full queue every time, while those who are
//! new are let in: the mean response is anything then, by a hundredth of the server's cost.

use serde::{Deserialize, Serialize};

use crate::chance::{Chance, Entity};
use crate::spent::Took;

/// How far a program's pace strays, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// What it does takes up to so many thousandths more, or less; at most 1000.
    pub strays_x1000: u32,
    /// It keeps a pace for so long, in ns.
    pub lasts_ns: u64,
}

impl Pace {
    /// As even as no machine is.
    pub const EVEN: Self = Self { strays_x1000: 0, lasts_ns: 0 };
}

/// 1, of the parts in which a pace is counted.
const WHOLE_X65536: u64 = 1 << 16;

/// A pace at work.
#[derive(Debug)]
pub(crate) struct Pacing {
    pace: Pace,
    chance: Chance,
    until_ns: u64,
    takes_x65536: u64,
}

impl Pacing {
    pub(crate) fn of(pace: Pace, seed: u64) -> Self {
        let chance = Chance::of(seed, Entity::Pace);
        Self { pace, chance, until_ns: 0, takes_x65536: WHOLE_X65536 }
    }

    /// What such a piece of work takes, begun then.
    pub(crate) fn takes(&mut self, now_ns: u64, work: Took) -> Took {
        if self.pace.strays_x1000 == 0 {
            return work;
        }
        if now_ns >= self.until_ns {
            self.until_ns = now_ns + self.pace.lasts_ns;
            self.takes_x65536 = self.draw();
        }
        work.times_x65536(self.takes_x65536)
    }

    fn draw(&mut self) -> u64 {
        let most = WHOLE_X65536 * u64::from(self.pace.strays_x1000) / 1000;
        WHOLE_X65536 - most + self.chance.draw() % (2 * most + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ns: u64) -> Took {
        Took { socket_ns: ns / 4, application_ns: ns / 4 * 3, ..Took::default() }
    }

    #[test]
    fn a_pace_strays_so_far_and_not_in_the_mean() {
        let mut pacing = Pacing::of(Pace { strays_x1000: 20, lasts_ns: 10 }, 7);
        let took: Vec<u64> =
            (0..10_000).map(|i| pacing.takes(10 * i, work(1_000_000)).whole_ns()).collect();
        let (least, most) = (took.iter().min().unwrap(), took.iter().max().unwrap());
        assert!((980_000..981_000).contains(least) && (1_019_000..=1_020_000).contains(most));
        let mean = took.iter().sum::<u64>() / 10_000;
        assert!((999_700..1_000_300).contains(&mean), "{mean}");
    }

    /// As a machine's file and a scenario may have it: 10,000,000 µs a request, a minute each.
    #[test]
    fn the_longest_work_can_take_twice_as_long() {
        let application_ns = 10_000_000 * 60_000_000_000;
        let twice = Took { application_ns, ..Took::default() }.times_x65536(2 * WHOLE_X65536);
        assert_eq!(twice.application_ns, 2 * application_ns);
    }

    #[test]
    fn it_is_kept_for_a_while() {
        let mut pacing = Pacing::of(Pace { strays_x1000: 20, lasts_ns: 10 }, 7);
        let first = pacing.takes(100, work(1_000_000));
        assert_eq!(pacing.takes(109, work(1_000_000)), first);
        assert_ne!(pacing.takes(110, work(1_000_000)), first);
        assert_eq!(Pacing::of(Pace::EVEN, 7).takes(5, work(999)), work(999));
    }
}
