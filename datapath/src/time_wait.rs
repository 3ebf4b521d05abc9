// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, as the kernel has it: the networks that it is negotiated with, the
//! pairs that are held here, and what was counted.

use libbpf_rs::{MapCore, MapFlags};

use crate::configuration::address_words;
use crate::error::{Error, Result, map_error};
use crate::network::Network;
use crate::plain::{bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::*;
use crate::table::Table;
use crate::{clock, per_cpu, sockets};
use tidegate_policy::raw::*;

/// The table's name.
pub const TABLE: &str = "held_table";

const COUNTS: &str = "time_wait_counts";

/// The maps of connections whose TIME-WAIT is the other end's.
pub const LEAVING: [&str; 2] = ["leaving", "late"];

/// The blocks of a table of at least so many entries.
#[must_use]
pub fn blocks_of(entries: u32) -> u32 {
    entries.div_ceil(TG_HELD_CELLS)
}

/// How many connections may be leaving at once, beside a table of so many blocks.
#[must_use]
pub fn leaving_of(held_blocks: u32) -> u32 {
    (held_blocks * TG_HELD_CELLS / 2).clamp(64, 65_536)
}

/// The table's size in blocks, fixed when it was made.
pub fn table_blocks(programs: &Programs) -> u32 {
    programs.map(TABLE).max_entries()
}

/// A random key for the table's hash.
pub(crate) fn random_key() -> tg_key {
    let mut bytes = [0u8; 16];
    // SAFETY: as many writable bytes as announced; 16 are never given in part.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    assert_eq!(got, 16, "Linux gives 16 random bytes at once");
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    tg_key { k0: word(0), k1: word(8) }
}

fn destination(config: u32, network: &Network) -> tg_destination {
    let (kind, addr) = address_words(Some(network.address));
    let is_ipv6 = kind == 6;
    tg_destination {
        prefix_bits: TG_DESTINATION_OWNER_BITS + u32::from(network.bits),
        owner: config << 8 | u32::from(is_ipv6),
        addr,
    }
}

/// Makes the destinations of one of the two configurations be these.
pub(crate) fn write_destinations(
    programs: &Programs,
    config: u32,
    wanted: &[(Network, tg_tw_rules)],
) -> Result<()> {
    let map = programs.map("destinations");
    let fail = map_error("destinations");
    let most = TG_DESTINATIONS as usize / 2;
    if wanted.len() > most {
        return Err(Error::Limit { what: "destinations", asked: wanted.len(), limit: most });
    }
    let of_config = |key: &Vec<u8>| from_bytes::<tg_destination>(key).owner >> 8 == config;
    for key in map.keys().filter(of_config).collect::<Vec<_>>() {
        // Gone already is as good.
        let _ = map.delete(&key);
    }
    wanted
        .iter()
        .try_for_each(|(network, rules)| {
            map.update(bytes_of(&destination(config, network)), bytes_of(rules), MapFlags::ANY)
        })
        .map_err(fail)
}

/// Copies the destinations in force to the other configuration.
pub(crate) fn copy_destinations(programs: &Programs, from: u32) -> Result<()> {
    let map = programs.map("destinations");
    for key in map.keys().collect::<Vec<_>>() {
        let mut destination: tg_destination = from_bytes(&key);
        if destination.owner >> 8 != from {
            continue;
        }
        let Ok(Some(rules)) = map.lookup(&key, MapFlags::ANY) else { continue };
        destination.owner = (from ^ 1) << 8 | destination.owner & 1;
        map.update(bytes_of(&destination), &rules, MapFlags::ANY)
            .map_err(map_error("destinations"))?;
    }
    Ok(())
}

/// What happened to the ends of connections, by `enum tg_tw_count`.
pub fn counts(programs: &Programs) -> Result<[u64; TG_TW_COUNTS as usize]> {
    let mut counts = [0; TG_TW_COUNTS as usize];
    for (index, count) in (0u32..).zip(&mut counts) {
        *count = per_cpu::read::<u64>(programs, COUNTS, index)?.iter().sum();
    }
    Ok(counts)
}

/// The pairs that are held here now.
pub fn held(programs: &Programs) -> Result<Vec<tg_held>> {
    let now_ns = clock::monotonic_ns();
    let table = Table::<tg_held_block>::map(programs, TABLE, "the table of held pairs")?;
    Ok(table.all().flat_map(|block| block.cells).filter(|cell| cell.until_ns > now_ns).collect())
}

/// Ends the TIME_WAITs that the programs could not, since their sockets were busy then: each by
/// its cookie, so that no later connection is meant. Returns how many there were.
pub fn end_late(programs: &Programs) -> Result<u64> {
    let map = programs.map("late");
    let mut ended = 0;
    for key in map.keys().collect::<Vec<_>>() {
        let Ok(Some(leaving)) = map.lookup(&key, MapFlags::ANY) else { continue };
        let (tuple, leaving): (tg_tuple, tg_leaving) = (from_bytes(&key), from_bytes(&leaving));
        // Gone already is as good.
        if sockets::destroy(&tuple, Some(leaving.socket_cookie)).is_ok() {
            ended += 1;
        }
        let _ = map.delete(&key);
        let _ = programs.map(LEAVING[0]).delete(&key);
    }
    if ended > 0 {
        per_cpu::add(programs, COUNTS, TG_TW_LATE, |count: &mut u64| *count += ended)?;
    }
    Ok(ended)
}
