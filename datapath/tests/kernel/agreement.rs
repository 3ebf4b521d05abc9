// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One decision: the policy that the simulator runs and the policy that the kernel runs
//! answer alike, on ten million inputs that crowd the boundaries.

use crate::common::agreement::{Kernel, tuple};
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree;
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::*;

const INPUTS: usize = 10_000_000;
/// What a bucket holds.
const DEPTH_NS: u64 = TG_BUCKET_DEPTH_NS as u64;
const SEED: u64 = 0x7469_6465_6761_7465;

const EXTREMES: [u32; 8] = [0, 1, 0x7fff_ffff, 0x8000_0000, 0x8000_0001, u32::MAX - 1, u32::MAX, 2];

/// A number where comparisons and arithmetic turn: close to `anchor`, small, extreme, or any.
fn word(rng: &mut Rng, anchor: u32) -> u32 {
    match rng.u8(..10) {
        0..6 => anchor.wrapping_add(rng.u32(..7)).wrapping_sub(3),
        6 | 7 => rng.u32(..9),
        8 => EXTREMES[rng.usize(..EXTREMES.len())],
        _ => rng.u32(..),
    }
}

fn long(rng: &mut Rng, anchor: u64) -> u64 {
    match rng.u8(..10) {
        0..6 => anchor.wrapping_add(rng.u64(..7)).wrapping_sub(3),
        6 => rng.u64(..9),
        7 => u64::MAX - rng.u64(..3),
        8 => rng.u64(..DEPTH_NS * 3),
        _ => rng.u64(..),
    }
}

fn one_of<const N: usize>(rng: &mut Rng, values: [u32; N]) -> u32 {
    values[rng.usize(..N)]
}

/// A value of an enum whose last is `last`, and now and then the one behind it.
fn variant(rng: &mut Rng, last: u32) -> u32 {
    if rng.u8(..16) == 0 { last + 1 } else { rng.u32(..=last) }
}

/// Close to one of these.
fn near<const N: usize>(rng: &mut Rng, anchors: [u32; N]) -> u32 {
    let anchor = one_of(rng, anchors);
    word(rng, anchor)
}

/// Every combination, and now and then a rule that is none.
fn rules(rng: &mut Rng, age_ms: u32) -> tg_rules {
    tg_rules {
        room: variant(rng, TG_ROOM_RESERVE),
        syn: variant(rng, TG_SYN_COOKIE),
        ack: variant(rng, TG_ACK_RESET),
        overbook_x256: near(rng, [0, 256, 257, 384, 512, 2560]),
        cookie_when_reserved: rng.u32(..2),
        early_from_x256: near(rng, [0, 64, 128, 253, 256]),
        early_probability_x256: near(rng, [0, 26, 128, 256]),
        clean_after_ms: word(rng, age_ms),
        refusal_cost_ns: near(rng, [0, 1000, 1_000_000, DEPTH_NS as u32]),
        fin: variant(rng, TG_RST_FIN_STRICT),
        is_auto: rng.u32(..2),
        patience_ms: near(rng, [0, 1, 1000, 10_000, 600_000]),
        syn_ns: near(rng, [0, 1, 500, 9000, 1_000_000]).into(),
        wait_us: near(rng, [0, 5000, 999_999, 1_000_000]),
        places: if rng.bool() { 0 } else { near(rng, [64, 128]) },
        notice: rng.u32(..2),
        come_back_ticks: near(rng, [0, 1, TG_NOTICE_TICKS_MOST]),
        // No decision asks for it.
        log_cost_ns: 0,
        ahead: if rng.bool() { 0 } else { near(rng, [1, 64, 128, u32::MAX]) },
        // What was asked of a share comes as the source: share_agreement.rs.
        share_ipv4_bits: 0,
        share_ipv6_bits: 0,
    }
}

fn queues(rng: &mut Rng) -> tg_queues {
    let listen_max = near(rng, [0, 1, 5, 64, 128, 511, 4096, 65535]);
    let syn_len = near(rng, [0, listen_max / 2, listen_max, listen_max.saturating_mul(2)]);
    // SynQ3/4Full turns where a quarter of syn_max is what is left.
    let syn_max = near(rng, [128, 4096, syn_len, (syn_len / 3).saturating_mul(4)]);
    tg_queues {
        listen_len: near(rng, [0, listen_max / 2, listen_max, listen_max]),
        listen_max,
        syn_len,
        syn_max,
        syncookies: variant(rng, 2),
        claimed: if rng.bool() { 0 } else { word(rng, 1) },
        members: one_of(rng, [0, 1, 8, 0xffff]) as u16,
        places: if rng.bool() { 0 } else { near(rng, [listen_max / 2, listen_max]) },
        shut: rng.u16(..3),
    }
}

/// About where it is known that clients speak first, and where what was seen is halved.
fn speaks(rng: &mut Rng) -> tg_speaks {
    let clients = near(rng, [0, TG_SPEAKS_LEAST, 64, 1024]);
    tg_speaks { clients, servers: near(rng, [0, clients / TG_SPEAKS_SHARE]) }
}

/// About where a server is behind, of a count that may be old or have been seen before.
fn inside(rng: &mut Rng, now_ns: u64) -> tg_inside {
    let unanswered = near(rng, [0, TG_INSIDE_LEAST, TG_OVERLOAD_BOUND_LEAST]);
    tg_inside {
        at_ns: counted_ns(rng, now_ns),
        unanswered,
        unread: near(rng, [0, TG_INSIDE_LEAST, unanswered / TG_INSIDE_SHARE]),
        gone: near(rng, [0, TG_INSIDE_LEAST, unanswered / TG_INSIDE_MOST]),
        queued: near(rng, [0, TG_OVERLOAD_BOUND_LEAST]),
        let_in: near(rng, [0, 1000]),
        padding: 0,
    }
}

/// When who waits was counted; 0: never.
fn counted_ns(rng: &mut Rng, now_ns: u64) -> u64 {
    match rng.u8(..4) {
        0 => 0,
        1 => now_ns.wrapping_sub(u64::from(TG_OVERLOAD_WINDOW_NS)),
        _ => now_ns.wrapping_sub(long(rng, TG_INSIDE_OLD_NS.into())),
    }
}

/// About where as many have been answered as tell, or the time for it is over, and where they are less than they were.
fn enough(rng: &mut Rng, now_ns: u64) -> tg_enough {
    let answered = 1 << one_of(rng, [8, 16, 20, 40]);
    tg_enough {
        since_ns: if rng.u8(..4) == 0 {
            0
        } else {
            now_ns.wrapping_sub(long(rng, TG_ENOUGH_MOST_NS))
        },
        waiting: near(rng, [0, TG_ENOUGH_ANSWERED, 2000]).into(),
        did_x256: if rng.u8(..4) == 0 { 0 } else { long(rng, answered) },
        raised_x256: if rng.bool() { 0 } else { long(rng, answered) },
        let_in: near(rng, [0, 1000]),
        least: near(rng, [0, TG_ENOUGH_LEAST, 1000]),
        tries: near(rng, [0, TG_ENOUGH_TRIES - 1]),
        is_tried: rng.u32(..2),
    }
}

/// Another processor closes the window, or began to about as long ago as it has for it.
fn closing(rng: &mut Rng, now_ns: u64) -> u32 {
    let tick = (now_ns >> TG_OVERLOAD_CLOSING_SHIFT) as u32 | 1;
    tick.wrapping_sub(one_of(rng, [0, 1, 255, 256, 257, u32::MAX - 255, 1 << 31]))
}

/// A watch some way into its window, in any phase.
fn overload(rng: &mut Rng, now_ns: u64) -> tg_overload {
    let ago = |rng: &mut Rng, spans: [u32; 4]| {
        let span = u64::from(one_of(rng, spans));
        now_ns.wrapping_sub(long(rng, span))
    };
    let window = TG_OVERLOAD_WINDOW_NS;
    let rate = |rng: &mut Rng| {
        let anchor = 1 << one_of(rng, [8, 20, 40, 42]);
        long(rng, anchor)
    };
    let seen = u64::from(near(rng, [0, 1, 31, 32, 1000]));
    tg_overload {
        window_ns: ago(rng, [0, window / 2, window, 4 * (window - 1)]),
        since_ns: if rng.u8(..4) == 0 { 0 } else { ago(rng, [0, window, 4_000_000_000, u32::MAX]) },
        excess_ns: ago(rng, [0, window, 2 * window, 6 * window]),
        dropped_ns: ago(rng, [0, window, 2 * window, 6 * window]),
        half_full_ns: ago(rng, [0, window, 2 * window, 6 * window]),
        fresh_x256: rate(rng),
        kept_out_x256: rate(rng),
        peak_x256: rate(rng),
        drain_x256: rate(rng),
        silent_x256: rate(rng),
        silent: u64::from(near(rng, [0, 26, 53])),
        hastened: u64::from(near(rng, [0, 26, 53])),
        steady: u64::from(near(rng, [0, 26])),
        connected: u64::from(near(rng, [0, 26, 53])),
        cookies: u64::from(near(rng, [0, 16, 1000])),
        returned: u64::from(near(rng, [0, 16, 1000])),
        calm_ms: u64::from(near(rng, [0, 5000, 60_000])),
        bound: u64::from(near(rng, [0, 128, 4096])),
        listened: near(rng, [0, 128, 4096]),
        exempted: near(rng, [0, 10, 1000]),
        taken_x256: u64::from(near(rng, [0, 1000 << 8, 100_000 << 8])),
        on_return: u64::from(near(rng, [0, 16])),
        syn_ns: near(rng, [1, 500, 3000]).into(),
        worth: u64::from(near(rng, [0, 100])),
        may_wait: u64::from(near(rng, [0, 100])),
        in_time: u64::from(near(rng, [0, 100])),
        apart_ns: u64::from(near(rng, [0, 1_000_000])),
        step_ns: u64::from(near(rng, [0, 1_000_000])),
        next_ns: now_ns.wrapping_add(u64::from(near(rng, [0, 16_000_000]))),
        probed_ns: ago(rng, [0, window, 2 * window, 6 * window]),
        round_trip_ns: u64::from(near(rng, [0, 5_000_000, 100_000_000])),
        counted_ns: counted_ns(rng, now_ns),
        waiting: near(rng, [0, TG_INSIDE_LEAST, 1000]).into(),
        answered_x256: rate(rng),
        enough: enough(rng, now_ns),
        may_be_waiting: near(rng, [TG_INSIDE_LEAST, 1000]),
        let_in: near(rng, [0, 1000]),
        counted_let_in: near(rng, [0, 1000]),
        behind: rng.u32(..=TG_INSIDE_COUNTS),
        probe_isn: near(rng, [0, 1]),
        on_their_way: near(rng, [0, 16, 128]),
        was_quiet: rng.u8(..2),
        is_flooded: rng.u8(..2),
        ends_soon: rng.u8(..2),
        supply: rng.u8(..3),
        was_long: rng.u8(..2),
        waiting_sum: u64::from(near(rng, [0, seen as u32])),
        closing_tick: if rng.u8(..8) == 0 { closing(rng, now_ns) } else { 0 },
        proved: near(rng, [0, 16, 250]),
        seen,
        repeated: u64::from(near(rng, [0, seen as u32])),
        fresh: u64::from(near(rng, [0, 1, 1000])),
        dropped: u64::from(near(rng, [0, seen as u32 / 32, seen as u32])),
        fresh_dropped: u64::from(near(rng, [0, 31, 83, 1000])),
        kept_out: u64::from(near(rng, [0, 0, 31, 1000])),
        entered: u64::from(near(rng, [0, 1000])),
        queued: near(rng, [0, 128]),
        places: near(rng, [16, 128]),
        few_places: near(rng, [TG_OVERLOAD_PLACES_FEWEST, 128]),
        small_x16: u64::from(near(rng, [0, 1 << 15, 1 << 16])),
        half_open: if rng.bool() { u32::MAX } else { near(rng, [0, 64, 128]) },
        stuck: near(rng, [0, 64, 128]),
        members: one_of(rng, [0, 1, 8, 0xffff]) as u16,
        is_persistent: rng.u8(..2),
        ended: one_of(rng, [0, 1, u32::MAX]),
        lasted_ms: [(); TG_OVERLOAD_KNOWN as usize].map(|()| near(rng, [0, 1000, 20_000])),
    }
}

/// Where the name at hand is in one of the cells, or in none.
fn block(rng: &mut Rng, name: u64, now_ns: u64) -> tg_waiting_block {
    let mut block = tg_waiting_block::default();
    for cell in &mut block.cells {
        *cell = tg_waiting {
            tag: if rng.u8(..4) == 0 { 0 } else { rng.u32(..) },
            since_tick: ((now_ns >> TG_CELL_TICK_SHIFT) as u16)
                .wrapping_sub(near(rng, [0, TG_TOLD_TICKS, TG_WAITING_TICKS]) as u16),
            times_told: one_of(rng, [0, 0, 1, 2, TG_TOLD_MOST]) as u8,
            waited_ticks: one_of(rng, [0, 3, 5, 6, TG_WAITED_MOST]) as u8,
        };
    }
    if rng.u8(..4) != 0 {
        block.cells[rng.usize(..TG_WAITING_CELLS as usize)].tag = (name >> 32) as u32 | 1;
    }
    block
}

/// An address whose manners are known, among others.
fn manners(rng: &mut Rng, name: u64, now_ns: u64) -> tg_manners_block {
    let tick = (now_ns >> TG_CELL_TICK_SHIFT) as u16;
    let mut block = tg_manners_block::default();
    for cell in &mut block.cells {
        *cell = tg_manners {
            tag: if rng.u8(..4) == 0 { 0 } else { rng.u32(..) },
            tick: tick.wrapping_sub(rng.u16(..3)),
            trial: tick.wrapping_sub(near(rng, [0, TG_MANNERS_TRIAL_TICKS]) as u16),
            lately: near(rng, [0, TG_MANNERS_MANY, 0xffff]) as u16,
            before: near(rng, [0, TG_MANNERS_MANY, 2 * TG_MANNERS_MANY]) as u16,
            told: near(rng, [0, TG_MANNERS_KNOWN - 1]) as u8,
            again: near(rng, [0, TG_MANNERS_KNOWN - 1]) as u8,
            delay: variant(rng, TG_DELAY_HELPS) as u8,
            padding: 0,
        };
    }
    if rng.u8(..4) != 0 {
        block.cells[rng.usize(..TG_MANNERS_CELLS as usize)].tag = (name >> 32) as u32 | 1;
    }
    block
}

fn bucket(rng: &mut Rng, cost_ns: u32) -> tg_bucket {
    let credit = [0, u64::from(cost_ns), DEPTH_NS][rng.usize(..3)];
    tg_bucket { last_ns: rng.u64(..1 << 50), credit_ns: long(rng, credit) }
}

/// A network's limit, or that it is exempt.
fn limit(rng: &mut Rng) -> tg_limit {
    if rng.u8(..4) == 0 {
        return tg_limit::exempt();
    }
    let limit = tg_limit::new(near(rng, [1, 1000, 1_000_000]), near(rng, [1, 100, 1_000_000]));
    if rng.u8(..8) == 0 { tg_limit { burst_ns: rng.u64(..), ..limit } } else { limit }
}

/// The clock seldom stands still, mostly runs, and at times goes backwards.
fn later(rng: &mut Rng, than: u64, cost_ns: u32) -> u64 {
    match rng.u8(..8) {
        0 => than,
        1 => than.wrapping_sub(rng.u64(..DEPTH_NS * 2)),
        2 => than.wrapping_add(u64::from(cost_ns)),
        3 => than.wrapping_add(DEPTH_NS),
        4 => long(rng, than),
        _ => than.wrapping_add(rng.u64(..DEPTH_NS * 2)),
    }
}

fn cookie_options(rng: &mut Rng) -> tg_cookie_options {
    let mss = near(rng, [536, 1220, 1300, 1380, 1440, 1460, 8940, 65475]) as u16;
    tg_cookie_options {
        mss,
        wscale: if rng.u8(..4) == 0 { rng.u8(..) } else { rng.u8(..16) },
        sack: rng.u8(..2),
        ecn: rng.u8(..2),
        padding: [0; 3],
    }
}

/// What the client's ACK brings: a cookie of ours from this epoch or one near it, by either
/// key; the same with one bit wrong; or just a number.
fn offered_cookie(rng: &mut Rng, case: &tg_case) -> u32 {
    if rng.u8(..4) == 0 {
        return rng.u32(..);
    }
    let mut made_by = *case;
    made_by.epoch = case.epoch.wrapping_add(rng.u32(..6)).wrapping_sub(3);
    if rng.bool() {
        made_by.keys.current = case.keys.previous;
    }
    let cookie = agree(&made_by).made.isn;
    if rng.u8(..8) == 0 { cookie ^ 1 << rng.u32(..32) } else { cookie }
}

/// A FIN to a connection, where most numbers are what they should be and some are next to it.
fn fin(rng: &mut Rng) -> tg_fin {
    let (expected, sent) = (word(rng, 0), word(rng, 0x8000_0000));
    let near = |rng: &mut Rng, number: u32| {
        if rng.u8(..4) == 0 { word(rng, number) } else { number }
    };
    let window = one_of(rng, [0, 1, 3, 65535, 0x4000_0000]);
    tg_fin {
        connection: if rng.u8(..4) == 0 {
            variant(rng, TG_CONNECTION_CLOSING)
        } else {
            TG_CONNECTION_OPEN
        },
        payload_bytes: if rng.u8(..8) == 0 { rng.u32(..3) } else { 0 },
        is_signed: u32::from(rng.u8(..16) == 0),
        seq: near(rng, expected),
        ack: near(rng, sent),
        rcv_nxt: expected,
        rcv_end: near(rng, expected.wrapping_add(window)),
        copied_seq: near(rng, expected),
        snd_una: near(rng, sent),
        snd_nxt: near(rng, sent),
        write_seq: near(rng, sent),
    }
}

fn case(rng: &mut Rng) -> tg_case {
    let queues = queues(rng);
    let age_ms = one_of(rng, [0, 1000, 3000, u32::MAX]);
    let rules = rules(rng, age_ms);
    let refusals = bucket(rng, rules.refusal_cost_ns);
    let now_ns = later(rng, refusals.last_ns, rules.refusal_cost_ns);
    let (name, address_name) = (rng.u64(..), rng.u64(..));
    let limit = limit(rng);
    let full_ns = now_ns.wrapping_add(long(rng, limit.burst_ns));
    let mut case = tg_case {
        syn: tg_syn {
            now_ns,
            random: if rng.bool() { rng.u32(..) } else { word(rng, rules.early_probability_x256) },
            half_open: u16::from(rng.u8(..8) == 0),
            cookie_usable: u16::from(rng.u8(..4) != 0),
            answer: 0,
            source: one_of(rng, [0, 0, 0, 0, 0, TG_SOURCE_BEYOND, TG_SOURCE_WITHIN]) as u16,
            sends_again: rng.u16(..2),
            taken: u16::from(rng.u8(..4) == 0),
        },
        is_limited: u32::from(rng.u8(..4) == 0),
        limit,
        full_ns,
        ack: tg_ack {
            is_request: rng.u32(..2),
            acceptable: u32::from(rng.u8(..4) != 0),
            deferred: u16::from(rng.u8(..4) == 0),
            bare: rng.u32(..2),
            cookie: variant(rng, TG_ACK_BEHIND),
            silent: rng.u8(..2),
            speaks_first: rng.u8(..2),
            was_told: rng.u8(..2),
            exempt: rng.u8(..2),
            is_signed: rng.u16(..2),
        },
        overload: overload(rng, now_ns),
        block: block(rng, name, now_ns),
        manners: manners(rng, address_name, now_ns),
        name,
        address_name,
        speaks: speaks(rng),
        inside: inside(rng, now_ns),
        client_isn: word(rng, 0),
        tuple: tuple(rng),
        options: cookie_options(rng),
        keys: tg_cookie_keys {
            current: tg_key { k0: rng.u64(..), k1: rng.u64(..) },
            previous: tg_key { k0: rng.u64(..), k1: rng.u64(..) },
        },
        // The epoch's own wrap, and the wrap of the bits that a cookie keeps of it.
        epoch: word(rng, 27_000_000),
        age_ms: u64::from(word(rng, age_ms)),
        fin: fin(rng),
        fin_said: if rng.bool() { 0 } else { variant(rng, TG_RST_FIN_STRICT + 1) },
        rules,
        queues,
        refusals,
        ..Default::default()
    };
    case.cookie = offered_cookie(rng, &case);
    case
}

/// Which decisions were made, so that agreement is about something.
#[derive(Default)]
struct Coverage {
    syn: tg_counters,
    ack: tg_counters,
    fin: tg_counters,
    cookies_opened: u64,
    cookies_refused: u64,
    stale: u64,
    overflow_possible: u64,
    watched: u64,
    unwatched: u64,
    silent: u64,
    hollow: u64,
    connected: u64,
    delayed: u64,
    persistent: u64,
    kept_waiting: u64,
}

impl Coverage {
    /// What the answers begin as is the case's own: only what has become of it is a decision.
    fn add(&mut self, case: &tg_case, answers: &tg_answers) {
        for (stage, decision) in [
            (&mut self.syn, answers.syn),
            (&mut self.ack, answers.ack),
            (&mut self.fin, answers.fin),
        ] {
            stage.packets[decision.reason as usize][decision.verdict as usize] += 1;
        }
        self.cookies_opened += u64::from(answers.opened_ok != 0);
        self.cookies_refused += u64::from(answers.opened_ok == 0);
        self.stale += u64::from(answers.stale != 0);
        self.overflow_possible += u64::from(answers.overflow_possible != 0);
        self.watched += u64::from(answers.watch_ns != 0);
        self.unwatched += u64::from(answers.watch_ns == 0);
        self.silent += u64::from(answers.answer == TG_ANSWER_SILENCE);
        self.hollow += u64::from(answers.answer == TG_ANSWER_HOLLOW);
        self.connected += u64::from(answers.answer == TG_ANSWER_COOKIE);
        let cells = answers.manners.cells.iter().zip(&case.manners.cells);
        let is_delayed = |now: &tg_manners| u32::from(now.delay) != TG_DELAY_NONE;
        let later = cells.filter(|(now, was)| now.delay != was.delay && is_delayed(now));
        self.delayed += later.count() as u64;
        let places = answers.queues.places;
        self.persistent += u64::from(places != 0 && places != case.queues.places);
        self.kept_waiting += u64::from(answers.overload.silent > case.overload.silent);
    }

    fn print(&self, stage: &str, counts: &tg_counters) {
        for (reason, row) in REASONS.iter().zip(&counts.packets) {
            for (verdict, count) in VERDICTS.iter().zip(row).filter(|(_, n)| **n > 0) {
                println!("{stage:>4} {reason:<28} {verdict:<7} {count:>9}");
            }
        }
    }

    fn assert_complete(&self) {
        let seen =
            |counts: &tg_counters, reason: u32| counts.packets[reason as usize].iter().sum::<u64>();
        for reason in TG_ROOM..TG_HANDSHAKE {
            assert!(seen(&self.syn, reason) > 0, "SYN: {} never came", REASONS[reason as usize]);
        }
        for reason in TG_HANDSHAKE..=TG_HOLLOW_ANSWERED {
            assert!(seen(&self.ack, reason) > 0, "ACK: {} never came", REASONS[reason as usize]);
        }
        for reason in TG_FIN_ENDS..=TG_FIN_UNACKED {
            assert!(seen(&self.fin, reason) > 0, "FIN: {} never came", REASONS[reason as usize]);
        }
        for (stage, counts, verdicts) in [
            ("SYN", &self.syn, [TG_PASS, TG_DROP, TG_RESET, TG_COOKIE, TG_HOLLOW].as_slice()),
            ("ACK", &self.ack, &[TG_PASS, TG_RESET, TG_ADMIT]),
            ("FIN", &self.fin, &[TG_PASS, TG_RESET]),
        ] {
            for verdict in verdicts {
                let count: u64 = counts.packets.iter().map(|row| row[*verdict as usize]).sum();
                assert!(count > 0, "{stage}: {} never came", VERDICTS[*verdict as usize]);
            }
        }
        for (what, count) in [
            ("a cookie that opens", self.cookies_opened),
            ("a cookie that does not", self.cookies_refused),
            ("a stale reservation", self.stale),
            ("a possible overflow", self.overflow_possible),
            ("a SYN for which ACKs are looked at", self.watched),
            ("a SYN for which they are not", self.unwatched),
            ("silence", self.silent),
            ("a hollow answer", self.hollow),
            ("a client that waits connected", self.connected),
            ("an address that is told later", self.delayed),
            ("a short queue", self.persistent),
            ("a client that waits", self.kept_waiting),
        ] {
            assert!(count > 1000, "{what} came {count} times");
        }
    }
}

#[test]
fn the_native_policy_and_the_bpf_policy_agree_on_ten_million_inputs() {
    if skip_without_root("the_native_policy_and_the_bpf_policy_agree_on_ten_million_inputs") {
        return;
    }
    let mut kernel = Kernel::<tg_case, tg_answers>::load(
        &["agree_source", "agree_syn_begin", "agree_syn_room", "agree_syn_end", "agree_rest"],
        "",
    );
    let mut rng = Rng::with_seed(SEED);
    let mut coverage = Coverage::default();
    let compared =
        kernel.agrees(INPUTS, || case(&mut rng), agree, |case, native| coverage.add(case, native));

    println!("{compared} inputs, seed {SEED:#x}, no difference");
    coverage.print("SYN", &coverage.syn);
    coverage.print("ACK", &coverage.ack);
    coverage.print("FIN", &coverage.fin);
    coverage.assert_complete();
}
