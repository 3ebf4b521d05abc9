// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYN policing (Voigt and others, USENIX 2001): a network of clients may send so many SYNs at once
//! and so many a second; what comes beyond is refused as the mechanism says though there is room,
//! and a network that is exempt is never.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tidegate_tests::wire::{ACK, RST, SYN, Segment, WIRE_V4, WIRE_V6};
use tidegate_tests::{
    CLIENT_V4, CLIENT_V6, Counted, Dialed, Fate, Guard, RawEnd, SERVER_V4, SERVER_V6, Stage,
    Stalled, dial, guard_of, more_addresses, packets, run_to_end, skip_without_root, until,
};

const BURST: usize = 5;
/// Connections that are begun at once.
const SYNS: usize = 20;
/// The listeners' rules beside those for networks, one a port, what becomes of a SYN beyond the rate,
/// and how that is counted.
const LISTENERS: [(&str, Fate, &str); 6] = [
    ("mechanism = \"default\"", Fate::Silent, "drop"),
    ("mechanism = \"abort rst-syn\"\nhook = \"driver\"", Fate::Refused, "reset"),
    ("mechanism = \"reserv rst-syn\"", Fate::Refused, "reset"),
    ("mechanism = \"auto\"", Fate::Refused, "reset"),
    // Whoever proves its address comes in.
    ("mechanism = \"no-syn-drop\"", Fate::Connected, "cookie"),
    ("mechanism = \"abort early-syn-drop\"\nhook = \"tcp\"", Fate::Silent, "drop"),
];
const FIRST_PORT: u16 = 80;
/// In the network that is policed; the next one is exempt.
const POLICED: &str = "10.77.0.100";
const EXEMPT: &str = "10.77.0.101";

fn configuration() -> String {
    let networks = format!(
        "exempt = [\"{EXEMPT}\"]\n\
         police = [\n\
         {{ network = \"10.77.0.96/28\", syns_per_s = 1, burst = {BURST} }},\n\
         {{ network = \"{CLIENT_V6}\", syns_per_s = 1, burst = {BURST} }},\n]\n"
    );
    let sections = (FIRST_PORT..)
        .zip(LISTENERS)
        .map(|(port, (rules, ..))| format!("[[listener]]\nport = {port}\n{rules}\n{networks}"));
    sections.collect()
}

/// Connections from an address, of which the first have come in, and how many have this fate.
fn with_fate(stage: &Stage, from: &str, to: SocketAddr, fate: Fate) -> (Vec<Dialed>, usize) {
    let from: IpAddr = from.parse().expect("an address");
    let ports = (0..SYNS as u16).map(|n| SocketAddr::new(from, 20_000 + 100 * to.port() + n));
    let mut dialed = dial(&stage.client, ports.collect(), to);
    until("the first of them have come in", || {
        dialed.iter_mut().take(BURST).all(|one| one.fate() == Fate::Connected)
    });
    // Who is refused, or let in late, learns of it a moment after.
    if fate != Fate::Silent {
        until("nobody waits for an answer", || {
            dialed.iter_mut().all(|one| one.fate() != Fate::Silent)
        });
    }
    let count = dialed.iter_mut().filter_map(|one| (one.fate() == fate).then_some(())).count();
    (dialed, count)
}

/// What one bucket, which may be given one or two more meanwhile, does not let in.
fn is_beyond(count: usize) -> bool {
    (SYNS - BURST - 2..=SYNS - BURST).contains(&count)
}

#[test]
fn a_network_that_sends_more_than_it_may_is_refused_and_nobody_else() {
    if skip_without_root("a_network_that_sends_more_than_it_may_is_refused_and_nobody_else") {
        return;
    }
    let stage = Stage::new("police");
    stage.receive_offload();
    more_addresses(&stage, 2);
    let text = configuration();
    stage.server.run(move || fs::write("/run/tidegate.toml", text).expect("a configuration"));
    let listeners: Vec<Stalled> = (FIRST_PORT..)
        .zip(LISTENERS)
        .map(|(port, _)| {
            let all = SocketAddr::new("::".parse().expect("every address"), port);
            Stalled::new(&stage.server, all, 256)
        })
        .collect();
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    let mut connections = Vec::new();
    let to = |address: &str, port| SocketAddr::new(address.parse().expect("an address"), port);
    for (port, (rules, fate, _)) in (FIRST_PORT..).zip(LISTENERS) {
        for (from, server) in [(POLICED, SERVER_V4), (CLIENT_V6, SERVER_V6)] {
            let (some, count) = with_fate(&stage, from, to(server, port), fate);
            let known = if fate == Fate::Connected { count == SYNS } else { is_beyond(count) };
            assert!(known, "{rules}: {count} of {SYNS} from {from} are {fate:?}");
            connections.extend(some);
        }
        for from in [EXEMPT, CLIENT_V4] {
            let (some, count) = with_fate(&stage, from, to(SERVER_V4, port), Fate::Connected);
            assert_eq!(count, SYNS, "{rules}: from {from}");
            connections.extend(some);
        }
    }
    let status = guard.status();
    for (port, (rules, _, verdict)) in (FIRST_PORT..).zip(LISTENERS) {
        let counted = |reason: &str, verdict: &str| {
            packets(guard_of(&status, port, None), reason, verdict) as usize
        };
        // Those that were dropped may have been sent again by now.
        let policed = counted("Policed", verdict);
        assert!(policed >= 2 * (SYNS - BURST - 2), "{rules}: {status:#}");
        assert_eq!(counted("Exempt", "pass"), SYNS, "{rules}: {status:#}");
        assert!(counted("Room", "pass") >= SYNS + 2 * BURST, "{rules}: {status:#}");
    }

    // While it goes on sending, it is told what would become of one more.
    let (client, sink) = (stage.client.clone(), to(SERVER_V4, FIRST_PORT + 1));
    let from: IpAddr = POLICED.parse().expect("an address");
    let (stop, is_over) = mpsc::channel();
    let sender = thread::spawn(move || {
        for port in 40_000.. {
            let again = is_over.recv_timeout(Duration::from_millis(10));
            if again != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            dial(&client, vec![SocketAddr::new(from, port)], sink);
        }
    });
    let asked = ["explain", "--from", "10.77.0.99:40000", "--to", &sink.to_string()];
    // Once a second the bucket is given one, for as long as until the next SYN.
    until("its network sends more SYNs than it may, and it would be refused with RST", || {
        let told = run_to_end(&stage.server, &asked);
        let told = String::from_utf8_lossy(&told.stdout);
        told.contains("refused with RST: its network sends more SYNs than it may")
    });
    stop.send(()).expect("it still sends");
    sender.join().expect("it ends");
    drop(listeners);
    guard.stop();
}

/// Over its rate as well, who stops at a RST has one, and who looks as if it would send its SYN again
/// (Windows) a SYN/ACK behind which there is nothing.
#[test]
fn auto_tells_who_is_over_its_rate_in_the_form_that_fits() {
    if skip_without_root("auto_tells_who_is_over_its_rate_in_the_form_that_fits") {
        return;
    }
    let stage = Stage::new("police-form");
    let text = format!(
        "[[listener]]\nport = 80\npolice = [\n\
         {{ network = \"{WIRE_V4}\", syns_per_s = 1, burst = 1 }},\n\
         {{ network = \"{WIRE_V6}\", syns_per_s = 1, burst = 1 }},\n]\n"
    );
    stage.server.place_file("/run/tidegate.toml", text).expect("a place for a file");
    let all = SocketAddr::new("::".parse().expect("every address"), 80);
    let _listener = Stalled::new(&stage.server, all, 256);
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    for is_ipv6 in [false, true] {
        let answer = |port, hops| {
            let end = RawEnd::of(&stage, is_ipv6, 80, port);
            let syn = Segment::new(end.peer, end.own, SYN, 1000, 0);
            end.wire.send(&Segment { hops, ..syn });
            end.next("an answer")
        };
        // The bucket's one.
        assert_eq!(answer(40_000, 64).flags & (SYN | ACK | RST), SYN | ACK);
        assert_eq!(answer(40_001, 64).flags & (SYN | RST), RST);
        let hollow = answer(40_002, 128);
        assert_eq!((hollow.flags & (SYN | ACK | RST), hollow.ack), (SYN | ACK, 1001));
        assert_eq!(hollow.options.len(), 0, "not a byte more than came");
    }
    let counted = Counted::of(&stage.server);
    assert_eq!((counted.packets("Policed", "reset"), counted.packets("Policed", "hollow")), (2, 2));
    guard.stop();
}
