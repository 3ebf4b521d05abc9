// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What our own servers count of themselves, read while they serve.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};
use tidegate_servers::Statistics;

use crate::error::LiveError;

/// A server at its limit has the processor to itself, and its signal thread waits its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks a server for its statistics: it writes the file anew at every SIGUSR1.
pub(super) fn ask(
    namespace: &Namespace,
    server: &Child,
    file: &str,
    earlier: Option<&Statistics>,
) -> Result<Statistics, LiveError> {
    let unheard = |reason: String| LiveError::Ended { program: "the server".to_owned(), reason };
    let before_ns = earlier.map_or(0, |earlier| earlier.elapsed_ns);
    server.signal(Signal::SIGUSR1).map_err(|error| unheard(error.to_string()))?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The file is not there before the first answer.
        if let Ok(text) = namespace.read_file(file) {
            let read: Statistics =
                serde_json::from_str(&text).map_err(|error| unheard(error.to_string()))?;
            if read.elapsed_ns > before_ns {
                return Ok(read);
            }
        }
        if Instant::now() >= deadline {
            return Err(unheard(format!("it wrote no statistics within {PATIENCE:?}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What happened between two readings, as results name it.
pub(super) fn between(earlier: &Statistics, later: &Statistics) -> BTreeMap<String, f64> {
    let counted = Statistics {
        accepted: later.accepted - earlier.accepted,
        dead_connections: later.dead_connections - earlier.dead_connections,
        event_calls: later.event_calls - earlier.event_calls,
        fds_told: later.fds_told - earlier.fds_told,
        accept_phases: later.accept_phases - earlier.accept_phases,
        work_phases: later.work_phases - earlier.work_phases,
        work_items: later.work_items - earlier.work_items,
        elapsed_ns: later.elapsed_ns - earlier.elapsed_ns,
        ..Statistics::default()
    };
    let per_s = |count: u64| count as f64 * 1e9 / counted.elapsed_ns as f64;
    [
        ("select_rate_per_s", counted.event_calls_per_s()),
        ("fds_per_call", counted.fds_per_call()),
        ("fd_rate_per_s", counted.fds_per_s()),
        ("accept_phases_per_s", per_s(counted.accept_phases)),
        ("accepts_per_phase", counted.accepted_per_phase()),
        ("accepts_per_s", counted.accepted_per_s()),
        ("work_items_per_phase", counted.items_per_work_phase()),
        ("found_dead_per_s", per_s(counted.dead_connections)),
    ]
    .map(|(name, number)| (name.to_owned(), number))
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let between = between(&earlier, &later);
        assert_eq!(between["accepts_per_s"], 300.0);
        assert_eq!(between["accepts_per_phase"], 3.0);
        assert_eq!(
            between["fds_per_call"] * between["select_rate_per_s"],
            between["fd_rate_per_s"]
        );
        assert_eq!(between["work_items_per_phase"], 0.0);
    }
}
