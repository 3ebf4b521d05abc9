// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--runs N` runs everything N times, each time with other clients, and what is said is said of all.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{succeeds, tidelab};

const SCENARIO: &str = r#"
title = "By turns"
source = "us"
[server]
cost_us = 2000
[load]
offered = [0.5, 3]
duration_s = 0.5
warm_up_s = 0.1
[[curve]]
mechanism = "default"
[[curve]]
mechanism = "abort"
[[curve]]
mechanism = "abort rst-syn"
[[claim]]
says = "Nobody serves much more than the best of the others"
source = "us"
curve = "abort rst-syn"
than = ["default", "abort"]
measure = "replies_per_s"
offered = [0.5, 3]
take = "max"
at_most = 2
"#;

#[test]
fn every_point_is_run_as_often_as_was_asked_for_each_time_with_other_clients() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("turns.toml"), SCENARIO).unwrap();
    let output = succeeds(folder, "run turns.toml --world sim --full --runs 3 --out it");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("✓ held") && !said.contains("undecided"), "{said}");

    let lines = fs::read_to_string(folder.join("it/result.jsonl")).unwrap();
    let points: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(points.len(), 3 * 2 * 3, "runs, loads, curves");
    let of = |point: &serde_json::Value| {
        (point["curve"].to_string(), point["offered_over_capacity"].to_string())
    };
    for cell in points.iter().map(of).collect::<BTreeSet<_>>() {
        let same = points.iter().filter(|point| of(point) == cell);
        let seeds: BTreeSet<u64> = same.map(|point| point["seed"].as_u64().unwrap()).collect();
        assert_eq!(seeds, BTreeSet::from([1, 2, 3]), "{cell:?}");
    }
    let page = fs::read_to_string(folder.join("it/report.html")).unwrap();
    let command = "<code>tidelab run turns.toml --world sim --full --runs 3 --out it</code>";
    assert!(page.contains(command), "who reads it can repeat it");
}

/// None is no number of runs, and that is said in one line.
#[test]
fn no_run_at_all_is_refused() {
    let output = tidelab(Path::new("."), "run turns.toml --runs 0");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("1..=1000"), "{said}");
}
