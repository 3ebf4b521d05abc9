// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A refusal says why, and when to come back, in no more bytes than the client sent; and to whoever
//! does not know of it, it is a RST like any other.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use nix::libc;
use socket2::{Domain, Protocol, Socket, Type};
use tidegate_crowd::{Class, Driver, Load, Os, Plan, run};
use tidegate_lab::Namespace;
use tidegate_tests::wire::{
    ACK, HalfOpen, PSH, RST, SYN, Segment, TSVAL, WINDOWS_OPTIONS, WIRE_V4, WIRE_V6, Wire,
    usual_options,
};
use tidegate_tests::{
    Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, fill, guard_of, listen_queue, set_option,
    skip_without_root, until,
    waits::{at, guard},
};

const PORT: u16 = 80;

fn servers() -> [SocketAddr; 2] {
    [SERVER_V4, SERVER_V6].map(|address| at(address, PORT))
}

/// Servers with one place in each queue, and who has taken it.
struct Full {
    _servers: Vec<Stalled>,
    _crowd: Vec<Plain>,
}

impl Full {
    fn on(stage: &Stage) -> Self {
        let servers_at = servers();
        let stalled = servers_at.map(|to| Stalled::new(&stage.server, to, 0)).into();
        let crowd = servers_at.into_iter().flat_map(|to| fill(&stage.client, to, 1)).collect();
        for to in servers_at {
            until("the listen queue is full", || listen_queue(&stage.server, to) == 1);
        }
        Full { _servers: stalled, _crowd: crowd }
    }
}

fn refusing(stage: &Stage, hook: &str, rest: &str) -> Guard {
    if hook == "driver" {
        stage.receive_offload();
    }
    let listener = format!("[[listener]]\nport = {PORT}\nhook = \"{hook}\"\n{rest}");
    guard(&stage.server, &listener)
}

/// What a RST says: a reason of the draft's registry with its enterprise number, and a time.
#[derive(Debug, PartialEq)]
struct Said {
    why: Option<(u16, u32)>,
    come_back_s: Option<f64>,
}

/// By draft-ietf-tcpm-rst-diagnostic-payload-02, section 4.1, RFC 6994, and docs/notices.md.
fn decode(rst: &Segment) -> Said {
    assert_eq!(rst.flags & RST, RST, "{rst:?}");
    let why = match rst.payload[..] {
        [] => None,
        [0x33, 0xaa, high, low, a, b, c, d] => {
            Some((u16::from_be_bytes([high, low]), u32::from_be_bytes([a, b, c, d])))
        }
        _ => panic!("no diagnostic payload: {rst:02x?}"),
    };
    let (mut come_back_s, mut rest) = (None, &rst.options[..]);
    while let [kind, tail @ ..] = rest {
        match *kind {
            0 => break,
            1 => rest = tail,
            kind => {
                let (option, behind) = rest.split_at(usize::from(rest[1]));
                if let [253, 6, b'T', b'B', high, low] = *option {
                    come_back_s = Some(f64::from(u16::from_be_bytes([high, low])) / 100.0);
                } else {
                    panic!("an option of kind {kind}: {rst:02x?}");
                }
                rest = behind;
            }
        }
    }
    Said { why, come_back_s }
}

/// "Resource exceeded", of IANA's registry.
const EXCEEDED: Option<(u16, u32)> = Some((10, 0));

fn refused(wire: &Wire, from: SocketAddr, to: SocketAddr, options: Vec<u8>) -> Segment {
    let syn = Segment { options, ..Segment::new(from, to, SYN, 77, 0) };
    wire.send(&syn);
    let until = Instant::now() + Duration::from_secs(2);
    let rst = std::iter::from_fn(|| wire.receive(until))
        .find(|s| s.to == from)
        .unwrap_or_else(|| panic!("{to} refuses a SYN while it has no room"));
    assert_eq!((rst.seq, rst.ack), (0, 78), "an answer to this SYN");
    let bytes = |s: &Segment| s.options.len() + s.payload.len();
    assert!(bytes(&rst) <= bytes(&syn), "{rst:?} is longer than {syn:?}");
    rst
}

fn a_refusal_says(hook: &str) {
    let stage = Stage::new(&format!("notices-{hook}"));
    let _full = Full::on(&stage);
    let guard = refusing(&stage, hook, "mechanism = \"rst-syn\"\nnotice = { come_back_s = 2.5 }");
    let wire = Wire::of(&stage);
    let mss = vec![2, 4, 5, 0xb4];
    // Without time stamps, as Windows opens a connection.
    let shorter = WINDOWS_OPTIONS.to_vec();
    for (own, to) in [WIRE_V4, WIRE_V6].into_iter().zip(servers()) {
        for (port, options, why, come_back_s) in [
            (1001, Vec::new(), None, None),
            (1002, mss.clone(), None, None),
            (1003, shorter.clone(), EXCEEDED, None),
            (1004, usual_options(1), EXCEEDED, Some(2.5)),
        ] {
            let rst = refused(&wire, at(own, port), to, options);
            assert_eq!(decode(&rst), Said { why, come_back_s }, "{to}, port {port}");
        }
    }
    let status = guard.status();
    assert_eq!(guard_of(&status, PORT, None)["notice"]["come_back_s"], 2.5, "{status:#}");
    guard.stop();
}

#[test]
fn a_refusal_at_the_ip_entry_says_why_and_when_to_come_back() {
    if skip_without_root("a_refusal_at_the_ip_entry_says_why_and_when_to_come_back") {
        return;
    }
    a_refusal_says("ip");
}

#[test]
fn a_refusal_at_the_driver_says_why_and_when_to_come_back() {
    if skip_without_root("a_refusal_at_the_driver_says_why_and_when_to_come_back") {
        return;
    }
    a_refusal_says("driver");
}

/// no-syn-drop refuses when the ACK comes: by then the client's address is proved, and still it
/// gets no more bytes than it sent.
#[test]
fn a_refused_ack_is_told_too() {
    if skip_without_root("a_refused_ack_is_told_too") {
        return;
    }
    let stage = Stage::new("notices-ack");
    let _full = Full::on(&stage);
    let guard = refusing(&stage, "ip", "mechanism = \"no-syn-drop\"\nnotice = true");
    for to in servers() {
        for (port, flags, payload, come_back_s) in
            [(2001, ACK, &b""[..], None), (2002, ACK | PSH, b"GET / HTTP/1.0\r\n\r\n", Some(1.0))]
        {
            let half_open = HalfOpen::open(&stage, port, to, usual_options(TSVAL));
            half_open.send(&half_open.segment(flags, 0, payload));
            let answers = half_open.collect(Duration::from_millis(300));
            let [rst] = &answers[..] else { panic!("one RST: {answers:?}") };
            assert_eq!(decode(rst), Said { why: EXCEEDED, come_back_s }, "{to}, port {port}");
        }
    }
    guard.stop();
}

/// Refusals that say nothing, and those that say all that there is room for.
const BARE: &str = "mechanism = \"rst-syn\"";
const TELLING: &str = "mechanism = \"rst-syn\"\nnotice = true";

/// What is on the wire at one end of the stage, whoever it is for.
struct Tap(Socket);

impl Tap {
    fn on(namespace: &Namespace) -> Self {
        let all = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
        let open = move || Socket::new(Domain::PACKET, Type::RAW, Some(all));
        let socket = namespace.run(open).expect("a packet socket");
        // A whole crowd's packets wait in it.
        set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20).expect("a long queue");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        Tap(socket)
    }

    /// The refusals since the last look, each behind the SYN that it answers.
    fn refusals(&self) -> Vec<(Segment, Segment)> {
        let mut frame = [0; 4096];
        let mut seen: Vec<Segment> = Vec::new();
        while let Ok(bytes) = (&self.0).read(&mut frame) {
            seen.extend(Segment::read(&frame[..bytes], None, false));
        }
        let answered = |rst: &Segment| {
            let is_it = |s: &&Segment| s.from == rst.to && s.seq.wrapping_add(1) == rst.ack;
            let syn = seen.iter().find(is_it).unwrap_or_else(|| panic!("to no SYN: {rst:?}"));
            (syn.clone(), rst.clone())
        };
        let refuses = |s: &&Segment| s.from.port() == PORT && s.flags & RST != 0;
        seen.iter().filter(refuses).map(answered).collect()
    }
}

/// What a stock program meets: connect()'s error, and what it reads afterwards.
fn stock(stage: &Stage, to: SocketAddr) -> (Option<ErrorKind>, Vec<u8>) {
    stage.client.run(move || {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("a socket");
        let failed = socket.connect_timeout(&to.into(), Duration::from_secs(2)).err();
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        let mut read = Vec::new();
        let _ = TcpStream::from(socket).read_to_end(&mut read);
        (failed.map(|error| error.kind()), read)
    })
}

#[test]
fn stock_linux_takes_it_for_any_rst() {
    if skip_without_root("stock_linux_takes_it_for_any_rst") {
        return;
    }
    for hook in ["ip", "driver"] {
        let stage = Stage::new(&format!("notices-stock-{hook}"));
        let _full = Full::on(&stage);
        for (rest, why, come_back_s) in [(BARE, None, None), (TELLING, EXCEEDED, Some(1.0))] {
            let guard = refusing(&stage, hook, rest);
            let tap = Tap::on(&stage.client);
            for to in servers() {
                let expected = (Some(ErrorKind::ConnectionRefused), Vec::new());
                assert_eq!(stock(&stage, to), expected, "{hook}, {to}, {rest}");
                let said: Vec<Said> = tap.refusals().iter().map(|(_, rst)| decode(rst)).collect();
                assert_eq!(said, [Said { why, come_back_s }], "on the wire: {hook}, {to}, {rest}");
            }
            guard.stop();
        }
    }
}

fn nothing(_: &Segment) -> Said {
    Said { why: None, come_back_s: None }
}

/// What is said to this SYN where it may be: as much as fits into its options' bytes.
fn all_that_fits(syn: &Segment) -> Said {
    match syn.options.len() {
        ..8 => nothing(syn),
        8..16 => Said { why: EXCEEDED, come_back_s: None },
        16.. => Said { why: EXCEEDED, come_back_s: Some(1.0) },
    }
}

/// Every system that the crowd knows: refused as by a RST that says nothing.
#[test]
fn every_client_profile_is_refused_as_before() {
    if skip_without_root("every_client_profile_is_refused_as_before") {
        return;
    }
    let stage = Stage::new("notices-profiles");
    let _full = Full::on(&stage);
    let meets = |rest: &str, says: fn(&Segment) -> Said| {
        let guard = refusing(&stage, "ip", rest);
        // The crowd takes its packets before anyone at its own end sees them.
        let tap = Tap::on(&stage.server);
        let class =
            |os: &&'static Os| Class { os, timeout: Duration::from_secs(3), ..Class::default() };
        let plan = Plan {
            driver: Driver::Raw,
            targets: vec![at(SERVER_V4, PORT)],
            sources: vec![format!("{}/32", tidegate_tests::CLIENT_V4).parse().expect("an address")],
            load: Load::Constant { per_s: 200.0 },
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(1),
            classes: Os::all().iter().map(class).collect(),
            seed: 7,
            ..Plan::default()
        };
        let outcome = stage.client.run(move || run(&plan).expect("a crowd"));
        guard.stop();
        assert!(outcome.attempts > 100, "{outcome:?}");
        assert_eq!(outcome.errors.refused, outcome.attempts, "{outcome:?}");
        let refusals = tap.refusals();
        assert_eq!(refusals.len() as u64, outcome.segments.syn_sent, "each SYN is refused");
        for (syn, rst) in &refusals {
            assert_eq!(decode(rst), says(syn), "to {syn:?}");
        }
        for room in [0..8, 8..16, 16..41] {
            let has_it = |(syn, _): &(Segment, Segment)| room.contains(&syn.options.len());
            assert!(refusals.iter().any(has_it), "some SYN has {room:?} bytes of options");
        }
        (outcome.attempts, outcome.segments.syn_sent)
    };
    let bare = meets(BARE, nothing);
    assert_eq!(meets(TELLING, all_that_fits), bare, "attempts, and SYNs");
}
