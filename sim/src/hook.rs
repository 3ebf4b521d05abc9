// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where Tidegate looks at a SYN, and so how much of its way the SYN has cost already.

use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::error::SimError;
use crate::machine::Machine;
use crate::spent::Took;

/// A place on a packet's way up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hook {
    /// At the driver, before a buffer is made (XDP).
    Driver,
    /// At the entry of IP (tc).
    Ip,
    /// Just before TCP, where Shukla's kernel has its mechanisms.
    Tcp,
}

impl Hook {
    /// The place that a scenario names; `auto` is the machine's.
    pub(crate) fn named(name: &str, auto: Self) -> Result<Self, SimError> {
        match name {
            "auto" => Ok(auto),
            "driver" => Ok(Self::Driver),
            "ip" => Ok(Self::Ip),
            "tcp" => Ok(Self::Tcp),
            _ => Err(SimError::Hook { given: name.to_owned() }),
        }
    }

    /// What a SYN has cost when it has been looked at there. At the driver it depends on the answer:
    /// [`Hook::way_from`], or [`Costs::early_ns`].
    pub(crate) fn way_to(self, costs: &Costs) -> Took {
        let looked_at =
            Took { driver_ns: costs.frame_ns, guard_ns: costs.hook_ns, ..Took::default() };
        match self {
            Self::Driver => Took::default(),
            Self::Ip => Took { other_ns: costs.buffer_ns, ..looked_at },
            Self::Tcp => Took {
                other_ns: costs.buffer_ns,
                ip_ns: costs.ip_ns,
                tcp_ns: costs.look_up_ns,
                ..looked_at
            },
        }
    }

    /// What a SYN costs the host that comes alone and is dropped there in silence, in ns of all its
    /// processors.
    pub(crate) fn syn_ns(self, machine: &Machine) -> u64 {
        let Machine { costs, driver_elsewhere, cores, .. } = machine;
        let whole_ns = match self {
            Self::Driver if *driver_elsewhere => costs.early_ns,
            Self::Driver => costs.interrupt_ns + costs.early_ns,
            Self::Ip | Self::Tcp => costs.interrupt_ns + self.way_to(costs).whole_ns(),
        };
        whole_ns / u64::from(*cores)
    }

    /// What is left from there to TCP's own decision.
    pub(crate) fn way_from(self, costs: &Costs) -> Took {
        let tcp = Took { tcp_ns: costs.look_up_ns, ..Took::default() };
        match self {
            Self::Driver => Took {
                driver_ns: costs.frame_ns,
                guard_ns: costs.hook_ns,
                other_ns: costs.buffer_ns,
                ip_ns: costs.ip_ns,
                ..tcp
            },
            Self::Ip => Took { ip_ns: costs.ip_ns, ..tcp },
            Self::Tcp => Took::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_syn_costs_what_the_machine_has_it_cost() {
        let syn_ns = |hook: Hook, machine| hook.syn_ns(&machine);
        let today = Machine::today();
        // An interrupt, a frame, a look and a buffer.
        assert_eq!(syn_ns(Hook::Ip, today), 2950);
        assert_eq!(syn_ns(Hook::Ip, Machine { cores: 4, ..today }), 737);
        assert_eq!(syn_ns(Hook::Driver, today), 2800);
        assert_eq!(syn_ns(Hook::Driver, Machine { driver_elsewhere: true, ..today }), 300);
    }
}
