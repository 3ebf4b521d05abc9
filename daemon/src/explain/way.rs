// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a SYN comes in.

use std::net::IpAddr;

use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::rehearsal::Syn;
use tidegate_datapath::{Error, route};

use super::Stage;
use crate::failure::{Failure, Result};
use crate::plan;

/// What to do where nobody can tell.
const NAME_IT: &str = "name the interface that the SYN comes in at with --interface";

impl Stage {
    /// An interface has it, in a VRF's table perhaps; or a network of such is routed here.
    pub(super) fn is_own(&self, address: IpAddr) -> Result<bool> {
        let stands = self.interfaces.iter().any(|i| i.addresses.contains(&address));
        let asked = |source| Error::Read { what: "the kernel's routes".to_owned(), source };
        Ok(stands || route::is_local(address).map_err(asked)?)
    }

    /// Where the SYN comes in: by the interface that is named, or that leads to its client; or by one
    /// below that, or the bridge that it is a port of, where it is judged.
    pub(super) fn interface(&self, syn: &Syn) -> Result<Interface> {
        let met = match &self.named {
            Some(name) => plan::named(name, &self.interfaces)?,
            None => self.towards(syn)?,
        };
        for interface in plan::up(met, &self.interfaces) {
            let mut judging = None;
            for below in plan::down(interface, &self.interfaces) {
                if self.rehearsal.judges_at(below)? {
                    judging = Some(below);
                }
            }
            if let Some(judging) = judging {
                return Ok(judging.clone());
            }
        }
        Ok(met.clone())
    }

    fn towards(&self, syn: &Syn) -> Result<&Interface> {
        let (client, own) = (syn.from.ip(), syn.to.ip());
        if is_on_a_link(client) && self.links() > 1 {
            return Err(Failure::argument(
                format!("{client} may be on any link of this host's"),
                NAME_IT,
            ));
        }
        let from = self.is_own(own)?.then_some(own);
        // The kernel takes no source of a network that another table than `local` routes here.
        let index =
            route::interface_to(client, from).or_else(|_| route::interface_to(client, None));
        let index = index.map_err(|error| {
            Failure::argument(format!("this host has no route to {client} ({error})"), NAME_IT)
        })?;
        let found = self.interfaces.iter().find(|i| Some(i.index) == index);
        found.ok_or_else(|| {
            Failure::argument(format!("no interface that is up leads to {client}"), NAME_IT)
        })
    }

    /// Interfaces behind which there may be clients with link-local addresses. The kernel's route to one is that of any of
    /// these.
    fn links(&self) -> usize {
        let is_one = |i: &&Interface| i.addresses.iter().any(|address| is_on_a_link(*address));
        self.interfaces.iter().filter(is_one).count()
    }
}

/// Whether an address is of IPv6's that every link has for itself.
fn is_on_a_link(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}
