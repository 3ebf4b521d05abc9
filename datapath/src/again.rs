// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What fails now and then because others do the same at once.

use std::time::Duration;

/// Of something that takes microseconds: nobody is in the way for longer.
const TRIES: u32 = 1_000;
const OUT_OF_STEP: u32 = 8;

/// Does it until others are not in the way of it any more, and not for ever; what came of the last.
pub fn while_in_the_way<T>(is_in_the_way: impl Fn(&T) -> bool, mut how: impl FnMut() -> T) -> T {
    let mut done = how();
    for tried in 1..TRIES {
        if !is_in_the_way(&done) {
            break;
        }
        // Else two that keep step meet at the same point again and again.
        if tried % OUT_OF_STEP == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
        done = how();
    }
    done
}
