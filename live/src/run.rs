// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a scenario: at every load every curve, each on a ground of its own.

use std::num::NonZeroU64;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{OperatingPoint, Point, Watcher};
use tidegate_scenarios::{
    CAPACITY_PHASES, Load, Peer, Phases, Scenario, Server, Setting, Treatment,
};

use crate::accounts::Accounts;
use crate::capacity::{Capacity, Known, shortfalls};
use crate::crowd::Crowd;
use crate::error::LiveError;
use crate::gauge::Gauge;
use crate::ground::{Ground, lost_since};
use crate::guard::Guard;
use crate::peer;
use crate::point::{Measured, disturbances};
use crate::preload;
use crate::programs::Programs;
use crate::server::Running;

/// Runs a scenario on this kernel, under its load in one of its forms. Of which servers an earlier part of the
/// run has found what they can do, is known, and not measured anew; and they are as quick as they were there.
///
/// # Errors
/// What keeps the whole of it from running, as a [`LiveError`]; what concerns one curve only goes
/// to [`Watcher::left_out`] or [`Watcher::left_out_from`].
pub fn run(
    scenario: &Scenario,
    load: Load,
    programs: &Programs,
    known: Known,
    watcher: &mut dyn Watcher,
) -> Result<(), LiveError> {
    // Before anything is run: no one should wait to be told of a name that is no name.
    for setting in &scenario.settings {
        Crowd::for_capacity(setting)?;
    }
    tidegate_lab::require_root()?;
    let mut uses = scenario.server_uses(&scenario.settings);
    let Known { capacities, steps_per_us, .. } = known;
    uses.retain(|this| capacities.iter().all(|capacity| capacity.of != *this));
    let steps = uses.len() + scenario.settings.len() * load.offered.len();
    let mut run =
        Run { scenario, load, programs, watcher, steps, step: 0, capacities, steps_per_us };
    let mut curves = Vec::new();
    for setting in &scenario.settings {
        let capacity = check_in_series(setting).and_then(|()| run.capacity(setting));
        if let Some(capacity) = run.unless_left_out(setting, None, capacity)? {
            curves.push((setting, capacity));
        }
    }
    // A machine that others share is not the same for long: what is compared comes close together.
    for offered in run.load.offered.clone() {
        let mut left = Vec::new();
        for (setting, capacity) in curves {
            let point = run.point(setting, &capacity, offered);
            if let Some(point) = run.unless_left_out(setting, Some(offered), point)? {
                run.watcher.point(&point)?;
                left.push((setting, capacity));
            }
        }
        curves = left;
    }
    Ok(())
}

fn check_in_series(setting: &Setting) -> Result<(), LiveError> {
    match setting.shed.as_ref().map_or(1, |shed| shed.in_series) {
        1 => Ok(()),
        hosts => Err(LiveError::InSeries(hosts)),
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    load: Load,
    programs: &'a Programs,
    watcher: &'a mut dyn Watcher,
    steps: usize,
    step: usize,
    /// Those known so far.
    capacities: Vec<Capacity>,
    /// How quick its servers are.
    steps_per_us: NonZeroU64,
}

impl Run<'_> {
    /// What was found of a curve, or of it at a load; or nothing, and that is told: the others go on.
    fn unless_left_out<T>(
        &mut self,
        setting: &Setting,
        offered: Option<f64>,
        found: Result<T, LiveError>,
    ) -> Result<Option<T>, LiveError> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(reason @ (LiveError::Watcher(_) | LiveError::Lab(_))) => Err(reason),
            Err(reason) => {
                match offered {
                    Some(load) => self.watcher.left_out_from(&setting.curve, load, &reason),
                    None => self.watcher.left_out(&setting.curve, &reason),
                }
                Ok(None)
            }
        }
    }

    /// What the server can do: known, or measured and watched as a point is.
    fn capacity(&mut self, setting: &Setting) -> Result<Capacity, LiveError> {
        let setting = self.scenario.measured_by(setting);
        let this = setting.server_use();
        if let Some(known) = self.capacities.iter().find(|known| known.of == this) {
            return Ok(known.clone());
        }
        let crowd = Crowd::for_capacity(setting)?;
        self.next_step("measuring capacity", crowd.lasts());
        let ground = Ground::lay(self.scenario.network)?;
        let mut server = self.start(&ground, &setting.server)?;
        let Phases { warm_up, duration, .. } = CAPACITY_PHASES;
        let carrier = crowd.carrier(&ground);
        let mut sent = crowd.send(&ground)?;
        sent.watch_until(warm_up, |progress| self.progress(progress));
        let (foreign, losses) = (ground.foreign_time(), ground.losses()?);
        sent.watch_until(warm_up + duration, |progress| self.progress(progress));
        let foreign = ground.foreign_time().share_since(&foreign);
        let lost = lost_since(&ground.losses()?, &losses);
        let outcome = sent.wait(|progress| self.progress(progress))?;
        server.check()?;
        if outcome.replies_per_s <= 0.0 {
            let detail = format!("{} attempts, {:?}", outcome.attempts, outcome.errors);
            return Err(LiveError::NoCapacity { detail });
        }
        let mut disturbed = disturbances(foreign, lost, carrier, &outcome);
        disturbed.extend(shortfalls(&outcome, setting.clients.requests));
        let capacity = Capacity::measured(this, outcome.replies_per_s, disturbed);
        self.capacities.push(capacity.clone());
        Ok(capacity)
    }

    fn point(
        &mut self,
        setting: &Setting,
        capacity: &Capacity,
        offered: f64,
    ) -> Result<Point, LiveError> {
        let capacity_per_s = capacity.per_s;
        let phases = self.load.phases(&setting.clients, offered);
        let connections_per_s = setting.clients.connections_per_s(capacity_per_s * offered);
        let crowd = Crowd::for_load(setting, &self.load, &phases, connections_per_s)?;
        self.next_step(&format!("{} at {offered} × capacity", setting.curve), crowd.lasts());
        let ground = Ground::lay(self.scenario.network)?;
        let server = setting.server.under(&setting.treatment);
        let mut server = self.start(&ground, &server)?;
        preload::load(&ground, setting)?;
        let guard = set_treatment(&ground, self.programs, setting, capacity_per_s)?;
        let carrier = crowd.carrier(&ground);
        let mut sent = crowd.send(&ground)?;
        sent.watch_until(phases.warm_up, |progress| self.progress(progress));
        let mut gauge = Gauge::begin(&ground, &mut server, guard.as_ref(), self.scenario.profile)?;
        sent.watch_until(phases.warm_up + phases.duration, |progress| {
            gauge.look(&ground);
            self.progress(progress);
        });
        let reading = gauge.end(&ground, &mut server, guard.as_ref())?;
        let outcome = sent.wait(|progress| self.progress(progress))?;
        server.check()?;
        let accounts = Accounts::settle(&ground.server, &mut server)?;
        if let Some(guard) = guard {
            guard.remove()?;
        }
        let at = OperatingPoint {
            scenario: self.scenario,
            setting,
            load: &self.load,
            capacity_per_s,
            offered_over_capacity: offered,
        };
        Ok(Measured { at, outcome, carrier, reading, accounts, capacity }.point())
    }

    fn start(&self, ground: &Ground, server: &Server) -> Result<Running, LiveError> {
        Running::start(ground, self.programs, server, self.steps_per_us)
    }

    fn next_step(&mut self, name: &str, lasts: Duration) {
        self.step += 1;
        self.watcher.step(self.step, self.steps, name, lasts);
    }

    fn progress(&mut self, progress: &Progress) {
        self.watcher.progress(self.step, progress);
    }
}

fn set_treatment(
    ground: &Ground,
    programs: &Programs,
    setting: &Setting,
    capacity_per_s: f64,
) -> Result<Option<Guard>, LiveError> {
    // Peers and persistent dropping look at SYNs, and one may bring several requests.
    let capacity_per_s = setting.clients.connections_per_s(capacity_per_s);
    match &setting.treatment {
        Treatment::Peer(Peer::Kernel) if setting.sheds_on_router() => {
            Guard::set(ground, programs, setting, capacity_per_s).map(Some)
        }
        Treatment::Peer(Peer::Kernel) => Ok(None),
        Treatment::Peer(peer) => peer::set(*peer, ground, capacity_per_s).map(|()| None),
        Treatment::Mechanism(_) => Guard::set(ground, programs, setting, capacity_per_s).map(Some),
    }
}
