// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An outcome in the making.

mod spread;

use std::collections::BTreeMap;
use std::ops::Range;

use hdrhistogram::Histogram;
use nix::errno::Errno;

use crate::attempt::End;
use crate::outcome::{Errors, Held, LateStarts, Outcome, Part, Second, Segments, SynClass, Visits};
use crate::time_wait::TimeWaits;
use crate::visit::VisitEnd;
use spread::{SLICES, Spread, half_width, histogram};

const SECOND_NS: u64 = 1_000_000_000;
/// Within how many ms responses are counted: between the times at which a SYN is sent again, whole seconds mostly.
pub const WITHIN_MS: [u32; 13] =
    [3, 10, 30, 100, 300, 900, 1500, 2500, 3500, 4500, 5500, 6500, 7500];

/// Counts attempts as they start and end. Times are in ns since the run began.
#[derive(Debug)]
pub struct Tally {
    /// Segments sent and received, for drivers that see them.
    pub segments: Segments,
    counted_ns: Range<u64>,
    errors: Errors,
    attempts: u64,
    replies: u64,
    in_flight_max: u64,
    responses: Spread,
    refusals: Spread,
    delays: Spread,
    late_us: Histogram<u64>,
    syns: BTreeMap<u32, SynClass>,
    /// Replies by when they came.
    replies_in_time: [u64; SLICES],
    seconds: Vec<Second>,
    /// Once a driver has told of it.
    time_waits: Option<Box<TimeWaits>>,
    /// Once there was one.
    visits: Option<Box<VisitTally>>,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct VisitTally {
    started: u64,
    completed: Spread,
    abandoned: Spread,
}

impl VisitTally {
    fn outcome(&self) -> Visits {
        Visits {
            started: self.started,
            completed: self.completed.count(),
            abandoned: self.abandoned.count(),
            page_ms: self.completed.times(),
            abandoned_ms: self.abandoned.times(),
        }
    }
}

impl Tally {
    /// Nothing yet, for a run that counts during this time (in ns).
    ///
    /// # Panics
    /// When that time is empty.
    #[must_use]
    pub fn new(counted_ns: Range<u64>) -> Self {
        assert!(!counted_ns.is_empty(), "a run counts for more than 0 ns");
        let seconds = (counted_ns.end - counted_ns.start).div_ceil(SECOND_NS) as usize;
        Self {
            segments: Segments::default(),
            counted_ns,
            errors: Errors::default(),
            attempts: 0,
            replies: 0,
            in_flight_max: 0,
            responses: Spread::new(),
            refusals: Spread::new(),
            delays: Spread::new(),
            late_us: histogram(),
            syns: BTreeMap::new(),
            replies_in_time: Default::default(),
            seconds: vec![Second::default(); seconds],
            time_waits: None,
            visits: None,
            parts: Vec::new(),
        }
    }

    /// The crowd has so many parts, each of which is counted.
    #[must_use]
    pub fn with_parts(mut self, parts: usize) -> Self {
        self.parts = vec![Part::default(); parts];
        self
    }

    /// Whether an attempt of this intended start counts.
    #[inline]
    #[must_use]
    pub fn counts(&self, intended_ns: u64) -> bool {
        self.counted_ns.contains(&intended_ns)
    }

    /// An attempt was started, perhaps later than intended.
    pub fn started(&mut self, intended_ns: u64, now_ns: u64) {
        if self.counts(intended_ns) {
            self.late_us.saturating_record(now_ns.saturating_sub(intended_ns) / 1000);
        }
    }

    /// So many attempts are under way.
    #[inline]
    pub fn in_flight(&mut self, count: u64) {
        self.in_flight_max = self.in_flight_max.max(count);
    }

    /// So many requests were answered over a connection whose attempt ends now, however it ends.
    #[inline]
    pub fn answered(&mut self, requests: u16, now_ns: u64) {
        if self.counts(now_ns) {
            let slice = self.slice(now_ns);
            self.replies_in_time[slice] += u64::from(requests);
            self.second(now_ns).replies += u64::from(requests);
        }
    }

    /// An attempt ended now. `syns` is how many SYNs it sent, where the driver knows.
    pub fn ended(&mut self, end: End, intended_ns: u64, now_ns: u64, syns: Option<u32>) {
        if !self.counts(intended_ns) {
            return;
        }
        self.attempts += 1;
        let second = self.second(intended_ns);
        second.started += 1;
        second.repeated += u64::from(syns.is_some_and(|syns| syns > 1));
        second.failed += u64::from(end != End::Replied);
        if let Some(syns) = syns {
            let class = self.syns.entry(syns).or_default();
            class.attempts += 1;
            class.errors += u64::from(end != End::Replied);
        }
        let after_us = now_ns.saturating_sub(intended_ns) / 1000;
        let slice = self.slice(intended_ns);
        self.delays.add(after_us, slice);
        match end {
            End::Replied => {
                self.replies += 1;
                self.responses.add(after_us, slice);
            }
            End::Refused | End::Reset => self.refusals.add(after_us, slice),
            _ => {}
        }
        self.count_error(end);
    }

    /// Of which part of the crowd an attempt was that has ended: beside [`Tally::ended`].
    #[inline]
    pub fn ended_of(&mut self, part: usize, end: End, intended_ns: u64) {
        if self.counts(intended_ns)
            && let Some(part) = self.parts.get_mut(part)
        {
            part.attempts += 1;
            part.replies += u64::from(end == End::Replied);
        }
    }

    fn count_error(&mut self, end: End) {
        let errors = &mut self.errors;
        let count = match end {
            End::Replied => return,
            End::Refused => &mut errors.refused,
            End::Reset => &mut errors.reset,
            End::TimedOutConnecting => &mut errors.timed_out_connecting,
            End::TimedOutWaiting => &mut errors.timed_out_waiting,
            End::ClosedEarly => &mut errors.closed_early,
            End::HttpError => &mut errors.http_error,
            End::Nonsense => &mut errors.nonsense,
            End::Withdrawn => &mut errors.withdrawn,
            End::Other(number) => {
                let name = format!("{:?}", Errno::from_raw(number));
                errors.other.entry(name).or_default()
            }
        };
        *count += 1;
    }

    /// The driver will tell of TIME-WAIT at the clients.
    pub fn will_know_time_waits(&mut self) {
        self.time_waits.get_or_insert_default();
    }

    /// A client's connection came to TIME-WAIT now.
    #[inline]
    pub fn time_wait_begins(&mut self, now_ns: u64) {
        if let Some(time_waits) = &mut self.time_waits
            && now_ns < self.counted_ns.end
        {
            time_waits.begins(now_ns);
        }
    }

    /// One that began then is over before its time; to be told before it begins anew.
    pub fn time_wait_ends(&mut self, begun_ns: u64, now_ns: u64) {
        if let Some(time_waits) = &mut self.time_waits
            && now_ns < self.counted_ns.end
        {
            time_waits.ends(begun_ns, now_ns);
        }
    }

    /// An attempt of this intended start will never be made.
    pub fn not_started(&mut self, intended_ns: u64) {
        if self.counts(intended_ns) {
            self.attempts += 1;
            self.errors.not_started += 1;
            let second = self.second(intended_ns);
            second.started += 1;
            second.failed += 1;
        }
    }

    /// Of which part of the crowd it would have been: beside [`Tally::not_started`].
    pub fn not_started_of(&mut self, part: usize, intended_ns: u64) {
        if self.counts(intended_ns)
            && let Some(part) = self.parts.get_mut(part)
        {
            part.attempts += 1;
        }
    }

    /// A visit of this intended start has begun.
    pub fn visit_started(&mut self, intended_ns: u64) {
        if self.counts(intended_ns) {
            self.visits_mut().started += 1;
        }
    }

    /// A visit ended now. Its attempts are counted on their own.
    pub fn visit_ended(&mut self, end: VisitEnd, intended_ns: u64, now_ns: u64) {
        if !self.counts(intended_ns) {
            return;
        }
        let after_us = now_ns.saturating_sub(intended_ns) / 1000;
        let slice = self.slice(intended_ns);
        let visits = self.visits_mut();
        match end {
            VisitEnd::Complete => visits.completed.add(after_us, slice),
            VisitEnd::Abandoned => visits.abandoned.add(after_us, slice),
        }
    }

    fn visits_mut(&mut self) -> &mut VisitTally {
        self.visits.get_or_insert_with(|| {
            let (completed, abandoned) = (Spread::new(), Spread::new());
            Box::new(VisitTally { started: 0, completed, abandoned })
        })
    }

    /// The second of a time that counts.
    fn second(&mut self, at_ns: u64) -> &mut Second {
        &mut self.seconds[((at_ns - self.counted_ns.start) / SECOND_NS) as usize]
    }

    fn slice(&self, at_ns: u64) -> usize {
        let whole_ns = self.counted_ns.end - self.counted_ns.start;
        let since_ns = at_ns - self.counted_ns.start;
        match since_ns.checked_mul(SLICES as u64) {
            Some(share) => (share / whole_ns) as usize,
            // Over half a century.
            None => (u128::from(since_ns) * SLICES as u128 / u128::from(whole_ns)) as usize,
        }
    }

    /// What became of all of them.
    #[must_use]
    pub fn outcome(self, seed: u64) -> Outcome {
        let ms = |us: u64| us as f64 / 1000.0;
        let duration_s = (self.counted_ns.end - self.counted_ns.start) as f64 / 1e9;
        let rates = self.replies_in_time.map(|count| count as f64 / (duration_s / SLICES as f64));
        Outcome {
            attempts: self.attempts,
            replies: self.replies,
            offered_per_s: self.attempts as f64 / duration_s,
            replies_per_s: self.replies_in_time.iter().sum::<u64>() as f64 / duration_s,
            replies_per_s_ci95: Some(half_width(&rates)),
            response_ms: self.responses.times(),
            replies_within_ms: self.responses.within(WITHIN_MS),
            refusal_ms: self.refusals.times(),
            delay_ms: self.delays.times(),
            errors: self.errors,
            late_starts: LateStarts {
                p50_ms: ms(self.late_us.value_at_quantile(0.5)),
                p99_ms: ms(self.late_us.value_at_quantile(0.99)),
                max_ms: ms(self.late_us.max()),
                over_1ms: self.late_us.len() - self.late_us.count_between(0, 1000),
            },
            in_flight_max: self.in_flight_max,
            duration_s,
            seed,
            driver: String::new(),
            syns_per_attempt: self.syns,
            segments: self.segments,
            time_waits: self.time_waits.map(|mut time_waits| Held {
                at_end: time_waits.held(self.counted_ns.end),
                most: time_waits.held_max(),
            }),
            seconds: self.seconds,
            visits: self.visits.map(|visits| visits.outcome()),
            parts: self.parts,
        }
    }
}

#[cfg(test)]
mod tests;
