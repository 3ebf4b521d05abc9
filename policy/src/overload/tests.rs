// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A listening socket, its clients and its server, as small as they can be: what `auto` makes of
//! crowds of a known length and size.

use super::*;
use crate::mechanism;
use crate::raw::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
/// What the server takes, a second.
const CAPACITY: u64 = 1000;
const BACKLOG: u32 = 128;

/// What a client does that is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Stops,
    /// Windows, by RST: the SYN goes out four times more, every half second.
    SendsAgain,
    /// A program that connects again 10 ms later, served or not.
    ConnectsAgain,
}

/// A client that sends its SYN every second until it is answered, for ten.
#[derive(Clone, Copy)]
struct Client {
    name: u64,
    address: u64,
    came_ns: u64,
    next_ns: u64,
    when_told: Told,
    times_told: u32,
}

/// What has become of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    came: u64,
    served: u64,
    /// SYNs.
    sent: u64,
    /// Answers by RST.
    told: u64,
    /// Clients that were answered by a SYN/ACK behind which there is nothing.
    hollow: u64,
    gave_up: u64,
    /// Served, of those who had come before.
    waited: u64,
}

struct Story {
    rules: tg_rules,
    /// What those do who come, and how many addresses they have; 0: each its own.
    when_told: Told,
    addresses: u64,
    watch: Watch,
    refusals: tg_bucket,
    now_ns: u64,
    queue: u64,
    /// Connections whose ACK was lost.
    half_open: u32,
    /// Parts of a connection that the server has done.
    done_ms: u64,
    /// So long it takes none, and as long twice as many; 0: all the same.
    pause_ms: u64,
    /// Parts of a client that have come.
    coming: u64,
    clients: Vec<Client>,
    seen: Seen,
}

impl Story {
    fn new() -> Self {
        Self {
            rules: mechanism::parse("auto").unwrap(),
            when_told: Told::Stops,
            addresses: 0,
            watch: Watch::default(),
            refusals: tg_bucket::default(),
            now_ns: 1000 * S,
            queue: 0,
            half_open: 0,
            done_ms: 0,
            pause_ms: 0,
            coming: 0,
            clients: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn asks(&mut self, client: Client) {
        let queues = tg_queues {
            listen_len: self.queue as u32,
            listen_max: BACKLOG,
            syn_len: self.half_open,
            syn_max: 4096,
            syncookies: 1,
            ..Default::default()
        };
        let syn = tg_syn { now_ns: self.now_ns, ..Default::default() };
        let Self { watch, rules, refusals, .. } = self;
        let names = Names { connection: client.name, address: client.address };
        let decision = watch.decide_syn(rules, &queues, &syn, refusals, names);
        self.seen.sent += 1;
        match decision.verdict {
            TG_PASS => {
                self.queue += 1;
                self.seen.served += 1;
                self.seen.waited += u64::from(client.came_ns < self.now_ns);
                self.connects_again(client);
            }
            TG_RESET => {
                self.seen.told += 1;
                self.sends_again(client);
                self.connects_again(client);
            }
            TG_HOLLOW => {
                self.seen.hollow += 1;
                self.connects_again(client);
            }
            TG_DROP if self.now_ns - client.came_ns >= 10 * S => self.seen.gave_up += 1,
            TG_DROP => {
                let again = Client { next_ns: self.now_ns + S, ..client };
                self.clients.push(again);
            }
            other => panic!("{other} is no answer of auto's"),
        }
    }

    fn sends_again(&mut self, client: Client) {
        if client.when_told == Told::SendsAgain && client.times_told < 4 {
            let (next_ns, times_told) = (self.now_ns + S / 2, client.times_told + 1);
            self.clients.push(Client { next_ns, times_told, ..client });
        }
    }

    fn connects_again(&mut self, client: Client) {
        if client.when_told == Told::ConnectsAgain {
            // A name that nobody else has.
            let name = self.seen.sent.wrapping_mul(0xd6e8_feb8_6659_fd93);
            let next_ns = self.now_ns + 10 * MS;
            self.clients.push(Client { name, came_ns: next_ns, next_ns, ..client });
        }
    }

    /// A client that comes now.
    fn comes(&mut self) {
        self.seen.came += 1;
        let (name, now_ns) = (self.last_name(), self.now_ns);
        let address = self.seen.came.checked_rem(self.addresses).unwrap_or(name);
        // A name's upper half is its tag.
        let address = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let when_told = self.when_told;
        self.asks(Client {
            name,
            address,
            came_ns: now_ns,
            next_ns: now_ns,
            when_told,
            times_told: 0,
        });
    }

    /// New clients for some time, at this rate, and a clock that advances by milliseconds.
    fn runs(&mut self, for_ms: u64, per_s: u64) -> Seen {
        let before = self.seen;
        for _ in 0..for_ms {
            self.now_ns += MS;
            self.done_ms += match (self.now_ns / MS).checked_div(self.pause_ms) {
                Some(number) => number % 2 * 2 * CAPACITY,
                None => CAPACITY,
            };
            let takes = (self.done_ms / 1000).min(self.queue);
            self.done_ms = if self.queue > 0 { self.done_ms - takes * 1000 } else { 0 };
            self.queue -= takes;
            let now_ns = self.now_ns;
            let (due, later): (Vec<Client>, _) =
                self.clients.iter().partition(|client| client.next_ns <= now_ns);
            self.clients = later;
            for client in due {
                self.asks(client);
            }
            self.coming += per_s;
            while self.coming >= 1000 {
                self.coming -= 1000;
                self.comes();
            }
        }
        let now = self.seen;
        Seen {
            came: now.came - before.came,
            served: now.served - before.served,
            sent: now.sent - before.sent,
            told: now.told - before.told,
            hollow: now.hollow - before.hollow,
            gave_up: now.gave_up - before.gave_up,
            waited: now.waited - before.waited,
        }
    }

    /// Crowds that come and go: so many, each with its silence behind it.
    fn bursts(&mut self, number: u32, for_ms: u64, per_s: u64, silence_ms: u64) {
        for _ in 0..number {
            self.runs(for_ms, per_s);
            self.runs(silence_ms, 0);
        }
    }

    /// The name of who came last.
    fn last_name(&self) -> u64 {
        self.seen.came.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn phase(&self) -> &'static str {
        crate::names::PHASES[self.watch.overload().phase(self.now_ns) as usize]
    }
}

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

/// 5 ms of a thousand a second are five places, and sixteen are the least.
#[test]
fn who_is_let_in_while_it_persists_waits_for_a_short_queue() {
    let mut story = Story::new();
    story.runs(40_000, 3 * CAPACITY);
    assert_eq!(story.watch.overload().places, TG_OVERLOAD_PLACES_LEAST);
    assert!(story.queue <= TG_OVERLOAD_PLACES_LEAST.into(), "{}", story.queue);
    story.rules.wait_us = 50_000;
    story.runs(1000, 3 * CAPACITY);
    let places = story.watch.overload().places;
    assert!((45..=55).contains(&places), "{places}");
}

/// "recovery to calm within 2 s of the crowd's end": those who wait have come in by then, or been
/// told.
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
    assert!(story.clients.is_empty());
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

/// Where a block is full who was told is forgotten, be it a moment ago, and not who waits.
#[test]
fn who_was_told_is_forgotten_before_who_waits() {
    let mut story = Story::new();
    let tick = (story.now_ns >> TG_CELL_TICK_SHIFT) as u16;
    let cells = &mut story.watch.waiting[0].cells;
    for (i, cell) in cells.iter_mut().enumerate() {
        *cell = tg_waiting { tag: 2 * i as u32 + 1, since_tick: tick - 10, times_told: 0 };
    }
    cells[5] = tg_waiting { since_tick: tick, times_told: 1, ..cells[5] };
    story.queue = u64::from(BACKLOG) + 1;
    let name = 99 << 32;
    let (address, now_ns) = (0, story.now_ns);
    let (came_ns, next_ns, when_told) = (now_ns, now_ns, Told::Stops);
    story.asks(Client { name, address, came_ns, next_ns, when_told, times_told: 0 });
    let tags = story.watch.waiting[0].cells.map(|cell| cell.tag);
    assert_eq!(tags, [1, 3, 5, 7, 9, 99, 13, 15]);
}

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
#[test]
fn drops_of_those_who_come_again_are_no_crowd() {
    let mut story = Story::new();
    story.runs(3000, 2 * CAPACITY);
    let end_ns = story.now_ns;
    while !story.clients.is_empty() {
        story.runs(100, CAPACITY / 10);
        let into_ns = story.now_ns - end_ns;
        assert!(into_ns < S || story.phase() != "persistent", "after {} ms", into_ns / MS);
    }
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

/// A watch whose window is over, with one more SYN: an overload that has lasted for so long, before a
/// server that takes so many a second, where overloads of the last so many seconds are known.
fn watched(lasted_ms: u64, drain_per_s: u64, known_ms: &[u32], more: tg_overload) -> Watch {
    let mut story = Story::new();
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

/// An overload that would be small, of 30,000 new clients a second where 21,000 are taken.
fn small(lasted_ms: u64, waiting: u64) -> Watch {
    let more = tg_overload {
        fresh_x256: 30_000 << 8,
        peak_x256: 30_000 << 8,
        silent_x256: waiting << 8,
        seen: 16_000,
        fresh: 8000,
        dropped: 10_000,
        fresh_dropped: 5000,
        entered: 6000,
        silent: waiting * u64::from(TG_OVERLOAD_WINDOW_NS) / S,
        ..Default::default()
    };
    watched(lasted_ms, 21_000, &[10_000; 8], more)
}

fn phase_of(watch: &Watch) -> &'static str {
    crate::names::PHASES[watch.overload.phase(1000 * S) as usize]
}

/// An eighth of the processor's time, at 3 us a SYN, is 41,666 of them a second.
#[test]
fn an_overload_is_small_no_more_where_those_who_wait_cost_an_eighth() {
    let phase = |waiting| phase_of(&small(4000, waiting));
    assert_eq!((phase(35_000), phase(50_000)), ("burst", "persistent"));
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

/// A crowd that is told at once, for ten seconds.
fn told_at_once(when_told: Told, addresses: u64, per_s: u64) -> (Story, Seen) {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    story.when_told = when_told;
    story.addresses = addresses;
    story.runs(5000, per_s);
    let seen = story.runs(10_000, per_s);
    (story, seen)
}

/// Windows sends a SYN again half a second after a RST: it is taken for nobody new, and what it gets
/// is no RST, for which it would come again.
#[test]
fn who_was_told_and_comes_again_is_answered() {
    let (story, seen) = told_at_once(Told::SendsAgain, 0, 2 * CAPACITY);
    let fresh = story.watch.overload().fresh_per_s();
    assert!((1900.0..2100.0).contains(&fresh), "{fresh}");
    let refused = seen.came - seen.served;
    assert!(seen.told.abs_diff(refused) < refused / 20, "{seen:?}");
    assert!(seen.hollow.abs_diff(refused) < refused / 20, "{seen:?}");
    assert!(seen.sent < seen.served + 2 * refused + refused / 20, "{seen:?}");
}

/// An address that sends SYNs again is answered at its first: of eight, one is told by RST.
#[test]
fn where_syns_are_sent_again_is_known_by_the_address() {
    let (_, seen) = told_at_once(Told::SendsAgain, 100, 2 * CAPACITY);
    let refused = seen.came - seen.served;
    assert!(seen.hollow > refused * 19 / 20, "{seen:?}");
    assert!((refused / 10..refused / 6).contains(&seen.told), "{seen:?}");
}

/// While an overload is likely to end within 2 s, who sends its SYN again on a RST has one: it comes
/// in time. In windows a burst of 2 s is longer than that, so these are of 1.5 s.
#[test]
fn who_sends_again_has_a_reset_where_the_overload_ends_soon() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    story.when_told = Told::SendsAgain;
    for burst in 0..5 {
        let crowd = story.runs(1500, 2 * CAPACITY);
        let after = story.runs(3000, 0);
        // The first may last.
        if burst > 0 {
            assert_eq!(crowd.hollow + after.hollow, 0, "{crowd:?} {after:?}");
            assert!(after.served > CAPACITY * 5 / 4, "{after:?}");
        }
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

/// Who stops at a RST never gets anything else.
#[test]
fn who_stops_at_a_reset_gets_one() {
    for addresses in [0, 100] {
        let (_, seen) = told_at_once(Told::Stops, addresses, 2 * CAPACITY);
        assert_eq!((seen.hollow, seen.gave_up, seen.waited), (0, 0, 0), "{seen:?}");
    }
}

/// "silence for sources that abuse refusals": the same SYN, told eight times, is told no more.
#[test]
fn who_is_told_over_and_over_has_silence() {
    let (mut story, _) = told_at_once(Told::Stops, 0, 2 * CAPACITY);
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
/// one second in seventeen.
#[test]
fn many_clients_behind_one_address_are_told_at_once() {
    let (_, seen) = told_at_once(Told::Stops, 1, 2 * CAPACITY);
    let refused = seen.came - seen.served;
    assert!(seen.sent < seen.came + refused / 8, "{seen:?}");
    assert_eq!((seen.gave_up, seen.hollow), (0, 0), "{seen:?}");
}
