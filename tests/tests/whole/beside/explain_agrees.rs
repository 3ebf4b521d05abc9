// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate explain` says of a SYN is what then happens to it: ten thousand SYNs are asked
//! about and then sent, to listeners of every mechanism, at the driver, the IP and the TCP entry,
//! over IPv4 and IPv6, from clients that look like Linux and like Windows, with full queues and with
//! room, new ones and repeated ones. And asking changes nothing: the guard's maps are the same
//! before and after, to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use libbpf_rs::MapCore;
use nix::time::{ClockId, clock_gettime};
use tidegate_datapath::counters;
use tidegate_datapath::interfaces::{self, Interface};
use tidegate_datapath::pins::Pins;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::rehearsal::{Found, Rehearsal, Syn};
use tidegate_lab::{Namespace, allowed_cpus, pin_thread};
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_tests::wire::{RST, SYN, Segment, WINDOWS_OPTIONS, Wire, usual_options};
use tidegate_tests::{
    CLIENT_V4, CLIENT_V6, Guard, Plain, SERVER_V4, SERVER_V6, Stage, Stalled, fill, run_to_end,
    skip_without_root, until,
};

const CASES: usize = 10_000;
/// What is wanted turns up by chance and by how fast this machine is: so many cases it may take.
const CASES_MOST: usize = 10 * CASES;
/// Of so many cases one may be a disagreement that the clock explains, since it went on between the
/// question and the SYN.
const EXCUSED_OF: usize = 500;
const FIRST_PORT: u16 = 8000;
/// A listener that is always full.
const MARKER_PORT: u16 = 7999;
/// Room for one that waits and some that are half open; with a backlog of none there is no room.
const BACKLOG: i32 = 64;

/// Of every listener what stands in its section. `auto` has the most to remember, and is asked
/// most: see `Crowd::listener`.
const LISTENERS: [&str; 19] = [
    "mechanism = \"auto\"\nauto = { patience_s = 0.5 }",
    "mechanism = \"default\"",
    "mechanism = \"abort\"\nhook = \"driver\"",
    "mechanism = \"abort rst-syn\"",
    "mechanism = \"reserv rst-syn\"",
    "mechanism = \"reserv rst-syn\"\nhook = \"driver\"",
    "mechanism = \"no-syn-drop\"\nhook = \"driver\"",
    "mechanism = \"abort early-syn-drop\"\nhook = \"tcp\"",
    "mechanism = \"abort rst-syn\"\nrefusals_per_s = 10",
    "mechanism = \"abort rst-syn\"\nshed = { p = 0.3, arrivals_per_s = 100 }",
    "shed = { p = 0.3, key = \"client\", refuse = \"rst\", arrivals_per_s = 100 }\nhook = \"driver\"",
    "mechanism = \"default\"\nshed = { policy = \"sbpd\", p = 0.3, arrivals_per_s = 100 }",
    "mechanism = \"no-syn-drop\"\nshed = { policy = \"sbpd\", p = 0.3, refuse = \"cookie\", arrivals_per_s = 100 }",
    "mechanism = \"auto\"\nauto = { patience_s = 0.5 }\nhook = \"driver\"",
    // Nobody comes in: its overload goes on, and whoever comes is told. Half of the clients are
    // policed.
    "mechanism = \"auto\"\nauto = { patience_s = 0.5 }\nplaces = 1\n\
     police = [{ network = \"198.18.0.0/16\", syns_per_s = 1 }, \
     { network = \"fd99::/113\", syns_per_s = 1 }]",
    "mechanism = \"lazy\"\nahead = 2",
    // Whoever would take the last of three places is dropped early, for certain: no lot is drawn,
    // see tg_reserve_early_drop().
    "mechanism = \"lazy rst-syn\"\nahead = 3\nreserv = { early_drop_from = 0.7 }\nhook = \"driver\"",
    // Half of the clients are exempt, of `places`, too; the others are policed.
    "mechanism = \"abort rst-syn\"\nplaces = 1\nhook = \"driver\"\n\
     exempt = [\"198.18.0.0/16\", \"fd99::/113\"]\n\
     police = [{ network = \"198.19.0.0/16\", syns_per_s = 1 }, \
     { network = \"fd99::8000/113\", syns_per_s = 1 }]",
    // All clients are one network.
    "mechanism = \"abort rst-syn\"\nfair_share = { ipv4_bits = 1, ipv6_bits = 1 }",
];
const TCP_ENTRY: usize = 7;

/// Hops that packets of Unix systems have before them, and those of Windows.
const HOPS: [u8; 2] = [64, 128];

/// What must have been met, for the cases to mean anything.
const MET: [&str; 24] = [
    "Room pass",
    "ListenQFullAtSyn pass",
    "ListenQFullAtSyn drop",
    "ListenQFullAtSyn reset",
    "ListenQFullAtSyn cookie",
    "ListenQFullAtSyn hollow",
    "NoReservation reset",
    "NoReservation drop",
    "EarlyRandom reset",
    "RefusalLimit drop",
    "HalfOpen pass",
    "WaitLimit reset",
    "WaitLimit hollow",
    "NewFirst",
    "Policed reset",
    "Policed hollow",
    "BeyondShare reset",
    "Exempt pass",
    "ShedStateless drop",
    "ShedStateless reset",
    "ShedNew drop",
    "ShedNew hollow",
    "ShedAgain drop",
    "Unjudged",
];

fn configuration() -> String {
    let mut text = format!("[[listener]]\nport = {MARKER_PORT}\nhook = \"ip\"\n\n");
    for (port, rules) in (FIRST_PORT..).zip(LISTENERS) {
        let hook = if rules.contains("hook") { "" } else { "hook = \"ip\"" };
        let _ = writeln!(text, "[[listener]]\nport = {port}\n{hook}\n{rules}\n");
    }
    text
}

/// xorshift64* (Vigna 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }
}

/// A listening socket with one connection that waits, and who came to it lately.
struct Listener {
    kind: usize,
    at: SocketAddr,
    socket: Stalled,
    /// Before the guard stood.
    _waiting: Vec<Plain>,
    lately: Vec<Segment>,
}

fn rules_of(listener: &Listener) -> &'static str {
    LISTENERS[listener.kind]
}

fn listeners(stage: &Stage) -> Vec<Listener> {
    let mut found = Vec::new();
    for (kind, port) in (0..LISTENERS.len()).zip(FIRST_PORT..) {
        for address in [SERVER_V4, SERVER_V6] {
            let at = SocketAddr::new(address.parse().expect("an address"), port);
            let socket = Stalled::new(&stage.server, at, BACKLOG);
            let waiting = fill(&stage.client, at, 1);
            found.push(Listener { kind, at, socket, _waiting: waiting, lately: Vec::new() });
        }
    }
    found
}

/// Clients that come and come again.
struct Crowd {
    random: Random,
    wire: Wire,
    listeners: Vec<Listener>,
}

impl Crowd {
    /// One in four comes to auto.
    fn listener(&mut self) -> usize {
        let all = 0..self.listeners.len();
        if !self.random.one_in(4) {
            return self.random.below(all.len());
        }
        let is_auto = |which: &usize| rules_of(&self.listeners[*which]).contains("\"auto\"");
        let auto: Vec<usize> = all.filter(is_auto).collect();
        auto[self.random.below(auto.len())]
    }

    fn source(&mut self, to: SocketAddr) -> SocketAddr {
        let who = self.random.next();
        let address: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::from(0xc612_0000 | (who as u32 & 0x0001_ffff)).into(),
            SocketAddr::V6(_) => Ipv6Addr::from(0xfd99 << 112 | u128::from(who & 0xffff)).into(),
        };
        SocketAddr::new(address, 1024 + self.random.below(60_000) as u16)
    }

    /// A SYN to this listener: one in three was here before.
    fn syn(&mut self, to: usize) -> Segment {
        let (at, known) = (self.listeners[to].at, self.listeners[to].lately.len());
        if known > 0 && self.random.one_in(3) {
            let which = self.random.below(known);
            return self.listeners[to].lately[which].clone();
        }
        let (from, seq) = (self.source(at), self.random.next() as u32);
        let hops = HOPS[self.random.below(HOPS.len())];
        let linux = self.random.one_in(2);
        let options = if linux { usual_options(1) } else { WINDOWS_OPTIONS.to_vec() };
        let syn = Segment { hops, options, ..Segment::new(from, at, SYN, seq, 0) };
        let lately = &mut self.listeners[to].lately;
        if known < 32 {
            lately.push(syn.clone());
        } else {
            let which = self.random.below(32);
            lately[which] = syn.clone();
        }
        syn
    }

    fn flip(&mut self, which: usize) {
        let backlog = [0, 0, BACKLOG / 8, BACKLOG][self.random.below(4)];
        self.listeners[which].socket.set_backlog(backlog);
    }

    /// What was let in goes again, but for a few that stay half open. At the TCP entry a SYN whose
    /// request stands is the kernel's alone, and is not counted.
    fn take_back(&mut self, which: usize, syn: &Segment) {
        if self.listeners[which].kind != TCP_ENTRY && self.random.one_in(12) {
            return;
        }
        let rst = Segment::new(syn.from, syn.to, RST, syn.seq.wrapping_add(1), 0);
        self.wire.send(&rst);
    }
}

/// The guard as it stands, and its rehearsal.
struct Guarded {
    live: Programs,
    rehearsal: Rehearsal,
    interface: Interface,
    /// Counter slots, by port.
    slots: BTreeMap<u16, Vec<u32>>,
}

impl Guarded {
    fn here() -> Self {
        let pins = Pins::here().expect("a namespace");
        let live = Programs::of_maps(pins.open_maps().expect("pinned maps"));
        let rehearsal = Rehearsal::of(pins).expect("programs that load").expect("a guard");
        let interfaces = interfaces::list().expect("interfaces");
        let interface = interfaces.into_iter().find(|i| i.name == "srv0").expect("a veth");
        let all = counters::slots(&live);
        let slots = rehearsal
            .guards()
            .iter()
            .map(|(index, guarded)| {
                let own = all.iter().filter(|((owner, _), _)| owner == index).map(|(_, s)| *s);
                (guarded.port, [*index].into_iter().chain(own).collect::<Vec<u32>>())
            })
            .collect();
        let guarded = Guarded { live, rehearsal, interface, slots };
        let seen = |slots: &Vec<u32>| slots.len() >= 2;
        assert!(guarded.slots.values().all(seen), "{:?}", guarded.slots);
        guarded
    }

    /// The program says, of a SYN that nobody has sent.
    fn foretold(&mut self, wire: &Wire, syn: &Segment) -> String {
        let question = Syn { from: syn.from, to: syn.to, isn: syn.seq };
        let frame = wire.frame(syn);
        match self.rehearsal.ask(&question, &self.interface, &frame).expect("an answer") {
            Found::Judged { decision, .. } => name(decision.reason, decision.verdict),
            other => format!("{other:?}"),
        }
    }

    /// By reason and verdict, what was counted of this port.
    fn counted(&self, port: u16) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for slot in &self.slots[&port] {
            let counted = counters::read(&self.live, *slot).expect("counters");
            for (by_verdict, reason) in counted.packets.iter().zip(0..) {
                for (count, verdict) in by_verdict.iter().zip(0..).filter(|(count, _)| **count > 0)
                {
                    *counts.entry(name(reason, verdict)).or_default() += count;
                }
            }
        }
        counts
    }

    /// What is counted when it is sent.
    fn happens(&self, wire: &Wire, syn: &Segment, marker: &Segment) -> String {
        let before = self.counted(syn.to.port());
        let moved = || {
            let now = self.counted(syn.to.port()).into_iter();
            let moved: Vec<String> = now
                .filter(|(name, count)| before.get(name) != Some(count))
                .map(|(n, _)| n)
                .collect();
            moved.join(", ")
        };
        wire.send(syn);
        let soon = Instant::now() + Duration::from_millis(2);
        while Instant::now() < soon {
            let moved = moved();
            if !moved.is_empty() {
                return moved;
            }
            // Whoever works on it may need this processor.
            sleep(Duration::from_micros(20));
        }
        // One that is counted without fail, behind it on the cable.
        let marked = self.counted(MARKER_PORT);
        wire.send(marker);
        until("the marker is counted", || self.counted(MARKER_PORT) != marked);
        Some(moved()).filter(|moved| !moved.is_empty()).unwrap_or("Unjudged".to_owned())
    }

    /// Everything that is in the guard's maps, but for what sockets carry.
    fn everything(&self) -> BTreeMap<String, Vec<Vec<Vec<u8>>>> {
        let maps = self.live.maps().iter().filter(|(name, _)| !is_with_sockets(name));
        maps.map(|(name, map)| (name.clone(), contents(map))).collect()
    }
}

fn reason(name: &str) -> Option<&str> {
    name.rsplit_once(' ').map(|(reason, _)| reason)
}

fn name(reason: u32, verdict: u32) -> String {
    format!("{} {}", REASONS[reason as usize], VERDICTS[verdict as usize])
}

fn is_with_sockets(map: &str) -> bool {
    ["agreements", "said"].contains(&map)
}

fn contents(map: &libbpf_rs::MapHandle) -> Vec<Vec<Vec<u8>>> {
    use libbpf_rs::MapFlags;
    let value = |key: &Vec<u8>| match map.map_type().is_percpu() {
        true => map.lookup_percpu(key, MapFlags::ANY).expect("a value").expect("a value"),
        false => vec![map.lookup(key, MapFlags::ANY).expect("a value").expect("a value")],
    };
    map.keys().map(|key| value(&key).into_iter().chain([key.clone()]).collect()).collect()
}

/// The clock by which the programs judge goes by ticks.
fn tick() -> (i64, i64) {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).expect("a clock");
    (now.tv_sec(), now.tv_nsec())
}

fn routes(server: &Namespace) {
    for (network, via) in [("198.18.0.0/15", CLIENT_V4), ("fd99::/64", CLIENT_V6)] {
        server.ip(&format!("route replace {network} via {via} dev srv0")).expect("a route back");
    }
}

fn play(mut crowd: Crowd) {
    pin_thread(allowed_cpus().expect("processors")[0]).expect("a processor of our own");
    let mut guarded = Guarded::here();
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), MARKER_PORT);
    let marker = Segment::new(crowd.source(to), to, SYN, 7, 0);
    let (mut met, mut excused) = (BTreeSet::new(), 0);
    let (mut agreed, begun) = (0, Instant::now());
    // SYNs of networks with a share: all; those foretold to be beyond it; those that were. Of one
    // whose request stands nothing more is said than that it does.
    let mut shared = [0u64; 3];
    let has_met = |met: &BTreeSet<String>, wanted: &str| met.iter().any(|m| m.starts_with(wanted));
    let is_enough = |met: &BTreeSet<String>| MET.iter().all(|wanted| has_met(met, wanted));
    while agreed < CASES || (agreed < CASES_MOST && !is_enough(&met)) {
        let which = crowd.listener();
        crowd.flip(which);
        let syn = crowd.syn(which);
        let then = tick();
        let foretold = guarded.foretold(&crowd.wire, &syn);
        let happened = guarded.happens(&crowd.wire, &syn, &marker);
        if happened.ends_with("pass") {
            crowd.take_back(which, &syn);
        }
        let rules = rules_of(&crowd.listeners[which]);
        let has_share = rules.contains("fair_share");
        let is_beyond = [&foretold, &happened]
            .map(|what| has_share && matches!(reason(what), Some("BeyondShare" | "HalfOpen")));
        let one = [has_share, is_beyond[0], is_beyond[1]];
        shared.iter_mut().zip(one).for_each(|(count, is)| *count += u64::from(is));
        if foretold == happened {
            agreed += 1;
            met.insert(happened);
        } else if !is_beyond.contains(&true) {
            let case = format!("{} > {} by {rules}", syn.from, syn.to);
            // Why there is no room stays as it is for a tick. Who is told of it goes, with `auto`, by a
            // clock that never stands still; and so does whose turn it is, and how long the queue may be.
            // By that clock goes a network's rate, too.
            let is_auto = rules.contains("\"auto\"");
            let [before, now] = [reason(&foretold), reason(&happened)];
            let is_of_time = |reason| match reason {
                Some("WaitLimit" | "NewFirst") => is_auto,
                Some("Policed") => true,
                _ => false,
            };
            let may_differ = (is_auto && before == now) || is_of_time(before) || is_of_time(now);
            assert!(
                may_differ || tick() != then,
                "{case}: foretold {foretold}, and {happened} happened"
            );
            excused += 1;
            assert!(
                excused * EXCUSED_OF <= agreed.max(CASES),
                "{case}: too often it is said to be the clock"
            );
        }
        if agreed % (CASES / 5) == 0 {
            asking_changes_nothing(&mut crowd, &mut guarded);
        }
    }
    println!("{agreed} agreed in {:?}, {excused} met a tick; met: {met:?}", begun.elapsed());
    for wanted in MET {
        assert!(has_met(&met, wanted), "{wanted} was met, among {met:?}");
    }
    // Who is beyond its network's share is drawn by lot, each time anew: as many are foretold as are
    // held, to within six standard deviations where every lot is even.
    let [all, foretold, held] = shared;
    assert!(
        foretold.abs_diff(held).pow(2) <= 18 * all,
        "of {all} SYNs {foretold} were foretold to be beyond their share, and {held} were"
    );
}

fn asking_changes_nothing(crowd: &mut Crowd, guarded: &mut Guarded) {
    let before = guarded.everything();
    for which in 0..crowd.listeners.len() {
        for _ in 0..3 {
            let syn = crowd.syn(which);
            guarded.foretold(&crowd.wire, &syn);
        }
    }
    let after = guarded.everything();
    assert!(before.len() > 15, "the maps of a guard: {:?}", before.keys());
    for (map, was) in before {
        assert!(after[&map] == was, "asking has changed the guard's map {map}");
    }
}

#[test]
fn what_is_foretold_is_what_happens_and_asking_changes_nothing() {
    if skip_without_root("what_is_foretold_is_what_happens_and_asking_changes_nothing") {
        return;
    }
    let stage = Stage::new("explain-agrees");
    routes(&stage.server);
    let listeners = listeners(&stage);
    let marked = SocketAddr::new(SERVER_V4.parse().expect("an address"), MARKER_PORT);
    let _full = Stalled::new(&stage.server, marked, 0);
    let _waiting = fill(&stage.client, marked, 1);
    let text = configuration();
    stage.server.run(move || std::fs::write("/run/tidegate.toml", text).expect("a file"));
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    // The guard stands alone from here on: nobody but packets writes its maps.
    guard.kill();
    let crowd = Crowd { random: Random(0x7469_6465), wire: Wire::of(&stage), listeners };
    stage.server.run(move || play(crowd));
    let stopped = run_to_end(&stage.server, &["stop"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
}

/// Each counter slot takes its place on every possible processor: the second set has those that are used.
#[test]
fn a_socket_that_came_after_a_question_is_answered_for_by_the_next() {
    if skip_without_root("a_socket_that_came_after_a_question_is_answered_for_by_the_next") {
        return;
    }
    const LATE: u32 = 900;
    let stage = Stage::new("explain-slots");
    routes(&stage.server);
    let at = SocketAddr::new(SERVER_V4.parse().expect("an address"), FIRST_PORT);
    let _listener = Stalled::new(&stage.server, at, BACKLOG);
    let text = format!("[[listener]]\nport = {FIRST_PORT}\nhook = \"ip\"\n");
    stage.server.run(move || std::fs::write("/run/tidegate.toml", text).expect("a file"));
    let guard = Guard::start(&stage.server, &["--config", "/run/tidegate.toml"]);
    // Nobody but this test gives slots from here on.
    guard.kill();
    let wire = Wire::of(&stage);
    stage.server.run(move || {
        let mut guarded = Guarded::here();
        let from = SocketAddr::new(Ipv4Addr::new(198, 18, 0, 1).into(), 4000);
        let syn = Segment { options: usual_options(1), ..Segment::new(from, at, SYN, 7, 0) };
        let question = Syn { from, to: at, isn: syn.seq };
        let ask = |guarded: &mut Guarded| {
            let answer = guarded.rehearsal.ask(&question, &guarded.interface, &wire.frame(&syn));
            let entries = guarded.rehearsal.readers().map(counters::MAP).max_entries();
            match answer.expect("an answer") {
                Found::Judged { slot, decision, .. } => {
                    (slot, name(decision.reason, decision.verdict), entries)
                }
                other => panic!("{other:?}"),
            }
        };
        let (owner, first) = counters::slots(&guarded.live).pop_first().expect("a socket");
        let room = || "Room pass".to_owned();
        assert_eq!(ask(&mut guarded), (first, room(), first + 1));
        counters::assign_slot(&guarded.live, owner, LATE).expect("a slot");
        for _ in 0..2 {
            assert_eq!(ask(&mut guarded), (LATE, room(), LATE + 1));
        }
    });
    let stopped = run_to_end(&stage.server, &["stop"]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
}
