// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT: what an operator writes about it, and what status tells.

use std::fmt::Write;
use std::fs;

use serde::{Deserialize, Serialize};
use tidegate_datapath::network::Network;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::time_wait;
use tidegate_policy::raw::*;
use tidegate_policy::time_wait::{ENTRIES, ENTRIES_MOST};
use toml::Spanned;

use crate::failure::Result;
use crate::reader::Reader;

/// Networks that may be named: the map holds those of two configurations, and of each the two that
/// stand for everywhere else.
const DESTINATIONS_MOST: usize = TG_DESTINATIONS as usize / 2 - 2;

/// `[time_wait]`: of every listener and every destination that says nothing else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeWait {
    negotiate: Option<Spanned<String>>,
    insist: Option<Spanned<bool>>,
    #[serde(default)]
    close_swap: bool,
    entries: Option<Spanned<i64>>,
}

/// `[[destination]]`: a network that this host connects to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    network: Spanned<String>,
    negotiate: Option<Spanned<String>>,
    insist: Option<bool>,
    close_swap: Option<bool>,
}

/// What is asked of the ends of connections.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// Of connections that this host opens, by network.
    pub destinations: Vec<(Network, tg_tw_rules)>,
    /// Of listeners that say nothing else.
    pub listeners: tg_tw_rules,
    /// Entries of the table of held pairs; 0 where nothing is asked.
    pub entries: u32,
}

/// The end of a name.
fn holder(reader: &Reader<'_>, name: &Spanned<String>) -> Result<u32> {
    match name.get_ref().as_str() {
        "off" => Ok(TG_TW_NOBODY),
        "client" => Ok(TG_TW_CLIENT),
        "server" => Ok(TG_TW_SERVER),
        other => Err(reader.wrong(
            name.span(),
            format!("\"{other}\" does not say who holds TIME-WAIT"),
            "write \"client\", \"server\" or \"off\"",
        )),
    }
}

/// A listener's rules: its own word, or the host's.
pub fn listener(
    reader: &Reader<'_>,
    own: &Option<Spanned<String>>,
    host: &tg_tw_rules,
) -> Result<tg_tw_rules> {
    let negotiate = own.as_ref().map_or(Ok(host.negotiate), |own| holder(reader, own))?;
    Ok(tg_tw_rules { negotiate, ..Default::default() })
}

/// Whoever names nobody has nothing to insist on.
fn or_no_insisting(rules: tg_tw_rules) -> tg_tw_rules {
    let insist = if rules.negotiate == TG_TW_NOBODY { 0 } else { rules.insist };
    tg_tw_rules { insist, ..rules }
}

fn destination(
    reader: &Reader<'_>,
    destination: &Destination,
    host: &tg_tw_rules,
) -> Result<(Network, tg_tw_rules)> {
    let wrong = |text: &str| format!("network = \"{text}\" is no network");
    let network = reader.network(&destination.network, wrong)?;
    let own = &destination.negotiate;
    let negotiate = own.as_ref().map_or(Ok(host.negotiate), |own| holder(reader, own))?;
    let rules = tg_tw_rules {
        negotiate,
        insist: destination.insist.map_or(host.insist, u32::from),
        close_swap: destination.close_swap.map_or(host.close_swap, u32::from),
    };
    Ok((network, or_no_insisting(rules)))
}

impl Ends {
    /// Reads both sections.
    pub fn read(
        reader: &Reader<'_>,
        host: &Option<TimeWait>,
        destinations: &[Spanned<Destination>],
    ) -> Result<Self> {
        let mut ends = Ends::default();
        let mut entries = None;
        if let Some(host) = host {
            let negotiate = host.negotiate.as_ref();
            ends.listeners = tg_tw_rules {
                negotiate: negotiate.map_or(Ok(TG_TW_NOBODY), |name| holder(reader, name))?,
                insist: host.insist.as_ref().is_some_and(|insist| *insist.get_ref()).into(),
                close_swap: host.close_swap.into(),
            };
            entries = host.entries.as_ref();
        }
        for one in destinations {
            let (network, rules) = destination(reader, one.get_ref(), &ends.listeners)?;
            if ends.destinations.iter().any(|(other, _)| *other == network) {
                return Err(reader.wrong(
                    one.span(),
                    format!("the destination {network} is named twice"),
                    "remove one of the two [[destination]] sections",
                ));
            }
            ends.destinations.push((network, rules));
            if ends.destinations.len() > DESTINATIONS_MOST {
                return Err(reader.wrong(
                    one.span(),
                    format!("there are more than {DESTINATIONS_MOST} [[destination]] sections"),
                    "name fewer, larger networks",
                ));
            }
        }
        // Everywhere else.
        let elsewhere = or_no_insisting(ends.listeners);
        if elsewhere != tg_tw_rules::default() {
            for all in ["0.0.0.0/0", "::/0"] {
                let all: Network = all.parse().expect("a network");
                if !ends.destinations.iter().any(|(network, _)| *network == all) {
                    ends.destinations.push((all, elsewhere));
                }
            }
        }
        let negotiates = |(_, rules): &(Network, tg_tw_rules)| rules.negotiate != TG_TW_NOBODY;
        let insist = host.as_ref().and_then(|host| host.insist.as_ref());
        if let Some(insist) = insist.filter(|insist| *insist.get_ref())
            && !ends.destinations.iter().any(negotiates)
        {
            return Err(reader.wrong(
                insist.span(),
                "insist = true does nothing, for no destination is negotiated with",
                "add negotiate = \"server\" or \"client\", or take insist out",
            ));
        }
        ends.entries = match entries {
            Some(entries) => reader.number("entries", entries, 1, ENTRIES_MOST.into())? as u32,
            None => ENTRIES,
        };
        Ok(ends)
    }

    /// The blocks that the table must have, where anything is asked.
    pub fn held_blocks(&self, asked: bool) -> u32 {
        if asked { time_wait::blocks_of(self.entries) } else { 0 }
    }
}

/// What is asked, in words.
pub fn described(rules: &tg_tw_rules) -> String {
    let holder = tidegate_policy::time_wait::holder(rules.negotiate);
    let mut words: Vec<_> =
        holder.map(|end| format!("the {} holds it", end.name())).into_iter().collect();
    if rules.negotiate != TG_TW_NOBODY && rules.insist != 0 {
        words.push("or no connection".to_owned());
    }
    if rules.close_swap != 0 {
        words.push("close_swap".to_owned());
    }
    if words.is_empty() { "as it is today".to_owned() } else { words.join(", ") }
}

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
    pub counts: std::collections::BTreeMap<&'static str, u64>,
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

/// Reads it.
pub fn status(programs: &Programs) -> Result<TimeWaitStatus> {
    let held = time_wait::held(programs)?;
    let counts = time_wait::counts(programs)?;
    let held_by_kernel = kernel_time_wait();
    let blocks = u64::from(time_wait::table_blocks(programs));
    let swapped = held.iter().filter(|pair| pair.flags & TG_HELD_SWAPPED != 0).count();
    Ok(TimeWaitStatus {
        held_by_kernel,
        kernel_bytes: held_by_kernel * time_wait_bytes(),
        held_by_us: held.len() as u64,
        swapped_now: swapped as u64,
        table_bytes: blocks * size_of::<tg_held_block>() as u64,
        maps_bytes: time_wait::bytes(programs)?,
        table_entries: blocks * u64::from(TG_HELD_CELLS),
        held_elsewhere: counts[TG_TW_LEFT as usize] + counts[TG_TW_LATE as usize],
        counts: COUNTS.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect(),
    })
}

/// For people.
pub fn table(status: &TimeWaitStatus) -> String {
    let TimeWaitStatus { held_by_kernel, kernel_bytes, held_by_us, maps_bytes, .. } = status;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "\nTIME-WAIT: {held_by_kernel} held here by the kernel ({} kB), {held_by_us} by us \
         ({} kB of maps), {} so far held elsewhere for us",
        kernel_bytes.div_ceil(1024),
        maps_bytes.div_ceil(1024),
        status.held_elsewhere,
    );
    for (name, count) in &status.counts {
        let _ = writeln!(out, "    {name:<36} {count:>12}");
    }
    out
}
