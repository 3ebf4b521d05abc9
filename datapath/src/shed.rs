// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping as the kernel has it: the table, the preferred proxies, and how it does.

use libbpf_rs::{MapCore, MapFlags};

use crate::array::{read_one, write_one};
use crate::configuration::address_words;
use crate::error::{Error, Result, map_error};
use crate::network::Network;
use crate::per_cpu;
use crate::plain::{bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::*;
use crate::table::Table;
use tidegate_policy::raw::*;
use tidegate_policy::shed::standing;

/// The table's name.
pub const TABLE: &str = "shed_table";

fn table(programs: &Programs) -> Result<Table<tg_shed_block>> {
    Table::map(programs, TABLE, "the shed table")
}

/// The table's size in blocks, fixed when it was made.
pub fn table_blocks(programs: &Programs) -> u32 {
    programs.map(TABLE).max_entries()
}

/// Forgets every stamp.
pub fn clear_table(programs: &Programs) -> Result<()> {
    table(programs).map(|table| table.clear())
}

/// A guard begins anew: no fallback, nothing measured.
pub fn clear(programs: &Programs, guard: u32) -> Result<()> {
    write_one(programs, "shed_state", guard, &tg_shed_state::default())?;
    per_cpu::clear(programs, "shed_monitor", guard)
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
    let blocks = match rules.blocks {
        0 => Vec::new(),
        count => table(programs)?.copies(rules.first_block, count).collect(),
    };
    Ok(Condition {
        state: read_one(programs, "shed_state", guard)?,
        spared: monitors.iter().map(|monitor| monitor.spared).sum(),
        cells: blocks.len() as u64 * u64::from(TG_SHED_CELLS),
        standing: standing(&blocks, crate::clock::monotonic_ns()),
    })
}

/// `config` is the configuration's number, 0 or 1.
fn preferred_key(config: u32, guard: u32, network: &Network) -> tg_preferred {
    let (kind, addr) = address_words(Some(network.address));
    tg_preferred {
        prefix_bits: TG_PREFERRED_OWNER_BITS + u32::from(network.bits),
        owner: config << 16 | u32::from(kind == 6) << 8 | guard,
        addr,
    }
}

/// Puts the preferred proxies of a configuration that is not in force yet into their map, and
/// takes those out that it had when it was last.
pub fn write_preferred(
    programs: &Programs,
    config: u32,
    networks: &[(u32, &Network)],
) -> Result<()> {
    let most = TG_PREFERRED as usize / 2;
    if networks.len() > most {
        return Err(Error::Limit {
            what: "networks of preferred proxies",
            asked: networks.len(),
            limit: most,
        });
    }
    let map = programs.map("preferred");
    let keys: Vec<tg_preferred> = map.keys().map(|bytes| from_bytes(&bytes)).collect();
    for key in keys.iter().filter(|key| key.owner >> 16 == config) {
        map.delete(bytes_of(key)).map_err(map_error("preferred"))?;
    }
    for (guard, network) in networks {
        let key = preferred_key(config, *guard, network);
        map.update(bytes_of(&key), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(map_error("preferred"))?;
    }
    Ok(())
}

/// Gives the preferred proxies of configuration `from` to the other one, before that takes its
/// place with the same listeners.
pub fn copy_preferred(programs: &Programs, from: u32) -> Result<()> {
    let map = programs.map("preferred");
    let keys: Vec<tg_preferred> = map.keys().map(|bytes| from_bytes(&bytes)).collect();
    for key in keys.iter().filter(|key| key.owner >> 16 != from) {
        map.delete(bytes_of(key)).map_err(map_error("preferred"))?;
    }
    for key in keys.iter().filter(|key| key.owner >> 16 == from) {
        let other = tg_preferred { owner: key.owner ^ 1 << 16, ..*key };
        map.update(bytes_of(&other), &1u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(map_error("preferred"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same numbers as `tg_preferred_owner()` in layout.h makes.
    #[test]
    fn a_network_is_keyed_by_configuration_guard_and_family() {
        let key = preferred_key(1, 63, &"2001:db8::/32".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (0x0001_013f, 64));
        let key = preferred_key(0, 2, &"192.0.2.0/24".parse().unwrap());
        assert_eq!((key.owner, key.prefix_bits), (2, 56));
        assert_eq!(key.addr, [u32::from_ne_bytes([192, 0, 2, 0]), 0, 0, 0]);
    }
}
