// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw and what the server's side counted to one line of a result.

use std::collections::BTreeMap;

use tidegate_crowd::Outcome;
use tidegate_report::{Point, World};
use tidegate_scenarios::{Load, Scenario, Setting, Treatment};

use crate::gauge::Reading;
use crate::server;

/// Later than this at the 99th percentile, a crowd has not kept its schedule.
const LATE_MS: f64 = 1.0;
/// Programs that have more of the machine than this disturb what is measured.
const FOREIGN_SHARE: f64 = 0.03;

/// One curve at one offered load, and what came of it.
pub(crate) struct Measured<'a> {
    pub scenario: &'a Scenario,
    pub setting: &'a Setting,
    pub load: &'a Load,
    pub capacity_per_s: f64,
    pub offered_over_capacity: f64,
    pub outcome: Outcome,
    pub reading: Reading,
    /// Time between the readings, in s.
    pub reading_s: f64,
}

impl Measured<'_> {
    pub(crate) fn point(self) -> Point {
        let outcome = &self.outcome;
        let requests = self.setting.clients.requests;
        let (queue_drops_per_s, verdicts_per_s) = self.guard_rates();
        Point {
            scenario: self.scenario.name.clone(),
            world: World::Live,
            curve: self.setting.curve.clone(),
            mechanism: self.setting.treatment.name(),
            server: server::summary(&self.setting.server),
            clients: self.setting.clients.summary(),
            capacity_per_s: self.capacity_per_s,
            offered_per_s: outcome.offered_per_s * requests,
            offered_over_capacity: self.offered_over_capacity,
            attempts: outcome.attempts,
            replies_per_s: outcome.replies_per_s,
            replies_per_s_ci95: outcome.replies_per_s_ci95,
            response_ms: outcome.response_ms,
            refusal_ms: outcome.refusal_ms,
            errors_per_s: errors_per_s(outcome),
            queue_drops_per_s,
            verdicts_per_s,
            syns_per_attempt: outcome.syns_per_attempt.clone(),
            segments: segments(outcome),
            cpu: self.reading.cpu.clone(),
            cpu_components: self.reading.cpu_components.clone(),
            visits: visits(outcome),
            serving: self.reading.serving.clone(),
            kernel: self.reading.kernel.clone(),
            late_p99_ms: outcome.late_starts.p99_ms,
            warnings: self.warnings(),
            duration_s: outcome.duration_s,
            seed: self.load.seed,
        }
    }

    /// A guard tells drops by cause. Without one there are the kernel's two counters, which do
    /// not tell a SYN from an ACK.
    fn guard_rates(&self) -> (BTreeMap<String, f64>, BTreeMap<String, f64>) {
        let rate = |count: f64| count / self.reading_s;
        if let Some(counted) = &self.reading.guard {
            let rates = |counts: &BTreeMap<String, u64>| {
                counts.iter().map(|(name, count)| (name.clone(), rate(*count as f64))).collect()
            };
            return (rates(&counted.queue_drops), rates(&counted.verdicts));
        }
        let kernel = |name: &str| self.reading.kernel.get(name).copied().unwrap_or_default() as f64;
        let overflows = kernel("TcpExtListenOverflows");
        let others = (kernel("TcpExtListenDrops") - overflows).max(0.0);
        let drops = [("ListenOverflows", overflows), ("ListenDrops, others", others)];
        let drops = drops.map(|(name, count)| (name.to_owned(), rate(count)));
        (drops.into(), BTreeMap::new())
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.outcome.late_starts.p99_ms > LATE_MS {
            warnings.push(format!(
                "one in a hundred of the crowd's starts was more than {LATE_MS} ms late"
            ));
        }
        if self.reading.foreign > FOREIGN_SHARE {
            warnings.push("other programs used the processors too".to_owned());
        }
        if self.outcome.errors.not_started > 0 {
            warnings.push("the crowd never came to start some of its attempts".to_owned());
        }
        if let Treatment::Mechanism(_) = self.setting.treatment
            && self.reading.guard.is_none()
        {
            warnings.push("the guard's counters could not be read".to_owned());
        }
        warnings
    }
}

fn errors_per_s(outcome: &Outcome) -> BTreeMap<String, f64> {
    let errors = &outcome.errors;
    let mut counts = BTreeMap::from([
        ("refused".to_owned(), errors.refused),
        ("reset".to_owned(), errors.reset),
        ("timeout".to_owned(), errors.timed_out_connecting),
        ("timeout, connected".to_owned(), errors.timed_out_waiting),
    ]);
    for (name, count) in [
        ("closed early", errors.closed_early),
        ("HTTP error", errors.http_error),
        ("nonsense", errors.nonsense),
        ("withdrawn", errors.withdrawn),
        ("not started", errors.not_started),
    ] {
        if count > 0 {
            counts.insert(name.to_owned(), count);
        }
    }
    for (name, count) in &errors.other {
        counts.insert(name.clone(), *count);
    }
    counts.into_iter().map(|(name, count)| (name, count as f64 / outcome.duration_s)).collect()
}

fn visits(outcome: &Outcome) -> BTreeMap<String, f64> {
    let Some(visits) = &outcome.visits else { return BTreeMap::new() };
    let per_s = |count: u64| count as f64 / outcome.duration_s;
    [
        ("started_per_s", per_s(visits.started)),
        ("completed_per_s", per_s(visits.completed)),
        ("abandoned_per_s", per_s(visits.abandoned)),
        ("page_mean_ms", visits.page_ms.mean),
        ("page_p99_ms", visits.page_ms.p99),
    ]
    .map(|(name, number)| (name.to_owned(), number))
    .into()
}

fn segments(outcome: &Outcome) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(outcome.segments).unwrap_or_default();
    let entries = value.as_object().into_iter().flatten();
    entries.filter_map(|(name, count)| Some((name.clone(), count.as_u64()?))).collect()
}
