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
    let mut curves = Vec::new();
    for setting in &scenario.settings {
        // What cannot be simulated is told before anything is.
        match Curve::of(scenario, setting, &load, &settings.machine) {
            Ok(curve) => curves.push(curve),
            Err(reason) => watcher.left_out(&setting.curve, &reason),
        }
    }
    let mut run = Run { scenario, load, settings, watcher, steps: 0, step: 0 };
    let servers = servers(scenario, &curves);
    run.steps = servers.len() + curves.len() * run.load.offered.len();
    let capacities_per_s = run.capacities_per_s(&servers)?;
    let of = |curve: &Curve<'_>| {
        let place = servers.iter().position(|other| other.server_use == curve.server.server_use);
        place.map_or(0.0, |place| capacities_per_s[place])
    };
    let (known, unknown): (Vec<_>, Vec<_>) =
        curves.iter().map(|curve| (curve, of(curve))).partition(|(_, per_s)| *per_s > 0.0);
    for (curve, _) in unknown {
        run.watcher.left_out(&curve.setting.curve, &SimError::NoCapacity);
    }
    run.points(&known)
}

/// A curve, its world without load, and the server whose capacity its rates are multiples of.
struct Curve<'a> {
    setting: &'a Setting,
    setup: Setup,
    server: Server,
}

impl<'a> Curve<'a> {
    /// Fails where the curve cannot be simulated, or the capacity that its rates are multiples of.
    fn of(
        scenario: &Scenario,
        setting: &'a Setting,
        load: &Load,
        machine: &Machine,
    ) -> Result<Self, SimError> {
        let mut setup = setting::setup(scenario, setting, load, machine)?;
        setting::set_load(&mut setup, setting, load, 1.0, 1.0)?;
        let measuring = scenario.measured_by(setting);
        Ok(Self { setting, setup, server: Server::of(scenario, measuring, load, machine)? })
    }
}

/// A server in use, and the world that measures what it can do.
struct Server {
    server_use: ServerUse,
    setup: Setup,
}

impl Server {
    /// By the curve that measures it: of each use the first stands for all, as in the live world.
    fn of(
        scenario: &Scenario,
        measuring: &Setting,
        load: &Load,
        machine: &Machine,
    ) -> Result<Self, SimError> {
        let mut setup = setting::setup(scenario, &measuring.for_capacity(), load, machine)?;
        setting::set_capacity_load(&mut setup);
        Ok(Self { server_use: measuring.server_use(), setup })
    }
}

/// The curves' servers, each once.
fn servers<'a>(scenario: &Scenario, curves: &'a [Curve<'_>]) -> Vec<&'a Server> {
    let uses = scenario.server_uses(curves.iter().map(|curve| curve.setting)).into_iter();
    let all = || curves.iter().map(|curve| &curve.server);
    uses.filter_map(|this| all().find(|server| server.server_use == this)).collect()
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
    /// What servers can do.
    fn capacities_per_s(&mut self, servers: &[&Server]) -> Result<Vec<f64>, SimError> {
        let setups = servers
            .iter()
            .map(|server| ("simulating the capacity".to_owned(), server.setup.clone()))
            .collect();
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

#[cfg(test)]
mod tests {
    use std::error::Error;

    use tidegate_report::{Point, ResultsError};
    use tidegate_scenarios::Form;

    use super::*;

    #[derive(Default)]
    struct Heard {
        left_out: Vec<String>,
        points: usize,
        parts: Vec<Option<f64>>,
        warnings: Vec<String>,
    }

    impl Watcher for Heard {
        fn step(&mut self, _index: usize, _steps: usize, _name: &str, _lasts: Duration) {}

        fn progress(&mut self, _index: usize, _progress: &Progress) {}

        fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
            self.points += 1;
            let part = |name| point.measure(&format!("cpu_components.{name}"));
            self.parts.extend(["guard", "mm"].map(part));
            self.warnings.extend(point.warnings.clone());
            Ok(())
        }

        fn left_out(&mut self, curve: &str, reason: &dyn Error) {
            self.left_out.push(format!("{curve}: {reason}"));
        }
    }

    /// As live: the run goes on without those whose rates are multiples of it.
    #[test]
    fn a_capacity_that_cannot_be_simulated_leaves_out_its_curves() {
        let text = "title = \"t\"\nsource = \"s\"\ncapacity_of = \"theirs\"\n\
             [load]\noffered = [1]\n[[curve]]\nname = \"ours\"\npeer = \"kernel\"\n\
             [[curve]]\nname = \"theirs\"\npeer = \"kernel\"\nserver = { kind = \"nginx\" }";
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let settings = Settings { machine: Machine::xeon(), threads: NonZeroUsize::MIN };
        let mut heard = Heard::default();
        run(&scenario, scenario.load(Form::Full), &settings, &mut heard).unwrap();
        assert_eq!((heard.left_out.len(), heard.points), (2, 0), "{:?}", heard.left_out);
        for (told, curve) in heard.left_out.iter().zip(["ours", "theirs"]) {
            assert!(told.starts_with(curve) && told.contains("no nginx"), "{told}");
        }
    }

    #[test]
    fn a_listen_queue_that_is_cut_is_told() {
        let text = "title = \"t\"\nsource = \"s\"\n[server]\nbacklog = 2048\n[load]\noffered = [0.5]\n\
             duration_s = 0.1\nwarm_up_s = 0.1\n[[curve]]\nname = \"cut\"\nmechanism = \"default\"\n\
             [[curve]]\nname = \"not\"\nmechanism = \"default\"\nserver = { kind = \"tux\" }";
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let settings = Settings { machine: Machine::xeon(), threads: NonZeroUsize::MIN };
        let mut heard = Heard::default();
        run(&scenario, scenario.load(Form::Full), &settings, &mut heard).unwrap();
        let told = "the server asked for a listen queue of 2048, and linux-2.4 gave it one of 128";
        assert_eq!((heard.points, heard.warnings), (2, vec![told.to_owned()]));
    }

    /// Nobody guards, and memory management is with what needs the memory.
    #[test]
    fn a_component_that_took_no_time_is_zero_and_one_that_is_not_told_apart_is_no_number() {
        let text = "title = \"t\"\nsource = \"s\"\nprofile = true\n[load]\noffered = [0.5]\nduration_s = 0.1\n\
             warm_up_s = 0.1\n[[curve]]\npeer = \"kernel\"";
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let settings = Settings { machine: Machine::today(), threads: NonZeroUsize::MIN };
        let mut heard = Heard::default();
        run(&scenario, scenario.load(Form::Full), &settings, &mut heard).unwrap();
        assert_eq!(heard.parts, [Some(0.0), None]);
    }
}
