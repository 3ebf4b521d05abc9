// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, and what becomes of a held pair, is decided alike in the kernel and
//! natively: on a million connections at random.

use std::collections::BTreeSet;

use crate::common::agreement::Kernel;
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree_time_wait;
use tidegate_policy::raw::*;

const INPUTS: usize = 1_000_000;
const SEED: u64 = 0x7469_6d65_2d77_6169;
const NOW_NS: u64 = 1 << 40;

/// Few addresses, so that they are often the same.
fn address(rng: &mut Rng) -> [u32; 4] {
    let last = rng.u32(0..3).to_be();
    [rng.u32(0..2), 0, 0, if rng.bool() { last } else { 0 }]
}

fn value(rng: &mut Rng) -> tg_tw_value {
    tg_tw_value { addr: address(rng), family: [0, 4, 6][rng.usize(0..3)] }
}

fn cell(rng: &mut Rng) -> tg_held {
    let near = |rng: &mut Rng| rng.u32(0..8).wrapping_sub(4);
    tg_held {
        until_ns: [0, NOW_NS - 1, NOW_NS, NOW_NS + 1, NOW_NS + rng.u64(0..100)][rng.usize(0..5)],
        own: address(rng),
        peer: address(rng),
        own_port: rng.u16(0..2),
        peer_port: rng.u16(0..2),
        snd_nxt: near(rng),
        rcv_nxt: near(rng),
        own_ts: near(rng),
        peer_ts: near(rng),
        flags: rng.u32(0..32),
    }
}

fn block(rng: &mut Rng) -> tg_held_block {
    let full = rng.bool();
    let mut block = tg_held_block::default();
    for one in &mut block.cells {
        *one = cell(rng);
        if full {
            one.until_ns = NOW_NS + 1 + rng.u64(0..100);
        }
    }
    block
}

fn case(rng: &mut Rng) -> tg_tw_case {
    let mut option = tg_tw_option::default();
    rng.fill(&mut option.bytes);
    for (byte, right) in option.bytes.iter_mut().zip([253, [8, 20][rng.usize(0..2)], 0x54, 0x57]) {
        if rng.u8(0..8) > 0 {
            *byte = right;
        }
    }
    let mut pair = cell(rng);
    let (one, other) = (block(rng), block(rng));
    if rng.bool() {
        pair = tg_held { until_ns: 0, ..one.cells[rng.usize(0..8)] };
    }
    tg_tw_case {
        one,
        other,
        pair,
        key: tg_key { k0: rng.u64(..), k1: rng.u64(..) },
        now_ns: NOW_NS,
        segment: tg_held_segment {
            seq: rng.u32(0..8).wrapping_sub(4),
            ts: rng.u32(0..8).wrapping_sub(4),
            has_ts: rng.u32(0..2),
            outgoing: rng.u32(0..2),
            syn: rng.u16(0..2),
            ack: rng.u16(0..2),
            rst: u32::from(rng.u8(0..4) == 0),
        },
        tuple: tg_tuple {
            saddr: address(rng),
            daddr: address(rng),
            sport: rng.u16(..),
            dport: rng.u16(..),
            is_ipv6: rng.u32(0..2),
        },
        value: value(rng),
        peer: value(rng),
        option,
        rules: tg_tw_rules {
            negotiate: rng.u32(0..4),
            insist: rng.u32(0..2),
            close_swap: rng.u32(0..2),
        },
        offered: rng.u32(0..3),
        answered: rng.u32(0..3),
        confirmed: rng.u32(0..3),
        us: rng.u32(1..3),
        close: rng.u32(0..2),
        can_hold: rng.u32(0..2),
        must: rng.u32(0..2),
        blocks: rng.u32(..),
    }
}

#[test]
fn the_kernel_and_the_native_build_decide_alike() {
    if skip_without_root("the_kernel_and_the_native_build_decide_alike") {
        return;
    }
    let mut kernel = Kernel::<tg_tw_case, tg_tw_answers>::load(&["agree_time_wait"], "time_wait_");
    let mut rng = Rng::with_seed(SEED);
    // Which answers were given, so that agreement is about something.
    let mut seen: BTreeSet<(&str, u32)> = BTreeSet::new();
    kernel.agrees(
        INPUTS,
        || case(&mut rng),
        agree_time_wait,
        |_, native| {
            seen.extend([
                ("put", native.put),
                ("judged", native.judged),
                ("bytes", native.bytes),
                ("read", native.read.family),
                ("named", native.named),
                ("met", native.met.family),
                ("verdict", native.verdict),
                ("settled", native.settled),
                ("end", native.end),
                ("promised", native.promised),
                ("room", native.room),
            ]);
        },
    );
    let answers = |what: &str| seen.iter().filter(|(name, _)| *name == what).count();
    for (what, kinds) in [
        ("put", 3),
        ("judged", 3),
        ("bytes", 3),
        ("read", 3),
        ("named", 3),
        ("met", 3),
        ("verdict", 3),
        ("settled", 3),
        ("end", 4),
        ("promised", 3),
        ("room", 2),
    ] {
        assert_eq!(answers(what), kinds, "{what}: {seen:?}");
    }
}
