// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard stands whatever becomes of its daemon, and is gone when it is asked to go.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};
use tidegate_tests::bpf::{self, Object};
use tidegate_tests::{
    Answer, Counted, Guard, LOOKS_BY, Nginx, Plain, SERVER_V4, Stage, Stalled, bridge, fetch, fill,
    listen_queue, run_to_end, skip_without_root, status, tidegate_program, until,
};

const PATIENCE: Duration = Duration::from_secs(2);
/// A listen queue with a backlog of 4 holds 5.
const BACKLOG: i32 = 4;
const PLACES: usize = 5;

fn server(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), port)
}

/// A stage whose server's listen queue is full, and stays so.
struct Full {
    stage: Stage,
    _listener: Stalled,
    _clients: Vec<Plain>,
}

impl Full {
    fn new(label: &str) -> Self {
        let stage = Stage::new(label);
        let listener = Stalled::new(&stage.server, server(80), BACKLOG);
        let clients = fill(&stage.client, server(80), PLACES);
        Full { stage, _listener: listener, _clients: clients }
    }
}

/// A client that tries again and again, and remembers every answer, with what time it took.
struct Load {
    stop: Arc<AtomicBool>,
    client: Option<JoinHandle<Vec<(Answer, Duration)>>>,
}

impl Load {
    /// One attempt after the other, at most for `patience` each.
    fn on(stage: &Stage, to: SocketAddr, patience: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (namespace, stopped) = (stage.client.clone(), stop.clone());
        let client = std::thread::spawn(move || {
            let mut answers = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let seen = fetch(&namespace, to, patience);
                answers.push((seen.answer, seen.after));
                std::thread::sleep(Duration::from_micros(500));
            }
            answers
        });
        Load { stop, client: Some(client) }
    }

    /// Ends it, and tells what it saw.
    fn end(mut self) -> Vec<(Answer, Duration)> {
        self.stop.store(true, Ordering::Relaxed);
        self.client.take().expect("not ended yet").join().expect("a client that does not panic")
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn distinct(answers: &[(Answer, Duration)]) -> BTreeSet<Answer> {
    answers.iter().map(|(answer, _)| *answer).collect()
}

/// Everything in the kernel that belongs to this guard.
fn objects(guard: &Guard, stage: &Stage) -> BTreeSet<Object> {
    objects_of(guard.pid(), &bpf::pinned(&stage.server))
}

/// The same of a process, and what it has pinned.
fn objects_of(process: u32, pinned: &BTreeSet<Object>) -> BTreeSet<Object> {
    // Without what is gone by now: the daemon reads sockets through links of a moment.
    let objects: BTreeSet<Object> =
        bpf::held_by(process).union(pinned).copied().filter(|object| object.exists()).collect();
    for kind in [Object::Program(0), Object::Map(0), Object::Link(0)] {
        let same = |o: &Object| std::mem::discriminant(o) == std::mem::discriminant(&kind);
        assert!(objects.iter().any(same), "a guard has some of {kind:?}: {objects:?}");
    }
    objects
}

/// No program, map, link, pin, file, rule, mount or sign in the interfaces is left.
fn nothing_is_left(stage: &Stage, objects: &BTreeSet<Object>) {
    let left = || objects.iter().filter(|o| o.exists()).collect::<Vec<_>>();
    // The kernel frees what nobody holds after a grace period.
    let deadline = Instant::now() + Duration::from_secs(5);
    while !left().is_empty() {
        assert!(Instant::now() < deadline, "still in the kernel: {:?}", left());
        std::thread::sleep(Duration::from_millis(10));
    }
    let (pins, run) = stage.server.run(|| {
        let there = |path: &str| fs::exists(path).expect("a readable path");
        (there(bpf::PINS), there("/run/tidegate"))
    });
    assert!(!pins, "{} is gone", bpf::PINS);
    assert!(!run, "/run/tidegate is gone");
    let links = stage.server.ip("-details link show").expect("ip shows links");
    assert!(!links.contains("xdp"), "no XDP program stands: {links}");
}

/// What a command says that fails, in one line.
fn fails_in_a_line(host: &Namespace, command: &[&str]) -> String {
    let output = run_to_end(host, command);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.lines().count() == 1, "{command:?}: {told}");
    told
}

/// Whether a bpffs is.
fn is_mounted(host: &Namespace) -> bool {
    let told = host.output(host.command("stat -f -c %T /sys/fs/bpf"));
    told.expect("stat tells the file system").trim() == "bpf_fs"
}

/// The namespace's own bpffs goes, so that tidegate mounts one.
fn unmount_bpffs(host: &Namespace) {
    host.run(|| umount2("/sys/fs/bpf", MntFlags::empty()).expect("a bpffs to unmount"));
    assert!(!is_mounted(host));
}

fn stop(stage: &Stage) {
    let output = run_to_end(&stage.server, &["stop"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// `port`, guarded with `mechanism` at `hook`.
fn arguments<'a>(mechanism: &'a str, hook: &'a str) -> [&'a str; 6] {
    ["--port", "80", "--mechanism", mechanism, "--hook", hook]
}

/// A configuration file that can be written again, in the /run of the stage's server.
struct Configuration<'a>(&'a Stage);

impl<'a> Configuration<'a> {
    fn new(stage: &'a Stage, text: &str) -> Self {
        let configuration = Configuration(stage);
        configuration.write(text);
        configuration
    }

    fn write(&self, text: &str) {
        let text = text.to_owned();
        self.0.server.run(|| fs::write(Self::PATH, text).expect("a configuration"));
    }

    const PATH: &'static str = "/run/tidegate.toml";
}

#[test]
fn the_guard_stands_when_its_daemon_is_killed_and_the_next_one_adopts_it() {
    if skip_without_root("the_guard_stands_when_its_daemon_is_killed_and_the_next_one_adopts_it") {
        return;
    }
    for hook in ["ip", "driver"] {
        let full = Full::new("killed");
        if hook == "driver" {
            full.stage.receive_offload();
        }
        let guard = Guard::start(&full.stage.server, &arguments("abort reserv rst-syn", hook));
        let mut all = objects(&guard, &full.stage);
        let load = Load::on(&full.stage, server(80), PATIENCE);
        std::thread::sleep(Duration::from_millis(200));
        guard.kill();
        let alone = status(&full.stage.server);
        assert!(alone["daemon_pid"].is_null(), "no daemon runs: {alone:#}");
        assert!(alone["attached"].as_array().is_some_and(|a| a.len() >= 3), "{alone:#}");
        std::thread::sleep(Duration::from_millis(200));
        let before = Counted::of(&full.stage.server);

        // The same again, killed again, and another mechanism: what refuses goes on refusing.
        let guard = Guard::start(&full.stage.server, &arguments("abort reserv rst-syn", hook));
        all.extend(objects(&guard, &full.stage));
        guard.kill();
        let guard = Guard::start(&full.stage.server, &arguments("rst-syn", hook));
        all.extend(objects(&guard, &full.stage));
        std::thread::sleep(Duration::from_millis(200));
        let after = Counted::of(&full.stage.server);
        assert_eq!(after.mechanism(), "rst-syn");
        assert_eq!(guard.status()["daemon_pid"], guard.pid());
        let drops = |c: &Counted| c.packets("ListenQFullAtSyn", "reset");
        assert!(drops(&before) > 0, "refused by the guard alone, at {hook}");
        assert!(drops(&after) > drops(&before), "the counters go on, at {hook}");

        let answers = load.end();
        let told = drops(&Counted::of(&full.stage.server));
        assert_eq!(
            distinct(&answers),
            BTreeSet::from([Answer::Refused]),
            "every connect is refused, without a gap, at {hook}"
        );
        assert_eq!(told, answers.len() as u64, "and every refusal is counted, at {hook}");
        guard.stop();
        nothing_is_left(&full.stage, &all);
        // Without the guard the kernel is silent again.
        let silent = fetch(&full.stage.client, server(80), Duration::from_millis(100));
        assert_eq!(silent.answer, Answer::Silence, "the guard is gone, at {hook}");
    }
}

#[test]
fn stop_takes_down_what_a_killed_daemon_left() {
    if skip_without_root("stop_takes_down_what_a_killed_daemon_left") {
        return;
    }
    let full = Full::new("stop");
    let server = &full.stage.server;
    unmount_bpffs(server);
    let guard = Guard::start(server, &arguments("reserv rst-syn", "driver"));
    assert!(is_mounted(server), "tidegate mounts bpffs where there is none");
    let all = objects(&guard, &full.stage);
    guard.kill();
    stop(&full.stage);
    nothing_is_left(&full.stage, &all);
    assert!(!is_mounted(server), "the mount that tidegate made is gone");

    let again = run_to_end(server, &["stop"]);
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && told.contains("no guard stands here"), "{told}");
}

#[test]
fn sigterm_and_ctrl_c_are_a_clean_stop_as_soon_as_the_guard_stands() {
    if skip_without_root("sigterm_and_ctrl_c_are_a_clean_stop_as_soon_as_the_guard_stands") {
        return;
    }
    let stage = Stage::new("sigterm");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let at_once = Duration::ZERO;
    let later = Duration::from_millis(400);
    for (signal, settle) in [
        (Signal::SIGTERM, at_once),
        (Signal::SIGTERM, later),
        (Signal::SIGINT, at_once),
        (Signal::SIGINT, later),
    ] {
        let mut guard = Guard::start(&stage.server, &arguments("reserv rst-syn", "ip"));
        // A signal that comes with the announcement is heard too.
        let all = if settle.is_zero() { BTreeSet::new() } else { objects(&guard, &stage) };
        std::thread::sleep(settle);
        guard.signal(signal);
        guard.ends(&format!("at {signal}"));
        nothing_is_left(&stage, &all);
    }
}

/// Whether a process has asked to hear a signal, and no longer ends of it unasked.
fn hears(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a process");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("its signals").trim(), 16).expect("bits");
    caught >> (signal as i32 - 1) & 1 == 1
}

/// How a process that was told to end did so, where that was soon.
fn ended_by_sigterm(child: &mut Child) -> Option<ExitStatus> {
    child.signal(Signal::SIGTERM).expect("a running daemon");
    child.wait_for(Duration::from_secs(5)).expect("a process")
}

/// Of a pipe that nobody writes to.
#[test]
fn sigterm_ends_a_daemon_that_waits_for_its_configuration() {
    if skip_without_root("sigterm_ends_a_daemon_that_waits_for_its_configuration") {
        return;
    }
    let stage = Stage::new("waiting");
    let host = &stage.server;
    host.output(host.command(&format!("mkfifo {}", Configuration::PATH))).expect("a pipe");
    for name in ["run", "agent"] {
        let mut command = Command::new(tidegate_program());
        command.args([name, "--config", Configuration::PATH]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = host.spawn(command).expect("tidegate starts");
        until("it hears SIGHUP", || hears(child.id(), Signal::SIGHUP));
        assert!(ended_by_sigterm(&mut child).is_some(), "tidegate {name} waits on");
        nothing_is_left(&stage, &BTreeSet::new());
    }
}

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

/// `tidegate` in a mount namespace with a /run of its own.
pub(super) fn with_another_run(words: &str) -> Command {
    let line = format!("exec {} {words}", tidegate_program().display());
    shell_with_another_run(&line)
}

fn shell_with_another_run(line: &str) -> Command {
    let line = format!("mount -t tmpfs none /run && {line}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &line]);
    command
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

/// By a hand in bpffs that meant another, say. The daemon has no link of its own: the kernel has let go of all.
#[test]
fn a_guard_that_is_taken_away_under_its_daemon_is_put_back() {
    if skip_without_root("a_guard_that_is_taken_away_under_its_daemon_is_put_back") {
        return;
    }
    for (hook, link) in [("ip", "ingress"), ("driver", "driver")] {
        let full = Full::new(&format!("taken-away-{hook}"));
        full.stage.receive_offload();
        let host = &full.stage.server;
        unmount_bpffs(host);
        let mut guard = Guard::start(host, &arguments("rst-syn", hook));
        let told = guard.complaint().expect("whose mount it is");
        assert!(told.contains("does not outlive its daemon here"), "{told}");
        let fetched = || fetch(&full.stage.client, server(80), PATIENCE).answer;
        assert_eq!(fetched(), Answer::Refused, "{hook}");
        let stands = || {
            let found = format!("find {} -name {link}-*", bpf::PINS);
            host.output(host.command(&found)).is_ok_and(|found| !found.is_empty())
        };
        assert!(stands(), "{hook}");
        let all = format!("rm -r {}", bpf::PINS);
        let links = format!("find {} -name {link}-* -delete", bpf::PINS);
        // With the mark that bpffs was mounted by tidegate, before it mounts one again and after.
        for how in [all.as_str(), links.as_str(), "umount -l /sys/fs/bpf", all.as_str()] {
            // At once: it looks four times a second.
            guard.signal(Signal::SIGSTOP);
            host.output(host.command(how)).unwrap_or_else(|e| panic!("{how}: {e}"));
            guard.signal(Signal::SIGCONT);
            let told = guard.complaint().unwrap_or_else(|| panic!("{hook}, {how}: it says so"));
            assert!(told.contains("a part of the guard away: it is put back"), "{how}: {told}");
            until("its links stand again", stands);
            assert_eq!(fetched(), Answer::Refused, "{hook}, {how}");
            assert_eq!(Counted::of(host).mechanism(), "rst-syn", "{hook}, {how}");
        }
        let objects = objects(&guard, &full.stage);
        guard.stop();
        nothing_is_left(&full.stage, &objects);
        assert!(!is_mounted(host), "{hook}: the mount was tidegate's");
    }
}

/// Where the daemon does not see it, nobody is told that nothing was counted.
#[test]
fn a_map_that_is_taken_away_is_told_of_until_it_is_put_back() {
    if skip_without_root("a_map_that_is_taken_away_is_told_of_until_it_is_put_back") {
        return;
    }
    let full = Full::new("map-away");
    let host = &full.stage.server;
    let mut guard = Guard::start(host, &arguments("rst-syn", "ip"));
    // One that the readers' object declares, and one that it does not.
    for map in ["counters", "accepts"] {
        let seen = fetch(&full.stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "{map}");
        let before = Counted::of(host).all();
        guard.signal(Signal::SIGSTOP);
        let taken = format!("find {} -name {map} -delete", bpf::PINS);
        host.output(host.command(&taken)).expect("it is taken away");
        let output = run_to_end(host, &["status"]);
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{map}: {told}");
        assert!(told.contains(&format!("/maps/{map}: ")), "{told}");
        guard.signal(Signal::SIGCONT);
        let told = guard.complaint().expect("the daemon says so");
        assert!(told.contains("a part of the guard away: it is put back"), "{map}: {told}");
        assert!(Counted::of(host).all() >= before && before > 0, "{map}");
    }
    let objects = objects(&guard, &full.stage);
    guard.stop();
    nothing_is_left(&full.stage, &objects);
}

#[test]
fn an_interface_that_comes_back_is_guarded_again() {
    if skip_without_root("an_interface_that_comes_back_is_guarded_again") {
        return;
    }
    for hook in ["ip", "driver"] {
        let stage = Stage::new("unplugged");
        let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
        let clients = fill(&stage.client, server(80), PLACES);
        let mut guard = Guard::start(&stage.server, &arguments("reserv rst-syn", hook));
        let mut all = objects(&guard, &stage);
        let attached = |of: &serde_json::Value| of["attached"].as_array().expect("links").len();
        let before = attached(&guard.status());

        stage.server.ip("link del srv0").expect("an interface to unplug");
        until("the links of the interface are given up", || {
            let now = guard.status();
            let links = now["attached"].as_array().expect("links").clone();
            // The loopback's and netfilter's.
            links.len() == before - if hook == "driver" { 2 } else { 1 }
                && now["daemon_pid"] == guard.pid()
        });
        let tid = stage.client.tid();
        let words = format!("link add name srv0 type veth peer name cli0 netns {tid}");
        stage.server.ip(&words).expect("a new veth");
        for (namespace, name, address) in
            [(&stage.server, "srv0", "10.77.0.1/24"), (&stage.client, "cli0", "10.77.0.2/24")]
        {
            namespace.ip(&format!("address add {address} dev {name}")).expect("an address");
            namespace.ip(&format!("link set {name} up")).expect("an interface that is up");
        }
        if hook == "driver" {
            stage.receive_offload();
        }
        let plugged = Instant::now();
        until("the new interface is guarded", || attached(&guard.status()) == before);
        // Rests of two seconds are allowed, and then it has to look, on a busy machine too.
        assert!(plugged.elapsed() < Duration::from_secs(4), "within a rest");
        let seen = fetch(&stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "the guard stands on the new one, at {hook}");
        drop(clients);
        all.extend(objects(&guard, &stage));
        guard.terminate();
        assert!(guard.complaint().is_none_or(|line| line.is_empty()), "nothing to complain of");
        nothing_is_left(&stage, &all);
    }
}

#[test]
fn a_listener_that_closes_and_opens_again_is_guarded_as_before() {
    if skip_without_root("a_listener_that_closes_and_opens_again_is_guarded_as_before") {
        return;
    }
    let stage = Stage::new("reopened");
    // Nothing listens yet: the guard stands and waits for it.
    let guard = Guard::start(&stage.server, &arguments("rst-syn", "ip"));
    let mut expected = 0;
    for round in 0..3 {
        let listener = Stalled::new(&stage.server, server(80), BACKLOG);
        let clients = fill(&stage.client, server(80), PLACES);
        let seen = fetch(&stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "round {round}");
        if round > 0 {
            // In time to have counters of its own; before, it is counted with its guard.
            std::thread::sleep(Duration::from_millis(600));
        }
        assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
        expected += 2;
        drop(clients);
        drop(listener);
        // The kernel itself refuses where nothing listens: no decision of ours.
        assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
        if round > 1 {
            std::thread::sleep(Duration::from_millis(600));
        }
        let counted = Counted::of(&stage.server);
        assert_eq!(
            counted.packets("ListenQFullAtSyn", "reset"),
            expected,
            "the count outlives its sockets, round {round}: {counted}"
        );
    }
    guard.stop();
}

/// No card is to begin anew because an application does.
#[test]
fn an_interface_is_let_alone_while_no_socket_is_bound_to_another() {
    if skip_without_root("an_interface_is_let_alone_while_no_socket") {
        return;
    }
    let stage = Stage::new("rebound");
    stage.receive_offload();
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let mut guard = Guard::start(&stage.server, &arguments("rst-syn", "driver"));
    let before = guard.status()["attached"].clone();
    drop(listener);
    // By then the daemon has looked.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(guard.status()["attached"], before, "it is guarded where it was");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.terminate();
    assert!(guard.complaint().is_none_or(|line| line.is_empty()), "nothing to complain of");
}

/// Of two instances, say, each at an address of its own, one starts anew.
#[test]
fn an_interface_is_let_alone_while_a_socket_is_bound_to_another() {
    if skip_without_root("an_interface_is_let_alone_while_a_socket") {
        return;
    }
    let stage = Stage::new("rebound-one");
    stage.receive_offload();
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let beside: SocketAddr = "10.78.0.1:80".parse().expect("an address");
    let _beside = Stalled::new(&stage.server, beside, BACKLOG);
    let guard = Guard::start(&stage.server, &arguments("rst-syn", "driver"));
    let before = bpf::pinned(&stage.server);
    drop(listener);
    // By then the daemon has looked.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(bpf::pinned(&stage.server), before, "it has the links that it had");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
}

/// A card may lose its carrier when its driver takes a program or gives one up, and its address with that: it would
/// begin anew without end.
#[test]
fn an_interface_is_let_alone_while_no_other_has_its_address() {
    if skip_without_root("an_interface_is_let_alone_while_no_other") {
        return;
    }
    let stage = Stage::new("readdressed");
    stage.receive_offload();
    let host = &stage.server;
    let _listener = Stalled::new(host, server(80), BACKLOG);
    let words = [&arguments("rst-syn", "driver")[..], &["--address", SERVER_V4]].concat();
    let guard = Guard::start(host, &words);
    let stands = bpf::pinned(host);
    let with_address = |what: &str, interface: &str| {
        let words = format!("address {what} {SERVER_V4}/24 dev {interface}");
        host.ip(&words).unwrap_or_else(|e| panic!("{words}: {e}"));
    };
    for what in ["del", "add"] {
        with_address(what, "srv0");
        // By then the daemon has looked.
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(bpf::pinned(host), stands, "it has the links that it had: {what}");
    }
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);

    let before = guard.status()["attached"].clone();
    host.ip("link add other0 type veth peer name other1").expect("a veth");
    for name in ["other0", "other1"] {
        host.ip(&format!("link set {name} up")).expect("an interface that is up");
    }
    with_address("del", "srv0");
    with_address("add", "other0");
    until("it follows its address", || {
        let now = guard.status()["attached"].clone();
        let (now, before) = (now.as_array().expect("links"), before.as_array().expect("links"));
        now.len() == before.len() && now.iter().all(|link| !before.contains(link))
    });
    guard.stop();
}

/// Starts `tidegate` with these arguments, and kills it so long after, wherever it is by then.
fn killed_after(stage: &Stage, arguments: &[&str], after: Duration) {
    let mut command = Command::new(tidegate_program());
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = stage.server.spawn(command).expect("tidegate starts");
    std::thread::sleep(after);
    // It may have ended by itself.
    let _ = child.signal(Signal::SIGKILL);
    child.wait().expect("an ended process");
}

/// With its pins half there, one configuration in the place of another, or its links half gone.
#[test]
fn killed_at_any_moment_it_leaves_what_the_next_one_takes_over() {
    if skip_without_root("killed_at_any_moment_it_leaves_what_the_next_one_takes_over") {
        return;
    }
    let full = Full::new("any-moment");
    let text = |mechanism: &str| {
        format!("[[listener]]\nport = 80\nmechanism = \"{mechanism}\"\nhook = \"ip\"\n")
    };
    let file = Configuration::new(&full.stage, &text("rst-syn"));
    let run = ["run", "--config", Configuration::PATH];
    let is_refused = |when: &str| {
        let seen = fetch(&full.stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "{when}");
    };
    for moment in 0..10 {
        // A start takes some hundred milliseconds, a reload some ten, and a stop as many.
        killed_after(&full.stage, &run, Duration::from_millis(40 * moment));
        let mut all = bpf::pinned(&full.stage.server);
        let guard = Guard::start(&full.stage.server, &run[1..]);
        all.extend(objects(&guard, &full.stage));
        is_refused("after a start that was killed");
        file.write(&text("abort rst-syn"));
        guard.signal(Signal::SIGHUP);
        std::thread::sleep(Duration::from_millis(6 * moment));
        guard.kill();
        all.extend(bpf::pinned(&full.stage.server));
        is_refused("by the one configuration or the other");
        file.write(&text("rst-syn"));
        let guard = Guard::start(&full.stage.server, &run[1..]);
        all.extend(objects(&guard, &full.stage));
        guard.kill();
        killed_after(&full.stage, &["stop"], Duration::from_millis(12 * moment));
        // Unless it had done all by then.
        let again = run_to_end(&full.stage.server, &["stop"]);
        let told = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success() || told.contains("no guard stands here"), "{told}");
        nothing_is_left(&full.stage, &all);
    }
}

/// It had removed one map's pin, by which a guard is known, or all of them.
#[test]
fn what_a_stop_that_was_killed_has_left_is_removed_by_the_next() {
    if skip_without_root("what_a_stop_that_was_killed_has_left") {
        return;
    }
    let full = Full::new("cut-short");
    let host = &full.stage.server;
    let guard = Guard::on_port(host, 80, "rst-syn", "ip");
    let all = objects(&guard, &full.stage);
    guard.kill();
    let unpin = |map: &str| {
        let line = format!("find /sys/fs/bpf/tidegate -name {map} -delete");
        host.output(host.command(&line)).expect("it goes");
    };
    unpin("held_table");
    let explain = ["explain", "--from", "10.77.0.2:40000", "--to", "10.77.0.1:80"];
    let told = fails_in_a_line(host, &explain);
    assert!(told.contains("is just starting, or its start was cut short; ask again"), "{told}");
    unpin("control");
    stop(&full.stage);
    nothing_is_left(&full.stage, &all);
    host.output(host.command("mkdir -p /run/tidegate")).expect("a folder");
    assert!(!run_to_end(host, &["stop"]).status.success(), "no guard stands here");
    nothing_is_left(&full.stage, &all);
}

/// A guard has its number for as long as its listener is guarded, and then another may have it.
#[test]
fn a_listener_in_the_place_of_another_has_none_of_its_counts() {
    if skip_without_root("a_listener_in_the_place_of_another_has_none_of_its_counts") {
        return;
    }
    let full = Full::new("replaced");
    let text = |port: u16| format!("[[listener]]\nport = {port}\nmechanism = \"rst-syn\"\n");
    let file = Configuration::new(&full.stage, &text(80));
    let mut guard = Guard::start(&full.stage.server, &["--config", Configuration::PATH]);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused);
    assert_eq!(Counted::of(&full.stage.server).packets("ListenQFullAtSyn", "reset"), 1);
    let _other = Stalled::new(&full.stage.server, server(81), BACKLOG);
    file.write(&text(81));
    guard.reload();
    // By then the daemon has found out which sockets are gone from its guards.
    std::thread::sleep(LOOKS_BY);
    let counted = Counted::of(&full.stage.server);
    assert_eq!(counted.all(), 0, "nobody came to port 81: {counted}");
    guard.stop();
}

#[test]
fn an_interface_that_is_not_there_yet_keeps_nobody_from_guarding_the_others() {
    if skip_without_root("an_interface_that_is_not_there_yet") {
        return;
    }
    let full = Full::new("late");
    let text = |mechanism: &str| {
        format!(
            "interfaces = [\"late0\", \"srv0\"]\n[[listener]]\nport = 80\nmechanism = \"{mechanism}\"\n"
        )
    };
    let file = Configuration::new(&full.stage, &text("rst-syn"));
    let mut guard = Guard::start(&full.stage.server, &["--config", Configuration::PATH]);
    let is_told = |guard: &mut Guard| {
        let told = guard.complaint().expect("it is told");
        assert!(told.contains("interface \"late0\" is not here or not up"), "{told}");
    };
    is_told(&mut guard);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused, "at the other");
    file.write(&text("abort rst-syn"));
    assert!(guard.reload().contains("abort rst-syn"), "and it is looked after");
    is_told(&mut guard);

    let host = &full.stage.server;
    // By its number, which a new interface has last.
    let attached = |guard: &Guard| guard.status()["attached"].clone();
    let without = attached(&guard);
    bridge(host, "late0", "10.78.0.1/24");
    until("it is guarded when it comes up", || attached(&guard) != without);
    host.ip("link set late0 down").expect("a bridge that is down");
    until("and not when it is down", || attached(&guard) == without);
    is_told(&mut guard);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused, "at the other still");
    file.write(&text("rst-syn").replace("late0", "never0"));
    assert!(
        guard.reload().contains("with rst-syn at auto on srv0"),
        "a reload takes what a start does"
    );
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("interface \"never0\" is not here or not up"), "{told}");
    guard.stop();
}

/// What is wrong may stay so for as long as the host does: an interface that never comes, say.
#[test]
fn a_complaint_that_stands_hides_no_later_one() {
    if skip_without_root("a_complaint_that_stands_hides_no_later_one") {
        return;
    }
    let stage = Stage::new("complaints");
    let host = &stage.server;
    let text = "interfaces = [\"srv0\", \"never0\"]\n[[listener]]\nport = 80\n\
                [[path]]\nport = 81\naddress = \"10.78.0.9\"\nshed = { p = 0.1 }\n";
    let _file = Configuration::new(&stage, text);
    let mut guard = Guard::start(host, &["--config", Configuration::PATH]);
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("interface \"never0\" is not here or not up"), "{told}");
    for round in 0..2 {
        // As VRRP brings it.
        host.ip("address add 10.78.0.9/32 dev srv0").expect("an address");
        let told = guard.complaint().unwrap_or_else(|| panic!("round {round}: it is told"));
        assert!(told.contains("names 10.78.0.9, which is this host's own address"), "{told}");
        host.ip("address del 10.78.0.9/32 dev srv0").expect("it goes");
        // A look sees it gone: there is one every two seconds at least.
        std::thread::sleep(Duration::from_secs(3));
    }
    guard.terminate();
    assert!(guard.complaint().is_none_or(|line| line.is_empty()), "and each is told once");
}

/// A bridge's takes none. Nobody asked for it, and whoever named the driver meant that of the others.
#[test]
fn an_interface_that_comes_later_and_takes_no_program_keeps_nobody_from_guarding_the_others() {
    if skip_without_root("an_interface_that_comes_later_and_takes_no_program") {
        return;
    }
    let stage = Stage::new("refusing");
    stage.receive_offload();
    let host = &stage.server;
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 80));
    let _listener = Stalled::new(host, everywhere, BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    let mut guard = Guard::on_port(host, 80, "rst-syn", "driver");
    let attached = |guard: &Guard| guard.status()["attached"].as_array().expect("links").len();
    let before = attached(&guard);
    bridge(host, "br0", "10.78.0.1/24");
    until("it is guarded at the IP entry", || attached(&guard) == before + 1);
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("the driver of br0 takes no XDP program"), "{told}");
    bridge(host, "br1", "10.79.0.1/24");
    until("so is the next", || attached(&guard) == before + 2);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
    let mut guard = Guard::on_port(host, 80, "rst-syn", "driver");
    assert_eq!(attached(&guard), before + 2, "nor from starting");
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("until then SYNs are judged at the IP entry of br0"), "{told}");
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
}

/// What its maps hold has other types: nothing of it is read as if it were ours.
#[test]
fn a_guard_of_another_version_is_told_in_a_sentence_and_stopped_or_replaced() {
    if skip_without_root("a_guard_of_another_version") {
        return;
    }
    let full = Full::new("version");
    let host = &full.stage.server;
    let guard = Guard::on_port(host, 80, "auto", "ip");
    let mut all = objects(&guard, &full.stage);
    guard.kill();
    bpf::write_first_word(host, "control", 1);
    for command in [
        &["status"][..],
        &["metrics"],
        &["size", "--port", "80", "--for", "1"],
        &["explain", "--from", "10.77.0.2:40000", "--to", "10.77.0.1:80"],
    ] {
        let told = fails_in_a_line(host, command);
        assert!(told.contains("another version's"), "{command:?}: {told}");
    }
    let guard = Guard::on_port(host, 80, "rst-syn", "ip");
    assert_eq!(fetch(&full.stage.client, server(80), PATIENCE).answer, Answer::Refused);
    all.extend(objects(&guard, &full.stage));
    guard.kill();
    bpf::write_first_word(host, "control", 1);
    stop(&full.stage);
    nothing_is_left(&full.stage, &all);
}

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

/// A pager that is left alone, or a terminal that was stopped.
#[test]
fn a_daemon_that_nobody_reads_stands_and_ends_when_it_is_told_to() {
    if skip_without_root("a_daemon_that_nobody_reads_stands_and_ends_when_it_is_told_to") {
        return;
    }
    let stage = Stage::new("unread");
    let host = &stage.server;
    for arguments in [&["run", "--port", "80"][..], &["agent", "--destination", "::1"]] {
        let (_reader, mut full) = std::io::pipe().expect("a pipe");
        // As much as a pipe holds.
        full.write_all(&[b'.'; 65536]).expect("room for it");
        let mut command = Command::new(tidegate_program());
        command.args(arguments).stdout(full.try_clone().expect("a pipe")).stderr(full);
        let mut child = host.spawn(command).expect("tidegate starts");
        until("it stands", || run_to_end(host, &["status"]).status.success());
        // By then it has something to say.
        std::thread::sleep(Duration::from_millis(500));
        let all = &bpf::held_by(child.id()) | &bpf::pinned(host);
        assert!(!all.is_empty(), "{arguments:?}");
        let ended = ended_by_sigterm(&mut child);
        assert!(ended.is_some_and(|status| status.success()), "{arguments:?}: {ended:?}");
        nothing_is_left(&stage, &all);
    }
}

/// `ip netns exec` makes a mount namespace with a /sys of its own; and the number of a network namespace that
/// is gone is given to another.
#[test]
fn pins_of_other_namespaces_are_told_of_and_not_taken_for_this_ones() {
    if skip_without_root("pins_of_other_namespaces_are_told_of_and_not_taken_for_this_ones") {
        return;
    }
    let full = Full::new("namespaces");
    let host = &full.stage.server;
    let alone = |namespace: &str, script: &str| {
        let mut command = Command::new("unshare");
        command.args([namespace, "sh", "-c", script]).arg(tidegate_program());
        command
    };
    let run = "umount /sys/fs/bpf && exec \"$0\" run --port 80 --mechanism rst-syn --hook ip";
    let mut guard =
        Guard::launch(host, alone("--mount", run), "guarding ").expect("it stands there");
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("does not outlive its daemon") && told.contains("nsenter"), "{told}");
    let within = format!("nsenter --target {} --mount --net", guard.pid());
    for command in [
        &["status"][..],
        &["metrics"],
        &["size", "--port", "80", "--for", "1"],
        &["explain", "--from", "10.77.0.2:40000", "--to", "10.77.0.1:80"],
    ] {
        let told = fails_in_a_line(host, command);
        assert!(told.contains(&within), "{command:?}: {told}");
    }
    let asked = format!("{within} {} status", tidegate_program().display());
    let status = host.output(host.command(&asked)).expect("it is seen from there");
    assert!(status.contains("* port 80: rst-syn"), "{status}");
    let there = objects_of(guard.pid(), &bpf::pinned_around(guard.pid()));
    guard.terminate();
    nothing_is_left(&full.stage, &there);

    let guard = Guard::on_port(host, 80, "rst-syn", "ip");
    let all = objects(&guard, &full.stage);
    guard.kill();
    let script = "cd /sys/fs/bpf/tidegate && mv net-* net-$(stat -Lc %i /proc/self/ns/net) && \
                  ! \"$0\" status && exec \"$0\" stop";
    let mut command = alone("--net", script);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = host.spawn(command).expect("a shell").wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("no guard stands here") && told.lines().count() == 1, "{told}");
    // What is left in /run is the killed daemon's number.
    let _ = run_to_end(host, &["stop"]);
    nothing_is_left(&full.stage, &all);
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
