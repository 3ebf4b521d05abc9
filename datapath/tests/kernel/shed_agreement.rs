// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping decides alike in the kernel and natively: on ten million SYNs at random,
//! each with a table, a fallback and a measurement at random; and over a trace of a crowd that
//! sends its SYNs again, each step with what the step before left.

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;

use crate::common::agreement::{Kernel, tuple};
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree_shed;
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::*;
use tidegate_policy::shed;

const INPUTS: usize = 10_000_000;
const SEED: u64 = 0x7065_7273_6973_7421;

const TURN_NS: u64 = TG_SHED_TURN_NS;
const WINDOW_NS: u64 = TG_SHED_WINDOW_NS;

fn kernel() -> Kernel<tg_shed_case, tg_shed_answers> {
    Kernel::load(&["agree_shed"], "shed_")
}

/// Which decisions were made, so that agreement is about something.
#[derive(Default)]
struct Coverage {
    decisions: BTreeMap<(u32, u32), u64>,
    wanted_blocks: u64,
    fell_back: u64,
    came_back: u64,
    judged: u64,
    stamped: u64,
    stepped: u64,
    moved: u64,
}

impl Coverage {
    fn add(&mut self, case: &tg_shed_case, answers: &tg_shed_answers) {
        *self.decisions.entry((answers.decision.reason, answers.decision.verdict)).or_default() +=
            1;
        self.wanted_blocks += u64::from(answers.wants_block != 0);
        self.fell_back += u64::from(answers.state.fallback > case.state.fallback);
        self.came_back += u64::from(answers.state.fallback < case.state.fallback);
        self.judged += u64::from(answers.state.preferred_judged != case.state.preferred_judged);
        self.stamped += u64::from(answers.block.stamps != case.block.stamps);
        let (control, before) = (answers.state.control, case.state.control);
        self.stepped += u64::from(control.stepped_ns != before.stepped_ns);
        self.moved += u64::from(control.p_x32 != before.p_x32 && control.p_x32 != 0);
    }

    fn print(&self) {
        for ((reason, verdict), count) in &self.decisions {
            let (reason, verdict) = (REASONS[*reason as usize], VERDICTS[*verdict as usize]);
            println!("{reason:<28} {verdict:<7} {count:>9}");
        }
        println!(
            "fell back {}, came back {}, preferred judged or not {}, blocks written {}, steps {}, \
             p* moved {}",
            self.fell_back, self.came_back, self.judged, self.stamped, self.stepped, self.moved
        );
    }

    fn count(&self, reason: u32, verdict: u32) -> u64 {
        self.decisions.get(&(reason, verdict)).copied().unwrap_or_default()
    }
}

fn one_of<const N: usize>(rng: &mut Rng, values: [u64; N]) -> u64 {
    values[rng.usize(..N)]
}

/// Close to `anchor`, or anything.
fn near(rng: &mut Rng, anchor: u64) -> u64 {
    match rng.u8(..8) {
        0 => rng.u64(..),
        1 => anchor,
        2 => anchor.wrapping_sub(rng.u64(..5)),
        3 => anchor.wrapping_add(rng.u64(..5)),
        _ => (anchor as f64 * (0.5 + rng.f64())) as u64,
    }
}

fn rules(rng: &mut Rng) -> tg_shed_rules {
    let p = [0.001, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0][rng.usize(..7)];
    let mut rules = tg_shed_rules::new(rng.u32(..5), rng.u32(..2), p, rng.u32(1..12));
    rules.is_auto = u32::from(rng.u8(..3) == 0);
    rules.rate_per_s = one_of(rng, [0, 0, 1, 1000, u64::from(u32::MAX)]) as u32;
    if rng.u8(..16) == 0 {
        rules.p_x32 = near(rng, rules.p_x32);
        rules.uniform_x32 = near(rng, rules.uniform_x32);
    }
    rules.refusal = rng.u32(..3);
    rules.has_preferred = rng.u32(..2);
    rules.first_block = rng.u32(..1000);
    rules.blocks = rng.u32(..20_000);
    rules
}

/// A moment of the wall clock: near a turn, at the edges of what is remembered over it, or any.
fn clock(rng: &mut Rng) -> u64 {
    let turn = rng.u64(1..7_000_000) * TURN_NS;
    let edge = one_of(rng, [0, WINDOW_NS, TURN_NS - WINDOW_NS, TURN_NS - 1, TURN_NS / 2]);
    match rng.u8(..4) {
        0 => rng.u64(..),
        1 => turn + edge + rng.u64(..3),
        _ => turn + rng.u64(..TURN_NS),
    }
}

fn block(rng: &mut Rng, tick: u32) -> tg_shed_block {
    let since = one_of(rng, [0, 63, 64, 134, 135, 136]);
    let mut block = tg_shed_block {
        swept_tick: tick.wrapping_sub(near(rng, since) as u32).into(),
        stamps: [0; TG_SHED_CELLS as usize],
    };
    let load = rng.u8(..5);
    for stamp in &mut block.stamps {
        if rng.u8(..5) < load {
            let age = one_of(rng, [0, 1, 69, 70, 71, 72, 254, 255]) as u32;
            *stamp = if rng.bool() { rng.u8(..) } else { tick.wrapping_sub(age) as u8 };
        }
    }
    block
}

/// A measurement that is about to be judged, near what turns the judgement.
fn monitor(rng: &mut Rng, rules: &tg_shed_rules, now_ns: u64) -> tg_shed_monitor {
    let arrivals = one_of(rng, [0, 2047, 2048, 200_000]);
    let arrivals = near(rng, arrivals) as u32;
    let part = |rng: &mut Rng, share_x32: u64| -> u32 {
        near(rng, ((u128::from(arrivals) * u128::from(share_x32)) >> 32) as u64) as u32
    };
    let edges = [
        rules.p_x32 / 2,
        rules.p_x32 - rules.p_x32 / 4,
        rules.p_x32,
        rules.p_x32.saturating_add(rules.p_x32 / 2),
    ];
    let (chosen, taken) = (one_of(rng, edges), one_of(rng, edges));
    tg_shed_monitor {
        since_ns: if rng.u8(..8) == 0 { 0 } else { now_ns.wrapping_sub(near(rng, 1 << 28)) },
        spared: rng.u64(..),
        asked: near(rng, u64::from(arrivals).wrapping_mul(rules.p_x32 >> 8)),
        arrivals,
        chosen: part(rng, chosen),
        taken: part(rng, taken),
        passed: rng.u32(..10_000),
        preferred: rng.u32(..10_000),
        padding: 0,
    }
}

/// Of queues and rates that there are, and now and then of any.
fn number(rng: &mut Rng) -> u64 {
    match rng.u8(..16) {
        0 => rng.u64(..),
        1 => 0,
        bits => rng.u64(..1 << (2 * bits)),
    }
}

fn queue(rng: &mut Rng) -> tg_auto_queue {
    let limit = one_of(rng, [0, 1, 128, 4096]) as u32;
    let listen_len = near(rng, u64::from(limit) / 2) as u32;
    let waiting = listen_len.wrapping_add(rng.u32(..200));
    tg_auto_queue { listen_len, waiting, limit, has_room: rng.u32(..2) }
}

/// The control in the middle of something; often a step is due.
fn control(rng: &mut Rng, rules: &tg_shed_rules, now_ns: u64) -> tg_auto {
    let ago_ns = one_of(rng, [0, 1 << 24, 1 << 25, 1 << 26, 1 << 29, 1 << 30, 1 << 40]);
    let seen = rng.u64(..100_000);
    let listen_len = rng.u64(..5000);
    tg_auto {
        p_x32: near(rng, rules.p_x32) & ((1 << 32) - 1),
        uniform_x32: near(rng, rules.uniform_x32),
        fresh_x256: number(rng),
        drain_x256: number(rng),
        queue_x256: near(rng, listen_len * 256),
        waiting_x256: near(rng, listen_len * 256),
        stepped_ns: if rng.u8(..16) == 0 { 0 } else { now_ns.wrapping_sub(near(rng, ago_ns)) },
        is_shedding: rng.u32(..2),
        starved: if rng.u8(..32) == 0 { rng.u32(..) } else { rng.u32(..12) },
        stepping: u64::from(rng.u8(..16) == 0),
        passed: near(rng, seen),
        entered: near(rng, seen / 2),
        seen,
        queued: near(rng, seen * listen_len),
        waited: near(rng, seen * listen_len),
    }
}

fn case(rng: &mut Rng) -> tg_shed_case {
    let rules = rules(rng);
    let now_ns = rng.u64(..1 << 56);
    let tick = (now_ns >> TG_SHED_TICK_SHIFT) as u32;
    tg_shed_case {
        rules,
        key: tg_key { k0: rng.u64(..), k1: rng.u64(..) },
        tuple: tuple(rng),
        syn: tg_shed_syn {
            now_ns,
            clock_ns: clock(rng),
            isn: rng.u32(..),
            random: rng.u32(..),
            preferred: u32::from(rng.u8(..4) == 0),
            padding: 0,
        },
        block: block(rng, tick),
        state: tg_shed_state {
            changed_ns: rng.u64(..),
            fallback: rng.u32(..3),
            preferred_judged: rng.u32(..2),
            changes: rng.u32(..),
            padding: 0,
            control: control(rng, &rules, now_ns),
        },
        monitor: monitor(rng, &rules, now_ns),
        refusals: tg_bucket { last_ns: near(rng, now_ns), credit_ns: near(rng, 1_000_000) },
        refusal_cost_ns: one_of(rng, [0, 1000, 1_000_000]) as u32,
        has_block: u32::from(rng.u8(..8) != 0),
        is_answered: rng.u32(..2),
        is_taken: u32::from(rng.u8(..8) == 0),
        queue: queue(rng),
    }
}

#[test]
fn native_and_bpf_agree_on_ten_million_random_syns() {
    if skip_without_root("native_and_bpf_agree_on_ten_million_random_syns") {
        return;
    }
    let mut kernel = kernel();
    let mut rng = Rng::with_seed(SEED);
    let mut coverage = Coverage::default();
    let compared = kernel.agrees(
        INPUTS,
        || case(&mut rng),
        agree_shed,
        |case, native| coverage.add(case, native),
    );
    println!("{compared} SYNs, seed {SEED:#x}, no difference");
    coverage.print();
    for reason in [TG_SHED_STATELESS, TG_SHED_NEW, TG_SHED_AGAIN, TG_SHED_UNIFORM] {
        for verdict in [TG_DROP, TG_RESET, TG_HOLLOW] {
            assert!(coverage.count(reason, verdict) > 1000, "{reason} {verdict}");
        }
    }
    // Whose request stands is let through as one of whom nothing was asked.
    for (reason, verdict) in [
        (TG_FORWARDED, TG_PASS),
        (TG_SPARED, TG_PASS),
        (TG_REFUSAL_LIMIT, TG_DROP),
        (TG_ROOM, TG_PASS),
    ] {
        assert!(coverage.count(reason, verdict) > 1000, "{reason} {verdict}");
    }
    for count in [
        coverage.wanted_blocks,
        coverage.fell_back,
        coverage.came_back,
        coverage.judged,
        coverage.stamped,
        coverage.stepped,
        coverage.moved,
    ] {
        assert!(count > 1000, "{count}");
    }
}

/// A crowd's SYNs over ten minutes, as they come: Linux's and Windows' times, consecutive ports.
/// Whoever is not dropped is connected and sends no more.
struct Trace {
    due: BTreeMap<(u64, u32), u8>,
}

const LINUX_S: [u64; 11] = [0, 1, 2, 3, 4, 5, 7, 11, 19, 35, 67];
const WINDOWS_S: [u64; 5] = [0, 1, 3, 7, 15];
const REQUESTS: u32 = 60_000;

impl Trace {
    fn new() -> Self {
        let due = (0..REQUESTS).map(|who| ((u64::from(who) * 10_000_000, who), 0)).collect();
        Trace { due }
    }

    /// When, who, and which attempt.
    fn next(&mut self) -> Option<(u64, u32, u8)> {
        self.due.pop_first().map(|((at_ns, who), attempt)| (at_ns, who, attempt))
    }

    fn dropped(&mut self, who: u32, attempt: u8) {
        let times = if who.is_multiple_of(3) { &WINDOWS_S[..] } else { &LINUX_S };
        if let Some(after) = times.get(usize::from(attempt) + 1) {
            let first = u64::from(who) * 10_000_000;
            self.due.insert((first + after * 1_000_000_000, who), attempt + 1);
        }
    }
}

fn connection(who: u32) -> tg_tuple {
    let from = (Ipv4Addr::from(0x0a00_0000 | (who / 40)), 40_000 + (who % 40) as u16);
    tg_tuple::between(from.into(), (Ipv4Addr::new(10, 9, 0, 1), 443).into())
}

/// The native policy goes through the trace, with a table and all that it measures; the kernel
/// gets each of its steps to do again.
fn replay(
    kernel: &mut Kernel<tg_shed_case, tg_shed_answers>,
    policy: u32,
    key: u32,
) -> (Coverage, u64) {
    let rules =
        tg_shed_rules { blocks: shed::blocks(200, 1.2), ..tg_shed_rules::new(policy, key, 0.1, 5) };
    let mut table = vec![tg_shed_block::default(); rules.blocks as usize];
    let (mut state, mut monitor) = (tg_shed_state::default(), tg_shed_monitor::default());
    let mut trace = Trace::new();
    let mut rng = Rng::with_seed(SEED);
    let mut steps: VecDeque<tg_shed_case> = VecDeque::new();
    let mut coverage = Coverage::default();
    let begin = 6_400_000 * TURN_NS + TURN_NS / 2;
    while let Some((at_ns, who, attempt)) = trace.next() {
        let mut case = tg_shed_case {
            rules,
            key: tg_key { k0: 5, k1: 6 },
            tuple: connection(who),
            syn: tg_shed_syn {
                now_ns: 1_000_000_000_000 + at_ns,
                clock_ns: begin + at_ns,
                isn: who.wrapping_mul(0x9e37_79b9),
                random: rng.u32(..),
                ..Default::default()
            },
            state,
            monitor,
            ..Default::default()
        };
        let place = agree_shed(&case);
        case.has_block = place.wants_block;
        if place.wants_block != 0 {
            case.block = table[place.block_index as usize];
        }
        let answers = agree_shed(&case);
        if place.wants_block != 0 {
            table[place.block_index as usize] = answers.block;
        }
        (state, monitor) = (answers.state, answers.monitor);
        coverage.add(&case, &answers);
        if answers.decision.verdict == TG_DROP {
            trace.dropped(who, attempt);
        }
        steps.push_back(case);
    }
    let all = steps.len();
    kernel.agrees(all, || steps.pop_front().unwrap_or_default(), agree_shed, |_, _| ());
    (coverage, all as u64)
}

#[test]
fn native_and_bpf_agree_over_a_trace_of_a_persistent_crowd() {
    if skip_without_root("native_and_bpf_agree_over_a_trace_of_a_persistent_crowd") {
        return;
    }
    let mut kernel = kernel();
    for (name, policy) in [("rbd", TG_RBD), ("slpd", TG_SLPD), ("sbpd", TG_SBPD)] {
        for (kind, key) in [("client", TG_KEY_CLIENT), ("connection", TG_KEY_CONNECTION)] {
            let (coverage, syns) = replay(&mut kernel, policy, key);
            println!("{name} by {kind}: {syns} SYNs of {REQUESTS} requests");
            coverage.print();
            assert!(syns > u64::from(REQUESTS) * 21 / 20, "someone came again");
        }
    }
}
