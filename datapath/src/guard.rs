// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard as a whole: loaded, pinned, attached, and taken down again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::cgroup;
use crate::configuration::{self, Configuration};
use crate::control;
use crate::error::{Error, Result, map_error};
use crate::interfaces::{self, Interface};
use crate::link::{self, Place};
use crate::pins::{Claim, Pins};
use crate::plain::from_bytes;
use crate::programs::{GUARD_MAPS, Objects, Program, Programs, Sizes};
use crate::raw::tg_control;
use crate::{resized, time_wait};

/// What is attached on one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// tc ingress alone: both stages.
    Ip,
    /// XDP for the SYN stage, tc ingress for the ACK stage.
    DriverAndIp,
    /// The same where the driver takes an XDP program, else tc ingress alone.
    DriverIfPossible,
}

/// What should be attached, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// By interface index: its name, whether it is a veth, and its hooks.
    pub interfaces: BTreeMap<u32, (PlannedInterface, Hooks)>,
    /// Every guard is a path: what stands at drivers asks for no socket.
    pub only_paths: bool,
    /// The operator named the interfaces, so that each driver which is asked for must take a program.
    pub is_named: bool,
    /// netfilter's local-in, needed by guards at the TCP entry and by reserv.
    pub local_in: bool,
    /// The socket option by which applications say how their connections end.
    pub socket_option: bool,
    /// Who holds TIME-WAIT is decided: both ways of every interface in `ends`, and all sockets.
    pub ends: BTreeMap<u32, String>,
}

/// What the plan keeps of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInterface {
    /// Its name.
    pub name: String,
    /// XDP answers by redirect there, see `xdp.bpf.c`.
    pub veth: bool,
    /// No crowd comes over it.
    pub loopback: bool,
}

impl From<&Interface> for PlannedInterface {
    fn from(interface: &Interface) -> Self {
        let Interface { name, driver, loopback, .. } = interface;
        PlannedInterface { name: name.clone(), veth: driver == "veth", loopback: *loopback }
    }
}

/// What a SYN costs that is dropped in silence, in ns of one processor: at the driver, whose poll it
/// shares with others.
const SYN_AT_DRIVER_NS: u64 = 500;
/// At the IP entry: with an interrupt and a buffer, as the simulator's machine of today has them. At
/// a veth's, too, where what the crowd sends is this host's work: docs/auto-measured.md.
const SYN_AT_IP_NS: u64 = 3_000;

fn driver_pin(index: u32) -> String {
    format!("driver-{index}")
}

fn ends_pin(way: &str, index: u32) -> String {
    format!("ends_{way}-{index}")
}

pub(crate) fn driver_program(interface: &PlannedInterface, only_paths: bool) -> Program {
    match (only_paths, interface.veth) {
        (false, false) => Program::Driver,
        (false, true) => Program::DriverVeth,
        (true, false) => Program::Path,
        (true, true) => Program::PathVeth,
    }
}

/// A link that the plan asks for: the name of its pin, its program and its place.
type Wanted = (String, Program, Place, String);

impl Plan {
    /// The interfaces from whose driver answers leave by redirect: they reach the other end only
    /// where that has NAPI, by GRO or by an XDP program of its own, and are lost else.
    pub fn answers_by_redirect(&self) -> impl Iterator<Item = &str> {
        let at_driver = self.interfaces.values().filter(|(_, hooks)| *hooks != Hooks::Ip);
        at_driver.filter(|(interface, _)| interface.veth).map(|(interface, _)| &*interface.name)
    }

    /// What a SYN costs that is dropped in silence where it is decided, in ns of one processor: at
    /// the interface where it costs most. `takes_program` tells of a driver that may or may not.
    fn syn_ns(&self, takes_program: impl Fn(u32) -> bool) -> u64 {
        let crowded = self.interfaces.iter().filter(|(_, (interface, _))| !interface.loopback);
        let costs = crowded.map(|(index, (_, hooks))| match hooks {
            Hooks::DriverAndIp | Hooks::DriverIfPossible if takes_program(*index) => {
                SYN_AT_DRIVER_NS
            }
            _ => SYN_AT_IP_NS,
        });
        costs.max().unwrap_or(SYN_AT_IP_NS)
    }

    /// The plan, but for these interfaces.
    fn without(mut self, gone: &BTreeSet<u32>) -> Self {
        self.interfaces.retain(|index, _| !gone.contains(index));
        self.ends.retain(|index, _| !gone.contains(index));
        self
    }

    /// The interface whose driver this is, where its SYNs may be judged at the IP entry all the same.
    fn driver_that_may_be_left(&self, place: Place, needs_drivers: bool) -> Option<u32> {
        let Place::Driver(index) = place else { return None };
        let (_, hooks) = self.interfaces.get(&index)?;
        (*hooks == Hooks::DriverIfPossible || !needs_drivers).then_some(index)
    }

    /// What may have to be loaded for it. A driver that takes no program leaves all to the IP entry.
    pub fn programs(&self) -> Vec<Program> {
        let mut programs: Vec<Program> = self.links().iter().map(|link| link.1).collect();
        if self.interfaces.values().any(|(_, hooks)| *hooks != Hooks::Ip) {
            programs.push(Program::Ip);
        }
        programs
    }

    fn links(&self) -> Vec<Wanted> {
        let mut links = Vec::new();
        for (index, (interface, hooks)) in &self.interfaces {
            let ip = match hooks {
                Hooks::Ip => Program::Ip,
                _ => Program::IpAfterDriver,
            };
            let name = interface.name.clone();
            if *hooks != Hooks::Ip {
                let place = Place::Driver(*index);
                let program = driver_program(interface, self.only_paths);
                links.push((driver_pin(*index), program, place, name.clone()));
            }
            links.push((format!("ingress-{index}"), ip, Place::Ingress(*index), name));
        }
        for (index, name) in &self.ends {
            for (way, program, place) in [
                ("in", Program::EndsIn, Place::Ingress(*index)),
                ("out", Program::EndsOut, Place::Egress(*index)),
            ] {
                links.push((ends_pin(way, *index), program, place, name.clone()));
            }
        }
        if !self.ends.is_empty() {
            let place = Place::Sockets;
            links.push(("sockets".to_owned(), Program::Sockets, place, "cgroup2".to_owned()));
        }
        if self.local_in {
            for (family, name) in [(libc::AF_INET, "ipv4"), (libc::AF_INET6, "ipv6")] {
                let place = Place::LocalIn(family as u8);
                links.push((format!("tcp-{name}"), Program::Tcp, place, name.to_owned()));
            }
        }
        if self.socket_option {
            let root = "the root of the cgroups".to_owned();
            for (pin, program, place) in [
                ("socket-set", Program::SetSocketOption, Place::SetSocketOption),
                ("socket-get", Program::GetSocketOption, Place::GetSocketOption),
            ] {
                links.push((pin.to_owned(), program, place, root.clone()));
            }
        }
        links
    }
}

/// The kernel lets go of a link a moment after its pin was taken away.
const LET_GO_TRIES: u32 = 50;
const LET_GO_AGAIN: Duration = Duration::from_millis(10);

/// Whether nothing could be attached since something is: TCX takes no program twice (EEXIST), a driver
/// no second one (EBUSY).
fn stands_still(made: &Result<OwnedFd>) -> bool {
    let Err(Error::Attach { source, .. }) = made else { return false };
    matches!(source.raw_os_error(), Some(libc::EEXIST | libc::EBUSY))
}

/// Whether a control record is of the network namespace with this cookie.
fn is_of(record: &[u8], netns_cookie: u64) -> bool {
    from_bytes::<tg_control>(record).netns_cookie == netns_cookie
}

/// The maps of the guard that stands in this network namespace; `None` where none does. Pins have the number of
/// their namespace, which another is given when that is gone: a guard that stood there is none of this one's.
///
/// # Errors
/// [`Error::OtherVersion`]: they would be read wrong.
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

/// Whether a link that could not be updated for this reason can be made anew. Those of netfilter are never updated
/// (EOPNOTSUPP), and one that was detached from outside, or with its cgroup, no more (ENOLINK). Any other is
/// attached, and its place would only say that it is taken.
fn wants_another(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOLINK))
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
    /// [`Error::OtherVersion`](crate::error::Error::OtherVersion): it would be read wrong. [`Error::Pin`]: a map is
    /// missing, in whose place there would be a new one, with nothing in it.
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
        Programs::load(Objects::Readers, known).map(Some)
    }

    /// The programs and maps.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Whether this guard stood before.
    pub fn adopted(&self) -> bool {
        self.adopted
    }

    /// Makes what is attached be `plan`, and puts `configuration` in force. The first time, a failure
    /// leaves nothing attached and nothing pinned; later, the configuration before is in force still.
    pub fn stand(&mut self, configuration: &Configuration, plan: &Plan) -> Result<()> {
        configuration::require_room(&self.programs, configuration)?;
        // Another version's goes on meanwhile.
        self.load_all(plan)?;
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

    fn detach(&self, names: &[String]) {
        for name in names {
            let _ = self.pins.remove_link(name);
        }
    }

    /// Decides what stands at each driver that may or may not take a program, by asking it
    /// once.
    fn resolve(&mut self, plan: &Plan, needs_drivers: bool) -> Result<Plan> {
        let mut plan = plan.clone();
        let only_paths = plan.only_paths;
        let standing = self.pins.link_names()?;
        for (index, (interface, hooks)) in &mut plan.interfaces {
            if *hooks == Hooks::Ip || *hooks == Hooks::DriverAndIp && needs_drivers {
                continue;
            }
            let name = driver_pin(*index);
            let is_left = self.no_driver.contains_key(index);
            let stands = standing.contains(&name) && self.pins.is_attached(&name);
            let program = driver_program(interface, only_paths);
            *hooks = if !is_left && (stands || self.try_driver(*index, program, &interface.name)) {
                Hooks::DriverAndIp
            } else {
                Hooks::Ip
            };
        }
        Ok(plan)
    }

    fn try_driver(&mut self, index: u32, program: Program, where_: &str) -> bool {
        let name = driver_pin(index);
        let _ = self.pins.remove_link(&name);
        let done = self.make(&name, program, Place::Driver(index), where_);
        if let Err(why) = &done
            && !interfaces::is_gone(index)
        {
            self.no_driver.insert(index, why.to_string());
        }
        done.is_ok()
    }

    fn make(&mut self, name: &str, program: Program, place: Place, where_: &str) -> Result<()> {
        let link = self.create(program, place, where_)?;
        self.pins.pin_link(name, link.as_fd())
    }

    /// It takes long, and from the first link to the last it should not.
    fn load_all(&mut self, plan: &Plan) -> Result<()> {
        plan.programs().into_iter().try_for_each(|program| self.loaded(program).map(drop))
    }

    /// Those of a plan whose drivers are asked for, each with why it took no program, if it did not.
    fn drivers<'a>(
        &'a self,
        plan: &'a Plan,
    ) -> impl Iterator<Item = (&'a PlannedInterface, Option<&'a String>)> {
        let asked = plan.interfaces.iter().filter(|(_, (_, hooks))| *hooks == Hooks::DriverAndIp);
        asked.map(|(index, (interface, _))| (interface, self.no_driver.get(index)))
    }

    /// That every driver which is asked for has taken a program.
    pub fn require_drivers(&self, plan: &Plan) -> Result<()> {
        match self.drivers(plan).find_map(|(interface, why)| Some((interface, why?))) {
            Some((interface, why)) => {
                Err(Error::DriverLeft { place: interface.name.clone(), why: why.clone() })
            }
            None => Ok(()),
        }
    }

    /// That one of them has: else the operator asks for what this host does not have.
    fn require_some_driver(&self, plan: &Plan) -> Result<()> {
        match self.drivers(plan).all(|(_, why)| why.is_some()) {
            true => self.require_drivers(plan),
            false => Ok(()),
        }
    }

    fn loaded(&mut self, program: Program) -> Result<BorrowedFd<'_>> {
        // Every map stands by now, so none is made here.
        self.programs.load_one(program, Sizes::default())?;
        Ok(self.programs.program(program.name()).expect("it is loaded"))
    }

    /// What a packet at this place is to meet before `program`, where it stands: the ends of connections are
    /// looked at before SYNs are judged, whichever was attached earlier.
    fn first_at(&self, program: Program, place: Place) -> Option<OwnedFd> {
        match place {
            Place::Ingress(index) if program != Program::EndsIn => {
                self.pins.open_link(&ends_pin("in", index)).ok()
            }
            _ => None,
        }
    }

    fn create(&mut self, program: Program, place: Place, where_: &str) -> Result<OwnedFd> {
        if place == Place::Sockets {
            // Nobody has been told since of sockets that ended.
            time_wait::forget_closing(&self.programs)?;
        }
        let first = self.first_at(program, place);
        let first = first.as_ref().map(OwnedFd::as_fd);
        let tries = if self.is_taken { LET_GO_TRIES } else { 0 };
        let loaded = self.loaded(program)?;
        let once = || link::create_behind(loaded, program.name(), place, first);
        let mut made = once();
        for _ in 0..tries {
            if !stands_still(&made) {
                break;
            }
            std::thread::sleep(LET_GO_AGAIN);
            made = once();
        }
        made.map_err(|error| match error {
            Error::Attach { source, .. }
                if matches!(place, Place::Driver(_))
                    && source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Error::NoDriver { place: where_.to_owned() }
            }
            Error::Attach { program, source, .. } => {
                Error::Attach { program, place: where_.to_owned(), source }
            }
            other => other,
        })
    }

    /// Puts the program in the place of another: of a former daemon's, or of one that decides less
    /// because something stands before it.
    fn renew(&mut self, name: &str, program: Program, place: Place, where_: &str) -> Result<()> {
        let link = self.pins.open_link(name)?;
        let id = link::program_info(self.loaded(program)?)?.id;
        if link::program_id(link.as_fd()).is_ok_and(|standing| standing == id) {
            return Ok(());
        }
        match link::update(link.as_fd(), self.loaded(program)?) {
            Ok(()) => Ok(()),
            Err(error) if wants_another(&error) => {
                // The new one stands before the old one goes.
                let link = self.create(program, place, where_)?;
                self.pins.replace_link(name, link.as_fd())
            }
            Err(source) => {
                let (program, place) = (program.name().to_owned(), where_.to_owned());
                Err(Error::Attach { program, place, source })
            }
        }
    }

    /// Whether a program was attached at this interface's driver last.
    pub fn is_at_driver(&self, index: u32) -> bool {
        self.attached.contains(&driver_pin(index))
    }

    /// [`Plan::syn_ns`], by what took a program.
    pub fn syn_ns(&self, plan: &Plan) -> u64 {
        plan.syn_ns(|index| !self.no_driver.contains_key(&index))
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

    /// Of a host with loopback and these interfaces beside it.
    fn plan(interfaces: &[(bool, Hooks)]) -> Plan {
        let loopback = (false, Hooks::Ip);
        let all = [loopback].into_iter().chain(interfaces.iter().copied()).zip(1..);
        let interfaces = all.map(|((veth, hooks), index)| {
            let name = format!("eth{index}");
            (index, (PlannedInterface { name, veth, loopback: index == 1 }, hooks))
        });
        Plan { interfaces: interfaces.collect(), ..Default::default() }
    }

    #[test]
    fn a_guard_is_of_the_namespace_that_its_control_record_names() {
        let control = tg_control { netns_cookie: 7, ..Default::default() };
        assert!(is_of(bytes_of(&control), 7) && !is_of(bytes_of(&control), 8));
    }

    #[test]
    fn an_interface_that_has_gone_is_in_no_part_of_what_stands() {
        let card = (false, Hooks::DriverIfPossible);
        let ends = [(1, "lo".to_owned()), (2, "eth2".to_owned())];
        let plan = Plan { ends: ends.into(), ..plan(&[card, card]) };
        let stands = plan.without(&BTreeSet::from([2]));
        assert_eq!(stands.interfaces.into_keys().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(stands.ends.into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_link_is_made_anew_only_where_it_can_be() {
        let is_made = |errno| wants_another(&io::Error::from_raw_os_error(errno));
        assert!(is_made(libc::EOPNOTSUPP), "netfilter's");
        assert!(is_made(libc::ENOLINK), "one that was detached");
        for errno in [libc::ENOMEM, libc::EBUSY, libc::EINVAL, libc::EPERM, libc::ENOENT] {
            assert!(!is_made(errno), "errno {errno} is told");
        }
    }

    #[test]
    fn a_driver_that_takes_no_other_program_is_left_unless_it_must_take_one() {
        let plan = plan(&[(false, Hooks::DriverIfPossible), (false, Hooks::DriverAndIp)]);
        let left = |place, needs_drivers| plan.driver_that_may_be_left(place, needs_drivers);
        assert_eq!(left(Place::Driver(2), true), Some(2), "if possible");
        assert_eq!(left(Place::Driver(3), true), None, "its operator has named it");
        assert_eq!(left(Place::Driver(3), false), Some(3), "it is told of");
        assert_eq!(left(Place::Ingress(2), false), None);
    }

    #[test]
    fn a_syn_costs_what_it_does_where_it_is_dropped() {
        let cost_ns = |interfaces: &[(bool, Hooks)], takes_program| {
            plan(interfaces).syn_ns(|index| takes_program && index == 2)
        };
        let card = (false, Hooks::DriverIfPossible);
        assert_eq!(cost_ns(&[card], true), SYN_AT_DRIVER_NS);
        assert_eq!(cost_ns(&[card], false), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[card, card], true), SYN_AT_IP_NS, "the second takes none");
        assert_eq!(cost_ns(&[(false, Hooks::Ip)], true), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[card, (true, Hooks::Ip)], true), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[(true, Hooks::DriverAndIp)], true), SYN_AT_DRIVER_NS);
        assert_eq!(cost_ns(&[(true, Hooks::DriverAndIp)], false), SYN_AT_IP_NS, "it came later");
        assert_eq!(cost_ns(&[], true), SYN_AT_IP_NS, "no crowd is expected");
    }
}
