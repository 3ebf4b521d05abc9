// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Browsers' visits to pages, on the wire and as they are counted, with packets of our own and
//! with the kernel's sockets.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use crate::common::wire::{Capture, Captured, SYN, Wire};
use crate::common::{NOBODY, REPLY, Stage, all_of, raw};
use tidegate_crowd::{Browser, Browsing, Class, Driver, Load, Outcome, Plan, Trace, Visits};
use tidegate_lab::skip_without_root;

const TARGET: &str = "10.0.0.1:80";
const OBJECTS: u16 = 12;
/// Where the crowd goes that holds the interface's XDP, and where nobody listens.
const HELD: u16 = 81;
const CLOSED: u16 = 83;
/// How long the server takes for a page: its objects must wait for it.
const PAGE_TAKES: Duration = Duration::from_millis(60);
const SPARE_AFTER_MS: f64 = 250.0;
const TOLERANCE_MS: f64 = 5.0;

#[derive(Clone, Copy, Debug)]
enum Way {
    /// AF_XDP.
    Xdp,
    /// AF_PACKET: XDP is taken by somebody else.
    Packet,
    Sockets,
}

fn browsing(browser: &str) -> Browsing {
    let browser = Browser::named(browser).unwrap();
    let page = Some("/page".to_owned());
    Browsing { objects: OBJECTS, page, ..Browsing::with(browser) }
}

fn class(browser: &str) -> Class {
    let paths = (0..OBJECTS).map(|number| format!("/{number}")).collect();
    Class { paths, browsing: Some(browsing(browser)), ..Class::default() }
}

/// Where kernel sockets come from, which the host must have: 14 addresses.
const CONFIGURED: &str = "10.0.0.32/28";
const CONFIGURED_COUNT: u64 = 14;

/// A stage on which a crowd can go this way.
fn stage(way: Way) -> Stage {
    let stage = Stage::new();
    if matches!(way, Way::Sockets) {
        for host in 0..CONFIGURED_COUNT {
            stage.link.b().add_address(&format!("10.0.0.{}/24", 33 + host)).unwrap();
        }
    }
    stage
}

/// So many clients within a second, who go this way.
fn plan(way: Way, target: &str, clients: u64, class: Class) -> Plan {
    let plan = all_of(target, clients, class);
    match way {
        Way::Xdp | Way::Packet => plan,
        Way::Sockets => {
            let sources = vec![CONFIGURED.parse().unwrap()];
            Plan { driver: Driver::Sockets, sources, ..plan }
        }
    }
}

/// Sends a crowd and checks that it went this way.
fn send(stage: &Stage, way: Way, plan: Plan) -> Outcome {
    let holder = matches!(way, Way::Packet).then(|| Holder::of(stage));
    let outcome = stage.send(plan);
    let expected = match way {
        Way::Xdp => "AF_XDP",
        Way::Packet => "AF_PACKET",
        Way::Sockets => "sockets",
    };
    assert!(outcome.driver.starts_with(expected), "{}", outcome.driver);
    if let Some(holder) = holder {
        holder.thread.join().unwrap();
    }
    let visits = visits(&outcome);
    assert_eq!(visits.started, visits.completed + visits.abandoned, "{visits:?}");
    outcome
}

/// Another crowd, that has the interface's XDP for a few seconds.
struct Holder {
    thread: std::thread::JoinHandle<Outcome>,
}

impl Holder {
    fn of(stage: &Stage) -> Self {
        let plan = raw(&format!("10.0.0.1:{HELD}"), 10.0, Class::default());
        let plan = Plan { duration: Duration::from_secs(5), ..plan };
        let clients = stage.clients.clone();
        let thread = clients.thread(move || tidegate_crowd::run(&plan).unwrap()).unwrap();
        stage.wait_for_xdp(true);
        Self { thread }
    }
}

fn visits(outcome: &Outcome) -> Visits {
    outcome.visits.unwrap()
}

/// Answers each request until the client closes; a page takes its time.
fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(count) = stream.read(&mut bytes) {
        if bytes[..count].starts_with(b"GET /page ") {
            std::thread::sleep(PAGE_TAKES);
        }
        if count == 0 || stream.write_all(REPLY).is_err() {
            return;
        }
    }
}

/// All that was captured, by client and port, in order; but for the holder's.
fn captured(capture: Capture) -> HashMap<IpAddr, BTreeMap<u16, Vec<Captured>>> {
    let mut clients: HashMap<IpAddr, BTreeMap<u16, Vec<Captured>>> = HashMap::new();
    for segment in capture.end().into_iter().filter(|segment| segment.ports.1 != HELD) {
        let ports = clients.entry(segment.from).or_default();
        ports.entry(segment.ports.0).or_default().push(segment);
    }
    clients
}

/// What was asked for and when, over and over: retransmissions once.
fn asked(segments: &[Captured]) -> Vec<(String, Duration)> {
    let mut asked: Vec<(String, Duration)> = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.payload.is_empty()) {
        let text = String::from_utf8_lossy(&segment.payload);
        let path = text.split(' ').nth(1).unwrap().to_owned();
        if asked.iter().all(|(known, _)| *known != path) {
            asked.push((path, segment.at));
        }
    }
    asked
}

#[test]
fn chromes_second_socket_comes_after_250_ms_from_another_port() {
    if skip_without_root("chromes_second_socket_comes_after_250_ms_from_another_port") {
        return;
    }
    for way in [Way::Xdp, Way::Packet, Way::Sockets] {
        let stage = stage(way);
        let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
        let patient = Class { timeout: Duration::from_millis(1500), ..class("chrome") };
        let count = if matches!(way, Way::Sockets) { CONFIGURED_COUNT } else { 50 };
        let outcome = send(&stage, way, plan(way, &format!("{NOBODY}:80"), count, patient));
        let visits = visits(&outcome);
        assert_eq!((visits.started, visits.abandoned), (count, count), "{outcome:?}");
        // Two connections each; the visit is over when neither came about.
        assert_eq!(outcome.attempts, 2 * count, "{outcome:?}");
        assert_eq!(outcome.errors.timed_out_connecting, 2 * count, "{outcome:?}");
        let mut apart_ms = Vec::new();
        for ports in captured(capture).into_values() {
            let segments: Vec<&Captured> = ports.values().flatten().collect();
            assert!(segments.iter().all(|segment| segment.flags == SYN), "{segments:?}");
            let mut begun: Vec<Duration> = ports.values().map(|syns| syns[0].at).collect();
            begun.sort_unstable();
            let [first, second] = begun[..] else { panic!("{way:?}: two ports, not {ports:?}") };
            apart_ms.push((second - first).as_secs_f64() * 1e3);
        }
        assert_eq!(apart_ms.len() as u64, count, "{way:?}: one address each");
        // A busy machine makes single ones late; what is exact is the median of many.
        apart_ms.sort_by(f64::total_cmp);
        let median_ms = apart_ms[apart_ms.len() / 2];
        assert!((median_ms - SPARE_AFTER_MS).abs() <= TOLERANCE_MS, "{way:?}: {apart_ms:?}");
    }
}

#[test]
fn the_page_comes_before_its_objects() {
    if skip_without_root("the_page_comes_before_its_objects") {
        return;
    }
    for (way, browser) in [
        (Way::Xdp, "chrome"),
        (Way::Xdp, "internet-explorer-6"),
        (Way::Packet, "chrome"),
        (Way::Sockets, "chrome"),
    ] {
        let stage = stage(way);
        stage.serve(TARGET.parse().unwrap(), answer);
        let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
        let count = if matches!(way, Way::Sockets) { CONFIGURED_COUNT } else { 20 };
        let outcome = send(&stage, way, plan(way, TARGET, count, class(browser)));
        let visits = visits(&outcome);
        assert_eq!((visits.started, visits.completed), (count, count), "{way:?}: {outcome:?}");
        assert!(visits.page_ms.p50 >= PAGE_TAKES.as_secs_f64() * 1e3, "{outcome:?}");
        let clients = captured(capture);
        assert_eq!(clients.len() as u64, count, "one address each");
        let mut connections = 0;
        for ports in clients.values() {
            connections += ports.len() as u64;
            let mut objects = Vec::new();
            let mut pages = Vec::new();
            for segments in ports.values() {
                let paths = asked(segments);
                if paths[0].0 == "/page" {
                    pages.extend(paths);
                } else {
                    objects.push((segments[0].at, paths));
                }
            }
            assert_eq!(pages.len(), 1, "one page, alone on its connection: {pages:?}");
            let page_came = pages[0].1 + PAGE_TAKES;
            for (begun, paths) in &objects {
                assert!(*begun >= page_came, "{way:?}: {paths:?} before the page");
            }
            let mut paths: Vec<String> =
                objects.into_iter().flat_map(|(_, paths)| paths).map(|(path, _)| path).collect();
            paths.sort();
            let mut expected: Vec<String> =
                (0..OBJECTS).map(|number| format!("/{number}")).collect();
            expected.sort();
            assert_eq!(paths, expected, "{way:?}: each object once");
        }
        assert_eq!(outcome.attempts, connections, "connections and visits are told apart");
        assert_eq!(outcome.errors.total(), 0, "{outcome:?}");
        if browser == "chrome" {
            assert_eq!(connections, count * 7, "the page's and six");
        }
    }
}

#[test]
fn a_refused_page_ends_the_visit() {
    if skip_without_root("a_refused_page_ends_the_visit") {
        return;
    }
    for way in [Way::Xdp, Way::Packet, Way::Sockets] {
        let stage = stage(way);
        let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
        let outcome =
            send(&stage, way, plan(way, &format!("10.0.0.1:{CLOSED}"), 40, class("chrome")));
        let visits = visits(&outcome);
        assert_eq!((visits.started, visits.abandoned), (40, 40), "{outcome:?}");
        assert_eq!((outcome.attempts, outcome.errors.refused), (40, 40), "{outcome:?}");
        assert!(visits.abandoned_ms.p50 < 50.0, "{outcome:?}");
        let mut syns = 0;
        for segments in captured(capture).values().flat_map(BTreeMap::values) {
            syns += segments.iter().filter(|segment| segment.flags == SYN).count();
        }
        assert_eq!(syns, 40, "{way:?}: nobody asks for objects of a page that never came");
    }
}

#[test]
fn one_lost_object_abandons_the_page_and_withdraws_the_rest() {
    if skip_without_root("one_lost_object_abandons_the_page_and_withdraws_the_rest") {
        return;
    }
    for way in [Way::Xdp, Way::Sockets] {
        let stage = stage(way);
        // Who asks for one of the objects is hung up on, and all others wait.
        stage.serve(TARGET.parse().unwrap(), |mut stream| {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            if bytes[..count].starts_with(b"GET /page ") {
                let _ = stream.write_all(REPLY);
            }
            if bytes[..count].starts_with(b"GET /2 ") {
                return;
            }
            let _ = stream.read(&mut bytes);
        });
        let outcome = send(&stage, way, plan(way, TARGET, 20, class("chrome")));
        let visits = visits(&outcome);
        assert_eq!((visits.started, visits.abandoned), (20, 20), "{way:?}: {outcome:?}");
        assert_eq!((outcome.replies, outcome.errors.closed_early), (20, 20), "{outcome:?}");
        // Of six connections, begun at once, one was closed.
        assert_eq!(outcome.errors.withdrawn, 100, "{way:?}: {outcome:?}");
        assert_eq!(outcome.errors.total(), 120, "{outcome:?}");
    }
}

#[test]
fn clients_think_between_pages() {
    if skip_without_root("clients_think_between_pages") {
        return;
    }
    let stage = Stage::new();
    stage.serve(TARGET.parse().unwrap(), answer);
    let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
    let think = Duration::from_millis(100);
    let several = Browsing { objects: 2, pages: 3.0, think, ..browsing("chrome") };
    let class = Class { browsing: Some(several), ..class("chrome") };
    let outcome = send(&stage, Way::Xdp, plan(Way::Xdp, TARGET, 40, class));
    let visits = visits(&outcome);
    // 40 clients with three pages each on average, of a geometric distribution: the standard
    // deviation of the sum is 15.
    assert!((60..180).contains(&visits.started), "{outcome:?}");
    assert_eq!(visits.abandoned, 0, "{outcome:?}");
    let pauses = pauses(captured(capture));
    assert_eq!(pauses.len() as u64, visits.started - 40, "one between two pages: {pauses:?}");
    // Exponential ones: the mean of 20 is below a half once in a thousand runs, of 80 in ten million.
    let mean = pauses.iter().sum::<Duration>() / pauses.len() as u32;
    assert!(mean > think / 2, "{mean:?}: {pauses:?}");
}

/// From what a client asked for last to the first SYN of its next page.
fn pauses(clients: HashMap<IpAddr, BTreeMap<u16, Vec<Captured>>>) -> Vec<Duration> {
    let of_client = |ports: BTreeMap<u16, Vec<Captured>>| {
        let asked: Vec<_> =
            ports.values().map(|segments| (segments[0].at, asked(segments))).collect();
        let times: Vec<Duration> =
            asked.iter().flat_map(|(_, asked)| asked).map(|(_, at)| *at).collect();
        let pages = asked.into_iter().filter(|(_, asked)| asked.iter().any(|(p, _)| p == "/page"));
        let pause = move |(begun, _)| {
            let last = times.iter().filter(|at| **at < begun).max()?;
            Some(begun - *last)
        };
        pages.filter_map(pause).collect::<Vec<Duration>>()
    };
    clients.into_values().flat_map(of_client).collect()
}

#[test]
fn a_trace_is_played_as_it_was_recorded() {
    if skip_without_root("a_trace_is_played_as_it_was_recorded") {
        return;
    }
    let stage = Stage::new();
    let capture = Capture::on(stage.server.run(|| Wire::on("srv0")));
    let trace = Trace::parse("0.1\n0.15\n0.4\n0.4\n0.9\n7\n").unwrap();
    let load = Load::Trace { trace, per_s: None };
    let plan = raw(&format!("10.0.0.1:{CLOSED}"), 1.0, Class::default());
    let outcome = stage.send(Plan { load, ..plan });
    assert_eq!((outcome.attempts, outcome.errors.refused), (5, 5), "{outcome:?}");
    let syns: Vec<Duration> = capture.end().iter().map(|segment| segment.at).collect();
    let apart_ms: Vec<f64> = syns.iter().map(|at| (*at - syns[0]).as_secs_f64() * 1e3).collect();
    assert_eq!(apart_ms.len(), 5, "{apart_ms:?}");
    let late: Vec<f64> =
        apart_ms.iter().zip([0.0, 50.0, 300.0, 300.0, 800.0]).map(|(at, due)| at - due).collect();
    // A busy machine makes single ones late, the first perhaps among them; never most of them.
    let median = |values: &mut [f64]| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let middle = median(&mut late.clone());
    let mut apart: Vec<f64> = late.iter().map(|late| (late - middle).abs()).collect();
    assert!(median(&mut apart) <= TOLERANCE_MS, "{late:?}");
}
