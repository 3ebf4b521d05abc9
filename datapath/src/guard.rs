// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard as a whole: loaded, pinned, attached, and taken down again.

mod links;

use std::collections::{BTreeMap, BTreeSet};

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::cgroup;
use crate::configuration::{self, Configuration};
use crate::control;
use crate::error::{Result, map_error};
use crate::interfaces;
use crate::link::Place;
use crate::pins::{Claim, Pins};
use crate::plain::from_bytes;
use crate::plan::{Wanted, driver_pin};
use crate::programs::{GUARD_MAPS, Objects, Program, Programs, Sizes};
use crate::raw::tg_control;
use crate::resized;

pub use crate::plan::{Hooks, Plan, PlannedGuard, PlannedInterface};

/// Whether a control record is of the network namespace with this cookie.
fn is_of(record: &[u8], netns_cookie: u64) -> bool {
    from_bytes::<tg_control>(record).netns_cookie == netns_cookie
}

/// The maps of the guard that stands in this network namespace; `None` where none does. Pins have the number of
/// their namespace, which another is given when that is gone: a guard that stood there is none of this one's.
///
/// # Errors
/// [`Error::OtherVersion`](crate::error::Error::OtherVersion): they would be read wrong.
pub(crate) fn standing_maps(pins: &Pins) -> Result<Option<BTreeMap<String, MapHandle>>> {
    if !pins.exist() {
        return Ok(None);
    }
    let maps = pins.open_maps();
    // It may be taken down meanwhile.
    if !pins.exist() {
        return Ok(None);
    }
    let maps = maps?;
    control::require_layout(&maps)?;
    let record = maps["control"].lookup(&0_u32.to_ne_bytes(), MapFlags::ANY);
    let record = record.map_err(map_error("control"))?;
    let netns_cookie = cgroup::netns_cookie()?;
    Ok(record.is_some_and(|record| is_of(&record, netns_cookie)).then_some(maps))
}

/// What a guard of any version knows of applications' own backlogs, by the map's name: no layout has
/// changed these. It is pinned first and goes last, and so may be there where nothing else is.
fn backlogs_before(pins: &Pins) -> Result<BTreeMap<String, MapHandle>> {
    let known = pins.open_map_if_there(resized::MAP)?.filter(resized::is_ours);
    Ok(known.map(|map| (resized::MAP.to_owned(), map)).into_iter().collect())
}

/// A guard that stands in the kernel.
pub struct Guard {
    programs: Programs,
    pins: Pins,
    adopted: bool,
    /// Interfaces whose driver was asked and took no program, and why: each is asked once, until a
    /// configuration is put in force or the interface goes.
    no_driver: BTreeMap<u32, String>,
    /// Interfaces of the plan that was attached last that had gone by then.
    gone: BTreeSet<u32>,
    /// The links that were attached then.
    attached: Vec<String>,
    /// Of these some have been taken away, and are being put back.
    is_taken: bool,
    /// While the folder is there.
    claim: Option<Claim>,
}

impl Guard {
    /// Takes over the maps of a guard that stands already, or makes new ones. Nothing is attached or
    /// pinned yet, and what decides is loaded where it is attached. A table that stands and is large
    /// enough is kept.
    ///
    /// # Errors
    /// [`Error::Held`](crate::error::Error::Held): another daemon looks after it.
    pub fn load(pins: Pins, sizes: Sizes) -> Result<Self> {
        let claim = pins.claim()?;
        // One of another version has other types; its links stand until all of this one is loaded.
        if let Some(programs) = Self::adopt(&pins, sizes)? {
            return Ok(Guard::new(programs, pins, claim, true));
        }
        // What cannot be read keeps nobody from guarding.
        let known = backlogs_before(&pins).unwrap_or_default();
        let programs = Programs::load_maps(known, sizes)?;
        Ok(Guard::new(programs, pins, claim, false))
    }

    fn new(programs: Programs, pins: Pins, claim: Option<Claim>, adopted: bool) -> Self {
        let (no_driver, gone, attached, is_taken) = Default::default();
        Guard { programs, pins, adopted, no_driver, gone, attached, is_taken, claim }
    }

    fn adopt(pins: &Pins, sizes: Sizes) -> Result<Option<Programs>> {
        let Ok(Some(mut maps)) = standing_maps(pins) else { return Ok(None) };
        // A larger table takes the place of one that is too small, and begins empty.
        maps.retain(|name, map| sizes.suits(name, map));
        Ok(Programs::load_maps(maps, sizes).ok())
    }

    /// Opens the maps of a guard that stands, to read them; `None` where none does.
    ///
    /// # Errors
    /// [`Error::OtherVersion`](crate::error::Error::OtherVersion): it would be read wrong.
    /// [`Error::Pin`](crate::error::Error::Pin): a map is missing, in whose place there would be a new one, with nothing
    /// in it.
    pub fn open_to_read(pins: &Pins) -> Result<Option<Programs>> {
        let Some(maps) = standing_maps(pins)? else { return Ok(None) };
        match GUARD_MAPS.iter().find(|name| !maps.contains_key(**name)) {
            Some(name) => Err(pins.missing(name)),
            None => Programs::load(Objects::Readers, maps).map(Some),
        }
    }

    /// Opens what is needed to give applications their backlogs back, of a guard of any version, and of one of which
    /// a part is missing; `None` where nothing is known of any.
    ///
    /// # Errors
    /// Whether anything is known cannot be read.
    pub fn open_to_put_back(pins: &Pins) -> Result<Option<Programs>> {
        let known = backlogs_before(pins)?;
        if known.is_empty() {
            return Ok(None);
        }
        Programs::load_sized(Objects::Readers, known, Sizes::default().uncounted()).map(Some)
    }

    /// The programs and maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Whether this guard stood before.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// That the tables have room for `configuration` and the kernel takes the programs of `plan`: all
    /// that can be known before anything that stands is touched. Another version's goes on meanwhile.
    pub fn prepare_for(&mut self, configuration: &Configuration, plan: &Plan) -> Result<()> {
        configuration::require_room(&self.programs, configuration)?;
        self.load_all(plan)
    }

    /// Makes what is attached be `plan`, and puts `configuration` in force. The first time, a failure
    /// leaves nothing attached and nothing pinned; later, the configuration before is in force still.
    pub fn stand(&mut self, configuration: &Configuration, plan: &Plan) -> Result<()> {
        self.prepare_for(configuration, plan)?;
        self.no_driver.clear();
        let fresh = !self.adopted;
        if fresh && self.pins.exist() {
            // It may have come since this one was loaded.
            if self.claim.is_none() {
                self.claim = self.pins.claim()?;
            }
            // Of backlogs no moment is without: who is killed in it leaves them to the next.
            self.pins.unpin_all_but(self.programs.maps())?;
        }
        self.prepare()?;
        let done = self.attach_and_write(configuration, plan);
        if done.is_ok() {
            self.adopted = true;
        } else if fresh {
            self.forget()?;
        }
        done
    }

    /// Makes the folder, where it is not there, and claims it.
    fn prepare(&mut self) -> Result<()> {
        self.pins.prepare(self.claim.as_ref())?;
        if !self.is_claimed() {
            // Of a folder that is gone it is worth nothing.
            self.claim = None;
            self.claim = self.pins.claim()?;
        }
        Ok(())
    }

    fn is_claimed(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| self.pins.are_claimed(claim))
    }

    /// Removes the folder.
    fn forget(&mut self) -> Result<()> {
        self.pins.remove(self.claim.take())
    }

    /// Whether another daemon's stands in the place of this one, which was taken away.
    pub fn is_anothers(&self) -> bool {
        !self.is_claimed() && self.pins.are_left().unwrap_or(true)
    }

    /// Whether none stands here: not this one, nor any whose place it was to take.
    pub fn is_gone(&self) -> bool {
        !self.pins.exist()
    }

    /// Whether all is there that was attached last. Whoever may do so can take it away, or a part of it:
    /// the daemon keeps no link of its own.
    pub fn is_whole(&self) -> bool {
        let maps = self.programs.maps();
        self.pins.are_of(maps)
            && self.pins.have_all(maps)
            && self.attached.iter().all(|name| self.pins.is_attached(name))
    }

    /// What a configuration decides wants all of its programs at once: reservations are settled by
    /// another than makes them. A driver may refuse; a configuration in force has cost counts already.
    fn attach_and_write(&mut self, configuration: &Configuration, plan: &Plan) -> Result<()> {
        // Nothing is counted yet where none stands; and who reads it finds a whole one.
        if !self.adopted {
            configuration::write(&self.programs, configuration)?;
        }
        self.pins.pin_maps(self.programs.maps())?;
        let over = self.attach(plan, true)?;
        if self.adopted {
            configuration::write(&self.programs, configuration)?;
        }
        self.detach(&over);
        Ok(())
    }

    /// Makes what is attached be `plan`: interfaces come and go, and so does what stands at a driver
    /// before the IP entry. Where the driver of one that comes takes no program its SYNs are judged at
    /// the IP entry, and [`Guard::require_drivers`] says so.
    pub fn reattach(&mut self, plan: &Plan) -> Result<()> {
        self.is_taken = !self.is_whole();
        self.prepare()?;
        self.pins.pin_maps(self.programs.maps())?;
        let over = self.attach(plan, false);
        self.is_taken = false;
        self.detach(&over?);
        Ok(())
    }

    /// What stands of the plan that was attached last. An interface may go between the look at the host and
    /// that, and is not in it, so that one which comes back is attached.
    pub fn what_stands(&self, plan: Plan) -> Plan {
        plan.without(&self.gone)
    }

    /// Attaches all that `plan` names; the links that it does not name stand still, and are told. They go
    /// last, so that no packet is left to nobody; and what stands is changed when all that can fail is
    /// done: a failure leaves what stood before.
    fn attach(&mut self, plan: &Plan, is_asked: bool) -> Result<Vec<String>> {
        self.load_all(plan)?;
        self.gone.clear();
        self.no_driver.retain(|index, _| plan.interfaces.contains_key(index));
        let (before, broken): (Vec<_>, Vec<_>) =
            self.pins.link_names()?.into_iter().partition(|name| self.pins.is_attached(name));
        self.detach(&broken);
        let needs_drivers = is_asked && plan.is_named;
        let wanted = self.resolve(plan, needs_drivers)?.links();
        let some_driver = if is_asked { self.require_some_driver(plan) } else { Ok(()) };
        let standing = self.pins.link_names()?;
        let is_new = |(name, ..): &&Wanted| !standing.contains(name);
        let made = some_driver.and_then(|()| {
            let mut new = wanted.iter().filter(is_new);
            new.try_for_each(|link| self.unless_gone(link, Self::make))
        });
        if let Err(error) = made {
            let new = self.pins.link_names()?.into_iter().filter(|name| !before.contains(name));
            self.detach(&new.collect::<Vec<_>>());
            return Err(error);
        }
        for link in wanted.iter().filter(|link| !is_new(link)) {
            let renewed = self.unless_gone(link, Self::renew);
            match (renewed, plan.driver_that_may_be_left(link.2, needs_drivers)) {
                (Err(why), Some(index)) => {
                    // The IP entry takes over what it decided, and then it goes.
                    self.no_driver.insert(index, why.to_string());
                    return self.attach(plan, is_asked);
                }
                (renewed, _) => renewed?,
            }
        }
        let is_gone = |index: u32| self.gone.contains(&index);
        let gone = wanted.iter().filter(|(_, _, place, _)| place.interface().is_some_and(is_gone));
        self.detach(&gone.map(|(name, ..)| name.clone()).collect::<Vec<_>>());
        let stays = |place: &Place| !place.interface().is_some_and(is_gone);
        let attached = wanted.iter().filter(|(_, _, place, _)| stays(place));
        self.attached = attached.map(|(name, ..)| name.clone()).collect();
        let is_over = |name: &String| wanted.iter().all(|(w, ..)| w != name);
        Ok(standing.into_iter().filter(is_over).collect())
    }

    /// Does to a link what `how` does. That fails at an interface which has gone since the host was looked at,
    /// and keeps nobody from guarding the others.
    fn unless_gone(
        &mut self,
        (name, program, place, where_): &Wanted,
        how: fn(&mut Self, &str, Program, Place, &str) -> Result<()>,
    ) -> Result<()> {
        let done = how(self, name, *program, *place, where_);
        match place.interface().filter(|index| done.is_err() && interfaces::is_gone(*index)) {
            Some(index) => {
                self.gone.insert(index);
                Ok(())
            }
            None => done,
        }
    }

    /// Whether a program was attached at this interface's driver last.
    pub fn is_at_driver(&self, index: u32) -> bool {
        self.attached.contains(&driver_pin(index))
    }

    /// What a SYN to each of the plan's guards costs that is dropped in silence, in ns of one processor, by what
    /// took a program.
    pub fn syn_costs_ns(&self, plan: &Plan) -> Vec<u64> {
        plan.syn_costs_ns(|index| !self.no_driver.contains_key(&index))
    }

    /// Takes the guard down: every link, map and folder.
    pub fn remove(mut self) -> Result<()> {
        self.forget()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::bytes_of;

    #[test]
    fn a_guard_is_of_the_namespace_that_its_control_record_names() {
        let control = tg_control { netns_cookie: 7, ..Default::default() };
        assert!(is_of(bytes_of(&control), 7) && !is_of(bytes_of(&control), 8));
    }
}
