// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's machine: its TCP, its processor, its cable, its program.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::costs::Costs;
use crate::cpu::Napi;
use crate::error::SimError;
use crate::hook::Hook;
use crate::pace::Pace;
use crate::stack::Profile;

/// A server's machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Its TCP.
    pub profile: Profile,
    /// What a scenario's userver is here.
    pub userver: Program,
    /// What a scenario's Knot has.
    #[serde(default)]
    pub threading: Threading,
    /// Where Tidegate looks at SYNs when a scenario leaves it open.
    pub hook: Hook,
    /// Whether the driver, and a hook there, works on another processor than those that it has: on a
    /// veth that is the sender's, where what comes up is steered (RPS). A SYN that ends there costs
    /// no interrupt, and of this machine's time what the two take from each other
    /// ([`Costs::early_ns`]).
    #[serde(default)]
    pub driver_elsewhere: bool,
    /// How many processors it has: the program runs on the first, packets are spread over all by
    /// connection.
    #[serde(default = "one_core")]
    pub cores: u32,
    /// How long a packet takes on its cable, one way, in ns.
    pub wire_ns: u64,
    /// What 1 µs of a scenario's `cost_us` takes here, in ns: more than 1000 where a sibling thread
    /// is busy too. It makes a server of today's processors as slow as the papers', which the
    /// papers' own is already: 0 there.
    pub cost_us_ns: u64,
    /// How closely the clients' machine attends to its clients.
    pub clients: Attention,
    /// How evenly its program works.
    #[serde(default)]
    pub pace: Pace,
    /// How packets and programs share its processor.
    pub napi: Napi,
    /// What everything costs it.
    pub costs: Costs,
}

/// More than any machine that runs one program for one queue.
const CORES_MOST: u32 = 1024;

fn one_core() -> u32 {
    1
}

/// How closely a machine attends to its clients: what it looks at only now and then comes in
/// batches, and so do the packets with which it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Arrivals are looked for at multiples of this time, in ns; 0 is at once.
    pub poll_ns: u64,
    /// Timers are looked at at multiples of this time, in ns; 0 is at once.
    pub tick_ns: u64,
}

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// `tidegate-servers`' userver with epoll: a request is read and answered in one turn.
    Userver,
    /// The same with select() or poll(), which look at every connection.
    UserverScanning,
    /// The papers' userver: select(), and a reply written only when that has said that it can be
    /// (Pariag, section 3.1.1).
    PapersUserver,
    /// TUX: no asking for events, and a work phase that goes on while there is work (Pariag,
    /// section 3.1.3).
    Tux,
    /// Knot-C: a fixed pool of threads, each of which accepts and then finishes those whom it
    /// accepted (Pariag, section 3.1.2).
    KnotC,
    /// Knot-A: an acceptor, and a thread for each connection (the same section).
    KnotA,
}

/// Whose threads Knot has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threading {
    /// The kernel's, as `tidegate-servers` has them.
    #[default]
    Kernel,
    /// Capriccio's, switched in user space, with one poll() for all (Pariag, section 3.1.2).
    Capriccio,
}

impl Attention {
    /// When a packet that arrives then is seen.
    #[inline]
    pub(crate) fn sees_ns(self, at_ns: u64) -> u64 {
        later(at_ns, self.poll_ns)
    }

    /// When a timer for that time is seen to be due.
    #[inline]
    pub(crate) fn wakes_ns(self, at_ns: u64) -> u64 {
        later(at_ns, self.tick_ns)
    }
}

#[inline]
fn later(at_ns: u64, every_ns: u64) -> u64 {
    if every_ns == 0 { at_ns } else { at_ns.next_multiple_of(every_ns) }
}

impl Machine {
    /// The papers': a Xeon of 2.4 GHz, Linux 2.4.22 with NAPI, Gigabit Ethernet (Shukla, 3.1.2).
    #[must_use]
    pub const fn xeon() -> Self {
        Self {
            profile: Profile::Linux24,
            userver: Program::PapersUserver,
            threading: Threading::Capriccio,
            hook: Hook::Tcp,
            driver_elsewhere: false,
            cores: 1,
            // 228 µs from SYN/ACK to its ACK (Shukla, figure 4.2), the client and its card included.
            wire_ns: 90_000,
            cost_us_ns: 0,
            clients: Attention { poll_ns: 0, tick_ns: 0 },
            pace: Pace::EVEN,
            napi: Napi::LINUX_2_4,
            costs: Costs::XEON_2_4_GHZ,
        }
    }

    /// A virtual machine of today at a veth pair, Linux 6; what its driver does it does itself, as a
    /// network card's.
    #[must_use]
    pub const fn today() -> Self {
        Self {
            profile: Profile::Linux6,
            userver: Program::Userver,
            threading: Threading::Kernel,
            hook: Hook::Ip,
            driver_elsewhere: false,
            cores: 1,
            wire_ns: 10_000,
            cost_us_ns: 1270,
            // As `tidegate-crowd` polls its interface and turns its timing wheel.
            clients: Attention { poll_ns: 30_000, tick_ns: 65_536 },
            pace: Pace { strays_x1000: 40, lasts_ns: 300_000_000 },
            napi: Napi::LINUX_6,
            costs: Costs::TODAY,
        }
    }

    /// Reads what [`Machine::to_toml`] wrote.
    ///
    /// # Errors
    /// [`SimError::Machine`], which names the line.
    pub fn from_toml(text: &str) -> Result<Self, SimError> {
        let machine: Self = toml::from_str(text).map_err(|error| {
            let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let what = error.message().lines().collect::<Vec<_>>().join("; ");
            SimError::Machine { what: format!("line {line}: {what}") }
        })?;
        if machine.cores == 0 || machine.cores > CORES_MOST {
            let what = format!("cores = {} is not from 1 to {CORES_MOST}", machine.cores);
            return Err(SimError::Machine { what });
        }
        Ok(machine)
    }

    /// Reads it from a file.
    ///
    /// # Errors
    /// [`SimError::Machine`], which names the file.
    pub fn read(path: &Path) -> Result<Self, SimError> {
        let file = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| SimError::Machine { what: format!("{file}: {error}") })?;
        Self::from_toml(&text).map_err(|error| match error {
            SimError::Machine { what } => SimError::Machine { what: format!("{file}: {what}") },
            other => other,
        })
    }

    /// As a TOML file, for a person to edit or a calibration to write.
    ///
    /// # Errors
    /// [`SimError::Machine`] where a number is too large for TOML.
    pub fn to_toml(&self) -> Result<String, SimError> {
        toml::to_string(self).map_err(|error| SimError::Machine { what: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_comes_back_as_it_went() {
        for machine in [Machine::xeon(), Machine::today()] {
            let text = machine.to_toml().unwrap();
            assert_eq!(Machine::from_toml(&text).unwrap(), machine, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let text = Machine::today().to_toml().unwrap();
        let wrong = |from: &str, to: &str| {
            Machine::from_toml(&text.replace(from, to)).unwrap_err().to_string()
        };
        let profile = wrong("\"linux-6\"", "\"linux-7\"");
        assert!(profile.contains("line 1: ") && profile.contains("linux-7"), "{profile}");
        let cores = wrong("cores = 1", "cores = 0");
        assert!(cores.contains("cores = 0 is not from 1"), "{cores}");
        let unknown = wrong("frame_ns", "fame_ns");
        assert!(unknown.contains("fame_ns"), "{unknown}");
    }
}
