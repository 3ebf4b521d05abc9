// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate size` recommends queues that hold a burst before a real server.

use std::time::Duration;

use serde_json::Value;
use tidegate_crowd::Load;
use tidegate_lab::Counters;
use tidegate_tests::slow::{LONG_BACKLOG, Slow, send};
use tidegate_tests::{Stage, run_to_end, skip_without_root};

/// For so long others may keep the server from its processor, though it sleeps through its requests.
const PAUSE_MS: f64 = 200.0;
const TARGET: f64 = 0.001;

/// What the server takes while clients wait.
fn drain_per_s(stage: &Stage) -> f64 {
    let _server = Slow::start(stage, LONG_BACKLOG);
    send(stage, Load::Closed { clients: 16 }, Duration::from_secs(2)).replies_per_s
}

fn size(stage: &Stage, arguments: &[String]) -> Value {
    let words: Vec<&str> =
        ["size", "--json"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let output = run_to_end(&stage.server, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("size prints JSON")
}

/// The share of SYNs that were dropped as the kernel counts them, in a burst before so long a queue.
fn dropped(stage: &Stage, backlog: u64, burst_per_s: f64, burst_s: f64) -> f64 {
    let _server = Slow::start(stage, backlog);
    let before = Counters::of(&stage.server).expect("the kernel's counters");
    let lasts = Duration::from_secs_f64(burst_s);
    let outcome = send(stage, Load::Poisson { per_s: burst_per_s }, lasts);
    assert_eq!(outcome.replies, outcome.attempts, "{outcome:?}");
    let since = Counters::of(&stage.server).expect("counters").since(&before).expect("the same");
    let drops = since.get("TcpExtListenDrops").expect("a counter of this kernel") as f64;
    drops / (outcome.attempts as f64 + drops)
}

#[test]
fn recommended_queues_hold_three_bursts_and_a_third_of_them_does_not() {
    if skip_without_root("recommended_queues_hold_three_bursts_and_a_third_of_them_does_not") {
        return;
    }
    let stage = Stage::new("size");
    let drain = drain_per_s(&stage);
    for (times, burst_s) in [(2.0, 1.0), (3.0, 0.7), (5.0, 0.4)] {
        let burst = times * drain;
        let asked = [
            format!("--drain-per-s={drain}"),
            format!("--burst-per-s={burst}"),
            format!("--burst-s={burst_s}"),
            format!("--drops={TARGET}"),
            format!("--pause-ms={PAUSE_MS}"),
            "--rtt-ms=1".to_owned(),
        ];
        let recommended =
            size(&stage, &asked)["recommended"]["backlog"].as_u64().expect("a number");
        let share = dropped(&stage, recommended, burst, burst_s);
        assert!(share <= TARGET, "{share} with {recommended} places: {times} × {drain}");
        let third = dropped(&stage, recommended / 3, burst, burst_s);
        assert!(third > TARGET, "{third} with {} places: {times} × {drain}", recommended / 3);
    }
}
