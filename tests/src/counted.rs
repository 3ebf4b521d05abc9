// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate's counts, as `tidegate status --json` tells them.

use serde_json::Value;
use tidegate_lab::Namespace;

use crate::status;

/// The guard of a port in a status; `address` where several guard the port.
pub fn guard_of<'a>(status: &'a Value, port: u16, address: Option<&str>) -> &'a Value {
    let guards = status["guards"].as_array().expect("guards");
    guards
        .iter()
        .find(|g| g["port"] == port && g["address"].as_str() == address)
        .unwrap_or_else(|| panic!("port {port} is guarded in {status:#}"))
}

/// Packets of one reason and verdict, of a guard or one of its listeners.
pub fn packets(of: &Value, reason: &str, verdict: &str) -> u64 {
    of["verdicts"][reason][verdict].as_u64().unwrap_or(0)
}

/// Packets of a verdict, whatever its reason.
pub fn packets_with(of: &Value, verdict: &str) -> u64 {
    let reasons = of["verdicts"].as_object().expect("verdicts");
    reasons.values().map(|counts| counts[verdict].as_u64().unwrap_or(0)).sum()
}

/// The counts of one guard, from one reading of the status.
pub struct Counted {
    guard: Value,
}

impl Counted {
    /// Those of the first guard of a namespace, now.
    pub fn of(namespace: &Namespace) -> Self {
        Counted { guard: status(namespace)["guards"][0].clone() }
    }

    /// Packets with this reason and verdict.
    pub fn packets(&self, reason: &str, verdict: &str) -> u64 {
        packets(&self.guard, reason, verdict)
    }

    /// Packets with this reason, whatever the verdict.
    pub fn reason(&self, reason: &str) -> u64 {
        let verdicts = self.guard["verdicts"][reason].as_object();
        verdicts.map_or(0, |v| v.values().filter_map(Value::as_u64).sum())
    }

    /// All packets that were judged at the SYN or ACK stage.
    pub fn all(&self) -> u64 {
        let reasons = self.guard["verdicts"].as_object().expect("verdicts by reason");
        reasons.keys().map(|reason| self.reason(reason)).sum()
    }

    /// The queue drops of one rule.
    pub fn queue_drops(&self, rule: &str) -> u64 {
        self.guard["queue_drops"][rule].as_u64().unwrap_or_else(|| panic!("no rule {rule}"))
    }

    /// Reservations cleaned.
    pub fn cleaned(&self) -> u64 {
        self.guard["reservations_cleaned"].as_u64().expect("a number")
    }

    /// The lengths of the first listening socket's listen queue and SYN queue.
    pub fn queues(&self) -> (u64, u64) {
        let listener = &self.guard["listeners"][0];
        let length = |queue: &str| listener[queue]["length"].as_u64().expect("a listening socket");
        (length("listen_queue"), length("syn_queue"))
    }

    /// What the kernel itself counted on the first listening socket.
    pub fn kernel_drops(&self) -> u64 {
        self.guard["listeners"][0]["kernel_drops"].as_u64().expect("a listening socket")
    }

    /// The mechanism in force.
    pub fn mechanism(&self) -> &str {
        self.guard["mechanism"].as_str().expect("a name")
    }
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.guard)
    }
}
