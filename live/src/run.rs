// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a scenario: every curve at every load, each on a ground of its own.

use std::time::{Duration, Instant};

use tidegate_crowd::Progress;
use tidegate_report::Point;
use tidegate_scenarios::{Form, Load, Peer, Scenario, ServerUse, Setting, Treatment};

use crate::crowd::{Crowd, Times};
use crate::error::LiveError;
use crate::gauge::{Gauge, Reading};
use crate::ground::Ground;
use crate::guard::Guard;
use crate::peer;
use crate::point::Measured;
use crate::programs::Programs;
use crate::server::Running;

/// Whoever wants to know how far a run is, and what comes of it.
pub trait Watcher {
    /// A step begins: one of so many, with its name and how long it takes.
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration);
    /// The step goes on.
    fn progress(&mut self, progress: &Progress);
    /// A point is there.
    ///
    /// # Errors
    /// When it cannot be kept: the run ends then.
    fn point(&mut self, point: &Point) -> Result<(), LiveError>;
    /// A curve cannot be run on this host.
    fn left_out(&mut self, curve: &str, reason: &LiveError);
}

/// Runs a scenario on this kernel.
///
/// # Errors
/// What keeps the whole of it from running, as a [`LiveError`]; what concerns one curve only goes
/// to [`Watcher::left_out`].
pub fn run(
    scenario: &Scenario,
    form: Form,
    programs: &Programs,
    watcher: &mut dyn Watcher,
) -> Result<(), LiveError> {
    // Before anything is run: no one should wait to be told of a name that is no name.
    for setting in &scenario.settings {
        Crowd::for_capacity(setting)?;
    }
    tidegate_lab::require_root()?;
    let load = scenario.load(form);
    let capacities = distinct_servers(scenario);
    let steps = capacities.len() + scenario.settings.len() * load.offered.len();
    let mut run = Run { scenario, load, programs, watcher, steps, step: 0, capacities: Vec::new() };
    for setting in &scenario.settings {
        if let Err(reason) = run.curve(setting) {
            match reason {
                LiveError::Watcher(_) | LiveError::Lab(_) => return Err(reason),
                reason => run.watcher.left_out(&setting.curve, &reason),
            }
        }
    }
    Ok(())
}

fn distinct_servers(scenario: &Scenario) -> Vec<ServerUse> {
    let mut uses: Vec<ServerUse> = Vec::new();
    for setting in &scenario.settings {
        let this = scenario.measured_by(setting).server_use();
        if !uses.contains(&this) {
            uses.push(this);
        }
    }
    uses
}

struct Run<'a> {
    scenario: &'a Scenario,
    load: Load,
    programs: &'a Programs,
    watcher: &'a mut dyn Watcher,
    steps: usize,
    step: usize,
    capacities: Vec<(ServerUse, f64)>,
}

impl Run<'_> {
    fn curve(&mut self, setting: &Setting) -> Result<(), LiveError> {
        let capacity_per_s = self.capacity_per_s(setting)?;
        for offered in self.load.offered.clone() {
            let point = self.point(setting, capacity_per_s, offered)?;
            self.watcher.point(&point)?;
        }
        Ok(())
    }

    /// What the server can do: a closed loop keeps it busy and can never overload it.
    fn capacity_per_s(&mut self, setting: &Setting) -> Result<f64, LiveError> {
        let setting = self.scenario.measured_by(setting);
        let this = setting.server_use();
        if let Some((_, known)) = self.capacities.iter().find(|(other, _)| *other == this) {
            return Ok(*known);
        }
        let crowd = Crowd::for_capacity(setting)?;
        self.next_step("measuring capacity", crowd.lasts());
        let ground = Ground::lay(self.scenario.network)?;
        let mut server = Running::start(&ground, self.programs, &setting.server)?;
        let outcome = crowd.send(&ground)?.wait(|progress| self.watcher.progress(progress))?;
        server.check()?;
        if outcome.replies_per_s <= 0.0 {
            let detail = format!("{} attempts, {:?}", outcome.attempts, outcome.errors);
            return Err(LiveError::NoCapacity { detail });
        }
        self.capacities.push((this, outcome.replies_per_s));
        Ok(outcome.replies_per_s)
    }

    fn point(
        &mut self,
        setting: &Setting,
        capacity_per_s: f64,
        offered: f64,
    ) -> Result<Point, LiveError> {
        let times = Times::of(setting, &self.load, offered);
        let connections_per_s = capacity_per_s * offered / setting.clients.requests;
        let crowd = Crowd::for_load(setting, &self.load, &times, connections_per_s)?;
        self.next_step(&format!("{} at {offered} × capacity", setting.curve), crowd.lasts());
        let ground = Ground::lay(self.scenario.network)?;
        let mut server = start_server(&ground, self.programs, setting)?;
        let guard = set_treatment(&ground, self.programs, setting, capacity_per_s)?;
        let mut sent = crowd.send(&ground)?;
        sent.watch_for(times.warm_up, |progress| {
            self.watcher.progress(progress);
        });
        let begun = Instant::now();
        let gauge = Gauge::begin(&ground, &server, guard.as_ref(), self.scenario.profile)?;
        sent.watch_for(times.duration, |progress| {
            self.watcher.progress(progress);
        });
        let reading: Reading = gauge.end(&ground, &server, guard.as_ref())?;
        let reading_s = begun.elapsed().as_secs_f64();
        let outcome = sent.wait(|progress| self.watcher.progress(progress))?;
        server.check()?;
        if let Some(guard) = guard {
            guard.remove()?;
        }
        let (scenario, load) = (self.scenario, &self.load);
        let offered_over_capacity = offered;
        Ok(Measured {
            scenario,
            setting,
            load,
            capacity_per_s,
            offered_over_capacity,
            outcome,
            reading,
            reading_s,
        }
        .point())
    }

    fn next_step(&mut self, name: &str, lasts: Duration) {
        self.step += 1;
        self.watcher.step(self.step, self.steps, name, lasts);
    }
}

fn start_server(
    ground: &Ground,
    programs: &Programs,
    setting: &Setting,
) -> Result<Running, LiveError> {
    match setting.treatment {
        Treatment::Peer(peer) => {
            Running::start(ground, programs, &peer::server(peer, &setting.server))
        }
        Treatment::Mechanism(_) => Running::start(ground, programs, &setting.server),
    }
}

fn set_treatment(
    ground: &Ground,
    programs: &Programs,
    setting: &Setting,
    capacity_per_s: f64,
) -> Result<Option<Guard>, LiveError> {
    match &setting.treatment {
        Treatment::Peer(Peer::Kernel) => Ok(None),
        Treatment::Peer(peer) => peer::set(*peer, ground, capacity_per_s).map(|()| None),
        Treatment::Mechanism(mechanism) => {
            Guard::set(ground, programs, mechanism, &setting.hook).map(Some)
        }
    }
}
