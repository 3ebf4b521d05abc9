// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate size` recommends queues that hold a burst before a real server, and finds the burst in
//! what it sees of one.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tidegate_crowd::{Class, Driver, Load, Outcome, Plan, run};
use tidegate_lab::{Child, Counters, allowed_cpus, pin_thread};
use tidegate_tests::{
    CLIENT_V4, Guard, SERVER_V4, Stage, run_to_end, serve, skip_without_root, tidegate_program,
};

/// A request takes the server 2 ms: any machine can make bursts for it.
const COST: &str = "--cost-us=2000";
/// Others may keep the server from its processor for so long.
const PAUSE_MS: f64 = 200.0;
const TARGET: f64 = 0.001;
const LONG_BACKLOG: u64 = 4096;

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), 80)
}

/// One connection accepted at a time: what waits, waits in the listen queue.
fn start(stage: &Stage, backlog: u64) -> Child {
    let cpus = allowed_cpus().expect("processors");
    let backlog = format!("--backlog={backlog}");
    let arguments = ["--server=userver", "--port=80", "--accept-limit=1", COST, &backlog];
    serve(&stage.server, &arguments, Some(cpus[0]))
}

fn send(stage: &Stage, load: Load, lasts: Duration) -> Outcome {
    let plan = Plan {
        driver: Driver::Raw,
        targets: vec![server()],
        sources: vec![format!("{CLIENT_V4}/32").parse().expect("an address")],
        load,
        duration: lasts,
        classes: vec![Class { timeout: Duration::from_secs(20), ..Class::default() }],
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
    let _server = start(stage, LONG_BACKLOG);
    send(stage, Load::Closed { clients: 16 }, Duration::from_secs(2)).replies_per_s
}

fn size(stage: &Stage, arguments: &[String]) -> Value {
    let words: Vec<&str> =
        ["size", "--json"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let output = run_to_end(&stage.server, &words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("size prints JSON")
}

/// The share of SYNs that were dropped as the kernel counts them, in a burst before so long a queue.
fn dropped(stage: &Stage, backlog: u64, burst_per_s: f64, burst_s: f64) -> f64 {
    let _server = start(stage, backlog);
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
    let drain = drain_per_s(&stage);
    let _server = start(&stage, LONG_BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "default", "ip");
    let watch = |seconds: u32| {
        let mut command = std::process::Command::new(tidegate_program());
        command.args(["size", "--json", "--port", "80", "--for", &seconds.to_string()]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        stage.server.spawn(command).expect("tidegate starts")
    };

    let calm = watch(2);
    send(&stage, Load::Constant { per_s: drain / 10.0 }, Duration::from_millis(1500));
    let output = calm.wait_with_output().expect("tidegate ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.lines().count() == 1, "{said}");
    assert!(said.contains("port 80 was too calm") && said.contains("--for"), "{said}");

    let busy = watch(5);
    std::thread::sleep(Duration::from_millis(500));
    let (burst_per_s, burst_s) = (3.0 * drain, 0.8);
    let lasts = Duration::from_secs_f64(burst_s);
    let sent = send(&stage, Load::Poisson { per_s: burst_per_s }, lasts).attempts as f64;
    let output = busy.wait_with_output().expect("tidegate ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("size prints JSON");
    let number = |section: &str, key: &str| {
        seen[section][key].as_f64().unwrap_or_else(|| panic!("no {section}.{key}: {seen:#}"))
    };
    let arrived = number("burst", "burst_per_s") * number("burst", "burst_s");
    assert!((arrived / sent - 1.0).abs() < 0.1, "{sent} came: {seen:#}");
    // A look takes its time, and a burst begins and ends between two.
    assert!((burst_s..burst_s + 0.2).contains(&number("burst", "burst_s")), "{seen:#}");
    assert!(number("burst", "drain_per_s") < 1.1 * drain, "{drain}: {seen:#}");
    assert!(number("recommended", "backlog") >= number("seen", "queued"), "{seen:#}");
    assert!(number("seen", "queued") > sent / 2.0, "{seen:#}");
    guard.stop();
}
