// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Load that changes by steps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::load::{Phases, SHORTEST_S};

/// A part of a load. Together they are the time that counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How long it lasts, in s.
    pub lasts_s: f64,
    /// What is offered in it, in multiples of what the scenario offers.
    pub times: f64,
}

/// Longer ones are no experiment.
const LONGEST_S: f64 = 86_400.0;
const MOST_TIMES: f64 = 100.0;

/// How long all of them take, in s.
pub(crate) fn last_s(steps: &[Step]) -> f64 {
    steps.iter().map(|step| step.lasts_s).sum()
}

/// How many whole seconds they take, of each of which a result has its counts.
pub(crate) fn whole_seconds(steps: &[Step]) -> u64 {
    Duration::from_secs_f64(last_s(steps)).as_secs()
}

/// In a few words: `0.5× for 5 s, 3× for 10 s`.
pub(crate) fn summary(steps: &[Step]) -> String {
    let each = steps.iter().map(|step| format!("{}× for {} s", step.times, step.lasts_s));
    each.collect::<Vec<_>>().join(", ")
}

/// The schedule's steps, from the beginning of a run on: the first one's rate while the load warms
/// up, the last one's while it cools down.
#[must_use]
pub fn scheduled(steps: &[Step], phases: &Phases) -> Vec<tidegate_client::Step> {
    let mut schedule: Vec<tidegate_client::Step> = steps
        .iter()
        .map(|step| tidegate_client::Step {
            lasts_ns: (step.lasts_s * 1e9).round() as u64,
            times: step.times,
        })
        .collect();
    if let Some(first) = schedule.first_mut() {
        first.lasts_ns += phases.warm_up.as_nanos() as u64;
    }
    schedule
}

// Ranges are written so that NaN is refused too.
pub(crate) fn check(steps: &[Step]) -> Result<(), String> {
    for Step { lasts_s, times } in steps {
        if !(SHORTEST_S..=LONGEST_S).contains(lasts_s) {
            return Err(format!("a step of {lasts_s} s is not {SHORTEST_S} to {LONGEST_S}"));
        }
        if !(0.0..=MOST_TIMES).contains(times) {
            return Err(format!("a step to {times} times is not between 0 and {MOST_TIMES}"));
        }
    }
    if !steps.iter().any(|step| step.times > 0.0) {
        return Err("steps offer nothing: give [{ lasts_s = 5, times = 0.5 }, …]".to_owned());
    }
    if last_s(steps) > LONGEST_S {
        return Err(format!("steps take {} s, more than {LONGEST_S}", last_s(steps)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_begins_with_the_run() {
        let phases = Phases {
            warm_up: Duration::from_secs(3),
            duration: Duration::from_secs(15),
            cool_down: Duration::from_secs(10),
        };
        let steps = [(5.0, 0.5), (10.0, 3.0)].map(|(lasts_s, times)| Step { lasts_s, times });
        let schedule = scheduled(&steps, &phases);
        let seen: Vec<_> = schedule.iter().map(|step| (step.lasts_ns, step.times)).collect();
        assert_eq!(seen, [(8_000_000_000, 0.5), (10_000_000_000, 3.0)]);
        assert_eq!(summary(&steps), "0.5× for 5 s, 3× for 10 s");
    }

    /// Ten tenths are a little less than one where they are added up.
    #[test]
    fn a_second_that_is_begun_is_not_whole() {
        let each = |lasts_s: f64, count: usize| vec![Step { lasts_s, times: 1.0 }; count];
        assert_eq!([each(2.9, 1), each(0.1, 10)].map(|steps| whole_seconds(&steps)), [2, 1]);
    }

    #[test]
    fn impossible_steps_are_refused_with_the_value() {
        let refused = |steps: &[(f64, f64)]| {
            let steps: Vec<Step> = steps
                .iter()
                .map(|(lasts_s, times)| Step { lasts_s: *lasts_s, times: *times })
                .collect();
            check(&steps).unwrap_err()
        };
        assert!(refused(&[(5.0, 1.0), (-1.0, 1.0)]).contains("-1 s"));
        assert!(refused(&[(5.0, 1.0), (f64::NAN, 1.0)]).contains("NaN"));
        assert!(refused(&[(5.0, 101.0)]).contains("101"));
        assert!(refused(&[(5.0, 0.0)]).contains("nothing"));
        assert!(refused(&[]).contains("nothing"));
        assert!(refused(&[(86_000.0, 1.0), (1000.0, 1.0)]).contains("87000"));
    }
}
