// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What silence is worth: how many may wait, and for how long.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::{mem, thread};

/// Of thirty seconds' worth of clients in a second those wait who can be served before they give up, as
/// soon as it is known what the server takes: the others are told.
#[test]
fn in_a_burst_no_more_wait_than_are_served_in_time() {
    let mut story = Story::new();
    story.runs(1000, 30 * CAPACITY);
    assert_eq!(story.seen.told, 0);
    story.runs(30_000, 0);
    let burst = story.runs(1000, 30 * CAPACITY);
    let waiting = story.clients.len() as u64;
    assert!((CAPACITY * 9..CAPACITY * 21 / 2).contains(&waiting), "{waiting}");
    assert!(burst.told > 18 * CAPACITY, "{burst:?}");
    let after = story.runs(10_000, 0);
    assert!(after.served > waiting * 9 / 10, "{after:?}");
}

/// The longer it has lasted, the fewer are left in silence: T / (s + T).
#[test]
fn the_hope_of_those_who_wait_shrinks_as_it_lasts() {
    let mut story = Story::new();
    story.runs(12_000, 5 * CAPACITY);
    let early = story.watch.overload().may_wait;
    story.runs(7000, 5 * CAPACITY);
    let late = story.watch.overload().may_wait;
    // 20 (10 / 22 - 0.06) and 20 (10 / 29 - 0.06), in thousands: 3 us a SYN of 1 ms a client.
    assert!((7_500..8_500).contains(&early), "{early}");
    assert!((5_400..6_200).contains(&late), "{late}");
    let waiting = story.clients.len() as u64;
    assert!(waiting <= 2 * late + CAPACITY, "{waiting} wait, of {late}");
    // After twice their patience nobody is left in silence.
    story.runs(12_000, 5 * CAPACITY);
    let seen = story.runs(1000, 5 * CAPACITY);
    assert_eq!((seen.gave_up, story.clients.len()), (0, 0), "{seen:?}");
}

/// "The value of t can be determined analytically [...] or empirically" (Shukla, thesis, 5.2): after
/// overloads of 25 s nobody waits in the first ten seconds of the next, and many do in the last.
#[test]
fn who_waits_is_learnt_from_the_overloads_before() {
    let mut story = Story::new();
    let first = story.runs(25_000, 3 * CAPACITY);
    story.runs(10_000, 0);
    story.bursts(2, 25_000, 3 * CAPACITY, 10_000);
    story.runs(12_000, 3 * CAPACITY);
    assert_eq!(story.watch.overload().may_wait, 0);
    story.runs(13_000, 3 * CAPACITY);
    let waiting = story.clients.len() as u64;
    assert!(waiting >= 5 * CAPACITY, "{waiting}");
    let after = story.runs(10_000, 0);
    assert!(after.served >= 5 * CAPACITY, "{after:?}");
    // The first time nobody was left when it ended after more than twice their patience.
    assert!(first.gave_up > 0);
    // A crowd that stays for longer than any before is told, as it was then.
    story.runs(60_000, 3 * CAPACITY);
    let seen = story.runs(5000, 3 * CAPACITY);
    assert_eq!((seen.gave_up, story.clients.len()), (0, 0), "{seen:?}");
}

/// Where one crowd follows another nobody gains by waiting who will not be served before the next.
#[test]
fn no_more_wait_than_are_served_before_the_next_crowd() {
    let may_wait = |burst_ms, calm_ms| {
        let mut story = Story::new();
        story.bursts(6, burst_ms, 3 * CAPACITY, calm_ms);
        story.runs(burst_ms.min(3000), 3 * CAPACITY);
        (story.watch.overload().may_wait, story)
    };
    let ((few, mut story), (many, _)) = (may_wait(10_000, 4000), may_wait(10_000, 30_000));
    assert!((CAPACITY * 4..CAPACITY * 21 / 4).contains(&few), "{few}");
    assert!(many > 15 * CAPACITY, "{many}");
    // Those who wait behind a short one come seconds apart: more of them keep the server busy.
    assert!(may_wait(1000, 4000).0 > 15 * CAPACITY);
    // Once the calm was long it is none that binds.
    story.runs(30_000, 0);
    story.runs(3000, 3 * CAPACITY);
    assert!(story.watch.overload().may_wait > 15 * CAPACITY);
}

/// Without patience everyone is told, as with `abort rst-syn`, once it is no burst.
#[test]
fn clients_without_patience_are_told_at_once() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    story.runs(5000, 2 * CAPACITY);
    let seen = story.runs(5000, 2 * CAPACITY);
    assert_eq!(seen.waited, 0);
    assert!(seen.told >= seen.came - seen.served - 10, "{seen:?}");
}

/// A watch whose window is over, with one more SYN: an overload that has lasted for so long, before a
/// server that takes so many a second, where overloads of the last so many seconds are known.
fn watched(lasted_ms: u64, drain_per_s: u64, known_ms: &[u32], more: tg_overload) -> Watch {
    watched_where(SYN_NS, lasted_ms, drain_per_s, known_ms, more)
}

fn watched_where(
    syn_ns: u64,
    lasted_ms: u64,
    drain_per_s: u64,
    known_ms: &[u32],
    more: tg_overload,
) -> Watch {
    let mut story = Story::new();
    story.rules.syn_ns = syn_ns;
    story.members = more.members;
    let mut lasted = [0; TG_OVERLOAD_KNOWN as usize];
    lasted[..known_ms.len()].copy_from_slice(known_ms);
    let now_ns = story.now_ns;
    story.watch.overload = tg_overload {
        window_ns: now_ns - u64::from(TG_OVERLOAD_WINDOW_NS),
        since_ns: now_ns - lasted_ms * MS,
        excess_ns: now_ns,
        drain_x256: drain_per_s << 8,
        lasted_ms: lasted,
        ..more
    };
    story.comes();
    story.watch
}

/// The SYNs of ten seconds are dearer than a client where the server takes 20,000 a second, those of
/// five are not: it may pay to wait for them, if the overload is likely to end by then.
#[test]
fn where_silence_is_dear_it_may_pay_for_a_part_of_their_patience() {
    let worth = |lasted_ms, known_ms: &[u32]| {
        watched(lasted_ms, 20_000, known_ms, tg_overload::default()).overload.worth
    };
    // 200,000 (5 / (1 + 5) - 0.6); of 2.5 s it is 41,000.
    let unknown = worth(1000, &[]);
    assert!((46_000..47_500).contains(&unknown), "{unknown}");
    // As likely as can be: 200,000 (1 - 0.6), nearly.
    let bursts = worth(1000, &[2000; 8]);
    assert!((74_000..80_000).contains(&bursts), "{bursts}");
    assert_eq!(worth(10_000, &[]), 0, "one in three at best");
    assert_eq!(worth(1000, &[60_000; 8]), 0, "it was never over so soon");
}

/// A SYN that finds the window over.
fn closes_a_window(overload: *mut tg_overload, rules: &tg_rules, now_ns: u64) {
    // SAFETY: the caller's overload is there.
    unsafe { (*overload).window_ns = now_ns - u64::from(TG_OVERLOAD_WINDOW_NS) };
    finds_room(overload, rules, now_ns);
}

/// Of ten seconds it is worth nothing there, and of five it is. While one processor finds that out another
/// may close the window, and goes by what it reads.
#[test]
fn what_silence_is_worth_is_never_none_meanwhile() {
    let story = Story::new();
    let first = watched(1000, 20_000, &[], tg_overload::default()).overload;
    // As a map has it: it is nobody's own.
    let overload = Box::into_raw(Box::new(first));
    // SAFETY: it stands until the end of the test, and a word is written and read as a whole.
    let worth = unsafe { AtomicU64::from_ptr(&raw mut (*overload).worth) };
    let (windows, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let least = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut least, mut seen, mut changes) = (first.worth, 0, 0);
            // Until it has been there beside so many.
            while changes < 100 {
                least = least.min(worth.load(Relaxed));
                let before = mem::replace(&mut seen, windows.load(Relaxed));
                changes += u32::from(seen != before);
            }
            is_over.store(true, Relaxed);
            least
        });
        while !is_over.load(Relaxed) {
            closes_a_window(overload, &story.rules, story.now_ns);
            windows.fetch_add(1, Relaxed);
        }
        reader.join().unwrap()
    });
    // SAFETY: it came from a box, and nobody reads it any more.
    drop(unsafe { Box::from_raw(overload) });
    assert!(least > 40_000, "{least} of {}", first.worth);
}

/// Each socket of a SO_REUSEPORT group of 64 has a 64th of the host, of which a SYN takes 64 times as much as
/// of the whole: so together as many wait as before one socket that takes what they all take.
#[test]
fn before_the_members_of_a_group_as_many_wait_as_before_one_socket_that_takes_as_much() {
    let may_wait = |members, of_all| {
        // At the end of its first four seconds 32,000 have come in a window.
        let more = tg_overload { members, ended: 8, seen: 32_000 / of_all, ..Default::default() };
        let watch = watched(4000, 19_200 / of_all, &[5000; 8], more);
        [watch.overload.worth, watch.overload.in_time].map(|clients| of_all * clients)
    };
    let (one, group) = (may_wait(0, 1), may_wait(64, 64));
    for (one, group) in one.into_iter().zip(group) {
        assert!(one.abs_diff(group) * 200 < one, "{group} before 64, {one} before one");
    }
    assert_eq!(may_wait(1, 1), one, "the only one of its group has the host to itself");
}

/// As many as it has when a window ends count for the next.
#[test]
fn a_socket_has_as_many_beside_it_as_its_group_has_now() {
    let mut story = Story::new();
    for members in [0, 8, 3] {
        story.members = members;
        story.runs(300, 0);
        story.comes();
        assert_eq!(story.watch.overload().members, members);
    }
}

/// Of the clients of bursts of two seconds, before a server that takes 20,000 a second: 2 (h - 2 c T)
/// of 200,000 where a SYN costs 0.3 µs, and of the 25,000 of an eighth of T where it costs 9.
#[test]
fn what_silence_is_worth_goes_by_what_a_syn_costs() {
    let worth = |syn_ns| {
        let bursts = [2000; 8];
        watched_where(syn_ns, 1000, 20_000, &bursts, tg_overload::default()).overload.worth
    };
    let (cheap, dear) = (worth(300), worth(9000));
    assert!((340_000..352_000).contains(&cheap), "{cheap}");
    assert!((25_000..27_500).contains(&dear), "{dear}");
    assert!(worth(0) >= worth(1), "what costs nothing is worth as much as what costs next to it");
}

/// Where so many come that they are taken in two at a time each costs half: of bursts of five seconds
/// 400,000 (0.97 - 0.6) may wait in place of 200,000 (0.95 - 0.6), which those of half of T are. Not
/// before who waits has come again: until then so many come as will not.
#[test]
fn of_many_syns_each_costs_less() {
    let worth = |lasted_ms, seen| {
        let more = tg_overload { seen, ..Default::default() };
        watched(lasted_ms, 20_000, &[5000; 8], more).overload.worth
    };
    let by_two = u64::from(TG_OVERLOAD_WINDOW_NS) / SYN_NS;
    let (alone, among) = (worth(4000, 0), worth(4000, by_two));
    assert!((69_000..71_000).contains(&alone), "{alone}");
    assert!((146_000..149_000).contains(&among), "{among}");
    assert!(worth(3900, by_two) < among / 2);
}

/// An overload that would be small, of 30,000 new clients a second where 21,000 are taken.
fn small(lasted_ms: u64, waiting: u64) -> Watch {
    small_before(1, lasted_ms, waiting)
}

/// As one of so many sockets of a group meets it.
fn small_before(members: u16, lasted_ms: u64, waiting: u64) -> Watch {
    let part = |all| all / u64::from(members);
    let more = tg_overload {
        members,
        fresh_x256: part(30_000) << 8,
        peak_x256: part(30_000) << 8,
        silent_x256: part(waiting) << 8,
        seen: part(16_000),
        fresh: part(8000),
        dropped: part(10_000),
        fresh_dropped: part(5000),
        entered: part(6000),
        silent: part(waiting) * u64::from(TG_OVERLOAD_WINDOW_NS) / S,
        ..Default::default()
    };
    watched(lasted_ms, part(21_000), &[10_000; 8], more)
}

fn phase_of(watch: &Watch) -> &'static str {
    crate::names::PHASES[watch.overload.phase(1000 * S) as usize]
}

/// An eighth of the processor's time, at 3 us a SYN, is 41,666 of them a second, whichever socket of a group
/// each comes to.
#[test]
fn an_overload_is_small_no_more_where_those_who_wait_cost_an_eighth() {
    for members in [1, 8] {
        let phase = |waiting| phase_of(&small_before(members, 4000, waiting));
        assert_eq!((phase(35_000), phase(50_000)), ("burst", "persistent"), "{members} sockets");
    }
}

/// A little more than the server takes, for twice as long as clients wait: once it is known to end,
/// everybody is served, for they are served in turn.
#[test]
fn of_a_small_overload_that_is_known_to_end_nobody_is_lost() {
    let mut story = Story::new();
    story.bursts(3, 20_000, CAPACITY * 9 / 8, 10_000);
    let crowd = story.runs(20_000, CAPACITY * 9 / 8);
    let after = story.runs(10_000, 0);
    assert_eq!(story.phase(), "calm");
    assert_eq!(crowd.told + after.told, 0);
    let (served, lost) = (crowd.served + after.served, crowd.gave_up + after.gave_up);
    assert!(lost * 100 < served, "{served} served, {lost} lost");
}

/// Nor when it is longer than any before; but not where it is more than twice as long.
#[test]
fn of_a_small_overload_that_is_longer_than_those_before_nobody_is_lost() {
    let mut story = Story::new();
    story.bursts(3, 15_000, CAPACITY * 17 / 16, 10_000);
    let crowd = story.runs(25_000, CAPACITY * 17 / 16);
    assert_eq!((crowd.told, crowd.hollow), (0, 0), "{crowd:?}");
    story.runs(25_000, CAPACITY * 17 / 16);
    let crowd = story.runs(10_000, CAPACITY * 17 / 16);
    assert_eq!((crowd.gave_up, crowd.waited), (0, 0), "{crowd:?}");
}

/// Who takes itself for connected sends again and again what it has to say: beyond a short burst that
/// is dearer than a SYN a second.
#[test]
fn who_is_connected_and_finds_no_room_is_told_after_a_second() {
    let (short, long) = (small(500, 10_000), small(4000, 10_000));
    assert_eq!((phase_of(&short), phase_of(&long)), ("burst", "burst"));
    assert!(short.silences_ack(1000 * S) && !long.silences_ack(1000 * S));
    // When the crowd has gone there will be room soon.
    assert!(long.silences_ack(1001 * S));
}
