// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How an application accepts, told by a server of which it is known.

use super::*;
use crate::raw::{
    TG_BEYOND_SHARE, TG_HALF_OPEN, TG_LISTENQ_FULL_AT_SYN, TG_NO_COOKIE, TG_NO_RESERVATION,
    TG_POLICED, TG_REFUSAL_LIMIT, TG_ROOM, TG_ROOM_RESERVE, TG_SYNQ_FULL, TG_WAIT_LIMIT,
};
use crate::tests::judged;

const SECOND_NS: u64 = 1_000_000_000;
const BACKLOG: u32 = 128;
/// Between two SYNs: 20,000 come a second.
const SYN_NS: u64 = 50_000;
/// Ten seconds are looked at.
const END_NS: u64 = 11 * SECOND_NS;

/// A server of so many connections a second that takes so many at a time, before which the queue is
/// full.
fn seen(at_a_time: u32, taken_per_s: u64) -> Seen {
    seen_with(&mut tg_accepts::default(), at_a_time, taken_per_s)
}

fn seen_with(accepts: &mut tg_accepts, at_a_time: u32, taken_per_s: u64) -> Seen {
    let phase_ns = u64::from(at_a_time) * SECOND_NS / taken_per_s;
    let (mut len, mut next_ns, mut now_ns) = (0, phase_ns, SECOND_NS);
    while now_ns < END_NS {
        while now_ns >= SECOND_NS + next_ns {
            len -= at_a_time.min(len);
            next_ns += phase_ns;
        }
        let queues = tg_queues { listen_len: len, listen_max: BACKLOG, ..Default::default() };
        let reason = if len > BACKLOG { TG_LISTENQ_FULL_AT_SYN } else { TG_ROOM };
        accepts.look(&tg_rules::default(), &queues, judged(reason), now_ns);
        len += u32::from(reason == TG_ROOM);
        now_ns += SYN_NS;
    }
    accepts.seen(now_ns).expect("clients found no room")
}

/// Pariag, Table 4.8: Accept-1 takes 0.99 at a time, Accept-10 9.53, and Accept-Inf, here, the queue.
#[test]
fn how_many_are_taken_at_a_time_is_seen_in_the_queue() {
    for (limit, advice) in [(1, Advice::More), (10, Advice::Keep), (100, Advice::Keep)] {
        let seen = seen(limit, 10_000);
        let told = seen.at_a_time.unwrap_or(1.0);
        assert!((told - f64::from(limit)).abs() <= 0.1 * f64::from(limit), "{limit}: {seen:?}");
        assert!((seen.let_in_per_s - 10_000.0).abs() < 500.0, "{seen:?}");
        assert!((seen.refused - 0.5).abs() < 0.05, "{seen:?}");
        assert_eq!(seen.advice(), advice, "{limit}: {seen:?}");
    }
    let all = seen(1000, 100_000);
    assert!(all.at_a_time.is_some_and(|many| many > 100.0) && all.emptied > 0.9, "{all:?}");
    assert_eq!(all.advice(), Advice::Fewer);
}

/// Each leap is followed by more work than a window of 268 ms is long: by 270 ms, or by a second.
#[test]
fn leaps_that_are_rare_are_counted_as_they_are() {
    for (at_a_time, taken_per_s, told, advice) in [
        (100, 370, 100.0, Advice::Keep),
        (100, 100, 100.0, Advice::Keep),
        (1000, 1000, f64::from(BACKLOG + 1), Advice::Fewer),
    ] {
        let seen = seen(at_a_time, taken_per_s);
        let many = seen.at_a_time.expect("it takes many at a time");
        assert!((many - told).abs() <= 0.1 * told, "{at_a_time}: {seen:?}");
        assert_eq!(seen.advice(), advice, "{at_a_time}: {seen:?}");
    }
}

/// Two or three in a window.
#[test]
fn a_server_that_takes_few_a_second_is_told_as_fast_as_it_is() {
    let seen = seen(1, 10);
    assert!((seen.let_in_per_s - 10.0).abs() < 1.0, "{seen:?}");
}

/// Clients far away fill the queue a round trip after it has room: it falls far, and evenly.
#[test]
fn a_queue_that_falls_evenly_is_taken_one_by_one() {
    let mut accepts = tg_accepts::default();
    let mut now_ns = SECOND_NS;
    for _ in 0..400 {
        // It falls from full to empty by one every 100 us, and is full again at once, for a while.
        for taken in 0..=BACKLOG {
            for _ in 0..if taken == 0 { 20 } else { 2 } {
                let listen_len = BACKLOG + 1 - taken;
                let queues = tg_queues { listen_len, listen_max: BACKLOG, ..Default::default() };
                let reason = if listen_len > BACKLOG { TG_LISTENQ_FULL_AT_SYN } else { TG_ROOM };
                accepts.look(&tg_rules::default(), &queues, judged(reason), now_ns);
                now_ns += SYN_NS;
            }
        }
    }
    let seen = accepts.seen(now_ns).expect("clients found no room");
    assert_eq!((seen.at_a_time, seen.advice()), (None, Advice::More), "{seen:?}");
}

#[test]
fn nothing_is_said_of_a_server_that_keeps_up() {
    let mut accepts = tg_accepts::default();
    let queues = tg_queues { listen_len: 100, listen_max: BACKLOG, ..Default::default() };
    for i in 0..100_000 {
        let reason = if i % 7 == 0 { TG_HALF_OPEN } else { TG_ROOM };
        accepts.look(&tg_rules::default(), &queues, judged(reason), SECOND_NS + i * SYN_NS);
    }
    assert_eq!(accepts, tg_accepts::default());
    // Nor of what was a while ago.
    seen_with(&mut accepts, 1, 10_000);
    assert_eq!(accepts.seen(END_NS + u64::from(TG_ACCEPTS_HOLD_NS)), None);
}

/// Though it be dropped for want of refusals or of a cookie.
#[test]
fn who_is_held_for_its_networks_sake_has_not_lacked_room() {
    let queues = tg_queues { listen_len: 100, listen_max: BACKLOG, ..Default::default() };
    let look = |against, counted| {
        let mut accepts = tg_accepts::default();
        let judged = tg_judged { reason: against, ..judged(counted) };
        accepts.look(&tg_rules::default(), &queues, judged, SECOND_NS);
        accepts
    };
    for held in [TG_POLICED, TG_BEYOND_SHARE] {
        for counted in [held, TG_REFUSAL_LIMIT, TG_NO_COOKIE] {
            assert_eq!(look(held, counted), tg_accepts::default(), "{held}, {counted}");
        }
    }
    assert_eq!(look(TG_WAIT_LIMIT, TG_REFUSAL_LIMIT).trouble_ns, SECOND_NS);
}

/// A flood of forged SYNs, say: half-open requests have every place, and the application takes at once whoever
/// comes through.
#[test]
fn where_nobody_waits_none_could_be_taken_with_another() {
    for lacks in [TG_SYNQ_FULL, TG_NO_RESERVATION] {
        let mut accepts = tg_accepts::default();
        for i in 0..100_000 {
            let queues = tg_queues { listen_max: BACKLOG, ..Default::default() };
            let reason = if i % 2 == 0 { lacks } else { TG_ROOM };
            accepts.look(&tg_rules::default(), &queues, judged(reason), SECOND_NS + i * SYN_NS);
        }
        let seen = accepts.seen(6 * SECOND_NS).expect("clients found no room");
        assert_eq!((seen.at_a_time, seen.advice()), (None, Advice::Keep), "{lacks}: {seen:?}");
    }
}

#[test]
fn a_few_drops_are_no_reason_to_change() {
    let hardly = Seen { refused: 0.009, ..seen(1, 10_000) };
    assert_eq!(hardly.advice(), Advice::Keep);
}

/// What is not in the queue cannot be seen to leave it: how an application accepts shows in a queue that is
/// kept short only where that has room for more than it would take anyhow between two looks.
#[test]
fn a_queue_that_is_kept_short_tells_no_more_than_it_can_hold() {
    let lazy = |ahead| tg_rules { room: TG_ROOM_RESERVE, ahead, ..Default::default() };
    let grown = tg_rules { places: 4, ..Default::default() };
    let auto = |places| tg_queues { places, ..Default::default() };
    let default = tg_rules::default();
    for (rules, limits, most, advice) in [
        (lazy(1), auto(0), 1, Advice::Untold),
        (lazy(16), auto(0), 16, Advice::Keep),
        (grown, auto(0), 4, Advice::Untold),
        (default, auto(4), 4, Advice::Untold),
        (default, auto(16), 16, Advice::Keep),
    ] {
        let mut accepts = tg_accepts::default();
        for i in 0..100_000_u64 {
            // It fills, and all of it is taken at once.
            let listen_len = (i % 20).min(most) as u32;
            let reason = if u64::from(listen_len) == most { TG_WAIT_LIMIT } else { TG_ROOM };
            let queues = tg_queues { listen_len, listen_max: BACKLOG, ..limits };
            accepts.look(&rules, &queues, judged(reason), SECOND_NS + i * SYN_NS);
        }
        let seen = accepts.seen(6 * SECOND_NS).expect("clients found no room");
        assert_eq!(seen.advice(), advice, "{most}: {seen:?}");
    }
}

/// SYNs that come in packs with long pauses between them show no leap, whether there is one or not.
#[test]
fn what_was_not_seen_is_not_told() {
    let mut accepts = tg_accepts::default();
    for i in 0..10_000_u64 {
        let is_full = i % 100 > 50;
        let reason = if is_full { TG_LISTENQ_FULL_AT_SYN } else { TG_ROOM };
        let listen_len = if is_full { BACKLOG + 1 } else { 64 };
        let queues = tg_queues { listen_len, listen_max: BACKLOG, ..Default::default() };
        // A hundred at once, every 20 ms.
        accepts.look(
            &tg_rules::default(),
            &queues,
            judged(reason),
            SECOND_NS + i / 100 * 20_000_000 + i % 100,
        );
    }
    let seen = accepts.seen(SECOND_NS + 2_000_000_000).expect("clients found no room");
    assert_eq!(seen.advice(), Advice::Untold, "{seen:?}");
}
