// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the programs counted, summed over processors.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags};

use crate::array::{read_one, write_one};
use crate::error::{Result, map_error};
use crate::plain::{bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::{TG_GUARDS, tg_slot_key};
use crate::{by_socket, per_cpu};
use tidegate_policy::raw::tg_counters;

/// The map's name.
pub const MAP: &str = "counters";

/// The map of who has which slot.
pub const SLOTS: &str = "slots";

/// Adds `from`'s counts to `to`'s.
pub fn accumulate(to: &mut tg_counters, from: &tg_counters) {
    for (to, from) in to.packets.iter_mut().flatten().zip(from.packets.iter().flatten()) {
        *to += from;
    }
}

/// So many slots are counted in by those who have one of `slots`, and by guards.
pub(crate) fn used(slots: &BTreeMap<(u32, u64), u32>) -> u32 {
    slots.values().max().map_or(0, |last| last + 1).max(TG_GUARDS)
}

/// Packets by reason and verdict of one slot.
pub fn read(programs: &Programs, slot: u32) -> Result<tg_counters> {
    let mut sum = tg_counters::default();
    for one in &per_cpu::read(programs, MAP, slot)? {
        accumulate(&mut sum, one);
    }
    Ok(sum)
}

/// What a guard's listening sockets that are gone had counted.
pub fn ended(programs: &Programs, guard: u32) -> Result<tg_counters> {
    read_one(programs, "ended", guard)
}

/// Adds the counts of a slot that is given up to those.
pub fn add_ended(programs: &Programs, guard: u32, slot: u32) -> Result<()> {
    let mut sum = ended(programs, guard)?;
    accumulate(&mut sum, &read(programs, slot)?);
    write_one(programs, "ended", guard, &sum)
}

/// A slot begins anew: nothing counted, and nothing that `auto` has seen, or of how is accepted.
pub fn clear(programs: &Programs, slot: u32) -> Result<()> {
    per_cpu::clear(programs, MAP, slot)?;
    by_socket::clear(programs, slot)
}

fn slot_key((guard, socket_cookie): (u32, u64)) -> tg_slot_key {
    tg_slot_key { socket_cookie, guard, padding: 0 }
}

/// The counter slots, by guard and socket cookie.
pub fn slots(programs: &Programs) -> BTreeMap<(u32, u64), u32> {
    let map = programs.map(SLOTS);
    map.keys()
        .filter_map(|bytes| {
            let slot = map.lookup(&bytes, MapFlags::ANY).ok()??;
            let key: tg_slot_key = from_bytes(&bytes);
            Some(((key.guard, key.socket_cookie), from_bytes(&slot)))
        })
        .collect()
}

/// Gives a listening socket under a guard its counter slot.
pub fn assign_slot(programs: &Programs, owner: (u32, u64), slot: u32) -> Result<()> {
    programs
        .map(SLOTS)
        .update(bytes_of(&slot_key(owner)), &slot.to_ne_bytes(), MapFlags::ANY)
        .map_err(map_error(SLOTS))
}

/// Takes the slot back. What was counted there stays until it is given to another: see [`clear`].
pub fn release_slot(programs: &Programs, owner: (u32, u64)) -> Result<()> {
    programs.map(SLOTS).delete(bytes_of(&slot_key(owner))).map_err(map_error(SLOTS))
}

/// Reservations cleaned for a guard so far.
pub fn read_cleaned(programs: &Programs, guard: u32) -> Result<u64> {
    read_one(programs, "cleaned", guard)
}

/// A guard begins anew: its own slot, and none of its sockets gone or its reservations cleaned yet.
pub(crate) fn clear_guard(programs: &Programs, guard: u32) -> Result<()> {
    clear(programs, guard)?;
    write_one(programs, "ended", guard, &tg_counters::default())?;
    write_one(programs, "cleaned", guard, &0u64)
}

/// Counts cleaned reservations.
pub fn add_cleaned(programs: &Programs, guard: u32, count: u64) -> Result<()> {
    write_one(programs, "cleaned", guard, &(read_cleaned(programs, guard)? + count))
}
