// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `resize = true`: the backlog of an application that runs is changed, and put back, and no
//! connection is lost by it.

use std::collections::BTreeMap;
use std::fs;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use nix::unistd::Pid;
use socket2::{Domain, Socket, Type};
use tidegate_lab::{Child, Counters, Namespace, skip_without};
use tidegate_tests::bpf;
use tidegate_tests::{
    Answer, Guard, LOOKS_BY, Nginx, Plain, SERVER_V4, Stage, Stalled, bridge, copy_for_all, fetch,
    guard_of, listen_queue, run_to_end, serve, skip_without_root, tidegate_program,
    tidelab_program, until,
};

use super::crash_safety::with_another_run;

const FILE: &str = "/run/tidegate.toml";
const PATIENCE: Duration = Duration::from_secs(2);
/// What a client asks who does not wait for the answer yet.
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: tidegate\r\nConnection: close\r\n\r\n";
/// How many wait while the backlog is changed: the application's own lets them all in.
const WAITING: u32 = 48;

fn server() -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), 80)
}

/// `ss` has the backlog of a listening socket in its third column, Send-Q.
fn backlog(namespace: &Namespace) -> u32 {
    let said = namespace.output(namespace.command("ss -Hltn4 sport = :80")).expect("ss runs");
    let send_q =
        said.split_whitespace().nth(2).unwrap_or_else(|| panic!("nothing listens: {said}"));
    send_q.parse().expect("a number")
}

fn configure(stage: &Stage, lines: &str) {
    let text = format!("[[listener]]\nport = 80\nmechanism = \"default\"\n{lines}\n");
    stage.server.run(move || fs::write(FILE, text).expect("a configuration"));
}

fn resize_to(stage: &Stage, backlog: u32) {
    configure(stage, &format!("resize = true\nbacklog = {backlog}"));
}

/// Clients who come one after the other, and what they saw.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<Vec<Answer>>>,
}

impl Load {
    fn on(stage: &Stage) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let one = |_| {
            let (namespace, stopped) = (stage.client.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut answers = Vec::new();
                while !stopped.load(Ordering::Relaxed) {
                    answers.push(fetch(&namespace, server(), PATIENCE).answer);
                }
                answers
            })
        };
        let clients = (0..4).map(one).collect();
        Load { stop, clients }
    }

    fn end(self) -> Vec<Answer> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.clients.into_iter().map(|c| c.join().expect("a client that ends"));
        ended.flatten().collect()
    }
}

/// Has a server stand still: connections are opened by the kernel, and wait in its listen queue.
fn freeze(process: Pid) {
    kill(process, Signal::SIGSTOP).expect("a running server");
    until("all its threads stand still", || {
        let mut threads = fs::read_dir(format!("/proc/{process}/task")).expect("its threads");
        threads.all(|thread| {
            let stat = thread.map(|thread| thread.path().join("stat")).and_then(fs::read_to_string);
            // The name before the state is in brackets, and may hold anything.
            let stat = stat.unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
        })
    });
}

/// Everyone who waits while the backlog is changed is served, also where it becomes shorter than
/// they are many.
fn who_waits_is_served(stage: &Stage, process: u32) {
    let process = Pid::from_raw(process.cast_signed());
    freeze(process);
    let come = |_| {
        let client = Plain::connect(&stage.client, 0, server(), PATIENCE);
        assert!(client.connected(), "the kernel opens connections while the server stands still");
        // Of a server that defers accept(), as apache2 does, nobody waits before that.
        client.say(REQUEST);
        client
    };
    let clients: Vec<Plain> = (0..WAITING).map(come).collect();
    let waiting = || listen_queue(&stage.server, server());
    until("all of them wait", || waiting() == WAITING);
    resize_to(stage, 512);
    let mut guard = Guard::start(&stage.server, &["--config", FILE]);
    assert_eq!((backlog(&stage.server), waiting()), (512, WAITING), "longer, with all of them");
    resize_to(stage, WAITING / 2);
    guard.reload();
    until("it is shorter than they are many", || backlog(&stage.server) == WAITING / 2);
    assert_eq!(waiting(), WAITING, "nobody is sent away");
    kill(process, Signal::SIGCONT).expect("a server that stands still");
    for mut client in clients {
        assert_eq!(client.wait(PATIENCE).answer, Answer::Status(200));
    }
    guard.stop();
    assert_eq!(backlog(&stage.server), 64, "the application's own again");
}

/// Whatever serves on port 80 with a backlog of 64, as this process.
fn story(stage: &Stage, process: u32) {
    until("the server answers", || {
        fetch(&stage.client, server(), PATIENCE).answer == Answer::Status(200)
    });
    assert_eq!(backlog(&stage.server), 64);
    let before = Counters::of(&stage.server).expect("kernel counters");
    who_waits_is_served(stage, process);

    let load = Load::on(stage);
    resize_to(stage, 512);
    let mut guard = Guard::start(&stage.server, &["--config", FILE]);
    assert_eq!(backlog(&stage.server), 512, "as soon as the guard stands");
    resize_to(stage, 300);
    guard.reload();
    until("a reload changes it again", || backlog(&stage.server) == 300);

    let status = guard.status();
    assert_eq!(guard_of(&status, 80, None)["listeners"][0]["backlog_before"], 64, "{status:#}");
    guard.stop();
    assert_eq!(backlog(&stage.server), 64, "the application's own again");

    let answers = load.end();
    assert!(answers.len() > 100, "only {} requests", answers.len());
    let lost = answers.iter().filter(|a| **a != Answer::Status(200)).count();
    assert_eq!(lost, 0, "of {}: {:?}", answers.len(), answers.iter().max());
    // A SYN that is dropped comes again a second later: its client would have seen no loss.
    let during = Counters::of(&stage.server).and_then(|now| now.since(&before));
    let during = during.expect("kernel counters");
    for counter in ["TcpExtListenOverflows", "TcpExtListenDrops"] {
        assert_eq!(during.get(counter).expect(counter), 0, "{counter}: the kernel's own count");
    }
}

#[test]
fn nginx_is_resized_while_it_serves() {
    if skip_without_root("nginx_is_resized_while_it_serves") {
        return;
    }
    let stage = Stage::new("resize-nginx");
    let nginx = Nginx::start(&stage.server, &["80 backlog=64"]);
    story(&stage, nginx.pid());
}

#[test]
fn our_own_servers_are_resized_while_they_serve() {
    if skip_without_root("our_own_servers_are_resized_while_they_serve") {
        return;
    }
    for kind in ["userver", "knot-c", "knot-a", "tux"] {
        let stage = Stage::new("resize-ours");
        let named = format!("--server={kind}");
        let server = serve(&stage.server, &[&named, "--port=80", "--backlog=64"], None);
        story(&stage, server.id());
    }
}

/// Its /proc/PID/fd is its user's alone. The daemon has what its unit allows, and what the drop-in of
/// docs/size.md adds.
#[test]
fn an_application_of_another_user_is_resized_by_a_daemon_that_may_do_no_more_than_it_must() {
    const TEST: &str = "an_application_of_another_user_is_resized";
    if skip_without(TEST, &[("setpriv", "util-linux")]) {
        return;
    }
    let stage = Stage::new("resize-user");
    stage.server.sysctl("net.ipv4.ip_unprivileged_port_start", 80).expect("a sysctl");
    copy_for_all(&stage.server, &tidelab_program(), "/run/tidelab");
    let nobody = "setpriv --pdeathsig keep --reuid 65534 --regid 65534 --clear-groups";
    let server = "/run/tidelab serve --server=userver --port=80 --backlog=64";
    let _server = other(&stage, &format!("{nobody} {server}"), "");
    resize_to(&stage, 512);
    let tidegate = tidegate_program();
    let allowed = |more: &str| {
        let command = stage.server.command(&format!(
            "setpriv --no-new-privs --bounding-set -all,+bpf,+perfmon,+net_admin,+sys_admin{more} \
             {} run --config {FILE}",
            tidegate.display()
        ));
        Guard::launch(&stage.server, command, "guarding ").expect("it stands")
    };
    let mut guard = allowed("");
    let told = guard.complaint().expect("it is told");
    let lacking = "stays 64: this daemon lacks CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH; grant it";
    assert!(told.contains(lacking), "{told}");
    assert_eq!(backlog(&stage.server), 64);
    guard.stop();
    let guard = allowed(",+sys_ptrace,+dac_read_search");
    assert_eq!(backlog(&stage.server), 512);
    guard.stop();
    assert_eq!(backlog(&stage.server), 64, "the application's own again");
}

/// Starts a server by a command line, with a configuration in the stage's own /run.
fn other(stage: &Stage, line: &str, configuration: &str) -> Child {
    let text = configuration.to_owned();
    stage.server.run(move || {
        let folder = Path::new("/run/other");
        fs::create_dir_all(folder.join("www")).expect("a folder");
        fs::write(folder.join("www/index.html"), "served\n").expect("a page");
        fs::write(folder.join("conf"), text).expect("a configuration");
    });
    let mut command = stage.server.command(line);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = stage.server.spawn(command).expect("a server that is installed");
    until("it listens", || {
        let said = stage.server.output(stage.server.command("ss -Hltn4 sport = :80"));
        said.is_ok_and(|said| !said.trim().is_empty())
    });
    child
}

#[test]
fn apache2_is_resized_while_it_serves() {
    if skip_without_root("apache2_is_resized_while_it_serves") {
        return;
    }
    let stage = Stage::new("resize-apache2");
    let apache2 = other(
        &stage,
        "apache2 -X -f /run/other/conf",
        "ServerRoot /run/other\nServerName tidegate\nListen 0.0.0.0:80\nListenBacklog 64\n\
         PidFile /run/other/pid\nErrorLog /run/other/errors\nMutex posixsem\n\
         LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so\n\
         LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so\n\
         LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so\n\
         StartServers 1\nServerLimit 1\nThreadsPerChild 16\nMaxRequestWorkers 16\n\
         DocumentRoot /run/other/www\n<Directory />\nRequire all granted\n</Directory>\n",
    );
    story(&stage, apache2.id());
}

#[test]
fn haproxy_is_resized_while_it_serves() {
    if skip_without_root("haproxy_is_resized_while_it_serves") {
        return;
    }
    let stage = Stage::new("resize-haproxy");
    let haproxy = other(
        &stage,
        "haproxy -db -f /run/other/conf",
        "global\n nbthread 1\n maxconn 1000\ndefaults\n mode http\n timeout client 10s\n\
         \ttimeout http-request 10s\nfrontend page\n bind :80 backlog 64\n\
         \thttp-request return status 200 content-type text/plain string \"served\"\n",
    );
    story(&stage, haproxy.id());
}

/// What begins to listen later has it too; an application that says something else itself is heard
/// again when the guard is gone; and without consent nothing is touched.
#[test]
fn new_sockets_are_resized_too_and_none_without_consent() {
    if skip_without_root("new_sockets_are_resized_too_and_none_without_consent") {
        return;
    }
    let stage = Stage::new("resize-new");
    let listener = Stalled::new(&stage.server, server(), 64);
    configure(&stage, "");
    let mut guard = Guard::start(&stage.server, &["--config", FILE]);
    std::thread::sleep(LOOKS_BY);
    assert_eq!(backlog(&stage.server), 64, "nobody consented");
    resize_to(&stage, 512);
    guard.reload();
    until("it is resized", || backlog(&stage.server) == 512);
    configure(&stage, "");
    guard.reload();
    until("consent is taken back", || backlog(&stage.server) == 64);
    resize_to(&stage, 512);
    guard.reload();
    drop(listener);
    let listener = Stalled::new(&stage.server, server(), 32);
    until("a new socket is resized", || backlog(&stage.server) == 512);
    listener.set_backlog(128);
    until("it is resized again", || backlog(&stage.server) == 512);
    guard.kill();
    assert_eq!(backlog(&stage.server), 512, "it outlives the daemon");
    let guard = Guard::start(&stage.server, &["--config", FILE]);
    let status = guard.status();
    assert_eq!(guard_of(&status, 80, None)["listeners"][0]["backlog_before"], 128, "{status:#}");
    guard.kill();
    let output = run_to_end(&stage.server, &["stop"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(backlog(&stage.server), 128, "what the application said last");
}

/// A backlog is the application's whatever version of ours has changed it: none has written that down otherwise.
#[test]
fn a_backlog_is_put_back_by_another_version_than_changed_it() {
    if skip_without_root("a_backlog_is_put_back_by_another_version_than_changed_it") {
        return;
    }
    let stage = Stage::new("resize-version");
    let _listener = Stalled::new(&stage.server, server(), 64);
    resize_to(&stage, 512);
    let killed = || {
        Guard::start(&stage.server, &["--config", FILE]).kill();
        bpf::write_first_word(&stage.server, "control", 1);
        assert_eq!(backlog(&stage.server), 512);
    };
    killed();
    Guard::start(&stage.server, &["--config", FILE]).stop();
    assert_eq!(backlog(&stage.server), 64, "by a daemon that ends");
    killed();
    let output = run_to_end(&stage.server, &["stop"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(backlog(&stage.server), 64, "by `tidegate stop`");
}

/// The other version's guard has been taken away by then, and what it knew with it.
#[test]
fn a_backlog_is_put_back_where_the_start_of_another_version_fails() {
    if skip_without_root("a_backlog_is_put_back_where_the_start_of_another_version_fails") {
        return;
    }
    let stage = Stage::new("resize-failed");
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let _listener = Stalled::new(&stage.server, server(), 64);
    resize_to(&stage, 512);
    Guard::start(&stage.server, &["--config", FILE]).kill();
    bpf::write_first_word(&stage.server, "control", 1);
    assert_eq!(backlog(&stage.server), 512);
    // A bridge's driver takes no program.
    let refused = "interfaces = [\"br0\"]\n[[listener]]\nport = 80\nmechanism = \"default\"\n\
                   hook = \"driver\"\nresize = true\nbacklog = 512\n";
    stage.server.run(move || fs::write(FILE, refused).expect("a configuration"));
    let output = run_to_end(&stage.server, &["run", "--config", FILE]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("the driver of br0"), "{told}");
    assert_eq!(backlog(&stage.server), 64, "what the application said");
}

/// What stands then has been made anew, and knows of no backlog that was changed.
#[test]
fn a_backlog_is_put_back_by_a_daemon_in_whose_place_another_stands() {
    if skip_without_root("a_backlog_is_put_back_by_a_daemon_in_whose_place_another_stands") {
        return;
    }
    let stage = Stage::new("resize-replaced");
    let host = &stage.server;
    let _listener = Stalled::new(host, server(), 64);
    resize_to(&stage, 512);
    let mut first = Guard::start(host, &["--config", FILE]);
    first.signal(Signal::SIGSTOP);
    host.output(host.command(&format!("rm -r {}", bpf::PINS))).expect("they are removed");
    let second = with_another_run("run --port 80 --mechanism default --hook ip");
    let mut second = Guard::launch(host, second, "guarding ").expect("nobody has the folder");
    first.signal(Signal::SIGCONT);
    let told = first.complaint().expect("it says so");
    assert!(told.contains("is another tidegate's"), "{told}");
    assert_eq!(backlog(host), 512);
    first.terminate();
    assert_eq!(backlog(host), 64, "what the application said");
    second.terminate();
}

/// A host with as many sockets on the loopback as any user may open, on an address that the application leaves free;
/// and a daemon that may have as many descriptors as a service (systemd's DefaultLimitNOFILE).
struct Crowded {
    stage: Stage,
    /// By age, as the kernel counts.
    crowd: Vec<Socket>,
    guard: Guard,
}

impl Crowded {
    const CROWD: usize = 1100;
    /// Of so many it can be remembered what their backlog was.
    const REMEMBERED: usize = 1024;

    fn new(label: &str) -> Self {
        let stage = Stage::new(label);
        tidegate_crowd::allow_descriptors(4096);
        let listening = |_| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a TCP socket");
            socket.set_reuse_port(true).expect("SO_REUSEPORT");
            socket.bind(&SocketAddr::from(([127, 0, 0, 1], 80)).into()).expect("a free port");
            socket.listen(16).expect("a listening socket");
            // A socket has its number from the first who asks.
            socket.cookie().expect("SO_COOKIE");
            socket
        };
        let mut crowd: Vec<Socket> =
            stage.server.run(move || (0..Self::CROWD).map(listening).collect());
        // Each processor hands out numbers of its own, and the thread may have changed its processor.
        crowd.sort_by_key(|socket| socket.cookie().expect("SO_COOKIE"));
        resize_to(&stage, 512);
        let mut command = stage.server.command("prlimit --nofile=1024");
        command.arg(tidegate_program()).args(["run", "--config", FILE]);
        let guard = Guard::launch(&stage.server, command, "guarding ").expect("it stands");
        let crowded = Crowded { stage, crowd, guard };
        assert_eq!(crowded.by_backlog(), Self::resized(Self::REMEMBERED));
        crowded
    }

    fn resized(many: usize) -> BTreeMap<u32, usize> {
        BTreeMap::from([(16, Self::CROWD - many), (512, many)])
    }

    /// The crowd's sockets, by how long their backlog is.
    fn by_backlog(&self) -> BTreeMap<u32, usize> {
        let host = &self.stage.server;
        let said = host.output(host.command("ss -Hltn4 sport = :80")).expect("ss runs");
        let mut counts = BTreeMap::new();
        for line in said.lines().filter(|line| line.contains(" 127.0.0.1:80 ")) {
            let send_q = line.split_whitespace().nth(2).expect("Send-Q").parse().expect("a number");
            *counts.entry(send_q).or_default() += 1;
        }
        counts
    }

    /// The backlog of the application's own.
    fn applications(&self) -> u32 {
        let host = &self.stage.server;
        let asked = format!("ss -Hltn4 src {SERVER_V4} sport = :80");
        let said = host.output(host.command(&asked)).expect("ss runs");
        said.split_whitespace().nth(2).expect("Send-Q").parse().expect("a number")
    }
}

#[test]
fn a_thousand_sockets_of_the_loopback_keep_no_application_from_its_backlog() {
    const TEST: &str = "a_thousand_sockets_of_the_loopback_keep_no_application_from_its_backlog";
    if skip_without(TEST, &[("prlimit", "util-linux")]) {
        return;
    }
    let mut crowded = Crowded::new("resize-crowd");
    let _application = Stalled::new(&crowded.stage.server, server(), 64);
    until("the application's is resized", || crowded.applications() == 512);
    let one_less = Crowded::resized(Crowded::REMEMBERED - 1);
    assert_eq!(crowded.by_backlog(), one_less, "one has its own again");
    crowded.guard.terminate();
    let own = BTreeMap::from([(16, Crowded::CROWD)]);
    assert_eq!((crowded.applications(), crowded.by_backlog()), (64, own));
}

/// A socket that is on its way from one process to another, or to the same, is in none that could be asked for it.
#[test]
fn nor_do_they_where_they_cannot_be_given_their_own_again() {
    const TEST: &str = "nor_do_they_where_they_cannot_be_given_their_own_again";
    if skip_without(TEST, &[("prlimit", "util-linux")]) {
        return;
    }
    let mut crowded = Crowded::new("resize-hidden");
    let (sender, _receiver) = UnixDatagram::pair().expect("a socket pair");
    // The youngest that has a place.
    let hidden = crowded.crowd.remove(Crowded::REMEMBERED - 1);
    let sent = [hidden.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&sent)];
    let (flags, bytes) = (MsgFlags::empty(), [IoSlice::new(b"1")]);
    sendmsg::<()>(sender.as_raw_fd(), &bytes, &control, flags, None).expect("it is sent");
    drop(hidden);
    let _application = Stalled::new(&crowded.stage.server, server(), 64);
    until("the application's is resized", || crowded.applications() == 512);
    let told = crowded.guard.complaint().expect("it is told");
    let which = "the backlog of 127.0.0.1:80 stays 512: no process here has the socket; ";
    assert!(told.contains(which), "{told}");
    crowded.guard.terminate();
    assert_eq!((crowded.applications(), crowded.by_backlog()), (64, Crowded::resized(1)));
}

/// No sysctl is changed: the host's bound holds, and is told.
#[test]
fn somaxconn_bounds_it_and_is_told() {
    if skip_without_root("somaxconn_bounds_it_and_is_told") {
        return;
    }
    let stage = Stage::new("resize-bound");
    stage.server.sysctl("net.core.somaxconn", 256).expect("a sysctl");
    let _listener = Stalled::new(&stage.server, server(), 64);
    resize_to(&stage, 512);
    let guard = Guard::start(&stage.server, &["--config", FILE]);
    assert_eq!(backlog(&stage.server), 256);
    let told = "backlog 256: net.core.somaxconn allows no more, and 512 were asked for";
    assert!(guard.announced.contains(told), "{}", guard.announced);
    guard.stop();
    assert_eq!(backlog(&stage.server), 64);
}
