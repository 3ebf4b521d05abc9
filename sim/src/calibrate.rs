// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fits a machine's costs to what a live run measured on it.
//!
//! The measurements are scenarios like any other ([`scenarios`]). [`fit`] simulates the same
//! scenarios, and looks for the costs with which the same numbers come out: by least squares, since
//! every number depends a little on every cost. But each is there for one: the table `RULES` says
//! which number fixes which costs. Costs that no single number tells apart keep their proportions
//! to each other.
//!
//! Costs are looked for as logarithms of how many times they are what they began as, and a number
//! is off by the logarithm of simulated over measured.

mod least_squares;
mod rules;

use std::num::NonZeroUsize;

use tidegate_report::{OperatingPoint, Point};
use tidegate_scenarios::{Form, Load, Scenario, ServerUse, Setting};

use crate::error::SimError;
use crate::machine::Machine;
use crate::point::Measured;
use crate::setting;
use crate::setup::{Crowd, Setup};
use crate::spread::{News, Teller, spread};
use crate::world::World;

use least_squares::{Limits, least_squares};
use rules::{Number, RULES, Rule};

/// Steps at most; half a dozen is usual.
pub const STEPS: usize = 24;
/// Numbers agree when they differ by less than this share, which is what chance does to them. What is
/// measured as nothing takes a cost to a fiftieth, and there it ends.
const LIMITS: Limits = Limits { small: 0.005, steps: STEPS, away: 4.0 };
/// Beyond this the machine is not described by its costs.
const CONTRADICTS: f64 = 0.05;
/// A simulated second has no noise but that of its arrivals: a short one does.
const DURATION_NS: u64 = 1_500_000_000;
const COOL_DOWN_NS: u64 = 100_000_000;

/// A machine, and how well it does what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The machine.
    pub machine: Machine,
    /// What fixed its costs, in the order of the rules.
    pub fixed: Vec<Fixed>,
}

/// One number of a live run, and the costs that it fixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    /// Which costs.
    pub costs: &'static str,
    /// By what.
    pub by: &'static str,
    /// The number's unit.
    pub unit: &'static str,
    /// As the live runs measured it, in the middle.
    pub measured: f64,
    /// The least and the most that they measured.
    pub between: (f64, f64),
    /// As the machine has it.
    pub simulated: f64,
    /// Times what the costs were before.
    pub scale: f64,
}

/// How often all of it is to be measured: a machine that others share is not as fast in every minute,
/// and of all the middle one counts.
pub const ROUNDS: usize = 5;

/// What is to be run live, in its short form, [`ROUNDS`] times one after another.
///
/// # Panics
/// Never: they come with the program, and a test reads them.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let texts = [
        ("calm", include_str!("calibrate/calm.toml")),
        ("batches", include_str!("calibrate/batches.toml")),
        ("flood", include_str!("calibrate/flood.toml")),
    ];
    texts
        .into_iter()
        .map(|(name, text)| Scenario::parse(name, name, text).expect("it is read in a test"))
        .collect()
}

/// Finds the costs with which a machine does what these points measured. `begins` is a machine of
/// the same kind; what no number fixes stays as it is there. `tell` hears of each step: its number,
/// from 1, and by how much the worst number is off, as a share.
///
/// # Errors
/// [`SimError::Uncalibrated`] where a point is missing.
pub fn fit(
    points: &[Point],
    begins: Machine,
    threads: NonZeroUsize,
    tell: &mut dyn FnMut(usize, f64),
) -> Result<Calibration, SimError> {
    let scenarios = scenarios();
    let readings: Result<Vec<Reading<'_>>, SimError> =
        RULES.iter().map(|rule| Reading::of(rule, &scenarios, points)).collect();
    let bench = Bench { runs: Run::all(&readings?), begins, threads };
    let at = least_squares(RULES.len(), &LIMITS, |places| bench.off(places), tell)?;
    let numbers = bench.numbers(std::slice::from_ref(&at))?;
    let mut readings: Vec<(&Reading<'_>, &f64)> =
        bench.readings().zip(numbers.iter().flatten()).collect();
    readings.sort_by_key(|(reading, _)| reading.place);
    let fixed: Vec<Fixed> =
        readings.iter().map(|(reading, simulated)| reading.fixed(**simulated, &at)).collect();
    Ok(Calibration { machine: turned(&begins, &at), fixed })
}

impl Calibration {
    /// Whether costs explain what was measured, each number within a twentieth.
    ///
    /// # Errors
    /// [`SimError::Uncalibrated`] names the first that they do not.
    pub fn check(&self) -> Result<(), SimError> {
        let Some(Fixed { by, unit, measured, simulated, .. }) =
            self.fixed.iter().find(|fixed| fixed.contradicts())
        else {
            return Ok(());
        };
        let what = format!(
            "{by}: measured {measured:.1} {unit}, and the nearest that costs explain is \
             {simulated:.1}"
        );
        Err(SimError::Uncalibrated { what })
    }
}

impl Fixed {
    /// Whether no costs come near what was measured.
    fn contradicts(&self) -> bool {
        !self.is_immaterial() && (self.simulated / self.measured).ln().abs() > CONTRADICTS
    }

    /// Whether its costs are nothing: they stand at their lower limit, the server serves all that
    /// it can, and more was measured, which no cost explains. Elsewhere a cost at its limit
    /// matters: what the number lacks is in others.
    fn is_immaterial(&self) -> bool {
        let is_least = self.scale.ln() < 0.1 - LIMITS.away;
        let is_share = self.unit == Number::Replies.unit();
        let serves_all = is_share && (self.simulated / 100.0).ln() > -CONTRADICTS;
        is_least && serves_all && self.simulated < self.measured
    }
}

/// The machine with its costs so far away from where they began.
fn turned(begins: &Machine, at: &[f64]) -> Machine {
    let mut machine = *begins;
    for (rule, at) in RULES.iter().zip(at) {
        for cost in (rule.costs_of)(&mut machine) {
            *cost = (*cost as f64 * at.exp()).round() as u64;
        }
    }
    machine
}

/// A rule, and its number as a live run measured it.
#[derive(Clone, Copy)]
struct Reading<'a> {
    place: usize,
    rule: &'static Rule,
    scenario: &'a Scenario,
    setting: &'a Setting,
    offered_over_capacity: f64,
    measured: f64,
    between: (f64, f64),
}

impl<'a> Reading<'a> {
    fn of(
        rule: &'static Rule,
        scenarios: &'a [Scenario],
        points: &'a [Point],
    ) -> Result<Self, SimError> {
        let missing = || SimError::Uncalibrated {
            what: format!("{} was not measured, so that nothing fixes {}", rule.by, rule.costs),
        };
        let scenario = scenarios.iter().find(|scenario| scenario.name == rule.scenario);
        let scenario = scenario.ok_or_else(missing)?;
        let setting = scenario.settings.iter().find(|setting| setting.curve == rule.curve);
        let is_it = |point: &&Point| point.scenario == rule.scenario && point.curve == rule.curve;
        let live: Vec<&Point> = points.iter().filter(is_it).collect();
        let (setting, first) = setting.zip(live.first()).ok_or_else(missing)?;
        let capacities = capacities(scenarios, points, &setting.server_use());
        let (capacity_per_s, _) = middle(capacities.clone());
        let number = |point: &&Point| rule.number.of(point, capacity_per_s);
        let (measured, between) = middle(match rule.number {
            Number::Capacity => capacities,
            _ => live.iter().map(number).collect(),
        });
        let place = RULES.iter().position(|other| std::ptr::eq(other, rule)).ok_or_else(missing)?;
        let offered_over_capacity = first.offered_over_capacity;
        let reading =
            Self { place, rule, scenario, setting, offered_over_capacity, measured, between };
        if measured.is_finite() && measured > 0.0 { Ok(reading) } else { Err(missing()) }
    }

    fn is_capacity(&self) -> bool {
        self.rule.number == Number::Capacity
    }

    fn fixed(&self, simulated: f64, at: &[f64]) -> Fixed {
        let Rule { costs, by, number, .. } = *self.rule;
        let scale = at[self.place].exp();
        let Self { measured, between, .. } = *self;
        Fixed { costs, by, unit: number.unit(), measured, between, simulated, scale }
    }
}

/// What was measured of a server's capacity, whichever scenario asked for it. One run of a closed loop can
/// come out a tenth above the next.
fn capacities(scenarios: &[Scenario], points: &[Point], of: &ServerUse) -> Vec<f64> {
    let mut found = Vec::new();
    for scenario in scenarios {
        // The curves of a run share the one that was measured before them: the first tells it.
        let first = scenario.settings.iter().find(|setting| setting.server_use() == *of);
        let is_of_it = |point: &&Point| {
            point.scenario == scenario.name && first.is_some_and(|first| first.curve == point.curve)
        };
        found.extend(points.iter().filter(is_of_it).map(|point| point.capacity_per_s));
    }
    found
}

/// The middle one, of an even number the larger of the two; and the least and the most.
fn middle(mut numbers: Vec<f64>) -> (f64, (f64, f64)) {
    numbers.sort_by(f64::total_cmp);
    let at = |place: usize| numbers.get(place).copied().unwrap_or(f64::NAN);
    (at(numbers.len() / 2), (at(0), at(numbers.len().saturating_sub(1))))
}

/// A simulation, and the numbers that are read from it.
struct Run<'a> {
    readings: Vec<Reading<'a>>,
}

impl<'a> Run<'a> {
    fn all(readings: &[Reading<'a>]) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for reading in readings {
            let is_same = |run: &&mut Self| {
                let other = &run.readings[0];
                std::ptr::eq(other.setting, reading.setting)
                    && other.is_capacity() == reading.is_capacity()
            };
            match runs.iter_mut().find(is_same) {
                Some(run) => run.readings.push(*reading),
                None => runs.push(Self { readings: vec![*reading] }),
            }
        }
        runs
    }

    fn numbers(&self, machine: &Machine) -> Result<Vec<f64>, SimError> {
        let Reading { scenario, setting, offered_over_capacity, .. } = self.readings[0];
        let load = &scenario.load(Form::Short);
        let mut point = simulated(scenario, setting, load, machine, None)?;
        if !self.readings[0].is_capacity() {
            let offered = Some((offered_over_capacity, point.capacity_per_s));
            point = simulated(scenario, setting, load, machine, offered)?;
        }
        let number = |reading: &Reading<'_>| reading.rule.number.of(&point, point.capacity_per_s);
        Ok(self.readings.iter().map(number).collect())
    }
}

/// A curve on a machine: at so many times this capacity, or its capacity itself.
fn simulated(
    scenario: &Scenario,
    setting: &Setting,
    load: &Load,
    machine: &Machine,
    offered: Option<(f64, f64)>,
) -> Result<Point, SimError> {
    let plain = if offered.is_none() { setting.for_capacity() } else { setting.clone() };
    let mut setup = setting::setup(scenario, &plain, load, machine)?;
    if let Some((times, capacity_per_s)) = offered {
        setting::set_load(&mut setup, setting, load, capacity_per_s, times)?;
    } else {
        setting::set_capacity_load(&mut setup);
    }
    let report = World::new(short(setup)).run(&mut |_| {});
    let (offered_over_capacity, capacity_per_s) =
        offered.unwrap_or((1.0, report.outcome.replies_per_s));
    let at = OperatingPoint { scenario, setting, load, capacity_per_s, offered_over_capacity };
    Ok(Measured { at, profile: machine.profile, report }.point())
}

/// All simulations, side by side.
struct Bench<'a> {
    runs: Vec<Run<'a>>,
    begins: Machine,
    threads: NonZeroUsize,
}

impl<'a> Bench<'a> {
    /// In the order of the simulations' numbers.
    fn readings(&self) -> impl Iterator<Item = &Reading<'a>> {
        self.runs.iter().flat_map(|run| &run.readings)
    }

    /// By how much each number is off, at each place.
    fn off(&self, places: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, SimError> {
        let off = |(reading, simulated): (&Reading<'_>, f64)| {
            (simulated.max(f64::MIN_POSITIVE) / reading.measured).ln().clamp(-9.0, 9.0)
        };
        let numbers = self.numbers(places)?;
        Ok(numbers.into_iter().map(|each| self.readings().zip(each).map(off).collect()).collect())
    }

    fn numbers(&self, places: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, SimError> {
        let machines: Vec<Machine> = places.iter().map(|at| turned(&self.begins, at)).collect();
        let runs = self.runs.len();
        let work = |job: usize, _: &Teller<'_, (), Result<Vec<f64>, SimError>>| {
            self.runs[job % runs].numbers(&machines[job / runs])
        };
        let mut numbers = vec![Vec::new(); places.len()];
        spread(self.threads, runs * places.len(), work, |news| {
            if let News::Done(job, found) = news {
                numbers[job / runs].extend(found?);
            }
            Ok::<(), SimError>(())
        })?;
        Ok(numbers)
    }
}

fn short(setup: Setup) -> Setup {
    let crowd = Crowd { duration_ns: DURATION_NS, cool_down_ns: COOL_DOWN_NS, ..setup.crowd };
    Setup { crowd, ..setup }
}

#[cfg(test)]
mod tests;
