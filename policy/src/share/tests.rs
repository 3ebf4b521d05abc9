// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server of known capacity, networks that send it SYNs, and what each then has of it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Barrier;
use std::thread;

use fastrand::Rng;

use super::*;
use crate::mechanism;
use crate::raw::{
    TG_LISTENQ_FULL_AT_SYN, TG_REFUSAL_LIMIT, TG_ROOM, TG_SHARE_STEP_SHIFT, TG_SOURCE_ANY,
    TG_SOURCE_BEYOND, TG_SOURCE_EXEMPT, TG_SOURCE_OVER, TG_SOURCE_WITHIN, TG_WAIT_LIMIT,
};
use crate::tests::judged;

const SECOND_NS: u64 = 1_000_000_000;
/// What the server takes a second.
const TAKEN_PER_S: u64 = 1000;
const BACKLOG: u64 = 128;
/// `auto`'s short queue, while many more come than the server takes.
const FEW_PLACES: u64 = 12;

/// How a server takes those who wait.
#[derive(Clone, Copy, Debug)]
enum Takes {
    OneByOne,
    /// All at once, so often a second; and no more than it can do.
    AllAtOnce {
        per_s: u64,
    },
    /// One by one, and hardly any.
    Trickle {
        per_s: u64,
    },
    Nothing,
}

/// What a network sent and what of it found room.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    sent: u64,
    let_in: u64,
}

impl Seen {
    fn success(self) -> f64 {
        self.let_in as f64 / self.sent as f64
    }
}

/// A listen queue, and the shares before it.
struct Server {
    shares: Shares,
    rules: tg_rules,
    key: tg_key,
    takes: Takes,
    waiting: u64,
    taken_ns: u64,
    now_ns: u64,
    /// Every other SYN's clock is so far behind.
    behind_ns: u64,
    rng: Rng,
}

impl Server {
    fn new(takes: Takes) -> Self {
        Self::with("rst-syn", takes)
    }

    fn with(mechanism: &str, takes: Takes) -> Self {
        let plain = mechanism::parse(mechanism).unwrap();
        let now_ns = 1000 * SECOND_NS;
        Server {
            shares: Shares::default(),
            rules: tg_rules { share_ipv4_bits: 24, share_ipv6_bits: 56, ..plain },
            key: tg_key { k0: 3, k1: 5 },
            takes,
            waiting: 0,
            taken_ns: now_ns,
            now_ns,
            behind_ns: 0,
            rng: Rng::with_seed(1998),
        }
    }

    fn take(&mut self) {
        let (per_s, at_once) = match self.takes {
            Takes::OneByOne => (TAKEN_PER_S, 1),
            Takes::AllAtOnce { per_s } => (per_s, TAKEN_PER_S / per_s),
            Takes::Trickle { per_s } => (per_s, 1),
            Takes::Nothing => {
                self.taken_ns = self.now_ns;
                return;
            }
        };
        let times = (self.now_ns - self.taken_ns) * per_s / SECOND_NS;
        self.waiting -= self.waiting.min(times * at_once);
        self.taken_ns += times * SECOND_NS / per_s;
    }

    /// A SYN of a client of that network.
    fn meets(&mut self, network: u16) -> bool {
        self.take();
        let [high, low] = network.to_be_bytes();
        let from = (Ipv4Addr::new(10, high, low, self.rng.u8(1..255)), self.rng.u16(1024..));
        let tuple = tg_tuple::between(from.into(), (Ipv4Addr::new(192, 0, 2, 1), 80).into());
        let random = self.rng.u32(..);
        let clock_ns = self.now_ns - u64::from(random & 1) * self.behind_ns;
        let source = self.shares.source(&self.rules, &self.key, &tuple, random, clock_ns);
        if source == TG_SOURCE_BEYOND {
            return false;
        }
        // As auto does (tg_syn_places()).
        let places = if source == TG_SOURCE_WITHIN { 4 * FEW_PLACES } else { FEW_PLACES };
        let reason = match self.waiting {
            waiting if waiting > BACKLOG => TG_LISTENQ_FULL_AT_SYN,
            waiting if self.rules.is_auto != 0 && waiting >= places => TG_WAIT_LIMIT,
            _ => TG_ROOM,
        };
        let has_room = reason == TG_ROOM;
        self.shares.end(&self.rules, source, judged(reason), clock_ns);
        self.waiting += u64::from(has_room);
        has_room
    }

    /// Networks that send so many SYNs a second each, as a Poisson process, for so long.
    fn meet(&mut self, per_s: &[f64], seconds: u64) -> Vec<Seen> {
        let all: f64 = per_s.iter().sum();
        let mut seen = vec![Seen::default(); per_s.len()];
        let end_ns = self.now_ns + seconds * SECOND_NS;
        while self.now_ns < end_ns {
            self.now_ns += (-self.rng.f64().max(1e-12).ln() / all * 1e9) as u64;
            let mut drawn = self.rng.f64() * all;
            let is_it = |rate: &f64| {
                drawn -= rate;
                drawn < 0.0
            };
            let network = per_s.iter().position(is_it).unwrap_or(0);
            seen[network].sent += 1;
            seen[network].let_in += u64::from(self.meets(network as u16));
        }
        seen
    }
}

#[test]
fn who_asks_for_less_than_its_share_has_it_and_the_others_share_the_rest() {
    assert_eq!(max_min(&[10.0, 10.0, 1000.0], 100.0), 80.0);
    assert_eq!(max_min(&[60.0, 20.0, 1000.0], 100.0), 40.0);
    assert_eq!(max_min(&[50.0, 50.0], 10.0), 5.0);
    assert_eq!(max_min(&[3.0, 4.0], 7.0), 4.0);
}

/// A short queue is empty now and then, unless more are let on than the server takes. Whoever finds no
/// room for that is of a network that sends more than its share.
#[test]
fn a_server_with_a_short_queue_is_busy_and_who_asks_for_less_than_its_share_is_let_in() {
    let seconds = 60;
    for each in [5.0, 20.0, 60.0] {
        let mut per_s = vec![each; 31];
        per_s.push(50.0 * each);
        let mut server = Server::with("auto", Takes::OneByOne);
        server.meet(&per_s, 10);
        let seen = server.meet(&per_s, seconds);
        let all: f64 = per_s.iter().sum();
        let let_in: u64 = seen.iter().map(|seen| seen.let_in).sum();
        let busy = let_in as f64 / (all.min(TAKEN_PER_S as f64) * seconds as f64);
        let others = &seen[..31];
        let least = others.iter().map(|seen| seen.success()).fold(1.0, f64::min);
        println!("{each} a second each: {busy:.3} of what it can do, of the others' {least:.3}");
        assert!(busy >= 0.97, "{each}: {busy}");
        assert!(each > 20.0 || least >= 0.99, "{each}: {seen:?}");
    }
}

/// A crowd that is hardly too large, at first and after one of five times the capacity: for what the one
/// network sends that is too much nobody else finds no room, though nobody would be limited if the limit
/// rose on while some are lost.
#[test]
fn in_a_small_crowd_who_asks_for_less_than_its_share_is_let_in_too() {
    let crowd = |each: f64, large: f64| {
        let mut per_s = vec![each; 31];
        per_s.push(large);
        per_s
    };
    for before in [None, Some(crowd(60.0, 3000.0))] {
        let mut server = Server::with("auto", Takes::OneByOne);
        before.as_ref().map(|per_s| server.meet(per_s, 20));
        server.meet(&crowd(14.0, 800.0), 15);
        let seen = server.meet(&crowd(14.0, 800.0), 60);
        let let_in: u64 = seen.iter().map(|seen| seen.let_in).sum();
        let least = seen[..31].iter().map(|seen| seen.success()).fold(1.0, f64::min);
        let busy = let_in as f64 / (TAKEN_PER_S * 60) as f64;
        println!("{busy:.3} of what it can do, of the others' {least:.3}");
        assert!(busy >= 0.97 && least >= 0.99, "{before:?}: {busy}, {seen:?}");
    }
}

/// One network at fifty times the rate of the others, whether there would be room for the others or
/// not: it has no more than its share, and the others have theirs, all alike; nothing is idle for it.
#[test]
fn one_prefix_at_fifty_times_the_rate_has_no_more_than_its_share() {
    for takes in [Takes::OneByOne, Takes::AllAtOnce { per_s: 10 }] {
        for each in [5.0, 20.0, 60.0] {
            let mut per_s = vec![each; 31];
            per_s.push(50.0 * each);
            let mut server = Server::new(takes);
            server.meet(&per_s, 4);
            let seconds = 60;
            let seen = server.meet(&per_s, seconds);
            let share = max_min(&per_s, TAKEN_PER_S as f64);
            let label = format!("{takes:?}, {each} a second each, share {share}");

            let (large, others) = seen.split_last().unwrap();
            let had = large.let_in as f64 / seconds as f64;
            assert!(had <= 1.05 * share, "{label}: it had {had} a second");
            let sent: u64 = others.iter().map(|seen| seen.sent).sum();
            let let_in: u64 = others.iter().map(|seen| seen.let_in).sum();
            let success = let_in as f64 / sent as f64;
            let expected = (share / each).min(1.0);
            assert!(success >= 0.95 * expected, "{label}: the others' success is {success}");
            for other in others {
                // What chance leaves: five standard deviations of a draw.
                let chance = 5.0 * (success * (1.0 - success) / other.sent as f64).sqrt();
                let apart = (other.success() - success).abs();
                assert!(apart <= 0.05 * success + chance, "{label}: {other:?} of {success}");
            }
            let all = (let_in + large.let_in) as f64 / seconds as f64;
            let asked: f64 = per_s.iter().sum();
            assert!(all >= 0.95 * asked.min(TAKEN_PER_S as f64), "{label}: {all} let in a second");
        }
    }
}

/// Those that met a limit of auto's, which keep the server busy, when no refusals are left either.
#[test]
fn what_a_syn_lacked_is_counted_whatever_it_was_dropped_for() {
    let mut server = Server::with("auto", Takes::OneByOne);
    let Server { shares, rules, now_ns, .. } = &mut server;
    let limited = tg_judged { reason: TG_WAIT_LIMIT, ..judged(TG_REFUSAL_LIMIT) };
    shares.end(rules, TG_SOURCE_ANY, limited, *now_ns);
    assert_eq!((shares.share().lost, shares.share().spilt), (1, 1));
    let before = *shares.share();
    for source in [TG_SOURCE_OVER, TG_SOURCE_EXEMPT, TG_SOURCE_BEYOND] {
        shares.end(rules, source, judged(TG_LISTENQ_FULL_AT_SYN), *now_ns);
        assert_eq!(shares.share(), &before, "{source} has no part in a share");
    }
}

/// Where there is room for all, nobody is counted, and nobody's SYN is held.
#[test]
fn where_there_is_room_for_all_nobody_is_held_to_a_share() {
    let mut server = Server::new(Takes::OneByOne);
    let seen = server.meet(&[800.0, 1.0], 20);
    assert!(seen.iter().all(|seen| seen.let_in == seen.sent), "{seen:?}");
    assert_eq!(server.shares.share(), &tg_share::default());
}

/// The crowd has gone: two seconds later nobody has a limit, and the next crowd begins anew.
#[test]
fn when_the_crowd_has_gone_nobody_has_a_limit() {
    let mut server = Server::new(Takes::OneByOne);
    server.meet(&[5000.0, 100.0], 10);
    assert!(server.shares.share().limit_per_s(server.now_ns).is_some());
    server.meet(&[700.0, 100.0], 5);
    assert_eq!(server.shares.share().limit_per_s(server.now_ns), None);
    let seen = server.meet(&[700.0, 100.0], 10);
    assert!(seen.iter().all(|seen| seen.let_in == seen.sent), "{seen:?}");
}

/// A server that has stood still takes as much as it can again within a few seconds.
#[test]
fn a_server_that_stood_still_is_soon_busy_again() {
    let per_s = [2500.0, 50.0, 50.0, 50.0];
    let mut server = Server::new(Takes::OneByOne);
    server.meet(&per_s, 5);
    server.takes = Takes::AllAtOnce { per_s: 1 };
    server.taken_ns += 10 * SECOND_NS;
    let end_ns = server.now_ns + 10 * SECOND_NS;
    while server.now_ns < end_ns {
        server.now_ns += SECOND_NS / 2650;
        let network = u16::from(server.rng.u8(..50) == 0);
        let random = server.rng.u32(..);
        let from = (Ipv4Addr::new(10, 0, network as u8, 1), 4000);
        let tuple = tg_tuple::between(from.into(), (Ipv4Addr::new(192, 0, 2, 1), 80).into());
        let Server { shares, rules, key, now_ns, .. } = &mut server;
        if shares.source(rules, key, &tuple, random, *now_ns) != TG_SOURCE_BEYOND {
            shares.end(rules, TG_SOURCE_ANY, judged(TG_LISTENQ_FULL_AT_SYN), *now_ns);
        }
    }
    server.takes = Takes::OneByOne;
    server.taken_ns = server.now_ns;
    server.waiting = BACKLOG;
    server.meet(&per_s, 5);
    let let_in: u64 = server.meet(&per_s, 10).iter().map(|seen| seen.let_in).sum();
    assert!(let_in >= 9500, "{let_in} let in within ten seconds");
}

/// A server pauses, wherever within a step that begins and ends, or accepts one now and then meanwhile: what
/// is lost in it was not lost to a limit that is too high. Of the 5,000 that the server can take in the
/// five seconds after it, without a memory of the limit before it, in half of the cases fewer than 1,200 were
/// let in, and in a few 17.
#[test]
fn after_a_pause_that_cuts_the_limit_the_server_is_soon_busy_again() {
    let mut per_s = vec![20.0; 30];
    per_s.push(1000.0);
    for mechanism in ["rst-syn", "auto"] {
        for paused in [Takes::Nothing, Takes::Trickle { per_s: 2 }] {
            for before in 10..15 {
                let mut server = Server::with(mechanism, Takes::OneByOne);
                server.meet(&per_s, before);
                server.takes = paused;
                server.meet(&per_s, 2);
                server.takes = Takes::OneByOne;
                server.taken_ns = server.now_ns;
                let let_in: u64 = server.meet(&per_s, 5).iter().map(|seen| seen.let_in).sum();
                assert!(let_in >= 3600, "{mechanism}, {paused:?} after {before} s: {let_in}");
            }
        }
    }
}

/// Where ten times as many come as before, the limit is no longer what it was: it falls to what is right
/// now, and does not go back.
#[test]
fn a_limit_that_was_good_for_fewer_is_not_gone_back_to() {
    for takes in [Takes::OneByOne, Takes::AllAtOnce { per_s: 10 }] {
        let mut server = Server::new(takes);
        server.meet(&[1000.0; 5], 10);
        let many = [200.0; 50];
        server.meet(&many, 5);
        let right_per_s = TAKEN_PER_S as f64 / 50.0;
        let limits = (0..30).map(|_| {
            server.meet(&many, 1);
            server.shares.share().limit_per_s(server.now_ns).unwrap()
        });
        let limits: Vec<f64> = limits.collect();
        let within = right_per_s / 1.5..right_per_s * 1.5;
        assert!(limits.iter().all(|limit| within.contains(limit)), "{takes:?}: {limits:?}");
    }
}

/// Networks are of as many bits as the rules say, each family its own, and each listening socket's.
#[test]
fn networks_are_told_apart_by_the_bits_that_count() {
    let rules = Server::new(Takes::OneByOne).rules;
    let key = tg_key { k0: 7, k1: 11 };
    let server_v4 = (Ipv4Addr::new(192, 0, 2, 1), 80);
    let v4 = |a: [u8; 4], owner| {
        let tuple = tg_tuple::between((Ipv4Addr::from(a), 999).into(), server_v4.into());
        cells(&key, &tuple, &rules, owner)
    };
    let v6 = |third: u16, fourth: u16| {
        let from = Ipv6Addr::new(0x2001, 0xdb8, third, fourth, 1, 2, 3, 4);
        let to = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
        cells(&key, &tg_tuple::between((from, 999).into(), (to, 80).into()), &rules, 0)
    };
    assert_eq!(v4([10, 1, 2, 3], 0), v4([10, 1, 2, 250], 0));
    assert_ne!(v4([10, 1, 2, 3], 0), v4([10, 1, 3, 3], 0));
    assert_ne!(v4([10, 1, 2, 3], 0), v4([10, 1, 2, 3], 1));
    assert_eq!(v6(1, 0x1200), v6(1, 0x12ff));
    assert_ne!(v6(1, 0x1200), v6(1, 0x1300));
    assert_ne!(v6(1, 0x1200), v6(2, 0x1200));
    let [one, other] = v4([10, 1, 2, 3], 0);
    assert!(one < TG_SHARE_CELLS && (TG_SHARE_CELLS..CELLS as u32).contains(&other));
}

/// The rest of a step in which the first SYN found no room tells nothing of shares, nor does a step in
/// which the one network that sends much has paused: a limit that was cut too low takes many steps to
/// rise again.
#[test]
fn a_step_in_which_hardly_anybody_came_does_not_cut_the_limit_to_nothing() {
    const STEP_NS: u64 = 1 << 29;
    let mut server = Server::new(Takes::OneByOne);
    let meets = |server: &mut Server, network, has_room| {
        let from = (Ipv4Addr::new(10, 0, network, 1), 4000);
        let tuple = tg_tuple::between(from.into(), (Ipv4Addr::new(192, 0, 2, 1), 80).into());
        let Server { shares, rules, key, now_ns, .. } = server;
        assert_ne!(shares.source(rules, key, &tuple, u32::MAX / 2, *now_ns), TG_SOURCE_BEYOND);
        let reason = if has_room { TG_ROOM } else { TG_LISTENQ_FULL_AT_SYN };
        shares.end(rules, TG_SOURCE_ANY, judged(reason), *now_ns);
    };
    server.now_ns = (server.now_ns / STEP_NS + 1) * STEP_NS - 2_000_000;
    meets(&mut server, 1, false);
    server.now_ns += 1_000_000;
    meets(&mut server, 1, true);
    for _ in 0..20 {
        server.now_ns += STEP_NS / 10;
        meets(&mut server, 1, true);
    }

    let mut server = Server::new(Takes::OneByOne);
    server.meet(&[5000.0, 20.0], 10);
    let limit = |server: &Server| server.shares.share().limit_x256;
    server.now_ns = (server.now_ns / STEP_NS + 1) * STEP_NS;
    meets(&mut server, 2, true);
    let before = limit(&server);
    for part in 0..10 {
        server.now_ns += STEP_NS / 10 + 1;
        meets(&mut server, 2, part != 5);
    }
    assert!(limit(&server) < before, "the step is over");
    assert!(limit(&server) >= before / 2, "{} of {before}", limit(&server));
}

/// Of SYNs that were under way on other processors when shares came on, no network was counted: what they lost
/// tells nothing of a limit.
#[test]
fn a_step_of_which_no_network_was_counted_sets_no_limit() {
    let mut server = Server::new(Takes::OneByOne);
    let Server { shares, rules, key, now_ns, .. } = &mut server;
    for reason in [TG_LISTENQ_FULL_AT_SYN, TG_ROOM, TG_ROOM] {
        shares.end(rules, TG_SOURCE_ANY, judged(reason), *now_ns);
    }
    let from = (Ipv4Addr::new(10, 0, 0, 1), 4000);
    let tuple = tg_tuple::between(from.into(), (Ipv4Addr::new(192, 0, 2, 1), 80).into());
    let later_ns = *now_ns + SECOND_NS * 3 / 2;
    assert_eq!(shares.source(rules, key, &tuple, u32::MAX, later_ns), TG_SOURCE_ANY);
    assert_eq!(shares.share().let_on, 0, "the step is over");
    assert_eq!(shares.share().limit_x256, 0);
}

/// Processors' coarse clocks differ by a tick. Who sends the most would begin every window with a count of
/// nothing.
#[test]
fn a_clock_that_is_a_tick_behind_begins_no_window_anew() {
    let large = |behind_ns| {
        let mut server = Server { behind_ns, ..Server::new(Takes::OneByOne) };
        let mut per_s = vec![60.0; 30];
        per_s.push(5000.0);
        server.meet(&per_s, 10);
        server.meet(&per_s, 30)[30].let_in
    };
    let (exact, coarse) = (large(0), large(4_000_000));
    assert!(coarse < exact + exact / 5, "{coarse} of {exact}");
}

/// Else who sends the most, and so to several processors at once, would seem to send less.
#[test]
fn what_a_network_sends_to_two_processors_at_once_is_all_counted() {
    const EACH: u32 = 50_000;
    let Server { mut shares, rules, key, now_ns, .. } = Server::new(Takes::Nothing);
    let from = (Ipv4Addr::new(10, 0, 0, 1), 1024);
    let tuple = tg_tuple::between(from.into(), (Ipv4Addr::new(192, 0, 2, 1), 80).into());
    // In the midst of an overload; and no step is taken.
    (shares.share.short_ns, shares.share.step) = (now_ns, (now_ns >> TG_SHARE_STEP_SHIFT) as u32);
    let own = cells(&key, &tuple, &rules, 0).map(|index| index as usize);
    let share = (&raw mut shares.share).expose_provenance();
    let counted = shares.cells.as_mut_ptr().expose_provenance();
    // On a busy host they would else seldom meet.
    let both = Barrier::new(2);
    let processor = || {
        let share = std::ptr::with_exposed_provenance_mut(share);
        let counted = std::ptr::with_exposed_provenance_mut(counted);
        for _ in 0..20 {
            both.wait();
            for _ in 0..EACH {
                // SAFETY: they outlive the threads, and are written as from several processors; all else
                // is only read.
                unsafe {
                    raw::tg_native_share_ask(share, counted, &key, &tuple, &rules, 0, now_ns)
                };
            }
        }
    };
    // It begins the window.
    shares.source(&rules, &key, &tuple, 0, now_ns);
    thread::scope(|scope| {
        scope.spawn(processor);
        scope.spawn(processor);
    });
    assert_eq!(own.map(|index| shares.cells[index].count), [1 + 2 * 20 * EACH; 2]);
}
