// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calm, burst, persistent, recovering: which crowds are which, and what becomes of their clients.

use super::*;

#[test]
fn below_the_capacity_nobody_is_dropped_and_all_is_calm() {
    let mut story = Story::new();
    let seen = story.runs(20_000, CAPACITY * 9 / 10);
    assert_eq!(seen.served, seen.came);
    assert_eq!(story.phase(), "calm");
}

/// Shukla, thesis, 5.2: "the overload has subsided by the time the majority of clients retransmit
/// their SYNs".
#[test]
fn in_a_short_burst_nobody_is_told_and_everybody_is_served() {
    let mut story = Story::new();
    story.runs(2000, CAPACITY / 2);
    let burst = story.runs(700, 3 * CAPACITY);
    assert_eq!(burst.told, 0);
    assert!(burst.served < burst.came, "{burst:?}");
    assert_eq!(story.phase(), "burst");
    story.runs(8000, 0);
    let Seen { came, served, told, gave_up, .. } = story.seen;
    assert_eq!((served, told, gave_up), (came, 0, 0));
    assert_eq!(story.phase(), "calm");
}

#[test]
fn when_a_crowd_stays_the_server_is_busy_and_its_clients_are_new_ones() {
    let mut story = Story::new();
    story.runs(2000, CAPACITY / 2);
    story.runs(30_000, 3 * CAPACITY);
    assert_eq!(story.phase(), "persistent");
    let seen = story.runs(30_000, 3 * CAPACITY);
    assert!(seen.served >= 30 * CAPACITY * 99 / 100, "{seen:?}");
    assert!(seen.waited * 100 < seen.served, "{seen:?}");
    // Two of three find no room, and few of them are left in silence until they give up.
    assert!(seen.told > seen.gave_up * 5, "{seen:?}");
}

/// Those who wait have come in, or been told, when the last of them would have given up.
#[test]
fn when_the_crowd_has_gone_those_who_wait_come_in() {
    let mut story = Story::new();
    story.runs(12_000, 3 * CAPACITY / 2);
    assert_eq!(story.phase(), "persistent");
    let waiting = story.clients.len() as u64;
    let after = story.runs(2000, 0);
    assert!(waiting > 2 * CAPACITY, "{waiting}");
    assert!(after.served >= 2 * CAPACITY * 8 / 10, "{after:?}");
    story.runs(10_000, 0);
    assert_eq!(story.phase(), "calm");
    assert_eq!(story.watch.overload().places(story.now_ns), None, "all of the queue");
    assert!(story.clients.is_empty());
}

/// Two seconds after a crowd's end there is no overload for those who come, whatever the crowd was: half
/// of what the server takes are let in at their first SYN, all of them, and it takes no crowd for there
/// any more. Who is left of it comes in beside them.
#[test]
fn two_seconds_after_the_crowd_everyone_who_comes_is_let_in_at_once() {
    for (for_ms, times_x2) in [(800, 6), (3000, 3), (12_000, 3), (30_000, 6), (30_000, 10)] {
        let mut story = Story::new();
        story.runs(2000, CAPACITY / 2);
        story.runs(for_ms, times_x2 * CAPACITY / 2);
        story.runs(2000, CAPACITY / 2);
        for part in 0..100 {
            let after = story.runs(100, CAPACITY / 2);
            let label = format!("{for_ms} ms of {times_x2}/2, {} ms after", 2000 + part * 100);
            let let_in_at_once = after.served - after.waited;
            assert_eq!(let_in_at_once, after.came, "{label}: {after:?}");
            assert_ne!(story.phase(), "persistent", "{label}");
        }
        assert_eq!(story.phase(), "calm", "{for_ms} ms of {times_x2}/2");
        assert!(story.clients.is_empty(), "nothing is left");
    }
}

/// Chance has a server just below its capacity refuse some, and those come again: that must not be
/// taken for the crowd that was there before, nor keep new ones out.
#[test]
fn what_is_left_of_a_crowd_does_not_persist() {
    let mut story = Story::new();
    story.runs(15_000, 3 * CAPACITY);
    // 0.95 times the capacity, in handfuls.
    for part in 0..1500 {
        let before = story.seen;
        story.runs(10, if part % 4 == 0 { CAPACITY * 38 / 10 } else { 0 });
        let (came, served) = (story.seen.came - before.came, story.seen.served - before.served);
        assert!(part < 350 || story.phase() != "persistent", "after {} ms", part * 10);
        assert!(part < 350 || served >= came, "after {} ms {served} of {came} served", part * 10);
    }
    assert_eq!((story.phase(), story.clients.len()), ("calm", 0));
}

/// Overloads of a socket that were all longer than 2 s: the next will not be over in a second.
#[test]
fn where_overloads_are_long_the_next_is_told_at_once() {
    let mut story = Story::new();
    let mut told_early = Vec::new();
    for _ in 0..4 {
        story.runs(500, 3 * CAPACITY);
        told_early.push(story.runs(500, 3 * CAPACITY).told);
        story.runs(40_000, 3 * CAPACITY);
        story.runs(15_000, 0);
    }
    assert!(told_early[0] == 0 && told_early[3] > CAPACITY / 4, "{told_early:?}");
}

/// A server may take none for half a second, and make up for it in the next.
#[test]
fn what_a_server_takes_is_its_mean() {
    let mut story = Story::new();
    story.pause_ms = 600;
    story.rules.patience_ms = 60_000;
    story.runs(10_000, CAPACITY * 3 / 2);
    for _ in 0..100 {
        let seen = story.runs(100, CAPACITY * 3 / 2);
        let drain = story.watch.overload().drain_per_s();
        assert!((700.0..1500.0).contains(&drain), "{drain}: {seen:?}");
    }
}

/// The phases are told of new clients: those who come again do not make an overload last.
/// Of a request that stands, and whoever forges it may repeat it as often as it likes.
#[test]
fn repeats_of_a_syn_that_was_let_in_hide_no_overload() {
    let mut story = Story::new();
    for _ in 0..12_000 {
        story.runs(1, 3 * CAPACITY / 2);
        if story.queue <= u64::from(BACKLOG) {
            continue;
        }
        for _ in 0..40 {
            let syn = tg_syn { now_ns: story.now_ns, half_open: 1, ..Default::default() };
            let names = Names { connection: 7 << 32 | 7, ..story.names(&story.client()) };
            let mut queues = story.queues(1);
            let Story { watch, rules, refusals, .. } = &mut story;
            let decision = watch.decide_syn(rules, &mut queues, &syn, refusals, names).decision;
            assert_eq!(decision.reason, TG_HALF_OPEN);
        }
    }
    assert_eq!(story.phase(), "persistent");
}

/// Nobody looks whether its request stands: the datapath does not, and the simulator, which knows,
/// must not count otherwise.
#[test]
fn a_syn_that_comes_again_and_finds_room_counts_as_one_that_comes() {
    for half_open in [0, 1] {
        let mut story = Story::new();
        let syn = tg_syn { now_ns: story.now_ns, half_open, ..Default::default() };
        let (names, mut room) = (story.names(&story.client()), story.queues(1));
        let Story { watch, rules, refusals, .. } = &mut story;
        let decision = watch.decide_syn(rules, &mut room, &syn, refusals, names).decision;
        assert_eq!(decision.reason, TG_ROOM);
        assert_eq!((watch.overload().fresh, watch.overload().entered), (1, 1), "{half_open}");
    }
}

#[test]
fn drops_of_those_who_come_again_are_no_crowd() {
    let mut story = Story::new();
    story.runs(3000, 2 * CAPACITY);
    let end_ns = story.now_ns;
    let mut into_ns = 0;
    while !story.clients.is_empty() {
        story.runs(100, CAPACITY / 10);
        into_ns = story.now_ns - end_ns;
        assert!(into_ns < S || story.phase() != "persistent", "after {} ms", into_ns / MS);
    }
    assert!(into_ns > 2 * S, "some come again for longer than that: {} ms", into_ns / MS);
}
