// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate status`: both queues of every guarded listener against their limits, and
//! every verdict by its reason.

mod accepts;
#[cfg(test)]
pub mod example;
mod fin;
mod notice;
mod overload;
mod share;
mod shed;
mod table;
mod time_wait;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::Guard;
use tidegate_datapath::pins::Pins;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::{by_socket, counters, resized, sockets, speaks};
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::queue_drops::{QUEUE_DROPS, queue_drops};
use tidegate_policy::raw::*;

use crate::agent::AgentStatus;
use crate::failure::{Failure, Result};
use crate::instance::Role;
use crate::{agent, hook, host, instance, mounts, output};

pub use accepts::AcceptsStatus;
pub use fin::FinStatus;
pub use notice::NoticeStatus;
pub use overload::OverloadStatus;
pub use share::ShareStatus;
pub use shed::ShedStatus;
pub use time_wait::{COUNTS, TimeWaitStatus};

/// Packets by reason, then by verdict.
pub type Verdicts = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// Each reason and verdict with its packets.
pub fn each(verdicts: &Verdicts) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
    verdicts.iter().flat_map(|(reason, counts)| {
        counts.iter().map(|(verdict, count)| (*reason, *verdict, *count))
    })
}

/// The whole answer.
#[derive(Debug, Default, Serialize)]
pub struct Status {
    /// The daemon's process; null where it was killed and the guard stands alone, where its /run is another
    /// than this one, or where there is only an agent.
    pub daemon_pid: Option<i32>,
    /// Whether a daemon looks after the guard, known here by its number or not.
    pub daemon_running: bool,
    /// The links that stand: `ingress-<ifindex>`, `driver-<ifindex>`, `tcp-<family>`; about TIME-WAIT
    /// `ends_in-<ifindex>`, `ends_out-<ifindex>` and `sockets`; `socket-set` and `socket-get`.
    pub attached: Vec<String>,
    /// Every guarded listener.
    pub guards: Vec<GuardStatus>,
    /// Who holds TIME-WAIT, where it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_wait: Option<TimeWaitStatus>,
    /// The agent, where one runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,
}

impl Status {
    /// What is known of the daemon; `None` where none runs.
    pub fn daemon(&self) -> Option<String> {
        match self.daemon_pid {
            Some(pid) => Some(format!("daemon {pid}")),
            None => self.daemon_running.then(|| "a daemon whose /run is another".to_owned()),
        }
    }
}

/// One guarded listener of the configuration.
#[derive(Debug, Serialize)]
pub struct GuardStatus {
    /// The port.
    pub port: u16,
    /// The address; null: every one.
    pub address: Option<String>,
    /// The mechanism by the papers' names.
    pub mechanism: String,
    /// Where the SYN stage is to be decided, as it is configured: `auto` stays `auto`.
    pub hook: &'static str,
    /// What a SYN costs this host that is dropped in silence, in µs of the time of all its
    /// processors, as auto has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_us: Option<f64>,
    /// Whether clients are known to say something before the server does, of whom auto may let some wait
    /// connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_speak_first: Option<bool>,
    /// The papers' queue drops, whoever made them, and what they come to.
    pub queue_drops: QueueDrops,
    /// Every verdict by its reason, all sockets together.
    pub verdicts: Verdicts,
    /// What clients' FINs do.
    pub fin: FinStatus,
    /// What refusals say, where they say anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<NoticeStatus>,
    /// Reservations cleaned because they grew old.
    pub reservations_cleaned: u64,
    /// Persistent dropping, where it is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shed: Option<ShedStatus>,
    /// A `[[path]]`: this host forwards, and the listener is another's.
    pub is_path: bool,
    /// The listening sockets.
    pub listeners: Vec<ListenerStatus>,
}

/// One listening socket.
#[derive(Debug, Serialize)]
pub struct ListenerStatus {
    /// The address and port that it is bound to.
    pub address: String,
    /// The kernel's name for the socket.
    pub socket_cookie: u64,
    /// Connections waiting for accept().
    pub listen_queue: Queue,
    /// Those of its places that new SYNs may take, where the configuration says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
    /// The application's own backlog, where we have changed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backlog_before: Option<u32>,
    /// Half-open connections.
    pub syn_queue: Queue,
    /// Queue drops that the kernel itself counted on this socket. It counts an ACK that it
    /// drops twice, in tcp_v4_syn_recv_sock() and in tcp_v4_rcv(), and a SYN once.
    pub kernel_drops: u32,
    /// The papers' queue drops.
    pub queue_drops: QueueDrops,
    /// Every verdict by its reason.
    pub verdicts: Verdicts,
    /// What auto takes its queue drops for, where the mechanism is auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadStatus>,
    /// How the application accepts, where clients have found no room of late.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepts: Option<AcceptsStatus>,
    /// What each network of clients may have, where there is not room for all and shares are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fair_share: Option<ShareStatus>,
    /// It has no counter slot of its own: `overload` and `fair_share` are of all such sockets of its guard.
    #[serde(skip)]
    pub shares_memory: bool,
}

/// A queue and its limit. Linux lets a queue hold one more than its limit.
#[derive(Debug, Serialize)]
pub struct Queue {
    /// Entries now.
    pub length: u32,
    /// The limit.
    pub limit: u32,
}

/// Packets that each rule dropped or refused, with its name.
#[derive(Debug)]
pub struct QueueDrops([(&'static str, u64); QUEUE_DROPS.len()]);

impl QueueDrops {
    fn of(counted: &tg_counters) -> Self {
        QueueDrops(queue_drops(counted))
    }
}

impl Default for QueueDrops {
    fn default() -> Self {
        Self::of(&tg_counters::default())
    }
}

impl Serialize for QueueDrops {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_map(self.0)
    }
}

fn verdicts(c: &tg_counters) -> Verdicts {
    let mut by_reason = Verdicts::new();
    for (reason, counts) in REASONS.into_iter().zip(&c.packets) {
        for (verdict, count) in VERDICTS.into_iter().zip(counts) {
            if *count > 0 {
                by_reason.entry(reason).or_default().insert(verdict, *count);
            }
        }
    }
    by_reason
}

fn sum(all: &[tg_counters]) -> tg_counters {
    let mut sum = tg_counters::default();
    for one in all {
        counters::accumulate(&mut sum, one);
    }
    sum
}

/// What is remembered of a listening socket, each where its rules ask for it.
#[derive(Default)]
struct Remembered {
    counted: tg_counters,
    overload: Option<OverloadStatus>,
    accepts: Option<AcceptsStatus>,
    fair_share: Option<ShareStatus>,
    shares_memory: bool,
}

impl Remembered {
    /// By the socket's counter slot; one that the daemon has not seen yet has its guard's.
    fn of(programs: &Programs, index: u32, slot: Option<u32>, rules: &tg_rules) -> Result<Self> {
        let mut remembered = Remembered { shares_memory: slot.is_none(), ..Default::default() };
        if rules.is_auto != 0 {
            remembered.overload = Some(OverloadStatus::read(programs, slot.unwrap_or(index))?);
        }
        if rules.shares() {
            let share = by_socket::read(programs, slot.unwrap_or(index))?;
            remembered.fair_share = ShareStatus::of(&share, rules);
        }
        if let Some(slot) = slot {
            remembered.counted = counters::read(programs, slot)?;
            remembered.accepts = AcceptsStatus::of(&by_socket::read(programs, slot)?);
        }
        Ok(remembered)
    }
}

fn listener(
    row: &tg_listener_row,
    remembered: Remembered,
    rules: &tg_rules,
    backlog_before: Option<u32>,
) -> ListenerStatus {
    let Remembered { counted, overload, accepts, fair_share, shares_memory } = remembered;
    ListenerStatus {
        places: (rules.places != 0).then_some(rules.places),
        backlog_before,
        address: std::net::SocketAddr::new(row.address(), row.port as u16).to_string(),
        socket_cookie: row.socket_cookie,
        listen_queue: Queue { length: row.listen_len, limit: row.listen_max },
        syn_queue: Queue { length: row.syn_len, limit: row.listen_max },
        kernel_drops: row.kernel_drops,
        queue_drops: QueueDrops::of(&counted),
        verdicts: verdicts(&counted),
        overload,
        accepts,
        fair_share,
        shares_memory,
    }
}

/// A guard's counter slots, by socket cookie.
type Slots = BTreeMap<u64, u32>;

fn slots_of(programs: &Programs, index: u32) -> Slots {
    let all = counters::slots(programs).into_iter();
    let own = all.filter(|((guard, _), _)| *guard == index);
    own.map(|((_, cookie), slot)| (cookie, slot)).collect()
}

/// Where slots change whenever they are read, what the last of so many readings has found is taken.
const READINGS: usize = 4;

/// Reads with the slots that there are, and once more where the daemon has given some away or up meanwhile:
/// what had been counted there may be missing, or in it twice.
fn settled<T>(slots: impl Fn() -> Slots, read: impl Fn(Slots) -> Result<T>) -> Result<T> {
    let mut before = slots();
    for _ in 1..READINGS {
        let found = read(before.clone())?;
        let after = slots();
        if after == before {
            return Ok(found);
        }
        before = after;
    }
    read(before)
}

/// What was counted of a guard in all, and its listening sockets.
fn counted(
    programs: &Programs,
    index: u32,
    guarded: &Guarded,
    rows: &[&tg_listener_row],
    mut slots: Slots,
) -> Result<(tg_counters, Vec<ListenerStatus>)> {
    let resized = resized::all(programs);
    let mut all = vec![counters::read(programs, index)?, counters::ended(programs, index)?];
    let mut listeners = Vec::new();
    for row in rows {
        let slot = slots.remove(&row.socket_cookie);
        let remembered = Remembered::of(programs, index, slot, &guarded.rules)?;
        all.push(remembered.counted);
        let backlog_before = resized.get(&row.socket_cookie).map(|resized| resized.before);
        listeners.push(listener(row, remembered, &guarded.rules, backlog_before));
    }
    // Sockets that are gone, and whose counts the daemon has not yet added to their guard's.
    for slot in slots.values() {
        all.push(counters::read(programs, *slot)?);
    }
    Ok((sum(&all), listeners))
}

/// `rows`: the listening sockets that it judges.
fn guard(
    programs: &Programs,
    index: u32,
    guarded: &Guarded,
    rows: &[&tg_listener_row],
) -> Result<GuardStatus> {
    let (total, listeners) = settled(
        || slots_of(programs, index),
        |slots| counted(programs, index, guarded, rows, slots),
    )?;
    let sheds = guarded.shed.policy != TG_SHED_OFF;
    let is_auto = guarded.rules.is_auto != 0;
    let speaks = is_auto.then(|| speaks::read(programs, index)).transpose()?;
    let shed = sheds.then(|| ShedStatus::of(programs, index, &guarded.shed)).transpose()?;
    Ok(GuardStatus {
        shed,
        is_path: guarded.is_path,
        port: guarded.port,
        address: guarded.address.map(|a| a.to_string()),
        mechanism: tidegate_policy::mechanism::name(&guarded.rules),
        hook: hook::name(guarded.hook),
        syn_us: is_auto.then(|| guarded.rules.syn_ns as f64 / 1e3),
        clients_speak_first: speaks.map(|speaks| speaks.first()),
        queue_drops: QueueDrops::of(&total),
        verdicts: verdicts(&total),
        fin: FinStatus::of(guarded.rules.fin, &total),
        notice: NoticeStatus::of(&guarded.rules),
        reservations_cleaned: counters::read_cleaned(programs, index)?,
        listeners,
    })
}

/// Reads the guard of this namespace, and the agent; `None` where there is neither.
pub fn read_if_any() -> Result<Option<Status>> {
    host::require_capabilities()?;
    let agent = agent::status()?;
    let pins = Pins::here()?;
    let Some(programs) = Guard::open_to_read(&pins)? else {
        mounts::require_those_of_the_daemon(&pins)?;
        return Ok(agent.map(|agent| Status { agent: Some(agent), ..Status::default() }));
    };
    let rows = sockets::listeners_by_two_looks(&programs)?;
    let guards = configuration::read(&programs)?;
    let guards = guards
        .iter()
        .map(|(index, guarded)| {
            let all = || guards.iter().map(|(_, guarded)| guarded);
            let own: Vec<_> = rows.iter().filter(|row| guarded.judges(row, all())).collect();
            guard(&programs, *index, guarded, &own)
        })
        .collect::<Result<_>>()?;
    let attached = pins.attached_links()?;
    let asked = attached.iter().any(|name| name == "sockets");
    let time_wait = asked.then(|| TimeWaitStatus::read(&programs)).transpose()?;
    let daemon_pid = instance::running(Role::Guard)?;
    // That of another container has its file in another /run.
    let daemon_running = daemon_pid.is_some() || pins.are_held()?;
    Ok(Some(Status { daemon_pid, daemon_running, attached, guards, time_wait, agent }))
}

/// The same, of what must be there.
pub fn read() -> Result<Status> {
    read_if_any()?
        .ok_or_else(|| Failure::argument("no guard stands here", "start one with `tidegate run`"))
}

/// Prints it, for people or as JSON.
pub fn run(json: bool) -> Result<()> {
    let status = read()?;
    if json { output::print_json(&status) } else { output::print(&status.to_string()) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn counts_that_move_while_they_are_read_are_read_again() {
        let gone = Slots::from([(7, 65)]);
        let looks = Cell::new(0);
        // The socket was there at the first look, and is not from the second on.
        let slots = || match looks.replace(looks.get() + 1) {
            0 => gone.clone(),
            _ => Slots::new(),
        };
        let read = settled(slots, |slots| Ok((slots, looks.get()))).unwrap();
        assert_eq!(read, (Slots::new(), 2), "after the second look");
        assert_eq!(looks.get(), 3, "and until they are the same");
    }

    /// Else the metrics would hang, which are read by one after the other.
    #[test]
    fn counts_that_move_whenever_they_are_read_are_told_as_they_were_last() {
        let (looks, reads) = (Cell::new(0), Cell::new(0));
        let slots = || Slots::from([(looks.replace(looks.get() + 1), 65)]);
        let read = |slots: Slots| {
            assert!(reads.replace(reads.get() + 1) < 100, "it goes on for ever");
            Ok(slots)
        };
        assert_eq!(settled(slots, read).unwrap(), Slots::from([(looks.get() - 1, 65)]));
        assert_eq!(reads.get(), 4);
    }
}
