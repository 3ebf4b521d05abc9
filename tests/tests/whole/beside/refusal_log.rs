// SPDX-License-Identifier: Apache-2.0 OR MIT
//! With `log` a listener's refusals are told one by one, with client, listener, what was done and
//! why: no more of them than were asked for, and none of another listener.

use std::fs;
use std::net::SocketAddr;
use std::thread::{available_parallelism, sleep};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tidegate_tests::{
    Answer, CLIENT_V4, CLIENT_V6, Guard, Plain, SERVER_V4, SERVER_V6, Spoofed, Stage, Stalled,
    fetch, fill, skip_without_root,
};

const PATIENCE: Duration = Duration::from_millis(200);
const CONFIGURATION: &str = "\
    [[listener]]\nport = 80\nmechanism = \"abort rst-syn\"\nlog = true\n\
    [[listener]]\nport = 81\nmechanism = \"abort rst-syn\"\n\
    [[listener]]\nport = 82\nmechanism = \"abort\"\nlog = 1000\n\
    [[listener]]\nport = 83\nlog = 10\nhook = \"driver\"\nshed = { p = 1, refuse = \"rst\" }\n\
    [[listener]]\nport = 84\nlog = 10\nmechanism = \"abort early-syn-drop\"\nhook = \"tcp\"\n";

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// A listener with no room at all.
fn full(stage: &Stage, to: SocketAddr) -> (Stalled, Vec<Plain>) {
    (Stalled::new(&stage.server, to, 0), fill(&stage.client, to, 1))
}

/// The next line, and that it is of these two with this end.
fn tells(guard: &mut Guard, from: &str, to: SocketAddr, end: &str) {
    let line = guard.told().unwrap_or_else(|| panic!("{to}: nothing is told"));
    assert!(line.starts_with(from), "{line} should begin with {from}");
    assert!(
        line.trim_end().ends_with(&format!(" > {to}: {end}")),
        "{line} should be of {to}: {end}"
    );
}

#[test]
fn a_refusal_is_told_with_client_listener_and_reason() {
    if skip_without_root("a_refusal_is_told_with_client_listener_and_reason") {
        return;
    }
    let stage = Stage::new("refusal-log");
    stage.receive_offload();
    let v6 = at(SERVER_V6, 80);
    let v4 = [80, 81, 82, 83, 84].map(|port| at(SERVER_V4, port));
    let _full: Vec<_> = v4.into_iter().chain([v6]).map(|to| full(&stage, to)).collect();
    stage.server.run(|| fs::write("/run/tidegate.toml", CONFIGURATION).expect("a file"));
    let mut guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    for _ in 1..CONFIGURATION.matches("port").count() {
        assert!(guard.told().is_some_and(|line| line.starts_with("guarding ")), "the others");
    }
    let meets = |to, answer| assert_eq!(fetch(&stage.client, to, PATIENCE).answer, answer, "{to}");

    // The one that nobody wants to hear of comes first, and is not told.
    meets(v4[1], Answer::Refused);
    meets(v4[0], Answer::Refused);
    let is_full = "refused with RST: the listen queue is full (ListenQFullAtSyn)";
    tells(&mut guard, CLIENT_V4, v4[0], is_full);
    // Credit for one is there after 100 ms.
    sleep(Duration::from_millis(150));
    meets(v6, Answer::Refused);
    tells(&mut guard, &format!("[{CLIENT_V6}]"), v6, is_full);
    meets(v4[2], Answer::Silence);
    let by_kernel =
        "passed, and dropped in silence by the kernel: the listen queue is full (ListenQFullAtSyn)";
    tells(&mut guard, CLIENT_V4, v4[2], by_kernel);
    meets(v4[3], Answer::Refused);
    let shed = "refused with RST: the hash of this client or connection is in the share that is \
                shed (ShedStateless)";
    tells(&mut guard, CLIENT_V4, v4[3], shed);
    meets(v4[4], Answer::Silence);
    let early = "dropped in silence: the listen queue is full (ListenQFullAtSyn)";
    tells(&mut guard, CLIENT_V4, v4[4], early);
    guard.stop();
}

#[test]
fn what_was_refused_while_no_daemon_ran_is_not_told_as_if_it_were_of_now() {
    if skip_without_root("what_was_refused_while_no_daemon_ran") {
        return;
    }
    let stage = Stage::new("refusal-left");
    let (left, now) = (at(SERVER_V4, 80), at(SERVER_V6, 80));
    let _full = [left, now].map(|to| full(&stage, to));
    stage.server.run(|| {
        let text = "[[listener]]\nport = 80\nmechanism = \"rst-syn\"\nlog = true\n";
        fs::write("/run/tidegate.toml", text).expect("a file");
    });
    let arguments = ["--config", "/run/tidegate.toml"];
    Guard::start(&stage.server, &arguments).kill();
    assert_eq!(fetch(&stage.client, left, PATIENCE).answer, Answer::Refused);
    let mut guard = Guard::start(&stage.server, &arguments);
    // Credit for one more is there after 100 ms.
    sleep(Duration::from_millis(150));
    assert_eq!(fetch(&stage.client, now, PATIENCE).answer, Answer::Refused);
    let is_full = "refused with RST: the listen queue is full (ListenQFullAtSyn)";
    tells(&mut guard, &format!("[{CLIENT_V6}]"), now, is_full);
    // Nor what was refused before nobody was to be told: it is told before that.
    let log = |is_told: bool| {
        let text = format!("[[listener]]\nport = 80\nmechanism = \"rst-syn\"\nlog = {is_told}\n");
        stage.server.run(|| fs::write("/run/tidegate.toml", text).expect("a file"));
    };
    log(false);
    sleep(Duration::from_millis(150));
    assert_eq!(fetch(&stage.client, left, PATIENCE).answer, Answer::Refused);
    guard.signal(Signal::SIGHUP);
    tells(&mut guard, CLIENT_V4, left, is_full);
    assert!(guard.told().is_some_and(|line| line.starts_with("guarding ")), "it is off");
    log(true);
    assert!(guard.reload().starts_with("guarding "), "and on again");
    guard.stop();
}

#[test]
fn a_flood_is_told_of_no_more_often_than_was_asked_for() {
    if skip_without_root("a_flood_is_told_of_no_more_often_than_was_asked_for") {
        return;
    }
    let stage = Stage::new("refusal-flood");
    let to = at(SERVER_V4, 80);
    let _full = full(&stage, to);
    stage.server.run(|| {
        let text = "[[listener]]\nport = 80\nmechanism = \"abort rst-syn\"\nlog = 20\n";
        fs::write("/run/tidegate.toml", text).expect("a file");
    });
    let mut guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    let mut crowd = Spoofed::on(&stage, 7);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        crowd.send(to, 100);
    }
    let most_each = 20.0 * begun.elapsed().as_secs_f64() + 2.0;
    // Two looks of the daemon later all is told.
    sleep(Duration::from_millis(700));
    guard.signal(Signal::SIGHUP);
    let mut told = 0;
    loop {
        let line = guard.told().expect("an announcement at last");
        if line.starts_with("guarding ") {
            break;
        }
        assert!(line.starts_with("198.1") && line.contains("ListenQFullAtSyn"), "{line}");
        told += 1;
    }
    let processors = available_parallelism().expect("processors").get();
    let most = most_each * processors as f64;
    // Half of what one processor may: a rest of the machine of more than 100 ms is not made up for.
    assert!(told >= 10, "one processor may tell of 20: {told}");
    assert!(f64::from(told) <= most, "{told} were told, and {most} is the most");
    guard.stop();
}
