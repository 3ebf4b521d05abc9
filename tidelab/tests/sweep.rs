// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sweep that was spread over machines is read back as one, from lines and from Parquet.
#![cfg(feature = "parquet")]

mod common;

use std::fs;
use std::path::Path;

use common::{succeeds, tidelab};

const SCENARIO: &str = r#"
title = "A part of a sweep"
source = "us"
[server]
cost_us = 2000
[load]
offered = [0.5, 3]
duration_s = 0.2
warm_up_s = 0.1
seed = SEED
[[curve]]
mechanism = "default"
[[curve]]
mechanism = "abort rst-syn"
"#;

fn page(folder: &Path) -> String {
    succeeds(folder, "report one other --out page.html");
    fs::read_to_string(folder.join("page.html")).unwrap()
}

#[test]
fn parts_of_a_sweep_make_one_report_whatever_they_are_written_in() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (part, seed) in [("one", "1"), ("other", "2")] {
        fs::write(folder.join("sweep.toml"), SCENARIO.replace("SEED", seed)).unwrap();
        let run = format!("run sweep.toml --world sim --format parquet --out {part}");
        succeeds(folder, &run);
    }
    let lines = page(folder);
    for part in ["one", "other"] {
        fs::remove_file(folder.join(part).join("result.jsonl")).unwrap();
        assert_eq!(page(folder), lines, "without the lines of {part}");
    }
    let only = fs::read(folder.join("page.html")).unwrap();
    succeeds(folder, "report one --out page.html");
    assert_ne!(fs::read(folder.join("page.html")).unwrap(), only, "the other part was in it");

    // A further run into a folder that came without its lines adds to it: to all of them, or there are none
    // yet, whatever an earlier one left of them.
    let further = "run sweep.toml --world sim --format parquet --out one";
    let part = folder.join("one/result.jsonl.part");
    fs::create_dir(&part).unwrap();
    assert!(!tidelab(folder, further).status.success(), "they cannot be written");
    assert!(!folder.join("one/result.jsonl").exists());
    fs::remove_dir(&part).unwrap();
    fs::write(&part, "{\"scenario\": ").unwrap();
    succeeds(folder, further);
    assert!(!part.exists());
    let all = fs::read_to_string(folder.join("one/result.jsonl")).unwrap();
    assert_eq!(all.lines().count(), 8, "{all}");
}
