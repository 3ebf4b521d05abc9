// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a guard's links are made, and put in the place of others.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::Guard;
use crate::error::{Error, Result};
use crate::link::{self, Place};
use crate::plan::{Hooks, Plan, PlannedInterface, driver_pin, driver_program, ends_pin};
use crate::programs::{Program, Sizes};
use crate::{interfaces, time_wait};

/// The kernel lets go of a link a moment after its pin was taken away.
const LET_GO_TRIES: u32 = 50;
const LET_GO_AGAIN: Duration = Duration::from_millis(10);

/// Whether nothing could be attached since something is: TCX takes no program twice (EEXIST), a driver
/// no second one (EBUSY).
fn stands_still(made: &Result<OwnedFd>) -> bool {
    let Err(Error::Attach { source, .. }) = made else { return false };
    matches!(source.raw_os_error(), Some(libc::EEXIST | libc::EBUSY))
}

/// Whether a link that could not be updated for this reason can be made anew. Those of netfilter are never updated
/// (EOPNOTSUPP), and one that was detached from outside, or with its cgroup, no more (ENOLINK). Any other is
/// attached, and its place would only say that it is taken.
fn wants_another(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOLINK))
}

impl Guard {
    pub(super) fn detach(&self, names: &[String]) {
        for name in names {
            let _ = self.pins.remove_link(name);
        }
    }

    /// Decides what stands at each driver that may or may not take a program, by asking it
    /// once.
    pub(super) fn resolve(&mut self, plan: &Plan, needs_drivers: bool) -> Result<Plan> {
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

    pub(super) fn make(
        &mut self,
        name: &str,
        program: Program,
        place: Place,
        where_: &str,
    ) -> Result<()> {
        let link = self.create(program, place, where_)?;
        self.pins.pin_link(name, link.as_fd())
    }

    /// It takes long, and from the first link to the last it should not.
    pub(super) fn load_all(&mut self, plan: &Plan) -> Result<()> {
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
    pub(super) fn require_some_driver(&self, plan: &Plan) -> Result<()> {
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
    pub(super) fn renew(
        &mut self,
        name: &str,
        program: Program,
        place: Place,
        where_: &str,
    ) -> Result<()> {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_made_anew_only_where_it_can_be() {
        let is_made = |errno| wants_another(&io::Error::from_raw_os_error(errno));
        assert!(is_made(libc::EOPNOTSUPP), "netfilter's");
        assert!(is_made(libc::ENOLINK), "one that was detached");
        for errno in [libc::ENOMEM, libc::EBUSY, libc::EINVAL, libc::EPERM, libc::ENOENT] {
            assert!(!is_made(errno), "errno {errno} is told");
        }
    }
}
