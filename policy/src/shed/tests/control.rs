// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The control of p* against a plant: a server that drains its listen queue evenly, and clients
//! with a round trip, who come again or do not.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

use super::random::Random;
use crate::mechanism;
use crate::shed::*;

const KEY: tg_key = tg_key { k0: 11, k1: 12 };
const SECOND: u64 = 1_000_000_000;
/// The middle of a turn of K(t).
const BEGIN: u64 = 6_400_000 * TG_SHED_TURN_NS + TG_SHED_TURN_NS / 4;
/// When Linux sends its SYN again, in s (since 6.5), as far as anyone waits here.
const AGAIN_S: [u64; 7] = [1, 2, 3, 4, 5, 7, 11];

/// An address has 16384 of them, a port each.
fn connection(who: u32) -> tg_tuple {
    let from = (Ipv4Addr::from(who >> 14), who as u16 & 0x3fff);
    tg_tuple::between(from.into(), (Ipv4Addr::new(10, 9, 0, 1), 443).into())
}

/// A server behind a listen queue, and those on their way to it.
struct Plant {
    shedder: Shedder,
    drain_per_s: f64,
    backlog: u32,
    round_trip_ns: u64,
    queue: f64,
    handshakes: VecDeque<u64>,
    now_ns: u64,
    served: f64,
    shed: u64,
    overflowed: u64,
}

/// What became of a SYN.
#[derive(PartialEq)]
enum Fate {
    Entered,
    Shed,
    NoRoom,
}

impl Plant {
    fn new(rules: tg_shed_rules, drain_per_s: f64, backlog: u32) -> Self {
        Plant {
            shedder: Shedder::new(rules, KEY),
            drain_per_s,
            backlog,
            round_trip_ns: 20_000_000,
            queue: 0.0,
            handshakes: VecDeque::new(),
            now_ns: 0,
            served: 0.0,
            shed: 0,
            overflowed: 0,
        }
    }

    fn drain_until(&mut self, now_ns: u64) {
        let done = ((now_ns - self.now_ns) as f64 / 1e9 * self.drain_per_s).min(self.queue);
        self.queue -= done;
        self.served += done;
        self.now_ns = now_ns;
    }

    fn run_until(&mut self, now_ns: u64) {
        while self.handshakes.front().is_some_and(|at| *at <= now_ns) {
            let at_ns = self.handshakes.pop_front().expect("one is there");
            self.drain_until(at_ns);
            if self.queue <= f64::from(self.backlog) {
                self.queue += 1.0;
            } else {
                self.overflowed += 1;
            }
        }
        self.drain_until(now_ns);
    }

    fn syn(&mut self, now_ns: u64, who: u32, random: u32) -> Fate {
        self.run_until(now_ns);
        let has_room = self.queue <= f64::from(self.backlog);
        let syn = tg_shed_syn {
            now_ns: now_ns + SECOND,
            clock_ns: BEGIN + now_ns,
            isn: who.wrapping_mul(0x9e37_79b9),
            random,
            ..Default::default()
        };
        let queues = tg_queues {
            listen_len: self.queue.ceil() as u32,
            listen_max: self.backlog,
            syn_len: self.handshakes.len() as u32,
            ..Default::default()
        };
        let reason = if has_room { TG_ROOM } else { TG_LISTENQ_FULL_AT_SYN };
        let queue = tg_auto_queue::of(&tg_rules::default(), &queues, reason);
        if self.shedder.decide_at(&connection(who), &syn, &queue, Stands::Nothing).verdict
            != TG_PASS
        {
            self.shed += 1;
            return Fate::Shed;
        }
        if !has_room {
            self.overflowed += 1;
            return Fate::NoRoom;
        }
        self.handshakes.push_back(now_ns + self.round_trip_ns);
        Fate::Entered
    }

    fn p(&self) -> f64 {
        self.shedder.state().control.p()
    }
}

/// What was seen in a tenth of a second.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_s: f64,
    p: f64,
    queue: f64,
    goodput_per_s: f64,
    shed: u64,
    /// New connections that came.
    came: u64,
    /// Of them, those shed at their first SYN.
    turned_away: u64,
}

/// Who comes: so many times the drain from so many seconds on.
struct Crowd {
    steps: Vec<(f64, f64)>,
    lasts_s: f64,
    persistent: bool,
    poisson: bool,
}

fn respond(plant: &mut Plant, crowd: &Crowd) -> Vec<Sample> {
    let mut random = Random(77);
    let mut due: BinaryHeap<Reverse<(u64, u32, usize)>> = BinaryHeap::new();
    let (mut next_ns, mut who, mut samples) = (0u64, 0u32, Vec::new());
    let (mut sampled_ns, mut served, mut shed, mut came) = (0, 0.0, 0, 0);
    let mut turned_away = 0;
    let ends_ns = (crowd.lasts_s * 1e9) as u64;
    let load = |at_ns: u64| {
        let passed = crowd.steps.iter().rev().find(|(from_s, _)| at_ns as f64 / 1e9 >= *from_s);
        passed.expect("the first step is at 0").1
    };
    loop {
        let again_ns = due.peek().map_or(u64::MAX, |Reverse((at_ns, ..))| *at_ns);
        let at_ns = again_ns.min(next_ns);
        while sampled_ns + SECOND / 10 <= at_ns.min(ends_ns) {
            sampled_ns += SECOND / 10;
            plant.run_until(sampled_ns);
            let goodput_per_s = (plant.served - served) * 10.0;
            let (at_s, p, queue) = (sampled_ns as f64 / 1e9, plant.p(), plant.queue);
            let (shed_now, came_now) = (plant.shed - shed, u64::from(who) - came);
            samples.push(Sample {
                at_s,
                p,
                queue,
                goodput_per_s,
                shed: shed_now,
                came: came_now,
                turned_away: std::mem::take(&mut turned_away),
            });
            (served, shed, came) = (plant.served, plant.shed, u64::from(who));
        }
        if at_ns >= ends_ns {
            return samples;
        }
        let (one, attempt) = if again_ns <= next_ns {
            let Reverse((_, one, attempt)) = due.pop().expect("it was peeked at");
            (one, attempt)
        } else {
            let gap = if crowd.poisson { random.exponential() } else { 1.0 };
            next_ns += (gap * 1e9 / (load(next_ns) * plant.drain_per_s)).max(1.0) as u64;
            who += 1;
            (who, 0)
        };
        let fate = plant.syn(at_ns, one, (random.next() >> 32) as u32);
        turned_away += u64::from(attempt == 0 && fate == Fate::Shed);
        if fate != Fate::Entered
            && crowd.persistent
            && let Some(after) = AGAIN_S.get(attempt)
        {
            let before = attempt.checked_sub(1).map_or(0, |place| AGAIN_S[place]);
            due.push(Reverse((at_ns + (after - before) * SECOND, one, attempt + 1)));
        }
    }
}

fn automatic(policy: u32) -> tg_shed_rules {
    tg_shed_rules {
        blocks: blocks(100_000, 1.2),
        ..tg_shed_rules::automatic(policy, TG_KEY_CONNECTION, 0, 5)
    }
}

/// The mean of these samples, from and to these seconds.
fn mean(samples: &[Sample], range: std::ops::Range<f64>, of: impl Fn(&Sample) -> f64) -> f64 {
    let within: Vec<f64> =
        samples.iter().filter(|s| s.at_s > range.start && s.at_s <= range.end).map(of).collect();
    within.iter().sum::<f64>() / within.len() as f64
}

fn up_and_down() -> Vec<(f64, f64)> {
    vec![(0.0, 0.5), (3.0, 3.0), (13.0, 0.5)]
}

/// Half of what the server can do, three times as much, and half again: nobody is shed below
/// capacity, and two seconds after the step the server does what it can, and goes on doing so.
#[track_caller]
fn assert_step(plant: &mut Plant, crowd: &Crowd, what: &str) {
    let samples = respond(plant, crowd);
    for s in samples.iter().step_by(2) {
        println!(
            "{what} {:>5.1} s  p {:.3}  queue {:>6.1}  goodput {:>9.0}  shed {}",
            s.at_s, s.p, s.queue, s.goodput_per_s, s.shed
        );
    }
    let drain = plant.drain_per_s;
    let before: u64 = samples.iter().filter(|s| s.at_s <= 3.0).map(|s| s.shed).sum();
    assert_eq!(before, 0, "{what}: nobody is shed below capacity");
    for from in 5..13 {
        let range = f64::from(from)..f64::from(from) + 1.0;
        let goodput = mean(&samples, range, |s| s.goodput_per_s);
        assert!(goodput >= 0.95 * drain, "{what}: {goodput} of {drain} after {from} s");
    }
    let p = mean(&samples, 5.0..13.0, |s| s.p);
    if !crowd.persistent {
        assert!((p - 2.0 / 3.0).abs() < 0.04, "{what}: p* is {p}");
        let late: u64 = samples.iter().filter(|s| s.at_s > 15.1).map(|s| s.shed).sum();
        assert_eq!(late, 0, "{what}: nobody is shed below capacity again");
        let goodput = mean(&samples, 15.0..18.0, |s| s.goodput_per_s);
        let came_per_s = mean(&samples, 15.0..18.0, |s| s.came as f64 * 10.0);
        assert!(goodput >= 0.95 * came_per_s, "{what}: {goodput} of {came_per_s}");
    }
    if crowd.lasts_s > 40.0 {
        let late: u64 = samples.iter().filter(|s| s.at_s > 40.0).map(|s| s.shed).sum();
        assert_eq!(late, 0, "{what}: nobody is shed when all who waited are gone");
    }
    assert_eq!(plant.p(), 0.0, "{what}: at the end");
}

#[test]
fn a_step_of_load_is_followed_within_two_seconds() {
    for policy in [TG_SLPD, TG_SBPD, TG_RBD] {
        for (drain_per_s, backlog) in
            [(200.0, 128), (1000.0, 128), (5000.0, 128), (5000.0, 511), (30_000.0, 4096)]
        {
            for poisson in [false, true] {
                let mut plant = Plant::new(automatic(policy), drain_per_s, backlog);
                let crowd =
                    Crowd { steps: up_and_down(), lasts_s: 18.0, persistent: false, poisson };
                let what = format!("policy {policy}, {drain_per_s}/s, {backlog}, {poisson}");
                assert_step(&mut plant, &crowd, &what);
            }
        }
    }
}

/// Where who is shed is told, nobody waits outside: when the crowd goes, whoever comes is let in after
/// two steps of the control. In silence that takes a second, lest all who wait come in at once.
#[test]
fn told_crowds_that_go_are_believed_at_once() {
    for (drain_per_s, backlog) in [(1000.0, 128), (5000.0, 511), (30_000.0, 4096)] {
        for refusal in [TG_REFUSE_RESET, TG_REFUSE_COOKIE] {
            let rules = tg_shed_rules { refusal, ..automatic(TG_SLPD) };
            let mut plant = Plant::new(rules, drain_per_s, backlog);
            let crowd =
                Crowd { steps: up_and_down(), lasts_s: 18.0, persistent: false, poisson: true };
            let samples = respond(&mut plant, &crowd);
            let what = format!("{drain_per_s}/s, {backlog}, in form {refusal}");
            let shed: u64 = samples.iter().filter(|s| s.at_s > 13.05).map(|s| s.shed).sum();
            let came: u64 =
                samples.iter().filter(|s| s.at_s > 13.05 && s.at_s < 14.05).map(|s| s.came).sum();
            assert!(shed * 10 < came, "{what}: {shed} of {came} who came in the first second");
            let late: u64 = samples.iter().filter(|s| s.at_s > 13.25).map(|s| s.shed).sum();
            assert_eq!(late, 0, "{what}: a quarter of a second after the step");
            // Before that the load is level, and p* with it: chance is not taken for an end.
            let level = samples.iter().filter(|s| s.at_s > 6.0 && s.at_s < 13.05);
            let least = level.map(|s| s.p).fold(1.0, f64::min);
            assert!(least > 0.5, "{what}: p* is {least} while the crowd is there");
        }
    }
}

/// Clients who send their SYN again, each second at first: as many wait as have been dropped in the
/// last 18 s, and whoever is let through late comes on top of the load.
#[test]
fn a_crowd_that_comes_again_is_followed_too() {
    for policy in [TG_SLPD, TG_SBPD, TG_RBD] {
        for (drain_per_s, backlog) in [(1000.0, 128), (5000.0, 511)] {
            let mut plant = Plant::new(automatic(policy), drain_per_s, backlog);
            let crowd =
                Crowd { steps: up_and_down(), lasts_s: 45.0, persistent: true, poisson: true };
            let what = format!("persistent, policy {policy}, {drain_per_s}/s, {backlog}");
            assert_step(&mut plant, &crowd, &what);
        }
    }
}

/// After the step down those whom `sbpd` remembers come on. Let in all at once, they would fill the
/// queue, p* would rise, and shut out who is new while the server has nothing to do.
#[test]
fn who_is_remembered_does_not_shut_out_who_is_new() {
    for (drain_per_s, backlog) in [(1000.0, 128), (5000.0, 128), (5000.0, 511)] {
        let mut plant = Plant::new(automatic(TG_SBPD), drain_per_s, backlog);
        let crowd = Crowd { steps: up_and_down(), lasts_s: 45.0, persistent: true, poisson: true };
        let samples = respond(&mut plant, &crowd);
        for from in 15..45 {
            let range = f64::from(from)..f64::from(from) + 1.0;
            let goodput = mean(&samples, range.clone(), |s| s.goodput_per_s);
            let came = mean(&samples, range.clone(), |s| s.came as f64 * 10.0);
            let turned_away = mean(&samples, range, |s| s.turned_away as f64 * 10.0);
            let what = format!("{drain_per_s}/s, {backlog}, after {from} s");
            assert!(goodput >= 0.95 * came, "{what}: {goodput} of {came}");
            assert!(turned_away <= 0.03 * came, "{what}: {turned_away} of {came} turned away");
        }
    }
}

/// Below capacity nobody is shed, whatever the server, its queue and the policy, and however far
/// the clients are.
#[test]
fn nobody_is_shed_below_capacity() {
    for load in [0.1, 0.5, 0.8, 0.9] {
        for (drain_per_s, backlog) in [(50.0, 128), (1000.0, 128), (20_000.0, 511)] {
            for round_trip_ns in [1_000_000, 200_000_000] {
                let mut plant = Plant::new(automatic(TG_SLPD), drain_per_s, backlog);
                plant.round_trip_ns = round_trip_ns;
                let crowd = Crowd {
                    steps: vec![(0.0, load)],
                    lasts_s: 20.0,
                    persistent: true,
                    poisson: true,
                };
                respond(&mut plant, &crowd);
                assert_eq!(plant.shed, 0, "{load} of {drain_per_s}/s, {backlog}");
            }
        }
    }
}

/// However much more comes, the server does what it can, and its queue is not full.
#[test]
fn any_overload_leaves_the_server_at_its_capacity() {
    for load in [1.1, 1.5, 2.0, 5.0, 10.0, 30.0] {
        for (drain_per_s, backlog) in [(1000.0, 128), (5000.0, 511)] {
            for round_trip_ns in [1_000_000, 100_000_000] {
                let mut plant = Plant::new(automatic(TG_SLPD), drain_per_s, backlog);
                plant.round_trip_ns = round_trip_ns;
                let crowd = Crowd {
                    steps: vec![(0.0, load)],
                    lasts_s: 12.0,
                    persistent: false,
                    poisson: true,
                };
                let samples = respond(&mut plant, &crowd);
                let what = format!("{load} of {drain_per_s}/s, {backlog}, {round_trip_ns} ns");
                let goodput = mean(&samples, 2.0..12.0, |s| s.goodput_per_s);
                assert!(goodput >= 0.95 * drain_per_s, "{what}: {goodput}");
                let queue = mean(&samples, 4.0..12.0, |s| s.queue);
                assert!(queue < 0.8 * f64::from(backlog), "{what}: {queue} wait");
            }
        }
    }
}

/// The server becomes half as fast, and twice as fast, while three times its first capacity come.
#[test]
fn a_server_that_changes_its_pace_is_followed() {
    for (factor, p) in [(0.5, 5.0 / 6.0), (2.0, 1.0 / 3.0)] {
        let mut plant = Plant::new(automatic(TG_SLPD), 1000.0, 128);
        let crowd = |load| Crowd {
            steps: vec![(0.0, load)],
            lasts_s: 8.0,
            persistent: false,
            poisson: true,
        };
        respond(&mut plant, &crowd(3.0));
        // The second crowd comes by a clock that begins anew, and the server with it.
        plant.handshakes.clear();
        let mut second = Plant { drain_per_s: 1000.0 * factor, now_ns: 0, ..plant };
        second.shedder.state.control.stepped_ns = SECOND;
        let samples = respond(&mut second, &crowd(3.0 / factor));
        let goodput = mean(&samples, 2.0..8.0, |s| s.goodput_per_s);
        assert!(goodput >= 0.95 * 1000.0 * factor, "{factor}: {goodput}");
        let found = mean(&samples, 3.0..8.0, |s| s.p);
        assert!((found - p).abs() < 0.05, "{factor}: p* is {found}, {p} is right");
    }
}

/// It stands still for five seconds, with nobody let in, and then goes on as before.
#[test]
fn a_server_that_stood_still_is_filled_again() {
    for (drain_per_s, backlog) in [(300.0, 64), (5000.0, 511)] {
        let mut plant = Plant::new(automatic(TG_SLPD), drain_per_s, backlog);
        let (mut random, mut at_ns, mut served) = (Random(3), 0, 0.0);
        for who in 0u32.. {
            at_ns += (random.exponential() * 1e9 / (3.0 * drain_per_s)) as u64;
            let stands = (4 * SECOND..9 * SECOND).contains(&at_ns);
            plant.drain_per_s = if stands { 0.0 } else { drain_per_s };
            if at_ns > 14 * SECOND && served == 0.0 {
                served = plant.served;
            }
            if at_ns > 18 * SECOND {
                break;
            }
            plant.syn(at_ns, who, 0);
        }
        let share = (plant.served - served) / 4.0 / drain_per_s;
        assert!(share >= 0.95, "{share} of {drain_per_s}/s five seconds after it goes on");
    }
}

/// A rate set by hand is what is let through, on a router too, where there is no queue to see.
#[test]
fn a_rate_set_by_hand_is_kept() {
    for (load, expected) in [(0.5, 0.5), (0.9, 0.9), (3.0, 1.0), (20.0, 1.0)] {
        let rules = tg_shed_rules { rate_per_s: 1000, ..automatic(TG_SLPD) };
        let mut shedder = Shedder::new(rules, KEY);
        let mut random = Random(5);
        let (mut at_ns, mut passed, mut shed) = (SECOND, 0u64, 0u64);
        for who in 0u32.. {
            at_ns += (random.exponential() * 1e9 / (load * 1000.0)) as u64;
            if at_ns > 11 * SECOND {
                break;
            }
            let syn = tg_shed_syn { now_ns: at_ns, clock_ns: BEGIN + at_ns, ..Default::default() };
            let passes = shedder.decide(&connection(who), &syn).verdict == TG_PASS;
            if at_ns > 3 * SECOND {
                passed += u64::from(passes);
                shed += u64::from(!passes);
            }
        }
        let share = passed as f64 / 8000.0;
        assert!((share - expected).abs() < 0.05, "{share} of the rate at {load}");
        assert!(load > 1.0 || shed == 0, "{shed} are shed at {load} of the rate");
    }
}

/// It is let through to what stands, which answers it, and so counts as let through.
#[test]
fn who_is_answered_by_what_stands_counts_as_let_through() {
    for (refusal, passed) in [(TG_REFUSE_RESET, 1), (TG_REFUSE_COOKIE, 1), (TG_REFUSE_SILENTLY, 0)]
    {
        let mut shedder = Shedder::new(tg_shed_rules { refusal, ..automatic(TG_SLPD) }, KEY);
        // Everyone is to be shed.
        (shedder.state.control.p_x32, shedder.state.control.stepped_ns) = (1 << 32, SECOND);
        let syn = tg_shed_syn { now_ns: SECOND, clock_ns: BEGIN, ..Default::default() };
        let queue = tg_auto_queue::default();
        let mut decide = |stands| {
            let decision = shedder.decide_at(&connection(7), &syn, &queue, stands);
            (decision.verdict == TG_PASS, shedder.state.control.passed)
        };
        assert_eq!(decide(Stands::Nothing), (false, 0));
        assert_eq!(decide(Stands::Answered), (passed == 1, passed), "{refusal}");
    }
}

/// A p* of long ago is not held against who comes now.
#[test]
fn whoever_comes_after_a_silence_is_let_in() {
    let mut plant = Plant::new(automatic(TG_SLPD), 1000.0, 128);
    let crowd = Crowd { steps: vec![(0.0, 10.0)], lasts_s: 3.0, persistent: false, poisson: true };
    respond(&mut plant, &crowd);
    assert!(plant.p() > 0.8, "{}", plant.p());
    for who in 0..200 {
        let fate = plant.syn(60 * SECOND + u64::from(who) * 5_000_000, 1_000_000 + who, 0);
        assert!(fate == Fate::Entered, "number {who}");
    }
}

/// Two processors that judge SYNs at once, by one memory of their listener, as a map has it.
struct Beside {
    rules: tg_shed_rules,
    queue: tg_auto_queue,
    state: usize,
    arrived: AtomicU32,
}

impl Beside {
    /// Both begin each round together, for on a busy host they would seldom meet.
    const ROUNDS: u32 = 40;
    const EACH: u32 = 50_000;

    fn new(rules: tg_shed_rules, queue: tg_auto_queue, state: &mut tg_shed_state) -> Self {
        let state = (&raw mut *state).expose_provenance();
        Self { rules, queue, state, arrived: AtomicU32::new(0) }
    }

    fn meet(&self, round: u32) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        while self.arrived.load(Ordering::SeqCst) < 2 * round {
            std::thread::yield_now();
        }
    }

    /// The queue with half-open connections, as the last step saw it.
    fn mean(&self) -> f64 {
        let state: *mut tg_shed_state = std::ptr::with_exposed_provenance_mut(self.state);
        // SAFETY: the state outlives the threads, and only the thread that takes steps writes this word.
        unsafe { (&raw const (*state).control.waiting_x256).read_volatile() as f64 / 256.0 }
    }

    fn judges(&self, who: u32, random: u32, now_ns: u64) {
        let syn = tg_shed_syn { now_ns, random, ..Default::default() };
        let (tuple, table) = (&connection(who), std::ptr::null_mut());
        let (mut monitor, mut bucket) = (tg_shed_monitor::default(), tg_bucket::default());
        let state = std::ptr::with_exposed_provenance_mut(self.state);
        // SAFETY: the state outlives the threads, and is written as from several processors; all
        // else is read and written through these valid references alone.
        unsafe {
            tg_native_shed(
                &self.rules,
                &KEY,
                tuple,
                &syn,
                &self.queue,
                table,
                state,
                &mut monitor,
                &mut bucket,
                0,
                0,
                0,
            )
        };
    }
}

/// Each is counted of those whom two processors let through at once: else more are admitted than the rate.
/// Half are shed, and put no older count back.
#[test]
fn what_two_processors_let_through_at_once_is_all_counted() {
    let rules = tg_shed_rules::automatic(TG_RBD, TG_KEY_CONNECTION, 1000, 5);
    let mut state = tg_shed_state::default();
    state.control.p_x32 = parts_x32(0.5);
    let queue = tg_auto_queue { has_room: 1, ..Default::default() };
    let beside = Beside::new(rules, queue, &mut state);
    let processor = || {
        for round in 1..=Beside::ROUNDS {
            beside.meet(round);
            // At one moment, so that no step is taken.
            (0..2 * Beside::EACH).for_each(|who| {
                beside.judges(who, if who % 2 == 0 { 0 } else { u32::MAX }, SECOND)
            });
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(processor);
        scope.spawn(processor);
    });
    let all = u64::from(2 * Beside::ROUNDS * Beside::EACH);
    assert_eq!((state.control.passed, state.control.entered), (all, all));
}

/// Where all meet 1000 in the queue, and one takes a step at every thousandth SYN of its own: a sum that
/// the other put back whole, or without its number, would make the server seem to have stood still, or to
/// have taken thousands at once.
#[test]
fn the_mean_queue_is_what_several_processors_have_met() {
    let rules = automatic(TG_SLPD);
    let queue = tg_auto_queue { listen_len: 1000, waiting: 1000, ..Default::default() };
    let mut state = tg_shed_state::default();
    let beside = Beside::new(rules, queue, &mut state);
    let means = std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=Beside::ROUNDS {
                beside.meet(round);
                (0..Beside::EACH).for_each(|who| beside.judges(who, 0, SECOND));
            }
        });
        let steps = scope.spawn(|| {
            let (mut means, mut now_ns) = (Vec::new(), 2 * SECOND);
            for round in 1..=Beside::ROUNDS {
                beside.meet(round);
                for who in 0..Beside::EACH {
                    if who % 1000 == 999 {
                        now_ns += u64::from(TG_AUTO_STEP_NS);
                        beside.judges(who, 0, now_ns);
                        means.push(beside.mean());
                    } else {
                        beside.judges(who, 0, SECOND);
                    }
                }
            }
            means
        });
        steps.join().unwrap()
    });
    // Of a SYN of the other that is counted at that moment sum and number may be of different steps.
    let wrong: Vec<_> = means.iter().filter(|mean| !(995.0..1005.0).contains(*mean)).collect();
    assert!(wrong.is_empty(), "{} of {}, as {}", wrong.len(), means.len(), wrong[0]);
}

/// What the kernel answers with a cookie of its own becomes a connection too.
#[test]
fn the_control_sees_the_queues_and_whether_there_is_room() {
    let queues = tg_queues { listen_len: 3, listen_max: 128, syn_len: 4, ..Default::default() };
    let seen = tg_auto_queue { listen_len: 3, waiting: 7, limit: 129, has_room: 1 };
    let full = tg_auto_queue { has_room: 0, ..seen };
    for (reason, expected) in [
        (TG_ROOM, seen),
        (TG_KERNEL_COOKIE, seen),
        (TG_LISTENQ_FULL_AT_SYN, full),
        (TG_SYNQ_FULL, full),
        (TG_NO_RESERVATION, full),
    ] {
        let rules = tg_rules::default();
        assert_eq!(tg_auto_queue::of(&rules, &queues, reason), expected, "reason {reason}");
    }
}

/// A queue that is kept short is never half as long as the backlog. Linux has one place more than the backlog, so
/// that listen(fd, 0) has one, too: none would be no queue at all.
#[test]
fn the_control_sees_the_limit_at_which_syns_find_no_room() {
    let limit_of = |named: &str, places, listen_max| {
        let queues = tg_queues { listen_max, ..Default::default() };
        let rules = tg_rules { places, ..mechanism::parse(named).unwrap() };
        tg_auto_queue::of(&rules, &queues, TG_ROOM).limit
    };
    let limit = |named, places| limit_of(named, places, 128);
    assert_eq!(limit("abort", 0), 129);
    assert_eq!(limit("abort", 40), 40);
    assert_eq!(limit("abort", 400), 129);
    assert_eq!(limit("reserv", 0), 129);
    assert_eq!(limit("lazy", 0), 16);
    assert_eq!(limit("lazy", 8), 8);
    for named in ["abort", "reserv", "lazy"] {
        assert_eq!(limit_of(named, 0, 0), 1, "{named}");
    }
}

#[test]
fn the_root_is_the_root() {
    for attempts in [1, 2, 5, 11, 100] {
        for p in [0.0, 0.001, 0.1, 0.5, 0.9, 0.99] {
            // SAFETY: integers alone.
            let root = unsafe { tg_native_auto_root(parts_x32(p), attempts) } as f64 / ONE_X32;
            let expected = p.powf(1.0 / f64::from(attempts));
            assert!(root <= expected && expected - root < 3e-5, "{p}^(1/{attempts}): {root}");
        }
    }
}
