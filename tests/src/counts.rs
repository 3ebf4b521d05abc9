// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads what `tidegate status --json` counted.

use serde_json::Value;

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
