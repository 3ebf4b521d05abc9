// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's claims of section 3.4, and ours.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::{Ipv4Addr, Ipv6Addr};

use random::Random;
use siphasher::sip::SipHasher24;

use super::*;
use crate::agree_shed;

mod control;
mod random;

const KEY: tg_key = tg_key { k0: 0x0706050403020100, k1: 0x0f0e0d0c0b0a0908 };
const SECOND: u64 = 1_000_000_000;
const TURN: u64 = TG_SHED_TURN_NS;
/// The middle of a turn of the wall clock: no turn is near.
const CALM: u64 = 6_400_000 * TURN + TURN / 2;

fn connection(client: u32, port: u16) -> tg_tuple {
    let server = Ipv4Addr::new(10, 9, 0, 1);
    tg_tuple::between((Ipv4Addr::from(client), port).into(), (server, 443).into())
}

fn connection_v6(low: u32, port: u16) -> tg_tuple {
    let client = Ipv6Addr::from((0x2001_0db8 << 96) | u128::from(low));
    let server = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 1);
    tg_tuple::between((client, port).into(), (server, 443).into())
}

/// A SYN at a time of the wall clock; the monotonic clock began a million seconds after it.
fn at(clock_ns: u64, isn: u32) -> tg_shed_syn {
    let now_ns = clock_ns - 1_000_000 * SECOND;
    tg_shed_syn { now_ns, clock_ns, isn, ..Default::default() }
}

fn shedder(policy: u32, p: f64, arrivals_per_s: u32) -> Shedder {
    let rules = tg_shed_rules {
        blocks: blocks(arrivals_per_s, 1.2),
        ..tg_shed_rules::new(policy, TG_KEY_CONNECTION, p, 5)
    };
    Shedder::new(rules, KEY)
}

/// Of a flood: its source is forged, and never comes again.
fn syn_of_nobody(shedder: &mut Shedder, random: &mut Random, clock_ns: u64) -> tg_decision {
    let who = random.next();
    let tuple = connection((who >> 32) as u32, who as u16);
    shedder.decide(&tuple, &at(clock_ns, (who >> 16) as u32))
}

fn dropped(d: tg_decision) -> bool {
    d.verdict == TG_DROP
}

/// Pearson's statistic of these counts against equal ones, in standard deviations from its mean:
/// with many cells it is about normal.
fn chi_square_deviations(counts: &[u64]) -> f64 {
    let expected = counts.iter().sum::<u64>() as f64 / counts.len() as f64;
    assert!(expected > 20.0, "enough in each cell");
    let sum: f64 = counts.iter().map(|c| (*c as f64 - expected).powi(2) / expected).sum();
    let freedom = counts.len() as f64 - 1.0;
    (sum - freedom) / (2.0 * freedom).sqrt()
}

/// Section 3.4: "the distribution was almost uniform", for addresses at random and long runs of
/// consecutive ports. And for addresses next to each other, from one port.
#[test]
fn the_hash_spreads_consecutive_ports_and_clustered_addresses_evenly() {
    let ports = |f: fn(u32, u16) -> tg_tuple| (0..=65535).map(|p| f(7, p)).collect::<Vec<_>>();
    let addresses =
        |f: fn(u32, u16) -> tg_tuple| (0..65536).map(|a| f(0x0a00_0000 + a, 40_000)).collect();
    let subnets = (0..65536u32).map(|a| connection(a << 16 | 1, 40_000)).collect::<Vec<_>>();
    let sets: [(&str, u32, Vec<tg_tuple>); 7] = [
        ("ports, IPv4", TG_KEY_CONNECTION, ports(connection)),
        ("ports, IPv6", TG_KEY_CONNECTION, ports(connection_v6)),
        ("addresses, IPv4, H2", TG_KEY_CONNECTION, addresses(connection)),
        ("addresses, IPv4, H1", TG_KEY_CLIENT, addresses(connection)),
        ("addresses, IPv6, H1", TG_KEY_CLIENT, addresses(connection_v6)),
        ("one host of each /16, H1", TG_KEY_CLIENT, subnets.clone()),
        ("one host of each /16, H2", TG_KEY_CONNECTION, subnets),
    ];
    for (what, kind, tuples) in &sets {
        for question in [TG_ASK_TURN, TG_ASK_DRAW, TG_ASK_PLACE] {
            for tail in [0, 1, 6_400_000] {
                // The part that is compared with p*, and the place in a block.
                for (part, shift) in [("threshold", 56), ("place", 8)] {
                    let mut counts = [0; 256];
                    for tuple in tuples {
                        let hash = hash(&KEY, tuple, *kind, question, tail);
                        counts[(hash >> shift & 0xff) as usize] += 1;
                    }
                    let off = chi_square_deviations(&counts);
                    assert!(off.abs() < 4.5, "{what}, {question} {tail} {part}: {off:.1} σ");
                }
            }
        }
    }
}

/// Everybody sees the number of the SYN/ACK that refuses: it is SipHash-2-4, as another implementation
/// has it, of addresses, ports and the client's number.
#[test]
fn the_number_of_a_refusal_is_siphash_as_it_was_proposed() {
    for (tuple, isn) in [(connection(7, 40_000), 0x8765_4321u32), (connection_v6(7, 40_000), 5)] {
        let words = if tuple.is_ipv6 != 0 { 4 } else { 1 };
        let mut theirs = SipHasher24::new_with_keys(KEY.k0, KEY.k1);
        for word in tuple.saddr[..words].iter().chain(&tuple.daddr[..words]) {
            theirs.write(&word.to_ne_bytes());
        }
        theirs.write(&tuple.sport.to_ne_bytes());
        theirs.write(&tuple.dport.to_ne_bytes());
        theirs.write(&isn.to_ne_bytes());
        theirs.write(&[0; 4]);
        let syn = tg_shed_syn { isn, ..Default::default() };
        let ours = agree_shed(&tg_shed_case { key: KEY, tuple, syn, ..Default::default() });
        assert_eq!(ours.answer, theirs.finish() as u32);
    }
}

/// Whoever forges SYNs of another's addresses and ports has some of them drawn, and no other that comes
/// from there.
#[test]
fn a_connection_that_was_drawn_says_nothing_of_the_next_from_its_port() {
    const PORTS: u16 = 1000;
    let mut shed = shedder(TG_SBPD, 0.3, 100_000);
    let mut now = CALM;
    let mut forged = |port: u16, isn: u32| {
        now += SECOND / 2000;
        dropped(shed.decide(&connection(7, port), &at(now, isn)))
    };
    for port in 0..PORTS {
        assert!((0..40).any(|isn| forged(port, isn)), "{port}");
    }
    let refused = (0..PORTS).filter(|port| forged(*port, 1000 + u32::from(*port))).count();
    let share = refused as f64 / f64::from(PORTS);
    assert!((0.25..0.35).contains(&share), "{share}");
}

/// What a table cannot tell apart: who comes first to a cell that another's stamp has taken, drawn or
/// not, is dropped for a retransmission and makes no stamp. Of n connections one after the other,
/// p × n (n − 1) / 2 pairs share a cell of M in which the earlier one was dropped.
#[test]
fn who_meets_the_stamp_of_another_is_dropped_and_makes_none() {
    const CONNECTIONS: u16 = 400;
    const TABLES: u64 = 400;
    let (mut chance, mut met) = (Random(11), 0);
    for key in 0..TABLES {
        let key = tg_key { k0: key, k1: chance.next() };
        let mut shed = Shedder { key, ..shedder(TG_SBPD, 0.3, 1000) };
        let (mut new, mut again) = (0, 0);
        for port in 0..CONNECTIONS {
            let syn = at(CALM, chance.next() as u32);
            match shed.decide(&connection(1, 20_800 + port), &syn).reason {
                TG_SHED_NEW => new += 1,
                TG_SHED_AGAIN => again += 1,
                _ => {}
            }
        }
        assert_eq!(standing(&shed.table, at(CALM, 0).now_ns), new, "a stamp for each new drop");
        met += again;
    }
    let cells = f64::from(blocks(1000, 1.2) * TG_SHED_CELLS);
    let pairs = f64::from(CONNECTIONS) * f64::from(CONNECTIONS - 1) / 2.0;
    let expected = 0.3 * pairs / cells * TABLES as f64;
    assert!((f64::from(met) - expected).abs() < 5.0 * expected.sqrt(), "{met} of {expected}");
}

/// Turns are independent of each other: of those chosen in one, the next chooses as many as of all.
#[test]
fn a_turn_tells_nothing_of_the_next() {
    let below = |port: u16, turn| {
        hash(&KEY, &connection(7, port), TG_KEY_CONNECTION, TG_ASK_TURN, turn) >> 32 < 1 << 30
    };
    for turn in 0..20 {
        let first: Vec<u16> = (0..60_000).filter(|p| below(*p, turn)).collect();
        let both = first.iter().filter(|p| below(**p, turn + 1)).count() as f64;
        let expected = first.len() as f64 / 4.0;
        assert!((both - expected).abs() < 5.0 * (expected * 0.75).sqrt(), "{both}, {expected}");
    }
}

#[test]
fn slpd_drops_the_share_that_is_asked_for_and_each_connection_whole() {
    for p in [0.01, 0.1, 0.5, 0.9] {
        let mut slpd = shedder(TG_SLPD, p, 1000);
        let mut first = Vec::new();
        for port in 0..50_000 {
            first.push(dropped(slpd.decide(&connection(7, port), &at(CALM, 1))));
        }
        for after in [1, 3, 7, 15, 31, 63] {
            for (port, first) in first.iter().enumerate() {
                let syn = at(CALM + after * SECOND, 1);
                assert_eq!(dropped(slpd.decide(&connection(7, port as u16), &syn)), *first);
            }
        }
        let share = first.iter().filter(|d| **d).count() as f64 / 50_000.0;
        assert!((share - p).abs() < 5.0 * (p * (1.0 - p) / 50_000.0).sqrt(), "{share} for {p}");
        assert_eq!(slpd.state().changes, 0, "p = {p}: a good hash is not fallen back from");
    }
}

#[test]
fn h1_takes_a_client_whole_and_h2_each_of_its_connections() {
    for (kind, mixed_clients) in [(TG_KEY_CLIENT, 0), (TG_KEY_CONNECTION, 100)] {
        let rules = tg_shed_rules::new(TG_SLPD, kind, 0.5, 5);
        let mut slpd = Shedder::new(rules, KEY);
        let mut mixed = 0;
        for client in 0..100 {
            let fate: Vec<bool> = (0..20)
                .map(|port| dropped(slpd.decide(&connection(client, port), &at(CALM, 1))))
                .collect();
            mixed += i32::from(fate.iter().any(|d| *d != fate[0]));
        }
        assert_eq!(mixed, mixed_clients);
    }
}

/// The times of Linux's SYNs, and the rest of the window.
const ATTEMPTS_S: [u64; 11] = [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67];

/// Requests come for ten minutes, over two turns; whoever is dropped at first is dropped at every
/// attempt, whichever side of the turn it is on. And a new turn drops no more than it should.
#[test]
fn a_turn_lets_nothing_through_that_was_being_dropped() {
    let begin = (CALM >> TG_SHED_TURN_SHIFT << TG_SHED_TURN_SHIFT) + TURN - 150 * SECOND;
    let (mut slpd, p) = (shedder(TG_SLPD, 0.2, 200_000), 0.2);
    let came = |request: u32| begin + u64::from(request) * SECOND / 100;
    let mut events = BTreeMap::new();
    for request in 0..60_000u32 {
        for (attempt, after) in ATTEMPTS_S.into_iter().enumerate() {
            events.insert((came(request) + after * SECOND, request), attempt);
        }
    }
    let mut being_dropped = vec![false; 60_000];
    let (mut escaped, mut drops, mut across) = (0, 0, 0);
    for ((time, request), attempt) in events {
        // Whoever was let through is connected, and sends no more SYNs.
        if attempt > 0 && !being_dropped[request as usize] {
            continue;
        }
        let now =
            dropped(slpd.decide(&connection(request >> 4, request as u16), &at(time, request)));
        let turned = came(request) >> TG_SHED_TURN_SHIFT != time >> TG_SHED_TURN_SHIFT;
        across += u32::from(attempt > 0 && turned);
        escaped += u32::from(attempt > 0 && !now);
        drops += u32::from(attempt == 0 && now);
        being_dropped[request as usize] = now;
    }
    assert!(across > 4_000, "{across} retransmissions met another turn than the first SYN");
    // Two that share a cell of the table: the stamp of one goes before the other gives up.
    assert!(escaped <= 2, "{escaped} were let through at a later attempt");
    let share = f64::from(drops) / 60_000.0;
    assert!((share - p).abs() < 0.01, "{share} of the requests were dropped");
    assert_eq!(slpd.state().changes, 0);
}

/// Without the stamps of the turn before, four fifths would get through: the test above can fail.
#[test]
fn without_a_table_a_turn_would_let_them_through() {
    let turn = CALM >> TG_SHED_TURN_SHIFT << TG_SHED_TURN_SHIFT;
    for (blocks, share_let_through) in [(blocks(20_000, 1.2), 0.0), (0, 0.8)] {
        let rules = tg_shed_rules { blocks, ..shedder(TG_SLPD, 0.2, 1).rules };
        let mut slpd = Shedder::new(rules, KEY);
        let before: Vec<tg_tuple> = (0..20_000)
            .map(|client| connection(client, 40_000))
            .filter(|tuple| dropped(slpd.decide(tuple, &at(turn - SECOND, 1))))
            .collect();
        assert!((3800..4200).contains(&before.len()), "{}", before.len());
        let through = before
            .iter()
            .filter(|tuple| !dropped(slpd.decide(tuple, &at(turn + SECOND, 1))))
            .count();
        let share = through as f64 / before.len() as f64;
        assert!((share - share_let_through).abs() < 0.03, "{share} with {blocks} blocks");
    }
}

#[test]
fn sbpd_drops_the_share_that_is_asked_for_and_each_connection_whole() {
    for p in [0.05, 0.1, 0.5] {
        let mut sbpd = shedder(TG_SBPD, p, 100_000);
        let mut first = Vec::new();
        let tuple = |request: u32| connection(request >> 8, request as u16);
        for request in 0..50_000u32 {
            let d = sbpd.decide(&tuple(request), &at(CALM, request));
            first.push(dropped(d));
        }
        let share = first.iter().filter(|d| **d).count() as f64 / 50_000.0;
        assert!((share - p).abs() < 0.01, "{share} for {p}");
        for after in [1, 3, 7, 15, 31, 63] {
            for (request, first) in first.iter().enumerate().filter(|(_, first)| **first) {
                let syn = at(CALM + after * SECOND, request as u32);
                let d = sbpd.decide(&tuple(request as u32), &syn);
                assert_eq!((d.verdict, d.reason), (TG_DROP, TG_SHED_AGAIN), "{first}");
            }
        }
        assert_eq!(sbpd.state().fallback, TG_FALLBACK_NONE);
    }
}

/// At the rate that Eq. 9 sizes it for (σ = 1.2) the table itself adds to p*: a cell is taken
/// with probability (p/σ) / (1 + p/σ), and then a new request is dropped as a retransmission.
#[test]
fn a_table_at_its_design_rate_adds_what_the_arithmetic_says() {
    let (p, per_s, seconds) = (0.1, 2000u64, 400u64);
    let mut sbpd = shedder(TG_SBPD, p, per_s as u32);
    let mut drops = 0;
    for request in 0..per_s * seconds {
        let time = CALM + request * SECOND / per_s;
        let tuple = connection((request >> 14) as u32, request as u16);
        let now = dropped(sbpd.decide(&tuple, &at(time, request as u32)));
        drops += u64::from(now && request >= per_s * 200);
    }
    let load = p / 1.2;
    let expected = load / (1.0 + load) * (1.0 - p) + p;
    let share = drops as f64 / (per_s * 200) as f64;
    assert!((share - expected).abs() < 0.01, "{share} dropped, {expected:.3} expected");
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_NONE, "not twice p* yet");
}

/// Section 4.2: "SBPD has a built-in randomness in every packet": over time, every client has the
/// same chance. SLPD has it once K(t) has turned often enough.
#[test]
fn over_time_every_client_has_the_same_chance() {
    const REQUESTS: u64 = 1000;
    for (policy, apart) in [(TG_SBPD, 77 * SECOND), (TG_SLPD, TURN)] {
        let mut shedder = shedder(policy, 0.1, 1000);
        let mut drops = vec![0u64; 200];
        let mut random = Random(9);
        for request in 0..REQUESTS {
            for (client, drops) in drops.iter_mut().enumerate() {
                // The same client and port again, as a new connection.
                let syn = at(CALM + request * apart, random.next() as u32);
                let d = shedder.decide(&connection(client as u32, 40_000), &syn);
                *drops += u64::from(dropped(d));
            }
        }
        // Binomial: a share of 1 - p of Poisson's variance.
        let off = chi_square_deviations(&drops) + 0.1 * 199.0 / (2.0f64 * 199.0).sqrt();
        assert!(off.abs() < 4.5, "policy {policy}: {off:.1} σ, {drops:?}");
        let share = drops.iter().sum::<u64>() as f64 / (200 * REQUESTS) as f64;
        assert!((share - 0.1).abs() < 0.005, "policy {policy}: {share}");
    }
}

#[test]
fn hosts_that_share_a_key_decide_alike() {
    for policy in [TG_SLPD, TG_SBPD] {
        let (mut one, mut other) = (shedder(policy, 0.3, 1000), shedder(policy, 0.3, 1000));
        let rules = one.rules;
        let mut stranger = Shedder::new(rules, tg_key { k0: 1, k1: 2 });
        let mut differ = 0;
        for request in 0..5000u32 {
            let tuple = connection(request, 40_000);
            let first = one.decide(&tuple, &at(CALM, request * 7));
            // The retransmission takes another path; that host was started at another time.
            let syn = tg_shed_syn { now_ns: 5 * SECOND, ..at(CALM + SECOND, request * 7) };
            let second = other.decide(&tuple, &syn);
            assert_eq!(dropped(first), dropped(second), "policy {policy}, request {request}");
            differ += u32::from(dropped(stranger.decide(&tuple, &syn)) != dropped(first));
        }
        assert!((1800..2400).contains(&differ), "another key is another choice: {differ}");
    }
}

/// A flood from random sources fills the table: it is noticed, the hash decides alone, and when
/// the flood is over the table is used again.
#[test]
fn a_table_that_is_flooded_falls_back_to_the_hash_and_comes_back() {
    let mut sbpd = shedder(TG_SBPD, 0.1, 1000);
    let mut random = Random(3);
    // The design rate: calm.
    for i in 0..100_000u64 {
        syn_of_nobody(&mut sbpd, &mut random, CALM + i * SECOND / 1000);
    }
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_NONE);
    // Fifty times as many, for 20 s.
    let begin = CALM + 100 * SECOND;
    let (mut fell_at, mut drops_after) = (None, 0);
    for i in 0..1_000_000u64 {
        let time = begin + i * SECOND / 50_000;
        let d = syn_of_nobody(&mut sbpd, &mut random, time);
        if sbpd.state().fallback == TG_FALLBACK_STATELESS && fell_at.is_none() {
            fell_at = Some(i);
        }
        drops_after += u64::from(fell_at.is_some() && dropped(d));
    }
    let fell_at = fell_at.expect("it falls back");
    assert!(fell_at < 200_000, "after {fell_at} SYNs");
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_STATELESS, "as long as the flood lasts");
    let share = drops_after as f64 / (1_000_000 - fell_at) as f64;
    assert!((share - 0.1).abs() < 0.01, "the hash alone drops {share}");
    // The flood is over.
    for i in 0..150_000u64 {
        syn_of_nobody(&mut sbpd, &mut random, begin + 20 * SECOND + i * SECOND / 1000);
    }
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_NONE, "the table is used again");
    assert_eq!(sbpd.state().changes, 2);
}

/// A processor that saw 2,000 SYNs while the table was empty, and hardly any since, does not take
/// back what another had to do.
#[test]
fn what_was_measured_before_an_action_tells_nothing_of_it() {
    let mut sbpd = shedder(TG_SBPD, 0.2, 20);
    let mut random = Random(4);
    let mut syns = |sbpd: &mut Shedder, count: u64, begin: u64| {
        for i in 0..count {
            syn_of_nobody(sbpd, &mut random, begin + i * SECOND / 50_000);
        }
    };
    syns(&mut sbpd, 2000, CALM);
    let mut little = std::mem::take(&mut sbpd.monitor);
    syns(&mut sbpd, 100_000, CALM + SECOND);
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_STATELESS, "the other processor is flooded");
    std::mem::swap(&mut sbpd.monitor, &mut little);
    syns(&mut sbpd, 1000, CALM + 4 * SECOND);
    assert_eq!(sbpd.state().fallback, TG_FALLBACK_STATELESS);
    assert_eq!(sbpd.state().changes, 1);
}

/// With H1, a client that makes most of the requests and is not chosen leaves too little to drop.
/// Then every SYN is dropped with p*^(1/(n+1)), until the crowd is a crowd again.
#[test]
fn a_hash_that_misses_its_target_falls_back_to_uniform_dropping() {
    let rules = tg_shed_rules::new(TG_SLPD, TG_KEY_CLIENT, 0.1, 5);
    let mut slpd = Shedder::new(rules, KEY);
    let turn = (CALM >> TG_SHED_TURN_SHIFT) as u32;
    let chosen = |client: &u32| {
        let hash = hash(&KEY, &connection(*client, 1), TG_KEY_CLIENT, TG_ASK_TURN, turn);
        hash >> 32 < rules.p_x32
    };
    let proxy_client = (1..).find(|client| !chosen(client)).expect("most are not chosen");
    let mut random = Random(5);
    let mut run = |slpd: &mut Shedder, begin: u64, proxy: bool| {
        let (mut drops, mut uniform) = (0, 0);
        for i in 0..40_000u64 {
            let who = random.next();
            let client = if proxy && !who.is_multiple_of(10) { proxy_client } else { who as u32 };
            let syn = tg_shed_syn {
                random: (who >> 32) as u32,
                ..at(begin + i * SECOND / 1000, i as u32)
            };
            let d = slpd.decide(&connection(client, i as u16), &syn);
            drops += u64::from(dropped(d));
            uniform += u64::from(d.reason == TG_SHED_UNIFORM);
        }
        (drops, uniform)
    };
    run(&mut slpd, CALM, false);
    assert_eq!(slpd.state().fallback, TG_FALLBACK_NONE);
    run(&mut slpd, CALM + 40 * SECOND, true);
    assert_eq!(slpd.state().fallback, TG_FALLBACK_UNIFORM, "one client is nine tenths");
    let (drops, uniform) = run(&mut slpd, CALM + 80 * SECOND, true);
    assert_eq!(drops, uniform, "and nothing else drops");
    let share = drops as f64 / 40_000.0;
    assert!((share - 0.1f64.powf(0.2)).abs() < 0.02, "{share} of the SYNs");
    run(&mut slpd, CALM + 120 * SECOND, false);
    assert_eq!(slpd.state().fallback, TG_FALLBACK_NONE);
}

/// Whose SYNs a full server drops comes four times, and who is told once: of the SYNs the hash then chooses
/// too few, though of the connections as many as it should. It falls back and comes back, again and again.
#[test]
fn where_the_chosen_are_told_a_fallback_refuses_no_more_of_the_syns_than_was_asked() {
    const CONNECTIONS: u32 = 40_000;
    // The share of the SYNs that is refused, and of the connections.
    let refused = |attempts| {
        let rules = tg_shed_rules {
            refusal: TG_REFUSE_RESET,
            ..tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 0.1, attempts)
        };
        let (mut slpd, mut random, mut syns, mut resets) =
            (Shedder::new(rules, KEY), Random(19), 0u64, 0);
        for request in 0..CONNECTIONS {
            for _ in 0..4 {
                syns += 1;
                let syn = tg_shed_syn {
                    random: (random.next() >> 32) as u32,
                    ..at(CALM + syns * SECOND / 5000, request)
                };
                if slpd.decide(&connection(request, 40_000), &syn).verdict == TG_RESET {
                    resets += 1;
                    break;
                }
            }
        }
        assert!(slpd.state().changes > 10, "it is about fallbacks: {:?}", slpd.state());
        (f64::from(resets) / syns as f64, f64::from(resets) / f64::from(CONNECTIONS))
    };
    let (of_syns, of_connections) = refused(Refusal::Rst.attempts());
    assert!(of_syns < 0.1, "{of_syns}");
    // Half of the SYNs meet the hash, half the lot, which is drawn four times.
    assert!(of_connections < 0.3, "{of_connections}");
    // With the attempts of those who are not told.
    assert!(refused(Refusal::Silence.attempts()).1 > 0.6);
}

/// When a crowd has gone, the dropped still come: no reason to let them through.
#[test]
fn the_end_of_a_crowd_is_not_taken_for_a_miss() {
    let mut slpd = shedder(TG_SLPD, 0.1, 1000);
    let dropped: Vec<u32> = (0..200_000u32)
        .filter(|i| {
            let syn = at(CALM + u64::from(*i) * SECOND / 100_000, 1);
            dropped(slpd.decide(&connection(*i, 40_000), &syn))
        })
        .collect();
    for after in 3..20 {
        for client in &dropped {
            let syn = at(CALM + after * SECOND, 1);
            assert_eq!(slpd.decide(&connection(*client, 40_000), &syn).verdict, TG_DROP);
        }
    }
    assert_eq!(slpd.state().changes, 0);
}

#[test]
fn rbd_drops_each_syn_by_itself() {
    let mut rbd = shedder(TG_RBD, 0.56, 1);
    let mut random = Random(11);
    let mut drops = 0;
    for i in 0..100_000 {
        let random = (random.next() >> 32) as u32;
        let d = rbd.decide(&connection(7, 40_000), &tg_shed_syn { random, ..at(CALM + i, 1) });
        drops += u32::from((d.verdict, d.reason) == (TG_DROP, TG_SHED_UNIFORM));
    }
    assert!((f64::from(drops) / 100_000.0 - 0.56).abs() < 0.01, "{drops}");
}

/// Section 3.4, H1: preferred proxies are "excluded from dropping as long as the control target is
/// met": p* of all requests is then the others' alone.
#[test]
fn preferred_proxies_are_exempt_while_the_target_is_met() {
    for policy in [TG_SLPD, TG_SBPD] {
        for (share_of_proxies, exempt) in [(0.2, true), (0.8, false)] {
            let rules = tg_shed_rules {
                has_preferred: 1,
                blocks: blocks(10_000, 1.2),
                ..tg_shed_rules::new(policy, TG_KEY_CONNECTION, 0.2, 5)
            };
            let mut shedder = Shedder::new(rules, KEY);
            let mut random = Random(13);
            let mut drops = 0;
            for i in 0..40_000u32 {
                let preferred = (random.next() % 1000) < (share_of_proxies * 1000.0) as u64;
                let syn = tg_shed_syn {
                    preferred: preferred.into(),
                    ..at(CALM + u64::from(i) * SECOND / 2000, i)
                };
                let d = shedder.decide(&connection(i, 40_000), &syn);
                drops += u32::from(preferred && i > 20_000 && dropped(d));
            }
            assert_eq!(drops == 0, exempt, "policy {policy}: {share_of_proxies} are proxies'");
            assert_eq!(shedder.state().preferred_judged == 0, exempt);
            assert!(shedder.monitor().spared > 0);
        }
    }
}

/// Eight bits wrap after 275 s. Whatever the pauses, a stamp stands for 75 s and is gone after 77.
#[test]
fn no_stamp_comes_back_when_its_eight_bits_wrap() {
    let everyone =
        tg_shed_rules { blocks: 1, ..tg_shed_rules::new(TG_SBPD, TG_KEY_CONNECTION, 1.0, 5) };
    let mut random = Random(17);
    let cell = |tuple: &tg_tuple| {
        ((hash(&KEY, tuple, TG_KEY_CONNECTION, TG_ASK_PLACE, 1) & 0xffff) * 56) >> 16
    };
    let by_cell: BTreeMap<u64, tg_tuple> =
        (0..200).map(|port| connection(7, port)).map(|tuple| (cell(&tuple), tuple)).collect();
    let tuples: Vec<tg_tuple> = by_cell.into_values().take(8).collect();
    for run in 0..200 {
        let mut block = tg_shed_block::default();
        let mut first_drop: Vec<Option<u64>> = vec![None; 8];
        let mut clock = CALM + random.next() % (1 << 40);
        let longest = [2, 20, 70, 150, 300, 1000][run % 6] * SECOND;
        for _ in 0..300 {
            clock += random.next() % longest;
            let who = (random.next() % 8) as usize;
            let case = tg_shed_case {
                rules: everyone,
                key: KEY,
                tuple: tuples[who],
                syn: at(clock, 1),
                block,
                has_block: 1,
                ..Default::default()
            };
            let answers = agree_shed(&case);
            block = answers.block;
            let age = first_drop[who].map_or(u64::MAX, |first| clock - first);
            let again = answers.decision.reason == TG_SHED_AGAIN;
            if age <= 75 * SECOND {
                assert!(again, "forgotten after {} ms", age / 1_000_000);
            } else if age > 77 * SECOND {
                assert!(!again, "remembered after {} ms", age / 1_000_000);
            }
            if !again {
                first_drop[who] = Some(clock);
            }
        }
    }
}

/// A block behind a SYN that comes by in this tick and is let through.
fn passed_by(block: tg_shed_block, tick: u32) -> tg_shed_block {
    let case = tg_shed_case {
        rules: tg_shed_rules { blocks: 1, ..tg_shed_rules::new(TG_SBPD, 0, 0.5, 5) },
        syn: tg_shed_syn {
            now_ns: u64::from(tick) << TG_SHED_TICK_SHIFT,
            preferred: 1,
            ..Default::default()
        },
        block,
        has_block: 1,
        ..Default::default()
    };
    agree_shed(&case).block
}

/// Sweeping eight at once keeps exactly the stamps that stand one by one.
#[test]
fn every_stamp_of_every_age_is_swept_as_it_stands() {
    for tick in 1000..1256u32 {
        for begin in (0..=255u8).step_by(8) {
            let mut block =
                tg_shed_block { swept_tick: u64::from(tick - 64), ..Default::default() };
            for (at, stamp) in block.stamps.iter_mut().enumerate() {
                *stamp = begin.wrapping_add((at as u8).wrapping_mul(5));
            }
            let swept = passed_by(block, tick);
            for (was, is) in block.stamps.into_iter().zip(swept.stamps) {
                let age = (tick.wrapping_sub(u32::from(was)).wrapping_add(1)) & 0xff;
                let stands = was != 0 && age <= TG_SHED_WINDOW_TICKS + 1;
                assert_eq!(is, if stands { was } else { 0 }, "{was} at tick {tick}");
            }
        }
    }
}

/// Processors' coarse clocks differ by a tick, and so may the ticks that they sweep in.
#[test]
fn a_clock_that_is_behind_sweeps_nothing() {
    let tick = 1000u32;
    let block = tg_shed_block {
        swept_tick: u64::from(tick + 1),
        stamps: [tick as u8; TG_SHED_CELLS as usize],
    };
    assert_eq!(passed_by(block, tick), block);
    assert_eq!(standing(&[block], u64::from(tick) << TG_SHED_TICK_SHIFT), TG_SHED_CELLS.into());
}

#[test]
fn as_many_stamps_are_counted_as_a_sweep_would_leave() {
    for since in [64, 65, 134, 135, 136, 255, 256, 1000] {
        for tick in 2000..2256u32 {
            let mut block =
                tg_shed_block { swept_tick: u64::from(tick - since), ..Default::default() };
            for (at, stamp) in block.stamps.iter_mut().enumerate() {
                *stamp = (at as u8).wrapping_mul(5);
            }
            let left = passed_by(block, tick).stamps.into_iter().filter(|stamp| *stamp != 0);
            let counted = standing(&[block], u64::from(tick) << TG_SHED_TICK_SHIFT);
            assert_eq!(counted, left.count() as u64, "swept {since} ticks before tick {tick}");
        }
    }
}

#[test]
fn a_reset_is_the_other_form_of_refusal_and_has_its_limit() {
    let rules = tg_shed_rules {
        refusal: TG_REFUSE_RESET,
        ..tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5)
    };
    let mut slpd = Shedder::new(rules, KEY);
    let d = slpd.decide(&connection(7, 1), &at(CALM, 1));
    assert_eq!((d.verdict, d.reason), (TG_RESET, TG_SHED_STATELESS));
    slpd.refusal_cost_ns = 1_000_000_000;
    let d = slpd.decide(&connection(7, 1), &at(CALM, 1));
    assert_eq!((d.verdict, d.reason), (TG_DROP, TG_REFUSAL_LIMIT));
}

/// Eq. 9 with the paper's σ, and with 60 clients a second as in its figures.
#[test]
fn the_table_is_sized_by_equation_9() {
    let cells = |per_s| blocks(per_s, 1.2) * TG_SHED_CELLS;
    assert_eq!(cells(60), 5432, "60 × 75 × 1.2 = 5400, in whole lines");
    assert_eq!(blocks(10_000, 1.2), 16072);
    assert_eq!(blocks(0, 1.2), 1);
}

#[test]
fn the_last_fallback_fails_as_many_connections() {
    let rules = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 0.1, 4);
    let p = rules.uniform_x32 as f64 / ONE_X32;
    // Section 4.2: "uniformly drop with a probability of 0.56 achieves … 0.1".
    assert!((p - 0.5623).abs() < 1e-4, "{p}");
    assert!((p.powi(4) - 0.1).abs() < 1e-6);
}

#[test]
fn stamps_that_stand_are_counted() {
    let mut sbpd = shedder(TG_SBPD, 1.0, 1000);
    for request in 0..500 {
        sbpd.decide(&connection(request, 1), &at(CALM, request));
    }
    let now = at(CALM, 0).now_ns;
    let standing = |after: u64| super::standing(&sbpd.table, now + after * SECOND);
    assert!((490..=500).contains(&standing(0)), "{}", standing(0));
    assert_eq!(standing(0), standing(74));
    assert_eq!((standing(78), standing(275), standing(280)), (0, 0, 0));
}

/// The kernel has its own answer to who stands there; and TIME-WAIT would take the ACK of a hollow SYN/ACK.
#[test]
fn where_something_stands_the_form_is_another() {
    let each = |stands| {
        [TG_REFUSE_SILENTLY, TG_REFUSE_RESET, TG_REFUSE_COOKIE].map(|refusal| {
            let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
            let mut shedder = Shedder::new(tg_shed_rules { refusal, ..everyone }, KEY);
            let queue = tg_auto_queue::default();
            shedder.decide_at(&connection(1, 1), &at(CALM, 1), &queue, stands).verdict
        })
    };
    assert_eq!(each(Stands::Nothing), [TG_DROP, TG_RESET, TG_HOLLOW]);
    assert_eq!(each(Stands::TimeWait), [TG_DROP, TG_RESET, TG_RESET]);
    assert_eq!(each(Stands::Answered), [TG_DROP, TG_PASS, TG_PASS]);
}

#[test]
fn whom_police_or_exempt_names_is_not_shed() {
    let sheds = shedder(TG_SBPD, 1.0, 1000);
    assert!(sheds.concerns(TG_SOURCE_ANY));
    for source in [TG_SOURCE_OVER, TG_SOURCE_EXEMPT, TG_SOURCE_BEYOND, TG_SOURCE_WITHIN] {
        assert!(!sheds.concerns(source), "{source}");
    }
    assert!(!Shedder::new(tg_shed_rules::default(), KEY).concerns(TG_SOURCE_ANY));
}

/// On a path nobody comes next, by whom it would be counted.
#[test]
fn who_is_let_through_to_a_listener_is_not_counted_here() {
    let decision = |verdict| tg_decision { verdict, reason: TG_FORWARDED };
    for verdict in [TG_DROP, TG_RESET, TG_HOLLOW] {
        assert!(counts(decision(verdict), false) && counts(decision(verdict), true), "{verdict}");
    }
    assert!(!counts(decision(TG_PASS), false) && counts(decision(TG_PASS), true));
}
