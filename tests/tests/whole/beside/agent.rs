// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate agent` on a client's host: a connect() to a server that has said when to come back
//! fails at once until then, with EHOSTDOWN; and only where that was asked for, and only where the
//! server itself has said so.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::signal::Signal;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_lab::{Namespace, say_skipped};
use tidegate_tests::wire::{ACK, RST, SYN, Segment, WIRE_V4, WIRE_V6};
use tidegate_tests::{
    Guard, Plain, RawEnd, SERVER_V4, SERVER_V6, Stage, Stalled, bpf, fill, listen_queue,
    run_to_end, set_option, skip_without_root, status, until,
    waits::{at, guard},
};

const PORT: u16 = 80;
/// Another, that nobody has asked to be heeded.
const OTHER: u16 = 81;
/// What connect() is to say (docs/notices.md).
const OVERLOADED: Option<i32> = Some(libc::EHOSTDOWN);
const REFUSED: Option<i32> = Some(libc::ECONNREFUSED);
const NO_MPTCP: [Option<i32>; 2] = [Some(libc::EPROTONOSUPPORT), Some(libc::ENOPROTOOPT)];

fn servers() -> [SocketAddr; 2] {
    [SERVER_V4, SERVER_V6].map(|address| at(address, PORT))
}

/// A server with one place in its queue.
struct Server {
    at: SocketAddr,
    stalled: Stalled,
    crowd: Vec<Plain>,
}

impl Server {
    /// Its place is taken.
    fn full(stage: &Stage, at: SocketAddr) -> Self {
        let stalled = Stalled::new(&stage.server, at, 0);
        let crowd = fill(&stage.client, at, 1);
        until("the listen queue is full", || listen_queue(&stage.server, at) == 1);
        Server { at, stalled, crowd }
    }

    /// It has room again, for one.
    fn recover(&mut self) {
        self.stalled.accept_all();
        self.crowd.clear();
    }
}

fn refusing(stage: &Stage, ports: &[u16], come_back_s: f64) -> Guard {
    let listeners: String = ports
        .iter()
        .map(|port| {
            format!(
                "[[listener]]\nport = {port}\nmechanism = \"rst-syn\"\nhook = \"ip\"\n\
                 notice = {{ come_back_s = {come_back_s} }}\n"
            )
        })
        .collect();
    guard(&stage.server, &listeners)
}

/// connect() in a namespace: its error, or none where it went well.
fn connect(namespace: &Namespace, to: SocketAddr) -> Option<i32> {
    connect_as(namespace, Domain::for_address(to), to)
}

fn connect_as(namespace: &Namespace, domain: Domain, to: SocketAddr) -> Option<i32> {
    namespace.run(move || {
        let socket = Socket::new(domain, Type::STREAM, None).expect("a socket");
        socket.connect(&to.into()).err().map(|error| error.raw_os_error().expect("the kernel's"))
    })
}

/// The same of a socket that does not block: what connect() itself says.
fn begin(namespace: &Namespace, to: SocketAddr) -> Option<i32> {
    namespace.run(move || {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        socket.connect(&to.into()).err().map(|error| error.raw_os_error().expect("the kernel's"))
    })
}

fn heeding(namespace: &Namespace) -> Guard {
    let v4 = format!("{SERVER_V4}:{PORT}");
    let v6 = format!("[{SERVER_V6}]:{PORT}");
    Guard::agent(namespace, &["--destination", &v4, "--destination", &v6])
}

fn agent_of(namespace: &Namespace) -> Value {
    status(namespace)["agent"].clone()
}

#[test]
fn a_connect_fails_at_once_until_the_server_said_to_come_back() {
    if skip_without_root("a_connect_fails_at_once_until_the_server_said_to_come_back") {
        return;
    }
    // Four connects and a status fit into it, on a busy machine too.
    const COME_BACK: Duration = Duration::from_secs(3);
    let stage = Stage::new("agent");
    let client = &stage.client;
    let agent = heeding(client);
    let guard = refusing(&stage, &[PORT], COME_BACK.as_secs_f64());
    for to in servers() {
        let mut server = Server::full(&stage, to);
        let before = Instant::now();
        assert_eq!(connect(client, to), REFUSED, "the first is told by the server: {to}");
        let after = Instant::now();
        assert_eq!(connect(client, to), OVERLOADED, "{to}");
        assert_eq!(begin(client, to), OVERLOADED, "at once, of a socket that does not block: {to}");
        if let IpAddr::V4(address) = to.ip() {
            let mapped = SocketAddr::new(address.to_ipv6_mapped().into(), to.port());
            assert_eq!(connect_as(client, Domain::IPV6, mapped), OVERLOADED, "{mapped}");
        }
        let told = agent_of(client);
        let avoided = &told["avoided"][0];
        assert_eq!(avoided["address"], to.to_string(), "{told:#}");
        let left_s = avoided["left_s"].as_f64().expect("a number");
        assert!(left_s > 0.0 && left_s <= 1.5 * COME_BACK.as_secs_f64(), "{told:#}");

        // The server has room, and nobody asks it before the time that it has said.
        server.recover();
        loop {
            let begun = Instant::now();
            let met = connect(client, to);
            if Instant::now() < before + COME_BACK {
                assert_eq!(met, OVERLOADED, "{to}, {:?} after the RST", before.elapsed());
            }
            // The jitter is up to half as long again.
            if met.is_none() || begun > after + COME_BACK * 3 / 2 {
                assert_eq!(met, None, "{to}, {:?} after the RST", after.elapsed());
                break;
            }
            assert_eq!(met, OVERLOADED, "{to}");
        }
        assert_eq!(agent_of(client)["avoided"], Value::Array(Vec::new()), "it is over");
    }
    let told = agent_of(client);
    assert_eq!(told["notices_obeyed"], 2, "{told:#}");
    assert!(told["connects_failed"].as_u64() >= Some(5), "{told:#}");
    guard.stop();
    agent.stop();
}

/// Each is told of itself alone: a time to come back would shut the server to the whole host, for who is let
/// through as well.
#[test]
fn who_is_shed_keeps_nobody_from_the_server() {
    if skip_without_root("who_is_shed_keeps_nobody_from_the_server") {
        return;
    }
    const CONNECTS: usize = 200;
    let stage = Stage::new("agent-shed");
    let to = servers()[0];
    let _roomy = Stalled::new(&stage.server, to, 2 * CONNECTS as i32);
    let agent = heeding(&stage.client);
    let sheds = format!(
        "[[listener]]\nport = {PORT}\nmechanism = \"rst-syn\"\nhook = \"ip\"\n\
         shed = {{ p = 0.3, refuse = \"rst\" }}\nnotice = {{ come_back_s = 60 }}\n"
    );
    let guard = guard(&stage.server, &sheds);
    let met: Vec<_> = (0..CONNECTS).map(|_| connect(&stage.client, to)).collect();
    let count = |error| met.iter().filter(|met| **met == error).count();
    let (refused, connected) = (count(REFUSED), count(None));
    assert_eq!(refused + connected, CONNECTS, "none is kept from the server: {met:?}");
    // By lot: less or more in one run of a million.
    assert!((28..=95).contains(&refused), "{refused} of {CONNECTS}");
    let told = agent_of(&stage.client);
    assert_eq!(told["avoided"], Value::Array(Vec::new()), "{told:#}");
    assert_eq!(told["notices_untimed"], refused, "each was told why: {told:#}");
    guard.stop();
    agent.stop();
}

/// Who was told together is not to come back together: what is left of each time is by a lot of its
/// own, on top of all that the server asked for.
#[test]
fn those_who_are_told_together_come_back_apart() {
    if skip_without_root("those_who_are_told_together_come_back_apart") {
        return;
    }
    // Their lots lie closer together than is asked for here in one run of 10^11.
    const SERVERS: u16 = 32;
    const COME_BACK_S: f64 = 60.0;
    let stage = Stage::new("agent-jitter");
    let ports: Vec<u16> = (PORT..PORT + SERVERS).collect();
    let full = |port: &u16| Server::full(&stage, at(SERVER_V4, *port));
    let servers: Vec<Server> = ports.iter().map(full).collect();
    let guard = refusing(&stage, &ports, COME_BACK_S);
    let agent = Guard::agent(&stage.client, &["--destination", SERVER_V4]);
    let begun = Instant::now();
    for server in &servers {
        assert_eq!(connect(&stage.client, server.at), REFUSED, "{}", server.at);
    }
    let telling_s = begun.elapsed().as_secs_f64();
    let told = agent_of(&stage.client);
    let since_s = begun.elapsed().as_secs_f64();
    let avoided = told["avoided"].as_array().expect("a list");
    assert_eq!(avoided.len(), servers.len(), "{told:#}");
    let left_s = avoided.iter().map(|one| one["left_s"].as_f64().expect("a number"));
    let least_s = left_s.clone().fold(f64::INFINITY, f64::min);
    let most_s = left_s.fold(0.0, f64::max);
    assert!(least_s >= COME_BACK_S - since_s, "none sooner than was asked: {told:#}");
    assert!(most_s <= 1.5 * COME_BACK_S, "{told:#}");
    // Without lots they would lie as far apart as the telling took.
    assert!(most_s - least_s >= COME_BACK_S / 5.0 + telling_s, "{telling_s} s: {told:#}");
    agent.stop();
    guard.stop();
}

/// The project's measure: 100 µs. Sockets are there before, and only connect() counts.
#[test]
fn a_failing_connect_takes_less_than_one_that_is_refused() {
    if skip_without_root("a_failing_connect_takes_less_than_one_that_is_refused") {
        return;
    }
    const CONNECTS: usize = 501;
    let stage = Stage::new("agent-speed");
    let to = servers()[0];
    let _server = Server::full(&stage, to);
    let guard = refusing(&stage, &[PORT], 600.0);
    let median = |expected: Option<i32>| {
        stage.client.run(move || {
            let mut took: Vec<Duration> = (0..CONNECTS)
                .map(|_| {
                    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
                    let begun = Instant::now();
                    let met = socket.connect(&to.into());
                    let took = begun.elapsed();
                    assert_eq!(met.unwrap_err().raw_os_error(), expected);
                    took
                })
                .collect();
            took.sort();
            took[CONNECTS / 2]
        })
    };
    let refused = median(REFUSED);
    let agent = Guard::agent(&stage.client, &["--destination", SERVER_V4, "--longest-s", "600"]);
    assert_eq!(connect(&stage.client, to), REFUSED);
    let failing = median(OVERLOADED);
    println!("connect(): refused by the server after {refused:?}, by the agent after {failing:?}");
    assert!(failing < refused, "{failing:?} by the agent, {refused:?} by the server");
    assert!(failing <= Duration::from_micros(100), "{failing:?}");
    agent.stop();
    guard.stop();
}

#[test]
fn a_file_is_checked_without_anybody_being_heeded() {
    if skip_without_root("a_file_is_checked_without_anybody_being_heeded") {
        return;
    }
    let stage = Stage::new("agent-check");
    let check = |text: &str| {
        stage.client.place_file("/run/agent.toml", text).expect("a file");
        let done = run_to_end(&stage.client, &["agent", "--check", "--config", "/run/agent.toml"]);
        let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.success(), words(&done.stdout), words(&done.stderr))
    };
    let would = "would heed 192.0.2.0/24 for 60 s at most\n".to_owned();
    let good = check("[[destination]]\nnetwork = \"192.0.2.0/24\"\n");
    assert_eq!(good, (true, would, String::new()));
    let (is_good, out, told) = check("[[destination]]\nnetwork = \"here\"\n");
    assert!(!is_good && out.is_empty(), "{out}");
    assert!(told.starts_with("tidegate: /run/agent.toml:2: "), "{told}");
    let claimed = stage.client.run(|| std::fs::exists("/run/tidegate").expect("a readable /run"));
    assert!(!claimed, "it is no agent");
}

#[test]
fn nobody_is_avoided_who_was_not_named() {
    if skip_without_root("nobody_is_avoided_who_was_not_named") {
        return;
    }
    let stage = Stage::new("agent-opt-in");
    let client = &stage.client;
    let servers = [PORT, OTHER].map(|port| Server::full(&stage, at(SERVER_V4, port)));
    let guard = refusing(&stage, &[PORT, OTHER], 60.0);
    let path = "/run/agent.toml";
    let heed = |sections: &str| client.place_file(path, sections).expect("a file");
    let section = |network: &str, port: u16| {
        format!("[[destination]]\nnetwork = \"{network}\"\nport = {port}\n")
    };
    heed(&section(SERVER_V4, PORT));
    let mut agent = Guard::agent(client, &["--config", path]);
    for _ in 0..3 {
        assert_eq!(connect(client, servers[1].at), REFUSED, "another port");
    }
    assert_eq!(connect(client, servers[0].at), REFUSED);
    assert_eq!(connect(client, servers[0].at), OVERLOADED, "the port that was named");
    assert_eq!(connect(client, servers[1].at), REFUSED, "another port of the same address");

    // Off means off: who is named no more is avoided no more, at once.
    heed(&section("10.77.0.0/24", OTHER));
    assert_eq!(agent.reload(), "heeding 10.77.0.0/24 port 81 for 60 s at most\n");
    assert_eq!(connect(client, servers[0].at), REFUSED, "named no more");
    assert_eq!(connect(client, servers[0].at), REFUSED, "and never again");
    assert_eq!(connect(client, servers[1].at), REFUSED);
    assert_eq!(connect(client, servers[1].at), OVERLOADED, "by its network");

    // A file with an error changes nothing.
    heed("[[destination]]\nnetwork = \"here\"");
    agent.signal(Signal::SIGHUP);
    let told = agent.complaint().expect("a complaint");
    assert!(told.contains("kept the destinations as they were: /run/agent.toml:2:"), "{told}");
    assert_eq!(connect(client, servers[1].at), OVERLOADED);

    // Another network namespace is another host, where this one's agent has no say.
    assert_ne!(begin(&stage.server, servers[1].at), OVERLOADED);
    agent.stop();
    assert_eq!(connect(client, servers[1].at), REFUSED, "stopped");
    guard.stop();
}

/// Its programs are called for every socket of the machine, those of other network namespaces as well.
#[test]
fn what_another_namespace_is_told_is_not_heard() {
    if skip_without_root("what_another_namespace_is_told_is_not_heard") {
        return;
    }
    let stage = Stage::new("agent-other");
    stage.server.ip("link set lo up").expect("a loopback interface");
    let agent = heeding(&stage.client);
    let rst = format!(
        "interfaces = [\"lo\", \"srv0\"]\n[[listener]]\nport = {PORT}\nmechanism = \"rst-syn\"\n\
         hook = \"ip\"\nnotice = {{ come_back_s = 60 }}\n"
    );
    let guard = guard(&stage.server, &rst);
    let servers = servers().map(|to| Server::full(&stage, to));
    for server in &servers {
        // Over loopback, and told as anybody is.
        assert_eq!(connect(&stage.server, server.at), REFUSED, "{}", server.at);
    }
    let told = agent_of(&stage.client);
    assert_eq!(told["avoided"], Value::Array(Vec::new()), "{told:#}");
    for server in &servers {
        assert_eq!(connect(&stage.client, server.at), REFUSED, "not told yet: {}", server.at);
        assert_eq!(connect(&stage.client, server.at), OVERLOADED, "{}", server.at);
    }
    agent.stop();
    guard.stop();
}

/// Its subflows are TCP sockets, which the kernel connects for it.
#[test]
fn an_mptcp_socket_connects_as_ever() {
    let test = "an_mptcp_socket_connects_as_ever";
    if skip_without_root(test) {
        return;
    }
    let stage = Stage::new("agent-mptcp");
    let client = &stage.client;
    let mptcp = |to| {
        client.run(move || {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::MPTCP));
            socket.map(|s| s.connect(&to.into()).err().and_then(|error| error.raw_os_error()))
        })
    };
    let agent = heeding(client);
    let guard = refusing(&stage, &[PORT], 600.0);
    for to in servers() {
        let mut server = Server::full(&stage, to);
        match mptcp(to) {
            Ok(met) => assert_eq!(met, REFUSED, "by the server: {to}"),
            // A kernel without it, or one on which it is switched off.
            Err(error) if NO_MPTCP.contains(&error.raw_os_error()) => {
                say_skipped(test, &format!("this kernel has no MPTCP: {error}"));
                break;
            }
            Err(error) => panic!("{to}: {error}"),
        }
        assert_eq!(connect(client, to), OVERLOADED, "others heed what it was told: {to}");
        assert_eq!(mptcp(to).expect("a socket"), REFUSED, "by the server, once more: {to}");
        server.recover();
        assert_eq!(mptcp(to).expect("a socket"), None, "{to}");
        assert_eq!(connect(client, to), OVERLOADED, "{to}");
    }
    agent.stop();
    guard.stop();
}

/// Nothing is sent when a connection that was saved gets its socket back (CRIU): it stands already, whatever its server has
/// said since.
#[test]
fn a_socket_in_repair_is_made_anew_as_ever() {
    if skip_without_root("a_socket_in_repair_is_made_anew_as_ever") {
        return;
    }
    let stage = Stage::new("agent-repair");
    let client = &stage.client;
    let repaired = |to: SocketAddr| {
        client.run(move || {
            let socket =
                Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
            set_option(&socket, libc::IPPROTO_TCP, libc::TCP_REPAIR, 1).expect("TCP_REPAIR");
            socket.connect(&to.into()).err().and_then(|error| error.raw_os_error())
        })
    };
    let agent = heeding(client);
    let guard = refusing(&stage, &[PORT], 600.0);
    for to in servers() {
        let _server = Server::full(&stage, to);
        assert_eq!(connect(client, to), REFUSED, "by the server: {to}");
        assert_eq!(connect(client, to), OVERLOADED, "{to}");
        assert_eq!(repaired(to), None, "{to}");
    }
    agent.stop();
    guard.stop();
}

/// A server whose refusals say nothing is asked every time.
#[test]
fn a_rst_without_a_notice_is_none() {
    if skip_without_root("a_rst_without_a_notice_is_none") {
        return;
    }
    let stage = Stage::new("agent-bare");
    let server = Server::full(&stage, servers()[0]);
    let agent = heeding(&stage.client);
    let guard = Guard::on_port(&stage.server, PORT, "rst-syn", "ip");
    for _ in 0..3 {
        assert_eq!(connect(&stage.client, server.at), REFUSED);
    }
    guard.stop();
    // Nor where nobody listens.
    drop(server.stalled);
    assert_eq!(connect(&stage.client, server.at), REFUSED);
    assert_eq!(agent_of(&stage.client)["avoided"], Value::Array(Vec::new()));
    agent.stop();
}

/// The notice that a server of ours would send: 60 s.
fn notice() -> (Vec<u8>, [u8; 8]) {
    (vec![253, 6, b'T', b'B', 0x17, 0x70, 1, 1], [0x33, 0xaa, 0, 10, 0, 0, 0, 0])
}

/// Whether connections to the raw end are avoided.
fn is_avoided(stage: &Stage, to: SocketAddr) -> bool {
    let told = agent_of(&stage.server);
    let avoided = told["avoided"].as_array().expect("a list");
    avoided.iter().any(|one| one["address"] == to.to_string())
}

fn unbelieved(stage: &Stage) -> u64 {
    agent_of(&stage.server)["notices_unbelieved"].as_u64().expect("a number")
}

/// Who is not on the path knows neither which connections are being opened nor their sequence
/// numbers: with either wrong, a notice is none.
#[test]
fn a_forged_notice_is_not_believed() {
    if skip_without_root("a_forged_notice_is_not_believed") {
        return;
    }
    let stage = Stage::new("agent-forged");
    let agent = Guard::agent(
        &stage.server,
        &["--destination", WIRE_V4, "--destination", WIRE_V6, "--longest-s", "60"],
    );
    let (options, why) = notice();
    for ipv6 in [false, true] {
        let end = RawEnd::of(&stage, ipv6, 40_000, 443);
        let connecting = end.connecting(&stage, |_| ());
        let isn = end.next_with("a SYN", SYN, SYN).seq;
        let rst = |seq, ack| end.send(RST | ACK, seq, ack, options.clone(), &why);
        let before = unbelieved(&stage);
        let wrong =
            [isn, isn.wrapping_add(2), isn.wrapping_sub(1), isn.wrapping_add(1 << 31), 0, !isn];
        for ack in wrong {
            rst(0, ack);
        }
        // To this address and to others, where nothing is being opened.
        for own_port in [40_001, 443, 22] {
            let end = RawEnd::of(&stage, ipv6, own_port, 443);
            end.send(RST | ACK, 0, isn.wrapping_add(1), options.clone(), &why);
        }
        // The right number in a segment that was damaged on the way.
        let genuine = Segment::new(end.peer, end.own, RST | ACK, 0, isn.wrapping_add(1));
        let genuine = Segment { options: options.clone(), payload: why.to_vec(), ..genuine };
        let mut frame = end.wire.frame(&genuine);
        // The checksum itself: behind it are the urgent pointer, the option and the payload.
        let checksum_at = frame.len() - why.len() - options.len() - 4;
        frame[checksum_at] ^= 1;
        end.wire.send_frame(&frame);
        until("the forged ones have come", || unbelieved(&stage) == before + wrong.len() as u64);
        assert!(!is_avoided(&stage, end.peer), "{}", agent_of(&stage.server));

        // Of a connection that stands, even the true server says nothing about the next.
        end.send(SYN | ACK, 5000, isn.wrapping_add(1), Vec::new(), b"");
        let stream = connecting.join().expect("a client").expect("a connection");
        rst(5001, isn.wrapping_add(1));
        until("it is reset", || stream.take_error().is_ok_and(|error| error.is_some()));
        assert!(!is_avoided(&stage, end.peer), "{}", agent_of(&stage.server));
        assert_eq!(unbelieved(&stage), before + wrong.len() as u64 + 1);

        // And the very one, which only the path knows.
        let end = RawEnd::of(&stage, ipv6, 40_002, 443);
        let connecting = end.connecting(&stage, |_| ());
        let isn = end.next_with("a SYN", SYN, SYN).seq;
        end.send(RST | ACK, 0, isn.wrapping_add(1), options.clone(), &why);
        let error = connecting.join().expect("a client").expect_err("refused");
        assert_eq!(error.raw_os_error(), REFUSED);
        assert!(is_avoided(&stage, end.peer), "{}", agent_of(&stage.server));
        assert_eq!(connect(&stage.server, end.peer), OVERLOADED);
    }
    agent.stop();
}

/// connect() is through, and the SYN goes with the first write: until then there is no number that only the path
/// knows. Of these two the kernel's initial sequence number would let one be taken for it, whatever it is.
#[test]
fn no_notice_is_believed_of_a_connection_whose_syn_is_put_off() {
    if skip_without_root("no_notice_is_believed_of_a_connection_whose_syn_is_put_off") {
        return;
    }
    let stage = Stage::new("agent-put-off");
    let agent = Guard::agent(
        &stage.server,
        &["--destination", WIRE_V4, "--destination", WIRE_V6, "--longest-s", "60"],
    );
    // Data in the first SYN, without a cookie of the server's (TFO_CLIENT_NO_COOKIE).
    stage.server.sysctl("net.ipv4.tcp_fastopen", 5).expect("a sysctl");
    let put_off = |socket: &Socket| {
        set_option(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1).expect("an option");
    };
    let (options, why) = notice();
    for ipv6 in [false, true] {
        let end = RawEnd::of(&stage, ipv6, 40_000, 443);
        let mut stream =
            end.connecting(&stage, put_off).join().expect("a client").expect("put off");
        let heard = || {
            let told = agent_of(&stage.server);
            let count = |what: &str| told[what].as_u64().expect("a number");
            count("notices_unbelieved") + count("notices_obeyed")
        };
        let before = heard();
        for ack in [1, 0x8000_0000] {
            end.send(RST | ACK, 0, ack, options.clone(), &why);
        }
        until("both have come", || heard() == before + 2);
        assert!(!is_avoided(&stage, end.peer), "{}", agent_of(&stage.server));

        // Its SYN, with data, is refused by who takes only the SYN for acknowledged.
        stream.set_nonblocking(true).expect("O_NONBLOCK");
        stream.write_all(b"early").expect("the SYN goes");
        let syn = end.next_with("a SYN", SYN, SYN);
        assert_eq!(syn.payload, b"early");
        end.send(RST | ACK, 0, syn.seq.wrapping_add(1), options.clone(), &why);
        until("it is heeded", || is_avoided(&stage, end.peer));
    }
    agent.stop();
}

#[test]
fn nobody_is_avoided_for_longer_than_the_host_allows() {
    if skip_without_root("nobody_is_avoided_for_longer_than_the_host_allows") {
        return;
    }
    let stage = Stage::new("agent-longest");
    let to = servers()[0];
    let mut server = Server::full(&stage, to);
    let guard = refusing(&stage, &[PORT], 600.0);
    let agent = Guard::agent(&stage.client, &["--destination", SERVER_V4, "--longest-s", "2"]);
    assert_eq!(connect(&stage.client, to), REFUSED);
    let after = Instant::now();
    assert_eq!(connect(&stage.client, to), OVERLOADED, "it is avoided, to begin with");
    server.recover();
    loop {
        let begun = Instant::now();
        let met = connect(&stage.client, to);
        if met.is_none() || begun > after + Duration::from_secs(3) {
            assert_eq!(met, None, "{:?} after the RST", after.elapsed());
            break;
        }
        assert_eq!(met, OVERLOADED);
    }
    agent.stop();
    guard.stop();
}

#[test]
fn a_killed_agent_leaves_nothing() {
    if skip_without_root("a_killed_agent_leaves_nothing") {
        return;
    }
    let stage = Stage::new("agent-killed");
    let to = servers()[0];
    let mut server = Server::full(&stage, to);
    let guard = refusing(&stage, &[PORT], 600.0);
    let agent = heeding(&stage.client);
    let held = bpf::held_by(agent.pid());
    assert!(held.len() >= 7, "programs, maps and links: {held:?}");
    assert_eq!(connect(&stage.client, to), REFUSED);
    assert_eq!(connect(&stage.client, to), OVERLOADED);
    assert!(bpf::pinned(&stage.client).is_empty(), "nothing is pinned");
    agent.kill();
    until("programs, maps and links are gone", || !held.iter().any(|object| object.exists()));
    server.recover();
    assert_eq!(connect(&stage.client, to), None, "the server is asked again");
    let output = run_to_end(&stage.client, &["status"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no guard stands here"), "{told}");

    // The next one begins anew; and a clean stop leaves no file either.
    let agent = heeding(&stage.client);
    assert_eq!(agent_of(&stage.client)["avoided"], Value::Array(Vec::new()));
    agent.stop();
    let left = stage.client.run(|| std::fs::exists("/run/tidegate").expect("a readable /run"));
    assert!(!left, "/run/tidegate is gone");
    guard.stop();
}

/// One host that serves and connects, to itself too.
#[test]
fn an_agent_and_a_guard_share_a_host() {
    if skip_without_root("an_agent_and_a_guard_share_a_host") {
        return;
    }
    let stage = Stage::new("agent-and-guard");
    let host = &stage.server;
    let to = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
    host.ip("link set lo up").expect("a loopback interface");
    let _listener = Stalled::new(host, to, 0);
    let _crowd = fill(host, to, 1);
    let guard = refusing(&stage, &[PORT], 600.0);
    let agent = Guard::agent(host, &["--destination", "127.0.0.0/8"]);
    assert_eq!(connect(host, to), REFUSED);
    assert_eq!(connect(host, to), OVERLOADED, "over loopback");

    let told = status(host);
    assert_eq!(told["daemon_pid"], guard.pid(), "{told:#}");
    assert_eq!(told["agent"]["pid"], agent.pid(), "{told:#}");
    let output = run_to_end(host, &["status"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in
        ["refusals say why, and to come back in 600 s", "heeds 127.0.0.0/8 for 60 s at most"]
    {
        assert!(table.contains(line), "{line}: {table}");
    }
    // A second one is told how to end the first, and the guard is none of its business.
    let second = run_to_end(host, &["agent", "--destination", "192.0.2.1"]);
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    let expected = format!("an agent runs here already (process {})", agent.pid());
    assert!(!second.status.success() && said.contains(&expected), "{said}");
    assert!(said.contains("systemctl stop tidegate-agent") && said.lines().count() == 1, "{said}");
    let line = table.lines().find(|line| line.contains("127.0.0.1:80") && line.contains("left"));
    let line = line.unwrap_or_else(|| panic!("who is avoided: {table}"));
    assert!(line.contains("overloaded: ") && line.ends_with("1 connects failed"), "{line}");

    // A guard that is killed stands, and the agent is none of its business; `stop` ends both.
    guard.kill();
    assert_eq!(connect(host, to), OVERLOADED);
    agent.stop();
    assert!(bpf::pinned(host).is_empty(), "the guard is gone, too");
    assert_ne!(begin(host, to), OVERLOADED, "and so is the agent");
}

/// Sockets are told apart by what they are for, not by whom they go to.
#[test]
fn only_tcp_connects_fail() {
    if skip_without_root("only_tcp_connects_fail") {
        return;
    }
    let stage = Stage::new("agent-udp");
    let to = servers()[0];
    let server = Server::full(&stage, to);
    let guard = refusing(&stage, &[PORT], 600.0);
    let agent = heeding(&stage.client);
    assert_eq!(connect(&stage.client, server.at), REFUSED);
    assert_eq!(connect(&stage.client, server.at), OVERLOADED);
    stage.client.run(move || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("a socket");
        assert!(socket.as_raw_fd() >= 0);
        socket.connect(to).expect("UDP to the same address and port");
    });
    agent.stop();
    guard.stop();
}
