// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping as the kernel has it: the table, the preferred proxies, and how it does.

use libbpf_rs::MapCore;

use crate::array::{read_one, write_one};
use crate::error::Result;
use crate::networks::Networks;
use crate::programs::Programs;
use crate::raw::*;
use crate::table::Table;
use crate::{clock, per_cpu};
use tidegate_policy::raw::*;
use tidegate_policy::shed::standing;

/// The table's name.
pub const TABLE: &str = "shed_table";

/// The preferred proxies, with owners as `tg_client_owner()` in layout.h makes them: whose they are
/// is a guard's index.
pub(crate) const PREFERRED: Networks = Networks {
    map: "preferred",
    what: "networks of preferred proxies",
    most: TG_PREFERRED as usize / 2,
    config_bit: 16,
    ipv6_bit: 8,
};

fn table(programs: &Programs) -> Result<Table<tg_shed_block>> {
    Table::map(programs, TABLE, "the shed table")
}

/// The table's size in blocks, fixed when it was made.
pub fn table_blocks(programs: &Programs) -> u32 {
    programs.map(TABLE).max_entries()
}

/// Forgets every stamp of a guard with these rules.
pub fn clear_part(programs: &Programs, rules: &tg_shed_rules) -> Result<()> {
    match rules.blocks {
        0 => Ok(()),
        count => table(programs).map(|table| table.clear(rules.first_block, count)),
    }
}

/// A guard begins anew: no fallback, nothing measured, nothing counted.
pub fn clear(programs: &Programs, guard: u32) -> Result<()> {
    write_one(programs, "shed_state", guard, &tg_shed_state::default())?;
    per_cpu::clear(programs, "shed_monitor", guard)
}

/// It falls back no longer, and measures anew. What it has counted is its listener's, whatever is shed there.
pub fn measure_anew(programs: &Programs, guard: u32) -> Result<()> {
    let tg_shed_state { changes, .. } = read_one(programs, "shed_state", guard)?;
    let anew = tg_shed_state { changes, ..Default::default() };
    write_one(programs, "shed_state", guard, &anew)?;
    per_cpu::change(programs, "shed_monitor", guard, |monitor: &mut tg_shed_monitor| {
        *monitor = tg_shed_monitor { spared: monitor.spared, ..Default::default() };
    })
}

/// How persistent dropping of one guard does.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// Whether it has fallen back, and how often.
    pub state: tg_shed_state,
    /// SYNs of preferred proxies that were let through and would have been dropped.
    pub spared: u64,
    /// Cells of its part of the table, and those with a stamp that stands.
    pub cells: u64,
    /// Of the cells, those with a stamp that stands.
    pub standing: u64,
}

/// Reads how a guard with these rules does.
pub fn condition(programs: &Programs, guard: u32, rules: &tg_shed_rules) -> Result<Condition> {
    let monitors: Vec<tg_shed_monitor> = per_cpu::read(programs, "shed_monitor", guard)?;
    let (cells, standing) = match rules.blocks {
        0 => (0, 0),
        count => {
            let table = table(programs)?;
            counted(table.copies(rules.first_block, count), clock::monotonic_ns())
        }
    };
    Ok(Condition {
        state: read_one(programs, "shed_state", guard)?,
        spared: monitors.iter().map(|monitor| monitor.spared).sum(),
        cells,
        standing,
    })
}

/// Cells of blocks, and those with a stamp that stands: one block after the other, for a table may be as large as the
/// kernel's memory allows.
fn counted(blocks: impl Iterator<Item = tg_shed_block>, now_ns: u64) -> (u64, u64) {
    blocks.fold((0, 0), |(cells, stands), block| {
        (cells + u64::from(TG_SHED_CELLS), stands + standing(&[block], now_ns))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_counted_block_by_block() {
        let now_ns = 1000 << TG_SHED_TICK_SHIFT;
        let block = |stamped: usize| {
            let mut block = tg_shed_block { swept_tick: 1000, ..Default::default() };
            // The least byte of a tick.
            block.stamps[..stamped].fill(1000_u32 as u8);
            block
        };
        let table = [block(0), block(3), block(5)];
        assert_eq!(counted(table.into_iter(), now_ns), (3 * u64::from(TG_SHED_CELLS), 8));
        assert_eq!(counted([].into_iter(), now_ns), (0, 0));
    }

    /// The same numbers as `tg_client_owner()` in layout.h makes.
    #[test]
    fn a_network_is_keyed_by_configuration_guard_and_family() {
        let key = PREFERRED.key(1, 63, &"2001:db8::/32".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (0x0001_013f, 64));
        let key = PREFERRED.key(0, 2, &"192.0.2.0/24".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (2, 56));
        assert_eq!(key.addr, [u32::from_ne_bytes([192, 0, 2, 0]), 0, 0, 0]);
    }
}
