// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard's programs once more, on copies of all that they write: what they would do with a SYN
//! that came in now, without anything having happened.
//!
//! Maps that packets only read are the guard's own. Of those that packets write there is a second
//! set, and before a question what may have a part in the answer is copied over: the guard's
//! bucket of refusals, its claims, what `auto` has seen, the cell of the table in which this very
//! client would stand. The copied counters begin at zero, so the one that moves is the answer.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use libbpf_rs::MapCore;

use crate::configuration::{self, Guarded};
use crate::control;
use crate::error::{Error, Result};
use crate::guard::standing_maps;
use crate::interfaces::Interface;
use crate::pins::Pins;
use crate::plain::{bytes_of, from_bytes};
use crate::plan::{PlannedInterface, driver_program};
use crate::programs::{Objects, Program, Programs, Sizes};
use crate::raw::*;
use crate::table::Table;
use crate::{
    array, by_socket, clock, counters, local_routes, per_cpu, police, shed, speaks, test_run,
    time_wait,
};
use tidegate_policy::raw::*;
use tidegate_policy::{overload, share as policy_share, shed as policy_shed};

/// Filled with a configuration or by the daemon, never by a packet.
const READ_BY_PACKETS: [&str; 5] =
    [counters::SLOTS, "preferred", "limits", "destinations", local_routes::MAP];

/// linux/bpf.h, enum tcx_action_base.
const TCX_DROP: u32 = 2;

/// A SYN: what of it the copies are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syn {
    /// The client.
    pub from: SocketAddr,
    /// The server.
    pub to: SocketAddr,
    /// The initial sequence number.
    pub isn: u32,
}

/// Which program judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// XDP.
    Driver,
    /// tc ingress; also where the guard's entry is TCP's, whose program cannot be run on a packet
    /// of ours, since it needs the socket that comes with one: the same stage answers here.
    Ip,
}

/// What became of a SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// No program of the guard stands at that interface.
    Unwatched,
    /// It was dropped, since its pair is held in TIME-WAIT here.
    Held,
    /// No guard had anything to decide: the kernel gets it.
    Unjudged,
    /// It was judged.
    Judged {
        /// Where.
        entry: Entry,
        /// The counter slot of its listening socket, or its guard's own.
        slot: u32,
        /// What was decided, and why.
        decision: tg_decision,
    },
}

impl Found {
    /// Whether programs behind the one that judged it see it, too.
    fn goes_on(&self) -> bool {
        let Found::Judged { entry, decision, .. } = self else { return false };
        *entry == Entry::Driver && decision.verdict == TG_PASS
    }
}

/// By guard and socket cookie.
type Slots = BTreeMap<(u32, u64), u32>;

/// Programs and maps of which nothing is attached.
pub struct Rehearsal {
    pins: Pins,
    live: Programs,
    own: Programs,
    sizes: Sizes,
    /// The live configuration that was copied last, and its number.
    copied: Option<(u32, Box<tg_config>)>,
    guards: Vec<(u32, Guarded)>,
}

impl Rehearsal {
    /// Of the guard that stands in this namespace; `None` where none does.
    ///
    /// # Errors
    /// [`Error::Pin`], where a map is missing, as it may be in the moment of a start.
    pub fn of(pins: Pins) -> Result<Option<Self>> {
        let Some(maps) = standing_maps(&pins)? else { return Ok(None) };
        let live = Programs::of_maps(maps);
        let standing = |name| live.maps().get(name).ok_or_else(|| pins.missing(name));
        let held_blocks = standing(time_wait::TABLE)?.max_entries();
        let slots = standing(counters::SLOTS).map(|_| counters::used(&counters::slots(&live)))?;
        // Of the table of persistent dropping one block is copied.
        let sizes = Sizes { shed_blocks: 1, held_blocks, slots: Some(slots) };
        let own = second_set(&pins, sizes)?;
        let mut rehearsal = Rehearsal { pins, live, own, sizes, copied: None, guards: Vec::new() };
        rehearsal.require_all()?;
        rehearsal.copy_configuration()?;
        Ok(Some(rehearsal))
    }

    /// Sockets that have come since have counters here, too: all that is copied is copied before each question.
    fn follow_slots(&mut self, slots: &Slots) -> Result<()> {
        let used = Some(counters::used(slots));
        if self.sizes.slots < used {
            self.sizes.slots = used;
            self.own = second_set(&self.pins, self.sizes)?;
            self.copied = None;
        }
        Ok(())
    }

    /// That each map which is copied into is there to be copied from.
    fn require_all(&self) -> Result<()> {
        let is_missing = |name: &&String| !self.live.maps().contains_key(*name);
        match self.own.maps().keys().find(is_missing) {
            Some(name) => Err(self.pins.missing(name)),
            None => Ok(()),
        }
    }

    /// The guard's own maps, to be read.
    pub fn live(&self) -> &Programs {
        &self.live
    }

    /// The programs that read the host's sockets.
    pub fn readers(&self) -> &Programs {
        &self.own
    }

    /// The guards in force when a question was asked last, by index.
    pub fn guards(&self) -> &[(u32, Guarded)] {
        &self.guards
    }

    /// Whether chance has a part in what becomes of a SYN at this guard, so that the same one fares
    /// now so, now so.
    pub fn draws_lots(&self, index: u32, guarded: &Guarded) -> Result<bool> {
        let rules = &guarded.rules;
        let early = rules.room == TG_ROOM_RESERVE && rules.early_from_x256 < TG_ONE_X256;
        let lots = self.shed_policy_now(index, guarded)? == TG_RBD;
        Ok(early || lots || self.has_shares(index, guarded)?)
    }

    /// What sheds at this guard now, which may have fallen back from what is configured: `TG_SHED_OFF`,
    /// `TG_RBD`, `TG_SLPD` or `TG_SBPD`.
    pub fn shed_policy_now(&self, index: u32, guarded: &Guarded) -> Result<u32> {
        let state: tg_shed_state = array::read_one(&self.live, "shed_state", index)?;
        Ok(policy_shed::policy_now(&guarded.shed, &state))
    }

    /// Whether networks are held to a share now, at any socket of this guard's.
    fn has_shares(&self, index: u32, guarded: &Guarded) -> Result<bool> {
        if !guarded.rules.shares() {
            return Ok(false);
        }
        let now_ns = clock::monotonic_ns();
        for slot in slots_of(&counters::slots(&self.live), index) {
            if by_socket::read::<tg_share>(&self.live, slot)?.limit_per_s(now_ns).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What would become of this SYN, were `frame` to come in at `interface` now.
    pub fn ask(&mut self, syn: &Syn, interface: &Interface, frame: &[u8]) -> Result<Found> {
        let programs = self.programs_at(interface)?;
        let slots = counters::slots(&self.live);
        self.follow_slots(&slots)?;
        for program in &programs {
            self.own.load_one(*program, self.sizes)?;
        }
        self.require_all()?;
        self.copy_configuration()?;
        let met = configuration::covering(&self.guards, syn.to);
        let slots = met.map_or(Vec::new(), |(index, _)| slots_of(&slots, *index));
        // Where only the ends of connections are looked at, there is nothing of a guard's to copy.
        let judges = programs.iter().any(|program| *program != Program::EndsIn);
        if let Some((index, guarded)) = met.filter(|_| judges) {
            self.copy_guard(*index, guarded, &slots)?;
            self.copy_client(syn, *index, guarded, &slots)?;
        }
        self.run(&programs, interface, frame, &slots)
    }

    /// The copied configuration is another where a rehearsal is: one block stands for the table,
    /// and what the TCP entry decides is decided at the IP entry.
    fn copy_configuration(&mut self) -> Result<()> {
        let control = control::read(&self.live)?;
        let active = control.active & 1;
        let config: Box<tg_config> = Box::new(array::read_one(&self.live, "config", active)?);
        control::write(&self.own, &control)?;
        let known = self.copied.as_ref();
        if known
            .is_some_and(|(was, bytes)| *was == active && bytes_of(&**bytes) == bytes_of(&*config))
        {
            return Ok(());
        }
        self.guards = configuration::guards_of(&config);
        let mut rehearsed: Box<tg_config> = Box::new(from_bytes(bytes_of(&*config)));
        for guard in &mut rehearsed.guards {
            guard.shed.first_block = 0;
            guard.shed.blocks = guard.shed.blocks.min(1);
            if guard.hook == TG_HOOK_TCP {
                guard.hook = TG_HOOK_IP;
            }
        }
        array::write_one(&self.own, "config", active, &*rehearsed)?;
        self.copied = Some((active, config));
        Ok(())
    }

    fn copy_guard(&self, index: u32, guarded: &Guarded, slots: &[u32]) -> Result<()> {
        let one = |map, index| array::copy(&self.live, &self.own, map, (index, index));
        let (_, config) = self.copied.as_ref().expect("the configuration is copied first");
        let claims = config.guards[index as usize].claims_index;
        one("claims", claims)?;
        one("shed_state", index)?;
        for (map, index) in [("refusals", index), ("unsettled", claims), ("shed_monitor", index)] {
            per_cpu::copy(&self.live, &self.own, map, index)?;
        }
        if guarded.rules.is_auto != 0 {
            speaks::copy(&self.live, &self.own, index)?;
        }
        // Which listening sockets need no look-up: one finds a client's request before them.
        per_cpu::copy_all(&self.live, &self.own, "remembered")?;
        for slot in slots {
            if guarded.rules.is_auto != 0 {
                by_socket::copy::<tg_overload>(&self.live, &self.own, *slot)?;
                by_socket::copy::<tg_inside>(&self.live, &self.own, *slot)?;
            }
            if guarded.rules.shares() {
                by_socket::copy::<tg_share>(&self.live, &self.own, *slot)?;
            }
        }
        Ok(())
    }

    /// Where this client would stand in the tables.
    fn copy_client(&self, syn: &Syn, index: u32, guarded: &Guarded, slots: &[u32]) -> Result<()> {
        let (active, config) = self.copied.as_ref().expect("the configuration is copied first");
        let tuple = tg_tuple::between(syn.from, syn.to);
        if let Some(bucket) = police::bucket(&self.live, *active, index, &tuple)? {
            array::copy(&self.live, &self.own, police::BUCKETS, (bucket, bucket))?;
        }
        if guarded.rules.shares() {
            for slot in slots {
                for cell in policy_share::cells(&config.shed_key, &tuple, &guarded.rules, *slot) {
                    array::copy(&self.live, &self.own, "share_cells", (cell, cell))?;
                }
            }
        }
        if guarded.rules.is_auto != 0 {
            // What the SYN looks like the program will tell.
            let [names, others] = [false, true].map(|sends_again| {
                overload::Names::of(&config.shed_key, &tuple, syn.isn, sends_again)
            });
            for (map, block) in [
                ("waiting", names.waiting_block()),
                ("manners", names.manners_block()),
                ("manners", others.manners_block()),
            ] {
                array::copy(&self.live, &self.own, map, (block, block))?;
            }
        }
        if guarded.shed.blocks != 0 {
            let block = policy_shed::block_of(&guarded.shed, &config.shed_key, &tuple, syn.isn);
            array::copy(&self.live, &self.own, shed::TABLE, (block, 0))?;
        }
        Ok(())
    }

    /// The pairs that are held in TIME-WAIT, where there are any.
    fn copy_held(&self) -> Result<()> {
        const UNTIL: &str = "held_until_ns";
        array::copy(&self.live, &self.own, UNTIL, (0, 0))?;
        if array::read_one::<u64>(&self.own, UNTIL, 0)? < clock::monotonic_ns() {
            return Ok(());
        }
        let what = "the table of held pairs";
        let live = Table::<tg_held_block>::map(&self.live, time_wait::TABLE, what)?;
        let own = Table::<tg_held_block>::map(&self.own, time_wait::TABLE, what)?;
        own.fill(live.all());
        Ok(())
    }

    /// Whether SYNs are judged at that interface.
    pub fn judges_at(&self, interface: &Interface) -> Result<bool> {
        Ok(self.programs_at(interface)?.iter().any(|program| *program != Program::EndsIn))
    }

    /// The programs that a frame meets at that interface, one after the other.
    fn programs_at(&self, interface: &Interface) -> Result<Vec<Program>> {
        let links = self.pins.link_names()?;
        let stands = |hook: &str| links.contains(&format!("{hook}-{}", interface.index));
        let only_paths = configuration::only_paths(self.guards.iter().map(|(_, guarded)| guarded));
        let driver = driver_program(&PlannedInterface::from(interface), only_paths);
        let ip = if stands("driver") { Program::IpAfterDriver } else { Program::Ip };
        let all = [("driver", driver), ("ends_in", Program::EndsIn), ("ingress", ip)];
        Ok(all.into_iter().filter(|(hook, _)| stands(hook)).map(|(_, program)| program).collect())
    }

    fn run(
        &self,
        programs: &[Program],
        interface: &Interface,
        frame: &[u8],
        slots: &[u32],
    ) -> Result<Found> {
        let mut passed = None;
        for program in programs {
            if *program == Program::EndsIn {
                self.copy_held()?;
                if self.test(*program, interface, frame)? == TCX_DROP {
                    return Ok(Found::Held);
                }
                continue;
            }
            // What the driver has let through is not judged again, but may be held behind it.
            if passed.is_some() {
                continue;
            }
            self.test(*program, interface, frame)?;
            match self.judged(entry_of(*program), slots)? {
                Some(judged) if judged.goes_on() => passed = Some(judged),
                Some(judged) => return Ok(judged),
                None => {}
            }
        }
        let unjudged = if programs.is_empty() { Found::Unwatched } else { Found::Unjudged };
        Ok(passed.unwrap_or(unjudged))
    }

    fn test(&self, program: Program, interface: &Interface, frame: &[u8]) -> Result<u32> {
        let fd = self.own.program(program.name()).expect("it was loaded before");
        let ran = match entry_of(program) {
            Entry::Driver => test_run::driver(fd, interface.index, frame),
            Entry::Ip => test_run::ip(fd, interface.index, &at_ip_entry(frame, interface)),
        };
        ran.map_err(|source| Error::Read {
            what: format!("what {} makes of a packet", program.name()),
            source,
        })
    }

    /// The counter that has moved, which is then zero again.
    fn judged(&self, entry: Entry, slots: &[u32]) -> Result<Option<Found>> {
        for slot in slots.iter().copied() {
            let counted = counters::read(&self.own, slot)?;
            if let Some(decision) = only_decision(&counted) {
                per_cpu::clear(&self.own, counters::MAP, slot)?;
                return Ok(Some(Found::Judged { entry, slot, decision }));
            }
        }
        Ok(None)
    }
}

/// The programs that read the host's sockets, over the maps that packets only read, and others of these sizes.
fn second_set(pins: &Pins, sizes: Sizes) -> Result<Programs> {
    let mut shared = pins.open_maps()?;
    shared.retain(|name, _| READ_BY_PACKETS.contains(&name.as_str()));
    Programs::load_sized(Objects::Readers, shared, sizes)
}

/// The counter slots that a packet of this guard may be counted in.
fn slots_of(slots: &Slots, index: u32) -> Vec<u32> {
    let own = slots.iter().filter(|((guard, _), _)| *guard == index).map(|(_, slot)| *slot);
    [index].into_iter().chain(own).collect()
}

fn entry_of(program: Program) -> Entry {
    match program {
        Program::Driver | Program::DriverVeth | Program::Path | Program::PathVeth => Entry::Driver,
        _ => Entry::Ip,
    }
}

/// linux/if_ether.h: where a frame's type stands, and those of VLAN tags.
const ETHERTYPE_AT: usize = 12;
const ETH_P_8021Q: u16 = 0x8100;
const ETH_P_8021AD: u16 = 0x88a8;

/// The frame as it comes to the IP entry: the kernel has taken the outermost VLAN tag out by then
/// (skb_vlan_untag() in __netif_receive_skb_core()), and at a VLAN's interface the next, too; BPF_PROG_TEST_RUN takes
/// none out. Nor can it be told of one that was: a listener that is bound to the interface below the VLAN is found
/// here, and left alone there.
fn at_ip_entry<'a>(frame: &'a [u8], interface: &Interface) -> Cow<'a, [u8]> {
    let outermost = untagged(frame);
    match interface.is_vlan() {
        true => Cow::Owned(untagged(&outermost).into_owned()),
        false => outermost,
    }
}

fn untagged(frame: &[u8]) -> Cow<'_, [u8]> {
    let (addresses, rest) = frame.split_at(ETHERTYPE_AT.min(frame.len()));
    match rest {
        [high, low, _, _, inner @ ..]
            if matches!(u16::from_be_bytes([*high, *low]), ETH_P_8021Q | ETH_P_8021AD) =>
        {
            Cow::Owned([addresses, inner].concat())
        }
        _ => Cow::Borrowed(frame),
    }
}

/// What was counted, where anything was.
fn only_decision(counted: &tg_counters) -> Option<tg_decision> {
    counted.packets.iter().zip(0..).find_map(|(by_verdict, reason)| {
        let verdict = by_verdict.iter().position(|count| *count > 0)?;
        Some(tg_decision { verdict: verdict as u32, reason })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_that_moved_is_the_decision() {
        let mut counted = tg_counters::default();
        assert_eq!(only_decision(&counted), None);
        counted.packets[TG_REFUSAL_LIMIT as usize][TG_DROP as usize] = 1;
        let decision = tg_decision { verdict: TG_DROP, reason: TG_REFUSAL_LIMIT };
        assert_eq!(only_decision(&counted), Some(decision));
    }

    #[test]
    fn the_outermost_tag_and_no_other_is_taken_out() {
        let (addresses, ip) = ([7; 12], [8, 0, 0x45, 0, 0, 40]);
        let bare = [&addresses[..], &ip].concat();
        assert_eq!(untagged(&bare), bare);
        for tag in [[0x81, 0, 0, 5], [0x88, 0xa8, 0, 5]] {
            assert_eq!(untagged(&[&addresses[..], &tag, &ip].concat()), bare);
            let once = [&addresses[..], &[0x81, 0, 0, 7], &ip].concat();
            assert_eq!(untagged(&[&addresses[..], &tag, &[0x81, 0, 0, 7], &ip].concat()), once);
        }
        for short in [&bare[..5], &bare[..13], &[&addresses[..], &[0x81, 0, 0]].concat()] {
            assert_eq!(untagged(short), short);
        }
    }

    #[test]
    fn at_the_interface_of_a_vlan_in_a_vlan_both_tags_are_out() {
        let twice = [&[7; 12][..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 7], &[8, 0, 0x45]].concat();
        let vlan = Interface { driver: "802.1Q VLAN Support".to_owned(), ..Default::default() };
        assert_eq!(at_ip_entry(&twice, &vlan), [&[7; 12][..], &[8, 0, 0x45]].concat());
        assert_eq!(at_ip_entry(&twice, &Interface::default()), untagged(&twice));
    }
}
