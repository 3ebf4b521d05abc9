// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a measure is called where people read it.

use crate::number::Unit;

/// What stands above a figure of a measure, with its unit, which its axis leaves out: the measure's own
/// name, or what the scenario calls it.
pub(super) fn title(measure: &str, given: Option<&str>) -> String {
    let name = given.map_or_else(|| name(measure), str::to_owned);
    match unit_words(measure) {
        "" => name,
        unit => format!("{name} ({unit})"),
    }
}

/// A measure's name without its unit.
pub(super) fn name(measure: &str) -> String {
    let (field, part) = match measure.split_once('.') {
        Some((field, part)) => (field, Some(part)),
        None => (measure, None),
    };
    let field = match field {
        "replies_per_s" => "Throughput",
        "response_ms" => "Response time",
        "refusal_ms" => "Time to a refusal",
        "delay_ms" => "Time to a reply or to giving up",
        "errors_per_s" => "Errors",
        "answered_within_per_s" => return within(part),
        "queue_drops_per_s" => "Queue drops",
        "verdicts_per_s" => "Verdicts",
        "syns_per_attempt" => "Attempts by SYNs",
        "segments" => "Segments",
        "cpu" => "Processor",
        "cpu_components" => "Processor by component",
        "cpu_calls" => "Server's time by system call",
        "visits" => "Visits",
        "networks" => return networks(part),
        "serving" => return serving(part),
        "time_wait" => return time_wait(part),
        "seconds" => return second(part).to_owned(),
        "kernel" => "Kernel counter",
        "kernel_s" => "Time of the kernel's counters",
        "late_p99_ms" => "Generator behind schedule, p99",
        "offered_per_s" => "Offered",
        "offered_over_capacity" => "Offered load",
        "capacity_per_s" => "Capacity",
        "attempts" => "Attempts",
        other => other,
    };
    match part {
        None => field.to_owned(),
        Some(part) => format!("{field}, {}", part.replace('.', " ")),
    }
}

fn within(part: Option<&str>) -> String {
    part.map_or("Answered by time".to_owned(), |ms| format!("Answered within {ms} ms"))
}

/// What clients of a group of networks saw.
fn networks(part: Option<&str>) -> String {
    let Some((group, number)) = part.and_then(|part| part.split_once('.')) else {
        return "Networks".to_owned();
    };
    let number = match number {
        "attempts_per_s" => "attempts",
        "answered_per_s" => "attempts answered",
        "success" => "attempts answered, of all",
        "success_least" => "attempts answered, of the worst network's",
        "success_most" => "attempts answered, of the best network's",
        other => other,
    };
    format!("Network \"{group}\": {number}")
}

/// What our servers count of themselves, in the thesis's words (Pariag 4.1).
fn serving(part: Option<&str>) -> String {
    match part {
        Some("select_rate_per_s") => "Event calls",
        Some("fds_per_call") => "Descriptors an event call",
        Some("fd_rate_per_s") => "Descriptors",
        Some("accept_phases_per_s") => "Accept phases",
        Some("accepts_per_phase") => "Connections an accept phase",
        Some("accepts_per_s") => "Accept rate",
        Some("work_items_per_phase") => "Items a work phase",
        Some("found_dead_per_s") => "Accepted and found dead",
        Some(other) => return format!("Server, {other}"),
        None => "Server",
    }
    .to_owned()
}

/// Who holds TIME-WAIT, in Faber's words (Table 2, Figure 6).
fn time_wait(part: Option<&str>) -> String {
    match part {
        Some("server") => "TIME-WAIT blocks at the server",
        Some("server_max") => "Most TIME-WAIT blocks at the server",
        Some("server_bytes") => "TIME-WAIT memory at the server",
        Some("server_tcbs") => "Control blocks at the server",
        Some("server_tcb_bytes") => "Memory of control blocks at the server",
        Some("clients") => "TIME-WAIT blocks at the clients",
        Some("clients_max") => "Most TIME-WAIT blocks at the clients",
        Some(other) => return format!("TIME-WAIT, {other}"),
        None => "TIME-WAIT",
    }
    .to_owned()
}

/// Counts by the second.
fn second(part: Option<&str>) -> &str {
    match part {
        Some("started") => "Attempts started",
        Some("failed") => "Attempts started that got no reply",
        Some("repeated") => "Attempts started that took more than one SYN",
        Some("replies") => "Throughput",
        Some(other) => other,
        None => "Seconds",
    }
}

fn unit_words(measure: &str) -> &'static str {
    match measure.split('.').next().unwrap_or_default() {
        "replies_per_s" => "replies/s",
        // With several requests each of these has several replies.
        "answered_within_per_s" => "attempts/s",
        "seconds" if measure.starts_with("seconds.replies") => "replies/s",
        "errors_per_s" => "errors/s",
        "queue_drops_per_s" => "drops/s",
        "offered_per_s" | "capacity_per_s" => "requests/s",
        _ => match Unit::of(measure) {
            Unit::PerSecond => "per second",
            Unit::Ms => "ms",
            Unit::Seconds => "s",
            Unit::Share => "%",
            Unit::Load => "× capacity",
            // Bytes say themselves how many they are.
            Unit::Bytes | Unit::Count | Unit::Ratio => "",
        },
    }
}

/// The letter of a figure's part: (a), (b), … (aa).
pub(super) fn letter(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    if index < 26 { last.to_string() } else { format!("{}{last}", letter(index / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_not_called_replies() {
        let own = |measure: &str| title(measure, None);
        assert_eq!(own("answered_within_per_s.900"), "Answered within 900 ms (attempts/s)");
        assert_eq!(own("replies_per_s"), "Throughput (replies/s)");
    }
}
