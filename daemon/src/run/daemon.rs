// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard, kept in step with the host: its listening sockets, its interfaces, its half-open requests,
//! what a SYN costs there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::{Duration, Instant};

use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::guard::{Guard, Plan};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::pins::Pins;
use tidegate_datapath::raw::*;
use tidegate_datapath::{control, counters, interfaces, refusals, sock_diag, sockets, time_wait};
use tidegate_policy::names::REASONS;
use tidegate_policy::raw::*;
use tidegate_policy::syn_ns_of_host;

use super::inside::Inside;
use super::{check_host, slots};
use crate::config::{self, Config};
use crate::failure::{Failure, Result, tell};
use crate::host::Kernel;
use crate::local_routes::LocalRoutes;
use crate::resize::{self, Resizer};
use crate::{hook, host, keys, outcome, part, plan, shed, time_wait as ends, writer};

/// A plan that could not be attached is tried again after this long.
const AGAIN: Duration = Duration::from_secs(10);

/// The guard that stands, and what is known of the host that it follows.
pub struct Daemon {
    guard: Guard,
    plan: Plan,
    /// Where the last that was to be attached could not be, that plan, and when it was tried: what
    /// stands may then be neither.
    failed: Option<(Plan, Instant)>,
    keys: tg_cookie_keys,
    keys_are_random: bool,
    shed_key: tg_key,
    /// What a SYN to each guard costs that is dropped in silence, in ns of this host's time.
    syn_costs_ns: Vec<u64>,
    /// Read once, for a kernel's types fill megabytes.
    kernel: Kernel,
    rotated: Instant,
    /// The sockets by which the next look chooses interfaces. One that a look has missed counts for that look, but does
    /// not stay for it: an application that has moved would have its last interface for good.
    listened: Vec<tg_listener_row>,
    /// The sockets that the last look has found.
    found: Vec<tg_listener_row>,
    /// The interfaces that it has found, by which guards are placed: with addresses that are gone for now.
    interfaces: Vec<Interface>,
    /// The listeners that have been looked at for whether they negotiate.
    spoken_to: BTreeSet<u64>,
    resizer: Resizer,
    inside: Inside,
    local_routes: LocalRoutes,
    /// What kept the last look, or another turn, from being whole, so that the same is not told four times a second.
    complaint: String,
    /// What was wrong by the last look that was, and has been told.
    told: BTreeSet<String>,
}

impl Daemon {
    /// Stands the guard up.
    pub fn start(config: &Config, kernel: Kernel) -> Result<Self> {
        let mut guard = Guard::load(Pins::here()?, config.sizes())?;
        if guard.adopted() {
            // What was refused while nobody ran is not told as if it were of now.
            refusals::take(guard.programs())?;
        }
        let (keys, shed_key) = keys(config, &guard)?;
        let rows = sockets::listeners_by_two_looks(guard.programs())?;
        let interfaces = interfaces::list()?;
        plan::require_all(config, &interfaces)?;
        let listened = plan::listened(&config.guards, &[], &rows);
        let plan = planned(config, &interfaces, &listened);
        let syn_costs_ns = syn_costs_ns(&guard, &plan);
        control::write_clock(guard.programs(), kernel.lets_in())?;
        let mut local_routes = LocalRoutes::new();
        let own = local_routes.follow(guard.programs(), &interfaces);
        let configuration = configuration_of(config, keys, shed_key, &syn_costs_ns);
        let plan = stand_up(&mut guard, &configuration, plan)?;
        let mut daemon = Daemon {
            guard,
            plan,
            failed: None,
            keys,
            keys_are_random: config.keys.cookies.is_none(),
            shed_key,
            syn_costs_ns,
            kernel,
            rotated: Instant::now(),
            listened,
            found: rows.clone(),
            interfaces: interfaces.clone(),
            spoken_to: BTreeSet::new(),
            resizer: Resizer::default(),
            inside: Inside::new(),
            local_routes,
            complaint: String::new(),
            told: BTreeSet::new(),
        };
        tell_parts(config);
        // The guard stands, whatever of this cannot be done: with some of the interfaces, too.
        if let Err(failure) = daemon.follow_at_first(config, &rows, &interfaces, own) {
            daemon.complain(&failure);
        }
        Ok(daemon)
    }

    /// What each look does again.
    fn follow_at_first(
        &mut self,
        config: &Config,
        rows: &[tg_listener_row],
        interfaces: &[Interface],
        own: Result<()>,
    ) -> Result<()> {
        self.follow_speakers(config, rows)?;
        self.follow_sockets(rows)?;
        let backlogs = self.follow_backlogs(config, rows, rows);
        self.tell_wrongs(config, interfaces, rows, [own, backlogs]);
        Ok(())
    }

    /// Says what is wrong here with what was asked for, each once while it stands: that may be as long as the host
    /// does, and hides nothing that comes later.
    fn tell_wrongs(
        &mut self,
        config: &Config,
        interfaces: &[Interface],
        rows: &[tg_listener_row],
        looks: impl IntoIterator<Item = Result<()>>,
    ) {
        let found = [
            plan::require_named(&config.interfaces, interfaces),
            plan::require_others(&config.guards, interfaces),
            self.guard.require_drivers(&self.plan).map_err(Failure::from),
        ];
        let wrongs = plan::wrongs(config, interfaces, rows, &self.plan);
        let found: Vec<Failure> =
            looks.into_iter().chain(found).filter_map(Result::err).chain(wrongs).collect();
        for failure in found.iter().filter(|failure| !self.told.contains(&failure.what())) {
            tell(&failure.to_string());
        }
        self.told = found.iter().map(Failure::what).collect();
    }

    /// Puts a new configuration in force, or leaves the one before as it was.
    pub fn reload(&mut self, before: &Config, config: &Config) -> Result<()> {
        check_host(config, &self.kernel)?;
        let keys = config.keys.cookies.unwrap_or(self.keys);
        let shed_key = config.keys.shed.unwrap_or(self.shed_key);
        let rows = sockets::listeners(self.guard.programs())?;
        let there = sockets::still_there(&self.found, &rows);
        let interfaces = interfaces::list_after(&self.interfaces)?;
        plan::require_all(config, &interfaces)?;
        let listened = plan::listened(&config.guards, &self.listened, &there);
        let plan = planned(config, &self.kept(config, &listened, &interfaces), &listened);
        let syn_costs_ns = syn_costs_ns(&self.guard, &plan);
        let next = configuration_of(config, keys, shed_key, &syn_costs_ns);
        // Before anything is touched that would have to be put back.
        self.guard.prepare_for(&next, &plan)?;
        // What was refused when nobody was to be told is not told later, as if it were of then.
        match logs(before) {
            true => self.tell_refusals()?,
            false => drop(refusals::take(self.guard.programs())?),
        }
        // What is wrong with it the next look tells.
        let _ = self.local_routes.follow(self.guard.programs(), &interfaces);
        if let Err(error) = self.guard.stand(&next, &plan) {
            let before = configuration_of(before, self.keys, self.shed_key, &self.syn_costs_ns);
            match self.guard.stand(&before, &self.plan) {
                Ok(()) => self.plan = self.guard.what_stands(self.plan.clone()),
                Err(second) => {
                    self.failed = Some((plan, Instant::now()));
                    tell(&second.to_string());
                }
            }
            return Err(error.into());
        }
        self.keys = keys;
        self.shed_key = shed_key;
        self.syn_costs_ns = syn_costs_ns;
        self.keys_are_random = config.keys.cookies.is_none();
        self.plan = self.guard.what_stands(plan);
        self.listened = plan::listened(&config.guards, &self.listened, &rows);
        self.failed = None;
        // Others may negotiate now, and what is wrong with this one has not been told.
        self.spoken_to.clear();
        self.complaint.clear();
        self.told.clear();
        self.resizer = Resizer::default();
        tell_parts(config);
        Ok(())
    }

    /// One line for each guarded listener, the sign that the guard stands.
    pub fn announce(&self, config: &Config) {
        let places: Vec<&str> =
            self.plan.interfaces.values().map(|(interface, _)| interface.name.as_str()).collect();
        let mut lines = String::new();
        for g in &config.guards {
            let _ = writeln!(
                lines,
                "guarding {} with {} at {} on {}{}",
                config::place(g),
                shed::described(g),
                hook::name(g.hook),
                if places.is_empty() { "no interface yet".to_owned() } else { places.join(", ") },
                resize::described(g),
            );
        }
        for (network, rules) in &config.ends.destinations {
            let _ = writeln!(
                lines,
                "guarding TIME-WAIT of connections to {network}: {}",
                ends::described(rules)
            );
        }
        writer::print(lines);
    }

    /// Says what did not work, once.
    pub fn complain(&mut self, failure: &Failure) {
        let what = failure.what();
        if what != self.complaint {
            tell(&failure.to_string());
            self.complaint = what;
        }
    }

    /// Takes it down, and gives applications their backlogs back.
    pub fn take_down(self) -> Result<()> {
        // Where another stands in its place, too: nobody else knows of backlogs that it changed.
        resize::put_back(self.guard.programs());
        if self.guard.is_anothers() {
            return Ok(());
        }
        Ok(self.guard.remove()?)
    }

    /// What does not wait, and costs next to nothing.
    pub fn tick(&mut self, config: &Config) -> Result<()> {
        control::write_clock(self.guard.programs(), self.kernel.lets_in())?;
        if keys::are_due(self.keys_are_random, self.rotated.elapsed()) {
            // One that fails waits, too: no key in force is given up for one that never was.
            self.rotated = Instant::now();
            let next = keys::rotated(&self.keys);
            configuration::write_keys(self.guard.programs(), next)?;
            self.keys = next;
        }
        if config.asks_time_wait() {
            time_wait::end_late(self.guard.programs())?;
        }
        if logs(config) {
            self.tell_refusals()?;
        }
        Ok(())
    }

    /// A line for each refusal that is to be told.
    fn tell_refusals(&self) -> Result<()> {
        let mut lines = String::new();
        for refusal in refusals::take(self.guard.programs())? {
            let reason = REASONS[refusal.decision.reason as usize];
            let _ = writeln!(
                lines,
                "{} > {}: {} ({reason})",
                refusal.from,
                refusal.to,
                outcome::words(refusal.decision)
            );
        }
        writer::print(lines);
        Ok(())
    }

    /// Follows the host: its listening sockets, its interfaces, its half-open requests.
    ///
    /// # Errors
    /// What did not work. What is wrong with what was asked for is told when all else is done.
    pub fn look(&mut self, config: &Config) -> Result<()> {
        let rows = sockets::listeners(self.guard.programs())?;
        let there = sockets::still_there(&self.found, &rows);
        self.found.clone_from(&rows);
        self.follow_sockets(&there)?;
        self.clean_reservations(config, &rows)?;
        self.follow_speakers(config, &rows)?;
        let interfaces = interfaces::list_after(&self.interfaces)?;
        // An address that is gone is none of this host's own, wherever its guard stays.
        let own = self.local_routes.follow(self.guard.programs(), &interfaces);
        let listened = plan::listened(&config.guards, &self.listened, &there);
        self.listened = plan::listened(&config.guards, &self.listened, &rows);
        self.interfaces = self.kept(config, &listened, &interfaces);
        let plan = planned(config, &self.interfaces, &listened);
        self.follow_plan(plan)?;
        self.follow_costs(config)?;
        let backlogs = self.follow_backlogs(config, &rows, &there);
        let inside = self.inside.follow(self.guard.programs(), &config.guards, &rows);
        self.tell_wrongs(config, &interfaces, &there, [own, backlogs, inside]);
        // What is wrong next is told, even if it is the same again.
        self.complaint.clear();
        Ok(())
    }

    /// The interfaces as guards are placed by them.
    fn kept(
        &self,
        config: &Config,
        listened: &[tg_listener_row],
        now: &[Interface],
    ) -> Vec<Interface> {
        let at = |index| self.guard.is_at_driver(index);
        plan::kept(&config.guards, listened, &self.interfaces, now, at)
    }

    /// Makes what is attached be `plan`. One that fails is told of once, and tried again now and then: a
    /// card may begin anew each time that its driver takes a program.
    fn follow_plan(&mut self, plan: Plan) -> Result<()> {
        let failed_at = self.failed.as_ref().filter(|(failed, _)| *failed == plan).map(|f| f.1);
        let is_whole = self.guard.is_whole();
        let stands = plan == self.plan && self.failed.is_none() && is_whole;
        if stands || failed_at.is_some_and(|at| at.elapsed() < AGAIN) {
            return Ok(());
        }
        let was_whole = is_whole || plan != self.plan || self.failed.is_some();
        match self.guard.reattach(&plan) {
            Ok(()) => {
                let stands = self.guard.what_stands(plan);
                // An interface that has just gone has taken its part with it.
                if !was_whole && stands == self.plan {
                    tell("somebody had taken a part of the guard away: it is put back");
                }
                (self.plan, self.failed) = (stands, None);
                Ok(())
            }
            Err(error) => {
                self.failed = Some((plan, Instant::now()));
                failed_at.map_or(Err(error.into()), |_| Ok(()))
            }
        }
    }

    /// A SYN costs something else where it is decided by now: on other interfaces, or not at the
    /// driver, which took no program.
    fn follow_costs(&mut self, config: &Config) -> Result<()> {
        if !config.guards.iter().any(|g| g.rules.asks_syn_ns()) {
            return Ok(());
        }
        let syn_costs_ns = syn_costs_ns(&self.guard, &self.plan);
        if syn_costs_ns != self.syn_costs_ns {
            let now = configuration_of(config, self.keys, self.shed_key, &syn_costs_ns);
            configuration::write(self.guard.programs(), &now)?;
            self.syn_costs_ns = syn_costs_ns;
        }
        Ok(())
    }

    /// Gives new listening sockets a counter slot of their own, as far as there are any; the counts of one that is
    /// gone are added to its guard's before the slot is given up: whoever reads meanwhile sees by the slots
    /// that it was, if it is given up before the reading ends, and a daemon that is killed in between leaves counts that stand twice. Counts that fell
    /// would be taken for such as begin anew, and counted again as a whole.
    fn follow_sockets(&mut self, rows: &[tg_listener_row]) -> Result<()> {
        let programs = self.guard.programs();
        let guards = configuration::read(programs)?;
        let wanted = guards.iter().flat_map(|(index, guarded)| {
            let all = || guards.iter().map(|(_, guarded)| guarded);
            let own = rows.iter().filter(move |row| guarded.judges(row, all()));
            own.map(|row| ((*index, row.socket_cookie), row.address()))
        });
        let wanted = slots::owners(wanted, (TG_SLOTS - TG_GUARDS) as usize);
        let mut slots = counters::slots(programs);
        let gone: Vec<((u32, u64), u32)> =
            slots.iter().filter(|(o, _)| !wanted.contains(o)).map(|(o, s)| (*o, *s)).collect();
        for (owner, slot) in gone {
            if guards.iter().any(|(index, _)| *index == owner.0) {
                counters::add_ended(programs, owner.0, slot)?;
            }
            counters::release_slot(programs, owner)?;
            slots.remove(&owner);
        }
        let new = wanted.into_iter().filter(|owner| !slots.contains_key(owner));
        for (owner, slot) in new.zip(slots::free(slots.values())) {
            counters::clear(programs, slot)?;
            counters::assign_slot(programs, owner, slot)?;
        }
        Ok(())
    }

    /// Listeners that stood before the guard learn to speak.
    fn follow_speakers(&mut self, config: &Config, rows: &[tg_listener_row]) -> Result<()> {
        if !config.guards.iter().any(|g| g.time_wait.negotiate != TG_TW_NOBODY) {
            return Ok(());
        }
        let listening: BTreeSet<u64> = rows.iter().map(|row| row.socket_cookie).collect();
        // Where other network namespaces have a host's connections the kernel walks them all.
        if listening != self.spoken_to {
            sockets::mark_speaking(self.guard.programs())?;
            self.spoken_to = listening;
        }
        Ok(())
    }

    /// Applications' backlogs are as the configuration wants them, or their own again.
    fn follow_backlogs(
        &mut self,
        config: &Config,
        rows: &[tg_listener_row],
        there: &[tg_listener_row],
    ) -> Result<()> {
        self.resizer.follow(self.guard.programs(), &config.guards, rows, there)
    }

    /// reserv: half-open requests give their places back when they are old, and places or the kernel's room for requests short.
    fn clean_reservations(&mut self, config: &Config, rows: &[tg_listener_row]) -> Result<()> {
        let half_open = |g: &Guarded| rows.iter().any(|row| row.syn_len > 0 && g.covers(row));
        // Every socket of the host is walked for it: not without a reason.
        if !config.guards.iter().any(|g| g.rules.clean_after_ms != 0 && half_open(g)) {
            return Ok(());
        }
        let programs = self.guard.programs();
        let mut cleaned = BTreeMap::new();
        sockets::stale_requests(programs, |row| {
            // A request that completed in between is gone, and so is the need.
            if sock_diag::destroy_request(&row).is_ok() {
                *cleaned.entry(row.guard).or_default() += 1;
            }
        })?;
        for (guard, count) in cleaned {
            counters::add_cleaned(programs, guard, count)?;
        }
        Ok(())
    }
}

/// The keys to begin with: those that are given, or those that stand.
fn keys(config: &Config, guard: &Guard) -> Result<(tg_cookie_keys, tg_key)> {
    let keys = match config.keys.cookies {
        Some(given) => given,
        // Cookies that are out were made by the keys that stand.
        None if guard.adopted() => configuration::read_keys(guard.programs())?,
        None => keys::random_pair(),
    };
    let shed_key = match config.keys.shed {
        Some(given) => given,
        // Whoever is being dropped goes on being dropped.
        None if guard.adopted() => configuration::read_shed_key(guard.programs())?,
        None => keys::random(),
    };
    Ok((keys, shed_key))
}

/// What of the plan stands then.
fn stand_up(guard: &mut Guard, configuration: &Configuration, plan: Plan) -> Result<Plan> {
    let stood = guard.stand(configuration, &plan);
    if stood.is_err() && guard.is_gone() {
        // Another version's has gone with it, and nobody after us would know of backlogs that it changed.
        resize::put_back(guard.programs());
    }
    stood?;
    Ok(guard.what_stands(plan))
}

/// Says what this host does in part, once for a configuration: no look is to ask the kernel for it.
fn tell_parts(config: &Config) {
    part::of(config).for_each(|failure| tell(&failure.to_string()));
}

/// Whether refusals are told of, one by one.
fn logs(config: &Config) -> bool {
    config.guards.iter().any(|g| g.rules.log_cost_ns != 0)
}

/// Of this host's time.
fn syn_costs_ns(guard: &Guard, plan: &Plan) -> Vec<u64> {
    let processors = host::processors();
    let of_one = guard.syn_costs_ns(plan).into_iter();
    of_one.map(|cost_ns| syn_ns_of_host(cost_ns, processors)).collect()
}

fn configuration_of(
    config: &Config,
    keys: tg_cookie_keys,
    shed_key: tg_key,
    syn_costs_ns: &[u64],
) -> Configuration {
    let mut guards = config.guards.clone();
    for (guarded, cost_ns) in guards.iter_mut().zip(syn_costs_ns) {
        guarded.rules = guarded.rules.or_syn_ns(*cost_ns);
    }
    let keys_are_shared = config.keys.cookies.is_some();
    let destinations = config.ends.destinations.clone();
    let held_blocks = config.sizes().held_blocks;
    Configuration { guards, keys, keys_are_shared, shed_key, destinations, held_blocks }
}

/// What a configuration wants to be attached.
pub fn planned(config: &Config, interfaces: &[Interface], listened: &[tg_listener_row]) -> Plan {
    let mut plan = plan::plan(&config.guards, &config.interfaces, interfaces, listened);
    plan.socket_option = config.socket_option;
    if config.asks_time_wait() {
        plan.ends = plan::ends(&config.interfaces, interfaces);
    }
    plan
}
