// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agent of a client's host, as the kernel has it: whose notices are obeyed, where connect()
//! fails now, and what was counted.
//!
//! Nothing of it is pinned: its programs and maps go with the process that attached them, however
//! that ends, so that no connect() fails where nobody is there to say otherwise.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::array::write_one;
use crate::error::{Error, Result, map_error};
use crate::link::{self, Place};
use crate::network::Network;
use crate::networks::key_of;
use crate::plain::{bytes_of, from_bytes};
use crate::programs::{Objects, Programs};
use crate::raw::*;
use crate::{address, cgroup, clock, per_cpu};
use tidegate_policy::raw::*;

const OBEYED: &str = "obeyed";
const AVOIDED: &str = "avoided";
const COUNTS: &str = "notice_counts";
/// What another process may read.
const READABLE: [&str; 3] = [OBEYED, AVOIDED, COUNTS];

/// Servers whose notices are obeyed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Their addresses.
    pub network: Network,
    /// Their port; none is every one.
    pub port: Option<u16>,
    /// For how long they are obeyed at most, and up to half as long again.
    pub longest: Duration,
}

impl Destination {
    fn key(&self) -> tg_network {
        key_of(&self.network, 16, self.port.unwrap_or(0).into())
    }

    fn from_key(key: &tg_network, rules: &tg_obeyed) -> Option<Self> {
        let address = address::either(key.owner >> 16 != 0, &key.addr);
        let bits = (key.prefix_bits - TG_NETWORK_OWNER_BITS) as u8;
        let port = key.owner as u16;
        Some(Destination {
            network: Network { address, bits },
            port: (port != 0).then_some(port),
            longest: Duration::from_millis(rules.longest_ms.into()),
        })
    }

    fn covers(&self, target: &Avoided) -> bool {
        self.port.is_none_or(|port| port == target.port) && self.network.contains(target.address)
    }

    /// For how long `target` is avoided at most: the longest network counts that names its port, else the
    /// longest that names none, as `tg_obeyed_of()` in notice.bpf.c has it. `None`: it is not obeyed.
    fn bound(destinations: &[Self], target: &Avoided) -> Option<Duration> {
        let covering = destinations.iter().filter(|destination| destination.covers(target));
        let closest = covering.max_by_key(|d| (d.port.is_some(), d.network.bits));
        closest.map(|destination| destination.longest * 3 / 2)
    }
}

/// A destination that has said when to come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Avoided {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// For how much longer connect() fails.
    pub left: Duration,
    /// How often it has failed.
    pub failed: u64,
}

/// What was counted since the agent began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Notices that are obeyed.
    pub obeyed: u64,
    /// Notices that do not say when to come back.
    pub untimed: u64,
    /// Notices that may be forged, or are about a connection that stood.
    pub unbelieved: u64,
    /// connect()s that failed.
    pub failed: u64,
}

/// The agent, attached.
pub struct Agent {
    programs: Programs,
    links: Vec<OwnedFd>,
}

impl Agent {
    /// Loads it, for the calling thread's network namespace. Nothing is attached yet, and nobody
    /// is obeyed.
    pub fn load() -> Result<Self> {
        let programs = Programs::load(Objects::Agent, BTreeMap::new())?;
        let agent = tg_agent { netns_cookie: cgroup::netns_cookie()? };
        write_one(&programs, "agent", 0, &agent)?;
        Ok(Agent { programs, links: Vec::new() })
    }

    /// Obeys these and no others. What others have said before is forgotten, and what these have said that
    /// goes on for longer than they may say now. On an error it obeys whom it obeyed before.
    ///
    /// # Errors
    /// [`Error::InPart`]: it obeys some of both.
    pub fn obey(&self, destinations: &[Destination]) -> Result<()> {
        let (asked, limit) = (destinations.len(), TG_OBEYED as usize / 2);
        if asked > limit {
            return Err(Error::Limit { what: "destinations", asked, limit });
        }
        let before = obeyed(&self.programs)?;
        let done = self.write(destinations).and_then(|()| self.forget_all_but(destinations));
        done.map_err(|error| match self.write(&before) {
            Ok(()) => error,
            Err(_) => Error::InPart { source: Box::new(error) },
        })
    }

    fn write(&self, destinations: &[Destination]) -> Result<()> {
        let obeyed = self.programs.map(OBEYED);
        let wanted: Vec<tg_network> = destinations.iter().map(Destination::key).collect();
        for (destination, key) in destinations.iter().zip(&wanted) {
            let rules = tg_obeyed { longest_ms: destination.longest.as_millis() as u32 };
            obeyed
                .update(bytes_of(key), bytes_of(&rules), MapFlags::ANY)
                .map_err(map_error(OBEYED))?;
        }
        let gone = obeyed.keys().filter(|key| !wanted.contains(&from_bytes(key)));
        for key in gone.collect::<Vec<_>>() {
            unless_gone(obeyed.delete(&key)).map_err(map_error(OBEYED))?;
        }
        Ok(())
    }

    fn forget_all_but(&self, destinations: &[Destination]) -> Result<()> {
        let avoided = self.programs.map(AVOIDED);
        for (key, target) in entries(&self.programs)? {
            if Destination::bound(destinations, &target).is_none_or(|bound| target.left > bound) {
                unless_gone(avoided.delete(bytes_of(&key))).map_err(map_error(AVOIDED))?;
            }
        }
        Ok(())
    }

    /// Attaches it: from now on notices are heard, and connect() fails where it should.
    pub fn attach(&mut self) -> Result<()> {
        for (name, place) in [
            ("tidegate_connect4", Place::Connect4),
            ("tidegate_connect6", Place::Connect6),
            ("tidegate_hear", Place::Received),
        ] {
            let program = self.programs.program(name).expect("a program of ours");
            let link = link::create(program, name, place).map_err(|error| match error {
                Error::Attach { program, source, .. } => {
                    Error::Attach { program, place: "the root of the cgroups".to_owned(), source }
                }
                other => other,
            })?;
            self.links.push(link);
        }
        Ok(())
    }

    /// The numbers of the maps that another process may read, by name.
    pub fn map_ids(&self) -> Result<Vec<(&'static str, u32)>> {
        READABLE
            .into_iter()
            .map(|name| {
                let info = self.programs.map(name).info().map_err(map_error(name))?;
                Ok((name, info.info.id))
            })
            .collect()
    }
}

impl Drop for Agent {
    /// At once: without asking it would come a moment after the last descriptor is closed.
    fn drop(&mut self) {
        for link in &self.links {
            let _ = link::detach(link.as_fd());
        }
    }
}

/// Another process's agent, to be read.
pub struct Reader(Programs);

impl Reader {
    /// By the numbers of its maps, as [`Agent::map_ids`] tells them; `None` where they are gone, or
    /// others have the numbers now.
    #[must_use]
    pub fn open(ids: &[(String, u32)]) -> Option<Self> {
        let mut maps = BTreeMap::new();
        for name in READABLE {
            let (_, id) = ids.iter().find(|(known, _)| known == name)?;
            let map = MapHandle::from_map_id(*id).ok()?;
            if map.name().to_string_lossy() != name {
                return None;
            }
            maps.insert(name.to_owned(), map);
        }
        Some(Reader(Programs::of_maps(maps)))
    }

    /// Whose notices are obeyed.
    pub fn destinations(&self) -> Result<Vec<Destination>> {
        let mut found = obeyed(&self.0)?;
        found.sort_by_key(|d: &Destination| (d.network.address, d.network.bits, d.port));
        Ok(found)
    }

    /// Where connect() fails now.
    pub fn avoided(&self) -> Result<Vec<Avoided>> {
        let mut now: Vec<Avoided> =
            entries(&self.0)?.into_iter().map(|(_, avoided)| avoided).collect();
        now.retain(|avoided| !avoided.left.is_zero());
        now.sort_by_key(|avoided| (avoided.address, avoided.port));
        Ok(now)
    }

    /// What was counted.
    pub fn counts(&self) -> Result<Counts> {
        let count = |what: u32| -> Result<u64> {
            Ok(per_cpu::read::<u64>(&self.0, COUNTS, what)?.iter().sum())
        };
        Ok(Counts {
            obeyed: count(TG_NOTICE_TIMED)?,
            untimed: count(TG_NOTICE_UNTIMED)?,
            unbelieved: count(TG_NOTICE_UNBELIEVED)?,
            failed: count(TG_CONNECTS_FAILED)?,
        })
    }
}

/// A deletion is done, too, where another entry has taken the place of this one meanwhile.
fn unless_gone(deleted: libbpf_rs::Result<()>) -> libbpf_rs::Result<()> {
    deleted.or_else(|error| match error.kind() {
        libbpf_rs::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Whose notices are obeyed.
fn obeyed(programs: &Programs) -> Result<Vec<Destination>> {
    let map = programs.map(OBEYED);
    let mut found = Vec::new();
    for key in map.keys() {
        if let Some(rules) = map.lookup(&key, MapFlags::ANY).map_err(map_error(OBEYED))? {
            found.extend(Destination::from_key(&from_bytes(&key), &from_bytes(&rules)));
        }
    }
    Ok(found)
}

/// All entries, those too whose time is over.
fn entries(programs: &Programs) -> Result<Vec<(tg_target, Avoided)>> {
    let map = programs.map(AVOIDED);
    let now_ns = clock::boot_ns();
    let mut found = Vec::new();
    for bytes in map.keys() {
        // One may give its place to another meanwhile.
        let Some(value) = map.lookup(&bytes, MapFlags::ANY).map_err(map_error(AVOIDED))? else {
            continue;
        };
        let (key, value): (tg_target, tg_avoided) = (from_bytes(&bytes), from_bytes(&value));
        let address = address::either(key.is_ipv6 != 0, &key.addr);
        let left = Duration::from_nanos(value.until_ns.saturating_sub(now_ns));
        let (port, failed) = (key.port as u16, value.failed);
        found.push((key, Avoided { address, port, left, failed }));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(network: &str, port: Option<u16>) -> Destination {
        let longest = Duration::from_secs(60);
        Destination { network: network.parse().unwrap(), port, longest }
    }

    fn target(address: &str, port: u16) -> Avoided {
        Avoided { address: address.parse().unwrap(), port, left: Duration::ZERO, failed: 0 }
    }

    #[test]
    fn what_has_gone_meanwhile_is_deleted() {
        let deleted = |errno| unless_gone(Err(libbpf_rs::Error::from_raw_os_error(errno)));
        assert!(unless_gone(Ok(())).is_ok() && deleted(libc::ENOENT).is_ok());
        assert!(deleted(libc::EPERM).is_err());
    }

    #[test]
    fn destinations_survive_the_way_through_the_map() {
        for (network, port) in [
            ("192.0.2.0/24", None),
            ("192.0.2.7/32", Some(443)),
            ("2001:db8::/32", Some(80)),
            ("::/0", None),
        ] {
            let one = destination(network, port);
            let rules = tg_obeyed { longest_ms: 60_000 };
            assert_eq!(Destination::from_key(&one.key(), &rules), Some(one));
        }
    }

    #[test]
    fn a_destination_covers_its_network_and_its_port() {
        let one = destination("192.0.2.0/24", Some(80));
        assert!(one.covers(&target("192.0.2.9", 80)));
        assert!(!one.covers(&target("192.0.2.9", 81)));
        assert!(!one.covers(&target("192.0.3.9", 80)));
        assert!(destination("192.0.2.0/24", None).covers(&target("192.0.2.9", 81)));
    }

    #[test]
    fn a_server_is_avoided_no_longer_than_the_destination_closest_to_it_says() {
        let lasting = |network: &str, port, seconds| Destination {
            longest: Duration::from_secs(seconds),
            ..destination(network, port)
        };
        let destinations = [
            lasting("192.0.2.0/24", Some(80), 20),
            lasting("192.0.2.9/32", None, 10),
            lasting("192.0.0.0/16", None, 40),
        ];
        for (address, port, bound_s) in [
            ("192.0.2.9", 80, Some(30)),
            ("192.0.2.9", 81, Some(15)),
            ("192.0.2.8", 81, Some(60)),
            ("192.1.2.9", 80, None),
        ] {
            let bound = Destination::bound(&destinations, &target(address, port));
            assert_eq!(bound.map(|bound| bound.as_secs()), bound_s, "{address}:{port}");
        }
    }
}
