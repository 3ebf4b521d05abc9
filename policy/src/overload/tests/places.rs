// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short queue, and for whom there is no room whatever the queues say.

use super::*;

/// 5 ms of a thousand a second are five places, and sixteen are the least; at three times the capacity
/// a quarter is enough.
#[test]
fn who_is_let_in_while_it_persists_waits_for_a_short_queue() {
    let places = |wait_us: u32, come_per_s: u64| {
        let mut story = Story::new();
        story.rules.wait_us = wait_us;
        story.runs(40_000, come_per_s);
        let places = story.watch.overload().places(story.now_ns).expect("a short queue");
        assert!(story.queue <= places.into(), "{} of {places}", story.queue);
        places
    };
    let (many, most) = (CAPACITY * 7 / 5, 3 * CAPACITY);
    assert_eq!(places(5000, many), TG_OVERLOAD_PLACES_LEAST);
    assert_eq!(places(5000, most), TG_OVERLOAD_PLACES_FEWEST);
    assert!((90..=110).contains(&places(100_000, many)));
    assert!((22..=28).contains(&places(100_000, most)));
}

/// `listen(fd, 5)`: a crowd that stays has no more places than there are.
#[test]
fn a_short_queue_has_no_more_places_than_the_listen_queue() {
    let mut story = Story { backlog: 5, ..Story::new() };
    story.runs(40_000, 3 * CAPACITY);
    assert_eq!(story.phase(), "persistent");
    assert_eq!(story.watch.overload().places(story.now_ns), Some(5));
}

/// Once another has shown what the server takes, who is let in waits no longer in a burst either.
#[test]
fn in_a_burst_the_queue_is_short_once_it_is_known_what_the_server_takes() {
    let longest = |story: &mut Story| {
        let lengths = (0..700).map(|_| {
            story.runs(1, 3 * CAPACITY);
            story.queue
        });
        // The first window has not shown that it is an overload.
        let longest = lengths.skip(400).max();
        assert_eq!(story.phase(), "burst");
        longest.unwrap()
    };
    let mut story = Story::new();
    story.runs(2000, CAPACITY / 2);
    assert_eq!(longest(&mut story), u64::from(BACKLOG) + 1);
    story.runs(10_000, 0);
    story.bursts(2, 1000, 3 * CAPACITY, 9000);
    let places = u64::from(TG_OVERLOAD_PLACES_LEAST);
    let known = longest(&mut story);
    assert!(known <= u64::from(BACKLOG) / 2 && story.queue <= places, "{known}");
}

/// An ACK that finds the queue full is dropped, and its request stands until the kernel asks again, a
/// second later: it is on its way to nobody's place.
#[test]
fn requests_that_stand_keep_nobody_out_who_waits() {
    let mut story = Story::new();
    story.half_open = BACKLOG / 2;
    story.runs(12_000, 3 * CAPACITY / 2);
    assert_eq!(story.phase(), "persistent");
    let after = story.runs(2000, 0);
    assert!(after.served >= 2 * CAPACITY * 8 / 10, "{after:?}");
}

/// Who has a cookie is in no queue until its ACK is back.
#[test]
fn the_kernels_cookies_are_room_while_half_of_the_listen_queue_is_free() {
    let mut story = Story::new();
    assert_eq!(story.meets(&queues(63, 129)), (TG_PASS, TG_KERNEL_COOKIE));
    assert_eq!(story.meets(&queues(64, 129)), (TG_DROP, TG_SYNQ_FULL));
    // With cookies for everyone the SYN queue is empty, and a full one the exception.
    let always = tg_queues { syncookies: 2, ..queues(64, 0) };
    assert_eq!(story.meets(&always), (TG_PASS, TG_KERNEL_COOKIE));
}

/// `listen(fd, 0)`: one place, and one half-open request fills the SYN queue. Nobody waits for the server.
#[test]
fn a_request_that_stands_does_not_shut_a_listener_of_one_place() {
    let mut story = Story::new();
    let alone = tg_queues { listen_max: 0, ..queues(0, 1) };
    assert_eq!(story.meets(&alone), (TG_PASS, TG_KERNEL_COOKIE));
    let waited_for = tg_queues { listen_len: 1, ..alone };
    assert_eq!(story.meets(&waited_for), (TG_DROP, TG_LISTENQ_FULL_AT_SYN));
}

/// An ACK that brings one of the kernel's cookies, and tells nothing of the round trip.
fn brings_cookie(story: &mut Story) {
    let ack = tg_ack { cookie: TG_ACK_KERNEL_COOKIE, bare: 1, ..Default::default() };
    story.acknowledges(ack, 0);
}

/// 30,000 SYNs a second for a second, while the SYN queue is full, and the listen queue as long as this
/// says, or empty: so many cookies. One in so many comes back.
fn cookies_of(story: &mut Story, one_in: u64, listen_len: fn(u64) -> u32) -> u64 {
    let mut cookies = 0_u64;
    for ask in 0..30_000 {
        story.now_ns += MS / 30;
        if story.meets(&queues(listen_len(ask), 129)).1 == TG_KERNEL_COOKIE {
            cookies += 1;
            if cookies.is_multiple_of(one_in) {
                brings_cookie(story);
            }
        }
    }
    cookies
}

/// So rarely that none does.
const NEVER: u64 = u64::MAX;

/// Whenever a thousand more have come.
fn full_now_and_then(ask: u64) -> u32 {
    if ask.is_multiple_of(1000) { BACKLOG + 1 } else { 0 }
}

/// All would have cookies that come while the queue is not full: twice as many as the server takes
/// have; and where it is known that clients are away as many, and a sixteenth more for each quarter of
/// a second in which none of them has come.
#[test]
fn not_many_more_have_cookies_than_the_server_takes() {
    for (round_trip_ms, takes, expected) in
        [(0, 900.0..1100.0, 2000..2600), (100, 900.0..1200.0, 1000..1800)]
    {
        let mut story = Story { round_trip_ms, ..Story::new() };
        // By shorter ones from afar it is known less well what the server takes.
        story.bursts(2, 30_000, 3 * CAPACITY, 9000);
        let drain = story.watch.overload().drain_per_s();
        assert!(takes.contains(&drain), "{drain} at {round_trip_ms} ms");
        let cookies = cookies_of(&mut story, 1, full_now_and_then);
        assert!(expected.contains(&cookies), "{cookies} at {round_trip_ms} ms");
    }
}

/// Cookies are the kernel's defence against floods of forged SYNs, whose ACKs never come.
#[test]
fn in_a_flood_that_brings_no_ack_every_syn_has_a_cookie() {
    let mut story = Story::new();
    story.bursts(3, 3000, 3 * CAPACITY, 9000);
    assert_eq!(cookies_of(&mut story, NEVER, |_| 0), 30_000);
}

/// Their cookies are no clients, and the server has taken none of them: the crowd that comes a minute
/// later is seen as soon as any.
#[test]
fn a_flood_of_forged_syns_does_not_pass_for_what_the_server_takes() {
    for round_trip_ms in [0, 20] {
        let mut story = Story { round_trip_ms, ..Story::new() };
        story.bursts(2, 3000, 3 * CAPACITY, 9000);
        assert_eq!(cookies_of(&mut story, NEVER, |_| 0), 30_000);
        let drain = story.watch.overload().drain_per_s();
        assert!((800.0..1200.0).contains(&drain), "{drain} at {round_trip_ms} ms");
    }
}

/// Nor are they so where clients are among them, who fill half of the short queue now and then, or all of
/// the other: fewer than one in four comes back.
#[test]
fn a_flood_of_forged_syns_is_known_by_the_cookies_that_do_not_come_back() {
    for round_trip_ms in [0, 20] {
        let mut story = Story { round_trip_ms, ..Story::new() };
        story.bursts(2, 3000, 3 * CAPACITY, 9000);
        assert_eq!(cookies_of(&mut story, 30, |_| 0), 30_000);
        for listen_len in [|ask| if ask % 30 < 10 { 8 } else { 0 }, full_now_and_then] {
            let cookies = cookies_of(&mut story, 30, listen_len);
            assert!(cookies >= 29_900, "{cookies} at {round_trip_ms} ms");
            let drain = story.watch.overload().drain_per_s();
            assert!((800.0..1200.0).contains(&drain), "{drain} at {round_trip_ms} ms");
        }
    }
}

/// A flood, and eight clients for each ten that the server takes, ten at a time.
fn floods(story: &mut Story, for_ms: u64, forged_per_ms: u64) -> Seen {
    let mut seen = Seen::default();
    for ms in 1..=for_ms {
        let first = ms * 7 % (forged_per_ms + 1);
        forges(story, first);
        let some = story.runs(1, if ms * 2 % 25 < 2 { 10_000 } else { 0 });
        forges(story, forged_per_ms - first);
        seen.came += some.came;
        seen.sent += some.sent;
        seen.told += some.told;
        seen.turned_back += some.turned_back;
    }
    seen
}

/// SYNs whose senders have no answer.
fn forges(story: &mut Story, number: u64) {
    for _ in 0..number {
        let queues = story.queues(story.backlog + 1);
        story.meets(&queues);
    }
}

/// Of a crowd that comes while the flood does some are kept out, and when it has gone nobody.
#[test]
fn who_comes_while_a_flood_of_forged_syns_does_is_let_in() {
    for gives_cookies in [false, true] {
        for (round_trip_ms, forged_per_ms) in [(0, 10), (20, 10), (50, 10), (100, 10), (20, 100)] {
            let mut story = Story { round_trip_ms, backlog: 511, gives_cookies, ..Story::new() };
            story.bursts(1, 3000, 3 * CAPACITY, 20_000);
            story.half_open = story.backlog + 1;
            floods(&mut story, 500, forged_per_ms);
            (0..400).for_each(|_| story.comes());
            floods(&mut story, 4000, forged_per_ms);
            let seen = floods(&mut story, 10_000, forged_per_ms);
            let drain = story.watch.overload().drain_per_s();
            let of = format!("of {forged_per_ms} a ms, {round_trip_ms} ms away: {drain}, {seen:?}");
            assert_eq!((seen.sent, seen.told, seen.turned_back), (seen.came, 0, 0), "{of}");
            assert!((800.0..1200.0).contains(&drain), "{of}");
        }
    }
}

/// Be its clients away, or the listen queue full when their ACKs come.
#[test]
fn a_crowd_that_has_cookies_is_no_flood() {
    for (late_ms, listen_len) in [(0, 0), (250, 0), (0, BACKLOG + 1)] {
        let mut story = Story::new();
        for ms in 0..2000 {
            for _ in 0..20 {
                story.now_ns += MS / 20;
                story.queue = 0;
                let reason = story.meets(&queues(0, BACKLOG + 1)).1;
                assert_eq!(reason, TG_KERNEL_COOKIE);
                story.queue = listen_len.into();
                if ms >= late_ms {
                    brings_cookie(&mut story);
                }
                let is_flooded = story.watch.overload().is_flooded;
                assert_eq!(is_flooded, 0, "{late_ms} ms away, {listen_len} wait, after {ms} ms");
            }
        }
    }
}

/// By its listen queue, which is full however long the short one would be that it seems to need.
#[test]
fn a_server_that_takes_far_less_than_was_thought_is_known_by_its_full_queue() {
    for (round_trip_ms, times) in [(5, 4), (5, 100), (20, 4), (20, 100), (100, 10)] {
        let mut story = Story { round_trip_ms, ..Story::new() };
        story.bursts(2, 3000, 3 * CAPACITY, 9000);
        story.watch.overload.drain_x256 *= times;
        story.runs(20_000, 3 * CAPACITY);
        let (phase, drain) = (story.phase(), story.watch.overload().drain_per_s());
        assert_eq!(phase, "persistent", "{times} times at {round_trip_ms} ms: {drain}");
        assert!((900.0..1200.0).contains(&drain), "{times} times at {round_trip_ms} ms: {drain}");
    }
}

/// Before an application that asked for thousands of places nobody is dropped for a long time, and everyone
/// waits for seconds: until one waits for longer than the second after which whoever is dropped comes again.
#[test]
fn a_listen_queue_is_no_longer_than_a_second_though_the_kernel_would_have_it() {
    for per_s in [CAPACITY * 11 / 10, 2 * CAPACITY, 5 * CAPACITY] {
        let mut story = Story { backlog: 8192, ..Story::new() };
        story.runs(3000, CAPACITY / 2);
        let mut longest = 0;
        for _ in 0..60 {
            story.runs(1000, per_s);
            longest = longest.max(story.queue);
        }
        // A second's worth, and what comes before two windows have shown it.
        let before = per_s.saturating_sub(CAPACITY) * 6 / 10;
        assert!(longest <= CAPACITY * 11 / 10 + before, "{per_s} a second: {longest}");
        assert!(longest > CAPACITY, "{per_s} a second: {longest}, a second's worth is a buffer");
        // And then it is a crowd as any other.
        assert!(story.queue < 20, "{per_s} a second: {} after a minute", story.queue);
        assert_eq!(story.phase(), "persistent", "{per_s} a second");
    }
}

/// When nobody has come for a while nothing bounds it any more, though no SYN has said so yet.
#[test]
fn the_listen_queue_of_a_crowd_that_has_gone_is_told_without_a_bound() {
    let mut story = Story { backlog: 8192, ..Story::new() };
    let is_bounded = (0..1000).any(|_| {
        story.runs(10, 2 * CAPACITY);
        story.watch.overload().bound > 0
    });
    assert!(is_bounded);
    let bound = story.watch.overload().bound as u32;
    assert_eq!(story.watch.overload().places(story.now_ns), Some(bound));
    story.now_ns += 3600 * S;
    assert_eq!(story.watch.overload().places(story.now_ns), None);
}

/// A server that stands still for some seconds, before which hardly anybody waits otherwise, serves them
/// afterwards.
#[test]
fn a_server_that_stands_still_has_the_queue_that_it_asked_for() {
    let mut story = Story { backlog: 8192, pause_ms: 3000, ..Story::new() };
    let mut longest = 0;
    for _ in 0..300 {
        story.runs(100, CAPACITY / 2);
        longest = longest.max(story.queue);
    }
    assert!(longest > CAPACITY, "{longest} wait");
    let Seen { came, sent, .. } = story.seen;
    assert_eq!(sent, came, "nobody is dropped");
}

/// Half-open connections whose ACKs never come are no queue in which anybody waits.
#[test]
fn a_flood_of_forged_syns_does_not_bound_the_listen_queue() {
    let mut story = Story { backlog: 8192, ..Story::new() };
    story.half_open = 4000;
    story.runs(5000, CAPACITY / 20);
    // As many as it does in two fifths of a second, within a moment.
    for _ in 0..20 {
        let before = story.seen;
        story.runs(20, 20 * CAPACITY);
        story.runs(1000, CAPACITY / 20);
        let (came, sent) = (story.seen.came - before.came, story.seen.sent - before.sent);
        assert_eq!(came, sent, "nobody is dropped");
        story.runs(283, CAPACITY / 20);
    }
}

/// Some seem to be taken while a server stands still: a handshake is given up, a SYN comes again.
#[test]
fn a_server_that_stands_still_does_so_though_some_give_up() {
    let mut story = Story { backlog: 8192, ..Story::new() };
    story.runs(5000, CAPACITY * 9 / 10);
    let before = story.seen;
    // Nobody is taken for four seconds, but for one each 100 ms.
    for _ in 0..40 {
        for _ in 0..100 {
            story.done_ms = 0;
            story.queue += 1;
            story.runs(1, CAPACITY / 2);
        }
        story.queue -= story.queue.min(1);
    }
    assert_eq!(story.seen.came - before.came, story.seen.sent - before.sent, "nobody is dropped");
    assert!(story.queue > CAPACITY, "{} wait", story.queue);
}

/// They take places that `auto` gives to nobody, and so are part of what the server takes.
#[test]
fn those_exempt_who_find_room_are_counted_and_no_more_of_them() {
    let mut story = Story { source: TG_SOURCE_EXEMPT, ..Story::new() };
    let before = *story.watch.overload();
    for (listen_len, reason, exempted) in
        [(0, TG_EXEMPT, 1), (BACKLOG, TG_EXEMPT, 2), (BACKLOG + 1, TG_LISTENQ_FULL_AT_SYN, 2)]
    {
        assert_eq!(story.meets(&queues(listen_len, 0)), (TG_PASS, reason));
        assert_eq!(*story.watch.overload(), tg_overload { exempted, ..before });
    }
}
