// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the next attempt is due.

use std::collections::VecDeque;
use std::iter::Peekable;

use tidegate_client::{Arrivals, End};

use crate::plan::{Load, Plan, ns};

/// After which a client of a closed loop comes again that its own host gave no port or descriptor: else
/// it would try as fast as the processor goes, and its failures would be the load.
const PAUSE_NS: u64 = 100_000_000;

/// When the next attempt is due, in ns since the beginning.
pub(crate) enum Schedule {
    Open {
        starts: Peekable<Box<dyn Iterator<Item = u64>>>,
        /// When the time that counts is over, which may be after the last start: whoever looks at the
        /// server meanwhile looks until then.
        counts_until_ns: u64,
        counted: bool,
    },
    Closed {
        clients: usize,
        end_ns: u64,
        over: bool,
        /// Until when clients pause, in order.
        pausing: VecDeque<u64>,
    },
}

impl Schedule {
    pub(crate) fn of(plan: &Plan) -> Self {
        let end_ns = ns(plan.whole());
        let arrivals = match &plan.load {
            Load::Constant { per_s } => Arrivals::constant(*per_s),
            Load::Poisson { per_s } => Arrivals::poisson(*per_s, plan.seed),
            Load::Bursts { per_s, burst, silence } => {
                Arrivals::poisson(*per_s, plan.seed).in_bursts(ns(*burst), ns(*silence))
            }
            Load::Steps { per_s, steps } => Arrivals::poisson(*per_s, plan.seed).in_steps(steps),
            // A trace without a rate of its own is refused before it comes here.
            Load::Trace { trace, per_s } => per_s
                .and_then(|per_s| Arrivals::trace_at(trace, per_s))
                .unwrap_or_else(|| Arrivals::trace(trace)),
            Load::Closed { clients } => {
                let pausing = VecDeque::new();
                return Self::Closed { clients: *clients, end_ns, over: false, pausing };
            }
        };
        let starts: Box<dyn Iterator<Item = u64>> =
            Box::new(arrivals.take_while(move |start_ns| *start_ns < end_ns));
        let counts_until_ns = ns(plan.warm_up + plan.duration);
        // A trace as it was recorded has an end of its own.
        let counted = matches!(plan.load, Load::Trace { per_s: None, .. });
        Self::Open { starts: starts.peekable(), counts_until_ns, counted }
    }

    /// The intended time of a start that is due.
    pub(crate) fn take_due(&mut self, now_ns: u64, under_way: usize) -> Option<u64> {
        match self {
            Self::Open { starts, counts_until_ns, counted } => {
                *counted |= now_ns >= *counts_until_ns;
                starts.next_if(|start_ns| *start_ns <= now_ns)
            }
            Self::Closed { clients, end_ns, over, pausing } => {
                *over |= now_ns >= *end_ns;
                while pausing.pop_front_if(|until_ns| *until_ns <= now_ns).is_some() {}
                (!*over && under_way + pausing.len() < *clients).then_some(now_ns)
            }
        }
    }

    /// An attempt ended so as soon as it was started.
    pub(crate) fn failed_at_once(&mut self, end: End, now_ns: u64) {
        if let (Self::Closed { pausing, .. }, End::Other(_)) = (self, end) {
            pausing.push_back(now_ns + PAUSE_NS);
        }
    }

    /// When to look again, if anything is left to start or time to count.
    pub(crate) fn next_ns(&mut self, under_way: usize) -> Option<u64> {
        match self {
            Self::Open { starts, counts_until_ns, counted } => {
                starts.peek().copied().or((!*counted).then_some(*counts_until_ns))
            }
            Self::Closed { over: true, .. } => None,
            Self::Closed { clients, end_ns, pausing, .. } => {
                let is_missing = under_way + pausing.len() < *clients;
                let next_ns = pausing.front().map_or(*end_ns, |until_ns| (*end_ns).min(*until_ns));
                Some(if is_missing { 0 } else { next_ns })
            }
        }
    }

    pub(crate) fn is_over(&mut self) -> bool {
        match self {
            Self::Open { starts, counted, .. } => *counted && starts.peek().is_none(),
            Self::Closed { over, .. } => *over,
        }
    }

    /// What is left to start, none of which will be.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = u64> + use<> {
        let pausing = VecDeque::new();
        let over = Self::Closed { clients: 0, end_ns: 0, over: true, pausing };
        match std::mem::replace(self, over) {
            Self::Open { starts, .. } => Some(starts).into_iter().flatten(),
            Self::Closed { .. } => None.into_iter().flatten(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_client::{Step, Trace};

    const SECOND_NS: u64 = 1_000_000_000;

    fn starts(load: Load) -> Vec<u64> {
        let plan = Plan { load, duration: Duration::from_secs(3), ..Plan::default() };
        let mut schedule = Schedule::of(&plan);
        std::iter::from_fn(|| schedule.take_due(u64::MAX, 0)).collect()
    }

    #[test]
    fn an_open_loop_has_its_rate_and_its_end() {
        let constant = starts(Load::Constant { per_s: 10.0 });
        assert_eq!((constant.len(), constant[29]), (30, 2_900_000_000));
        let poisson = starts(Load::Poisson { per_s: 10_000.0 });
        assert!((poisson.len() as f64 / 30_000.0 - 1.0).abs() < 0.03);
        let second = Duration::from_secs(1);
        let load = Load::Bursts { per_s: 10_000.0, burst: second, silence: second };
        let bursts = starts(load);
        // Two of the three seconds, at twice the rate.
        assert!((bursts.len() as f64 / 40_000.0 - 1.0).abs() < 0.03);
        assert!(bursts.iter().all(|start_ns| start_ns / SECOND_NS != 1));
    }

    #[test]
    fn a_trace_is_played_at_its_own_rate_or_at_another() {
        let trace = Trace::parse("0.5\n1.5\n2\n9").unwrap();
        let recorded = starts(Load::Trace { trace: trace.clone(), per_s: None });
        assert_eq!(recorded, [500_000_000, 1_500_000_000, 2_000_000_000]);
        let scaled = starts(Load::Trace { trace, per_s: Some(100.0) });
        assert_eq!((scaled.len(), scaled[0]), (300, 0));
    }

    #[test]
    fn a_closed_loop_starts_who_is_missing_until_its_end() {
        let load = Load::Closed { clients: 2 };
        let plan = Plan { load, duration: Duration::from_secs(3), ..Plan::default() };
        let mut schedule = Schedule::of(&plan);
        assert_eq!(schedule.take_due(7, 1), Some(7));
        assert_eq!(schedule.take_due(8, 2), None);
        assert_eq!(schedule.next_ns(2), Some(3 * SECOND_NS));
        assert!(!schedule.is_over());
        assert_eq!(schedule.take_due(3 * SECOND_NS, 0), None);
        assert!(schedule.is_over());
    }

    #[test]
    fn who_failed_at_once_comes_again_after_a_pause() {
        let load = Load::Closed { clients: 2 };
        let plan = Plan { load, duration: Duration::from_secs(3), ..Plan::default() };
        let mut schedule = Schedule::of(&plan);
        schedule.failed_at_once(End::Other(1), 7);
        assert_eq!(schedule.take_due(7, 0), Some(7), "the other does not wait for it");
        assert_eq!((schedule.take_due(7, 1), schedule.next_ns(1)), (None, Some(7 + PAUSE_NS)));
        assert_eq!(schedule.take_due(7 + PAUSE_NS, 1), Some(7 + PAUSE_NS));
        // Who was answered has a way to go for the next answer.
        schedule.failed_at_once(End::Refused, 8 + PAUSE_NS);
        assert_eq!(schedule.next_ns(1), Some(0));
        schedule.failed_at_once(End::Other(1), 3 * SECOND_NS - 1);
        assert_eq!(schedule.next_ns(1), Some(3 * SECOND_NS), "and not after the end");
    }

    #[test]
    fn a_load_that_ends_in_silence_is_over_with_the_time_that_counts() {
        let steps = [(1, 1.0), (2, 0.0)].map(|(s, times)| Step { lasts_ns: s * SECOND_NS, times });
        let load = Load::Steps { per_s: 10.0, steps: steps.to_vec() };
        let (warm_up, duration) = (Duration::from_secs(1), Duration::from_secs(2));
        let plan = Plan { load, warm_up, duration, ..Plan::default() };
        let mut schedule = Schedule::of(&plan);
        while schedule.take_due(SECOND_NS, 0).is_some() {}
        assert_eq!((schedule.next_ns(0), schedule.is_over()), (Some(3 * SECOND_NS), false));
        assert_eq!(schedule.take_due(3 * SECOND_NS, 0), None);
        assert_eq!((schedule.next_ns(0), schedule.is_over()), (None, true));
    }

    #[test]
    fn what_is_abandoned_is_counted_once() {
        let load = Load::Constant { per_s: 10.0 };
        let plan = Plan { load, duration: Duration::from_secs(3), ..Plan::default() };
        let mut schedule = Schedule::of(&plan);
        assert_eq!(schedule.take_due(0, 0), Some(0));
        assert_eq!(schedule.abandon().count(), 29);
        assert_eq!(schedule.abandon().count(), 0);
        assert!(schedule.is_over());
    }
}
