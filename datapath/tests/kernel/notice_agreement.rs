// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a refusal says, and what a client's host makes of it, is decided alike in the kernel and
//! natively: on a million RSTs at random.

use std::collections::BTreeSet;

use crate::common::agreement::Kernel;
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree_notice;
use tidegate_policy::raw::*;

const INPUTS: usize = 1_000_000;
const SEED: u64 = 0x6e6f_7469_6365;
const NOW_NS: u64 = 1 << 40;

/// Mostly this number, at times one next to it or any other.
fn near(rng: &mut Rng, number: u32) -> u32 {
    match rng.u8(..8) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        2 => rng.u32(..),
        _ => number,
    }
}

fn rst(rng: &mut Rng) -> tg_notice_rst {
    let isn = near(rng, u32::MAX);
    let ticks = [0, 1, 200, TG_NOTICE_TICKS_MOST][rng.usize(..4)];
    tg_notice_rst {
        is_connecting: u32::from(rng.u8(..8) != 0),
        has_ack: u32::from(rng.u8(..8) != 0),
        ack: near(rng, isn.wrapping_add(1)),
        snd_una: isn,
        write_seq: near(rng, isn.wrapping_add(1)),
        payload_bytes: near(rng, 8),
        payload: [near(rng, 0x33aa_000a), near(rng, 0)],
        option: [near(rng, 0xfd06_5442), near(rng, ticks << 16 | 0x0101)],
    }
}

fn case(rng: &mut Rng) -> tg_notice_case {
    let word = |rng: &mut Rng| if rng.bool() { 0 } else { rng.u32(..) };
    tg_notice_case {
        stands_ns: [0, NOW_NS - 1, NOW_NS + rng.u64(..1 << 40)][rng.usize(..3)],
        now_ns: NOW_NS,
        rules: tg_rules {
            notice: rng.u32(..2),
            come_back_ticks: rng.u32(..3) * 100,
            ..Default::default()
        },
        rst: rst(rng),
        target: tg_target {
            addr: [word(rng), word(rng), [0xffff_u32.to_be(), 0][rng.usize(..2)], rng.u32(..)],
            is_ipv6: rng.u32(..2),
            port: rng.u16(..).into(),
        },
        spare_bytes: [0, 7, 8, 15, 16, rng.u32(..)][rng.usize(..6)],
        longest_ms: [0, 1, 60_000, u32::MAX][rng.usize(..4)],
        random: [0, u32::MAX, rng.u32(..)][rng.usize(..3)],
        is_of_one: rng.u32(..2),
    }
}

#[test]
fn the_kernel_and_the_native_build_hear_alike() {
    if skip_without_root("the_kernel_and_the_native_build_hear_alike") {
        return;
    }
    let mut kernel =
        Kernel::<tg_notice_case, tg_notice_answers>::load(&["agree_notice"], "notice_");
    let mut rng = Rng::with_seed(SEED);
    // Which answers were given, so that agreement is about something.
    let mut seen: BTreeSet<(&str, u32)> = BTreeSet::new();
    kernel.agrees(
        INPUTS,
        || case(&mut rng),
        agree_notice,
        |case, native| {
            seen.extend([
                ("parts", native.parts),
                ("verdict", native.verdict),
                ("mapped", u32::from(native.target != case.target)),
                ("stands", u32::from(native.until_ns == case.stands_ns)),
            ]);
        },
    );
    let answers = |what: &str| seen.iter().filter(|(name, _)| *name == what).count();
    for (what, kinds) in [("parts", 3), ("verdict", 4), ("mapped", 2), ("stands", 2)] {
        assert_eq!(answers(what), kinds, "{what}: {seen:?}");
    }
}
