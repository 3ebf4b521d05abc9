// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, as the kernel has it: the networks that it is negotiated with, the
//! pairs that are held here, and what was counted.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::{Result, map_error};
use crate::networks::Networks;
use crate::plain::from_bytes;
use crate::programs::Programs;
use crate::raw::*;
use crate::sock_diag::{self, Which};
use crate::table::Table;
use crate::{clock, memory, per_cpu};
use tidegate_policy::raw::*;

/// The table's name.
pub const TABLE: &str = "held_table";

const COUNTS: &str = "time_wait_counts";

/// The networks that TIME-WAIT is negotiated with, with owners as `tg_destination_owner()` in
/// layout.h makes them.
pub(crate) const DESTINATIONS: Networks = Networks {
    map: "destinations",
    what: "destinations",
    most: TG_DESTINATIONS as usize / 2,
    config_bit: 8,
    ipv6_bit: 0,
};

/// The maps of connections whose TIME-WAIT is the other end's.
pub const LEAVING: [&str; 2] = ["leaving", "late"];

/// The map of SYNs that ask this host to hold.
pub const ASKING: &str = "asking";

/// The map of how many sockets wait for an ACK that must be seen, by local port.
const CLOSING: &str = "closing_ports";

/// Forgets those sockets: which of them ended while nobody was told of it is not known.
pub(crate) fn forget_closing(programs: &Programs) -> Result<()> {
    let map = programs.map(CLOSING);
    let none = vec![0; map.value_size() as usize];
    map.update(&0_u32.to_ne_bytes(), &none, MapFlags::ANY).map_err(map_error(CLOSING))
}

/// The blocks of a table of at least so many entries.
#[must_use]
pub fn blocks_of(entries: u32) -> u32 {
    entries.div_ceil(TG_HELD_CELLS)
}

/// How many connections may be leaving at once, or be under way to be held, beside a table of so many
/// blocks.
#[must_use]
pub fn leaving_of(held_blocks: u32) -> u32 {
    (held_blocks * TG_HELD_CELLS / 2).clamp(64, 65_536)
}

/// The table's size in blocks, fixed when it was made.
pub fn table_blocks(programs: &Programs) -> u32 {
    programs.map(TABLE).max_entries()
}

/// What all that stands about TIME-WAIT takes of the kernel's memory, in bytes. It does not grow.
pub fn bytes(programs: &Programs) -> Result<u64> {
    let maps = [TABLE, LEAVING[0], LEAVING[1], ASKING, CLOSING];
    maps.iter().map(|map| memory::map_bytes(programs, map)).sum()
}

/// What happened to the ends of connections, by `enum tg_tw_count`.
pub fn counts(programs: &Programs) -> Result<[u64; TG_TW_COUNTS as usize]> {
    let mut counts = [0; TG_TW_COUNTS as usize];
    for (index, count) in (0u32..).zip(&mut counts) {
        *count = per_cpu::read::<u64>(programs, COUNTS, index)?.iter().sum();
    }
    Ok(counts)
}

/// How many pairs are held here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// All of them.
    pub pairs: u64,
    /// Those that the other end would hold, but for close_swap.
    pub swapped: u64,
}

/// The pairs that are held here now.
pub fn held(programs: &Programs) -> Result<Held> {
    let table = Table::<tg_held_block>::map(programs, TABLE, "the table of held pairs")?;
    Ok(counted(table.all(), clock::monotonic_ns()))
}

/// Of one that was opened again the cell still stands, but its addresses and ports are in use. Counted one block after
/// the other: a full table takes a GiB.
fn counted(blocks: impl Iterator<Item = tg_held_block>, now_ns: u64) -> Held {
    let waits = |cell: &tg_held| cell.until_ns > now_ns && cell.flags & TG_HELD_REOPENED == 0;
    blocks.flat_map(|block| block.cells).filter(waits).fold(Held::default(), |held, cell| Held {
        pairs: held.pairs + 1,
        swapped: held.swapped + u64::from(cell.flags & TG_HELD_SWAPPED != 0),
    })
}

/// Ends the TIME_WAITs that the programs could not, since their sockets were busy then: each by
/// its cookie, so that no later connection is meant. Returns how many there were.
pub fn end_late(programs: &Programs) -> Result<u64> {
    let map = programs.map("late");
    let mut ended = 0;
    for key in map.keys().collect::<Vec<_>>() {
        let Ok(Some(leaving)) = map.lookup(&key, MapFlags::ANY) else { continue };
        let (tuple, leaving): (tg_tuple, tg_leaving) = (from_bytes(&key), from_bytes(&leaving));
        let tg_leaving { bound_ifindex, socket_cookie: cookie, .. } = leaving;
        // Gone already is as good.
        if sock_diag::destroy(Which { tuple: &tuple, bound_ifindex, cookie }).is_ok() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_counted_while_it_is_held_and_not_opened_again() {
        let cell = |until_ns, flags| tg_held { until_ns, flags, ..Default::default() };
        let block = |cells: &[tg_held]| {
            let mut block = tg_held_block::default();
            block.cells[..cells.len()].copy_from_slice(cells);
            block
        };
        let table = [
            block(&[cell(9, 0), cell(11, 0), cell(11, TG_HELD_SWAPPED)]),
            block(&[cell(9, TG_HELD_SWAPPED), cell(11, TG_HELD_REOPENED | TG_HELD_SWAPPED)]),
            block(&[cell(12, 0)]),
        ];
        assert_eq!(counted(table.into_iter(), 10), Held { pairs: 3, swapped: 1 });
    }

    /// The same numbers as `tg_destination_owner()` in layout.h makes.
    #[test]
    fn a_destination_is_keyed_by_configuration_and_family() {
        let key = DESTINATIONS.key(1, 0, &"2001:db8::/32".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (0x0000_0101, 64));
        let key = DESTINATIONS.key(0, 0, &"192.0.2.0/24".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (0, 56));
    }
}
