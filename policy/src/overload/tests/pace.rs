// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that are away: as many are let in as the server takes.

use super::*;

/// What of thirty seconds a server of a thousand connections a second is busy, before a crowd three
/// times as large whose ACKs come so much later.
fn from_afar(round_trip_ms: u64) -> (Story, Seen) {
    let mut story = Story { round_trip_ms, ..Story::new() };
    story.runs(2000, CAPACITY / 2);
    story.runs(30_000, 3 * CAPACITY);
    assert_eq!(story.phase(), "persistent");
    let seen = story.runs(30_000, 3 * CAPACITY);
    (story, seen)
}

/// The short queue, let in while it is short, would be empty for a round trip, and then too long.
#[test]
fn from_afar_as_many_are_let_in_as_the_server_takes() {
    for round_trip_ms in [30, 100, 300] {
        let (story, seen) = from_afar(round_trip_ms);
        assert!(seen.served >= 30 * CAPACITY * 97 / 100, "{round_trip_ms} ms: {seen:?}");
        assert!(seen.turned_back * 50 < seen.served, "{round_trip_ms} ms: {seen:?}");
        assert!(story.queue < u64::from(BACKLOG), "{round_trip_ms} ms: {}", story.queue);
    }
}

/// By its ACK it is known how far away a client is; by the half-open connections it could not be told:
/// those whose ACK found the listen queue full stand next door, too.
#[test]
fn how_far_away_clients_are_is_known_by_their_acks() {
    let round_trip_ms = |story: &Story| story.watch.overload().round_trip_ns as f64 / MS as f64;
    let (afar, _) = from_afar(100);
    assert!((90.0..110.0).contains(&round_trip_ms(&afar)), "{} ms", round_trip_ms(&afar));
    let mut near = Story { half_open: 100, ..Story::new() };
    near.runs(30_000, 3 * CAPACITY);
    assert!(round_trip_ms(&near) < 5.0, "{} ms", round_trip_ms(&near));
    assert_eq!(near.watch.overload().on_their_way, 0);
}

/// A server that has become quicker has an empty queue, at the pace of before.
#[test]
fn from_afar_it_is_soon_seen_that_the_server_takes_more() {
    let (mut story, _) = from_afar(100);
    story.watch.overload.drain_x256 /= 2;
    story.runs(5000, 3 * CAPACITY);
    let drain = story.watch.overload().drain_per_s();
    assert!((900.0..1200.0).contains(&drain), "{drain}");
}

/// Let in by the queue alone they would seem to be taken, as many as come in a round trip.
#[test]
fn from_afar_it_is_known_what_the_server_takes() {
    let (story, _) = from_afar(300);
    let drain = story.watch.overload().drain_per_s();
    assert!((950.0..1050.0).contains(&drain), "{drain}");
}

/// What the server seems to take of a thousand a second that are let in, where every other one finds the
/// listen queue full when its ACK comes, and gets this.
fn taken_where_half_get(verdict: u32) -> f64 {
    let mut story = Story::new();
    for number in 0..20_000 {
        story.now_ns += MS;
        assert_eq!(story.meets(&queues(0, 0)), (TG_PASS, TG_ROOM));
        if number % 2 == 0 {
            let decision = tg_decision { verdict, reason: TG_OVERFLOW_SYNACK_ACK };
            story.watch.meet_ack(&tg_ack::default(), decision, 0, story.now_ns);
        }
    }
    story.watch.overload().drain_per_s()
}

/// Who is told was not taken. Who is left in silence comes again, and may be.
#[test]
fn who_is_turned_back_was_not_taken() {
    let (told, silent) = (taken_where_half_get(TG_RESET), taken_where_half_get(TG_PASS));
    assert!((490.0..510.0).contains(&told), "{told}");
    assert!((990.0..1010.0).contains(&silent), "{silent}");
}

/// Who waits connected was dropped, and not let in, when its SYN came. Where it is told after all nothing
/// changes.
#[test]
fn who_has_waited_connected_and_is_told_was_never_let_in() {
    let mut story = Story { gives_cookies: true, ..Story::new() };
    // So dear that more come than it pays to have wait.
    story.rules.syn_ns = 35_000;
    story.bursts(3, 4000, 12 * CAPACITY, 9000);
    story.runs(2500, 12 * CAPACITY);
    let full = queues(BACKLOG + 1, 0);
    let waits = (0..50).any(|_| {
        story.now_ns += MS;
        story.meets(&full) == (TG_COOKIE, TG_LISTENQ_FULL_AT_SYN)
    });
    assert!(waits);
    let counts = |story: &Story| {
        let o = story.watch.overload();
        (o.entered, o.dropped, o.fresh_dropped)
    };
    let before = counts(&story);
    assert!(before.0 > 0 && before.2 > 0, "{before:?}");
    story.queue = u64::from(BACKLOG) + 1;
    let ack = tg_ack { cookie: TG_ACK_COOKIE, bare: 1, ..Default::default() };
    let decision = story.acknowledges(ack, story.last_name() as u32);
    assert_eq!((decision.verdict, decision.reason), (TG_RESET, TG_OVERFLOW_SYNACK_ACK));
    assert_eq!(counts(&story), before);
}

/// But whose cookie was room was let in: as many as had one, and no more of those who are told.
#[test]
fn as_many_cookies_are_turned_back_as_were_room() {
    let mut story = Story { gives_cookies: true, ..Story::new() };
    assert_eq!(story.meets(&queues(0, 0)), (TG_PASS, TG_ROOM));
    for _ in 0..3 {
        assert_eq!(story.meets(&queues(0, BACKLOG + 1)), (TG_COOKIE, TG_KERNEL_COOKIE));
    }
    let ack = tg_ack { cookie: TG_ACK_COOKIE, bare: 1, ..Default::default() };
    let told = tg_decision { verdict: TG_RESET, reason: TG_OVERFLOW_SYNACK_ACK };
    (0..4).for_each(|_| story.watch.meet_ack(&ack, told, 7, story.now_ns));
    let o = story.watch.overload();
    assert_eq!((o.entered, o.dropped, o.fresh_dropped), (1, 3, 3));
    assert_eq!(story.acknowledges(ack, 7).verdict, TG_ADMIT);
    assert_eq!(story.watch.overload().entered, 2, "it has waited connected");
}

/// What was lost, and came when it was sent again, is no round trip.
#[test]
fn an_ack_that_comes_after_half_a_second_tells_nothing() {
    let round_trip_ns = |after_ms| {
        let mut story = Story::new();
        story.meets(&queues(0, 0));
        story.now_ns += after_ms * MS;
        let ack = tg_ack { is_request: 1, acceptable: 1, ..Default::default() };
        story.acknowledges(ack, story.last_name() as u32);
        story.watch.overload().round_trip_ns
    };
    assert_eq!([100, 500, 540].map(round_trip_ns), [25 * MS, 125 * MS, 0]);
}

/// Whoever forges a SYN knows its number, and when it was sent; but not the answer's.
#[test]
fn an_ack_that_proves_nothing_tells_nothing() {
    let round_trip_ns = |ack: tg_ack| {
        let mut story = Story::new();
        story.meets(&queues(0, 0));
        story.now_ns += 500 * MS;
        story.acknowledges(ack, story.last_name() as u32);
        story.watch.overload().round_trip_ns
    };
    for forged in [
        tg_ack { is_request: 1, acceptable: 0, ..Default::default() },
        tg_ack { cookie: TG_ACK_NO_COOKIE, ..Default::default() },
        tg_ack { cookie: TG_ACK_HOLLOW, ..Default::default() },
    ] {
        assert_eq!(round_trip_ns(forged), 0, "{forged:?}");
    }
    for cookie in [TG_ACK_COOKIE, TG_ACK_KERNEL_COOKIE] {
        assert_eq!(round_trip_ns(tg_ack { cookie, ..Default::default() }), 125 * MS, "{cookie}");
    }
}

/// A cookie that was room counts when its SYN comes, and not again when it is brought back, be that in
/// the next window; what comes back beyond those are clients that have waited connected.
#[test]
fn a_cookie_that_comes_back_in_the_next_window_was_taken_before() {
    let mut story = Story { gives_cookies: true, ..Story::new() };
    let full = queues(0, BACKLOG + 1);
    let next_window = |story: &mut Story| {
        story.now_ns += 300 * MS;
        assert_eq!(story.meets(&full), (TG_COOKIE, TG_KERNEL_COOKIE));
        assert_eq!(story.watch.overload().entered, 1);
    };
    let brings = |story: &mut Story, cookies| {
        let ack = tg_ack { cookie: TG_ACK_COOKIE, bare: 1, ..Default::default() };
        (0..cookies).for_each(|_| assert_eq!(story.acknowledges(ack, 7).verdict, TG_ADMIT));
        story.watch.overload().entered
    };
    let gives_99_more = |story: &mut Story| {
        for _ in 0..99 {
            story.now_ns += MS;
            story.meets(&full);
        }
    };
    next_window(&mut story);
    gives_99_more(&mut story);
    assert_eq!(brings(&mut story, 40), 100);
    next_window(&mut story);
    assert_eq!(brings(&mut story, 61), 1);
    assert_eq!(brings(&mut story, 5), 6, "they have waited connected");
    // What does not come in the next is not waited for.
    next_window(&mut story);
    gives_99_more(&mut story);
    next_window(&mut story);
    next_window(&mut story);
    assert_eq!(brings(&mut story, 3), 2, "two are of the last window and of this one");
}

/// When the crowd has gone, too: who waits and is away comes in as the server takes them.
#[test]
fn from_afar_those_who_wait_come_in_when_the_crowd_has_gone() {
    let mut story = Story { round_trip_ms: 100, ..Story::new() };
    story.runs(12_000, 3 * CAPACITY / 2);
    let waiting = story.clients.len() as u64;
    let after = story.runs(2000, 0);
    assert!(waiting > 2 * CAPACITY, "{waiting}");
    assert!(after.served >= 2 * CAPACITY * 8 / 10, "{after:?}");
}

/// In the half second in which it takes none nobody is dropped: if these windows did not count, it would
/// seem to take more than it does, and an overload by a tenth to be none.
#[test]
fn of_a_server_that_takes_many_at_a_time_the_mean_is_known() {
    let (crowd_per_s, window_ms) = (CAPACITY * 11 / 10, u64::from(TG_OVERLOAD_WINDOW_NS) / MS + 1);
    let mut story = Story { backlog: 512, pause_ms: 450, round_trip_ms: 100, ..Story::new() };
    story.runs(5000, crowd_per_s);
    let mut drain_per_s = || {
        story.runs(window_ms, crowd_per_s);
        story.watch.overload().drain_per_s()
    };
    let mean = (0..40).map(|_| drain_per_s()).sum::<f64>() / 40.0;
    assert!((950.0..1050.0).contains(&mean), "{mean}");
    assert_eq!(story.phase(), "persistent");
}

/// So many of those who come at the same moment, before an empty queue, are let in.
fn let_in_at_once(takes_per_s: u64) -> u64 {
    let (mut story, _) = from_afar(100);
    story.watch.overload.apart_ns = S / takes_per_s;
    // Nobody is ahead of the pace.
    story.watch.overload.next_ns = story.now_ns;
    let is_let_in = |_: &u64| story.meets(&queues(0, 0)).0 == TG_PASS;
    (0..100).take_while(is_let_in).count() as u64
}

#[test]
fn a_few_are_let_in_at_once_but_into_a_server_that_is_very_slow() {
    assert_eq!([300, 1000, 10_000].map(let_in_at_once), [1, 4, 23]);
}
