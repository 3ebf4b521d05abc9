// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read of the server's side when the counted time begins and when it ends.

use std::collections::BTreeMap;

use tidegate_lab::{
    Counters, ForeignTime, Losses, ProcessorTime, Profile, Samples, SocketBytes, Sockets,
};
use tidegate_policy::raw::tg_held;
use tidegate_report::HeldByServer;
use tidegate_servers::Statistics;

use crate::error::LiveError;
use crate::ground::{Ground, lost_since};
use crate::guard::{self, Guard};
use crate::server::Running;
use crate::timed::{Timed, Within};

/// What is counted, read one behind the other: between two of these all is over the same time.
struct Counts {
    guard: Option<Timed<guard::Counted>>,
    counters: Timed<Counters>,
    processor: ProcessorTime,
    foreign: ForeignTime,
    losses: Vec<Losses>,
}

impl Counts {
    fn read(ground: &Ground, guard: Option<&Guard>) -> Result<Self, LiveError> {
        Ok(Self {
            guard: guard.map(|guard| Timed::read(|| guard.counted())).transpose()?,
            counters: Timed::read(|| Counters::of(&ground.server))?,
            processor: ProcessorTime::of(ground.server_cpu)?,
            foreign: ground.foreign_time(),
            losses: ground.losses()?,
        })
    }

    /// Pairs that the guard holds.
    fn pairs(&self) -> u64 {
        self.guard.as_ref().map_or(0, |guard| guard.what.pairs)
    }
}

/// Readings taken at the beginning.
pub(crate) struct Gauge {
    server: Option<Statistics>,
    profile: Option<Profile>,
    counts: Counts,
    /// The most that were seen in TIME-WAIT at the server at one time. Pairs are looked at when the counted time
    /// begins and when it ends: `tidegate status` reads a table for them, on a processor that is measured.
    waiting_max: u64,
}

/// What changed until the end.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The kernel's counters that changed.
    pub kernel: Within<BTreeMap<String, i64>>,
    /// Shares of the server's processor by mode.
    pub cpu: BTreeMap<String, f64>,
    /// Shares of its busy time by component.
    pub cpu_components: BTreeMap<String, f64>,
    /// Shares of the server's time by system call.
    pub cpu_calls: BTreeMap<String, f64>,
    /// Share of the experiment's processors that other programs than its own had.
    pub foreign: f64,
    /// Packets that the cables lost for want of room.
    pub lost: u64,
    /// What the server counted of itself, where it is one of ours.
    pub serving: BTreeMap<String, f64>,
    /// What the guard counted, where there is one.
    pub guard: Option<Within<guard::Counted>>,
    /// TIME-WAIT: the server's at the end, the most of it, and in bytes; what kernel sockets hold
    /// at the clients.
    pub time_wait: BTreeMap<String, f64>,
}

impl Gauge {
    pub(crate) fn begin(
        ground: &Ground,
        server: &mut Running,
        guard: Option<&Guard>,
        profile: bool,
    ) -> Result<Self, LiveError> {
        let profile = profile.then(|| Profile::start(ground.server_cpu)).transpose()?;
        let counts = Counts::read(ground, guard)?;
        // A server may answer seconds later, and tells over which time it counted.
        let waiting_max = Sockets::of(&ground.server)?.time_waits + counts.pairs();
        Ok(Self { server: server.statistics(None)?, profile, counts, waiting_max })
    }

    /// Looks at what comes and goes; to be called now and then.
    pub(crate) fn look(&mut self, ground: &Ground) {
        // What cannot be read now is told at the end.
        if let Ok(sockets) = Sockets::of(&ground.server) {
            self.waiting_max = self.waiting_max.max(sockets.time_waits);
        }
    }

    pub(crate) fn end(
        mut self,
        ground: &Ground,
        server: &mut Running,
        guard: Option<&Guard>,
    ) -> Result<Reading, LiveError> {
        let now = Counts::read(ground, guard)?;
        // A server may answer seconds later: what it does until then was not counted.
        let samples = self.profile.take().map(Profile::finish);
        let time_wait = self.time_wait(ground, now.pairs())?;
        let served = server.statistics(self.server.as_ref())?.zip(self.server);
        let before = self.counts;
        let changed = now.counters.what.since(&before.counters.what)?;
        let profiled = samples.map(Samples::named);
        let calls = profiled.as_ref().map(|profiled| profiled.calls(&server.processes()));
        Ok(Reading {
            kernel: Within {
                counts: changed.nonzero().map(|(name, value)| (name.to_owned(), value)).collect(),
                seconds: now.counters.seconds_since(&before.counters),
            },
            cpu: now.processor.shares_since(&before.processor),
            foreign: now.foreign.share_since(&before.foreign),
            lost: lost_since(&now.losses, &before.losses),
            cpu_components: profiled.map(|profiled| profiled.components()).unwrap_or_default(),
            cpu_calls: calls.unwrap_or_default(),
            serving: served.map(|(now, before)| now.since(&before).measures()).unwrap_or_default(),
            guard: now.guard.zip(before.guard).map(|(now, before)| now.since(&before)),
            time_wait,
        })
    }

    fn time_wait(&self, ground: &Ground, pairs: u64) -> Result<BTreeMap<String, f64>, LiveError> {
        let (server, clients) = (Sockets::of(&ground.server)?, Sockets::of(&ground.clients)?);
        let bytes = SocketBytes::of_this_kernel();
        let held = HeldByServer {
            blocks: server.time_waits,
            pairs,
            sockets: server.in_use,
            most: self.waiting_max.max(server.time_waits + pairs),
            block_bytes: bytes.map(|bytes| bytes.time_wait),
            pair_bytes: size_of::<tg_held>() as u64,
            socket_bytes: bytes.map(|bytes| bytes.in_use),
        };
        let mut numbers = held.measures();
        numbers.insert("clients".to_owned(), clients.time_waits as f64);
        Ok(numbers)
    }
}
