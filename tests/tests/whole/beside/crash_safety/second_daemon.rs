// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second daemon, or another that finds one there.

use std::process::{Command, Output};

use nix::sys::signal::Signal;
use tidegate_lab::Namespace;
use tidegate_tests::{Answer, Counted, Guard, bpf, fetch, skip_without_root, tidegate_program};

use super::{
    Full, PATIENCE, arguments, fails_in_a_line, server, shell_with_another_run, stop,
    with_another_run,
};

#[test]
fn a_second_daemon_is_told_which_process_runs() {
    if skip_without_root("a_second_daemon_is_told_which_process_runs") {
        return;
    }
    let full = Full::new("second");
    let guard = Guard::start(&full.stage.server, &arguments("rst-syn", "ip"));
    let refused = Guard::try_start(&full.stage.server, &arguments("default", "ip"))
        .err()
        .expect("one daemon a namespace");
    let expected = format!("tidegate runs here already (process {})", guard.pid());
    assert!(refused.stderr.contains(&expected), "{}", refused.stderr);
    assert!(refused.stderr.contains("SIGHUP"), "the fix is named: {}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    // The first is not disturbed.
    assert_eq!(Counted::of(&full.stage.server).mechanism(), "rst-syn");
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused);
    guard.stop();
}

/// How that ends, and what it said.
fn ended_with_another_run(host: &Namespace, words: &str) -> Output {
    ended(host, with_another_run(words))
}

fn ended(host: &Namespace, mut command: Command) -> Output {
    host.run(move || command.output()).expect("unshare")
}

/// As a container of the host's network has it, with the host's bpffs: two would swap each other's keys, and
/// who ends first would take the guard of both down.
#[test]
fn a_second_daemon_is_refused_whose_run_is_another() {
    if skip_without_root("a_second_daemon_is_refused_whose_run_is_another") {
        return;
    }
    let full = Full::new("another-run");
    let host = &full.stage.server;
    let guard = Guard::start(host, &arguments("rst-syn", "ip"));
    let elsewhere = |words: &str| {
        let ended = ended_with_another_run(host, words);
        assert_eq!(ended.status.code(), Some(1));
        String::from_utf8(ended.stderr).expect("UTF-8")
    };
    for words in ["run --port 80 --mechanism default --hook ip", "stop"] {
        let told = elsewhere(words);
        assert!(told.contains("is another tidegate's, whose /run is not this one"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
    let stops = format!("{} stop 2>&1; ls /run", tidegate_program().display());
    let said = ended(host, shell_with_another_run(&stops)).stdout;
    let said = String::from_utf8(said).expect("UTF-8");
    assert_eq!(said.lines().count(), 1, "a stop that is refused leaves nothing in /run: {said}");
    assert_eq!(Counted::of(host).mechanism(), "rst-syn");
    assert_eq!(fetch(&full.stage.client, server(80), PATIENCE).answer, Answer::Refused);
    // Where it was killed anyone may go on, or take it down.
    guard.kill();
    assert!(ended_with_another_run(host, "stop").status.success());
    stop_says_that_nothing_stands(host);
}

/// As `tidegate metrics` is asked in such a container, while the host has the daemon.
#[test]
fn a_daemon_is_seen_to_run_whose_run_is_another() {
    if skip_without_root("a_daemon_is_seen_to_run_whose_run_is_another") {
        return;
    }
    let full = Full::new("another-runs");
    let host = &full.stage.server;
    let guard = Guard::start(host, &arguments("rst-syn", "ip"));
    let elsewhere = |words: &str| {
        let ended = ended_with_another_run(host, words);
        assert!(ended.status.success(), "{words}: {}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).expect("UTF-8")
    };
    let is_told = |runs: bool, words: &str| {
        let json = elsewhere("status --json");
        let status: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert!(status["daemon_pid"].is_null(), "{status:#}");
        assert_eq!(status["daemon_running"], runs, "{status:#}");
        let told = elsewhere("status");
        assert!(told.starts_with(words), "{told}");
        let figure = format!("\ntidegate_daemon_running {}", u8::from(runs));
        let figures = elsewhere("metrics");
        assert!(figures.contains(&figure), "{figures}");
    };
    is_told(true, "a daemon whose /run is another; ");
    guard.kill();
    is_told(false, "no daemon: the guard stands alone; ");
    stop(&full.stage);
}

fn stop_says_that_nothing_stands(host: &Namespace) {
    let told = fails_in_a_line(host, &["stop"]);
    assert!(told.contains("no guard stands here"), "{told}");
}

/// It says that it guards no more, and ends.
#[test]
fn a_daemon_in_whose_place_another_stands_leaves_that_alone() {
    if skip_without_root("a_daemon_in_whose_place_another_stands_leaves_that_alone") {
        return;
    }
    let full = Full::new("replaced");
    let host = &full.stage.server;
    let mut first = Guard::start(host, &arguments("rst-syn", "ip"));
    first.signal(Signal::SIGSTOP);
    host.output(host.command(&format!("rm -r {}", bpf::PINS))).expect("they are removed");
    let second = with_another_run("run --port 80 --mechanism rst-syn --hook ip");
    let mut second = Guard::launch(host, second, "guarding ").expect("nobody has the folder");
    first.signal(Signal::SIGCONT);
    let told = first.complaint().expect("it says so");
    assert!(told.contains("is another tidegate's"), "{told}");
    let stands = bpf::pinned(host);
    first.terminate();
    assert_eq!(bpf::pinned(host), stands);
    assert_eq!(fetch(&full.stage.client, server(80), PATIENCE).answer, Answer::Refused);
    second.terminate();
    stop_says_that_nothing_stands(host);
}
