// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server counts of itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::reply::Outcome;

/// What happened since the server started; of all its workers and threads together.
///
/// What the tables of Pariag's thesis show is made from these counts, and so adds up:
/// `N_phases` × `C_avg` is what was accepted (Equation 4.1), and the select-rate times the
/// descriptors per call is the fd-rate (Table 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// Connections taken from the kernel's listen queue.
    pub accepted: u64,
    /// Replies handed to the kernel whole, errors (400, 404 and the like) not among them.
    pub replies: u64,
    /// Those of the replies that the kernel gave by itself.
    pub kernel_replies: u64,
    /// Those of the replies that said 304: the client had the file already.
    pub not_modified: u64,
    /// Requests for what is not below the root (404), or may not be read (403).
    pub not_found: u64,
    /// Requests for files that could not be opened or read just then (503).
    pub unavailable: u64,
    /// Connections that turned out useless: gone before any request was replied to.
    pub dead_connections: u64,
    /// Replies to clients that were known to have closed their side: perhaps work for nobody.
    /// `select` does not tell of it, so there they are seen only when the end is read.
    pub half_closed_replies: u64,
    /// Requests refused as malformed, too large or of a kind not served.
    pub bad_requests: u64,
    /// Connections closed because a request or the taking of a reply came to a halt.
    pub timed_out: u64,
    /// Times that accepting failed for want of descriptors, memory or threads.
    pub accept_failures: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// Most connections held at one time.
    pub connections_max: u64,
    /// Steps of work done: at the set cost, as many for every request that was not refused; and
    /// for computed pages.
    pub work_steps: u64,
    /// Processor time of the server's threads, in ns.
    pub cpu_ns: u64,
    /// Calls by which the server learned of events: of `select` and its like. Knot's are the polls
    /// of threads that would have blocked, tux's those at which it had nothing to do.
    pub event_calls: u64,
    /// Descriptors that those calls told of.
    pub fds_told: u64,
    /// Accept phases, those that accepted nobody among them (`N_phases`).
    pub accept_phases: u64,
    /// Work phases.
    pub work_phases: u64,
    /// Connections worked on in them, as often as they were.
    pub work_items: u64,
    /// How long the server has been running, in ns.
    pub elapsed_ns: u64,
}

impl Statistics {
    /// The select-rate: calls for events, per second.
    #[must_use]
    pub fn event_calls_per_s(&self) -> f64 {
        self.per_s(self.event_calls)
    }

    /// Descriptors told of per call for events.
    #[must_use]
    pub fn fds_per_call(&self) -> f64 {
        ratio(self.fds_told, self.event_calls)
    }

    /// The fd-rate: descriptors told of, per second.
    #[must_use]
    pub fn fds_per_s(&self) -> f64 {
        self.per_s(self.fds_told)
    }

    /// `C_avg`: connections accepted per accept phase.
    #[must_use]
    pub fn accepted_per_phase(&self) -> f64 {
        ratio(self.accepted, self.accept_phases)
    }

    /// The accept rate: connections accepted, per second.
    #[must_use]
    pub fn accepted_per_s(&self) -> f64 {
        self.per_s(self.accepted)
    }

    /// Throughput: replies, per second.
    #[must_use]
    pub fn replies_per_s(&self) -> f64 {
        self.per_s(self.replies)
    }

    /// Connections worked on per work phase.
    #[must_use]
    pub fn items_per_work_phase(&self) -> f64 {
        ratio(self.work_items, self.work_phases)
    }

    /// What Pariag's Tables 4.1 to 4.10 show, by the names that results have for it.
    #[must_use]
    pub fn measures(&self) -> BTreeMap<String, f64> {
        [
            ("select_rate_per_s", self.event_calls_per_s()),
            ("fds_per_call", self.fds_per_call()),
            ("fd_rate_per_s", self.fds_per_s()),
            ("accept_phases_per_s", self.per_s(self.accept_phases)),
            ("accepts_per_phase", self.accepted_per_phase()),
            ("accepts_per_s", self.accepted_per_s()),
            ("work_items_per_phase", self.items_per_work_phase()),
            ("found_dead_per_s", self.per_s(self.dead_connections)),
        ]
        .map(|(name, number)| (name.to_owned(), number))
        .into()
    }

    fn per_s(&self, count: u64) -> f64 {
        if self.elapsed_ns == 0 { 0.0 } else { count as f64 * 1e9 / self.elapsed_ns as f64 }
    }

    /// Counts a reply that was sent whole.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answer => self.replies += 1,
            Outcome::NotModified => {
                self.replies += 1;
                self.not_modified += 1;
            }
            Outcome::NotFound => self.not_found += 1,
            Outcome::Unavailable => self.unavailable += 1,
            // Counted when it is decided: its client may not stay to hear it.
            Outcome::Refusal => {}
        }
    }

    /// What was counted after an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        // Taken apart, so that no count is forgotten.
        let Self {
            accepted,
            replies,
            kernel_replies,
            not_modified,
            not_found,
            unavailable,
            dead_connections,
            half_closed_replies,
            bad_requests,
            timed_out,
            accept_failures,
            bytes_sent,
            work_steps,
            cpu_ns,
            event_calls,
            fds_told,
            accept_phases,
            work_phases,
            work_items,
            elapsed_ns,
            connections_max: _,
        } = earlier;
        Self {
            accepted: self.accepted - accepted,
            replies: self.replies - replies,
            kernel_replies: self.kernel_replies - kernel_replies,
            not_modified: self.not_modified - not_modified,
            not_found: self.not_found - not_found,
            unavailable: self.unavailable - unavailable,
            dead_connections: self.dead_connections - dead_connections,
            half_closed_replies: self.half_closed_replies - half_closed_replies,
            bad_requests: self.bad_requests - bad_requests,
            timed_out: self.timed_out - timed_out,
            accept_failures: self.accept_failures - accept_failures,
            bytes_sent: self.bytes_sent - bytes_sent,
            // A maximum, which no difference can tell.
            connections_max: self.connections_max,
            work_steps: self.work_steps - work_steps,
            cpu_ns: self.cpu_ns - cpu_ns,
            event_calls: self.event_calls - event_calls,
            fds_told: self.fds_told - fds_told,
            accept_phases: self.accept_phases - accept_phases,
            work_phases: self.work_phases - work_phases,
            work_items: self.work_items - work_items,
            elapsed_ns: self.elapsed_ns - elapsed_ns,
        }
    }

    /// Adds what another part of the server counted.
    pub(crate) fn add(&mut self, other: &Self) {
        // Taken apart, so that no count is forgotten.
        let Self {
            accepted,
            replies,
            kernel_replies,
            not_modified,
            not_found,
            unavailable,
            dead_connections,
            half_closed_replies,
            bad_requests,
            timed_out,
            accept_failures,
            bytes_sent,
            connections_max,
            work_steps,
            cpu_ns,
            event_calls,
            fds_told,
            accept_phases,
            work_phases,
            work_items,
            elapsed_ns,
        } = other;
        self.accepted += accepted;
        self.replies += replies;
        self.kernel_replies += kernel_replies;
        self.not_modified += not_modified;
        self.not_found += not_found;
        self.unavailable += unavailable;
        self.dead_connections += dead_connections;
        self.half_closed_replies += half_closed_replies;
        self.bad_requests += bad_requests;
        self.timed_out += timed_out;
        self.accept_failures += accept_failures;
        self.bytes_sent += bytes_sent;
        self.connections_max = self.connections_max.max(*connections_max);
        self.work_steps += work_steps;
        self.cpu_ns += cpu_ns;
        self.event_calls += event_calls;
        self.fds_told += fds_told;
        self.accept_phases += accept_phases;
        self.work_phases += work_phases;
        self.work_items += work_items;
        self.elapsed_ns = self.elapsed_ns.max(*elapsed_ns);
    }
}

fn ratio(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { count as f64 / of as f64 }
}

/// As Pariag's tables have it, with what else may explain them.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = [
            ("elapsed", format!("{:.3} s", self.elapsed_ns as f64 / 1e9)),
            ("select-rate", format!("{:.1} calls/s", self.event_calls_per_s())),
            ("fds per call", format!("{:.2}", self.fds_per_call())),
            ("fd-rate", format!("{:.1} fds/s", self.fds_per_s())),
            ("N_phases", self.accept_phases.to_string()),
            ("C_avg", format!("{:.3}", self.accepted_per_phase())),
            ("accepts", self.accepted.to_string()),
            ("accept rate", format!("{:.1} /s", self.accepted_per_s())),
            ("work phases", self.work_phases.to_string()),
            ("items per work phase", format!("{:.2}", self.items_per_work_phase())),
            ("accepted and found dead", self.dead_connections.to_string()),
            ("failed to accept", self.accept_failures.to_string()),
            ("replies", self.replies.to_string()),
            ("throughput", format!("{:.1} replies/s", self.replies_per_s())),
            ("timed out", self.timed_out.to_string()),
            ("most connections", self.connections_max.to_string()),
            ("processor time", format!("{:.3} s", self.cpu_ns as f64 / 1e9)),
        ];
        for (name, value) in rows {
            writeln!(f, "{name:<24}{value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accept-Inf of Table 4.8 and Table 4.7, over the 123.02 s that its accept rate implies.
    fn accept_inf() -> Statistics {
        Statistics {
            accepted: 2_271_144,
            accept_phases: 32_249,
            event_calls: 32_231,
            fds_told: 6_172_237,
            elapsed_ns: 123_020_000_000,
            ..Statistics::default()
        }
    }

    #[test]
    fn the_tables_of_the_thesis_come_out() {
        let statistics = accept_inf();
        assert!((statistics.accepted_per_phase() - 70.43).abs() < 0.01);
        assert!((statistics.accepted_per_s() - 18_462.0).abs() < 1.0);
        assert!((statistics.event_calls_per_s() - 262.0).abs() < 0.1);
        assert!((statistics.fds_per_call() - 191.5).abs() < 0.01);
        assert!((statistics.fds_per_s() - 50_173.0).abs() < 2.0);
        let text = statistics.to_string();
        assert!(text.contains("C_avg                   70.425\n"), "{text}");
    }

    /// A server that lacked descriptors tells so wherever its figures are read.
    #[test]
    fn what_could_not_be_accepted_is_told() {
        let text = Statistics { accept_failures: 3, ..accept_inf() }.to_string();
        assert!(text.contains("\nfailed to accept        3\n"), "{text}");
    }

    #[test]
    fn nothing_is_no_rate() {
        let statistics = Statistics::default();
        assert_eq!(statistics.fds_per_call() + statistics.accepted_per_s(), 0.0);
    }

    #[test]
    fn parts_add_up() {
        let mut whole = Statistics { connections_max: 7, ..Statistics::default() };
        whole.add(&accept_inf());
        whole.add(&Statistics { accepted: 1, elapsed_ns: 5, ..Statistics::default() });
        let expected = Statistics { accepted: 2_271_145, connections_max: 7, ..accept_inf() };
        assert_eq!(whole, expected);
    }

    #[test]
    fn only_what_came_between_counts() {
        let earlier = Statistics {
            accepted: 1000,
            accept_phases: 100,
            elapsed_ns: 5_000_000_000,
            ..Statistics::default()
        };
        let later = Statistics {
            accepted: 1600,
            accept_phases: 300,
            event_calls: 50,
            fds_told: 200,
            elapsed_ns: 7_000_000_000,
            ..Statistics::default()
        };
        let between = later.since(&earlier).measures();
        assert_eq!(between["accepts_per_s"], 300.0);
        assert_eq!(between["accepts_per_phase"], 3.0);
        assert_eq!(
            between["fds_per_call"] * between["select_rate_per_s"],
            between["fd_rate_per_s"]
        );
        assert_eq!(between["work_items_per_phase"], 0.0);
    }
}
