// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One data point of a result: a line of `result.jsonl`, from either world.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use tidegate_client::{SynClass, Times};
use tidegate_scenarios::{GUARD_DROPS, SYN_STAGE_DROPS};

/// Where a point comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// A kernel, with real packets.
    Live,
    /// The simulator.
    Sim,
}

impl World {
    /// In words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Sim => "simulated",
        }
    }
}

/// What one curve did at one offered load.
///
/// Groups are maps from a part's name to its number, so that a new cause or component needs no
/// new schema; [`Point::measure`] finds any number by its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The scenario's name.
    pub scenario: String,
    /// Where it was run.
    pub world: World,
    /// The curve's name in the scenario.
    pub curve: String,
    /// What was done to connections: a mechanism of Tidegate's, or a peer.
    pub mechanism: String,
    /// The server, in a few words.
    pub server: String,
    /// The clients, in a few words.
    pub clients: String,
    /// Whose TCP the server's machine has, where it is simulated: `linux-2.4`, `linux-6`, … Left out of
    /// what is live, where it is the kernel's, and of what was simulated before 2026-11-29.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<String>,
    /// Requests per second that the server can do, measured before in the same run.
    pub capacity_per_s: f64,
    /// Requests offered per second.
    pub offered_per_s: f64,
    /// The same in multiples of the capacity.
    pub offered_over_capacity: f64,
    /// Attempts counted.
    pub attempts: u64,
    /// Requests answered per second.
    pub replies_per_s: f64,
    /// Half the width of its 95 % confidence interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replies_per_s_ci95: Option<f64>,
    /// From intended start to whole reply, of those that got one, in ms.
    pub response_ms: Times,
    /// From intended start to being turned away, of those that were, in ms.
    #[serde(default)]
    pub refusal_ms: Times,
    /// From intended start to the end, whatever it was, in ms (Jamjoom's mean request delay).
    #[serde(default)]
    pub delay_ms: Times,
    /// Attempts that failed, per second, by kind: `refused`, `reset`, `timeout`, …
    pub errors_per_s: BTreeMap<String, f64>,
    /// Attempts a second that had all their replies within so many ms of their intended start: `1500` has
    /// all that `900` has, too. They count by their start, and [`Point::replies_per_s`] by when an answer
    /// came. Until 2026-11-28 they were called replies.
    #[serde(default, alias = "replies_within_per_s")]
    pub answered_within_per_s: BTreeMap<u32, f64>,
    /// Segments dropped for want of room, per second, by cause: `SynQFull`, `ListenQFullAtSyn`, …
    pub queue_drops_per_s: BTreeMap<String, f64>,
    /// What Tidegate did, per second, by verdict and reason.
    #[serde(default)]
    pub verdicts_per_s: BTreeMap<String, f64>,
    /// Attempts by how many SYNs they took, all and failed (Shukla Figure 4.9); empty where the
    /// driver cannot know.
    #[serde(default)]
    pub syns_per_attempt: BTreeMap<u32, SynClass>,
    /// Segments by kind, in the whole of the run, warm-up and the time behind too.
    #[serde(default)]
    pub segments: BTreeMap<String, u64>,
    /// Share of the server's processor by mode: `user`, `system`, `softirq`, `idle`; from 0 to 1.
    #[serde(default)]
    pub cpu: BTreeMap<String, f64>,
    /// Share of the server's busy processor by component (Shukla Table 4.4); from 0 to 1.
    #[serde(default)]
    pub cpu_components: BTreeMap<String, f64>,
    /// Share of the server's time by system call, `user` for its own code and `interrupt` for what
    /// the kernel did meanwhile (Pariag Tables 4.3 and 4.9); from 0 to 1.
    #[serde(default)]
    pub cpu_calls: BTreeMap<String, f64>,
    /// Where clients browse, their visits to pages (Jamjoom, section 2.3): `started_per_s`,
    /// `completed_per_s`, `abandoned_per_s`, and the time of those completed, `page_mean_ms` and
    /// `page_p99_ms`.
    #[serde(default)]
    pub visits: BTreeMap<String, f64>,
    /// Where networks of clients are told apart, what those of each group saw: `NAME.attempts_per_s`,
    /// of them `NAME.answered_per_s`, and the share of attempts with whole replies, `NAME.success`, and of its worst
    /// and its best network, `NAME.success_least`, `NAME.success_most`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub networks: BTreeMap<String, f64>,
    /// What our own servers count of themselves (Pariag Tables 4.1 to 4.10): `select_rate_per_s`,
    /// `fds_per_call`, `fd_rate_per_s`, `accept_phases_per_s`, `accepts_per_phase`,
    /// `accepts_per_s`, `work_items_per_phase`, `found_dead_per_s`.
    #[serde(default)]
    pub serving: BTreeMap<String, f64>,
    /// Connections in TIME-WAIT (Faber, Touch and Yue): the server's at the end of the counted time,
    /// `server`, the most at a time, `server_max`, and what they take of its memory at the end,
    /// `server_bytes`; the same of all its control blocks, those of sockets in use among them,
    /// `server_tcbs` and `server_tcb_bytes`; all clients', `clients` and `clients_max`. What a
    /// world cannot know is left out.
    #[serde(default)]
    pub time_wait: BTreeMap<String, f64>,
    /// Where load changes by steps, every whole second of the counted time: attempts `started` in
    /// it, those of them that `failed`, those that were `repeated` with more than one SYN (left out
    /// where the driver cannot know), and requests answered in it, `replies`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub seconds: BTreeMap<String, Vec<f64>>,
    /// The kernel's own counters of the server's namespace that changed, such as
    /// `TcpExtListenDrops`.
    #[serde(default)]
    pub kernel: BTreeMap<String, i64>,
    /// In how many seconds they did: live they are read about when the counted time begins and ends.
    /// Those of before 2026-11-28 do not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_s: Option<f64>,
    /// 99th percentile of how far starts were behind their schedule, in ms.
    #[serde(default)]
    pub late_p99_ms: f64,
    /// What a reader must know of this point: a late generator, a server that died.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// How long attempts were counted, in s.
    pub duration_s: f64,
    /// The schedule's seed.
    pub seed: u64,
}

impl Point {
    /// Any number of this point, by its path as the JSON shows it: `replies_per_s`,
    /// `response_ms.mean`, `errors_per_s.timeout`, `syns_per_attempt.1.attempts`.
    ///
    /// A group whose parts add up is, as a whole, their sum (of `syns_per_attempt`: of its attempts;
    /// `syns_per_attempt.mean` is how many SYNs an attempt took). A
    /// part that its group lacks is 0 where what never happened is not written down. `None` is what
    /// was not measured: a path that the schema lacks, a group that may be left out and is empty,
    /// a part that a group lacks in which 0 is written down, such as a guard's rules of dropping where the
    /// kernel counted, and times of a run where there were none, which are not zero but unknown.
    #[must_use]
    pub fn measure(&self, path: &str) -> Option<f64> {
        let (field, part) = match path.split_once('.') {
            Some((field, part)) => (field, Some(part)),
            None => (path, None),
        };
        match (field, part) {
            ("capacity_per_s", None) => Some(self.capacity_per_s),
            ("offered_per_s", None) => Some(self.offered_per_s),
            ("offered_over_capacity", None) => Some(self.offered_over_capacity),
            ("attempts", None) => Some(self.attempts as f64),
            ("replies_per_s", None) => Some(self.replies_per_s),
            ("replies_per_s_ci95", None) => self.replies_per_s_ci95,
            ("kernel_s", None) => self.kernel_s,
            ("late_p99_ms", None) => Some(self.late_p99_ms),
            ("duration_s", None) => Some(self.duration_s),
            ("seed", None) => Some(self.seed as f64),
            ("response_ms", Some(part)) => time(&self.response_ms, part),
            ("refusal_ms", Some(part)) => time(&self.refusal_ms, part),
            ("delay_ms", Some(part)) => time(&self.delay_ms, part),
            ("answered_within_per_s", Some(part)) => {
                self.answered_within_per_s.get(&part.parse().ok()?).copied()
            }
            ("errors_per_s", _) => Some(sum(&self.errors_per_s, part, |n| *n)),
            ("queue_drops_per_s", Some(SYN_STAGE_DROPS)) => self.syn_stage_drops(),
            ("queue_drops_per_s", Some(part)) => self.queue_drops_per_s.get(part).copied(),
            ("queue_drops_per_s", _) => Some(sum(&self.queue_drops_per_s, part, |n| *n)),
            ("verdicts_per_s", _) => measured(&self.verdicts_per_s, part, |n| *n),
            ("segments", _) => measured(&self.segments, part, |n| *n as f64),
            ("cpu", Some(part)) => self.cpu.get(part).copied(),
            ("cpu", None) => measured(&self.cpu, None, |n| *n),
            // A profile lacks what it never met; the simulator, what it does not tell apart.
            ("cpu_components", Some(part)) if self.world == World::Sim => {
                self.cpu_components.get(part).copied()
            }
            ("cpu_components", _) => measured(&self.cpu_components, part, |n| *n),
            ("cpu_calls", _) => measured(&self.cpu_calls, part, |n| *n),
            // Rates and times, which have no sum.
            ("visits", Some(part)) => self.visits.get(part).copied(),
            // A part of it may have parts of its own, and is not there where nobody came.
            ("networks", Some(part)) => self.networks.get(part).copied(),
            ("serving", Some(part)) => self.serving.get(part).copied(),
            ("time_wait", Some(part)) => self.time_wait.get(part).copied(),
            ("seconds", Some(part)) => self.second(part),
            ("kernel", _) => measured(&self.kernel, part, |n| *n as f64),
            ("syns_per_attempt", _) => self.syns(part),
            _ => None,
        }
    }

    /// Half the width of a number's 95 % confidence interval, where this one run knows it.
    #[must_use]
    pub fn interval(&self, path: &str) -> Option<f64> {
        let half = match path {
            "replies_per_s" => self.replies_per_s_ci95,
            "response_ms.mean" => self.response_ms.ci95,
            "refusal_ms.mean" => self.refusal_ms.ci95,
            "delay_ms.mean" => self.delay_ms.ci95,
            _ => return None,
        };
        half.filter(|half| half.is_finite() && *half > 0.0)
    }

    /// The names of a group's parts, in order; empty for what is not a group.
    #[must_use]
    pub fn parts(&self, group: &str) -> Vec<String> {
        match group {
            "errors_per_s" => self.errors_per_s.keys().cloned().collect(),
            "answered_within_per_s" => {
                self.answered_within_per_s.keys().map(u32::to_string).collect()
            }
            "queue_drops_per_s" => self.queue_drops_per_s.keys().cloned().collect(),
            "verdicts_per_s" => self.verdicts_per_s.keys().cloned().collect(),
            "segments" => self.segments.keys().cloned().collect(),
            "cpu" => self.cpu.keys().cloned().collect(),
            "cpu_components" => self.cpu_components.keys().cloned().collect(),
            "cpu_calls" => self.cpu_calls.keys().cloned().collect(),
            "visits" => self.visits.keys().cloned().collect(),
            "networks" => self.networks.keys().cloned().collect(),
            "serving" => self.serving.keys().cloned().collect(),
            "time_wait" => self.time_wait.keys().cloned().collect(),
            "kernel" => self.kernel.keys().cloned().collect(),
            "syns_per_attempt" => self.syns_per_attempt.keys().map(u32::to_string).collect(),
            _ => Vec::new(),
        }
    }

    /// All but ListenQOverflow, which is the only rule of the ACK stage.
    fn syn_stage_drops(&self) -> Option<f64> {
        let at_syn = GUARD_DROPS.iter().filter(|rule| !rule.starts_with("ListenQOverflow"));
        at_syn.map(|rule| self.queue_drops_per_s.get(*rule).copied()).sum()
    }

    /// `replies.7` is the eighth second's, `replies` the sum of all.
    fn second(&self, part: &str) -> Option<f64> {
        let (name, second) = match part.split_once('.') {
            Some((name, second)) => (name, Some(second.parse::<usize>().ok()?)),
            None => (part, None),
        };
        let counts = self.seconds.get(name)?;
        match second {
            Some(second) => counts.get(second).copied(),
            None => Some(counts.iter().sum()),
        }
    }

    fn syns(&self, part: Option<&str>) -> Option<f64> {
        let classes = &self.syns_per_attempt;
        if classes.is_empty() {
            return None;
        }
        let all = || classes.values().map(|class| class.attempts as f64).sum();
        let Some(part) = part else { return Some(all()) };
        if part == "mean" {
            let syns = classes.iter().map(|(syns, class)| f64::from(*syns) * class.attempts as f64);
            return Some(syns.sum::<f64>() / all()).filter(|mean| mean.is_finite());
        }
        let (syns, kind) = part.split_once('.').unwrap_or((part, "attempts"));
        let class = classes.get(&syns.parse().ok()?).copied().unwrap_or_default();
        match kind {
            "attempts" => Some(class.attempts as f64),
            "errors" => Some(class.errors as f64),
            _ => None,
        }
    }
}

fn sum<V>(group: &BTreeMap<String, V>, part: Option<&str>, number: impl Fn(&V) -> f64) -> f64 {
    match part {
        Some(part) => group.get(part).map_or(0.0, number),
        None => group.values().map(number).sum(),
    }
}

fn measured<V>(
    group: &BTreeMap<String, V>,
    part: Option<&str>,
    number: impl Fn(&V) -> f64,
) -> Option<f64> {
    (!group.is_empty()).then(|| sum(group, part, number))
}

/// One of a distribution's numbers by its name; `None` when there were no times, or no such number.
fn time(times: &Times, name: &str) -> Option<f64> {
    if *times == Times::default() {
        return None;
    }
    match name {
        "mean" => Some(times.mean),
        "ci95" => times.ci95,
        "p50" => Some(times.p50),
        "p90" => Some(times.p90),
        "p99" => Some(times.p99),
        "max" => Some(times.max),
        "deviation" => Some(times.deviation),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_scenarios::{
        CPU, KERNEL_DROPS, NUMBERS, SECONDS, SEGMENTS, SERVING, SUMLESS, SUMS, TIME_WAIT, TIMES,
        VISITS,
    };

    use super::*;
    use crate::example::point;

    fn numbers(names: &[&str]) -> BTreeMap<String, f64> {
        names.iter().map(|name| ((*name).to_owned(), 1.0)).collect()
    }

    /// A scenario is refused that asks for another.
    #[test]
    fn scenarios_know_the_numbers_of_a_result() {
        let point = serde_json::to_value(point("abort", 2.0)).unwrap();
        let words =
            ["scenario", "world", "curve", "mechanism", "server", "clients", "tcp", "warnings"];
        let names = point.as_object().unwrap().keys().map(String::as_str);
        for name in names.filter(|name| !words.contains(name)) {
            assert!(NUMBERS.contains(&name), "{name}");
        }
        let segments = serde_json::to_value(tidegate_client::Segments::default()).unwrap();
        let names = segments.as_object().unwrap().keys().map(String::as_str);
        assert_eq!(names.collect::<Vec<_>>(), SEGMENTS);
    }

    /// And groups that have a sum here, and numbers that times have.
    #[test]
    fn scenarios_know_which_groups_are_numbers() {
        let mut point = point("abort", 2.0);
        point.verdicts_per_s.insert("pass".to_owned(), 1.0);
        point.syns_per_attempt.insert(1, SynClass { attempts: 1, errors: 0 });
        point.answered_within_per_s.insert(900, 1.0);
        point.segments.insert("syn_sent".to_owned(), 1);
        point.kernel.insert("TcpExtListenDrops".to_owned(), 1);
        point.seconds.insert("replies".to_owned(), vec![1.0]);
        for group in [
            &mut point.cpu,
            &mut point.cpu_components,
            &mut point.cpu_calls,
            &mut point.visits,
            &mut point.networks,
            &mut point.serving,
            &mut point.time_wait,
        ] {
            group.insert("one".to_owned(), 1.0);
        }
        for group in SUMS {
            assert!(point.measure(group).is_some() && !point.parts(group).is_empty(), "{group}");
        }
        for group in SUMLESS {
            assert_eq!(point.measure(group), None, "{group}");
        }
        for part in TIMES {
            assert!(point.measure(&format!("response_ms.{part}")).is_some(), "{part}");
        }
    }

    #[test]
    fn every_number_is_found_by_its_path() {
        let mut point = point("abort", 2.0);
        point.errors_per_s = [("refused".to_owned(), 3.0), ("timeout".to_owned(), 4.0)].into();
        point.kernel = [("TcpExtListenDrops".to_owned(), 7)].into();
        point.answered_within_per_s = [(900, 30.0), (1500, 40.0)].into();
        point.syns_per_attempt =
            [(1, SynClass { attempts: 5, errors: 1 }), (3, SynClass { attempts: 2, errors: 2 })]
                .into();
        let found = |path: &str| point.measure(path);
        assert_eq!(found("replies_per_s"), Some(point.replies_per_s));
        assert_eq!(found("response_ms.mean"), Some(point.response_ms.mean));
        assert_eq!(found("errors_per_s"), Some(7.0));
        assert_eq!(found("errors_per_s.timeout"), Some(4.0));
        assert_eq!(found("answered_within_per_s.1500"), Some(40.0));
        assert_eq!(found("answered_within_per_s"), None, "each has what the ones before it have");
        assert_eq!(found("kernel.TcpExtListenDrops"), Some(7.0));
        assert_eq!(found("syns_per_attempt"), Some(7.0));
        assert_eq!(found("syns_per_attempt.mean"), Some((5.0 + 3.0 * 2.0) / 7.0));
        assert_eq!(found("syns_per_attempt.1.attempts"), Some(5.0));
        assert_eq!(found("syns_per_attempt.3.errors"), Some(2.0));
    }

    /// Shukla's table 4.2 has no more of a drop than the stage.
    #[test]
    fn drops_of_the_syn_stage_are_those_of_every_rule_but_listen_queue_overflow() {
        let mut point = point("default", 2.0);
        point.queue_drops_per_s = numbers(&GUARD_DROPS);
        point.queue_drops_per_s.insert("SynQ3/4Full".to_owned(), 100.0);
        for ack_stage in ["ListenQOverflow_syn_ack_acks", "ListenQOverflow_other_segments"] {
            *point.queue_drops_per_s.get_mut(ack_stage).expect("a rule") = 1000.0;
        }
        let others = GUARD_DROPS.len() as f64 - 3.0;
        assert_eq!(point.measure("queue_drops_per_s.SYN stage"), Some(100.0 + others));
        point.queue_drops_per_s = numbers(&KERNEL_DROPS);
        assert_eq!(
            point.measure("queue_drops_per_s.SYN stage"),
            None,
            "it does not tell them apart"
        );
    }

    /// Where the simulator has memory management with what needs the memory, none of its own is not 0 %.
    #[test]
    fn a_component_that_is_not_simulated_is_no_number_and_one_that_a_profile_never_met_is_zero() {
        let of = |world: World| {
            let mut point = Point { world, ..point("abort", 2.0) };
            point.cpu_components = [("net-tcp".to_owned(), 0.25), ("guard".to_owned(), 0.0)].into();
            ["net-tcp", "guard", "mm"].map(|part| point.measure(&format!("cpu_components.{part}")))
        };
        assert_eq!(of(World::Live), [Some(0.25), Some(0.0), Some(0.0)]);
        assert_eq!(of(World::Sim), [Some(0.25), Some(0.0), None]);
    }

    /// A scenario that asks for a number that no result has would say so only after its run.
    #[test]
    fn every_scenario_on_the_shelf_asks_for_numbers_that_there_are() {
        let mut point = point("default", 2.0);
        point.verdicts_per_s.insert("pass".to_owned(), 1.0);
        point.syns_per_attempt.insert(1, SynClass { attempts: 1, errors: 0 });
        point.segments.insert("syn_sent".to_owned(), 1);
        point.cpu = numbers(&CPU);
        point.queue_drops_per_s = numbers(&GUARD_DROPS);
        point.cpu_components.insert("driver".to_owned(), 1.0);
        point.cpu_calls.insert("select".to_owned(), 1.0);
        point.serving = numbers(&SERVING);
        point.kernel.insert("TcpExtListenDrops".to_owned(), 1);
        point.kernel_s = Some(1.0);
        point.refusal_ms.mean = 1.0;
        point.delay_ms.mean = 1.0;
        point.visits = numbers(&VISITS);
        for group in ["large", "others", "own"] {
            let numbers =
                ["attempts_per_s", "answered_per_s", "success", "success_least", "success_most"];
            for number in numbers {
                point.networks.insert(format!("{group}.{number}"), 1.0);
            }
        }
        point.time_wait = numbers(&TIME_WAIT);
        for name in SECONDS {
            point.seconds.insert(name.to_owned(), vec![1.0]);
        }
        for (name, _) in tidegate_scenarios::shelf() {
            let scenario = tidegate_scenarios::named(&name).expect("a scenario");
            let claims = scenario.claims.iter();
            let asked = claims.flat_map(|claim| [Some(&claim.measure), claim.over.as_ref()]);
            let columns = scenario.tables.iter().flat_map(|table| &table.columns);
            let asked = asked
                .chain(columns.flat_map(|column| [Some(&column.measure), column.over.as_ref()]))
                .chain(scenario.panels.iter().map(|panel| Some(&panel.measure)))
                .chain(scenario.bars.iter().map(|bars| Some(&bars.measure)));
            for path in asked.flatten() {
                assert!(point.measure(path).is_some(), "{name} asks for {path}");
            }
        }
    }

    /// Where those who count write down each 0, what they have not written down they have not counted.
    #[test]
    fn what_is_lacking_where_zero_is_written_down_is_unknown() {
        let mut point = point("abort", 2.0);
        point.cpu = numbers(&["idle", "softirq", "system", "user"]);
        point.serving = numbers(&["accepts_per_s"]);
        point.visits = numbers(&["started_per_s"]);
        point.queue_drops_per_s = numbers(&KERNEL_DROPS);
        point.cpu_calls = numbers(&["accept"]);
        for path in [
            "cpu.stolen",
            "serving.found_dead_pers_s",
            "visits.completed_per_s",
            "queue_drops_per_s.SynQFull",
            // Calls and descriptors a call, visits and how long they take, add up to nothing.
            "serving",
            "visits",
        ] {
            assert_eq!(point.measure(path), None, "{path}");
        }
        for (path, number) in [
            ("cpu", 4.0),
            ("cpu.user", 1.0),
            ("queue_drops_per_s", 2.0),
            ("queue_drops_per_s.ListenOverflows", 1.0),
            // By sampling: what was never met is not written down.
            ("cpu_calls.close", 0.0),
            ("errors_per_s.reset", 0.0),
        ] {
            assert_eq!(point.measure(path), Some(number), "{path}");
        }
    }

    /// Blocks and bytes have no sum, and what is not known is not none.
    #[test]
    fn time_wait_is_known_or_not() {
        let mut point = point("abort", 2.0);
        assert_eq!(point.measure("time_wait.server"), None);
        point.time_wait.insert("server".to_owned(), 7.0);
        assert_eq!(point.measure("time_wait.server"), Some(7.0));
        assert_eq!(point.measure("time_wait.server_bytes"), None);
        assert_eq!(point.measure("time_wait"), None);
        assert_eq!(point.parts("time_wait"), ["server"]);
    }

    #[test]
    fn a_line_of_before_is_still_read() {
        let mut point = point("abort", 2.0);
        point.answered_within_per_s = [(900, 30.0)].into();
        let line = serde_json::to_string(&point).unwrap();
        let before = line.replace("answered_within_per_s", "replies_within_per_s");
        assert_ne!(before, line);
        let read: Point = serde_json::from_str(&before).unwrap();
        assert_eq!((read.measure("kernel_s"), read), (None, point));
    }

    #[test]
    fn every_number_of_the_json_has_a_path() {
        let mut point = point("abort", 2.0);
        point.kernel_s = Some(5.01);
        point.syns_per_attempt = [(1, SynClass { attempts: 5, errors: 1 })].into();
        point.segments = [("syn".to_owned(), 9)].into();
        let mut paths = Vec::new();
        leaves(&serde_json::to_value(&point).unwrap(), "", &mut paths);
        assert!(paths.len() > 20, "{paths:?}");
        for (path, number) in paths {
            let known = point.measure(&path);
            // A distribution without times has zeros in the file and no numbers.
            assert!(known == Some(number) || (known.is_none() && number == 0.0), "{path}");
        }
    }

    fn leaves(value: &serde_json::Value, path: &str, into: &mut Vec<(String, f64)>) {
        if let Some(object) = value.as_object() {
            for (name, value) in object {
                let dot = if path.is_empty() { "" } else { "." };
                leaves(value, &format!("{path}{dot}{name}"), into);
            }
        } else if let Some(number) = value.as_f64() {
            into.push((path.to_owned(), number));
        }
    }

    #[test]
    fn what_never_happened_is_zero_and_what_was_not_measured_is_none() {
        let mut point = point("abort", 2.0);
        point.errors_per_s.clear();
        assert_eq!(point.measure("errors_per_s.reset"), Some(0.0));
        assert_eq!(point.measure("errors_per_s"), Some(0.0));
        point.kernel.clear();
        assert_eq!(point.measure("kernel.TcpExtListenDrops"), None);
        point.response_ms = Times::default();
        assert_eq!(point.measure("response_ms.mean"), None);
        for unknown in ["", "response_ms", "response_ms.p95", "colour", "attempts.x", "a.b.c"] {
            assert_eq!(point.measure(unknown), None, "{unknown}");
        }
        point.syns_per_attempt = [(1, SynClass::default())].into();
        assert_eq!(point.measure("syns_per_attempt.9.errors"), Some(0.0));
        assert_eq!(point.measure("syns_per_attempt.one"), None);
        point.seconds = [("replies".to_owned(), vec![3.0, 4.0])].into();
        assert_eq!(point.measure("seconds.replies.1"), Some(4.0));
        assert_eq!(point.measure("seconds.replies"), Some(7.0));
        for unmeasured in ["seconds.replies.2", "seconds.replies.x", "seconds.failed", "seconds"] {
            assert_eq!(point.measure(unmeasured), None, "{unmeasured}");
        }
    }
}
