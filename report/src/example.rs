// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Points and a scenario for tests.

use tidegate_scenarios::Scenario;

use crate::point::{Point, Times, World};

/// A live point of the scenario `s`, with ordinary numbers.
pub(crate) fn point(curve: &str, offered: f64) -> Point {
    Point {
        scenario: "s".to_owned(),
        world: World::Live,
        curve: curve.to_owned(),
        mechanism: curve.to_owned(),
        server: "userver".to_owned(),
        clients: "linux".to_owned(),
        tcp: None,
        capacity_per_s: 1000.0,
        offered_per_s: offered * 1000.0,
        offered_over_capacity: offered,
        attempts: (offered * 5000.0) as u64,
        replies_per_s: 900.0,
        replies_per_s_ci95: None,
        response_ms: Times {
            mean: 30.0,
            ci95: Some(1.0),
            p50: 28.0,
            p90: 41.0,
            p99: 60.0,
            max: 75.0,
            deviation: 9.0,
        },
        refusal_ms: Times::default(),
        delay_ms: Times::default(),
        errors_per_s: [("timeout".to_owned(), 100.0)].into(),
        answered_within_per_s: [].into(),
        queue_drops_per_s: [("ListenQFullAtSyn".to_owned(), 250.0)].into(),
        verdicts_per_s: [].into(),
        syns_per_attempt: [].into(),
        segments: [].into(),
        cpu: [].into(),
        cpu_components: [].into(),
        cpu_calls: [].into(),
        visits: [].into(),
        networks: [].into(),
        serving: [].into(),
        time_wait: [].into(),
        seconds: [].into(),
        kernel: [].into(),
        kernel_s: None,
        late_p99_ms: 0.2,
        warnings: Vec::new(),
        duration_s: 5.0,
        seed: 1,
    }
}

/// The scenario `s`: curves `default` and `abort` at 0.5, 1, 2 and 4 × capacity, in short 1 and 3,
/// with these tables of TOML behind. Where a claim is about seconds, its clients come by steps, which are
/// of one rate: twice the capacity, for half a minute.
pub(crate) fn scenario(more: &str) -> Scenario {
    let load = match more.contains("\nseconds = ") {
        true => "offered = [2]\n[clients]\narrivals = { steps = [{ lasts_s = 30, times = 1 }] }",
        false => "offered = [0.5, 1, 2, 4]\nshort = { offered = [1, 3] }",
    };
    let text = format!(
        r#"title = "Overload"
source = "us"
[load]
{load}
[[curve]]
mechanism = "default"
[[curve]]
mechanism = "abort"
{more}"#
    );
    Scenario::parse("s", "s.toml", &text).expect("the text is right")
}
