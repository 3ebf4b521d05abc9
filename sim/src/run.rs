// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a scenario: every curve at every load, each in a world of its own.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{OperatingPoint, Watcher};
use tidegate_scenarios::{Load, Scenario, ServerUse, Setting};

use crate::error::SimError;
use crate::machine::Machine;
use crate::point::Measured;
use crate::setting;
use crate::setup::Setup;
use crate::spread::{News, Teller, spread};
use crate::world::{Report, World};

/// How a scenario is to be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The server's machine.
    pub machine: Machine,
    /// How many points are simulated at a time. It changes nothing in the results.
    pub threads: NonZeroUsize,
}

/// Runs a scenario on a simulated machine, under its load in one of its forms. The same scenario and
/// load on the same machine give the same points, to the byte.
///
/// # Errors
/// [`SimError::Watcher`]; what concerns one curve only goes to [`Watcher::left_out`].
pub fn run(
    scenario: &Scenario,
    load: Load,
    settings: &Settings,
    watcher: &mut dyn Watcher,
) -> Result<(), SimError> {
    let machine = settings.machine;
    let mut curves = Vec::new();
    for setting in &scenario.settings {
        // What cannot be simulated is told before anything is.
        let setup = setting::setup(scenario, setting, &load, &machine).and_then(|mut setup| {
            setting::set_load(&mut setup, setting, &load, 1.0, 1.0).map(|()| setup)
        });
        match setup {
            Ok(setup) => curves.push(Curve { setting, setup }),
            Err(reason) => watcher.left_out(&setting.curve, &reason),
        }
    }
    let mut run = Run { scenario, load, settings, watcher, steps: 0, step: 0 };
    let uses = scenario.server_uses(curves.iter().map(|curve| curve.setting));
    run.steps = uses.len() + curves.len() * run.load.offered.len();
    let capacities_per_s = run.capacities_per_s(&uses)?;
    let of = |curve: &Curve<'_>| {
        let this = scenario.measured_by(curve.setting).server_use();
        let place = uses.iter().position(|other| *other == this);
        place.map_or(0.0, |place| capacities_per_s[place])
    };
    let (known, unknown): (Vec<_>, Vec<_>) =
        curves.iter().map(|curve| (curve, of(curve))).partition(|(_, per_s)| *per_s > 0.0);
    for (curve, _) in unknown {
        run.watcher.left_out(&curve.setting.curve, &SimError::NoCapacity);
    }
    run.points(&known)
}

/// A curve, and its world without load.
struct Curve<'a> {
    setting: &'a Setting,
    setup: Setup,
}

struct Run<'a> {
    scenario: &'a Scenario,
    load: Load,
    settings: &'a Settings,
    watcher: &'a mut dyn Watcher,
    steps: usize,
    /// Steps of jobs before those under way.
    step: usize,
}

impl Run<'_> {
    /// What servers can do. Of each use the first curve stands for all, as in the live world.
    fn capacities_per_s(&mut self, uses: &[ServerUse]) -> Result<Vec<f64>, SimError> {
        let mut setups = Vec::new();
        for this in uses {
            let mut settings = self.scenario.settings.iter();
            let Some(setting) = settings.find(|setting| setting.server_use() == *this) else {
                continue;
            };
            let (plain, machine) = (setting.for_capacity(), &self.settings.machine);
            let mut setup = setting::setup(self.scenario, &plain, &self.load, machine)?;
            setting::set_capacity_load(&mut setup);
            setups.push(("simulating the capacity".to_owned(), setup));
        }
        let mut capacities_per_s = Vec::new();
        self.carry_out(setups, |_, report, _| {
            capacities_per_s.push(report.outcome.replies_per_s);
            Ok(())
        })?;
        Ok(capacities_per_s)
    }

    fn points(&mut self, curves: &[(&Curve<'_>, f64)]) -> Result<(), SimError> {
        let mut setups = Vec::new();
        let mut places = Vec::new();
        for (curve, capacity_per_s) in curves {
            for offered in &self.load.offered {
                let setting = curve.setting;
                let mut setup = curve.setup.clone();
                setting::set_load(&mut setup, setting, &self.load, *capacity_per_s, *offered)?;
                setups
                    .push((format!("simulating {} at {offered} × capacity", setting.curve), setup));
                places.push((setting, *capacity_per_s, *offered));
            }
        }
        let (scenario, load) = (self.scenario, self.load.clone());
        let profile = self.settings.machine.profile;
        self.carry_out(setups, |job, report, watcher| {
            let (setting, capacity_per_s, offered_over_capacity) = places[job];
            let load = &load;
            let at =
                OperatingPoint { scenario, setting, load, capacity_per_s, offered_over_capacity };
            Ok(watcher.point(&Measured { at, profile, report }.point())?)
        })
    }

    /// Lets worlds run, and hands over what came of each, in their order.
    fn carry_out(
        &mut self,
        setups: Vec<(String, Setup)>,
        mut keep: impl FnMut(usize, Report, &mut dyn Watcher) -> Result<(), SimError>,
    ) -> Result<(), SimError> {
        let (before, steps) = (self.step, self.steps);
        self.step += setups.len();
        let watcher = &mut *self.watcher;
        let work = |job: usize, teller: &Teller<'_, (usize, Progress), Report>| {
            let step = before + job + 1;
            let (_, setup) = &setups[job];
            World::new(setup.clone()).run(&mut |progress| teller.tell((step, *progress)))
        };
        spread(self.settings.threads, setups.len(), work, |news| {
            match news {
                News::Begins(job) => {
                    let (name, setup) = &setups[job];
                    watcher.step(before + job + 1, steps, name, lasts(setup));
                }
                News::Goes((step, progress)) => watcher.progress(step, &progress),
                News::Done(job, report) => keep(job, report, watcher)?,
            }
            Ok(())
        })
    }
}

fn lasts(setup: &Setup) -> Duration {
    let crowd = &setup.crowd;
    Duration::from_nanos(crowd.warm_up_ns + crowd.duration_ns + crowd.cool_down_ns)
}
