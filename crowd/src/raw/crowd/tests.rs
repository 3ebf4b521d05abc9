// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients whose frames go nowhere.

use std::net::SocketAddr;

use ipnet::IpNet;
use rand_chacha::rand_core::SeedableRng;
use tidegate_client::segment::DATA_ORDER;
use tidegate_client::{Browser, Flags, LastNumbers, Os, Pairs, Segment, Wait};
use tidegate_policy::raw::tg_key;

use super::*;
use crate::class::{Browsing, Class, each_at_each};
use crate::network::Delay;
use crate::plan::{Driver, Load, ranges_of};
use crate::raw::delayed::Delayed;
use crate::raw::device::Transmitter;
use crate::raw::persona;
use crate::raw::tuples::Ports;
use crate::raw::xsk::FRAME_BYTES;
use crate::sources::Sources;

const TARGET: &str = "10.0.0.1:80";
const OWN: &str = "10.128.0.1:32768";
const MTU: u16 = 1500;
const MS_NS: u64 = 1_000_000;

/// Clients with a browser, behind one address with one port.
fn plan() -> Plan {
    let browsing = Browsing::with(Browser::named("chrome").unwrap());
    Plan {
        driver: Driver::Raw,
        targets: vec![TARGET.parse().unwrap()],
        sources: vec!["10.128.0.1/32".parse().unwrap()],
        ports: Some(1),
        classes: vec![Class { browsing: Some(browsing), ..Class::default() }],
        ..Plan::default()
    }
}

fn parts(plan: &Plan) -> Parts {
    let personas = each_at_each(plan, |class, target, paths, objects| {
        persona(class, target, MTU, paths, objects)
    });
    let ways = plan.targets.iter().map(|target| Way::new(*target, [2; 6], [4; 6])).collect();
    let sources = |target: &SocketAddr| (*target, Sources::new(plan.ranges_for(*target)));
    let tuples = plan.targets.iter().map(sources).collect();
    let mut tuples = Tuples::new(tuples, plan.ports, 0, Ports::of(plan));
    let homes = plan.homes();
    if homes.len() > 1 {
        let at = |home: &[IpNet], target| Sources::new(ranges_of(home, target));
        let at_each = |home| plan.targets.iter().map(|target| at(home, *target)).collect();
        tuples = tuples.with_homes(homes.into_iter().map(at_each).collect(), 0);
    }
    let office = Office {
        transmitter: Transmitter::Nowhere,
        delayed: Delayed::new(),
        weather: ChaCha8Rng::seed_from_u64(1),
        segments: Segments::default(),
        pairs: Some(Pairs::new(64, tg_key::default())),
    };
    Parts { personas, ways, tuples, office }
}

#[test]
fn clients_who_all_browse_have_the_one_port_there_is() {
    let (plan, mut watch) = (plan(), |_: Progress| {});
    plan.check().unwrap();
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let now_ns = crowd.begun_ns;
    crowd.start(0, now_ns);
    assert_eq!((crowd.office.segments.syn_sent, crowd.visits.connections), (1, 1));
    // The next finds none, and leaves.
    crowd.start(0, now_ns);
    assert_eq!((crowd.visits.connections, crowd.visits.clients()), (1, 1));
    let outcome = crowd.tally.outcome(plan.seed);
    assert_eq!(outcome.errors.other["EADDRNOTAVAIL"], 1);
    assert_eq!(outcome.visits.unwrap().abandoned, 1);
}

/// Each would try as fast as the processor goes, and its failures would be the load.
#[test]
fn clients_of_a_closed_loop_without_a_port_pause() {
    let load = Load::Closed { clients: 3 };
    let plan = Plan { load, classes: vec![Class::default()], ..plan() };
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    for ms in 0..1000 {
        crowd.start_due(crowd.begun_ns + ms * MS_NS);
    }
    assert_eq!(crowd.attempts.under_way, 1, "whom nobody answers");
    let outcome = crowd.tally.outcome(plan.seed);
    assert_eq!(outcome.errors.other["EADDRNOTAVAIL"], 2 * 10, "ten times a second each");
}

/// It goes on by its first, and is one client as before.
#[test]
fn a_client_whose_second_connection_has_no_port_does_not_pause() {
    let load = Load::Closed { clients: 1 };
    let plan = Plan { load, ..plan() };
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    for ms in 0..400 {
        let now_ns = crowd.begun_ns + ms * MS_NS;
        crowd.start_due(now_ns);
        crowd.wake_visits(now_ns);
    }
    let outcome = crowd.tally.outcome(plan.seed);
    assert_eq!((outcome.errors.other["EADDRNOTAVAIL"], crowd.visits.clients()), (1, 1));
    assert_eq!(crowd.schedule.next_ns(0), Some(0), "another would come at once");
}

/// The ports of one address have their turns within the minute, and more connections than there are
/// ports would else be in TIME-WAIT.
#[test]
fn a_port_that_is_used_again_is_in_time_wait_once() {
    let plan = Plan { classes: vec![Class::default()], ports: None, ..plan() };
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let (now_ns, ports) = (crowd.begun_ns, crowd.tuples.len());
    let start = |crowd: &mut Crowd<'_>| {
        crowd.start(0, now_ns);
        let numbers: Vec<u32> = crowd.attempts.numbers().collect();
        (numbers[0], crowd.attempts.get(numbers[0]).unwrap().tuple)
    };
    for _ in 0..ports + 1000 {
        let (number, tuple) = start(&mut crowd);
        assert!(!crowd.hold(Wait::Own, tuple, now_ns), "its client may use it");
        crowd.attempts.end(number);
        crowd.attempts.remove(number);
        crowd.tuples.give_back(tuple);
    }
    // This one is in use, and no longer in TIME-WAIT.
    start(&mut crowd);
    let held = crowd.tally.outcome(plan.seed).time_waits.unwrap();
    assert_eq!((held.most, held.at_end), (ports, ports - 1));
}

/// They browse, and others beside them have a network of their own.
#[test]
fn who_browses_comes_from_where_the_plan_says() {
    let mut plan = Plan { ports: None, ..plan() };
    let sources = vec!["10.128.9.0/24".parse().unwrap()];
    plan.classes.push(Class { sources, share: 1e-9, ..Class::default() });
    plan.check().unwrap();
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    for _ in 0..3 {
        crowd.start(0, crowd.begun_ns);
    }
    for number in crowd.attempts.numbers() {
        let tuple = crowd.attempts.get(number).unwrap().tuple;
        assert_eq!(crowd.tuples.parts(tuple).1.to_string(), "10.128.0.1");
    }
    assert_eq!(crowd.attempts.under_way, 3);
}

#[test]
fn parts_have_those_who_were_never_started() {
    let load = Load::Constant { per_s: 100.0 };
    let class = |part| Class { part: Some(part), ..Class::default() };
    let classes = vec![class(0), class(1)];
    let plan = Plan { load, classes, ports: None, ..plan() };
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let is_hopeless_ns = ns(plan.whole()) + ns(plan.longest_timeout()) + 1;
    crowd.start_due(crowd.begun_ns + is_hopeless_ns);
    let outcome = crowd.tally.outcome(plan.seed);
    assert_eq!((outcome.attempts, outcome.errors.not_started), (1000, 1000));
    let attempts: Vec<u64> = outcome.parts.iter().map(|part| part.attempts).collect();
    assert_eq!(attempts.iter().sum::<u64>(), 1000, "{attempts:?}");
    assert!(attempts.iter().all(|attempts| *attempts > 400), "each has its share: {attempts:?}");
}

/// The pair is held for another minute, and by its clock the SYN is older than what was there.
#[test]
fn a_visit_ends_when_its_own_host_refuses_the_page() {
    let (plan, mut watch) = (plan(), |_: Progress| {});
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let now_ns = crowd.begun_ns;
    let clock = ((now_ns / MS_NS) as u32).wrapping_add(1000);
    let last = LastNumbers { sent: 0, expected: 0, clocks: Some((clock, 0)), swapped: true };
    let pairs = crowd.office.pairs.as_mut().unwrap();
    assert!(pairs.hold(OWN.parse().unwrap(), TARGET.parse().unwrap(), &last, now_ns));
    crowd.start(0, now_ns);
    assert_eq!(crowd.office.segments.syn_sent, 0);
    assert_eq!((crowd.visits.connections, crowd.visits.clients()), (0, 0));
    assert_eq!((crowd.attempts.under_way, crowd.attempts.open), (0, 0));
    let outcome = crowd.tally.outcome(plan.seed);
    assert_eq!(outcome.errors.refused, 1);
    assert_eq!(outcome.visits.unwrap().abandoned, 1);
}

/// The server's FIN to a connection that the client has no more: it comes and is answered by the way
/// of those who live there.
#[test]
fn what_belongs_to_no_attempt_takes_as_long_as_all_else() {
    let mut plan = Plan { ports: None, ..plan() };
    let far = Network { delay: Delay::Constant { ms: 20.0 }, ..Network::default() };
    let of = |net: &str, network| {
        let sources = vec![net.parse().unwrap()];
        Class { sources, network, os: Os::named("windows").unwrap(), ..Class::default() }
    };
    plan.classes = vec![of("10.128.1.1/32", Network::default()), of("10.128.2.1/32", far)];
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let begun_ns = crowd.begun_ns;
    let mut comes = |to: &str| {
        let from: SocketAddr = TARGET.parse().unwrap();
        let fin = Segment { flags: Flags::FIN | Flags::ACK, ..Segment::default() };
        let mut frame = [0; FRAME_BYTES];
        let way = Way::new(to.parse().unwrap(), [4; 6], [2; 6]);
        let bytes = way.write((from.ip(), from.port()), 64, 1, &fin, DATA_ORDER, &mut frame);
        crowd.receive(&frame[..bytes], begun_ns, false);
        let mut now_ns = begun_ns;
        while let Some(next_ns) = crowd.office.delayed.next_ns() {
            now_ns = next_ns;
            crowd.release_due(now_ns);
        }
        let counted = std::mem::take(&mut crowd.office.segments);
        ((now_ns - begun_ns) / MS_NS, counted.received, counted.sent)
    };
    assert_eq!(comes("10.128.1.1:5000"), (0, 1, 1));
    assert_eq!(comes("10.128.2.1:5000"), (40, 1, 1), "there and back");
}

/// Where the FIN overtakes the server's ACK of the client's, this comes when there is TIME-WAIT.
#[test]
fn a_host_acknowledges_a_fin_in_time_wait_and_is_silent_to_an_ack() {
    let plan = Plan { classes: vec![Class::default()], ports: None, ..plan() };
    let mut watch = |_: Progress| {};
    let mut crowd = Crowd::gather(&plan, parts(&plan), &mut watch).unwrap();
    let now_ns = crowd.begun_ns;
    let tuple = crowd.tuples.of(TARGET.parse().unwrap(), OWN.parse().unwrap()).unwrap();
    let says = |crowd: &mut Crowd<'_>, flags| {
        let segment = Segment { flags, ..Segment::default() };
        crowd.answer_stray(tuple, (0, 0), &segment, now_ns);
        let counted = std::mem::take(&mut crowd.office.segments);
        (counted.ack_sent, counted.rst_sent)
    };
    let fin = Flags::FIN | Flags::ACK;
    assert_eq!([fin, Flags::ACK].map(|flags| says(&mut crowd, flags)), [(0, 1), (0, 1)]);
    crowd.latest.ended(tuple, true);
    assert_eq!([fin, Flags::ACK].map(|flags| says(&mut crowd, flags)), [(1, 0), (0, 0)]);
}
