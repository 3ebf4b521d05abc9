// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate stop`: ends the daemons, and removes what is left of the guard.

use tidegate_datapath::guard::Guard;
use tidegate_datapath::pins::Pins;

use crate::failure::{Failure, Result};
use crate::instance::{self, Instance, Role};
use crate::{host, resize};

/// Fails where there is nothing to take down.
pub fn run() -> Result<()> {
    host::require_capabilities()?;
    let pins = Pins::here()?;
    let stood = pins.are_left()?;
    // An agent that does not end keeps no guard from being taken down.
    let agent_ran = instance::stop(Role::Agent);
    let ran = take_down(&pins);
    let (agent_ran, ran) = (agent_ran?, ran?);
    if stood || ran || agent_ran {
        return Ok(());
    }
    Err(Failure::argument("no guard stands here", "there is nothing to stop"))
}

/// Ends the daemon, and removes what is left; whether one ran.
fn take_down(pins: &Pins) -> Result<bool> {
    let ran = instance::stop(Role::Guard)?;
    // None starts while it is taken down.
    let alone = Instance::keep_out(Role::Guard)?;
    let done = remove(pins);
    // Whatever of it is left, nobody runs here.
    alone.release();
    done.map(|()| ran)
}

/// Removes what a killed daemon left, or one of another version, or a stop that was killed.
fn remove(pins: &Pins) -> Result<()> {
    // One of another container's is ended there.
    let folder = pins.claim()?;
    if let Some(programs) = resize::known(Guard::open_to_put_back(pins)) {
        resize::put_back(&programs);
    }
    pins.remove(folder)?;
    instance::forget(Role::Agent)
}
