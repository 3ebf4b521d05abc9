// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw and what the server counted to one line of a result.

use std::collections::BTreeMap;

use tidegate_client::Outcome;
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::{
    TG_COOKIE_NO_ROOM, TG_LISTENQ_FULL_AT_SYN, TG_NO_RESERVATION, TG_OVERFLOW_OTHER,
    TG_OVERFLOW_SYNACK_ACK, TG_SYNQ_3_4_FULL, TG_SYNQ_FULL,
};
use tidegate_report::{Point, World};
use tidegate_scenarios::{
    AcceptLimit, Load, Page, Scenario, Server, ServerKind, Setting, Treatment,
};

use crate::world::Report;

/// One curve at one offered load, and what came of it.
pub(crate) struct Measured<'a> {
    pub scenario: &'a Scenario,
    pub setting: &'a Setting,
    pub load: &'a Load,
    pub capacity_per_s: f64,
    pub offered_over_capacity: f64,
    pub report: Report,
}

impl Measured<'_> {
    pub(crate) fn point(self) -> Point {
        let outcome = &self.report.outcome;
        Point {
            scenario: self.scenario.name.clone(),
            world: World::Sim,
            curve: self.setting.curve.clone(),
            mechanism: self.setting.treatment.name(),
            server: summary(&self.setting.server),
            clients: self.setting.clients.summary(),
            capacity_per_s: self.capacity_per_s,
            offered_per_s: outcome.offered_per_s * self.setting.clients.requests,
            offered_over_capacity: self.offered_over_capacity,
            attempts: outcome.attempts,
            replies_per_s: outcome.replies_per_s,
            replies_per_s_ci95: outcome.replies_per_s_ci95,
            response_ms: outcome.response_ms,
            refusal_ms: outcome.refusal_ms,
            errors_per_s: errors_per_s(outcome),
            queue_drops_per_s: self.queue_drops_per_s(),
            verdicts_per_s: self.verdicts_per_s(),
            syns_per_attempt: outcome.syns_per_attempt.clone(),
            segments: segments(outcome),
            cpu: self.cpu(),
            cpu_components: self.cpu_components(),
            visits: BTreeMap::new(),
            serving: self.serving(),
            kernel: self.kernel(),
            late_p99_ms: outcome.late_starts.p99_ms,
            warnings: self.warnings(),
            duration_s: outcome.duration_s,
            seed: self.load.seed,
        }
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.report.outcome.duration_s
    }

    /// As live: a guard tells drops by cause, and without one there are the kernel's two counters.
    fn queue_drops_per_s(&self) -> BTreeMap<String, f64> {
        let counted = &self.report.counted;
        let dropped = |reason| counted.dropped(reason);
        let causes = if matches!(self.setting.treatment, Treatment::Mechanism(_)) {
            vec![
                ("SynQFull", dropped(TG_SYNQ_FULL)),
                ("SynQ3/4Full", dropped(TG_SYNQ_3_4_FULL)),
                ("ListenQFullAtSyn", dropped(TG_LISTENQ_FULL_AT_SYN)),
                (
                    "ListenQOverflow_syn_ack_acks",
                    dropped(TG_OVERFLOW_SYNACK_ACK) + dropped(TG_COOKIE_NO_ROOM),
                ),
                ("ListenQOverflow_other_segments", dropped(TG_OVERFLOW_OTHER)),
                ("NoReservation", dropped(TG_NO_RESERVATION)),
            ]
        } else {
            let others = counted.listen_drops.saturating_sub(counted.listen_overflows);
            vec![("ListenOverflows", counted.listen_overflows), ("ListenDrops, others", others)]
        };
        causes.into_iter().map(|(name, count)| (name.to_owned(), self.per_s(count))).collect()
    }

    fn verdicts_per_s(&self) -> BTreeMap<String, f64> {
        let judged = self.report.counted.judged.iter().zip(REASONS);
        let each = judged.flat_map(|(verdicts, reason)| {
            let named = verdicts.iter().zip(VERDICTS);
            named.map(move |(count, verdict)| (format!("{verdict}: {reason}"), *count))
        });
        each.filter(|(_, count)| *count > 0).map(|(name, n)| (name, self.per_s(n))).collect()
    }

    fn cpu(&self) -> BTreeMap<String, f64> {
        let spent = self.report.spent;
        let share = |ns: u64| ns as f64 / 1e9 / self.report.outcome.duration_s;
        let (user, system) = (share(spent.user_ns), share(spent.system_ns));
        let softirq = share(spent.softirq_ns);
        // A step is charged when it begins, so that the sum can be a step too much.
        let idle = (1.0 - user - system - softirq).max(0.0);
        [("user", user), ("system", system), ("softirq", softirq), ("idle", idle)]
            .map(|(name, share)| (name.to_owned(), share))
            .into()
    }

    /// As live, only where the scenario asks for a profile.
    fn cpu_components(&self) -> BTreeMap<String, f64> {
        let each = self.report.spent.by_component;
        let whole_ns = each.whole_ns();
        if !self.scenario.profile || whole_ns == 0 {
            return BTreeMap::new();
        }
        let share = |ns: u64| ns as f64 / whole_ns as f64;
        each.named()
            .filter(|(_, ns)| *ns > 0)
            .map(|(name, ns)| (name.to_owned(), share(ns)))
            .collect()
    }

    /// As the servers count of themselves (Pariag, tables 4.1 to 4.10).
    fn serving(&self) -> BTreeMap<String, f64> {
        let done = self.report.application;
        let each = |count: u64, of: u64| if of == 0 { 0.0 } else { count as f64 / of as f64 };
        [
            ("select_rate_per_s", self.per_s(done.event_calls)),
            ("fds_per_call", each(done.events, done.event_calls)),
            ("fd_rate_per_s", self.per_s(done.events)),
            ("accept_phases_per_s", self.per_s(done.accept_phases)),
            ("accepts_per_phase", each(done.accepted, done.accept_phases)),
            ("accepts_per_s", self.per_s(done.accepted)),
            ("work_items_per_phase", each(done.work_items, done.work_phases)),
            ("found_dead_per_s", self.per_s(done.dead)),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into()
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

    fn warnings(&self) -> Vec<String> {
        let lost = self.report.counted.ring_lost;
        let warning = || format!("{lost} packets found the server's receive ring full");
        if lost > 0 { vec![warning()] } else { Vec::new() }
    }
}

/// In a few words, as results name it.
fn summary(server: &Server) -> String {
    let mut words = format!("{}, backlog {}", server.kind.name(), server.backlog);
    if server.kind == ServerKind::Userver {
        words.push_str(&format!(", {}", server.events.name()));
    }
    match server.accept_limit {
        AcceptLimit::At(limit) => words.push_str(&format!(", accept-limit {limit}")),
        AcceptLimit::Dynamic => words.push_str(", accept-limit dynamic"),
        AcceptLimit::Inf => {}
    }
    if server.cost_us > 0 {
        words.push_str(&format!(", {} µs a request", server.cost_us));
    }
    words.push_str(match server.page {
        Page::OnePacket => ", one packet",
        Page::Specweb99 => ", SPECweb99-like files",
    });
    words
}

fn errors_per_s(outcome: &Outcome) -> BTreeMap<String, f64> {
    let errors = &outcome.errors;
    let mut counts = vec![
        ("refused", errors.refused),
        ("reset", errors.reset),
        ("timeout", errors.timed_out_connecting),
        ("timeout, connected", errors.timed_out_waiting),
    ];
    let others = [("closed early", errors.closed_early), ("HTTP error", errors.http_error)];
    counts.extend(others.into_iter().filter(|(_, count)| *count > 0));
    let rate = |count: u64| count as f64 / outcome.duration_s;
    counts.into_iter().map(|(name, count)| (name.to_owned(), rate(count))).collect()
}

fn segments(outcome: &Outcome) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(outcome.segments).unwrap_or_default();
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}
