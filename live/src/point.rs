// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what clients saw and what the server's side counted to one line of a result.

use std::collections::BTreeMap;

use tidegate_crowd::Outcome;
use tidegate_report::{OperatingPoint, Point, World};
use tidegate_scenarios::Treatment;

use crate::accounts::Accounts;
use crate::gauge::Reading;

/// Later than the first at the 99th percentile, a crowd has not kept its schedule; it is told by the
/// last of them that it was later than, so that a report has points that differ little in one line.
const LATE_MS: [f64; 4] = [1.0, 10.0, 100.0, 1000.0];
/// So late, it is another crowd than was asked for: a burst of a second lasts for longer.
const OTHER_CROWD_MS: f64 = 100.0;
/// Programs that have more of the machine than this disturb what is measured.
const FOREIGN_SHARE: f64 = 0.03;

/// An operating point, and what came of it.
pub(crate) struct Measured<'a> {
    pub at: OperatingPoint<'a>,
    pub outcome: Outcome,
    pub reading: Reading,
    /// The server's and its kernel's, where it is one of ours.
    pub accounts: Option<Accounts>,
}

impl Measured<'_> {
    pub(crate) fn point(self) -> Point {
        let (queue_drops_per_s, verdicts_per_s) = match &self.reading.guard {
            Some(guard) => (guard.queue_drops_per_s(), guard.verdicts_per_s()),
            None => (self.reading.kernel.queue_drops_per_s(), BTreeMap::new()),
        };
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

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(lateness(self.outcome.late_starts.p99_ms));
        if self.reading.foreign > FOREIGN_SHARE {
            warnings.push("other programs used the processors too".to_owned());
        }
        let lost = [
            ("at the crowd's device", self.outcome.segments.lost_here),
            ("on the way", self.reading.lost),
        ];
        for (place, packets) in lost.into_iter().filter(|(_, packets)| *packets > 0) {
            warnings.push(format!("{packets} packets found no room {place}"));
        }
        if self.outcome.errors.not_started > 0 {
            warnings.push("the crowd never came to start some of its attempts".to_owned());
        }
        if let Treatment::Mechanism(_) = self.at.setting.treatment
            && self.reading.guard.is_none()
        {
            warnings.push("the guard's counters could not be read".to_owned());
        }
        warnings.extend(self.accounts.and_then(|accounts| accounts.contradiction()));
        warnings
    }
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
    use crate::timed::Within;

    /// Rates of it would else be too high by what it takes to read everything.
    #[test]
    fn what_the_kernel_counted_has_the_time_in_which_it_did() {
        let text = "title = \"t\"\nsource = \"s\"\n[load]\noffered = [1]\n\
             [[curve]]\npeer = \"kernel\"";
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let load = scenario.load(Form::Full);
        let (setting, capacity_per_s, offered_over_capacity) = (&scenario.settings[0], 1.0, 1.0);
        let at = OperatingPoint {
            scenario: &scenario,
            setting,
            load: &load,
            capacity_per_s,
            offered_over_capacity,
        };
        let counts = [("TcpExtListenDrops".to_owned(), 55)].into();
        let reading = Reading { kernel: Within { counts, seconds: 5.5 }, ..Reading::default() };
        let outcome = Outcome { duration_s: 5.0, ..Outcome::default() };
        let point = Measured { at, outcome, reading, accounts: None }.point();
        let found = ["kernel.TcpExtListenDrops", "kernel_s"].map(|path| point.measure(path));
        assert_eq!(found, [Some(55.0), Some(5.5)]);
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
