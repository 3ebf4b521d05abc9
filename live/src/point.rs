// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw and what the server's side counted to one line of a result.

use std::collections::BTreeMap;

use tidegate_crowd::{Carrier, Outcome};
use tidegate_report::{OperatingPoint, Point, World};
use tidegate_scenarios::Treatment;

use crate::accounts::Accounts;
use crate::capacity::Capacity;
use crate::gauge::Reading;

/// Later than the first at the 99th percentile, a crowd has not kept its schedule; it is told by the
/// last of them that it was later than, so that a report has points that differ little in one line.
const LATE_MS: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
/// So late, it is another crowd than was asked for: a burst of a second lasts for longer.
const OTHER_CROWD_MS: f64 = 100.0;
/// Programs that have more of the experiment's processors than this disturb what is measured.
const FOREIGN_SHARE: f64 = 0.03;

/// An operating point, and what came of it.
pub(crate) struct Measured<'a> {
    pub at: OperatingPoint<'a>,
    pub outcome: Outcome,
    /// What should have carried the crowd.
    pub carrier: Carrier,
    pub reading: Reading,
    /// The server's and its kernel's, where it is one of ours.
    pub accounts: Option<Accounts>,
    /// What its rate is a multiple of.
    pub capacity: &'a Capacity,
}

impl Measured<'_> {
    pub(crate) fn point(self) -> Point {
        let guard = self.reading.guard.as_ref();
        // A guard of a path, on a router, sees no queue.
        let queue_drops_per_s = match guard.filter(|_| self.is_guarded()) {
            Some(guard) => guard.queue_drops_per_s(),
            None => self.reading.kernel.queue_drops_per_s(),
        };
        let verdicts_per_s = guard.map_or_else(BTreeMap::new, |guard| guard.verdicts_per_s());
        let warnings = self.warnings();
        let seen = self.at.seen_by_clients(World::Live, &self.outcome);
        let Reading { cpu, cpu_components, cpu_calls, serving, kernel, .. } = self.reading;
        // The kernel knows nothing of a crowd that makes its own packets.
        let time_wait = self.reading.time_wait.into_iter().chain(seen.time_wait).collect();
        Point {
            queue_drops_per_s,
            verdicts_per_s,
            cpu,
            cpu_components,
            cpu_calls,
            serving,
            kernel: kernel.counts,
            kernel_s: Some(kernel.seconds),
            time_wait,
            warnings,
            ..seen
        }
    }

    /// Whether the server itself is guarded.
    fn is_guarded(&self) -> bool {
        matches!(self.at.setting.treatment, Treatment::Mechanism(_))
    }

    fn warnings(&self) -> Vec<String> {
        let Reading { foreign, lost, .. } = self.reading;
        let mut warnings = self.capacity.warnings.clone();
        warnings.extend(lateness(self.outcome.late_starts.p99_ms));
        warnings.extend(disturbances(foreign, lost, self.carrier, &self.outcome));
        if self.outcome.errors.not_started > 0 {
            warnings.push("the crowd never came to start some of its attempts".to_owned());
        }
        if self.is_guarded() && self.reading.guard.is_none() {
            warnings.push("the guard's counters could not be read".to_owned());
        }
        warnings.extend(self.accounts.iter().flat_map(Accounts::warnings));
        warnings
    }
}

/// What may have disturbed a crowd and its server, a point's or those that a capacity is measured with: the
/// share of its processors that others had, packets that found no room, another way than should have carried it.
pub(crate) fn disturbances(
    foreign: f64,
    lost: u64,
    carrier: Carrier,
    outcome: &Outcome,
) -> Vec<String> {
    let mut told = Vec::new();
    if foreign > FOREIGN_SHARE {
        told.push("other programs used the processors too".to_owned());
    }
    // What finds the server's backlog full is in both.
    let here = "at the crowd's device or right behind it";
    let lost = [(here, outcome.segments.lost_here), ("on the way", lost)];
    for (place, packets) in lost.into_iter().filter(|(_, packets)| *packets > 0) {
        told.push(format!("{packets} packets found no room {place}"));
    }
    // What else goes with it, such as who polls, is said behind it.
    if !outcome.driver.starts_with(&carrier.to_string()) {
        let by = &outcome.driver;
        told.push(format!("the crowd was carried by \"{by}\", and should be by \"{carrier}\""));
    }
    told
}

fn lateness(p99_ms: f64) -> Option<String> {
    let late_ms = LATE_MS.into_iter().rfind(|late_ms| p99_ms > *late_ms)?;
    let told = format!("one in a hundred of the crowd's starts was more than {late_ms} ms late");
    Some(if late_ms >= OTHER_CROWD_MS {
        format!("{told}: this machine cannot send as many as were to come")
    } else {
        told
    })
}

#[cfg(test)]
mod tests {
    use tidegate_scenarios::{Form, Scenario};

    use super::*;
    use crate::guard;
    use crate::timed::Within;

    const COUNTS: [(&str, i64); 2] = [("TcpExtListenDrops", 55), ("TcpExtListenOverflows", 55)];

    /// What comes of a scenario's only curve, whose rate is a multiple of what was found with this warning.
    fn point(curve: &str, reading: Reading, warning: &str) -> Point {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\nnetwork = \"routed\"\n[load]\noffered = [1]\n\
             [[curve]]\n{curve}"
        );
        let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
        let load = scenario.load(Form::Full);
        let setting = &scenario.settings[0];
        let warnings = vec![warning.to_owned()];
        let capacity = Capacity { of: setting.server_use(), per_s: 1.0, warnings };
        let at = OperatingPoint {
            scenario: &scenario,
            setting,
            load: &load,
            capacity_per_s: capacity.per_s,
            offered_over_capacity: 1.0,
        };
        let carrier = Carrier::Sockets;
        let outcome =
            Outcome { duration_s: 5.0, driver: carrier.to_string(), ..Outcome::default() };
        Measured { at, outcome, carrier, reading, accounts: None, capacity: &capacity }.point()
    }

    fn kernel() -> Within<BTreeMap<String, i64>> {
        let counts = COUNTS.map(|(name, count)| (name.to_owned(), count)).into();
        Within { counts, seconds: 5.5 }
    }

    /// Rates of it would else be too high by what it takes to read everything.
    #[test]
    fn what_the_kernel_counted_has_the_time_in_which_it_did() {
        let reading = Reading { kernel: kernel(), ..Reading::default() };
        let point = point("peer = \"kernel\"", reading, "odd");
        let found = ["kernel.TcpExtListenDrops", "kernel_s"].map(|path| point.measure(path));
        assert_eq!(found, [Some(55.0), Some(5.5)]);
        assert_eq!(point.warnings, ["odd"], "it rests on what was found so");
    }

    /// A guard of the path to a server sees no queue, and has no drops to tell of: the server's kernel has.
    #[test]
    fn queue_drops_are_counted_where_the_queue_is() {
        let drops = |curve: &str| {
            let queue_drops = [("SynQFull".to_owned(), 20)].into();
            let verdicts = [("drop: ShedNew".to_owned(), 40)].into();
            let counts = guard::Counted { queue_drops, verdicts, pairs: 0 };
            let guard = Some(Within { counts, seconds: 4.0 });
            let point = point(curve, Reading { kernel: kernel(), guard, ..Reading::default() }, "");
            assert_eq!(point.measure("verdicts_per_s"), Some(10.0), "{curve}");
            ["SynQFull", "ListenOverflows"]
                .map(|rule| point.measure(&format!("queue_drops_per_s.{rule}")))
        };
        let on_a_router = "peer = \"kernel\"\nshed = { p = 0.5, at = \"router\" }";
        assert_eq!(drops(on_a_router), [None, Some(10.0)]);
        assert_eq!(drops("mechanism = \"default\""), [Some(5.0), None]);
    }

    #[test]
    fn what_disturbed_a_measurement_is_told() {
        let sent = |driver: &str| Outcome { driver: driver.to_owned(), ..Outcome::default() };
        let told = |foreign, lost, outcome: &Outcome| {
            let carrier = Carrier::Xdp { native: true, polled_here: false };
            disturbances(foreign, lost, carrier, outcome)
        };
        assert_eq!(told(0.02, 0, &sent("AF_XDP, driver XDP, polled here")), [""; 0]);
        let others = "other programs used the processors too";
        let lost = "7 packets found no room on the way";
        assert_eq!(told(0.04, 7, &sent("AF_XDP, driver XDP")), [others, lost]);
        let carried =
            "the crowd was carried by \"AF_PACKET\", and should be by \"AF_XDP, driver XDP\"";
        assert_eq!(told(0.0, 0, &sent("AF_PACKET")), [carried]);
    }

    #[test]
    fn a_crowd_that_could_not_be_sent_is_told_from_one_that_was_a_little_late() {
        let told = |p99_ms| lateness(p99_ms).unwrap_or_default();
        assert_eq!(told(1.0), "");
        let start = "one in a hundred of the crowd's starts was more than";
        assert_eq!(told(1.1), format!("{start} 1 ms late"));
        assert_eq!(told(99.0), format!("{start} 10 ms late"));
        let other = "this machine cannot send as many as were to come";
        assert_eq!(told(434.0), format!("{start} 100 ms late: {other}"));
        assert_eq!(told(2034.0), format!("{start} 1000 ms late: {other}"));
    }
}
