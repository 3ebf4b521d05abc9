// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw and what the server counted to one line of a result.

use std::collections::BTreeMap;

use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::queue_drops::queue_drops;
use tidegate_policy::raw::tg_held;
use tidegate_report::{HeldByServer, OperatingPoint, Point, World};
use tidegate_scenarios::{KERNEL_DROPS, Treatment};

use crate::stack::Profile;
use crate::world::Report;

/// An operating point, and what came of it.
pub(crate) struct Measured<'a> {
    pub at: OperatingPoint<'a>,
    /// Whose TCP it was, and whose memory is counted.
    pub profile: Profile,
    pub report: Report,
}

impl Measured<'_> {
    pub(crate) fn point(self) -> Point {
        let seen = self.at.seen_by_clients(World::Sim, &self.report.outcome);
        Point {
            tcp: Some(self.profile.name().to_owned()),
            queue_drops_per_s: self.queue_drops_per_s(),
            verdicts_per_s: self.verdicts_per_s(),
            cpu: self.cpu(),
            cpu_components: self.cpu_components(),
            serving: self.report.application.measures(),
            kernel: self.kernel(),
            time_wait: self.time_wait().into_iter().chain(seen.time_wait).collect(),
            warnings: self.warnings(),
            ..seen
        }
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.report.outcome.duration_s
    }

    /// As live: a guard tells drops by cause, and without one there are the kernel's two counters.
    fn queue_drops_per_s(&self) -> BTreeMap<String, f64> {
        let counted = &self.report.counted;
        let causes: Vec<(&str, u64)> =
            if matches!(self.at.setting.treatment, Treatment::Mechanism(_)) {
                queue_drops(&counted.judged).into()
            } else {
                let others = counted.listen_drops.saturating_sub(counted.listen_overflows);
                KERNEL_DROPS.into_iter().zip([counted.listen_overflows, others]).collect()
            };
        causes.into_iter().map(|(name, count)| (name.to_owned(), self.per_s(count))).collect()
    }

    fn verdicts_per_s(&self) -> BTreeMap<String, f64> {
        let judged = self.report.counted.judged.packets.iter().zip(REASONS);
        let each = judged.flat_map(|(verdicts, reason)| {
            let named = verdicts.iter().zip(VERDICTS);
            named.map(move |(count, verdict)| (format!("{verdict}: {reason}"), *count))
        });
        each.filter(|(_, count)| *count > 0).map(|(name, n)| (name, self.per_s(n))).collect()
    }

    fn cpu(&self) -> BTreeMap<String, f64> {
        let spent = self.report.spent;
        let whole_s = self.report.outcome.duration_s * self.report.cores as f64;
        let share = |ns: u64| ns as f64 / 1e9 / whole_s;
        let (user, system) = (share(spent.user_ns), share(spent.system_ns));
        let softirq = share(spent.softirq_ns);
        // A step is charged when it begins, so that the sum can be a step too much.
        let idle = (1.0 - user - system - softirq).max(0.0);
        [("user", user), ("system", system), ("softirq", softirq), ("idle", idle)]
            .map(|(name, share)| (name.to_owned(), share))
            .into()
    }

    /// As live, only where the scenario asks for a profile; every component that is told apart here, since
    /// one that is not there is no number.
    fn cpu_components(&self) -> BTreeMap<String, f64> {
        let each = self.report.spent.by_component;
        let whole_ns = each.whole_ns();
        if !self.at.scenario.profile || whole_ns == 0 {
            return BTreeMap::new();
        }
        let share = |ns: u64| ns as f64 / whole_ns as f64;
        each.named().map(|(name, ns)| (name.to_owned(), share(ns))).collect()
    }

    fn kernel(&self) -> BTreeMap<String, i64> {
        let counted = &self.report.counted;
        [
            ("TcpExtListenOverflows", counted.listen_overflows),
            ("TcpExtListenDrops", counted.listen_drops),
            ("TcpInSegs", counted.received),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| (name.to_owned(), count as i64))
        .collect()
    }

    /// As live; without bytes where the profile's are not known.
    fn time_wait(&self) -> BTreeMap<String, f64> {
        let (counted, profile) = (&self.report.counted, self.profile);
        let held = HeldByServer {
            blocks: counted.time_waits_held,
            pairs: counted.pairs_held,
            sockets: self.report.sockets,
            most: counted.waiting_max,
            block_bytes: profile.time_wait_bytes(),
            pair_bytes: size_of::<tg_held>() as u64,
            socket_bytes: profile.socket_bytes(),
        };
        held.measures()
    }

    fn warnings(&self) -> Vec<String> {
        let lost = self.report.counted.ring_lost;
        let full = || format!("{lost} packets found the server's receive ring full");
        let setting = self.at.setting;
        let (asked, given) =
            (setting.server.under(&setting.treatment).backlog, self.report.backlog);
        let cut = || {
            let whose = self.profile.name();
            format!(
                "the server asked for a listen queue of {asked}, and {whose} gave it one of {given}"
            )
        };
        [(lost > 0).then(full), (given < asked).then(cut)].into_iter().flatten().collect()
    }
}
