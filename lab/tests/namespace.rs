// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A namespace is alone, keeps what it must keep, and leaves nothing behind.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use tidegate_lab::{
    Counters, End, LabError, Link, Namespace, allowed_cpus, is_dead, pin_thread, say_skipped,
    skip_without_root,
};

/// The host's mounts of the kinds that a namespace makes.
fn host_mounts() -> String {
    fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .filter(|line| [" - sysfs ", " - bpf ", " - cgroup"].iter().any(|kind| line.contains(kind)))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The devices that a folder of sysfs lists, or a table of procfs, in order.
fn names<'a>(listed: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names: Vec<String> = listed.map(|name| name.trim().to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn it_sees_its_own_devices_bpffs_and_the_hosts_cgroups() {
    if skip_without_root("it_sees_its_own_devices_bpffs_and_the_hosts_cgroups") {
        return;
    }
    let before = host_mounts();
    let namespace = Namespace::new("alone").unwrap();
    let other = Namespace::new("other").unwrap();
    let _link = Link::between(&namespace, "alone0", &other, "other0").unwrap();
    // Some are in every namespace, by the modules that are loaded: the kernel tells which are in this.
    let table = namespace.read_file("/proc/thread-self/net/dev").unwrap();
    let own = names(table.lines().filter_map(|line| Some(line.split_once(':')?.0)));
    assert!(own.contains(&"lo".to_owned()) && own.contains(&"alone0".to_owned()), "{own:?}");
    let links = namespace.command("find /sys/class/net -type l -printf %f\\n");
    let devices = namespace.output(links).unwrap();
    assert_eq!(names(devices.lines()), own, "the devices of sysfs");
    assert!(!Path::new("/sys/class/net/alone0").exists(), "the host has none of them");

    let inside = namespace.read_file("/proc/thread-self/mountinfo").unwrap();
    let bpffs = inside.lines().rfind(|line| line.contains(" - bpf "));
    assert!(bpffs.is_some_and(|line| line.contains(" /sys/fs/bpf ")));
    for cgroup in before.lines().filter(|line| line.contains(" - cgroup")) {
        let point = cgroup.split(' ').nth(4).unwrap();
        let listed = namespace.output(namespace.command(&format!("ls {point}"))).unwrap();
        assert!(listed.contains("cgroup."), "{point} holds `{listed}`");
    }
    assert_eq!(host_mounts(), before, "the host's mounts changed");
}

/// A disk that the host gives up is in use by no namespace, and the host has nothing of a namespace's.
#[test]
fn what_the_host_unmounts_is_unmounted_in_it() {
    if skip_without_root("what_the_host_unmounts_is_unmounted_in_it") {
        return;
    }
    let mounts = || fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    // On a thread with mounts of its own, which stands for the host.
    let host = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let no = None::<&str>;
        // As systemd has them, but among themselves.
        for how in [MsFlags::MS_PRIVATE, MsFlags::MS_SHARED] {
            mount(no, "/", no, MsFlags::MS_REC | how, no).unwrap();
        }
        let put = |point| mount(Some("tmpfs"), point, Some("tmpfs"), MsFlags::empty(), no).unwrap();
        put("/tmp");
        let without = mounts();
        fs::create_dir("/tmp/disk").unwrap();
        put("/tmp/disk");
        let namespace = Namespace::new("disk").unwrap();
        let has_disk = || {
            let inside = namespace.read_file("/proc/thread-self/mountinfo").unwrap();
            inside.contains(" /tmp/disk ")
        };
        assert!(has_disk());
        umount("/tmp/disk").unwrap();
        assert!(!has_disk(), "it is in use");
        assert_eq!(mounts(), without);
    });
    host.join().unwrap();
}

/// Packets that each processor has taken from drivers: the first column of softnet_stat.
fn processed() -> Vec<u64> {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let first = |line: &str| u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    text.lines().map(first).collect()
}

/// A veth's receiver works on the sender's processor unless it is told otherwise.
#[test]
fn an_end_is_polled_on_the_processor_that_it_is_told() {
    if skip_without_root("an_end_is_polled_on_the_processor_that_it_is_told") {
        return;
    }
    polled_as_told(|end, cpu| end.poll_on(cpu).map(drop));
    polled_as_told(|end, cpu| end.poll_every(30_000, cpu));
}

fn polled_as_told(poll: impl Fn(&End, usize) -> Result<(), LabError>) {
    const DATAGRAMS: u64 = 50_000;
    let cpus = allowed_cpus().unwrap();
    let [receiver, .., sender] = cpus[..] else {
        let test = "an_end_is_polled_on_the_processor_that_it_is_told";
        return say_skipped(test, &"this process has one processor alone");
    };
    let (a, b) = (Namespace::new("polled").unwrap(), Namespace::new("sender").unwrap());
    let cable = Link::between(&a, "poll0", &b, "poll1").unwrap();
    cable.a().add_address("10.3.0.1/24").unwrap();
    cable.b().add_address("10.3.0.2/24").unwrap();
    cable.up().unwrap();
    let send = |count: u64| {
        b.thread(move || {
            pin_thread(sender).unwrap();
            let socket = UdpSocket::bind("10.3.0.2:0").unwrap();
            for _ in 0..count {
                // Nobody listens, and says so.
                let _ = socket.send_to(&[0], "10.3.0.1:9");
            }
        })
        .unwrap()
        .join()
        .unwrap();
    };
    let nobody_polls = poll(cable.a(), receiver).unwrap_err();
    assert!(nobody_polls.to_string().contains("poll0"), "{nobody_polls}");
    // As an XDP program would have it.
    cable.a().receive_offload().unwrap();
    b.output(b.command("ethtool -K poll1 tso off")).unwrap();
    poll(cable.a(), receiver).unwrap();
    let before = processed();
    send(DATAGRAMS);
    // What comes faster than the thread takes it is lost.
    let taken = |cpu: usize| processed()[cpu] - before[cpu];
    eventually("the receiver takes them", || taken(receiver) >= DATAGRAMS / 20);
    assert!(taken(sender) < DATAGRAMS / 20, "{} on the sender's processor", taken(sender));
}

#[test]
fn traffic_crosses_a_link_and_is_counted_where_it_went() {
    if skip_without_root("traffic_crosses_a_link_and_is_counted_where_it_went") {
        return;
    }
    let server = Namespace::new("server").unwrap();
    let clients = Namespace::new("clients").unwrap();
    let link = Link::between(&server, "srv0", &clients, "cli0").unwrap();
    for (end, host) in [(link.a(), 1), (link.b(), 2)] {
        end.add_address(&format!("10.9.0.{host}/24")).unwrap();
        end.add_address(&format!("fd09::{host}/64")).unwrap();
        end.set_mtu(1400).unwrap();
    }
    link.up().unwrap();
    link.b().add_route("10.10.0.0/16", Some("10.9.0.1")).unwrap();
    link.a().receive_on(0).unwrap();

    for address in ["10.9.0.1:80", "[fd09::1]:80"] {
        let before = Counters::of(&server).unwrap();
        let listener = server.run(move || TcpListener::bind(address)).unwrap();
        let mut client = clients.run(move || TcpStream::connect(address)).unwrap();
        let (mut served, _) = listener.accept().unwrap();
        client.write_all(b"ping").unwrap();
        let mut got = [0; 4];
        served.read_exact(&mut got).unwrap();
        let counted = Counters::of(&server).unwrap().since(&before).unwrap();
        assert_eq!(counted.get("TcpPassiveOpens").unwrap(), 1);
        assert_eq!(counted.get("TcpActiveOpens").unwrap(), 0);
    }
}

#[test]
fn a_link_tells_what_it_lost() {
    if skip_without_root("a_link_tells_what_it_lost") {
        return;
    }
    let server = Namespace::new("server").unwrap();
    let clients = Namespace::new("clients").unwrap();
    let link = Link::between(&server, "srv0", &clients, "cli0").unwrap();
    link.a().add_address("10.9.0.1/24").unwrap();
    link.up().unwrap();
    server.ip("neighbor replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev srv0 nud permanent").unwrap();
    let (before, link_before) = (link.a().lost().unwrap(), link.losses().unwrap());
    // A veth hands nothing over that is longer than the other end takes.
    link.b().set_mtu(200).unwrap();
    server.run(|| {
        let socket = UdpSocket::bind("10.9.0.1:0").unwrap();
        for _ in 0..5 {
            socket.send_to(&[0; 1000], "10.9.0.2:9").unwrap();
        }
    });
    eventually("the end counts them", || link.a().lost().unwrap() == before + 5);
    assert!(link.losses().unwrap().since(link_before) >= 5, "and the link");
}

#[test]
fn sysctls_are_its_own() {
    if skip_without_root("sysctls_are_its_own") {
        return;
    }
    let file = "/proc/sys/net/ipv4/tcp_syncookies";
    let host = fs::read_to_string(file).unwrap();
    let namespace = Namespace::new("sysctl").unwrap();
    namespace.sysctl("net.ipv4.tcp_syncookies", 2).unwrap();
    assert_eq!(namespace.read_file(file).unwrap().trim(), "2");
    assert_eq!(fs::read_to_string(file).unwrap(), host);
    let error = namespace.sysctl("net.ipv4.nonsense", 1).unwrap_err();
    assert!(error.to_string().contains("/proc/sys/net/ipv4/nonsense"));
}

#[test]
fn children_and_the_namespace_end_when_dropped() {
    if skip_without_root("children_and_the_namespace_end_when_dropped") {
        return;
    }
    let namespace = Namespace::new("short").unwrap();
    let task = format!("/proc/self/task/{}", namespace.tid());
    // The shell's own child must die as well.
    let mut shell = namespace.command("sh -c");
    shell.arg("sleep 100 & echo $!; wait").stdout(Stdio::piped());
    let mut child = namespace.spawn(shell).unwrap();
    let mut grandchild = String::new();
    BufReader::new(child.take_stdout().unwrap()).read_line(&mut grandchild).unwrap();
    let process = format!("/proc/{}", child.id());
    drop(namespace);
    assert!(Path::new(&task).exists(), "a child keeps its namespace");
    drop(child);
    eventually("the shell is gone", || !Path::new(&process).exists());
    eventually("the shell's child is gone", || is_dead(grandchild.trim()));
    eventually("the thread is gone", || !Path::new(&task).exists());
}

#[test]
fn a_failing_command_says_why() {
    if skip_without_root("a_failing_command_says_why") {
        return;
    }
    let namespace = Namespace::new("wrong").unwrap();
    match namespace.ip("link set nonsense0 up") {
        Err(LabError::Command { stderr, .. }) => assert!(stderr.contains("nonsense0")),
        other => panic!("{other:?}"),
    }
    let missing = namespace.output(namespace.command("/no/such/program now"));
    assert!(matches!(missing, Err(LabError::Start { command, .. }) if command.contains("now")));
}

#[test]
fn a_program_is_waited_for_until_it_says_that_it_is_ready() {
    if skip_without_root("a_program_is_waited_for_until_it_says_that_it_is_ready") {
        return;
    }
    let namespace = Namespace::new("ready").unwrap();
    let start = |script: &str, patience| {
        let mut shell = namespace.command("sh -c");
        shell.arg(script);
        namespace.start("shell", shell, "ready ", patience)
    };
    let long = Duration::from_secs(60);
    let mut ready = start("echo preparing; echo ready now; exec sleep 100", long).unwrap();
    assert!(ready.try_wait().unwrap().is_none(), "it goes on");
    for (script, patience, expected) in [
        ("echo preparing; exit 3", long, "it ended without a word (exit status: 3)"),
        ("echo 'shell: no room' >&2; exit 1", long, "no room"),
        ("exec sleep 100", Duration::from_millis(50), "it did not say `ready` within 50ms"),
    ] {
        match start(script, patience) {
            Err(LabError::NotReady { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{script}: {other:?}"),
        }
    }
}

#[test]
#[should_panic(expected = "said on the thread")]
fn a_panic_inside_is_a_panic_outside() {
    if skip_without_root("a_panic_inside_is_a_panic_outside") {
        panic!("said on the thread");
    }
    Namespace::new("panic").unwrap().run(|| panic!("said on the thread"));
}

/// Not a test of its own: what `a_killed_run_leaves_nothing_behind` kills.
#[test]
#[ignore = "run by a_killed_run_leaves_nothing_behind"]
fn a_run_to_be_killed() {
    let namespace = Namespace::new("killed").unwrap();
    let child = namespace.spawn(namespace.command("sleep 100")).unwrap();
    println!("\nchild {}", child.id());
    std::thread::sleep(Duration::from_secs(100));
}

#[test]
fn a_killed_run_leaves_nothing_behind() {
    if skip_without_root("a_killed_run_leaves_nothing_behind") {
        return;
    }
    let mounts = host_mounts();
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_run_to_be_killed"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let child = BufReader::new(run.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("child ").map(str::to_owned))
        .expect("the run starts a child");
    assert!(!is_dead(&child));
    run.kill().unwrap();
    run.wait().unwrap();
    eventually("the killed run's child is gone", || is_dead(&child));
    assert_eq!(host_mounts(), mounts, "the host's mounts changed");
}
