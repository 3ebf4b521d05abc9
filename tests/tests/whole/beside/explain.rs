// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate explain` tells an operator what would become of a SYN, in words and as JSON, and
//! nothing is counted by asking. Whatever is wrong with a question is answered in one line.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use nix::libc;
use serde_json::Value;
use socket2::Socket;
use tidegate_lab::{Link, Namespace};
use tidegate_tests::wire::{ACK, SYN, Segment, Wire, usual_options};
use tidegate_tests::{
    Answer, Counted, First, Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, fetch, fill,
    run_to_end, set_option, skip_without_root, until, waits,
};

const CLIENT: &str = "10.77.0.2:40000";
const BACKLOG: i32 = 8;
const CAPTURE: &str = "/run/syns.pcap";

fn server(port: u16) -> SocketAddr {
    SocketAddr::new(SERVER_V4.parse().expect("an address"), port)
}

fn asked(namespace: &Namespace, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = ["explain"].into_iter().chain(arguments.iter().copied()).collect();
    let output = run_to_end(namespace, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// What is told of a SYN of the client to this address and port.
fn told(stage: &Stage, to: &str) -> String {
    asked(&stage.server, &["--from", CLIENT, "--to", to])
}

fn answer(stage: &Stage, arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = arguments.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&asked(&stage.server, &arguments)).expect("JSON")
}

fn configured(stage: &Stage, text: &'static str) -> Guard {
    stage.server.run(move || fs::write("/run/tidegate.toml", text).expect("a configuration"));
    Guard::start(&stage.server, &["--config", "/run/tidegate.toml"])
}

#[track_caller]
fn tells(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} should be told in:\n{text}");
    }
}

/// Within five standard deviations of a thousand draws.
fn is_half(share: &Value) {
    let of_all = share["share"].as_f64().expect("a number");
    assert!((of_all - 0.5).abs() < 0.08, "{share:#}");
}

#[test]
fn a_syn_is_explained_in_words_and_nothing_is_counted() {
    if skip_without_root("a_syn_is_explained_in_words_and_nothing_is_counted") {
        return;
    }
    let stage = Stage::new("explain");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "auto");

    tells(
        &told(&stage, "10.77.0.1:80"),
        &[
            "SYN 10.77.0.2:40000 > 10.77.0.1:80, sequence number ",
            ", in at srv0\n",
            "  guard     * port 80: abort rst-syn at auto\n",
            "  listener  10.77.0.1:80: listen queue 0 of 8, SYN queue 0 of 8\n",
            "  verdict   passed, and answered with SYN/ACK: the queues have room (Room), at the IP entry\n",
        ],
    );
    assert_eq!(Counted::of(&stage.server).all(), 0, "asking is no SYN");

    let _waiting = fill(&stage.client, server(80), BACKLOG as usize + 1);
    let before = Counted::of(&stage.server).all();
    tells(
        &told(&stage, "10.77.0.1:80"),
        &["listen queue 9 of 8", "refused with RST: the listen queue is full (ListenQFullAtSyn)"],
    );
    assert_eq!(Counted::of(&stage.server).all(), before, "asking is no SYN");
    let seen = fetch(&stage.client, server(80), Duration::from_secs(2));
    assert_eq!(seen.answer, Answer::Refused, "and so it comes");

    // What no guard decides.
    for (to, why) in [
        ("10.77.0.1:81", "no guard stands for 10.77.0.1:81"),
        ("10.77.0.50:80", "10.77.0.50 is no address of this host"),
    ] {
        tells(&told(&stage, to), &["passed to the kernel, which alone decides: ", why]);
    }
    let inward = asked(&stage.server, &["--from", "127.0.0.1:4000", "--to", "127.0.0.1:80"]);
    tells(&inward, &["in at lo\n", "no program of the guard stands at lo"]);
    let strange = ["--from", "10.77.0.2:4000", "--to", "127.0.0.1:80", "--interface", "srv0"];
    tells(&asked(&stage.server, &strange), &["127.0.0.1 is of loopback alone"]);
    // A network that is routed here is this host's, though no interface has an address of it.
    for (table, network) in [("local", "198.51.100.0/24"), ("7", "203.0.113.0/24")] {
        let route = format!("route add local {network} dev lo table {table}");
        stage.server.ip(&route).expect("a route");
    }
    stage.server.ip("rule add to 203.0.113.0/24 lookup 7").expect("a rule");
    for to in ["198.51.100.5:80", "203.0.113.5:80"] {
        tells(&told(&stage, to), &[&format!("nothing listens on {to} at srv0")]);
    }
    // A tunnel's packets have no Ethernet header, and no program stands there.
    for command in
        ["tuntap add tun9 mode tun", "address add 10.8.0.1/24 dev tun9", "link set tun9 up"]
    {
        stage.server.ip(command).expect("a tunnel");
    }
    let through = ["--from", "10.8.0.2:1", "--to", "10.8.0.1:80"];
    for interface in [&[][..], &["--interface", "tun9"]] {
        let tunnelled = asked(&stage.server, &[&through[..], interface].concat());
        tells(&tunnelled, &["in at tun9\n", "no program of the guard stands at tun9"]);
    }
    let v6 = format!("[{SERVER_V6}]:80");
    let v6 = asked(&stage.server, &["--from", "[fd77::2]:40000", "--to", &v6]);
    tells(&v6, &["nothing listens on [fd77::1]:80 at srv0, and the answer is RST"]);
    guard.stop();
}

/// A program of the application's for its SO_REUSEPORT group: always the first member.
fn choose(socket: &Socket) {
    let mut filter = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 }]; // ret 0
    let program = libc::sock_fprog { len: 1, filter: filter.as_mut_ptr() };
    socket.set_reuse_port(true).expect("SO_REUSEPORT");
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, program)
        .expect("SO_ATTACH_REUSEPORT_CBPF");
}

#[test]
fn why_no_guard_decides_is_told_of_the_sockets_that_are_there() {
    if skip_without_root("why_no_guard_decides_is_told_of_the_sockets_that_are_there") {
        return;
    }
    let stage = Stage::new("explain-none");
    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "ip");
    let why = |expected: &str| {
        let alone = format!("passed to the kernel, which alone decides: {expected}\n");
        tells(&told(&stage, "10.77.0.1:80"), &[&alone]);
    };
    let nobody = "nothing listens on 10.77.0.1:80 at srv0, and the answer is RST";
    why(nobody);
    let elsewhere = Stalled::with(&stage.server, server(80), BACKLOG, |socket| {
        socket.bind_device(Some(b"lo")).expect("SO_BINDTODEVICE");
    });
    why(nobody);
    drop(elsewhere);
    let chooses = Stalled::with(&stage.server, server(80), BACKLOG, choose);
    why("a program of the application's chooses among those that listen on 10.77.0.1:80");
    drop(chooses);
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let stands = Plain::connect(&stage.client, 40000, server(80), Duration::from_secs(2));
    assert!(stands.connected());
    why("a connection between these addresses and ports stands already, or stood a moment ago");
    stands.discard();
    guard.stop();
}

#[test]
fn an_address_that_has_come_while_no_daemon_runs_is_told_to_be_unknown_to_the_programs() {
    const TEST: &str =
        "an_address_that_has_come_while_no_daemon_runs_is_told_to_be_unknown_to_the_programs";
    if skip_without_root(TEST) {
        return;
    }
    let stage = Stage::new("explain-untold");
    let every = SocketAddr::from(([0; 4], 80));
    let listener = Stalled::new(&stage.server, every, BACKLOG);
    Guard::on_port(&stage.server, 80, "abort rst-syn", "ip").kill();
    stage.link.a().add_address("10.77.0.3/24").expect("another address");
    let unknown = "passed to the kernel, which alone decides: no daemon has told the programs that \
                   10.77.0.3 is this host's; `tidegate run` does\n";
    tells(&told(&stage, "10.77.0.3:80"), &[unknown]);
    tells(&told(&stage, "10.77.0.1:80"), &["the queues have room (Room)"]);

    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "ip");
    tells(&told(&stage, "10.77.0.3:80"), &["the queues have room (Room)"]);
    guard.kill();
    // Whoever does not listen there answers so, whatever the programs know.
    drop(listener);
    stage.link.a().add_address("10.77.0.4/24").expect("another address");
    tells(&told(&stage, "10.77.0.4:80"), &["nothing listens on 10.77.0.4:80 at srv0"]);
    Guard::on_port(&stage.server, 80, "abort rst-syn", "ip").stop();
}

#[test]
fn a_link_local_client_is_behind_the_interface_that_its_zone_names() {
    if skip_without_root("a_link_local_client_is_behind_the_interface_that_its_zone_names") {
        return;
    }
    let stage = Stage::new("explain-zone");
    let second = Link::between(&stage.server, "srv1", &stage.client, "cli1").expect("a veth");
    second.up().expect("both ends up");
    let links = || stage.server.ip("-6 -o address show scope link").expect("addresses");
    until("every link has its address", || links().lines().count() == 2);
    let _listener = Stalled::new(&stage.server, "[::]:80".parse().expect("an address"), BACKLOG);
    let guard = configured(
        &stage,
        "interfaces = [\"srv1\"]\n[[listener]]\nport = 80\nmechanism = \"rst-syn\"\nhook = \"ip\"\n",
    );
    let to = format!("[{SERVER_V6}]:80");
    let told = |from: &str| asked(&stage.server, &["--from", from, "--to", &to]);
    let listed = stage.server.ip("-o link show srv1").expect("an interface");
    let (index, _) = listed.split_once(':').expect("its index first");
    for zone in ["srv1", index] {
        let from = format!("[fe80::9%{zone}]:40000");
        tells(&told(&from), &["SYN [fe80::9]:40000 > ", ", in at srv1\n", "have room (Room)"]);
    }
    let elsewhere = told("[fe80::9%srv0]:40000");
    tells(&elsewhere, &[", in at srv0\n", "no program of the guard stands at srv0"]);
    refused(
        &stage,
        &["--from", "[fe80::9]:40000", "--to", &to],
        "fe80::9 may be on any link of this host's; name the interface that the SYN comes in at with",
    );
    guard.stop();
}

#[test]
fn what_the_answer_hangs_on_is_told_with_it() {
    if skip_without_root("what_the_answer_hangs_on_is_told_with_it") {
        return;
    }
    let stage = Stage::new("explain-hangs");
    let _listeners: Vec<Stalled> =
        (80..85).map(|port| Stalled::new(&stage.server, server(port), BACKLOG)).collect();
    let guard = configured(
        &stage,
        "[[listener]]\nport = 80\nmechanism = \"auto\"\nhook = \"driver\"\n\
         [[listener]]\nport = 81\nshed = { policy = \"rbd\", p = 0.5 }\nhook = \"ip\"\n\
         [[listener]]\nport = 82\nmechanism = \"abort early-syn-drop\"\nhook = \"tcp\"\n\
         [[listener]]\nport = 83\nshed = { policy = \"sbpd\", p = 0.25, refuse = \"rst\" }\n\
         [[listener]]\nport = 84\nshed = { p = 1, key = \"client\" }\n",
    );
    tells(
        &told(&stage, "10.77.0.1:80"),
        &["  phase     calm\n", ", at the driver\n", "auto goes by"],
    );

    let drawn = answer(&stage, &["--from", CLIENT, "--to", "10.77.0.1:81"]);
    let shares = drawn["shares"].as_array().expect("shares");
    assert_eq!(shares.len(), 2, "{drawn:#}");
    shares.iter().for_each(is_half);
    tells(
        &told(&stage, "10.77.0.1:82"),
        &["at tcp\n", "(Room)", "judged at the TCP entry, behind"],
    );

    // Every connection is drawn for by its number, so another one fares otherwise.
    let by_number = answer(&stage, &["--from", CLIENT, "--to", "10.77.0.1:83"]);
    let shares = by_number["shares"].as_array().expect("shares");
    let shed = shares.iter().find(|s| s["reason"] == "ShedNew").expect("some are shed");
    assert_eq!(shed["verdict"], "reset");
    assert!((shed["share"].as_f64().expect("a number") - 0.25).abs() < 0.07, "{by_number:#}");

    let all = answer(&stage, &["--from", CLIENT, "--to", "10.77.0.1:84"]);
    assert_eq!(
        (all["verdict"].as_str(), all["reason"].as_str()),
        (Some("drop"), Some("ShedStateless"))
    );
    assert_eq!(all["shares"], Value::Null, "no chance has a part: {all:#}");
    tells(&all["notes"][0].to_string(), &["slpd goes by client"]);
    assert_eq!(Counted::of(&stage.server).all(), 0, "asking is no SYN");
    guard.stop();
}

#[test]
fn a_path_and_a_pair_that_is_held_are_explained() {
    if skip_without_root("a_path_and_a_pair_that_is_held_are_explained") {
        return;
    }
    // The client takes TIME-WAIT over from a server that closed first.
    let (stage, _guard) = waits::negotiating("explain-held", "", "close_swap = true");
    waits::visits(&stage, 2, |_| First::Server);
    waits::settled("both pairs are held by us", || waits::held(&stage.client).1 == 2);
    for (i, (own, server)) in (0..).zip(waits::families()) {
        let (from, to) = (waits::at(server, waits::PORT), waits::at(own, waits::FIRST_PORT + i));
        let ends = ["--from", &from.to_string(), "--to", &to.to_string()];
        // Half of all time stamps lie before that of the last connection.
        let mut answers = (0..30).map(|_| asked(&stage.client, &ends));
        let held = answers.find(|told| told.contains("held in TIME-WAIT here"));
        tells(&held.expect("one with an older time stamp"), &[", in at cli0\n", "is made up"]);
        let free = waits::at(own, 9).to_string();
        let told = asked(&stage.client, &["--from", &from.to_string(), "--to", &free]);
        tells(&told, &["passed to the kernel", &format!("no guard stands for {free}")]);
    }
    assert_eq!(waits::count(&waits::time_wait(&stage.client), "blocked"), 0, "asking is no SYN");

    let guard = configured(
        &stage,
        "[[path]]\nport = 443\naddress = \"198.51.100.7\"\nshed = { p = 1 }\n\
         [[path]]\nport = 444\naddress = \"198.51.100.7\"\nshed = { policy = \"rbd\", p = 0.001 }\n",
    );
    // Of every address, but this one is another host's.
    let _own = Stalled::new(&stage.server, SocketAddr::from(([0; 4], 443)), BACKLOG);
    let passing = answer(&stage, &["--from", CLIENT, "--to", "198.51.100.7:443"]);
    assert_eq!(passing["listener"], Value::Null, "{passing:#}");
    tells(
        &told(&stage, "198.51.100.7:443"),
        &[
            "  path      198.51.100.7 port 443: slpd of 1 by connection at auto\n",
            "(ShedStateless)",
        ],
    );
    let rarely = answer(&stage, &["--from", CLIENT, "--to", "198.51.100.7:444"]);
    assert_eq!(rarely["shares"][0]["reason"], "Forwarded", "{rarely:#}");
    guard.stop();
}

/// What the driver's program lets through may be held at the entry of IP.
#[test]
fn a_pair_that_is_held_behind_the_driver_is_explained() {
    if skip_without_root("a_pair_that_is_held_behind_the_driver_is_explained") {
        return;
    }
    let own = "time_wait = \"server\"\nhook = \"driver\"";
    let (stage, _guards) = waits::negotiating("explain-driver", own, "negotiate = \"server\"");
    for (i, (own, server)) in (0..).zip(waits::families()) {
        // Each before it is asked for: it is held for a minute, of which an emulated machine needs most.
        waits::visit(&stage, Duration::ZERO, i..i + 1, |_| First::Client);
        waits::settled("the pair is held by us", || waits::held(&stage.server).1 >= 1);
        let (from, to) = (waits::at(own, waits::FIRST_PORT + i), waits::at(server, waits::PORT));
        let ask = |from: SocketAddr| {
            asked(&stage.server, &["--from", &from.to_string(), "--to", &to.to_string()])
        };
        // Half of all time stamps lie before that of the last connection.
        assert!((0..30).any(|_| ask(from).contains("held in TIME-WAIT here")), "{from}");
        tells(&ask(waits::at(own, 9)), &["the queues have room (Room), at the driver"]);
    }
    assert_eq!(waits::count(&waits::time_wait(&stage.server), "blocked"), 0, "asking is no SYN");
}

/// A capture of these frames, classic and little-endian.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |words: &[u32]| bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    put(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1]);
    for frame in frames {
        let length = frame.len() as u32;
        let mut put = |words: &[u32]| bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        put(&[0, 0, length, length]);
        bytes.extend(frame);
    }
    bytes
}

/// The server has seen these.
fn keep(stage: &Stage, frames: &[Vec<u8>]) {
    let bytes = capture(frames);
    stage.server.run(move || fs::write(CAPTURE, bytes).expect("a capture"));
}

#[test]
fn the_syns_of_a_capture_are_explained_each() {
    if skip_without_root("the_syns_of_a_capture_are_explained_each") {
        return;
    }
    let stage = Stage::new("explain-capture");
    let wire = Wire::of(&stage);
    let _full = Stalled::new(&stage.server, server(80), 0);
    let _waiting = fill(&stage.client, server(80), 1);
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");

    let from: SocketAddr = CLIENT.parse().expect("an address");
    let segment = |flags, seq| wire.frame(&Segment::new(from, server(80), flags, seq, 0));
    let signed = Segment {
        // TCP-MD5: an answer would have to be signed, too.
        options: [&[19, 18][..], &[0; 16]].concat(),
        ..Segment::new(from, server(80), SYN, 7002, 0)
    };
    let usual =
        Segment { options: usual_options(1), ..Segment::new(from, server(80), SYN, 7001, 0) };
    // Of a trunk tcpdump shows the tags, of which the kernel takes the outer one out before it is judged.
    let tagged = |tags: &[(u16, u16)], seq| {
        wire.frame(&Segment { tags: tags.to_vec(), seq, ..usual.clone() })
    };
    let frames = [
        wire.frame(&usual),
        segment(ACK, 7001),
        wire.frame(&signed),
        segment(SYN, 7003),
        tagged(&[(0x8100, 5)], 7004),
        tagged(&[(0x88a8, 5), (0x8100, 6)], 7005),
    ];
    keep(&stage, &frames);

    let explained = answer(&stage, &["--pcap", CAPTURE]);
    let met: Vec<(u64, &str, &str)> = explained
        .as_array()
        .expect("one for each")
        .iter()
        .map(|e| {
            let word = |key: &str| e[key].as_str().expect("a word");
            (e["isn"].as_u64().expect("a number"), word("verdict"), word("reason"))
        })
        .collect();
    assert_eq!(
        met,
        [
            (7001, "cookie", "ListenQFullAtSyn"),
            (7002, "pass", "NoCookie"),
            (7003, "cookie", "ListenQFullAtSyn"),
            (7004, "cookie", "ListenQFullAtSyn"),
            (7005, "pass", "NoCookie"),
        ]
    );
    let text = asked(&stage.server, &["--pcap", CAPTURE, "--interface", "srv0"]);
    assert_eq!(text.matches("SYN 10.77.0.2:40000 > 10.77.0.1:80").count(), 5, "{text}");
    assert_eq!(Counted::of(&stage.server).all(), 0, "asking is no SYN");
    guard.stop();
}

/// A question that is refused with one line of these parts.
fn refused(stage: &Stage, arguments: &[&str], expected: &str) {
    let arguments: Vec<&str> = ["explain"].into_iter().chain(arguments.iter().copied()).collect();
    let output = run_to_end(&stage.server, &arguments);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} is refused");
    assert_eq!(stderr.lines().count(), 1, "{arguments:?} is answered in one line: {stderr}");
    assert!(stderr.contains(expected), "{arguments:?}: {stderr:?} should name {expected:?}");
}

#[test]
fn a_question_that_makes_no_sense_is_answered_in_one_line() {
    if skip_without_root("a_question_that_makes_no_sense_is_answered_in_one_line") {
        return;
    }
    let stage = Stage::new("explain-wrong");
    let (from, to) = (["--from", CLIENT], ["--to", "10.77.0.1:80"]);
    let both: Vec<&str> = [from, to].concat();
    refused(&stage, &both, "no guard stands here; start one with `tidegate run`");

    let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", "auto");
    stage.server.run(|| {
        fs::write("/run/text.pcap", "no capture").expect("a file");
        fs::write("/run/none.pcap", capture(&[vec![0; 60]])).expect("a file");
    });
    for (arguments, expected) in [
        (&[][..], "no SYN is named; give --from ADDRESS:PORT and --to"),
        (&from, "--to"),
        (
            &["--from", "10.77.0.2", to[0], to[1]],
            "--from \"10.77.0.2\" is no address and port; write",
        ),
        (
            &[from[0], from[1], "--to", "x:80"],
            "--to \"x:80\" is no address and port; write one like",
        ),
        (&["--from", "[fd77::2]:1", to[0], to[1]], "are of two families; give both as IPv4 or"),
        (&["--pcap", "/nonexistent"], "/nonexistent: No such file"),
        (&["--pcap", "/run"], "/run: Is a directory"),
        (&["--pcap", "/run/text.pcap"], "/run/text.pcap: this is no capture; write one with"),
        (&["--pcap", "/run/none.pcap"], "/run/none.pcap: there is no whole SYN in it; capture"),
        (
            &["--pcap", "x", from[0], from[1]],
            "--pcap does not go with --from; leave one of the two out",
        ),
        (
            &[from[0], from[1], to[0], to[1], "--interface", "eth9"],
            "interface \"eth9\" is not here or not up; name one of: lo, srv0",
        ),
        (
            &["--from", "192.0.2.9:1", to[0], to[1]],
            "this host has no route to 192.0.2.9 (Network is unreachable (os error 101)); name the",
        ),
    ] {
        refused(&stage, arguments, expected);
    }
    guard.stop();
}
