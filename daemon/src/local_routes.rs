// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which addresses are this host's own, told to the programs as they come and go.

use std::collections::BTreeSet;

use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::local_routes;
use tidegate_datapath::network::Network;
use tidegate_datapath::programs::Programs;

use crate::failure::{Failure, Result};
use crate::pace::Pace;

/// What the programs have been told.
pub struct LocalRoutes {
    /// Networks that are routed here, by the last time that they were asked for.
    routed: Option<BTreeSet<Network>>,
    /// `None`: they do not know, and take for the host's own whatever it does not forward.
    known: Option<BTreeSet<Network>>,
    pace: Pace,
}

impl LocalRoutes {
    /// Nothing, or what an earlier daemon told them.
    pub fn new() -> Self {
        LocalRoutes { routed: None, known: None, pace: Pace::unhurried() }
    }

    /// Tells them what is this host's now. An interface's new address is told at each look, however long the kernel
    /// takes for its routes.
    ///
    /// # Errors
    /// Where that is not to be had, or too much: it is said, and the programs go by what is forwarded.
    pub fn follow(&mut self, programs: &Programs, interfaces: &[Interface]) -> Result<()> {
        let done = self.ask().and_then(|()| self.tell(programs, interfaces));
        if done.is_err() {
            (self.known, self.routed) = (None, None);
            local_routes::forget(programs)?;
        }
        done
    }

    /// A router has a million routes, and the kernel may walk them all for the few that are wanted.
    fn ask(&mut self) -> Result<()> {
        if self.routed.is_none() {
            self.pace = Pace::unhurried();
        }
        let routed = &mut self.routed;
        self.pace.look(|| {
            *routed = Some(local_routes::all()?);
            Ok::<(), Failure>(())
        })
    }

    fn tell(&mut self, programs: &Programs, interfaces: &[Interface]) -> Result<()> {
        let mut own = self.routed.clone().unwrap_or_default();
        own.extend(interfaces.iter().flat_map(|i| &i.addresses).map(|a| Network::from(*a)));
        if self.known.as_ref() != Some(&own) {
            local_routes::write(programs, &own)?;
            self.known = Some(own);
        }
        Ok(())
    }
}
