// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crowd with raw packets, against a real kernel in another network namespace.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::wire::{SYN, Wire};
use crate::common::{
    NOBODY, REPLY, Stage, all_of, answer, answer_at_length, answer_noting, answer_once, raw,
};
use tidegate_crowd::{
    Class, Close, Delay, Driver, Load, Network, Os, Plan, SynClass, Trace, run_watched,
};
use tidegate_lab::{Counters, Link, Sockets, allowed_cpus, say_skipped, skip_without_root};

#[test]
fn replies_are_counted_right_and_both_kernels_agree() {
    if skip_without_root("replies_are_counted_right_and_both_kernels_agree") {
        return;
    }
    let stage = Stage::new();
    for target in ["10.0.0.1:80", "[fd00::1]:80"] {
        stage.serve(target.parse().unwrap(), answer);
        for close in [Close::Fin, Close::Reset, Close::HalfClose] {
            let before = (counters(&stage.server), counters(&stage.clients));
            let outcome = stage.send(raw(target, 300.0, Class { close, ..Class::default() }));
            assert!(outcome.driver.starts_with("AF_XDP"), "{}", outcome.driver);
            assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
            assert_eq!(outcome.segments.syn_ack_received, 300);
            // One SYN each, unless the machine slept for a second.
            let syns: u64 = outcome
                .syns_per_attempt
                .iter()
                .map(|(syns, of)| u64::from(*syns) * of.attempts)
                .sum();
            assert_eq!(outcome.segments.syn_sent, syns);
            let server = counters(&stage.server).since(&before.0).unwrap();
            assert_eq!(server.get("TcpPassiveOpens").unwrap(), 300);
            assert_eq!(server.get("TcpInErrs").unwrap(), 0, "checksums");
            assert_eq!(server.get("TcpExtTCPAbortOnTimeout").unwrap(), 0);
            let resets = if close == Close::Reset { 300 } else { 0 };
            assert_eq!(outcome.segments.rst_sent, resets, "{target} {close:?}");
            let clients = counters(&stage.clients).since(&before.1).unwrap();
            let of_tcp = |name| clients.get(name).unwrap();
            assert_eq!((of_tcp("TcpInSegs"), of_tcp("TcpOutRsts")), (0, 0), "kept from the kernel");
        }
    }
}

/// TIME-WAIT blocks of the server's namespace, of both families.
fn time_waits(stage: &Stage) -> u64 {
    Sockets::of(&stage.server).unwrap().time_waits
}

/// Faber, section 4.2: a client that says so closes first, also at a server that answers what it
/// does not know; a server that is asked to close does so first, and holds TIME-WAIT.
#[test]
fn who_closes_first_holds_time_wait() {
    if skip_without_root("who_closes_first_holds_time_wait") {
        return;
    }
    let stage = Stage::new();
    let mut held = 0;
    for host in ["10.0.0.1", "[fd00::1]"] {
        stage.serve(format!("{host}:80").parse().unwrap(), answer);
        stage.serve(format!("{host}:81").parse().unwrap(), answer_once);
        let ways = [
            (Close::Fin, 80, true),
            (Close::ClientClose, 80, true),
            (Close::Reset, 80, false),
            (Close::Server, 81, false),
        ];
        for (close, port, by_clients) in ways {
            let class = Class { close, ..Class::default() };
            let before = counters(&stage.server);
            let outcome = stage.send(all_of(&format!("{host}:{port}"), 300, class));
            assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
            let resets = if close == Close::Reset { 300 } else { 0 };
            assert_eq!(outcome.segments.rst_sent, resets, "{host} {close:?}");
            let counted = counters(&stage.server).since(&before).unwrap();
            assert_eq!(counted.get("TcpEstabResets").unwrap(), resets as i64, "{host} {close:?}");
            held += if close == Close::Server { 300 } else { 0 };
            assert_eq!(time_waits(&stage), held, "{host} {close:?}");
            let clients = outcome.time_waits.unwrap();
            let expected = if by_clients { 300 } else { 0 };
            assert_eq!(clients.at_end, expected, "{host} {close:?}: {clients:?}");
            assert_eq!(clients.at_end, clients.most);
        }
    }
}

/// A client with 200 ports that closes first holds each of them for a minute, and finds no other;
/// where the server closes first, and holds as many, a port can be used again at once, by its clock
/// (RFC 6191) or, without one, by its number.
#[test]
fn ports_in_time_wait_are_not_used() {
    if skip_without_root("ports_in_time_wait_are_not_used") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    stage.serve("10.0.0.1:81".parse().unwrap(), answer_once);
    let send = |port: u16, close, address: &str, os| {
        let class = Class { close, os: Os::named(os).unwrap(), ..Class::default() };
        let sources = vec![address.parse().unwrap()];
        let plan = raw(&format!("10.0.0.1:{port}"), 300.0, class);
        stage.send(Plan { sources, ports: Some(200), ..plan })
    };
    let outcome = send(80, Close::Fin, "10.128.0.1/32", "linux");
    assert_eq!((outcome.attempts, outcome.replies), (300, 200), "{outcome:?}");
    assert_eq!(outcome.errors.other["EADDRNOTAVAIL"], 100);
    assert_eq!(outcome.time_waits.unwrap().most, 200);
    for (address, os, held) in [("10.128.0.1/32", "linux", 200), ("10.128.0.2/32", "windows", 400)]
    {
        for _ in 0..2 {
            let outcome = send(81, Close::Server, address, os);
            assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
            assert_eq!(
                outcome.segments.rst_sent, 0,
                "no SYN was taken for an old one: {outcome:?}"
            );
            assert_eq!(time_waits(&stage), held, "each of them begun anew");
        }
    }
}

#[test]
fn refused_at_once() {
    if skip_without_root("refused_at_once") {
        return;
    }
    let stage = Stage::new();
    // From the kernel's own address, too, for which the kernel has no socket either.
    for sources in [vec!["10.128.0.0/16".parse().unwrap()], Vec::new()] {
        let plan = Plan { sources, ..raw("10.0.0.1:81", 2000.0, Class::default()) };
        let outcome = stage.send(plan);
        assert_eq!(outcome.errors.refused, 2000, "{outcome:?}");
        assert_eq!(outcome.segments.syn_sent, outcome.segments.sent);
        assert!(outcome.refusal_ms.p50 < 50.0, "{outcome:?}");
    }
}

#[test]
fn a_class_is_what_it_says() {
    if skip_without_root("a_class_is_what_it_says") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    let several = Class { requests: 3.0, ..Class::default() };
    let outcome = stage.send(raw("10.0.0.1:80", 500.0, several));
    assert_eq!(outcome.replies, 500, "{outcome:?}");
    // Retransmissions may add a few; 500 draws from a geometric distribution vary by 55 one
    // way or the other (one standard deviation).
    assert!((1300..1800).contains(&outcome.segments.data_sent), "{outcome:?}");
}

/// Of two networks one is three times as large, and the server hangs up on the other.
#[test]
fn classes_come_from_networks_of_their_own_and_are_counted_apart() {
    if skip_without_root("classes_come_from_networks_of_their_own_and_are_counted_apart") {
        return;
    }
    let stage = Stage::new();
    let served: ipnet::IpNet = "10.128.7.0/24".parse().unwrap();
    stage.serve("10.0.0.1:80".parse().unwrap(), move |stream| {
        if served.contains(&stream.peer_addr().unwrap().ip()) {
            answer(stream);
        }
    });
    let class = |share, network: &str, part| {
        let sources = vec![network.parse().unwrap()];
        Class { share, sources, part: Some(part), ..Class::default() }
    };
    let classes = vec![class(3.0, "10.128.7.0/24", 1), class(1.0, "10.128.8.0/24", 0)];
    let outcome = stage.send(Plan { classes, ..raw("10.0.0.1:80", 1000.0, Class::default()) });
    let [other, served] = &outcome.parts[..] else { panic!("{outcome:?}") };
    assert_eq!(other.attempts + served.attempts, outcome.attempts, "{outcome:?}");
    // 1,000 draws vary by 14 one way or the other (one standard deviation).
    assert!((680..820).contains(&served.attempts), "{outcome:?}");
    assert_eq!((served.replies, other.replies), (served.attempts, 0), "{outcome:?}");
}

/// Files of different sizes are served in the mean that their shares have, however many of them a
/// connection asks for.
#[test]
fn no_two_attempts_ask_for_the_same_of_what_is_asked_in_turn() {
    if skip_without_root("no_two_attempts_ask_for_the_same_of_what_is_asked_in_turn") {
        return;
    }
    let stage = Stage::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noting = asked.clone();
    stage.serve("10.0.0.1:80".parse().unwrap(), move |stream| answer_noting(stream, &noting));
    let paths = (0..1000).map(|place| format!("/{place}")).collect();
    let several = Class { requests: 3.0, paths, ..Class::default() };
    let outcome = stage.send(raw("10.0.0.1:80", 100.0, several));
    assert_eq!((outcome.attempts, outcome.replies), (100, 100), "{outcome:?}");
    let mut asked = asked.lock().unwrap().clone();
    asked.sort_unstable();
    assert!(asked.len() > 100);
    assert!(asked.iter().copied().eq(0..asked.len()), "{asked:?}");
}

#[test]
fn delay_is_as_long_as_it_says() {
    if skip_without_root("delay_is_as_long_as_it_says") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    let network = Network { delay: Delay::Constant { ms: 20.0 }, ..Network::default() };
    let wire = stage.server.run(|| Wire::on("srv0"));
    let outcome = stage.send(raw("10.0.0.1:80", 200.0, Class { network, ..Class::default() }));
    assert_eq!(outcome.replies, 200, "{outcome:?}");
    // Two round trips of 40 ms: the handshake's and the request's.
    assert!(outcome.response_ms.p50 >= 80.0, "{outcome:?}");
    // A busy machine makes it longer, but not for everyone: the shortest handshake is exact.
    let mut syns = HashMap::new();
    let mut shortest = Duration::MAX;
    while let Some(segment) = wire.next(Duration::from_millis(10)) {
        let client = (segment.from, segment.ports.0);
        if segment.flags == SYN {
            syns.insert(client, segment.at);
        } else if let Some(at) = syns.remove(&client) {
            shortest = shortest.min(segment.at - at);
        }
    }
    let shortest_ms = shortest.as_secs_f64() * 1e3;
    assert!((40.0..42.0).contains(&shortest_ms), "{shortest_ms} ms from SYN to ACK");
}

/// Shukla, figure 4.11: who gave up refuses a reply that is late, and the FIN behind it as well, which was on its
/// way by then, as a kernel does that has no socket any more. An ACK to it would be answered with a RST.
#[test]
fn a_late_reply_is_refused_with_the_fin_behind_it() {
    if skip_without_root("a_late_reply_is_refused_with_the_fin_behind_it") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), |mut stream| {
        let _ = stream.read(&mut [0; 4096]);
        std::thread::sleep(Duration::from_millis(500));
        let _ = stream.write_all(REPLY);
    });
    let network = Network { delay: Delay::Constant { ms: 20.0 }, ..Network::default() };
    let timeout = Duration::from_millis(200);
    let class = Class { network, timeout, ..Class::default() };
    // The last replies come, and are refused, while others still start.
    let cool_down = Duration::from_secs(1);
    let outcome = stage.send(Plan { cool_down, ..raw("10.0.0.1:80", 50.0, class) });
    assert_eq!(outcome.errors.timed_out_waiting, 50, "{outcome:?}");
    assert!(outcome.segments.rst_sent >= 100, "{outcome:?}");
    assert_eq!(outcome.segments.rst_received, 0, "{outcome:?}");
}

#[test]
fn loss_is_as_likely_as_it_says() {
    if skip_without_root("loss_is_as_likely_as_it_says") {
        return;
    }
    let stage = Stage::new();
    let lossy = Class {
        network: Network { loss: 0.2, ..Network::default() },
        timeout: Duration::from_millis(700),
        ..Class::default()
    };
    let outcome = stage.send(raw("10.0.0.1:81", 5000.0, lossy));
    // The SYN and its RST must both arrive: 0.8 * 0.8 of 5000, and no time for a second SYN. The
    // standard deviation is 34.
    assert!((3000..=3400).contains(&outcome.errors.refused), "{outcome:?}");
    assert_eq!(outcome.errors.refused + outcome.errors.timed_out_connecting, 5000);
    assert_eq!(outcome.syns_per_attempt[&1], SynClass { attempts: 5000, errors: 5000 });
}

#[test]
fn silence_is_waited_out_and_the_watcher_is_told() {
    if skip_without_root("silence_is_waited_out_and_the_watcher_is_told") {
        return;
    }
    let stage = Stage::new();
    let patient = Class { timeout: Duration::from_millis(1500), ..Class::default() };
    let plan = raw(&format!("{NOBODY}:80"), 2000.0, patient);
    let (outcome, told) = stage
        .clients
        .thread(move || {
            let mut told = Vec::new();
            let outcome = run_watched(&plan, &mut |progress| told.push(progress)).unwrap();
            (outcome, told)
        })
        .unwrap()
        .join()
        .unwrap();
    assert_eq!(outcome.errors.timed_out_connecting, 2000, "{outcome:?}");
    assert_eq!(outcome.in_flight_max, 2000);
    assert_eq!(outcome.syns_per_attempt[&2].attempts, 2000);
    assert!(told.len() >= 5, "{told:?}");
    let started: f64 =
        told.windows(2).map(|two| two[1].started_per_s * (two[1].at_s - two[0].at_s)).sum();
    let first = told[0].started_per_s * told[0].at_s;
    assert!((started + first - 2000.0).abs() < 1.0, "{told:?}");
}

#[test]
fn a_closed_loop_waits_for_its_ends() {
    if skip_without_root("a_closed_loop_waits_for_its_ends") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    let load = Load::Closed { clients: 3 };
    let outcome = stage.send(Plan { load, ..raw("10.0.0.1:80", 1.0, Class::default()) });
    assert_eq!(outcome.in_flight_max, 3);
    assert!(outcome.replies > 20 && outcome.errors.total() == 0, "{outcome:?}");
}

/// A veth's TCP hands down what fits a window of ten segments in one piece, unless a program sits
/// at the other end's driver; both ways the reply is the same, and nothing is lost.
#[test]
fn large_replies_come_in_the_pieces_in_which_they_were_handed_down() {
    if skip_without_root("large_replies_come_in_the_pieces_in_which_they_were_handed_down") {
        return;
    }
    let stage = Stage::new();
    for target in ["10.0.0.1:80", "[fd00::1]:80"] {
        stage.serve(target.parse().unwrap(), answer_at_length);
        let frames_with = |large_replies| {
            let plan = raw(target, 100.0, Class::default());
            let outcome = stage.send(Plan { large_replies, ..plan });
            let place = if large_replies { "generic" } else { "driver" };
            assert!(outcome.driver.contains(place), "{}", outcome.driver);
            assert_eq!(outcome.replies, 100, "{target} {outcome:?}");
            assert_eq!(outcome.segments.lost_here, 0, "{target}");
            outcome.segments.received
        };
        let (cut, whole) = (frames_with(false), frames_with(true));
        assert!(cut >= 100 * 14 && whole * 2 < cut, "{target}: {whole} frames, and {cut} cut");
    }
}

/// A cable that is pulled out at the other end takes no frame.
#[test]
fn frames_that_the_device_drops_are_counted() {
    if skip_without_root("frames_that_the_device_drops_are_counted") {
        return;
    }
    let stage = Stage::new();
    stage.link.a().down().unwrap();
    let impatient = Class { timeout: Duration::from_millis(500), ..Class::default() };
    let outcome = stage.send(raw(&format!("{NOBODY}:80"), 300.0, impatient));
    assert!(outcome.driver.starts_with("AF_XDP"), "{}", outcome.driver);
    assert_eq!((outcome.segments.sent, outcome.segments.lost_here), (300, 300), "{outcome:?}");
}

/// A hundred of the cool-down still wait when the load is over, and all give up at one time; by then the
/// cable is pulled out. Of the one that counts the FIN is lost before.
#[test]
fn what_is_lost_when_all_leave_is_no_loss_of_the_load() {
    if skip_without_root("what_is_lost_when_all_leave_is_no_loss_of_the_load") {
        return;
    }
    let stage = Stage::new();
    // Nobody accepts: they connect, ask and wait.
    let _listener = stage.server.run(|| TcpListener::bind("10.0.0.1:80").unwrap());
    let mut times = vec!["0"];
    times.resize(101, "0.3");
    let load = Load::Trace { trace: Trace::parse(&times.join("\n")).unwrap(), per_s: None };
    let (duration, cool_down) = (Duration::from_millis(200), Duration::from_secs(1));
    let patient = Class { timeout: Duration::from_millis(1500), ..Class::default() };
    let plan = Plan { load, duration, cool_down, ..raw("10.0.0.1:80", 1.0, patient) };
    let crowd = stage.clients.thread(move || tidegate_crowd::run(&plan).unwrap()).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while counters(&stage.server).get("TcpPassiveOpens").unwrap() < 101 {
        assert!(Instant::now() < deadline, "they do not all connect");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Until their requests are acknowledged, too, and nobody has anything to send.
    std::thread::sleep(Duration::from_millis(200));
    stage.link.a().down().unwrap();
    let outcome = crowd.join().unwrap();
    assert!(outcome.driver.starts_with("AF_XDP"), "{}", outcome.driver);
    assert_eq!((outcome.attempts, outcome.errors.timed_out_waiting), (1, 1), "{outcome:?}");
    assert_eq!(outcome.segments.lost_here, 1, "{outcome:?}");
}

/// Both of the clients' interfaces are on the target's network, and the routes prefer the other.
#[test]
fn the_neighbour_is_asked_for_on_the_interface_that_is_named() {
    if skip_without_root("the_neighbour_is_asked_for_on_the_interface_that_is_named") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    let link = Link::between(&stage.server, "srv1", &stage.clients, "cli1").unwrap();
    link.b().add_address("10.0.0.3/24").unwrap();
    link.up().unwrap();
    // What comes by it is answered by it.
    let ours = stage.hardware_address(&stage.clients, "cli1");
    let words = format!("neighbor replace 10.0.0.3 lladdr {ours} dev srv1 nud permanent");
    stage.server.ip(&words).unwrap();
    link.a().add_route("10.0.0.3/32", None).unwrap();
    link.a().add_route("10.129.0.0/16", Some("10.0.0.3")).unwrap();
    let route = stage.clients.ip("route get 10.0.0.1").unwrap();
    assert!(route.contains("dev cli0"), "{route}");
    let (interface, sources) = (Some("cli1".to_owned()), vec!["10.129.0.0/16".parse().unwrap()]);
    let outcome =
        stage.send(Plan { interface, sources, ..raw("10.0.0.1:80", 100.0, Class::default()) });
    assert_eq!((outcome.attempts, outcome.replies), (100, 100), "{outcome:?}");
}

#[test]
fn packet_sockets_do_where_xdp_is_taken() {
    if skip_without_root("packet_sockets_do_where_xdp_is_taken") {
        return;
    }
    let stage = Stage::new();
    stage.serve("10.0.0.1:82".parse().unwrap(), answer);
    let first = raw("10.0.0.1:81", 10.0, Class::default());
    let first = Plan { duration: Duration::from_secs(4), ..first };
    let clients = stage.clients.clone();
    let first = clients.thread(move || tidegate_crowd::run(&first).unwrap()).unwrap();
    stage.wait_for_xdp(true);
    let outcome = stage.send(raw("10.0.0.1:82", 300.0, Class::default()));
    assert!(outcome.driver.starts_with("AF_PACKET"), "{}", outcome.driver);
    assert_eq!(outcome.replies, 300, "{outcome:?}");
    // The kernel would reset connections of its own addresses.
    let own = Plan { sources: Vec::new(), ..raw("10.0.0.1:82", 1.0, Class::default()) };
    let clients = stage.clients.clone();
    let refused = clients.thread(move || tidegate_crowd::run(&own)).unwrap().join().unwrap();
    assert!(refused.unwrap_err().to_string().contains("attach the XDP program"));
    assert_eq!(first.join().unwrap().errors.refused, 40);
}

#[test]
fn an_interface_is_polled_here_and_left_as_it_was() {
    let test = "an_interface_is_polled_here_and_left_as_it_was";
    if skip_without_root(test) {
        return;
    }
    let [cpu, _, ..] = allowed_cpus().unwrap()[..] else {
        return say_skipped(test, &"there is one processor, and no other to poll on");
    };
    let stage = Stage::new();
    let settings = || {
        ["threaded", "gro_flush_timeout", "napi_defer_hard_irqs"]
            .map(|name| stage.clients.read_file(format!("/sys/class/net/cli0/{name}")).unwrap())
    };
    let before = settings();
    let plan = raw("10.0.0.1:81", 100.0, Class::default());
    let bound = stage.clients.thread(move || {
        let mut cpus = nix::sched::CpuSet::new();
        cpus.set(cpu).unwrap();
        nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &cpus).unwrap();
        tidegate_crowd::run(&plan).unwrap()
    });
    let bound = bound.unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while settings() == before {
        assert!(Instant::now() < deadline, "they are others while it runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    let outcome = bound.join().unwrap();
    assert!(outcome.driver.ends_with("polled here"), "{}", outcome.driver);
    assert_eq!(outcome.errors.refused, 100, "{outcome:?}");
    assert_eq!(settings(), before);
}

#[test]
fn what_cannot_be_is_said() {
    if skip_without_root("what_cannot_be_is_said") {
        return;
    }
    let stage = Stage::new();
    let said = |plan: Plan| {
        let clients = stage.clients.clone();
        let result = clients.thread(move || tidegate_crowd::run(&plan)).unwrap().join().unwrap();
        result.unwrap_err().to_string()
    };
    let plan = || raw("10.0.0.1:80", 1.0, Class::default());
    let far = vec!["192.0.2.1:80".parse().unwrap()];
    assert!(said(Plan { targets: far, ..plan() }).contains("no way to 192.0.2.1:80"));
    let own = vec!["10.0.0.2:80".parse().unwrap()];
    assert!(said(Plan { targets: own, ..plan() }).contains("local"));
    let gone = vec!["10.0.0.77:80".parse().unwrap()];
    assert!(said(Plan { targets: gone, ..plan() }).contains("10.0.0.77 does not answer"));
    let interface = Some("eth7".to_owned());
    assert!(said(Plan { interface, ..plan() }).contains("eth7"));
    let (sources, load) = (vec!["10.128.0.1/32".parse().unwrap()], Load::Closed { clients: 2000 });
    let many = Plan { sources, load, ports: Some(1000), ..plan() };
    assert!(said(many).contains("2000 clients at a time have 1000 addresses and ports"));
    let windows = Class { os: tidegate_crowd::Os::named("windows").unwrap(), ..Class::default() };
    let by_sockets = |class| Plan {
        driver: Driver::Sockets,
        classes: vec![class],
        ..raw("10.0.0.1:80", 1.0, Class::default())
    };
    assert!(said(by_sockets(windows)).contains("behave as windows"));
    let at_home = Class { sources: vec!["10.128.7.0/24".parse().unwrap()], ..Class::default() };
    assert!(said(by_sockets(at_home)).contains("driver raw"));
}

const CHILD: &str = "TIDEGATE_CROWD_TEST_CHILD";

/// Does nothing, except as the child of the test below.
#[test]
fn child_that_is_killed() {
    if std::env::var_os(CHILD).is_some() {
        let plan = raw("10.0.0.1:81", 100.0, Class::default());
        tidegate_crowd::run(&Plan { duration: Duration::from_secs(60), ..plan }).unwrap();
    }
}

#[test]
fn nothing_is_left_after_sigkill() {
    if skip_without_root("nothing_is_left_after_sigkill") {
        return;
    }
    let stage = Stage::new();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "raw::child_that_is_killed"]).env(CHILD, "1");
    let mut child = stage.clients.spawn(command).unwrap();
    stage.wait_for_xdp(true);
    child.signal(nix::sys::signal::Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    stage.wait_for_xdp(false);
    // And the kernel's own clients can talk again.
    stage.serve("10.0.0.1:80".parse().unwrap(), answer);
    let plan = raw("10.0.0.1:80", 50.0, Class::default());
    let outcome = stage.send(Plan { driver: Driver::Sockets, sources: Vec::new(), ..plan });
    assert_eq!(outcome.replies, 50);
}

fn counters(namespace: &tidegate_lab::Namespace) -> Counters {
    Counters::of(namespace).unwrap()
}
