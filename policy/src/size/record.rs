// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The burst in what was seen of a listening socket.

/// What was seen of a listening socket since the look before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// How long that is, in s.
    pub lasted_s: f64,
    /// SYNs that came.
    pub arrived: u64,
    /// SYNs of them that found no room.
    pub dropped: u64,
    /// Connections that the server has taken, or that have left both queues at least.
    pub drained: u64,
    /// Connections that wait for accept() now.
    pub queued: u32,
    /// Connections that can wait for accept().
    pub places: u32,
}

/// A queue shorter than this is one that a server below its capacity has. One that cannot be longer is no measure:
/// full at both looks it may have been empty in between. Behind six places a server to which as many come as it
/// takes is idle for an eighth of its time, behind one for a third (M/M/1/K with K = 7 and 2).
const BUSY_PLACES: u32 = 8;
/// Fewer connections than this tell no rate.
const DRAINED_LEAST: u64 = 100;
/// A burst that needs no more places than these is none: every server's queue has them.
const BURST_PLACES: f64 = 16.0;
/// So many steps are remembered, 64 KiB: three minutes of twenty looks a second.
const STEPS_MOST: usize = 1 << 12;
/// Less of a calm than this, in s, tells no rate: the rate of one look is chance.
const CALM_LEAST_S: f64 = 1.0;
/// A burst of so many steps, or of fewer, is remembered step by step.
const KEPT_MOST: usize = STEPS_MOST / 4;

/// What came in one look, or in several one after the other.
#[derive(Clone, Copy, Debug)]
struct Step {
    lasted_s: f64,
    arrived: u64,
}

impl Step {
    fn of(steps: &[Step]) -> Self {
        Step {
            lasted_s: steps.iter().map(|step| step.lasted_s).sum(),
            arrived: steps.iter().map(|step| step.arrived).sum(),
        }
    }
}

/// What was seen of a listening socket, however long it is watched.
#[derive(Clone, Debug, Default)]
pub struct Record {
    steps: Vec<Step>,
    /// SYNs that found no room.
    dropped: u64,
    /// Connections that waited for accept() at most, and at the last look.
    queued_most: u32,
    queued: u32,
    /// Connections that could wait, at most.
    places: u32,
    /// What left the queues from look to look at which some waited, and how long that took.
    drained: u64,
    drained_s: f64,
}

/// The largest burst of a record, and the drain meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// Connections that the server takes a second while any wait.
    pub drain_per_s: f64,
    /// Connections that came a second in the burst.
    pub burst_per_s: f64,
    /// How long it lasted, in s.
    pub burst_s: f64,
    /// Connections that came a second before and after; `None` where too little of that was seen.
    pub calm_per_s: Option<f64>,
    /// Connections that waited for accept() at most.
    pub queued: u32,
    /// SYNs that found no room; those that were left in silence came again as others.
    pub dropped: u64,
    /// Whether the burst was over when the record ended.
    pub has_ended: bool,
}

/// Why a record recommends nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBurst {
    /// Nobody waited long enough.
    #[error("too calm to recommend anything: {arrived} SYNs came, and {queued} waited at most")]
    TooCalm {
        /// SYNs in all.
        arrived: u64,
        /// Connections that waited for accept() at most.
        queued: u32,
    },
    /// Nobody can wait long enough.
    #[error(
        "too short to see what the server takes: {arrived} SYNs came, and {dropped} found no room"
    )]
    TooShort {
        /// SYNs in all.
        arrived: u64,
        /// SYNs of them that found no room.
        dropped: u64,
    },
}

impl NoBurst {
    /// SYNs in all.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        let (Self::TooCalm { arrived, .. } | Self::TooShort { arrived, .. }) = *self;
        arrived
    }
}

impl Record {
    /// Adds what was seen next.
    pub fn add(&mut self, look: Look) {
        if self.queued.min(look.queued) >= BUSY_PLACES {
            self.drained += look.drained;
            self.drained_s += look.lasted_s;
        }
        self.dropped += look.dropped;
        self.queued = look.queued;
        self.queued_most = self.queued_most.max(look.queued);
        self.places = self.places.max(look.places);
        self.steps.push(Step { lasted_s: look.lasted_s, arrived: look.arrived });
        if self.steps.len() > STEPS_MOST {
            self.thin();
        }
    }

    /// Two steps become one, but for those of the largest burst so far. Of the others only what came in all
    /// will be told, and a larger burst to come is seen by itself.
    fn thin(&mut self) {
        let largest = self.drain_per_s().map_or(0..0, |per_s| self.longest(per_s).0);
        let kept = if largest.len() <= KEPT_MOST { largest } else { 0..0 };
        let halved = |steps: &[Step]| steps.chunks(2).map(Step::of).collect::<Vec<_>>();
        let (before, after) = (&self.steps[..kept.start], &self.steps[kept.end..]);
        self.steps = [halved(before).as_slice(), &self.steps[kept], &halved(after)].concat();
    }

    /// How long that was in all, in s.
    #[must_use]
    pub fn lasted_s(&self) -> f64 {
        Step::of(&self.steps).lasted_s
    }

    fn too_calm(&self) -> NoBurst {
        NoBurst::TooCalm { arrived: Step::of(&self.steps).arrived, queued: self.queued_most }
    }

    /// Why the drain was not seen. In no hour, however busy, where the queue never has the places for it.
    fn unseen(&self) -> NoBurst {
        if self.steps.is_empty() || self.places > BUSY_PLACES {
            return self.too_calm();
        }
        NoBurst::TooShort { arrived: Step::of(&self.steps).arrived, dropped: self.dropped }
    }

    /// What the server takes a second while any wait: from look to look at which some did.
    fn drain_per_s(&self) -> Option<f64> {
        (self.drained >= DRAINED_LEAST).then(|| self.drained as f64 / self.drained_s)
    }

    /// The steps of the burst for which a queue without end would have been the longest, with its
    /// length: by Lindley's recursion, which is the largest of what came in any window less what the
    /// server takes in it.
    fn longest(&self, drain_per_s: f64) -> (std::ops::Range<usize>, f64) {
        let (mut queue, mut from) = (0.0, 0);
        let (mut longest, mut burst) = (0.0, 0..0);
        for (at, step) in self.steps.iter().enumerate() {
            if queue == 0.0 {
                from = at;
            }
            queue = (queue + step.arrived as f64 - drain_per_s * step.lasted_s).max(0.0);
            if queue > longest {
                (longest, burst) = (queue, from..at + 1);
            }
        }
        (burst, longest)
    }

    /// Whether the queue came down to half of its longest in these steps after it. A burst that goes on has looks,
    /// too, in which fewer come than are taken.
    fn has_ended(after: &[Step], drain_per_s: f64, longest: f64) -> bool {
        let mut queue = longest;
        after.iter().any(|step| {
            queue += step.arrived as f64 - drain_per_s * step.lasted_s;
            queue <= longest / 2.0
        })
    }

    /// The largest burst.
    ///
    /// # Errors
    /// [`NoBurst`], where there was none to speak of.
    pub fn burst(&self) -> Result<Seen, NoBurst> {
        let drain_per_s = self.drain_per_s().ok_or_else(|| self.unseen())?;
        let (burst, longest) = self.longest(drain_per_s);
        if longest < BURST_PLACES {
            return Err(self.too_calm());
        }
        let (before, after) = (&self.steps[..burst.start], &self.steps[burst.end..]);
        let has_ended = Self::has_ended(after, drain_per_s, longest);
        // What follows a burst that goes on is no calm.
        let calm = [before, if has_ended { after } else { &[] }].concat();
        let rate = |steps: &[Step]| {
            let Step { lasted_s, arrived } = Step::of(steps);
            (arrived as f64 / lasted_s, lasted_s)
        };
        let (burst_per_s, burst_s) = rate(&self.steps[burst]);
        let (calm_per_s, calm_s) = rate(&calm);
        let calm_per_s = (calm_s >= CALM_LEAST_S).then_some(calm_per_s);
        let (queued, dropped) = (self.queued_most, self.dropped);
        Ok(Seen { drain_per_s, burst_per_s, burst_s, calm_per_s, queued, dropped, has_ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::{Burst, recommend_seen};

    /// A server that takes 1,000 a second, looked at ten times a second, with these arrivals.
    fn record(arrivals: &[u64]) -> Record {
        record_of(arrivals.iter().copied())
    }

    fn record_of(arrivals: impl IntoIterator<Item = u64>) -> Record {
        let mut record = Record::default();
        let mut queued = 0;
        for arrived in arrivals {
            let drained = (queued + arrived).min(100);
            queued = queued + arrived - drained;
            let queued = queued as u32;
            let places = u32::MAX;
            record.add(Look { lasted_s: 0.1, arrived, dropped: 0, drained, queued, places });
            assert!(record.steps.len() <= STEPS_MOST);
        }
        record
    }

    #[test]
    fn the_largest_burst_is_found_with_the_drain_and_the_calm() {
        // Two bursts: 300 more than are taken, and 800 more.
        let mut arrivals = vec![50; 20];
        arrivals.extend([200, 200, 200]);
        arrivals.extend([50; 20]);
        arrivals.extend([300, 300, 300, 300]);
        arrivals.extend([50; 20]);
        let seen = record(&arrivals).burst().unwrap();
        assert!((seen.drain_per_s - 1000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_per_s - 3000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_s - 0.4).abs() < 1e-9, "{seen:?}");
        let calm_per_s = (60.0 * 50.0 + 600.0) / 6.3;
        assert!((seen.calm_per_s.unwrap() - calm_per_s).abs() < 1e-6, "{seen:?}");
        assert_eq!((seen.queued, seen.has_ended), (800, true));
    }

    /// More than a day of calm, at twenty looks a second.
    #[test]
    fn one_burst_in_a_day_is_remembered_as_it_was() {
        let of = |at| if (1_000_000..1_000_004).contains(&at) { 300 } else { 50 };
        let record = record_of((0..2_000_000).map(of));
        assert!((record.lasted_s() - 200_000.0).abs() < 1e-3, "{}", record.lasted_s());
        let seen = record.burst().unwrap();
        assert!((seen.drain_per_s - 1000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_per_s - 3000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_s - 0.4).abs() < 1e-9, "{seen:?}");
        assert!((seen.calm_per_s.unwrap() - 500.0).abs() < 1e-6, "{seen:?}");
        assert_eq!((seen.queued, seen.has_ended), (800, true));
    }

    /// Among the calm about it none of them would be left.
    #[test]
    fn of_bursts_every_few_seconds_all_day_the_largest_is_told_of() {
        let of = |at| match at % 100 {
            0..3 => 200,
            10..14 if at / 100 == 500 => 300,
            _ => 50,
        };
        let seen = record_of((0..1_000_000).map(of)).burst().unwrap();
        assert!((seen.burst_per_s - 3000.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_s - 0.4).abs() < 1e-9, "{seen:?}");
        assert_eq!((seen.queued, seen.has_ended), (800, true));
    }

    /// A crowd that stays for a day is one burst, in steps that grow longer.
    #[test]
    fn a_burst_that_never_ends_is_told_whole() {
        let seen = record_of((0..1_000_000).map(|_| 101)).burst().unwrap();
        assert!((seen.burst_per_s - 1010.0).abs() < 1e-6, "{seen:?}");
        assert!((seen.burst_s - 100_000.0).abs() < 1e-3, "{seen:?}");
        assert_eq!((seen.queued, seen.has_ended), (1_000_000, false));
    }

    #[test]
    fn a_burst_that_goes_on_is_told() {
        let mut arrivals = vec![50; 5];
        arrivals.extend([300; 10]);
        assert!(!record(&arrivals).burst().unwrap().has_ended);
    }

    /// By chance, as fewer of a crowd come in one look than in another.
    #[test]
    fn one_look_with_fewer_than_are_taken_neither_ends_a_burst_nor_is_a_calm() {
        let of = |more: &[u64]| {
            let seen = record(&[&[110; 100], more].concat()).burst().unwrap();
            assert_eq!((seen.has_ended, seen.calm_per_s), (false, None), "{more:?}: {seen:?}");
            let clients = Burst {
                drain_per_s: 1.0,
                calm_per_s: 0.0,
                burst_per_s: 1.0,
                burst_s: 1.0,
                rtt_s: 0.1,
                pause_s: 0.0,
                drops: 0.001,
            };
            recommend_seen(&seen, &clients).unwrap().1.backlog
        };
        let alone = of(&[]);
        for more in [&[99][..], &[100], &[0], &[99, 101].repeat(10)] {
            assert!(of(more).abs_diff(alone) <= 1, "{} and {alone}: {more:?}", of(more));
        }
    }

    #[test]
    fn a_burst_has_ended_where_half_of_its_queue_would_be_gone() {
        let of = |calm: usize| {
            let arrivals = [vec![300; 10], vec![0; calm]].concat();
            let seen = record(&arrivals).burst().unwrap();
            (seen.has_ended, seen.calm_per_s)
        };
        assert_eq!((of(9), of(11)), ((false, None), (true, Some(0.0))));
    }

    #[test]
    fn less_than_a_second_of_calm_tells_no_rate() {
        let of = |calm: usize| record(&[vec![50; calm], vec![300; 4], vec![0; 4]].concat()).burst();
        let calm_per_s = |calm| of(calm).unwrap().calm_per_s;
        assert_eq!((calm_per_s(5), calm_per_s(10).is_some()), (None, true));
        assert!(of(5).unwrap().has_ended);
    }

    #[test]
    fn a_server_that_nobody_waits_for_tells_nothing() {
        let calm = record(&[90; 50]);
        assert_eq!(calm.burst(), Err(NoBurst::TooCalm { arrived: 4500, queued: 0 }));
        let said = calm.burst().unwrap_err().to_string();
        assert!(said.starts_with("too calm"), "{said}");
        assert!(Record::default().burst().is_err());
        // A few wait now and then, as before any server.
        assert!(record(&[103, 90, 103, 90, 103]).burst().is_err());
    }

    /// A queue of six places, which is full at each look: its server may yet have had nothing to do in between.
    #[test]
    fn a_queue_that_cannot_be_seen_to_be_busy_is_told_to_be_too_short() {
        let burst = |places, queued| {
            let mut record = Record::default();
            for _ in 0..50 {
                let look = Look {
                    lasted_s: 0.1,
                    arrived: 300,
                    dropped: 200,
                    drained: 100,
                    queued,
                    places,
                };
                record.add(look);
            }
            record.burst()
        };
        let short = burst(6, 6).unwrap_err();
        assert_eq!(short, NoBurst::TooShort { arrived: 15_000, dropped: 10_000 });
        assert_eq!((short.arrived(), burst(8, 7)), (15_000, Err(short)));
        // Long enough: other causes than its length kept them out.
        assert_eq!(burst(9, 7), Err(NoBurst::TooCalm { arrived: 15_000, queued: 7 }));
        assert!(burst(8, 8).is_ok_and(|seen| (seen.drain_per_s - 1000.0).abs() < 1e-6));
    }
}
