// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a scenario: every curve at every load, each in a world of its own.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_report::Point;
use tidegate_scenarios::{Form, Load, Peer, Scenario, ServerUse, Setting, Treatment};

use crate::error::SimError;
use crate::machine::Machine;
use crate::point::Measured;
use crate::setting;
use crate::setup::{self, Setup};
use crate::spread::{News, Teller, spread};
use crate::world::{Report, World};

/// As in the live world: enough to keep a server busy, few enough never to fill its listen queue.
const CAPACITY_CLIENTS: usize = 64;
const CAPACITY_WARM_UP_NS: u64 = 1_000_000_000;
const CAPACITY_DURATION_NS: u64 = 4_000_000_000;

/// How a scenario is to be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The server's machine.
    pub machine: Machine,
    /// How many points are simulated at a time. It changes nothing in the results.
    pub threads: NonZeroUsize,
}

/// How far a step is: rates since the last time it was told, as a live crowd tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Which step, as [`Watcher::step`] named it.
    pub step: usize,
    /// Simulated time since the beginning of the load, in s.
    pub at_s: f64,
    /// Attempts started per second of simulated time.
    pub started_per_s: f64,
    /// Replies per second of simulated time.
    pub replies_per_s: f64,
    /// Attempts per second of simulated time that ended in any other way.
    pub errors_per_s: f64,
    /// Attempts under way now.
    pub in_flight: u64,
}

/// Whoever wants to know how far a run is, and what comes of it. It is called in the thread that
/// called [`run`].
pub trait Watcher {
    /// A step begins: one of so many, with its name and how long it lasts in simulated time. With
    /// several threads several steps go on at a time.
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration);
    /// A step goes on.
    fn progress(&mut self, progress: &Progress);
    /// A point is there. Points come in the scenario's order.
    ///
    /// # Errors
    /// When it cannot be kept: the run ends then.
    fn point(&mut self, point: &Point) -> Result<(), SimError>;
    /// A curve cannot be simulated.
    fn left_out(&mut self, curve: &str, reason: &SimError);
}

/// Runs a scenario on a simulated machine. The same scenario on the same machine gives the same
/// points, to the byte.
///
/// # Errors
/// [`SimError::Watcher`]; what concerns one curve only goes to [`Watcher::left_out`].
pub fn run(
    scenario: &Scenario,
    form: Form,
    settings: &Settings,
    watcher: &mut dyn Watcher,
) -> Result<(), SimError> {
    let load = scenario.load(form);
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
    let measured = |curve: &Curve<'_>| scenario.measured_by(curve.setting).server_use();
    let mut uses: Vec<ServerUse> = Vec::new();
    for curve in &curves {
        let this = measured(curve);
        if !uses.contains(&this) {
            uses.push(this);
        }
    }
    run.steps = uses.len() + curves.len() * run.load.offered.len();
    let capacities_per_s = run.capacities_per_s(&uses)?;
    let of = |curve: &Curve<'_>| {
        let place = uses.iter().position(|other| *other == measured(curve));
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
    /// What servers can do: a closed loop keeps one busy and can never overload it. Of each use the
    /// first curve stands for all, as in the live world.
    fn capacities_per_s(&mut self, uses: &[ServerUse]) -> Result<Vec<f64>, SimError> {
        let mut setups = Vec::new();
        for this in uses {
            let mut settings = self.scenario.settings.iter();
            let Some(setting) = settings.find(|setting| setting.server_use() == *this) else {
                continue;
            };
            let treatment = Treatment::Peer(Peer::Kernel);
            let plain = Setting { treatment, ..setting.clone() };
            let machine = &self.settings.machine;
            let mut setup = setting::setup(self.scenario, &plain, &self.load, machine)?;
            setup.crowd.load = setup::Load::Closed { clients: CAPACITY_CLIENTS };
            setup.crowd.warm_up_ns = CAPACITY_WARM_UP_NS;
            setup.crowd.duration_ns = CAPACITY_DURATION_NS;
            setup.crowd.cool_down_ns = 0;
            setups.push(("measuring capacity".to_owned(), setup));
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
                let connections_per_s = capacity_per_s * offered / setting.clients.requests;
                let mut setup = curve.setup.clone();
                setting::set_load(&mut setup, setting, &self.load, *offered, connections_per_s)?;
                setups.push((format!("{} at {offered} × capacity", setting.curve), setup));
                places.push((setting, *capacity_per_s, *offered));
            }
        }
        let (scenario, load) = (self.scenario, self.load.clone());
        self.carry_out(setups, |job, report, watcher| {
            let (setting, capacity_per_s, offered_over_capacity) = places[job];
            let load = &load;
            watcher.point(
                &Measured {
                    scenario,
                    setting,
                    load,
                    capacity_per_s,
                    offered_over_capacity,
                    report,
                }
                .point(),
            )
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
        let work = |job: usize, teller: &Teller<'_, Progress, Report>| {
            let step = before + job + 1;
            let (_, setup) = &setups[job];
            World::new(setup.clone())
                .run(&mut |progress| teller.tell(Progress { step, ..*progress }))
        };
        spread(self.settings.threads, setups.len(), work, |news| {
            match news {
                News::Begins(job) => {
                    let (name, setup) = &setups[job];
                    watcher.step(before + job + 1, steps, name, lasts(setup));
                }
                News::Goes(progress) => watcher.progress(&progress),
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
