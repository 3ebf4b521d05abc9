// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guard stands whatever becomes of its daemon, and is gone when it is asked to go.

mod hung_up;
mod interfaces;
mod listeners;
mod reload;
mod second_daemon;
mod taken_away;

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::Signal;
use tidegate_lab::{Child, Namespace};
use tidegate_tests::bpf::Object;
use tidegate_tests::{
    Answer, Counted, Guard, Plain, SERVER_V4, Stage, Stalled, bpf, fetch, fill, run_to_end,
    skip_without_root, status, tidegate_program, until,
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
