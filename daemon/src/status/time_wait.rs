// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of TIME-WAIT.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::fs;

use serde::Serialize;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::time_wait;
use tidegate_policy::raw::*;

use crate::failure::Result;

/// TIME-WAIT of this host.
#[derive(Debug, Serialize)]
pub struct TimeWaitStatus {
    /// Pairs that the kernel holds, as /proc/net/sockstat counts them.
    pub held_by_kernel: u64,
    /// The memory of those, bytes.
    pub kernel_bytes: u64,
    /// Pairs that are held here since this host closed second.
    pub held_by_us: u64,
    /// Of them, those that the other end would hold, but for close_swap.
    pub swapped_now: u64,
    /// The memory of the table, bytes; it does not grow.
    pub table_bytes: u64,
    /// The memory of all that stands about TIME-WAIT, the table too, bytes; it does not grow.
    pub maps_bytes: u64,
    /// Pairs that the table has room for.
    pub table_entries: u64,
    /// Connections whose TIME-WAIT another host holds for this one, so far.
    pub held_elsewhere: u64,
    /// Everything that was counted, by name.
    pub counts: BTreeMap<&'static str, u64>,
}

/// In the order of `enum tg_tw_count`.
pub const COUNTS: [&str; TG_TW_COUNTS as usize] = [
    "agreed_here",
    "agreed_there",
    "unspoken",
    "refused",
    "held",
    "swapped",
    "left",
    "left_late",
    "no_room",
    "forgotten",
    "reopened",
    "blocked",
];

/// Linux's, where the slab does not tell.
const TIME_WAIT_BYTES: u64 = 256;

fn kernel_time_wait() -> u64 {
    let sockstat = fs::read_to_string("/proc/thread-self/net/sockstat").unwrap_or_default();
    let mut words = sockstat
        .lines()
        .find(|line| line.starts_with("TCP:"))
        .unwrap_or_default()
        .split_whitespace();
    words.find(|word| *word == "tw");
    words.next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn time_wait_bytes() -> u64 {
    fs::read_to_string("/sys/kernel/slab/tw_sock_TCP/slab_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(TIME_WAIT_BYTES)
}

impl TimeWaitStatus {
    /// As it is now.
    pub fn read(programs: &Programs) -> Result<Self> {
        let held = time_wait::held(programs)?;
        let counts = time_wait::counts(programs)?;
        let held_by_kernel = kernel_time_wait();
        let blocks = u64::from(time_wait::table_blocks(programs));
        Ok(TimeWaitStatus {
            held_by_kernel,
            kernel_bytes: held_by_kernel * time_wait_bytes(),
            held_by_us: held.pairs,
            swapped_now: held.swapped,
            table_bytes: blocks * size_of::<tg_held_block>() as u64,
            maps_bytes: time_wait::bytes(programs)?,
            table_entries: blocks * u64::from(TG_HELD_CELLS),
            held_elsewhere: counts[TG_TW_LEFT as usize] + counts[TG_TW_LATE as usize],
            counts: COUNTS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect(),
        })
    }
}

/// For people.
impl Display for TimeWaitStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let TimeWaitStatus { held_by_kernel, kernel_bytes, held_by_us, maps_bytes, .. } = self;
        writeln!(
            out,
            "\nTIME-WAIT: {held_by_kernel} held here by the kernel ({} kB), {held_by_us} by us \
             ({} kB of maps), {} so far held elsewhere for us",
            kernel_bytes.div_ceil(1024),
            maps_bytes.div_ceil(1024),
            self.held_elsewhere,
        )?;
        let mut counts = self.counts.iter();
        counts.try_for_each(|(name, count)| writeln!(out, "    {name:<36} {count:>12}"))
    }
}
