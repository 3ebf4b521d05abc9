// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How an application accepts is seen alike in the kernel and natively: on a million looks at random.

use crate::common::agreement::Kernel;
use fastrand::Rng;
use tidegate_lab::skip_without_root;
use tidegate_policy::agree_accepts;
use tidegate_policy::raw::*;

const INPUTS: usize = 1_000_000;
const SEED: u64 = 0x6163_6365_7074;
const NOW_NS: u64 = 1 << 50;

/// Close to one of these, at times anything.
fn near(rng: &mut Rng, anchors: [u64; 4]) -> u64 {
    match rng.u8(..16) {
        0 => rng.u64(..),
        _ => anchors[rng.usize(..4)].wrapping_add(rng.u64(..3)).wrapping_sub(1),
    }
}

fn sum(rng: &mut Rng) -> tg_accepts_sum {
    tg_accepts_sum {
        lasted_ns: near(rng, [0, 1, 1 << 28, 1 << 31]),
        seen_x256: rng.u64(..1 << 28),
        refused_x256: rng.u64(..1 << 28),
        taken_x256: near(rng, [0, 256, 1000 * 256, 40_000 * 256]),
        waited_x256: rng.u64(..1 << 38),
        leaps_x256: rng.u64(..1 << 18),
        leapt_x256: rng.u64(..1 << 28),
        emptied_x256: rng.u64(..1 << 18),
        dark_ns: rng.u64(..1 << 31),
    }
}

fn case(rng: &mut Rng) -> tg_accepts_case {
    let listen_max = [0, 5, 128, 4096][rng.usize(..4)];
    let length = |rng: &mut Rng| near(rng, [0, 8, 128, 4096]) as u32;
    let ago = |rng: &mut Rng, spans| NOW_NS.wrapping_sub(near(rng, spans));
    let (window, gap) = (u64::from(TG_ACCEPTS_WINDOW_NS), u64::from(TG_ACCEPTS_GAP_NS));
    let look = u64::from(TG_ACCEPTS_LOOK_NS);
    tg_accepts_case {
        accepts: tg_accepts {
            trouble_ns: ago(rng, [NOW_NS, 0, 1000, TG_ACCEPTS_HOLD_NS.into()]),
            window_ns: ago(rng, [0, window, gap, 1 << 20]),
            looked_ns: ago(rng, [0, look, 100_000, window]),
            leap_ns: ago(rng, [NOW_NS, 1000, 100_000, 1 << 24]),
            looking: u64::from(rng.u8(..16) == 0),
            window: sum(rng),
            before: sum(rng),
            listen_len: length(rng),
            has_emptied: rng.u32(..2),
        },
        rules: tg_rules {
            room: [TG_ROOM_KERNEL, TG_ROOM_RESERVE][rng.usize(..2)],
            ahead: length(rng),
            places: length(rng),
            ..Default::default()
        },
        queues: tg_queues {
            listen_len: length(rng),
            listen_max,
            places: length(rng),
            ..Default::default()
        },
        reason: rng.u32(TG_ROOM..=TG_NEW_FIRST),
        padding: 0,
        now_ns: NOW_NS,
    }
}

#[test]
fn the_kernel_and_the_native_build_see_the_same_leaps() {
    if skip_without_root("the_kernel_and_the_native_build_see_the_same_leaps") {
        return;
    }
    let mut kernel =
        Kernel::<tg_accepts_case, tg_accepts_answers>::load(&["agree_accepts"], "accepts_");
    let mut rng = Rng::with_seed(SEED);
    // What happened, so that agreement is about something.
    let (mut leaps, mut longer, mut emptied, mut turned, mut asked) = (0, 0, 0, 0, 0);
    kernel.agrees(
        INPUTS,
        || case(&mut rng),
        agree_accepts,
        |case, native| {
            let (now, was) = (&native.accepts.window, &case.accepts.window);
            let is_new = native.accepts.window_ns != case.accepts.window_ns;
            turned += u32::from(is_new);
            asked += native.asks;
            if !is_new {
                leaps += u32::from(now.leaps_x256 > was.leaps_x256);
                longer +=
                    u32::from(now.leapt_x256 > was.leapt_x256 && now.leaps_x256 == was.leaps_x256);
                emptied += u32::from(now.emptied_x256 > was.emptied_x256);
            }
        },
    );
    let counts = [leaps, longer, emptied, turned, asked as u32];
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}
