// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `auto` before a real nginx whose listen queue is full, since it does not get to its connections:
//! in the first second clients are left in silence, as in a burst; when new ones keep coming they
//! are refused, and the status says what it takes it for. When nginx goes on they are served, and
//! two seconds later all is calm.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::Namespace;
use tidegate_tests::wire::{ACK, RST, SYN, Segment};
use tidegate_tests::{
    Answer, Guard, Nginx, Plain, RawEnd, SERVER_V4, SERVER_V6, Stage, fetch, fill, guard_of,
    packets_with, skip_without_root, until,
};

const BACKLOG: usize = 8;
/// Linux lets a queue hold one more than its backlog.
const PLACES: usize = BACKLOG + 1;
/// A client that has heard nothing for this long hangs.
const PATIENCE: Duration = Duration::from_millis(300);
/// So long the crowd goes on: some windows.
const LONG: Duration = Duration::from_secs(1);
/// A second of overload (2^30 ns) is counted from a window's begin, at most one (2^28 ns) before the first SYN
/// that finds no room.
const SILENT: Duration = Duration::from_millis(800);
/// A second of overload, and what windows of a quarter of a second add to it on a busy machine.
const SOON: Duration = Duration::from_secs(4);

fn server(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), 80)
}

/// What auto says of the socket that listens there.
fn overload(guard: &Guard, to: SocketAddr) -> Value {
    let status = guard.status();
    let listeners = guard_of(&status, 80, None)["listeners"].as_array().expect("a list").clone();
    let family = |listener: &Value| listener["address"].as_str().is_some_and(|a| a.contains('['));
    let ours = listeners.iter().find(|listener| family(listener) == to.is_ipv6());
    ours.unwrap_or_else(|| panic!("no listener for {to}: {status:#}"))["overload"].clone()
}

fn phase(guard: &Guard, to: SocketAddr) -> String {
    overload(guard, to)["phase"].as_str().expect("a phase").to_owned()
}

/// New clients, fifty a second, until one is not left in silence.
fn crowd(clients: &Namespace, to: SocketAddr) -> (Answer, Vec<Plain>) {
    let begun = Instant::now();
    let mut left = Vec::new();
    while begun.elapsed() < SOON {
        let mut client = Plain::connect(clients, 0, to, Duration::from_millis(20));
        match client.request(Duration::ZERO).answer {
            Answer::Silence => left.push(client),
            other => return (other, left),
        }
    }
    panic!("{} clients were left in silence for {SOON:?}", left.len());
}

/// A client that sends its SYN again when it is refused, as Windows does, is answered then; one that
/// looks like Windows, at once. The kernel resets what it says next.
fn who_sends_its_syn_again_is_answered(stage: &Stage, to: SocketAddr, looks_like_it: bool) {
    let (port, hops) = if looks_like_it { (40_001, 128) } else { (40_000, 64) };
    let end = RawEnd::of(stage, to.is_ipv6(), to.port(), port);
    let isn = 0x7fff_fff0;
    let told = |flags, ack| {
        let seq = if flags == SYN { isn } else { isn + 1 };
        let segment = Segment::new(end.peer, end.own, flags, seq, ack);
        end.wire.send(&Segment { hops, ..segment });
        end.next("an answer")
    };
    if !looks_like_it {
        let refused = told(SYN, 0);
        assert_eq!((refused.flags & (RST | SYN), refused.ack), (RST, isn + 1));
    }
    let answered = told(SYN, 0);
    assert_eq!((answered.flags & (RST | SYN | ACK), answered.ack), (SYN | ACK, isn + 1));
    assert_eq!(answered.options.len(), 0, "not a byte more than came");
    let ack = answered.seq.wrapping_add(1);
    let reset = told(ACK, ack);
    assert_eq!((reset.flags & RST, reset.seq), (RST, ack));
    what_is_said_behind_it_is_told_once(&end, isn + 1, ack);
}

/// The ACK and the request behind it, be it of two segments, meet one RST; the request that is sent again,
/// another.
fn what_is_said_behind_it_is_told_once(end: &RawEnd, seq: u32, ack: u32) {
    let resets = |said: &[&[u8]]| {
        let mut seq = seq;
        for payload in said {
            end.send(ACK, seq, ack, Vec::new(), payload);
            seq = seq.wrapping_add(payload.len() as u32);
        }
        let until = Instant::now() + Duration::from_millis(50);
        let to_us = |s: &Segment| s.to == end.peer && s.flags & RST != 0 && s.seq == ack;
        std::iter::from_fn(|| end.wire.receive(until)).filter(to_us).count()
    };
    const REQUEST: &[u8] = b"GET / HTTP/1.0\r\n\r\n";
    // Where this process has to wait between the two, each meets one.
    until("one answer is enough for all", || resets(&[b"", REQUEST, REQUEST]) == 1);
    assert_eq!(resets(&[REQUEST]), 1, "who has not heard it is told again");
}

/// A client whose ACK takes a tenth of a second, or longer on a busy machine, is known to be that far away,
/// by a quarter.
fn comes_from_afar(stage: &Stage, guard: &Guard, to: SocketAddr) {
    let round_trip_ms =
        || overload(guard, to)["round_trip_ms"].as_f64().expect("a number of milliseconds");
    let mut before_ms = round_trip_ms();
    assert!(before_ms < 10.0, "all others are next door: {before_ms} ms");
    let mut ports = 40_100..;
    // Its SYN was judged between these, and its ACK.
    let (mut syn_ms, mut ack_ms) = ((0.0, 0.0), (0.0, 0.0));
    let mut known_ms = before_ms;
    until("it is known", || {
        before_ms = known_ms;
        let begun = Instant::now();
        let now_ms = || begun.elapsed().as_secs_f64() * 1e3;
        let end = RawEnd::of(stage, to.is_ipv6(), to.port(), ports.next().expect("a port"));
        let send = |flags, seq, ack| {
            end.wire.send(&Segment::new(end.peer, end.own, flags, seq, ack));
        };
        syn_ms.0 = now_ms();
        send(SYN, 1000, 0);
        let answered = end.next("an answer");
        syn_ms.1 = now_ms();
        thread::sleep(Duration::from_millis(100));
        ack_ms.0 = now_ms();
        send(ACK, 1001, answered.seq.wrapping_add(1));
        send(RST | ACK, 1001, answered.seq.wrapping_add(1));
        known_ms = round_trip_ms();
        ack_ms.1 = now_ms();
        // Unless another's ACK is waited for.
        known_ms != before_ms
    });
    let mean_ms = |took_ms: f64| (3.0 * before_ms + took_ms) / 4.0;
    let expected_ms = mean_ms(ack_ms.0 - syn_ms.1) - 1.0..mean_ms(ack_ms.1 - syn_ms.0) + 1.0;
    assert!(expected_ms.contains(&known_ms), "{known_ms} ms: {expected_ms:?}");
}

/// The crowd goes on, and is refused, while that is done: half a second without it would end the overload.
fn goes_on<T>(clients: &Namespace, to: SocketAddr, done: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    let go_on = || {
        while !is_over.load(Ordering::Relaxed) {
            let mut client = Plain::connect(clients, 0, to, Duration::from_millis(20));
            let answer = client.request(Duration::ZERO).answer;
            assert!(matches!(answer, Answer::Refused | Answer::Silence), "{answer:?}");
            thread::sleep(Duration::from_millis(20));
        }
    };
    thread::scope(|scope| {
        scope.spawn(go_on);
        // Else the scope would wait for a crowd that nobody ends.
        let done = catch_unwind(AssertUnwindSafe(done));
        is_over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn story(label: &str, address: &str, listen: &str, hook: &str) {
    let (stage, to) = (Stage::new(label), server(address));
    stage.receive_offload();
    let nginx = Nginx::start(&stage.server, &[listen]);
    let guard = Guard::start(&stage.server, &["--port", "80", "--hook", hook]);
    assert_eq!(fetch(&stage.client, to, SOON).answer, Answer::Status(200));
    assert_eq!(phase(&guard, to), "calm");

    nginx.freeze();
    let waiting = fill(&stage.client, to, PLACES);
    // A client more: silence, since this may be over in a moment.
    let full = Instant::now();
    assert_eq!(fetch(&stage.client, to, PATIENCE).answer, Answer::Silence);
    // Clients more, and more: it is no burst.
    let (answer, left) = crowd(&stage.client, to);
    assert_eq!(answer, Answer::Refused);
    let silent = full.elapsed();
    assert!(silent > SILENT, "{} were left in silence for no more than {silent:?}", left.len());
    // Over IPv6 the crowd is in the same network of 64 bits, and has shown that it stops.
    let looks: &[bool] = if to.is_ipv6() { &[false] } else { &[false, true] };
    let known = goes_on(&stage.client, to, || {
        thread::sleep(LONG);
        for looks_like_it in looks {
            who_sends_its_syn_again_is_answered(&stage, to, *looks_like_it);
        }
        overload(&guard, to)
    });
    assert_eq!(known["phase"], "persistent", "{known:#}");
    assert!(known["new_per_s"].as_f64() > known["drain_per_s"].as_f64(), "{known:#}");

    let status = guard.status();
    assert_eq!(
        packets_with(guard_of(&status, 80, None), "hollow"),
        looks.len() as u64,
        "{status:#}"
    );

    // The crowd has gone, and nginx goes on: who comes now is served.
    drop(left);
    nginx.thaw();
    drop(waiting);
    until("a client is served", || {
        fetch(&stage.client, to, PATIENCE).answer == Answer::Status(200)
    });
    comes_from_afar(&stage, &guard, to);
    thread::sleep(Duration::from_secs(2));
    assert_eq!(fetch(&stage.client, to, SOON).answer, Answer::Status(200));
    assert_eq!(phase(&guard, to), "calm");
}

#[test]
fn auto_is_silent_in_a_burst_and_refuses_a_crowd_that_stays() {
    if skip_without_root("auto, IPv4") {
        return;
    }
    story("auto-v4", SERVER_V4, &format!("80 backlog={BACKLOG}"), "auto");
}

#[test]
fn auto_does_the_same_over_ipv6() {
    if skip_without_root("auto, IPv6") {
        return;
    }
    story("auto-v6", SERVER_V6, &format!("[::]:80 ipv6only=on backlog={BACKLOG}"), "auto");
}

/// There it answers by itself what answers its SYN/ACKs behind which there is nothing.
#[test]
fn auto_does_the_same_at_the_driver() {
    if skip_without_root("auto, driver") {
        return;
    }
    story("auto-driver", SERVER_V4, &format!("80 backlog={BACKLOG}"), "driver");
}

/// Of a veth, at the driver and at the entry of IP, by as many processors as the daemon has; or what
/// the configuration says. Beside a section whose program stands at the driver, too.
#[test]
fn auto_tells_what_a_syn_costs_where_it_is_decided() {
    if skip_without_root("auto, what a SYN costs") {
        return;
    }
    let stage = Stage::new("auto-syn");
    let processors = thread::available_parallelism().expect("a number").get();
    let share_us = |whole_ns: usize| (whole_ns / processors) as f64 / 1e3;
    let syn_us = |arguments: &[&str]| {
        let guard = Guard::start(&stage.server, arguments);
        guard_of(&guard.status(), 80, None)["syn_us"].as_f64()
    };
    assert_eq!(syn_us(&["--port", "80", "--hook", "ip"]), Some(share_us(3000)));
    assert_eq!(syn_us(&["--port", "80", "--hook", "driver"]), Some(share_us(500)));
    assert_eq!(syn_us(&["--port", "80", "--mechanism", "abort"]), None);
    let said = "[[listener]]\nport = 80\nauto = { syn_us = 2 }\n";
    stage.server.place_file("/run/auto.toml", said.to_owned()).expect("a place for a file");
    assert_eq!(syn_us(&["--config", "/run/auto.toml"]), Some(2.0));

    let both =
        "[[listener]]\nport = 80\nhook = \"driver\"\n\n[[listener]]\nport = 443\nhook = \"ip\"\n";
    stage.server.place_file("/run/auto.toml", both.to_owned()).expect("a place for a file");
    let guard = Guard::start(&stage.server, &["--config", "/run/auto.toml"]);
    let cost_us = |port| guard_of(&guard.status(), port, None)["syn_us"].as_f64();
    assert_eq!((cost_us(80), cost_us(443)), (Some(share_us(500)), Some(share_us(3000))));
}

/// Greets each client, and then hears one word of it: SMTP, MySQL and FTP begin so.
fn greeter(server: &Namespace, clients: usize) -> JoinHandle<()> {
    let listener = server.run(|| TcpListener::bind("[::]:25").expect("a free port"));
    thread::spawn(move || {
        for _ in 0..clients {
            let (mut client, _) = listener.accept().expect("a client");
            client.set_read_timeout(Some(SOON)).expect("a limit");
            client.write_all(b"220 ready\r\n").expect("the client hears it");
            client.read_exact(&mut [0; 6]).expect("a word");
        }
    })
}

/// Waits for the greeting, and answers.
fn is_greeted(clients: &Namespace, to: SocketAddr) {
    let mut client = clients.run(move || TcpStream::connect(to).expect("a server"));
    client.set_read_timeout(Some(SOON)).expect("a limit");
    client.read_exact(&mut [0; 11]).expect("a greeting");
    client.write_all(b"QUIT\r\n").expect("the server hears it");
}

/// In its first minute a guard looks at segments as in trouble. nginx' clients say first what they want; a mail server's wait for its greeting, and none of them may
/// be left to wait connected, by a cookie whose ACK found no room.
#[test]
fn auto_learns_who_speaks_first() {
    if skip_without_root("auto, who speaks first") {
        return;
    }
    const CLIENTS: usize = 12;
    /// nginx, nginx behind TCP_DEFER_ACCEPT, and the greeter.
    const PORTS: [u16; 3] = [80, 81, 25];
    for (label, address) in [("auto-first-v4", SERVER_V4), ("auto-first-v6", SERVER_V6)] {
        let stage = Stage::new(label);
        let listens = ["80", "[::]:80", "81 deferred", "[::]:81 deferred"];
        let _nginx = Nginx::start(&stage.server, &listens);
        let all = PORTS.map(|port| format!("[[listener]]\nport = {port}\n")).concat();
        stage.server.place_file("/run/auto.toml", all).expect("a place for a file");
        let guard = Guard::start(&stage.server, &["--config", "/run/auto.toml"]);
        let greeter = greeter(&stage.server, CLIENTS);
        let known = || {
            let status = guard.status();
            PORTS.map(|port| guard_of(&status, port, None)["clients_speak_first"].as_bool())
        };
        assert_eq!(known(), [Some(false); 3], "nobody was heard yet");
        let to = |port| SocketAddr::new(address.parse().expect("an address"), port);
        for _ in 0..CLIENTS {
            for port in [80, 81] {
                assert_eq!(fetch(&stage.client, to(port), SOON).answer, Answer::Status(200));
            }
            is_greeted(&stage.client, to(25));
        }
        greeter.join().expect("all were greeted");
        assert_eq!(known(), [Some(true), Some(true), Some(false)]);
    }
}
