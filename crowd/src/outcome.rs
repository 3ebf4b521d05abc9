// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What became of a crowd.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::attempt::End;

/// What became of a crowd: of the attempts whose intended start was in the time that counts.
///
/// `attempts` is `replies` plus [`Errors::total`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Attempts counted.
    pub attempts: u64,
    /// Those that got a whole reply in time.
    pub replies: u64,
    /// Starts intended per second; in a closed loop, starts made.
    pub offered_per_s: f64,
    /// Replies that arrived during the time that counts, per second of it, no matter when they
    /// were asked for: what the server sustains. (Replies that only came because the load had
    /// ended are not in it.)
    pub replies_per_s: f64,
    /// From intended start to whole reply, in ms, of `replies`.
    pub response_ms: Times,
    /// From intended start to being turned away, in ms, of those refused or reset.
    pub refusal_ms: Times,
    /// The other attempts.
    pub errors: Errors,
    /// How far actual starts were behind the intended ones.
    pub late_starts: LateStarts,
    /// Most attempts under way at one time.
    pub in_flight_max: u64,
    /// The time that counts, in s.
    pub duration_s: f64,
    /// The schedule's seed.
    pub seed: u64,
}

/// A distribution of times in ms; all zero when there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The mean, in ms.
    pub mean: f64,
    /// The median, in ms.
    pub p50: f64,
    /// The 90th percentile, in ms.
    pub p90: f64,
    /// The 99th percentile, in ms.
    pub p99: f64,
    /// The longest, in ms.
    pub max: f64,
}

/// Attempts that got no reply, by how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// The SYN was answered with a RST (ECONNREFUSED).
    pub refused: u64,
    /// Connected, then reset (ECONNRESET, EPIPE).
    pub reset: u64,
    /// Given up after the timeout, never connected.
    pub timed_out_connecting: u64,
    /// Given up after the timeout, connected but without a whole reply.
    pub timed_out_waiting: u64,
    /// The server closed before the reply was whole.
    pub closed_early: u64,
    /// Whole replies with a status of 400 and above.
    pub http_error: u64,
    /// What came was not HTTP, or chunked.
    pub nonsense: u64,
    /// Intended, but the generator was so far behind that it never got to them.
    pub not_started: u64,
    /// Everything else, by errno.
    pub other: BTreeMap<String, u64>,
}

impl Errors {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.refused
            + self.reset
            + self.timed_out()
            + self.closed_early
            + self.http_error
            + self.nonsense
            + self.not_started
            + self.other.values().sum::<u64>()
    }

    /// Those left hanging until they gave up.
    #[must_use]
    pub fn timed_out(&self) -> u64 {
        self.timed_out_connecting + self.timed_out_waiting
    }

    /// Those told no, by a RST sooner or later.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        self.refused + self.reset
    }
}

/// How far actual starts were behind the intended ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LateStarts {
    /// The median lateness, in ms.
    pub p50_ms: f64,
    /// The 99th percentile, in ms.
    pub p99_ms: f64,
    /// The worst, in ms.
    pub max_ms: f64,
    /// Starts more than 1 ms late.
    pub over_1ms: u64,
}

/// Two of the longest patience a plan may have.
const LONGEST_US: u64 = 2 * 86_400 * 1_000_000;

/// An outcome in the making.
#[derive(Debug)]
pub(crate) struct Tally {
    pub errors: Errors,
    pub attempts: u64,
    pub replies: u64,
    pub replies_in_time: u64,
    pub in_flight_max: u64,
    response_us: Histogram<u64>,
    refusal_us: Histogram<u64>,
    late_us: Histogram<u64>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        // Three significant digits: 1 ‰ of error, far below the noise of a network.
        let histogram = || {
            Histogram::new_with_bounds(1, LONGEST_US, 3).expect("bounds and precision are valid")
        };
        Self {
            errors: Errors::default(),
            attempts: 0,
            replies: 0,
            replies_in_time: 0,
            in_flight_max: 0,
            response_us: histogram(),
            refusal_us: histogram(),
            late_us: histogram(),
        }
    }

    pub(crate) fn started(&mut self, late_ns: u64) {
        self.late_us.saturating_record(late_ns / 1000);
    }

    /// Counts an attempt that ended so long after its intended start.
    pub(crate) fn ended(&mut self, end: End, after_ns: u64) {
        self.attempts += 1;
        let errors = &mut self.errors;
        match end {
            End::Replied => {
                self.replies += 1;
                self.response_us.saturating_record(after_ns / 1000);
                return;
            }
            End::Refused => errors.refused += 1,
            End::Reset => errors.reset += 1,
            End::TimedOutConnecting => errors.timed_out_connecting += 1,
            End::TimedOutWaiting => errors.timed_out_waiting += 1,
            End::ClosedEarly => errors.closed_early += 1,
            End::HttpError => errors.http_error += 1,
            End::Nonsense => errors.nonsense += 1,
            End::Other(number) => {
                let name = format!("{:?}", Errno::from_raw(number));
                *errors.other.entry(name).or_default() += 1;
            }
        }
        if matches!(end, End::Refused | End::Reset) {
            self.refusal_us.saturating_record(after_ns / 1000);
        }
    }

    pub(crate) fn not_started(&mut self, count: u64) {
        self.attempts += count;
        self.errors.not_started += count;
    }

    pub(crate) fn outcome(self, duration_s: f64, seed: u64) -> Outcome {
        let ms = |us: u64| us as f64 / 1000.0;
        Outcome {
            attempts: self.attempts,
            replies: self.replies,
            offered_per_s: self.attempts as f64 / duration_s,
            replies_per_s: self.replies_in_time as f64 / duration_s,
            response_ms: times(&self.response_us),
            refusal_ms: times(&self.refusal_us),
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
        }
    }
}

fn times(us: &Histogram<u64>) -> Times {
    if us.is_empty() {
        return Times::default();
    }
    let at = |quantile| us.value_at_quantile(quantile) as f64 / 1000.0;
    Times {
        mean: us.mean() / 1000.0,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        max: us.max() as f64 / 1000.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_attempt_is_counted_once() {
        let ends = [
            End::Replied,
            End::HttpError,
            End::Refused,
            End::Reset,
            End::TimedOutConnecting,
            End::TimedOutWaiting,
            End::ClosedEarly,
            End::Nonsense,
            End::Other(Errno::EMFILE as i32),
        ];
        let mut tally = Tally::new();
        for end in ends {
            tally.ended(end, 3_000_000_000);
        }
        tally.not_started(3);
        let outcome = tally.outcome(2.0, 7);
        assert_eq!(outcome.attempts, ends.len() as u64 + 3);
        assert_eq!(outcome.attempts, outcome.replies + outcome.errors.total());
        assert_eq!(outcome.errors.other["EMFILE"], 1);
        for measured in [outcome.response_ms.mean, outcome.response_ms.p99, outcome.refusal_ms.max]
        {
            assert!((measured / 3000.0 - 1.0).abs() < 0.002, "{measured}");
        }
    }
}
