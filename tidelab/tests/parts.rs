// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What takes too long at once is run in parts, by `--only` and `--offered`, into one folder.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use common::{succeeds, tidelab};

const SCENARIO: &str = r#"
title = "In parts"
source = "us"
[load]
offered = [0.5, 3]
duration_s = 0.5
warm_up_s = 0.1
[[factor]]
name = "Server"
levels = [
    { name = "slow", short = true, server = { cost_us = 2000 } },
    { name = "slower", server = { cost_us = 4000 } },
]
[[curve]]
mechanism = "default"
[[curve]]
mechanism = "abort"
[[claim]]
says = "Both serve alike"
source = "us"
curve = "abort"
than = "default"
measure = "replies_per_s"
offered = [0.5, 3]
take = "max"
at_most = 2
"#;

fn points(folder: &Path) -> BTreeSet<String> {
    let lines = fs::read_to_string(folder.join("result.jsonl")).unwrap();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn parts_that_are_run_into_one_folder_make_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let run = |rest: &str| {
        let output = succeeds(folder, &format!("run s.toml --world sim --full {rest}"));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let whole = run("--out whole");
    assert!(whole.contains("✓ held"), "{whole}");

    let first = run("--only slower --out parts");
    assert!(first.contains("undecided"), "{first}");
    let second = run("--only slow --offered 3 --out parts");
    assert!(second.contains("undecided"), "{second}");
    run("--only slow --offered 0.5 --only default --out parts");
    let last = run("--only slow --offered 0.5 --only abort --out parts");
    assert!(last.contains("✓ held"), "{last}");
    assert_eq!(points(&folder.join("parts")), points(&folder.join("whole")));

    // A folder's results are named as well by their file.
    let [by_folder, by_file] = ["parts", "parts/result.jsonl"].map(|named| {
        succeeds(folder, &format!("report {named} --out page.html"));
        fs::read(folder.join("page.html")).unwrap()
    });
    assert!(by_folder == by_file, "the same page");
    fs::remove_file(folder.join("parts/report.html")).unwrap();
    succeeds(folder, "report parts/result.jsonl");
    assert!(folder.join("parts/report.html").is_file(), "it lies with the results");
}

/// Other clients come: with those of the first run once more the interval over runs would tell of nothing.
#[test]
fn a_further_run_into_a_folder_has_seeds_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let run = |rest: &str| succeeds(folder, &format!("run s.toml --world sim --full {rest}"));
    run("--only slow --runs 2 --out by-and-by");
    run("--only slow --offered 3 --out by-and-by");
    run("--only slow --offered 0.5 --out by-and-by");
    run("--only slow --runs 3 --out at-once");
    assert_eq!(points(&folder.join("by-and-by")), points(&folder.join("at-once")));
}

/// Whatever was run of it, and in which order.
#[test]
fn no_cell_has_a_seed_twice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    fs::create_dir(folder.join("other")).unwrap();
    fs::write(folder.join("other/s.toml"), SCENARIO.replace("In parts", "In others")).unwrap();
    let rest = "--world sim --full --offered 3 --only slow --out it";
    let run = |part: &str| succeeds(folder, &format!("run {part} {rest}"));
    run("s.toml --only default --runs 3");
    run("s.toml");
    // The same file twice is one scenario.
    run("s.toml s.toml --only abort");
    let points = points(&folder.join("it"));
    let seeds = |curve: &str| -> BTreeSet<u64> {
        let all =
            points.iter().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let of = all.filter(|point| point["curve"].as_str().unwrap().contains(curve));
        of.map(|point| point["seed"].as_u64().unwrap()).collect()
    };
    assert_eq!(seeds("default"), BTreeSet::from([1, 2, 3, 4]));
    assert_eq!(seeds("abort"), BTreeSet::from([4, 5]));
    let output = tidelab(folder, "run s.toml other/s.toml --world sim");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("two scenarios are called s: rename one of the files"), "{said}");
    assert!(!output.status.success());
}

#[test]
fn a_point_lasts_as_long_as_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let run = "run s.toml --world sim --only slower --only abort --offered 3";
    succeeds(folder, &format!("{run} --duration 250ms --out it"));
    let points = points(&folder.join("it"));
    let point: serde_json::Value = serde_json::from_str(points.first().unwrap()).unwrap();
    assert_eq!((points.len(), point["duration_s"].as_f64()), (1, Some(0.25)), "{point}");
}

/// Before anything is run, and of every scenario: the second has no such level.
#[test]
fn no_part_at_all_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    fs::write(folder.join("t.toml"), SCENARIO.replace("slower", "slowest")).unwrap();
    let mistakes = [
        ("--only slower", "t: it has no \"slower\"; there are \"slow\", \"slowest\""),
        ("--offered 0", "s: offered 0 is an impossible rate"),
        ("--offered 2,1", "s: offered must rise"),
        ("--duration 0s", "s: duration_s 0 is not 0.001 to 86400"),
    ];
    for (part, expected) in mistakes {
        let output = tidelab(folder, &format!("run s.toml t.toml --world sim --out it {part}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(expected), "{part}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!folder.join("it").exists(), "{part}");
    }
}

/// What is told of a command that must fail.
fn fails(folder: &Path, arguments: &str) -> String {
    let output = tidelab(folder, arguments);
    assert!(!output.status.success(), "{arguments}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn results_of_another_experiment_of_the_same_name_are_no_further_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |text: &str| fs::write(folder.join("s.toml"), text).unwrap();
    let run = "run s.toml --world sim --only slow --offered 3";
    write(SCENARIO);
    succeeds(folder, &format!("{run} --out one"));
    let machine = format!("{run} --machine xeon --out one");
    let told = fails(folder, &machine);
    assert!(told.contains("one holds results of another simulated machine"), "{told}");
    write(&SCENARIO.replace("2000", "3000"));
    let told = fails(folder, &format!("{run} --out one"));
    assert!(told.contains("one holds results of another scenario s"), "{told}");
    assert_eq!(points(&folder.join("one")).len(), 2, "what is there is as it was");

    succeeds(folder, &format!("{run} --out other"));
    let told = fails(folder, "report one other --out page.html");
    assert!(told.contains("other holds results of another scenario s than one"), "{told}");

    // Another seed is another run.
    write(&format!("{}\n", SCENARIO.replace("[load]", "[load]\nseed = 7")));
    succeeds(folder, &format!("{run} --out one"));
    assert_eq!(points(&folder.join("one")).len(), 4);
}

/// A run that was refused, or that came to no point, is no experiment that others could be mixed up with.
#[test]
fn what_came_to_nothing_stands_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let run =
        |files: &str, rest: &str| format!("run {files} --world sim --only slow --offered 3 {rest}");
    // The simulator has no nginx of then.
    write("s.toml", &SCENARIO.replace("cost_us = 2000", "kind = \"nginx\""));
    let told = fails(folder, &run("s.toml", "--machine xeon --out it"));
    assert!(told.contains("is left out") && points(&folder.join("it")).is_empty(), "{told}");
    write("s.toml", SCENARIO);
    succeeds(folder, &run("s.toml", "--out it"));

    write("t.toml", SCENARIO);
    write("s.toml", &SCENARIO.replace("2000", "3000"));
    let told = fails(folder, &run("t.toml s.toml", "--out it"));
    assert!(told.contains("it holds results of another scenario s"), "{told}");
    assert!(!folder.join("it/scenarios/t.toml").exists(), "nothing is written of what is refused");

    // Of each scenario there is one machine, though of both there are two.
    succeeds(folder, &run("t.toml", "--machine xeon --out other"));
    succeeds(folder, "report it other --out page.html");
}

/// Who finds nothing of it would take it for not asked for.
#[test]
fn a_scenario_of_which_nothing_could_be_run_is_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let page = || fs::read_to_string(folder.join("it/report.html")).unwrap();
    let apache = SCENARIO.replace("cost_us = 2000", "kind = \"apache2\"");
    fs::write(folder.join("s.toml"), apache.replace("In parts", "In vain")).unwrap();
    fs::write(folder.join("t.toml"), SCENARIO).unwrap();
    let run = |files: &str| {
        let rest = "--only slow --offered 3 --out it";
        fails(folder, &format!("run {files} --world sim {rest}"))
    };
    let told = "&quot;abort, slow&quot; is left out, simulated: ";
    run("s.toml");
    assert!(page().contains("There are no points of") && page().contains(told), "{}", page());
    run("s.toml t.toml");
    assert!(page().contains("In vain") && page().contains(told), "{}", page());
    fs::remove_file(folder.join("it/report.html")).unwrap();
    succeeds(folder, "report it");
    assert!(page().contains("In vain") && page().contains("In parts"), "{}", page());
    // Also from within.
    fs::remove_file(folder.join("it/report.html")).unwrap();
    succeeds(&folder.join("it"), "report result.jsonl");
    assert!(page().contains("In vain") && page().contains("In parts"), "{}", page());
}

/// A trace is what is in it: not its name, nor where it lies.
#[test]
fn results_of_another_trace_are_no_further_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    let run = |rest: &str| format!("run {rest} --world sim --only slow --offered 3");
    let clients = "[clients]\narrivals = { trace = \"t.txt\" }\n[load]";
    let text = SCENARIO.replace("[load]", clients);
    for (place, trace) in [("one", "0\n0.5\n2\n"), ("other", "0\n1\n2\n")] {
        fs::create_dir(folder.join(place)).unwrap();
        write(&format!("{place}/s.toml"), &text);
        write(&format!("{place}/t.txt"), trace);
    }
    succeeds(folder, &run("one/s.toml --out it"));
    let told = fails(folder, &run("other/s.toml --out it"));
    assert!(told.contains("it holds results of another scenario s"), "{told}");
    succeeds(folder, &run("other/s.toml --out others"));
    let told = fails(folder, "report it others --out page.html");
    assert!(told.contains("others holds results of another scenario s than it"), "{told}");

    // The same, said in other words, elsewhere.
    write("other/s.toml", &text.replace("Both serve alike", "Both serve the same"));
    write("other/t.txt", "0\n0.5\n2\n");
    succeeds(folder, &run("other/s.toml --out it"));
    assert_eq!(points(&folder.join("it")).len(), 4);

    fs::remove_file(folder.join("other/t.txt")).unwrap();
    let told = fails(folder, &run("other/s.toml --out new"));
    assert!(told.contains("other/t.txt: ") && !folder.join("new").exists(), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

/// Which came with the program, or in which file it lies; and who reads the terminal is told that it was.
#[test]
fn what_is_simulated_names_its_machine() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let run = |machine: &str, out: &str| {
        let rest = format!("--only slow --offered 3 --machine {machine} --out {out}");
        let output = succeeds(folder, &format!("run s.toml --world sim {rest}"));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("In parts (us), simulated\n"), "{said}");
        fs::read_to_string(folder.join(out).join("report.html")).unwrap()
    };
    let page = run("today", "one");
    assert!(page.contains("simulated, machine today") && !page.contains("<dt>Kernel"), "{page}");
    let machine = fs::read_to_string(folder.join("one/simulated.toml")).unwrap();
    fs::write(folder.join("m.toml"), machine.replace("wire_ns = 10000", "wire_ns = 10001"))
        .unwrap();
    let page = run("m.toml", "other");
    assert!(page.contains("simulated, machine simulated.toml"), "{page}");
}

/// Not those of the first folder alone, nor that of a simulator where there are live points.
#[test]
fn a_page_has_the_machines_of_its_points() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    for name in ["one", "other"] {
        let rest = "--world sim --only slow --offered 3 --out";
        succeeds(folder, &format!("run s.toml {rest} {name}"));
        let host = format!("{{\"kernel\": \"kernel {name}\", \"processors\": \"some\"}}");
        fs::write(folder.join(name).join("host.json"), host).unwrap();
    }
    let page = || {
        succeeds(folder, "report one other --out page.html");
        fs::read_to_string(folder.join("page.html")).unwrap()
    };
    let both = page();
    assert!(both.contains("kernel one") && both.contains("kernel other"), "{both}");
    let lines = folder.join("other/result.jsonl");
    let live = fs::read_to_string(&lines).unwrap().replace("\"sim\"", "\"live\"");
    fs::write(lines, live).unwrap();
    let page = page();
    assert!(!page.contains("kernel one") && page.contains("kernel other"), "{page}");
}
