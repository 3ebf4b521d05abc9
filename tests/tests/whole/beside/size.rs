// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate size` finds the burst in what it sees of one before a real server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_crowd::{Class, Delay, Load, Network};
use tidegate_lab::Child;
use tidegate_tests::slow::{LONG_BACKLOG, MOST_PER_S, Slow, send, send_from, send_to};
use tidegate_tests::{Guard, LOOKS_BY, SERVER_V4, Stage, skip_without_root, tidegate_program};

const SHORT_BACKLOG: u64 = 64;
/// Python's socketserver has it.
const SHORTEST_BACKLOG: u64 = 5;
const FILE: &str = "/run/tidegate.toml";
/// Another address of the server's.
const OTHER: &str = "10.77.0.3";

/// What the guard's file says.
fn write(stage: &Stage, sections: &'static str) {
    stage.server.run(move || fs::write(FILE, sections).expect("a configuration"));
}

/// A guard of the server's, by a file.
fn guard(stage: &Stage, sections: &'static str) -> Guard {
    write(stage, sections);
    Guard::start(&stage.server, &["--config", FILE])
}

/// `tidegate size` before the guarded port, for so long.
fn watch(stage: &Stage, seconds: u32) -> Child {
    watch_with(stage, seconds, &[])
}

fn watch_with(stage: &Stage, seconds: u32, more: &[&str]) -> Child {
    let mut command = Command::new(tidegate_program());
    command.args(["size", "--json", "--port", "80", "--for", &seconds.to_string()]);
    command.args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    stage.server.spawn(command).expect("tidegate starts")
}

fn seen_by(watching: Child) -> Value {
    let output = watching.wait_with_output().expect("tidegate ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("size prints JSON")
}

fn warns(seen: &Value, of: &str) -> bool {
    let warnings = seen["warnings"].as_array().expect("a list of warnings");
    warnings.iter().any(|warning| warning.as_str().expect("a text").contains(of))
}

fn number(seen: &Value, section: &str, key: &str) -> f64 {
    seen[section][key].as_f64().unwrap_or_else(|| panic!("no {section}.{key}: {seen:#}"))
}

#[test]
fn a_burst_that_comes_is_seen_and_sized() {
    if skip_without_root("a_burst_that_comes_is_seen_and_sized") {
        return;
    }
    let stage = Stage::new("size-seen");
    let _server = Slow::start(&stage, LONG_BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "default", "ip");
    let calm = watch(&stage, 2);
    send(&stage, Load::Constant { per_s: MOST_PER_S / 10.0 }, Duration::from_millis(1500));
    let output = calm.wait_with_output().expect("tidegate ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("port 80 was too calm") && said.contains("--for"), "{said}");

    let busy = watch(&stage, 5);
    std::thread::sleep(Duration::from_millis(500));
    let (burst_per_s, burst_s) = (3.0 * MOST_PER_S, 0.8);
    let lasts = Duration::from_secs_f64(burst_s);
    let sent = send(&stage, Load::Poisson { per_s: burst_per_s }, lasts).attempts as f64;
    let seen = seen_by(busy);
    let number = |section: &str, key: &str| number(&seen, section, key);
    let arrived = number("burst", "burst_per_s") * number("burst", "burst_s");
    assert!((arrived / sent - 1.0).abs() < 0.1, "{sent} came: {seen:#}");
    // It begins and ends between two looks, and the last of it may be too little to lengthen the queue.
    assert!((burst_s - 0.2..2.0 * burst_s).contains(&number("burst", "burst_s")), "{seen:#}");
    assert!(number("burst", "drain_per_s") < 1.1 * MOST_PER_S, "{seen:#}");
    assert!(number("recommended", "backlog") >= number("seen", "queued"), "{seen:#}");
    assert!(number("seen", "queued") > sent / 2.0, "{seen:#}");
    guard.stop();
}

/// Whoever has a SYN/ACK, and whose ACK meets a full queue, has left it and was not served.
#[test]
fn before_a_queue_that_is_too_short_no_more_are_counted_than_are_served() {
    const TEST: &str = "before_a_queue_that_is_too_short_no_more_are_counted_than_are_served";
    if skip_without_root(TEST) {
        return;
    }
    let stage = Stage::new("size-short");
    let _server = Slow::start(&stage, SHORT_BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "abort", "ip");
    let watching = watch(&stage, 4);
    std::thread::sleep(Duration::from_millis(500));
    let delay = Delay::Constant { ms: 50.0 };
    let away = Class {
        network: Network { delay, ..Network::default() },
        timeout: Duration::from_secs(1),
        ..Class::default()
    };
    send_from(&stage, away, Load::Poisson { per_s: 3.0 * MOST_PER_S }, Duration::from_secs(2));
    let seen = seen_by(watching);
    assert!(number(&seen, "seen", "dropped") > 0.0, "{seen:#}");
    assert!(number(&seen, "burst", "drain_per_s") < 1.1 * MOST_PER_S, "{seen:#}");
    guard.stop();
}

const TWO_SECTIONS: &str = "[[listener]]\nport = 80\nmechanism = \"default\"\n\
    [[listener]]\nport = 80\naddress = \"10.77.0.3\"\nmechanism = \"default\"\n";

/// A server of two addresses, with one socket for every one.
fn of_two_addresses(label: &str) -> (Stage, Slow) {
    let stage = Stage::new(label);
    stage.link.a().add_address(&format!("{OTHER}/24")).expect("another address");
    let every = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 80);
    let server = Slow::start_at(&stage, every, LONG_BACKLOG);
    (stage, server)
}

/// Sends a burst to both of them, and asserts that all of it is told.
fn burst_to_both_is_seen_whole(stage: &Stage, watching: Child) -> Value {
    let patient = Class { timeout: Duration::from_secs(20), ..Class::default() };
    let burst = Load::Poisson { per_s: 3.0 * MOST_PER_S };
    let both = [SERVER_V4, OTHER];
    let sent = send_to(stage, &both, patient, burst, Duration::from_millis(800)).attempts as f64;
    let seen = seen_by(watching);
    let arrived = number(&seen, "burst", "burst_per_s") * number(&seen, "burst", "burst_s");
    assert!((arrived / sent - 1.0).abs() < 0.1, "{sent} came: {seen:#}");
    seen
}

/// One socket of every address, and a section for one of them: half of the burst comes under each.
#[test]
fn a_burst_to_a_socket_of_two_sections_is_seen_whole() {
    if skip_without_root("a_burst_to_a_socket_of_two_sections_is_seen_whole") {
        return;
    }
    let (stage, _server) = of_two_addresses("size-sections");
    let guard = guard(&stage, TWO_SECTIONS);
    let watching = watch_with(&stage, 5, &["--address", OTHER]);
    std::thread::sleep(Duration::from_millis(500));
    let seen = burst_to_both_is_seen_whole(&stage, watching);
    assert!(number(&seen, "burst", "drain_per_s") < 1.1 * MOST_PER_S, "{seen:#}");
    guard.stop();
}

/// Half of the burst comes under a section that was not there when the watching began.
#[test]
fn what_comes_under_a_section_that_a_reload_brings_is_counted_too() {
    if skip_without_root("what_comes_under_a_section_that_a_reload_brings_is_counted_too") {
        return;
    }
    let (stage, _server) = of_two_addresses("size-brought");
    let mut guard = guard(&stage, "[[listener]]\nport = 80\nmechanism = \"default\"\n");
    let watching = watch(&stage, 8);
    std::thread::sleep(Duration::from_millis(500));
    write(&stage, TWO_SECTIONS);
    guard.reload();
    // Within two the socket has counters of its own under it.
    std::thread::sleep(LOOKS_BY);
    burst_to_both_is_seen_whole(&stage, watching);
    guard.stop();
}

/// A burst that begins half a second after the watching, and is over.
fn burst_early(stage: &Stage) {
    std::thread::sleep(Duration::from_millis(500));
    send(stage, Load::Poisson { per_s: 2.0 * MOST_PER_S }, Duration::from_millis(800));
}

#[test]
fn of_a_socket_that_has_gone_no_more_is_told_than_was_seen_of_it() {
    if skip_without_root("of_a_socket_that_has_gone_no_more_is_told_than_was_seen_of_it") {
        return;
    }
    let stage = Stage::new("size-gone");
    let first = Slow::start(&stage, LONG_BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "default", "ip");
    let (begun, watching) = (Instant::now(), watch(&stage, 6));
    burst_early(&stage);
    drop(first);
    let there_s = begun.elapsed().as_secs_f64();
    let _second = Slow::start(&stage, LONG_BACKLOG);
    let seen = seen_by(watching);
    assert!((0.8..there_s).contains(&number(&seen, "seen", "watched_s")), "{there_s}: {seen:#}");
    assert!(warns(&seen, " s of the 6: ") && !warns(&seen, "watch for longer"), "{seen:#}");
    guard.stop();
}

#[test]
fn a_section_that_a_reload_takes_out_is_told_of_by_what_was_seen_until_then() {
    if skip_without_root("a_section_that_a_reload_takes_out_is_told_of_by_what_was_seen_until_then")
    {
        return;
    }
    let stage = Stage::new("size-out");
    let _server = Slow::start(&stage, LONG_BACKLOG);
    let mut guard = guard(
        &stage,
        "[[listener]]\nport = 80\nmechanism = \"default\"\n\
         [[listener]]\nport = 81\nmechanism = \"default\"\n",
    );
    let (begun, watching) = (Instant::now(), watch(&stage, 600));
    burst_early(&stage);
    let calm = watch_with(&stage, 600, &["--address", "0.0.0.0"]);
    std::thread::sleep(Duration::from_secs(2));
    write(&stage, "[[listener]]\nport = 81\nmechanism = \"default\"\n");
    guard.reload();
    let seen = seen_by(watching);
    let there_s = begun.elapsed().as_secs_f64();
    assert!(there_s < 600.0, "nobody waits for what does not come any more");
    assert!((0.8..there_s).contains(&number(&seen, "seen", "watched_s")), "{there_s}: {seen:#}");
    assert!(warns(&seen, " s of the 600: "), "{seen:#}");
    // Where nothing was seen by then, that is why.
    let output = calm.wait_with_output().expect("tidegate ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let why =
        "the section of port 80 was taken out while it was watched; watch again when it is back";
    assert!(!output.status.success() && said.contains(why), "{said}");
    guard.stop();
}

/// It holds the queue at what the server drains, and nobody of those who are let through is dropped.
#[test]
fn an_overload_that_is_shed_for_the_queues_sake_is_seen() {
    if skip_without_root("an_overload_that_is_shed_for_the_queues_sake_is_seen") {
        return;
    }
    let stage = Stage::new("size-shed");
    let _server = Slow::start(&stage, 4 * SHORT_BACKLOG);
    let guard = guard(
        &stage,
        "[[listener]]\nport = 80\nmechanism = \"default\"\n\
         shed = { p = \"auto\", key = \"connection\" }\n",
    );
    let watching = watch(&stage, 5);
    std::thread::sleep(Duration::from_millis(500));
    // Whose SYN is dropped does not come again.
    let once = Class { timeout: Duration::from_millis(900), ..Class::default() };
    let crowd = Load::Poisson { per_s: 3.0 * MOST_PER_S };
    let sent = send_from(&stage, once, crowd, Duration::from_secs(3)).attempts as f64;
    let seen = seen_by(watching);
    let arrived = number(&seen, "burst", "burst_per_s") * number(&seen, "burst", "burst_s");
    assert!((arrived / sent - 1.0).abs() < 0.1, "{sent} came: {seen:#}");
    assert!(number(&seen, "seen", "dropped") > sent / 3.0, "{seen:#}");
    guard.stop();
}

#[test]
fn a_queue_in_which_nobody_can_wait_for_long_is_told_to_be_too_short() {
    if skip_without_root("a_queue_in_which_nobody_can_wait_for_long_is_told_to_be_too_short") {
        return;
    }
    let stage = Stage::new("size-shortest");
    let _server = Slow::start(&stage, SHORTEST_BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "abort", "ip");
    let watching = watch(&stage, 4);
    std::thread::sleep(Duration::from_millis(500));
    let brief = Class { timeout: Duration::from_millis(900), ..Class::default() };
    send_from(&stage, brief, Load::Poisson { per_s: 3.0 * MOST_PER_S }, Duration::from_secs(2));
    let output = watching.wait_with_output().expect("tidegate ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    for part in ["the queue of port 80 (backlog 5) is too short to see", "give it 128"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("and 0 found no room"), "{said}");
    guard.stop();
}
