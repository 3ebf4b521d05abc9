// SPDX-License-Identifier: Apache-2.0 OR MIT
//! no-syn-drop (Shukla, thesis, 4.1.5): a SYN without room is answered and forgotten, and the
//! connection that grows from its cookie is as good as any other.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate_lab::{Counters, Link, Namespace};
use tidegate_tests::{
    Answer, CLIENT_V4, CLIENT_V6, Counted, Guard, Nginx, Plain, SERVER_V4, SERVER_V6, Spoofed,
    Stage, Stalled, Withheld, bpf, fetch, fill, half_open, listen_queue, skip_without_root, until,
};

const PATIENCE: Duration = Duration::from_secs(2);
/// A listen queue with a backlog of 8 holds 9.
const PLACES: usize = 9;

fn server(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 80)
}

/// A megabyte in which every place looks different.
fn megabyte() -> Vec<u8> {
    (0..1u32 << 18).flat_map(|i| i.wrapping_mul(0x9e37_79b1).to_be_bytes()).collect()
}

/// A client that was given a cookie when the listen queue was full. Its ACKs are withheld
/// until there is room: what brings the cookie back then is its request.
fn with_cookie(stage: &Stage, nginx: &Nginx, to: SocketAddr, port: u16) -> TcpStream {
    let before = Counted::of(&stage.server).packets("ListenQFullAtSyn", "cookie");
    nginx.freeze();
    let fillers = fill(&stage.client, to, PLACES);
    until("the listen queue is full", || listen_queue(&stage.server, to) as usize == PLACES);
    let withheld = Withheld::from_ports(&stage.client, port, port);
    let client = Plain::connect(&stage.client, port, to, PATIENCE);
    assert!(client.connected(), "a full listen queue, and the SYN is answered all the same");
    assert_eq!(half_open(&stage.server, 80), 0, "and forgotten");
    let after = Counted::of(&stage.server).packets("ListenQFullAtSyn", "cookie");
    assert_eq!(after, before + 1, "the answer was a cookie");
    nginx.thaw();
    until("there is room", || listen_queue(&stage.server, to) == 0);
    drop((fillers, withheld));
    let stream = client.into_stream();
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
    stream
}

/// GET of `/name` on a connection that stays open: the body.
fn download(stream: &mut TcpStream, name: &str) -> Vec<u8> {
    write!(stream, "GET /{name} HTTP/1.1\r\nHost: tidegate\r\n\r\n").expect("a request sent");
    let mut reply = Vec::new();
    let mut part = [0; 65536];
    loop {
        let n = stream.read(&mut part).expect("a reply");
        assert!(n > 0, "the connection stays open: {}", String::from_utf8_lossy(&reply));
        reply.extend_from_slice(&part[..n]);
        let Some(at) = reply.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&reply[..at]).into_owned();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: "));
        let length: usize = length.expect("a length").parse().expect("a number");
        if reply.len() == at + 4 + length {
            return reply.split_off(at + 4);
        }
    }
}

/// What `ss -tio` tells of a connection: the words without a value, and the values.
struct Told(String);

impl Told {
    fn of(namespace: &Namespace, filter: &str) -> Self {
        let mut command = namespace.command("ss -tionOH state established");
        command.arg(filter);
        let text = namespace.output(command).expect("ss tells");
        assert_eq!(text.lines().count(), 1, "one connection of {filter}: {text}");
        Told(text)
    }

    fn has(&self, word: &str) -> bool {
        self.0.split_whitespace().any(|w| w == word)
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.split_whitespace().find_map(|w| w.strip_prefix(name)?.strip_prefix(':'))
    }
}

/// What a client does not offer.
#[derive(Clone, Copy, PartialEq)]
enum Without {
    Nothing,
    Timestamps,
    Sack,
    WindowScaling,
    All,
}

fn keeps_its_options(address: &str, without: Without, ecn: bool) {
    let stage = Stage::new("cookie-options");
    let off = |which| without == which || without == Without::All;
    for (name, value) in [
        ("net.ipv4.tcp_timestamps", !off(Without::Timestamps)),
        ("net.ipv4.tcp_sack", !off(Without::Sack)),
        ("net.ipv4.tcp_window_scaling", !off(Without::WindowScaling)),
    ] {
        stage.client.sysctl(name, u8::from(value)).expect("a sysctl");
    }
    stage.client.sysctl("net.ipv4.tcp_ecn", if ecn { 1 } else { 2 }).expect("a sysctl");
    let nginx = Nginx::start(&stage.server, &["80 backlog=8", "[::]:80 backlog=8"]);
    nginx.serve("bytes", &megabyte());
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");
    let mut stream = with_cookie(&stage, &nginx, server(address), 5000);
    assert!(download(&mut stream, "bytes") == megabyte(), "a megabyte, byte for byte");
    assert_eq!(Counted::of(&stage.server).packets("CookieValid", "admit"), 1);

    let client = Told::of(&stage.client, "sport = :5000");
    let server = Told::of(&stage.server, "dport = :5000");
    // An Ethernet frame's 1500 bytes less IP's and TCP's headers, and less the timestamps.
    let mss = if address == SERVER_V4 { 1460 } else { 1440 };
    let mss = if off(Without::Timestamps) { mss } else { mss - 12 };
    for told in [&client, &server] {
        assert_eq!(told.has("ts"), !off(Without::Timestamps), "timestamps: {}", told.0);
        assert_eq!(told.has("sack"), !off(Without::Sack), "SACK: {}", told.0);
        assert_eq!(told.has("ecn"), ecn, "ECN: {}", told.0);
        assert_eq!(told.value("mss"), Some(mss.to_string().as_str()), "MSS: {}", told.0);
        assert_eq!(told.value("wscale").is_some(), !off(Without::WindowScaling), "{}", told.0);
    }
    // Each side sends with the scale that the other announced.
    if let (Some(client), Some(server)) = (client.value("wscale"), server.value("wscale")) {
        let swapped: Vec<&str> = server.split(',').rev().collect();
        assert_eq!(client, swapped.join(","), "both sides agree on the windows");
    }
    guard.stop();
}

#[test]
fn a_megabyte_over_a_cookie_keeps_every_option() {
    if skip_without_root("a_megabyte_over_a_cookie_keeps_every_option") {
        return;
    }
    keeps_its_options(SERVER_V4, Without::Nothing, false);
    keeps_its_options(SERVER_V6, Without::Nothing, false);
    keeps_its_options(SERVER_V4, Without::Nothing, true);
    keeps_its_options(SERVER_V6, Without::Nothing, true);
}

#[test]
fn options_survive_without_timestamps() {
    if skip_without_root("options_survive_without_timestamps") {
        return;
    }
    keeps_its_options(SERVER_V4, Without::Timestamps, true);
    keeps_its_options(SERVER_V6, Without::Timestamps, false);
}

#[test]
fn what_a_client_does_not_offer_is_not_used() {
    if skip_without_root("what_a_client_does_not_offer_is_not_used") {
        return;
    }
    keeps_its_options(SERVER_V4, Without::Sack, false);
    keeps_its_options(SERVER_V4, Without::WindowScaling, false);
    keeps_its_options(SERVER_V6, Without::All, false);
}

/// The bare ACK alone brings the connection in, so a server may speak first. The ACK is on its
/// way for as long as a slow link takes; in that time the server accepts one connection.
#[test]
fn a_server_that_speaks_first_is_heard_and_data_flows_both_ways() {
    if skip_without_root("a_server_that_speaks_first_is_heard_and_data_flows_both_ways") {
        return;
    }
    let stage = Stage::new("cookie-speaks");
    let server_socket = Stalled::new(&stage.server, server(SERVER_V4), 8);
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");
    let fillers = fill(&stage.client, server(SERVER_V4), PLACES);
    // 1 kbit/s: a first packet leaves of the bucket what a SYN needs, and for the ACK behind it a third of
    // a second's worth is missing. After a second the client would send its SYN again.
    let slow = "tc qdisc add dev cli0 root tbf rate 1kbit burst 1600 limit 100000";
    stage.client.output(stage.client.command(slow)).expect("tc makes the link slow");
    stage.client.run(|| {
        let socket = std::net::UdpSocket::bind("10.77.0.2:0").expect("a socket");
        socket.send_to(&[0; 1458], "10.77.0.1:9").expect("a packet that empties the bucket");
    });
    let client = Plain::connect(&stage.client, 0, server(SERVER_V4), PATIENCE);
    assert!(client.connected());
    let before = server_socket.accept_all();
    assert_eq!(before.len(), PLACES, "its ACK is on the way, and the queue full until now");
    until("it is let in", || listen_queue(&stage.server, server(SERVER_V4)) == 1);
    stage.client.output(stage.client.command("tc qdisc del dev cli0 root")).expect("tc");
    let mut accepted = server_socket.accept_all();
    let (mut ours, _) = accepted.pop().expect("one more connection");
    let mut theirs = client.into_stream();
    let sent = megabyte();
    let (there, back) = (sent.clone(), sent.clone());
    let talker = std::thread::spawn(move || {
        ours.set_nonblocking(false).expect("a blocking socket");
        ours.write_all(&there).expect("the server speaks");
        let mut heard = vec![0; there.len()];
        ours.read_exact(&mut heard).expect("the server hears");
        assert!(heard == there, "a megabyte up, byte for byte");
    });
    let mut heard = vec![0; sent.len()];
    theirs.read_exact(&mut heard).expect("the client hears");
    assert!(heard == back, "a megabyte down, byte for byte");
    theirs.write_all(&back).expect("the client speaks");
    talker.join().expect("both heard all");
    assert_eq!(Counted::of(&stage.server).packets("CookieValid", "admit"), 1);
    drop((before, fillers));
    guard.stop();
}

/// When the queue is still full at the ACK, the client is told so.
#[test]
fn a_cookie_that_finds_no_room_is_answered_with_a_reset() {
    if skip_without_root("a_cookie_that_finds_no_room_is_answered_with_a_reset") {
        return;
    }
    let stage = Stage::new("cookie-no-room");
    let _server = Stalled::new(&stage.server, server(SERVER_V4), 8);
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");
    let _fillers = fill(&stage.client, server(SERVER_V4), PLACES);
    for _ in 0..10 {
        let seen = fetch(&stage.client, server(SERVER_V4), PATIENCE);
        assert_eq!(seen.answer, Answer::Reset);
    }
    let ours = Counted::of(&stage.server);
    assert_eq!(ours.packets("CookieNoRoom", "reset"), 10, "{ours}");
    guard.stop();
}

const KEYS: [&str; 4] = [
    "000102030405060708090a0b0c0d0e0f",
    "101112131415161718191a1b1c1d1e1f",
    "202122232425262728292a2b2c2d2e2f",
    "303132333435363738393a3b3c3d3e3f",
];

/// Writes a file of keys into the namespace's /run.
fn write_keys(namespace: &Namespace, keys: [&str; 2]) {
    let text = keys.map(|key| format!("{key}\n")).concat();
    namespace.run(move || std::fs::write("/run/keys", text).expect("a file of keys"));
}

/// A guard with no-syn-drop and keys from that file.
fn with_keys(namespace: &Namespace, keys: [&str; 2]) -> Guard {
    write_keys(namespace, keys);
    let text = "cookie_keys = \"/run/keys\"\n[[listener]]\nport = 80\nmechanism = \"no-syn-drop\"\nhook = \"ip\"\n";
    namespace.run(move || std::fs::write("/run/t.toml", text).expect("a configuration"));
    Guard::start(namespace, &["--config", "/run/t.toml"])
}

/// One request, and what came of it: a page, or a reset.
fn page(stream: &mut TcpStream) -> std::io::Result<String> {
    write!(stream, "GET / HTTP/1.0\r\n\r\n")?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    Ok(reply)
}

#[test]
fn a_rotation_of_keys_breaks_no_handshake_under_way() {
    if skip_without_root("a_rotation_of_keys_breaks_no_handshake_under_way") {
        return;
    }
    let stage = Stage::new("cookie-keys");
    let nginx = Nginx::start(&stage.server, &["80 backlog=8"]);
    let mut guard = with_keys(&stage.server, [KEYS[0], KEYS[1]]);
    for (port, next, served) in [
        (5001, [KEYS[1], KEYS[0]], true),  // the lines swapped
        (5002, [KEYS[2], KEYS[1]], true),  // a new one, and the one before
        (5003, [KEYS[0], KEYS[3]], false), // both replaced: a foreign host's cookie
    ] {
        let mut client = with_cookie(&stage, &nginx, server(SERVER_V4), port);
        write_keys(&stage.server, next);
        guard.reload();
        let answer = page(&mut client);
        if served {
            assert!(answer.is_ok_and(|page| page.ends_with("served\n")), "keys {next:?}");
        } else {
            let error = answer.expect_err("a cookie of no key that is known");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    // A daemon that adopts a killed one's guard keeps its random keys, too.
    guard.stop();
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");
    let mut client = with_cookie(&stage, &nginx, server(SERVER_V4), 5004);
    guard.kill();
    let guard = Guard::on_port(&stage.server, 80, "no-syn-drop", "ip");
    assert!(page(&mut client).is_ok_and(|page| page.ends_with("served\n")), "keys adopted");
    guard.stop();
}

/// Anycast, or a router that balances anew: the SYN reaches one host, the ACK another.
#[test]
fn hosts_with_the_same_keys_take_each_others_cookies() {
    if skip_without_root("hosts_with_the_same_keys_take_each_others_cookies") {
        return;
    }
    let stage = Stage::new("cookie-hosts");
    let other = Namespace::new("cookie-hosts-other").expect("a second server");
    let link = Link::between(&other, "srv1", &stage.client, "cli1").expect("a veth");
    link.a().add_address(&format!("{SERVER_V4}/24")).expect("the same address");
    link.b().add_address("10.78.0.2/24").expect("an address");
    link.up().expect("both ends up");
    let nginx = Nginx::start(&stage.server, &["80 backlog=8"]);
    let _elsewhere = Nginx::start(&other, &["80 backlog=8"]);
    for (port, keys, served) in
        [(5001, [KEYS[0], KEYS[1]], true), (5002, [KEYS[2], KEYS[3]], false)]
    {
        let here = with_keys(&stage.server, [KEYS[0], KEYS[1]]);
        let there = with_keys(&other, keys);
        let mut client = with_cookie(&stage, &nginx, server(SERVER_V4), port);
        stage.client.ip(&format!("route add {SERVER_V4}/32 dev cli1")).expect("another route");
        let answer = page(&mut client);
        if served {
            assert!(answer.is_ok_and(|page| page.ends_with("served\n")), "let in at the other");
            assert_eq!(Counted::of(&other).packets("CookieValid", "admit"), 1);
            assert_eq!(Counted::of(&stage.server).packets("CookieValid", "admit"), 0);
        } else {
            assert!(answer.is_err(), "with other keys the other host refuses");
        }
        stage.client.ip(&format!("route del {SERVER_V4}/32 dev cli1")).expect("the first route");
        here.stop();
        there.stop();
    }
}

/// A host that answers every SYN with a cookie, of its own where `auto` leaves it to it.
fn giving_cookies(label: &str) -> (Stage, Stalled) {
    let stage = Stage::new(label);
    stage.receive_offload();
    stage.server.sysctl("net.ipv4.tcp_syncookies", 2).expect("the sysctl");
    let server = Stalled::new(&stage.server, server("::"), 128);
    (stage, server)
}

/// A container, say: whoever is on a network of the host's can put the address of elsewhere into a SYN. The kernel's SYN/ACK
/// goes by the route to that address.
#[test]
fn who_forges_an_address_of_elsewhere_never_sees_its_cookie() {
    if skip_without_root("who_forges_an_address_of_elsewhere_never_sees_its_cookie") {
        return;
    }
    let (stage, _server) = giving_cookies("cookie-forged");
    let forger = Namespace::new("cookie-forger").expect("a container");
    let link = Link::between(&stage.server, "pod0", &forger, "con0").expect("a veth");
    link.a().add_address("10.88.0.1/24").expect("an address");
    link.up().expect("both ends up");
    link.receive_offload().expect("ethtool sets GRO");
    stage.server.sysctl("net.ipv4.ip_forward", 1).expect("a host of containers forwards");
    stage.server.sysctl("net.ipv6.conf.all.forwarding", 1).expect("a host of containers forwards");
    for name in ["all", "pod0"] {
        stage.server.sysctl(&format!("net.ipv4.conf.{name}.rp_filter"), 0).expect("the sysctl");
    }
    let hardware = stage.server.read_file("/sys/class/net/pod0/address").expect("an address");
    for (own, to) in [(CLIENT_V4, SERVER_V4), (CLIENT_V6, SERVER_V6)] {
        forger.ip(&format!("address add {own} dev con0 nodad")).expect("the client's address");
        let known = format!("neighbor add {to} lladdr {} dev con0", hardware.trim());
        forger.ip(&known).expect("a neighbour that nobody need ask for");
        forger.ip(&format!("route add {to} dev con0 src {own}")).expect("a route");
    }
    let resets = || Counters::of(&stage.client).and_then(|now| now.get("TcpOutRsts"));
    let resets = || resets().expect("the kernel counts them");
    for hook in ["ip", "driver"] {
        let guard = Guard::on_port(&stage.server, 80, "auto", hook);
        for to in [SERVER_V4, SERVER_V6].map(server) {
            let before = (Counted::of(&stage.server), resets());
            let counted = |verdict| {
                let now = Counted::of(&stage.server).packets("KernelCookie", verdict);
                now - before.0.packets("KernelCookie", verdict)
            };
            let forged = Plain::connect(&forger, 0, to, Duration::from_millis(500));
            assert!(!forged.connected(), "{to} at {hook}: it has seen the SYN/ACK");
            assert_eq!((counted("pass"), counted("cookie")), (1, 0), "{to} at {hook}");
            assert!(resets() > before.1, "{to} at {hook}: whose address it is has seen it");
            // It would send its SYN again.
            forged.discard();
            let client = Plain::connect(&stage.client, 0, to, PATIENCE);
            assert!(client.connected(), "{to} at {hook}");
            assert_eq!((counted("pass"), counted("cookie")), (1, 1), "{to} at {hook}");
        }
        guard.stop();
    }
}

/// What docs/configuration.md says of the host's firewall: a SYN that is answered with a cookie is met before any rule,
/// and the ACK that brings it is none.
#[test]
fn a_rule_for_syns_does_not_keep_out_who_has_a_cookie_and_one_for_new_connections_does() {
    const TEST: &str =
        "a_rule_for_syns_does_not_keep_out_who_has_a_cookie_and_one_for_new_connections_does";
    if skip_without_root(TEST) {
        return;
    }
    let (stage, socket) = giving_cookies("cookie-rules");
    let rules = |rule: &str, raw: &str| {
        let table = format!(
            "table inet t\ndelete table inet t\ntable inet t {{\n\
             chain r {{\ntype filter hook prerouting priority raw\n{raw}\n}}\n\
             chain i {{\ntype filter hook input priority filter\n\
             tcp dport 80 ip saddr {CLIENT_V4} {rule} drop\n}}\n}}\n"
        );
        stage.server.place_file("/run/rules.nft", table).expect("a file");
        stage.server.output(stage.server.command("nft -f /run/rules.nft")).expect("nft takes it");
    };
    const SYN_ALONE: &str = "tcp flags & (fin | syn | rst | ack) == syn";
    let knock =
        |port| Plain::connect(&stage.client, port, server(SERVER_V4), Duration::from_millis(500));
    rules(SYN_ALONE, "");
    assert!(!knock(5000).connected(), "without Tidegate the kernel's cookie is behind the rules");
    let guard = Guard::on_port(&stage.server, 80, "auto", "ip");
    for (port, rule, raw, comes_in) in [
        (5001, SYN_ALONE, "", true),
        (5002, "ct state new", "", false),
        (5003, "ct state new", "tcp dport 80 notrack", true),
        (5004, "", "tcp dport 80 notrack", false),
    ] {
        rules(rule, raw);
        let before = Counted::of(&stage.server).packets("CookieValid", "admit");
        let client = knock(port);
        assert!(client.connected(), "{rule}, {raw}: as far as it knows");
        until("its ACK is met", || {
            Counted::of(&stage.server).packets("CookieValid", "admit") > before
        });
        // TCP meets it right behind the rules.
        std::thread::sleep(Duration::from_millis(50));
        let mut accepted = socket.accept_all().into_iter();
        assert_eq!(accepted.any(|(_, from)| from.port() == port), comes_in, "{rule}, {raw}");
    }
    guard.stop();
}

/// Memory that a flood could take: what TCP and its request caches hold, in pages and objects.
fn memory(namespace: &Namespace) -> (u64, u64) {
    let sockets = namespace.read_file("/proc/thread-self/net/sockstat").expect("sockstat");
    let line = sockets.lines().find(|l| l.starts_with("TCP:")).expect("TCP's line");
    let pages = line.split_whitespace().last().expect("mem").parse().expect("a number");
    let slabs = namespace.read_file("/proc/slabinfo").expect("root may read it");
    let requests: Vec<u64> = slabs
        .lines()
        .filter(|l| l.starts_with("request_sock_TCP"))
        .map(|l| l.split_whitespace().nth(1).expect("objects").parse().expect("a number"))
        .collect();
    assert!(!requests.is_empty(), "the kernel tells of its requests");
    (pages, requests.iter().sum())
}

/// With a mechanism that gives cookies for this reason while the SYN queue is full.
fn a_million_forged_syns_take_no_memory(mechanism: &str, full: &str) {
    const FORGED: usize = 1_000_000;
    let stage = Stage::new("cookie-flood");
    let _nginx = Nginx::start(&stage.server, &["80 backlog=128"]);
    let guard = Guard::on_port(&stage.server, 80, mechanism, "ip");
    let maps = || -> BTreeSet<bpf::Object> {
        let is_map = |o: &bpf::Object| matches!(o, bpf::Object::Map(_));
        bpf::pinned(&stage.server).into_iter().filter(is_map).collect()
    };
    let (maps_before, before) = (maps(), memory(&stage.server));
    let (done, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let client = {
        let (namespace, done, served) = (stage.client.clone(), done.clone(), served.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let seen = fetch(&namespace, server(SERVER_V4), PATIENCE);
                assert_eq!(seen.answer, Answer::Status(200), "a client during the flood");
                served.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        })
    };
    let begun = Instant::now();
    let mut spoofed = Spoofed::on(&stage, 7);
    for tenth in 1..=10 {
        spoofed.send(server(SERVER_V4), FORGED / 10);
        let now = memory(&stage.server);
        // The SYN queue is bounded by the backlog: 129 requests, whatever
        // comes, and a few that come and go while they are counted. Other tests
        // of this machine have some thousand sockets and pages at most.
        let requests = half_open(&stage.server, 80);
        assert!(requests <= 129 + 8, "after {tenth} tenths: {requests}");
        assert!(now.0 < before.0 + 4096, "TCP's pages: {before:?}, then {now:?}");
        assert!(now.1 < before.1 + 20_000, "requests: {before:?}, then {now:?}");
    }
    let took = begun.elapsed();
    done.store(true, Ordering::Relaxed);
    client.join().expect("every client is served");
    let ours = Counted::of(&stage.server);
    let cookies = ours.packets(full, "cookie") + ours.packets("ListenQFullAtSyn", "cookie");
    assert!(cookies > FORGED as u64 * 9 / 10, "answered without state: {ours}");
    let served = served.load(Ordering::Relaxed);
    assert!(served > 50, "clients that were served in {took:?}: {served}");
    assert!(ours.packets("CookieValid", "admit") > 50, "by their cookies: {ours}");
    assert_eq!(maps(), maps_before, "no map was added");
    guard.stop();
}

#[test]
fn a_million_forged_syns_take_no_memory_and_no_client_goes_unserved() {
    if skip_without_root("a_million_forged_syns_take_no_memory_and_no_client_goes_unserved") {
        return;
    }
    a_million_forged_syns_take_no_memory("no-syn-drop", "SynQFull");
}

/// The policy that no one has chosen: for it this is no overload, since nobody goes without an answer.
#[test]
fn with_auto_a_million_forged_syns_take_no_memory_either() {
    if skip_without_root("with_auto_a_million_forged_syns_take_no_memory_either") {
        return;
    }
    a_million_forged_syns_take_no_memory("auto", "KernelCookie");
}
