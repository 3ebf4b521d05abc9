// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server can do, as it was measured, or as an earlier part of the same run found it.

use std::num::NonZeroU64;
use std::time::Duration;

use tidegate_client::Outcome;
use tidegate_report::{Point, World};
use tidegate_scenarios::{CAPACITY_CLIENTS, CAPACITY_PHASES, Phases, Scenario, ServerUse};
use tidegate_servers::steps_per_us;

/// How what was odd about the measurement begins, in the warnings of every point that rests on it.
const MEANWHILE: &str = "while the capacity was measured, ";

/// What a server can do, which rates are multiples of.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// The server, and what is asked of it.
    pub(crate) of: ServerUse,
    /// Requests that it answers in a second.
    pub(crate) per_s: f64,
    /// What a reader must know of each point whose rate is a multiple of it.
    pub(crate) warnings: Vec<String>,
}

impl Capacity {
    /// As it was measured, while this happened that may have disturbed it.
    pub(crate) fn measured(of: ServerUse, per_s: f64, disturbances: Vec<String>) -> Self {
        let told = disturbances.into_iter().map(|what| format!("{MEANWHILE}{what}"));
        Self { of, per_s, warnings: told.collect() }
    }

    /// What points tell of it, one after the other.
    fn told_by<'a>(whole: &Scenario, points: impl Iterator<Item = &'a Point>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for point in points {
            let mut settings = whole.settings.iter();
            let Some(setting) = settings.find(|setting| setting.curve == point.curve) else {
                continue;
            };
            let of = whole.measured_by(setting).server_use();
            if found.iter().all(|known| known.of != of) {
                let told = point.warnings.iter().filter(|told| told.starts_with(MEANWHILE));
                let warnings = told.cloned().collect();
                found.push(Self { of, per_s: point.capacity_per_s, warnings });
            }
        }
        found
    }
}

/// What is known of a run before it is begun, or gone on with.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// What its servers can do, of those of which it was found.
    pub(crate) capacities: Vec<Capacity>,
    /// How many steps of work a µs of cost is, for all its servers: each by itself would find another
    /// number, and with another it is another server.
    pub steps_per_us: NonZeroU64,
    /// Whether none of its points is there yet.
    pub begins: bool,
}

impl Known {
    /// Nothing: a run that begins.
    #[must_use]
    pub fn nothing() -> Self {
        let steps_per_us = NonZeroU64::new(steps_per_us()).unwrap_or(NonZeroU64::MIN);
        Self { capacities: Vec::new(), steps_per_us, begins: true }
    }

    /// What earlier parts of a run found, by the points of it that are there already: measured anew it would
    /// come to another number, and curves of one run would be compared at other loads. A run is known by its
    /// seed, so that a further one finds none here. The scenario is the whole, whose curves the points are
    /// of, and not the part that is to be run. With another speed than they had the same servers of ours could not
    /// do the same: where it is not known, they are measured anew.
    #[must_use]
    pub fn of_earlier_parts(
        whole: &Scenario,
        seed: u64,
        points: &[Point],
        steps_per_us: Option<NonZeroU64>,
    ) -> Self {
        let is_of_it = |point: &&Point| {
            point.world == World::Live && point.scenario == whole.name && point.seed == seed
        };
        let begins = !points.iter().any(|point| is_of_it(&point));
        if begins {
            return Self::nothing();
        }
        let mut capacities = Capacity::told_by(whole, points.iter().filter(is_of_it));
        if let Some(steps_per_us) = steps_per_us {
            return Self { capacities, steps_per_us, begins };
        }
        capacities.retain(|capacity| !capacity.of.0.kind.is_ours());
        Self { capacities, begins, ..Self::nothing() }
    }
}

/// What lacks less than this share of its replies is as good as whole: a further measurement differs by more.
const LACK_MIN: f64 = 0.01;

/// What makes what was measured less than what the server can do, of clients with so many requests each.
pub(crate) fn shortfalls(outcome: &Outcome, requests: f64) -> Vec<String> {
    let mut told = Vec::new();
    // It is never offered more than these bring: what it worked for those who had gone is not in it.
    let (failed, attempts) = (outcome.errors.total(), outcome.attempts);
    if failed * 100 > attempts {
        told.push(format!(
            "{failed} of {attempts} attempts failed: timeout_s may be too short for this server"
        ));
    }
    let lasts_s = CAPACITY_CLIENTS as f64 * requests / outcome.replies_per_s;
    let lack = lack(lasts_s);
    if requests > 1.0 && lack > LACK_MIN {
        let (percent, warm_up_s) = (lack * 100.0, CAPACITY_PHASES.warm_up.as_secs_f64());
        told.push(format!(
            "connections lasted {lasts_s:.1} s, and what those had been answered that were open at the \
             end, up to {percent:.0} % of all, is not in it, since a warm-up of {warm_up_s} s is too short \
             to make up for it: fewer requests, or a lower cost_us"
        ));
    }
    told
}

/// The share of the replies that is not counted where connections last so long.
///
/// Replies are counted when their connection ends. What those had been answered before that are open when
/// the counted time begins makes up for those that are open at its end, but for the first of each client: had
/// they not all begun with the warm-up, they would bring in more. So at each time as much is missing as there
/// are clients still at their first. How long that is: any request may be the last, as likely as the others.
fn lack(lasts_s: f64) -> f64 {
    let Phases { warm_up, duration, .. } = CAPACITY_PHASES;
    let at_first = |at: Duration| (-at.as_secs_f64() / lasts_s).exp();
    lasts_s * (at_first(warm_up) - at_first(warm_up + duration)) / duration.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use tidegate_client::Errors;
    use tidegate_report::OperatingPoint;
    use tidegate_scenarios::{Form, Load};

    use super::*;

    const TEXT: &str = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n\
        [[curve]]\nmechanism = \"default\"\n[[curve]]\nmechanism = \"abort\"\n\
        [[curve]]\nname = \"slow\"\nmechanism = \"abort\"\nserver = { cost_us = 100 }\n";

    fn scenario(text: &str) -> Scenario {
        Scenario::parse("t", "t.toml", text).unwrap()
    }

    /// A point of this curve, whose server could do so much in this run.
    fn point(scenario: &Scenario, curve: &str, seed: u64, capacity_per_s: f64) -> Point {
        let setting = scenario.settings.iter().find(|setting| setting.curve == curve).unwrap();
        let load = Load { seed, ..scenario.load(Form::Full) };
        let at = OperatingPoint {
            scenario,
            setting,
            load: &load,
            capacity_per_s,
            offered_over_capacity: 1.0,
        };
        at.seen_by_clients(World::Live, &Outcome { duration_s: 1.0, ..Outcome::default() })
    }

    const SPEED: Option<NonZeroU64> = NonZeroU64::new(400);

    /// What earlier parts found of a run with these points, whose servers had that speed.
    fn found_before(whole: &Scenario, seed: u64, points: &[Point]) -> Vec<Capacity> {
        Known::of_earlier_parts(whole, seed, points, SPEED).capacities
    }

    /// By itself a server may find a third less, and would be another than the curve's beside it.
    #[test]
    fn a_further_part_of_a_run_has_servers_as_quick_as_those_of_the_first() {
        let whole = scenario(TEXT);
        let points = [point(&whole, "default", 3, 900.0)];
        let known =
            |seed, steps_per_us| Known::of_earlier_parts(&whole, seed, &points, steps_per_us);
        let further = known(3, SPEED);
        assert_eq!((Some(further.steps_per_us), further.begins), (SPEED, false));
        // Until 2026-11-29 it was not noted: what those servers could do says nothing of ours.
        let unknown = known(3, None);
        assert_eq!(unknown, Known { begins: false, ..Known::nothing() });
        // Nor does the note of a run of which there is no point.
        assert_eq!(known(4, SPEED), Known::nothing());
    }

    /// Of others' servers no part of ours is at work.
    #[test]
    fn what_others_servers_can_do_is_known_without_a_speed() {
        let whole = scenario(
            &TEXT
                .replace("[load]", "[server]\nkind = \"nginx\"\n[load]")
                .replace("server = { cost_us = 100 }", ""),
        );
        let points = [point(&whole, "default", 3, 900.0)];
        let known = Known::of_earlier_parts(&whole, 3, &points, None);
        assert_eq!(known.capacities.len(), 1);
    }

    /// Two commands with `--only` once measured it twice, and compared curves at loads that differed by as
    /// much as the measurements did.
    #[test]
    fn a_further_part_of_a_run_goes_on_with_the_capacity_of_the_first() {
        let whole = scenario(TEXT);
        let points = [point(&whole, "default", 3, 900.0), point(&whole, "default", 3, 950.0)];
        let found = found_before(&whole, 3, &points);
        // Of `abort` nothing was run yet: its server is that of `default`.
        let of = whole.settings[1].server_use();
        assert_eq!(found, [Capacity { of, per_s: 900.0, warnings: Vec::new() }]);
        let slow = whole.settings[2].server_use();
        assert!(found.iter().all(|known| known.of != slow), "of that nothing is known");
    }

    #[test]
    fn a_further_run_another_world_and_another_scenario_say_nothing_of_it() {
        let whole = scenario(TEXT);
        let known = point(&whole, "default", 1, 900.0);
        let simulated = Point { world: World::Sim, seed: 2, ..known.clone() };
        let other = Point { scenario: "other".to_owned(), seed: 2, ..known.clone() };
        let unknown = Point { curve: "gone".to_owned(), seed: 2, ..known.clone() };
        let points = [known, simulated, other, unknown];
        assert_eq!(found_before(&whole, 2, &points), []);
        assert_eq!(found_before(&whole, 1, &points).len(), 1);
    }

    #[test]
    fn a_capacity_that_all_share_is_of_the_curve_that_is_named() {
        let whole = scenario(&format!("capacity_of = \"slow\"\n{TEXT}"));
        let found = found_before(&whole, 1, &[point(&whole, "abort", 1, 400.0)]);
        let of = whole.settings[2].server_use();
        assert_eq!(found, [Capacity { of, per_s: 400.0, warnings: Vec::new() }]);
    }

    /// And what else a point warns of is its own.
    #[test]
    fn what_disturbed_the_measurement_stays_with_the_capacity() {
        let whole = scenario(TEXT);
        let of = whole.settings[0].server_use();
        let disturbances = vec!["other programs used the processors too".to_owned()];
        let measured = Capacity::measured(of, 900.0, disturbances);
        let told = "while the capacity was measured, other programs used the processors too";
        assert_eq!(measured.warnings, [told]);
        let mut later = point(&whole, "default", 1, 900.0);
        later.warnings = vec!["the crowd was late".to_owned(), told.to_owned()];
        assert_eq!(found_before(&whole, 1, &[later]), [measured]);
    }

    #[test]
    fn what_a_capacity_lacks_is_told() {
        let outcome = |replies_per_s, timed_out_waiting| Outcome {
            attempts: 200,
            replies_per_s,
            errors: Errors { timed_out_waiting, ..Default::default() },
            ..Default::default()
        };
        let told = |outcome: Outcome, requests| shortfalls(&outcome, requests).join("; ");
        assert_eq!(told(outcome(6500.0, 2), 7.2), "");
        // Of one request nothing is open that was answered.
        assert_eq!(told(outcome(25.0, 0), 1.0), "");
        assert!(told(outcome(25.0, 3), 1.0).starts_with("3 of 200 attempts failed: timeout_s"));
        assert!(told(outcome(1000.0, 0), 20.0).starts_with("connections lasted 1.3 s, and what"));
        // The warm-up makes up for nearly all that lasts a fifth or a quarter of it.
        assert_eq!(told(outcome(2000.0, 0), 7.2), "");
        assert!(told(outcome(1000.0, 0), 7.2).contains("up to 1 % of all, is not in it, since a"));
        assert!(told(outcome(1000.0, 0), 20.0).contains("up to 14 % of all"));
    }
}
