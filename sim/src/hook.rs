// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where Tidegate looks at a SYN, and so how much of its way the SYN has cost already.

use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::error::SimError;
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
