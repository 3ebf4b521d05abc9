// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's machine: its TCP, its processor, its cable, its program.

use std::path::Path;

use serde::de::DeserializeOwned;
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
/// A program that strays further would at times take less than nothing.
const STRAYS_MOST_X1000: u32 = 1000;
/// No time in a file is longer than a minute: sums of them have to fit into 64 bits.
const TIME_MOST_NS: i64 = 60_000_000_000;

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

    /// What 1 µs of computing a page takes here, in ns. Where a scenario's `cost_us` is in the server's own costs
    /// already, what is computed is not: it takes its µs.
    pub(crate) fn computed_us_ns(&self) -> u64 {
        if self.cost_us_ns == 0 { 1000 } else { self.cost_us_ns }
    }

    /// Reads what [`Machine::to_toml`] wrote.
    ///
    /// # Errors
    /// [`SimError::Machine`], which names the line, or a number that cannot be simulated.
    pub fn from_toml(text: &str) -> Result<Self, SimError> {
        let machine: Self = parsed(text)?;
        let times: toml::Table = parsed(text)?;
        match machine.unfit().or_else(|| too_long("", &times)) {
            Some(what) => Err(SimError::Machine { what }),
            None => Ok(machine),
        }
    }

    /// A number with which a simulation would fail, or never end.
    fn unfit(&self) -> Option<String> {
        let Self { cores, pace: Pace { strays_x1000, .. }, napi, .. } = self;
        if *cores == 0 || *cores > CORES_MOST {
            return Some(format!("cores = {cores} is not from 1 to {CORES_MOST}"));
        }
        if *strays_x1000 > STRAYS_MOST_X1000 {
            let range = format!("from 0 to {STRAYS_MOST_X1000}");
            return Some(format!("[pace] strays_x1000 = {strays_x1000} is not {range}"));
        }
        if *cores > 1 && napi.turn_ns == 0 {
            return Some(format!(
                "[napi] turn_ns = 0 is for one processor, not {cores}: give more"
            ));
        }
        self.lets_time_stand().then(|| {
            "wire_ns = 0, and in [costs] frame_ns = 0, buffer_ns = 0 and ip_ns = 0: give one of \
             them more, or no time passes"
                .to_owned()
        })
    }

    /// Whether packets take no time, so that one client after the other can come and go at once.
    fn lets_time_stand(&self) -> bool {
        let Costs { frame_ns, buffer_ns, ip_ns, .. } = self.costs;
        [self.wire_ns, frame_ns, buffer_ns, ip_ns] == [0; 4]
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

/// What a file says; the error names the line.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, SimError> {
    toml::from_str(text).map_err(|error| {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let what = error.message().lines().collect::<Vec<_>>().join("; ");
        SimError::Machine { what: format!("line {line}: {what}") }
    })
}

/// A time in a file's table that is too long.
fn too_long(name: &str, table: &toml::Table) -> Option<String> {
    table.iter().find_map(|(key, value)| match value {
        toml::Value::Table(inner) => too_long(&format!("[{key}] "), inner),
        toml::Value::Integer(ns) if key.ends_with("_ns") && *ns > TIME_MOST_NS => {
            Some(format!("{name}{key} = {ns} is more than a minute: give at most {TIME_MOST_NS}"))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::Error;
    use tidegate_scenarios::{TCPS, named, shelf};

    use super::*;

    /// A claim that names a TCP which no machine has would never be judged.
    #[test]
    fn what_claims_are_comparable_on_are_tcps_of_machines() {
        let mut judged = 0;
        for (name, _) in shelf() {
            for claim in named(&name).unwrap().claims {
                for tcp in &claim.comparable_on {
                    let known: Result<_, Error> =
                        Profile::deserialize(tcp.as_str().into_deserializer());
                    assert_eq!(known.map(Profile::name).ok(), Some(tcp.as_str()), "{name}");
                    judged += 1;
                }
            }
        }
        assert!(judged > 0, "there are some");
    }

    /// Which refuse a claim that names another.
    #[test]
    fn scenarios_know_the_tcps_of_machines() {
        let read = |name: &str| -> Result<Profile, Error> {
            Profile::deserialize(name.into_deserializer())
        };
        for tcp in TCPS {
            assert_eq!(read(tcp).map(Profile::name), Ok(tcp));
        }
        // "unknown variant `none`, expected one of `linux-2.4`, …"
        let told = read("none").unwrap_err().to_string();
        assert_eq!(told.split('`').skip(3).step_by(2).collect::<Vec<_>>(), TCPS, "{told}");
    }

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

    fn refused(machine: Machine) -> String {
        let text = machine.to_toml().unwrap();
        let told = Machine::from_toml(&text).unwrap_err().to_string();
        assert_eq!(told.lines().count(), 1, "{told}");
        told
    }

    #[test]
    fn a_program_that_would_take_less_than_nothing_is_refused() {
        let of = |strays_x1000| {
            let today = Machine::today();
            Machine { pace: Pace { strays_x1000, ..today.pace }, ..today }
        };
        let told = refused(of(1001));
        assert!(told.contains("[pace] strays_x1000 = 1001 is not from 0 to 1000"), "{told}");
        assert!(Machine::from_toml(&of(1000).to_toml().unwrap()).is_ok());
    }

    /// Packets of several processors would be looked at again and again in one moment.
    #[test]
    fn several_processors_without_turns_are_refused() {
        let of = |cores| {
            let today = Machine::today();
            Machine { cores, napi: Napi { turn_ns: 0, ..today.napi }, ..today }
        };
        let told = refused(of(2));
        assert!(told.contains("[napi] turn_ns = 0 is for one processor, not 2"), "{told}");
        assert!(Machine::from_toml(&of(1).to_toml().unwrap()).is_ok());
    }

    /// Where nothing takes time a closed loop never comes to its end.
    #[test]
    fn packets_that_take_no_time_are_refused() {
        let free = Machine { wire_ns: 0, costs: Costs::default(), ..Machine::today() };
        let told = refused(free);
        assert!(told.contains("wire_ns = 0, and in [costs] frame_ns = 0"), "{told}");
        let cable = Machine { wire_ns: 1, ..free };
        assert!(Machine::from_toml(&cable.to_toml().unwrap()).is_ok());
    }

    #[test]
    fn a_time_beyond_a_minute_is_refused() {
        let today = Machine::today();
        let (minute_ns, more_ns) = (60_000_000_000, 60_000_000_001);
        let costs = Costs { frame_ns: more_ns, ..today.costs };
        let told = refused(Machine { costs, ..today });
        assert!(told.contains("[costs] frame_ns = 60000000001 is more than a minute"), "{told}");
        let told = refused(Machine { wire_ns: more_ns, ..today });
        assert!(told.starts_with("wire_ns = 60000000001 is more"), "{told}");
        let longest = Machine { wire_ns: minute_ns, ..today };
        assert!(Machine::from_toml(&longest.to_toml().unwrap()).is_ok());
    }
}
