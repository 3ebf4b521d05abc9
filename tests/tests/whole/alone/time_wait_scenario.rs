// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT in scenarios, live: the crowd speaks TW-Negotiate to `tidegate` on the server,
//! and does close_swap by itself (Faber, Touch and Yue, sections 3 and 4.1).

use std::fs;
use std::process::Command;

use serde_json::Value;
use tidegate_lab::skip_without_root;
use tidegate_tests::tidelab_program;

const SCENARIO: &str = r#"title = "Who holds"
source = "a test"
[server]
cost_us = 1000
[clients]
timeout_s = 1
[load]
offered = [0.25]
duration_s = 2
warm_up_s = 1
"#;

/// What a curve says, who closes first, and who holds TIME-WAIT.
type Curve = (&'static str, &'static str, &'static str);

/// One of each system, where it moves TIME-WAIT to the other end.
const MOVED: [Curve; 3] = [
    ("peer = \"kernel\"\ntime_wait = \"close-swap\"", "server", "clients"),
    ("mechanism = \"default\"\ntime_wait = \"negotiate-client\"", "server", "clients"),
    ("mechanism = \"default\"\ntime_wait = \"negotiate-server\"", "client-close", "server"),
];

/// Where it stays.
const LEFT: [Curve; 4] = [
    ("peer = \"kernel\"", "server", "server"),
    ("peer = \"kernel\"\ntime_wait = \"close-swap\"", "client-close", "clients"),
    ("mechanism = \"default\"\ntime_wait = \"negotiate-client\"", "client-close", "clients"),
    ("mechanism = \"default\"\ntime_wait = \"negotiate-server\"", "server", "server"),
];

#[test]
fn a_curve_moves_time_wait_to_the_other_end() {
    if skip_without_root("a_curve_moves_time_wait_to_the_other_end") {
        return;
    }
    who_holds(&MOVED);
}

#[test]
#[ignore = "half a minute, and nothing moves"]
fn a_curve_leaves_time_wait_where_it_belongs_already() {
    if skip_without_root("a_curve_leaves_time_wait_where_it_belongs_already") {
        return;
    }
    who_holds(&LEFT);
}

fn who_holds(curves: &[Curve]) {
    let mut text = SCENARIO.to_owned();
    for (place, (says, close, _)) in curves.iter().enumerate() {
        let clients = format!("clients = {{ close = \"{close}\" }}");
        text += &format!("[[curve]]\nname = \"{place}\"\n{says}\n{clients}\n");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (file, out) = (folder.path().join("who.toml"), folder.path().join("out"));
    fs::write(&file, text).expect("a scenario");
    let mut command = Command::new(tidelab_program());
    let ran = command.arg("run").arg(&file).arg("--out").arg(&out).output().expect("tidelab");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));

    let results = fs::read_to_string(out.join("result.jsonl")).expect("results");
    let points: Vec<Value> =
        results.lines().map(|line| serde_json::from_str(line).expect("a point a line")).collect();
    assert_eq!(points.len(), curves.len());
    for (point, (says, close, holder)) in points.iter().zip(curves) {
        let held = |end: &str| point["time_wait"][end].as_f64().expect("a number");
        let all = held("server") + held("clients");
        assert!(held(holder) > 0.97 * all, "{says}, {close} first: {point}");
        // The second before the counted time, and that.
        let replies = point["replies_per_s"].as_f64().expect("a number") * 3.0;
        assert!((0.7..1.3).contains(&(all / replies)), "{says}, {close} first: {point}");
    }
}
