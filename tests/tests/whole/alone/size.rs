// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate size` recommends queues that hold a burst before a real server, and finds the burst in
//! what it sees of one.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use tidegate_crowd::{Class, Delay, Driver, Load, Network, Outcome, Plan, run};
use tidegate_lab::{Child, Counters, allowed_cpus, pin_thread};
use tidegate_tests::{
    CLIENT_V4, Guard, SERVER_V4, Stage, run_to_end, skip_without_root, tidegate_program,
};

/// What a request takes the server, asleep: others who use this machine make it no slower.
const REQUEST: Duration = Duration::from_millis(2);
/// No server that takes 2 ms a request takes more.
const MOST_PER_S: f64 = 500.0;
/// For so long others may keep it from its processor all the same.
const PAUSE_MS: f64 = 200.0;
const TARGET: f64 = 0.001;
const LONG_BACKLOG: u64 = 4096;
const SHORT_BACKLOG: u64 = 64;
/// Python's socketserver has it.
const SHORTEST_BACKLOG: u64 = 5;
const FILE: &str = "/run/tidegate.toml";
/// Another address of the server's.
const OTHER: &str = "10.77.0.3";

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), 80)
}

/// A server that accepts one connection after the other: what waits, waits in the listen queue.
struct Slow {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slow {
    fn start(stage: &Stage, backlog: u64) -> Self {
        Self::start_at(stage, server(), backlog)
    }

    fn start_at(stage: &Stage, at: SocketAddr, backlog: u64) -> Self {
        let listener: TcpListener = stage.server.run(move || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a TCP socket");
            socket.set_reuse_address(true).expect("SO_REUSEADDR");
            socket.bind(&at.into()).expect("a free port");
            socket.listen(backlog as i32).expect("a listening socket");
            socket.into()
        });
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                let mut one = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                if poll(&mut one, PollTimeout::from(10u8)).is_ok_and(|ready| ready > 0) {
                    serve(listener.accept().expect("a connection that waits").0);
                }
            }
        };
        Slow { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_some_and(|ended| ended.is_ok()));
    }
}

fn serve(mut client: TcpStream) {
    std::thread::sleep(REQUEST);
    let mut request = [0; 1024];
    if client.read(&mut request).is_ok_and(|bytes| bytes > 0) {
        let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    }
}

fn send(stage: &Stage, load: Load, lasts: Duration) -> Outcome {
    let patient = Class { timeout: Duration::from_secs(20), ..Class::default() };
    send_from(stage, patient, load, lasts)
}

fn send_from(stage: &Stage, class: Class, load: Load, lasts: Duration) -> Outcome {
    send_to(stage, &[SERVER_V4], class, load, lasts)
}

fn send_to(stage: &Stage, to: &[&str], class: Class, load: Load, lasts: Duration) -> Outcome {
    let target = |address: &&str| SocketAddr::new(address.parse().expect("an address"), 80);
    let plan = Plan {
        driver: Driver::Raw,
        targets: to.iter().map(target).collect(),
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load,
        duration: lasts,
        classes: vec![class],
        ..Plan::default()
    };
    let cpus = allowed_cpus().expect("processors");
    let cpu = cpus[cpus.len() - 1];
    let sent = stage.client.thread(move || {
        pin_thread(cpu).expect("a processor");
        run(&plan).expect("a crowd")
    });
    sent.expect("a thread").join().expect("an outcome")
}

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
    std::thread::sleep(Duration::from_millis(2500));
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
