// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is told, and in which form.

use super::*;

/// Those who wait come again a second later: had the first of each window what silence there is, they
/// would all come at some parts of a second, and the server be idle in the others.
#[test]
fn silence_is_for_some_from_the_beginning_of_a_window_on() {
    let mut story = Story::new();
    story.bursts(5, 1000, 30 * CAPACITY, 5000);
    story.runs(1000, 30 * CAPACITY);
    while story.now_ns - story.watch.overload().window_ns > 50 * MS {
        story.runs(1, 0);
    }
    let seen = story.runs(50, 0);
    let silent = seen.sent - seen.told - seen.served;
    assert!(silent > 0 && seen.told > 0, "{seen:?}");
}

/// Beyond 32,000 new clients a second nobody is remembered who is told and not expected again: the table
/// is for those who wait.
#[test]
fn in_a_flood_who_is_told_is_not_remembered() {
    for when_told in [Told::Stops, Told::SendsAgain] {
        let remembered = |per_s| {
            let mut story = Story::new();
            story.rules.patience_ms = 0;
            story.bursts(2, 3000, 2 * CAPACITY, 9000);
            (story.when_told, story.looks_like_it) = (when_told, true);
            story.runs(1000, per_s);
            let seen = story.runs(2200, per_s);
            let tick = (story.now_ns >> TG_CELL_TICK_SHIFT) as u16;
            let is_of_these =
                |cell: &tg_waiting| cell.times_told > 0 && tick - cell.since_tick <= 1;
            let cells = story.watch.waiting.iter().flat_map(|block| block.cells);
            cells.filter(is_of_these).count() as f64 / (seen.told + seen.hollow) as f64
        };
        let (all, none) = (remembered(20 * CAPACITY), remembered(60 * CAPACITY));
        assert!(all > 0.5 && none == 0.0, "{when_told:?}: {all}, {none}");
    }
}

/// An ACK that finds no room is told while a crowd is there, beyond the first second; when it has
/// gone, whoever is connected already will find room.
#[test]
fn an_ack_that_finds_no_room_has_silence_before_a_crowd_stays_and_when_it_has_gone() {
    let mut story = Story::new();
    for _ in 0..20 {
        story.runs(50, 2 * CAPACITY);
        assert!(story.watch.silences_ack(story.now_ns));
    }
    story.runs(200, 2 * CAPACITY);
    for _ in 0..20 {
        story.runs(50, 2 * CAPACITY);
        assert!(!story.watch.silences_ack(story.now_ns));
    }
    // One window sees that it has gone.
    story.runs(300, 0);
    for _ in 0..100 {
        story.runs(50, 0);
        assert!(story.watch.silences_ack(story.now_ns));
    }
}

/// Its clients are Windows'.
pub(super) fn of_windows() -> Story {
    Story { when_told: Told::SendsAgain, looks_like_it: true, gives_cookies: true, ..Story::new() }
}

/// After a burst Windows would come again a second later, and then after two and four. Whoever waits
/// comes sooner on a RST, and is served.
#[test]
fn who_sends_again_is_hastened_when_the_crowd_has_gone() {
    let mut story = of_windows();
    for burst in 0..5 {
        let crowd = story.runs(1000, 3 * CAPACITY);
        let after = story.runs(5000, 0);
        assert!(crowd.told <= crowd.came / 50, "{crowd:?}");
        let waiting = crowd.came - crowd.served;
        assert!(after.served > waiting * 9 / 10, "{burst}: {waiting} waited, {after:?}");
        assert!(after.told > waiting / 10, "{after:?}");
    }
}

/// But no more than four for each that the server takes: all five SYNs of Windows' would be spent after
/// two seconds, and the server idle until those come who were left in silence.
#[test]
fn no_more_are_hastened_than_the_server_will_have_room_for() {
    let mut story = of_windows();
    // What the server takes shows in the first.
    for burst in 0..3 {
        story.runs(1000, 12 * CAPACITY);
        for second in 0..5 {
            let after = story.runs(1000, 0);
            let is_paced = (3 * CAPACITY..4 * CAPACITY).contains(&after.told);
            assert!(burst == 0 || is_paced, "{burst}, {second}: {after:?}");
            assert!(after.served > CAPACITY * 8 / 10, "{burst}, {second}: {after:?}");
        }
    }
}

/// Who has spent its SYNs waits on, connected by a SYN cookie; its data, which it sends again, brings it
/// in when there is room. (Else the server would be idle from when the last SYNs are spent.)
#[test]
fn who_has_spent_its_syns_waits_connected() {
    let mut story = of_windows();
    story.bursts(3, 1000, 30 * CAPACITY, 5000);
    story.runs(1000, 30 * CAPACITY);
    for second in 0..4 {
        let after = story.runs(1000, 0);
        assert!(after.connected <= 2 * CAPACITY * 11 / 10, "{second}: {after:?}");
    }
    assert!(story.seen.connected > CAPACITY, "{:?}", story.seen);
    let waiting = story.connected.len() as u64;
    assert!(waiting > CAPACITY / 10, "{waiting} wait connected");
    // Nobody else comes.
    story.clients.clear();
    let after = story.runs(5000, 0);
    assert!(after.served > waiting * 9 / 10, "{waiting} waited, {after:?}");
}

/// Some of a short crowd that is likely to have gone in two seconds wait connected: their data comes while
/// the others, who were left in silence, have not come again. Behind a long one there are enough.
#[test]
fn some_of_a_short_crowd_that_is_about_to_go_wait_connected() {
    let story = |gives_cookies| {
        let mut story = Story { gives_cookies, ..Story::new() };
        // So dear that more come than it pays to have wait.
        story.rules.syn_ns = 35_000;
        story
    };
    let after_bursts = |gives_cookies, burst_ms| {
        let mut story = story(gives_cookies);
        story.bursts(3, burst_ms, 12 * CAPACITY, 9000);
        let early = story.runs(burst_ms - 2000, 12 * CAPACITY);
        (early, story.runs(2000, 12 * CAPACITY))
    };
    let (early, late) = after_bursts(true, 4000);
    assert_eq!(early.connected, 0, "it will last: {early:?}");
    let about_as_many = CAPACITY..2 * CAPACITY * 11 / 10;
    assert!(about_as_many.contains(&late.connected), "{late:?}");
    let (_, late_in_a_long_one) = after_bursts(true, 8000);
    assert_eq!(late_in_a_long_one.connected, 0);
    // Where there are no cookies they are left in silence, as they would have been.
    let (_, without) = after_bursts(false, 4000);
    let silent = |seen: Seen| seen.sent - seen.told - seen.served - seen.connected;
    assert_eq!(without.connected, 0);
    assert!(silent(without) > silent(late) + late.connected / 2, "{late:?}, {without:?}");

    // Of the first nobody knows.
    let first = story(true).runs(14_000, 12 * CAPACITY);
    assert_eq!(first.connected, 0, "{first:?}");
}

/// Where no cookie can be given it is told as before.
#[test]
fn whose_options_fit_no_cookie_is_told_to_come_again() {
    let mut story = Story { gives_cookies: false, ..of_windows() };
    story.bursts(3, 1000, 30 * CAPACITY, 5000);
    assert_eq!(story.seen.connected, 0);
    assert!(story.seen.told > CAPACITY, "{:?}", story.seen);
}

/// What a long crowd has left comes in by half of the short queue: a server that accepts whoever is
/// there would else accept for seconds, and serve some when they have given up.
#[test]
fn after_a_long_crowd_who_has_waited_comes_in_by_the_short_queue() {
    let mut story = Story::new();
    story.bursts(1, 20_000, 3 * CAPACITY, 15_000);
    story.runs(20_000, 3 * CAPACITY);
    story.runs(1000, 0);
    assert_eq!(story.phase(), "recovering");
    let (client, places) = (story.clients[0], story.watch.overload().places);
    assert!(places < BACKLOG / 2);
    let comes_in =
        |listen_len| story.clone().decides(&client, &queues(listen_len, 0)).verdict == TG_PASS;
    assert_eq!([places / 2 - 1, places / 2].map(comes_in), [true, false]);
    assert_eq!(story.meets(&queues(places, 0)).0, TG_PASS, "who is new");
}

/// A long crowd is over when it has been calm. Hours later a server that hardly anybody waits for stands
/// still for a second: whom it drops comes in as if nothing had been before.
#[test]
fn a_long_crowd_is_forgotten_when_it_has_been_calm() {
    let comes_in_behind_a_pause = |mut story: Story| {
        story.now_ns += 3600 * S;
        story.runs(3000, CAPACITY * 2 / 5);
        for _ in 0..1000 {
            // As many as it takes in the next millisecond.
            (story.done_ms, story.queue) = (0, story.queue + 1);
            story.runs(1, CAPACITY * 2 / 5);
        }
        let client = story.clients.pop().expect("one that was dropped");
        story.runs(1000, CAPACITY * 2 / 5);
        assert_eq!(story.phase(), "burst");
        let places = story.watch.overload().places;
        assert!(places < BACKLOG / 2);
        story.decides(&client, &queues(places / 2 + 4, 0)).reason
    };
    let mut crowded = Story::new();
    crowded.bursts(1, 20_000, 3 * CAPACITY, 15_000);
    assert_eq!([Story::new(), crowded].map(comes_in_behind_a_pause), [TG_ROOM; 2]);
}

/// In a burst, too, new clients go first: who has waited has half of the queue, and all of it behind one
/// that was over before it came again.
#[test]
fn in_a_burst_who_has_waited_comes_in_by_half_of_the_queue() {
    let mut story = Story::new();
    story.runs(500, 3 * CAPACITY);
    let client = Client { name: 7 << 32 | 7, ..story.client() };
    assert_eq!(story.decides(&client, &queues(BACKLOG + 1, 0)).verdict, TG_DROP);
    story.runs(1000, 3 * CAPACITY);
    assert_eq!(story.phase(), "burst");
    let decides = |listen_len| story.clone().decides(&client, &queues(listen_len, 0)).reason;
    assert_eq!([BACKLOG / 2, BACKLOG / 2 + 1].map(decides), [TG_ROOM, TG_NEW_FIRST]);
    assert_eq!(story.meets(&queues(BACKLOG / 2 + 1, 0)).0, TG_PASS, "who is new");

    let comes_in_behind = |burst_ms| {
        let mut story = Story::new();
        story.runs(burst_ms, 3 * CAPACITY);
        let client = Client { name: 7 << 32 | 7, ..story.client() };
        assert_eq!(story.decides(&client, &queues(BACKLOG + 1, 0)).verdict, TG_DROP);
        story.runs(600, 0);
        assert_eq!(story.phase(), "burst");
        story.decides(&client, &queues(BACKLOG, 0)).verdict == TG_PASS
    };
    assert_eq!([1000, 4000].map(comes_in_behind), [true, false]);
}

/// In a small overload hardly anybody has to give up: who has waited for most of its patience, and will
/// hardly come again, has the room that new clients have.
#[test]
fn in_a_small_overload_who_will_hardly_come_again_goes_before_those_who_will() {
    let comes_in_after = |per_s, waited_ms| {
        let mut story = Story::new();
        story.bursts(3, 14_000, per_s, 9000);
        story.runs(3000, per_s);
        let client = Client { name: 7 << 32 | 7, ..story.client() };
        assert_ne!(story.decides(&client, &queues(BACKLOG + 1, 0)).verdict, TG_PASS);
        // At the times at which Linux sends its SYN again.
        for second in [1, 2, 3, 4, 5, 7] {
            while story.now_ns < client.came_ns + second * S {
                story.runs(1, per_s);
            }
            if second * 1000 == waited_ms {
                break;
            }
            assert_ne!(story.decides(&client, &queues(BACKLOG + 1, 0)).verdict, TG_PASS);
        }
        let more_than_half = queues(story.watch.overload().places / 2 + 1, 0);
        story.decides(&client, &more_than_half).verdict == TG_PASS
    };
    let small = CAPACITY * 5 / 4;
    assert_eq!([3000, 5000, 7000].map(|ms| comes_in_after(small, ms)), [false, false, true]);
    assert!(!comes_in_after(3 * CAPACITY, 7000), "where there is room for few of those who wait");
}

/// The kernel repeats its SYN/ACK: that is nothing which its address is told.
#[test]
fn whose_request_stands_is_not_told() {
    let (mut story, _) = told_at_once(Told::Stops, true, 0, 2 * CAPACITY);
    let told = |story: &Story| {
        let cells = story.watch.manners.iter().flat_map(|block| block.cells);
        cells.map(|cell| u32::from(cell.told) + u32::from(cell.lately)).sum::<u32>()
    };
    let before = told(&story);
    for half_open in [1, 0] {
        let syn = tg_syn { now_ns: story.now_ns, half_open, ..Default::default() };
        let names = Names { connection: 7 << 32 | 7, ..story.names(&story.client()) };
        let Story { watch, rules, refusals, .. } = &mut story;
        let judged = watch.decide_syn(rules, &mut queues(129, 0), &syn, refusals, names);
        assert_eq!(judged.decision.reason == TG_HALF_OPEN, half_open == 1);
        assert_eq!(told(&story) == before, half_open == 1);
    }
}

/// Whose last SYN it is has the room that new clients have, and who may come again half of it.
#[test]
fn who_cannot_come_again_goes_before_those_who_can() {
    let mut story = Story { gives_cookies: false, ..of_windows() };
    for _ in 0..2 {
        story.runs(1000, 12 * CAPACITY);
        story.runs(2000, 0);
    }
    let (full, more_than_half) = (queues(BACKLOG + 1, 0), queues(BACKLOG * 5 / 8, 0));
    assert_eq!(story.meets(&more_than_half).0, TG_PASS, "who is new");
    let client = story.client();
    assert_eq!(story.decides(&client, &full).verdict, TG_DROP, "it waits");
    for times_told in 1..=3 {
        // The others are told, too: as soon as it is its turn.
        let told = (0..100).find_map(|_| {
            story.runs(5, 0);
            let mut then = story.clone();
            (then.decides(&client, &full).verdict == TG_RESET).then_some(then)
        });
        story = told.expect("a moment at which it is told to come again");
        let comes_in = story.clone().decides(&client, &more_than_half).verdict == TG_PASS;
        assert_eq!(comes_in, times_told == 3, "told {times_told} times");
    }
}

/// A crowd that is told at once, for ten seconds.
fn told_at_once(when_told: Told, looks_like_it: bool, addresses: u64, per_s: u64) -> (Story, Seen) {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    (story.when_told, story.looks_like_it) = (when_told, looks_like_it);
    story.addresses = addresses;
    story.runs(5000, per_s);
    let seen = story.runs(10_000, per_s);
    (story, seen)
}

/// Of a client whose turn to be told has come, and for whom no refusal is left, its SYN is dropped: it waits, and has
/// done nothing for which it would be told by a SYN/ACK when it comes again.
#[test]
fn who_is_dropped_for_want_of_refusals_was_not_told() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    story.rules.refusal_cost_ns = (S / 100) as u32;
    story.addresses = 1;
    story.runs(5000, 2 * CAPACITY);
    let seen = story.runs(10_000, 2 * CAPACITY);
    assert!((900..1100).contains(&seen.told), "a hundred a second: {seen:?}");
    assert_eq!(seen.hollow, 0, "{seen:?}");
}

/// Windows sends a SYN again half a second after a RST: what it gets is none.
#[test]
fn who_looks_like_one_that_sends_again_is_answered_at_once() {
    let (story, seen) = told_at_once(Told::SendsAgain, true, 0, 2 * CAPACITY);
    let fresh = story.watch.overload().fresh_per_s();
    assert!((1900.0..2100.0).contains(&fresh), "{fresh}");
    let refused = seen.came - seen.served;
    assert_eq!(seen.told, 0, "{seen:?}");
    assert!(seen.hollow.abs_diff(refused) < refused / 20, "{seen:?}");
    assert!(seen.sent < seen.served + refused + refused / 20, "{seen:?}");
}

/// Where TIME-WAIT would get its ACK it gets a RST after all, sends its SYN again, and is taken for nobody new; in
/// a flood, too, in which who is answered for good is not remembered.
#[test]
fn who_is_told_by_rst_for_time_waits_sake_is_expected_again() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    (story.when_told, story.looks_like_it, story.taken) = (Told::SendsAgain, true, true);
    story.runs(4000, 40 * CAPACITY);
    let seen = story.runs(2000, 40 * CAPACITY);
    let fresh = story.watch.overload().fresh_per_s();
    assert!((39_000.0..44_000.0).contains(&fresh), "{fresh}");
    assert_eq!(seen.hollow, 0, "{seen:?}");
    assert!(seen.sent > 3 * seen.came, "{seen:?}");
}

/// One that does not look like it is taken for nobody new when it comes again, and is answered then.
#[test]
fn who_was_told_and_comes_again_is_answered() {
    let (story, seen) = told_at_once(Told::SendsAgain, false, 0, 2 * CAPACITY);
    let fresh = story.watch.overload().fresh_per_s();
    assert!((1900.0..2100.0).contains(&fresh), "{fresh}");
    let refused = seen.came - seen.served;
    assert!(seen.told.abs_diff(refused) < refused / 20, "{seen:?}");
    assert!(seen.hollow.abs_diff(refused) < refused / 20, "{seen:?}");
    assert!(seen.sent < seen.served + 2 * refused + refused / 20, "{seen:?}");
}

/// An address that sends SYNs again is answered at its first, whatever it looks like: of eight, one is
/// told by RST.
#[test]
fn where_syns_are_sent_again_is_known_by_the_address() {
    for looks_like_it in [false, true] {
        let (_, seen) = told_at_once(Told::SendsAgain, looks_like_it, 100, 2 * CAPACITY);
        let refused = seen.came - seen.served;
        assert!(seen.hollow > refused * 19 / 20, "{seen:?}");
        assert!((refused / 10..refused / 6).contains(&seen.told), "{seen:?}");
    }
}

/// Behind a NAT there are clients of several systems: those that stop at a RST have one, those that would
/// come again are answered, although all have one address.
#[test]
fn at_an_address_of_both_kinds_each_has_what_fits_it() {
    let mut story = Story { looks_like_it: true, addresses: 1, ..Story::new() };
    story.rules.patience_ms = 0;
    let mut count = |for_ms| {
        let mut seen = [Seen::default(); 2];
        for ms in 0..for_ms {
            let kind = ms % 2;
            story.when_told = [Told::Stops, Told::SendsAgain][kind];
            let now = story.runs(1, 2 * CAPACITY);
            seen[kind].told += now.told;
            seen[kind].hollow += now.hollow;
        }
        seen
    };
    count(5000);
    let [stops, sends_again] = count(10_000);
    assert!(stops.told > 4500 && stops.hollow == 0, "{stops:?}");
    assert!(sends_again.hollow > 2 * sends_again.told, "{sends_again:?}");
}

/// One that looks like Windows and stops at a RST is answered eight times, and has a RST from then on.
#[test]
fn who_only_looks_like_it_is_known_by_the_address() {
    let mut story = Story { addresses: 100, ..of_windows() };
    story.rules.patience_ms = 0;
    story.runs(1500, 2 * CAPACITY);
    // A client stops that is none of those who were told four times.
    let (mut hollow, mut told) = (0, 0);
    for _ in 0..5000 {
        story.now_ns += MS;
        story.seen.came += 1;
        let client = Client { address: 7 << 32, ..story.client() };
        match story.decides(&client, &queues(129, 0)).verdict {
            TG_HOLLOW => hollow += 1,
            TG_RESET => told += 1,
            other => assert_eq!(other, TG_DROP),
        }
    }
    assert!(hollow < told / 8 && told > 500, "{hollow} answered, {told} told");
}

/// Who stops at a RST never gets anything else.
#[test]
fn who_stops_at_a_reset_gets_one() {
    for addresses in [0, 100] {
        let (_, seen) = told_at_once(Told::Stops, false, addresses, 2 * CAPACITY);
        assert_eq!((seen.hollow, seen.gave_up, seen.waited), (0, 0, 0), "{seen:?}");
    }
}

/// "silence for sources that abuse refusals": the same SYN, told eight times, is told no more.
#[test]
fn who_is_told_over_and_over_has_silence() {
    let (mut story, _) = told_at_once(Told::Stops, false, 0, 2 * CAPACITY);
    let (name, before) = (story.last_name(), story.seen);
    for _ in 0..100 {
        story.runs(50, 2 * CAPACITY);
        // It does not wait either, when it is left in silence.
        story.asks(Client {
            name,
            address: 1,
            came_ns: 0,
            next_ns: 0,
            when_told: Told::Stops,
            times_told: 0,
        });
    }
    let answered = story.seen.hollow - before.hollow;
    assert!((6..=8).contains(&answered), "{answered}");
    assert!(story.seen.gave_up - before.gave_up > 80, "{:?}", story.seen);
}

/// A hundred programs that connect again as soon as they are told, at one address, send ten thousand
/// SYNs a second, but for the time in which they are told later.
#[test]
fn programs_that_connect_again_at_once_are_told_later() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    story.runs(5000, 2 * CAPACITY);
    story.addresses = 1;
    story.when_told = Told::ConnectsAgain;
    for _ in 0..100 {
        story.comes();
    }
    story.addresses = 0;
    story.when_told = Told::Stops;
    let seen = story.runs(40_000, 2 * CAPACITY);
    let theirs = seen.sent - seen.came;
    assert!(theirs < 40 * 10_000 / 4, "{theirs} SYNs in 40 s");
    assert!(seen.told > seen.came * 2 / 5, "the others are told at once: {seen:?}");
}

/// Many clients behind one address look like that, until they are told later once and come as before:
/// one second in sixteen.
#[test]
fn many_clients_behind_one_address_are_told_at_once() {
    let (_, seen) = told_at_once(Told::Stops, false, 1, 2 * CAPACITY);
    let refused = seen.came - seen.served;
    assert!(seen.sent < seen.came + refused / 8, "{seen:?}");
    assert_eq!((seen.gave_up, seen.hollow), (0, 0), "{seen:?}");
}

/// Who does not come in for its network's sake is told in the form that fits its address, as often as it
/// comes; and of none of them anything is kept in the table of those who wait.
#[test]
fn who_is_held_off_for_its_network_is_told_in_the_form_that_fits() {
    let kept = |story: &Story| {
        let cells = story.watch.waiting.iter().flat_map(|block| block.cells);
        cells.filter(|cell| cell.tag != 0).count()
    };
    for source in [TG_SOURCE_OVER, TG_SOURCE_BEYOND] {
        let held_off = |story: Story| Story { source, addresses: 10, ..story };
        let mut stops = held_off(Story::new());
        let seen = stops.runs(5000, 300);
        assert_eq!((seen.told, seen.hollow, kept(&stops)), (seen.came, 0, 0), "{seen:?}");
        let mut windows = held_off(of_windows());
        let seen = windows.runs(5000, 300);
        assert_eq!((seen.told, seen.hollow, kept(&windows)), (0, seen.came, 0), "{seen:?}");
    }
}

/// Programs of one address that connect again as soon as they are refused send thousands of SYNs a second
/// over its rate. Left in silence they send one a second each.
#[test]
fn who_connects_over_and_over_beyond_its_rate_is_left_in_silence() {
    const PROGRAMS: u64 = 50;
    let sent = |is_auto| {
        let mut story = Story::new();
        (story.source, story.addresses) = (TG_SOURCE_OVER, 1);
        story.when_told = Told::ConnectsAgain;
        story.rules.is_auto = is_auto;
        story.runs(1000, PROGRAMS);
        story.runs(20_000, 0).sent / 20
    };
    let (told_at_once, auto) = (sent(0), sent(1));
    assert!(told_at_once > 50 * PROGRAMS, "{told_at_once} SYNs a second");
    assert!(auto < told_at_once / 5, "{auto} SYNs a second in place of {told_at_once}");
}
