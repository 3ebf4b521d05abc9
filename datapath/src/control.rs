// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control record: which configuration is in force, and what holds for all of them.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::array::{read_one, write_one};
use crate::error::{Error, Result, map_error};
use crate::plain::from_bytes;
use crate::programs::Programs;
use crate::raw::*;
use crate::{clock, key, time_wait};
use tidegate_policy::raw::tg_key;

/// Reads the control record.
pub fn read(programs: &Programs) -> Result<tg_control> {
    read_one(programs, "control", 0)
}

/// Fails where another version made these maps: what they hold has other types. libbpf would not say:
/// it takes the sizes of a map that it is given, whatever the object declares.
pub(crate) fn require_layout(pinned: &BTreeMap<String, MapHandle>) -> Result<()> {
    let Some(control) = pinned.get("control") else { return Err(Error::OtherVersion) };
    let record =
        control.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).map_err(map_error("control"))?;
    // It may be shorter than ours; the version stands at its start in each.
    let version = record.map(|record| from_bytes::<u32>(&record));
    if version == Some(TG_LAYOUT_VERSION) { Ok(()) } else { Err(Error::OtherVersion) }
}

/// Writes it; what a program reads of it is one word at a time.
pub(crate) fn write(programs: &Programs, control: &tg_control) -> Result<()> {
    write_one(programs, "control", 0, control)
}

/// The table of held pairs keeps its key, and so its pairs, as long as it stands.
pub(crate) fn prepare_held(programs: &Programs, control: &mut tg_control) -> Result<()> {
    let blocks = time_wait::table_blocks(programs);
    if control.held_key == tg_key::default() || control.held_blocks != blocks {
        control.held_key = key::random();
    }
    control.held_blocks = blocks;
    Ok(())
}

/// Whom this kernel lets in by a cookie of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetsIn {
    /// Before Linux 6.9.
    Nobody,
    /// bpf_sk_assign_tcp_reqsk() takes none by IPv6 where that is a module.
    ByIpv4,
    /// By IPv4 and by IPv6.
    All,
}

/// Tells the programs the clocks, and to whom cookies may be given.
pub fn write_clock(programs: &Programs, lets_in: LetsIn) -> Result<()> {
    let mut control = read(programs)?;
    control.clock_offset_ns = clock::wall_offset_ns();
    let ticks = clock::ticks(programs).unwrap_or_default();
    // Kept while it is right to within a tick or two: no program's time is to go back.
    if !ticks.is_near(&clock::Ticks::told(&control)) {
        (control.tick_ns, control.ticks_began_ns) = (ticks.tick_ns, ticks.began_ns);
    }
    control.cookies_work = (lets_in != LetsIn::Nobody).into();
    control.cookies_ipv4 = (lets_in == LetsIn::ByIpv4).into();
    control.rfc1337 = ignores_rst().into();
    write(programs, &control)
}

/// Whether this namespace's TIME_WAIT ignores RST (net.ipv4.tcp_rfc1337).
fn ignores_rst() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rfc1337").is_ok_and(|v| v.trim() == "1")
}
