// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A configuration is read again, good or bad.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use tidegate_tests::{
    Answer, Counted, Guard, Nginx, Stage, bridge, fetch, fill, listen_queue, skip_without_root,
    until,
};

use super::{Configuration, Full, Load, PATIENCE, distinct, nothing_is_left, objects, server};

#[test]
fn a_bad_file_at_sighup_leaves_the_guard_as_it_was() {
    if skip_without_root("a_bad_file_at_sighup_leaves_the_guard_as_it_was") {
        return;
    }
    let full = Full::new("bad-reload");
    bridge(&full.stage.server, "br0", "10.78.0.1/24");
    let good = "[[listener]]\nport = 80\nmechanism = \"rst-syn\"\n";
    let file = Configuration::new(&full.stage, good);
    let host = &full.stage.server;
    let mut guard = Guard::start(&full.stage.server, &["--config", Configuration::PATH]);
    let attached = guard.status()["attached"].clone();
    for (bad, why) in [
        ("[[listener]]\nport = 80\nmechanism = \"rst-sin\"\n", ".toml:3: unknown mechanism"),
        ("[[listener]]\nport = 80\n[[listener]]\nport = 80\n", ".toml:3: port 80"),
        ("interfaces = [\"eth9\"]\n[[listener]]\nport = 80\n", "\"eth9\" is not here"),
        (
            // It is valid, and fails at the last step: the bridge has no such driver.
            "interfaces = [\"srv0\", \"br0\"]\n[[listener]]\nport = 80\nmechanism = \"default\"\nhook = \"driver\"\n",
            "the driver of br0",
        ),
        (
            // Another listener would have had its place.
            "interfaces = [\"srv0\", \"br0\"]\n[[listener]]\nport = 81\nhook = \"driver\"\n",
            "the driver of br0",
        ),
        (
            // Held pairs have no table here: eight would do for nobody.
            "[time_wait]\nnegotiate = \"client\"\n[[listener]]\nport = 80\n",
            "the table of TIME-WAIT has 1 blocks since the start and this asks for 4096: stop tidegate",
        ),
    ] {
        let refused = Counted::of(&full.stage.server).packets("ListenQFullAtSyn", "reset");
        file.write(bad);
        guard.signal(Signal::SIGHUP);
        let told = guard.complaint().unwrap_or_else(|| panic!("why it is not taken: {bad}"));
        assert!(told.contains("kept the configuration as it was") && told.contains(why), "{told}");
        let counted = Counted::of(&full.stage.server);
        assert_eq!(counted.mechanism(), "rst-syn", "kept: {told}");
        assert_eq!(counted.packets("ListenQFullAtSyn", "reset"), refused, "so are counts: {told}");
        assert_eq!(guard.status()["attached"], attached, "nothing else is attached: {told}");
        let seen = fetch(&full.stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "and it is still carried out: {told}");
    }
    // A pipe that nobody writes to, which never answers.
    let path = Configuration::PATH;
    host.output(host.command(&format!("rm {path}"))).expect("the file goes");
    host.output(host.command(&format!("mkfifo {path}"))).expect("a pipe");
    guard.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_secs(1));
    host.output(host.command(&format!("rm {path}"))).expect("the pipe goes");
    file.write("[[listener]]\nport = 80\nmechanism = \"abort\"\n");
    let announced = guard.reload();
    assert!(announced.contains("abort"), "a good file is taken again: {announced}");
    guard.stop();
}

/// Whether what stands could be put up anew is not asked then: a bridge that came later is judged at the
/// IP entry, and as what is new it would be refused.
#[test]
fn a_file_that_there_is_no_room_for_touches_nothing_that_stands() {
    if skip_without_root("a_file_that_there_is_no_room_for_touches_nothing_that_stands") {
        return;
    }
    let full = Full::new("no-room");
    let host = &full.stage.server;
    let good = "interfaces = [\"srv0\", \"br0\"]\n[[listener]]\nport = 80\n\
                mechanism = \"rst-syn\"\nhook = \"driver\"\n";
    let file = Configuration::new(&full.stage, good);
    let mut guard = Guard::start(host, &["--config", Configuration::PATH]);
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("interface \"br0\" is not here"), "{told}");
    bridge(host, "br0", "10.78.0.1/24");
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("the driver of br0 takes no XDP program"), "{told}");
    let attached = guard.status()["attached"].clone();
    file.write(&format!("{good}[time_wait]\nnegotiate = \"client\"\n"));
    guard.signal(Signal::SIGHUP);
    let told = guard.complaint().expect("it is not taken");
    assert!(told.contains("kept the configuration as it was"), "{told}");
    assert!(told.contains("the table of TIME-WAIT has 1 blocks"), "{told}");
    // A look would tell of the bridge again: there is one every two seconds at least.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(guard.status()["attached"], attached, "nothing else is attached");
    guard.terminate();
    let told = guard.complaint();
    assert!(told.as_ref().is_none_or(|line| line.is_empty()), "nothing else is told: {told:?}");
}

#[test]
fn mechanisms_are_swapped_under_load_and_no_request_fails() {
    if skip_without_root("mechanisms_are_swapped_under_load_and_no_request_fails") {
        return;
    }
    let stage = Stage::new("swapped");
    let nginx = Nginx::start(&stage.server, &["80 backlog=128"]);
    let text = |mechanism: &str, hook: &str| {
        format!("[[listener]]\nport = 80\nmechanism = \"{mechanism}\"\nhook = \"{hook}\"\n")
    };
    let file = Configuration::new(&stage, &text("default", "ip"));
    let mut guard = Guard::start(&stage.server, &["--config", Configuration::PATH]);
    let loads: Vec<Load> = (0..2).map(|_| Load::on(&stage, server(80), PATIENCE)).collect();
    let mut all = objects(&guard, &stage);
    for (mechanism, hook) in [
        ("abort reserv rst-syn", "ip"),
        ("abort early-syn-drop", "tcp"),
        ("rst-syn", "ip"),
        ("no-syn-drop", "ip"),
        ("abort rst-syn", "auto"),
        ("reserv", "tcp"),
        ("default", "ip"),
    ] {
        file.write(&text(mechanism, hook));
        let announced = guard.reload();
        assert!(announced.contains(&format!("with {mechanism} at {hook}")), "{announced}");
        all.extend(objects(&guard, &stage));
        assert_eq!(Counted::of(&stage.server).mechanism(), mechanism);
    }
    for load in loads {
        let answers = load.end();
        assert!(answers.len() > 100, "a load: {}", answers.len());
        assert_eq!(distinct(&answers), BTreeSet::from([Answer::Status(200)]));
    }
    // And while it is full, the swap takes effect with the next SYN.
    nginx.freeze();
    let clients = fill(&stage.client, server(80), 129);
    until("it is full", || listen_queue(&stage.server, server(80)) == 129);
    let silent = fetch(&stage.client, server(80), Duration::from_millis(100));
    assert_eq!(silent.answer, Answer::Silence);
    file.write(&text("rst-syn", "ip"));
    guard.reload();
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    drop(clients);
    guard.stop();
    nothing_is_left(&stage, &all);
}
