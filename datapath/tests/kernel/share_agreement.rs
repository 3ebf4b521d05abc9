// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The share of a network of clients is the same in the kernel and natively: on a million SYNs at random.

use crate::common::agreement::{Kernel, tuple};
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree_share;
use tidegate_policy::raw::*;

const INPUTS: usize = 1_000_000;
const SEED: u64 = 0x73_6861_7265;
const WINDOW: u32 = 1 << 20;
const WINDOW_NS: u64 = 1 << TG_SHARE_WINDOW_SHIFT;
/// Within a window.
const NOW_NS: u64 = (WINDOW as u64) * WINDOW_NS + WINDOW_NS / 3;

/// Close to one of these, at times anything.
fn near(rng: &mut Rng, anchors: [u64; 4]) -> u64 {
    match rng.u8(..16) {
        0 => rng.u64(..),
        _ => anchors[rng.usize(..4)].wrapping_add(rng.u64(..3)).wrapping_sub(1),
    }
}

fn window(rng: &mut Rng) -> u32 {
    WINDOW.wrapping_sub([0, 0, 1, 2, 9, rng.u32(..)][rng.usize(..6)])
}

fn case(rng: &mut Rng) -> tg_share_case {
    let count = |rng: &mut Rng| near(rng, [0, 1, 30, 1000]) as u32;
    let sent = |rng: &mut Rng| near(rng, [0, 256, 7680, 1 << 20]);
    let cell = |rng: &mut Rng| tg_share_cell {
        window: window(rng),
        count: count(rng),
        before: count(rng),
        padding: 0,
    };
    let hold = TG_SHARE_HOLD_NS;
    tg_share_case {
        share: tg_share {
            short_ns: near(rng, [0, NOW_NS, NOW_NS - u64::from(hold), NOW_NS - 1000]),
            limit_x256: sent(rng),
            step: window(rng) >> (TG_SHARE_STEP_SHIFT - TG_SHARE_WINDOW_SHIFT),
            rising: rng.u32(..24),
            let_on: count(rng),
            limited: count(rng),
            lost: near(rng, [0, 1, 8, 30]) as u32,
            held: count(rng),
            spilt: near(rng, [0, 1, 8, 30]) as u32,
            good_x256: sent(rng) as u32,
            most_x256: sent(rng),
        },
        cells: [cell(rng), cell(rng)],
        key: tg_key { k0: rng.u64(..), k1: rng.u64(..) },
        tuple: tuple(rng),
        rules: tg_rules {
            share_ipv4_bits: rng.u32(..=32),
            share_ipv6_bits: rng.u32(..=64),
            is_auto: rng.u32(..=1),
            ..Default::default()
        },
        owner: rng.u32(..),
        random: rng.u32(..),
        reason: rng.u32(TG_ROOM..=TG_NEW_FIRST),
        padding: 0,
        now_ns: NOW_NS,
    }
}

#[test]
fn the_kernel_and_the_native_build_give_the_same_shares() {
    if skip_without_root("the_kernel_and_the_native_build_give_the_same_shares") {
        return;
    }
    let mut kernel = Kernel::<tg_share_case, tg_share_answers>::load(&["agree_share"], "share_");
    let mut rng = Rng::with_seed(SEED);
    // What happened, so that agreement is about something.
    let (mut cut, mut raised, mut held, mut let_on, mut within, mut began) = (0, 0, 0, 0, 0, 0);
    let mut uncounted = 0;
    kernel.agrees(
        INPUTS,
        || case(&mut rng),
        agree_share,
        |case, native| {
            let (now, was) = (&native.share, &case.share);
            cut += u32::from(now.limit_x256 != 0 && now.limit_x256 < was.limit_x256);
            raised += u32::from(now.limit_x256 > was.limit_x256);
            held += u32::from(native.source == TG_SOURCE_BEYOND);
            let_on += u32::from(native.source == TG_SOURCE_ANY);
            within += u32::from(native.source == TG_SOURCE_WITHIN);
            began += u32::from(native.is_on == 0 && now.short_ns == NOW_NS);
            uncounted += u32::from(native.is_on == 0 && native.cells == case.cells);
        },
    );
    let counts = [cut, raised, held, let_on, within, began, uncounted];
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}
