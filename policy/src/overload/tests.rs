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
    /// Let in, and told when their ACK came.
    turned_back: u64,
}

/// What a SYN costs, unless a story has it otherwise.
const SYN_NS: u64 = 3_000;

struct Story {
    rules: tg_rules,
    /// What those do who come, and how many addresses they have; 0: each its own.
    when_told: Told,
    /// Whether that shows in their SYNs.
    looks_like_it: bool,
    addresses: u64,
    watch: Watch,
    refusals: tg_bucket,
    now_ns: u64,
    queue: u64,
    /// Connections whose ACK was lost.
    half_open: u32,
    /// Between a SYN/ACK and its ACK; and when the ACKs come of those who were let in.
    round_trip_ms: u64,
    on_their_way: Vec<(u64, u32)>,
    /// Parts of a connection that the server has done.
    done_ms: u64,
    /// So long it takes none, and as long twice as many; 0: all the same.
    pause_ms: u64,
    /// Parts of a client that have come.
    coming: u64,
    clients: Vec<Client>,
    seen: Seen,
}

fn queues(listen_len: u32, syn_len: u32) -> tg_queues {
    tg_queues {
        listen_len,
        listen_max: BACKLOG,
        syn_len,
        syn_max: 4096,
        syncookies: 1,
        ..Default::default()
    }
}

impl Story {
    fn new() -> Self {
        Self {
            rules: tg_rules { syn_ns: SYN_NS, ..mechanism::parse("auto").unwrap() },
            when_told: Told::Stops,
            looks_like_it: false,
            addresses: 0,
            watch: Watch::default(),
            refusals: tg_bucket::default(),
            now_ns: 1000 * S,
            queue: 0,
            half_open: 0,
            round_trip_ms: 0,
            on_their_way: Vec::new(),
            done_ms: 0,
            pause_ms: 0,
            coming: 0,
            clients: Vec::new(),
            seen: Seen::default(),
        }
    }

    fn decides(&mut self, client: &Client, queues: &tg_queues) -> tg_decision {
        // By lot: as good as any other word of the hash.
        let lot = (client.name >> 40) as u32 ^ (self.now_ns / (S / 2)) as u32;
        self.decides_by(lot, client, queues)
    }

    /// What this client would meet by that lot, as if it had not asked.
    fn would_decide_by(&mut self, lot: u32, client: &Client, queues: &tg_queues) -> tg_decision {
        let (watch, refusals) = (self.watch.clone(), self.refusals);
        let decision = self.decides_by(lot, client, queues);
        (self.watch, self.refusals) = (watch, refusals);
        decision
    }

    fn decides_by(&mut self, lot: u32, client: &Client, queues: &tg_queues) -> tg_decision {
        let sends_again = client.when_told == Told::SendsAgain && self.looks_like_it;
        let syn = tg_syn {
            now_ns: self.now_ns,
            random: lot,
            sends_again: sends_again.into(),
            ..Default::default()
        };
        let Self { watch, rules, refusals, .. } = self;
        let names =
            Names { connection: client.name, address: client.address, isn: client.name as u32 };
        watch.decide_syn(rules, queues, &syn, refusals, names)
    }

    /// What a client that nobody has seen before meets, of queues as they are given.
    fn meets(&mut self, queues: &tg_queues) -> (u32, u32) {
        self.seen.came += 1;
        let client = self.client();
        let decision = self.decides(&client, queues);
        (decision.verdict, decision.reason)
    }

    fn asks(&mut self, client: Client) {
        // Who has one of the kernel's cookies is in no queue.
        let half_open = self.half_open + self.on_their_way.len() as u32;
        let queues = queues(self.queue as u32, half_open.min(BACKLOG + 1));
        let decision = self.decides(&client, &queues);
        self.seen.sent += 1;
        match decision.verdict {
            TG_PASS => {
                self.on_their_way.push((self.now_ns + self.round_trip_ms * MS, client.name as u32));
                self.arrive();
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

    /// The ACKs that have come by now find a place, or none. Of those who were let in beyond the SYN
    /// queue nothing is kept; of the others the kernel asks again, a second later.
    fn arrive(&mut self) {
        let now_ns = self.now_ns;
        let come: Vec<_> =
            self.on_their_way.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).collect();
        for (_, isn) in come {
            let is_request = self.on_their_way.len() < BACKLOG as usize;
            let ack = tg_ack {
                is_request: is_request.into(),
                acceptable: 1,
                deferred: 0,
                bare: 1,
                cookie: TG_ACK_KERNEL_COOKIE,
                silent: self.watch.silences_ack(self.now_ns).into(),
            };
            let decision = crate::decide_ack(&self.rules, &queues(self.queue as u32, 0), &ack);
            self.watch.meet_ack(decision, isn.wrapping_add(1), now_ns);
            match (decision.reason, decision.verdict) {
                (TG_HANDSHAKE, _) => {
                    self.queue += 1;
                    self.seen.served += 1;
                }
                (_, TG_PASS) if is_request => self.on_their_way.push((now_ns + S, isn)),
                _ => self.seen.turned_back += 1,
            }
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
        let client = self.client();
        self.asks(client);
    }

    /// Who came last, as it came.
    fn client(&self) -> Client {
        let (name, now_ns) = (self.last_name(), self.now_ns);
        let address = self.seen.came.checked_rem(self.addresses).unwrap_or(name);
        // A name's upper half is its tag.
        let address = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let when_told = self.when_told;
        Client { name, address, came_ns: now_ns, next_ns: now_ns, when_told, times_told: 0 }
    }

    /// New clients for some time, at this rate, and a clock that advances by milliseconds.
    fn runs(&mut self, for_ms: u64, per_s: u64) -> Seen {
        let before = self.seen;
        for _ in 0..for_ms {
            self.now_ns += MS;
            self.arrive();
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
            turned_back: now.turned_back - before.turned_back,
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
    assert_eq!(story.watch.overload().places(story.now_ns), None, "all of the queue");
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

/// 30,000 SYNs a second for a second, while the SYN queue is full, and the listen queue now and then,
/// or empty: so many cookies.
fn cookies_of(story: &mut Story, is_full: fn(u64) -> bool) -> u32 {
    let mut cookies = 0;
    for ask in 0..30_000 {
        story.now_ns += MS / 30;
        let listen_len = if is_full(ask) { BACKLOG + 1 } else { 0 };
        cookies += u32::from(story.meets(&queues(listen_len, 129)).1 == TG_KERNEL_COOKIE);
    }
    cookies
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
        story.bursts(3, 3000, 3 * CAPACITY, 9000);
        let drain = story.watch.overload().drain_per_s();
        assert!(takes.contains(&drain), "{drain} at {round_trip_ms} ms");
        let cookies = cookies_of(&mut story, |ask| ask % 1000 == 0);
        assert!(expected.contains(&cookies), "{cookies} at {round_trip_ms} ms");
    }
}

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
            story.watch.meet_ack(decision, 0, story.now_ns);
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

/// Cookies are the kernel's defence against floods of forged SYNs, whose ACKs never come.
#[test]
fn in_a_flood_that_brings_no_ack_every_syn_has_a_cookie() {
    let mut story = Story::new();
    story.bursts(3, 3000, 3 * CAPACITY, 9000);
    assert_eq!(cookies_of(&mut story, |_| false), 30_000);
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
fn told_at_once(when_told: Told, looks_like_it: bool, addresses: u64, per_s: u64) -> (Story, Seen) {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    (story.when_told, story.looks_like_it) = (when_told, looks_like_it);
    story.addresses = addresses;
    story.runs(5000, per_s);
    let seen = story.runs(10_000, per_s);
    (story, seen)
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

/// One that looks like Windows and stops at a RST is answered eight times, and has a RST from then on.
#[test]
fn who_only_looks_like_it_is_known_by_the_address() {
    let mut story = Story::new();
    story.rules.patience_ms = 0;
    (story.when_told, story.looks_like_it, story.addresses) = (Told::SendsAgain, true, 100);
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

/// After a burst Windows would come again a second later, and then after two and four. Whoever waits
/// comes sooner on a RST, and is served.
#[test]
fn who_sends_again_is_hastened_when_the_crowd_has_gone() {
    let mut story = Story::new();
    (story.when_told, story.looks_like_it) = (Told::SendsAgain, true);
    for burst in 0..5 {
        let crowd = story.runs(1000, 3 * CAPACITY);
        let after = story.runs(5000, 0);
        assert!(crowd.told <= crowd.came / 50, "{crowd:?}");
        let waiting = crowd.came - crowd.served;
        assert!(after.served > waiting * 9 / 10, "{burst}: {waiting} waited, {after:?}");
        assert!(after.told > waiting / 10, "{after:?}");
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
        let (_, seen) = told_at_once(Told::Stops, false, addresses, 2 * CAPACITY);
        assert_eq!((seen.hollow, seen.gave_up, seen.waited), (0, 0, 0), "{seen:?}");
    }
}

/// So that `tidegate explain` can say it: the same SYN meets the same, whatever the lot, but for those
/// whose SYN comes again when their crowd has gone.
#[test]
fn the_lot_decides_only_where_it_is_said_to() {
    let mut story = Story { when_told: Told::SendsAgain, looks_like_it: true, ..Story::new() };
    let (mut said, mut differ, mut unsaid) = (0, 0, 0);
    for tenth in 0..80 {
        story.runs(100, if tenth < 50 { 3 * CAPACITY } else { 0 });
        let full = queues(BACKLOG + 1, 0);
        let client = story.clients.first().copied().unwrap_or_else(|| story.client());
        let says_so = story.watch.overload().draws_lots(story.now_ns);
        let [by_one, by_other] = [0, 1].map(|lot| story.would_decide_by(lot, &client, &full));
        let decides = by_one != by_other;
        said += u32::from(says_so);
        differ += u32::from(decides);
        unsaid += u32::from(decides && !says_so);
    }
    assert_eq!(unsaid, 0, "of {differ} that the lot decided");
    assert!(said > 20 && differ > 5, "{said} said, {differ} so");
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
/// one second in seventeen.
#[test]
fn many_clients_behind_one_address_are_told_at_once() {
    let (_, seen) = told_at_once(Told::Stops, false, 1, 2 * CAPACITY);
    let refused = seen.came - seen.served;
    assert!(seen.sent < seen.came + refused / 8, "{seen:?}");
    assert_eq!((seen.gave_up, seen.hollow), (0, 0), "{seen:?}");
}
