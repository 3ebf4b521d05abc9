// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What fails now and then because others do the same at once.

use std::time::Duration;

/// The pauses between tries are this long at first and at last, as far as chance does not shorten them: from what a
/// try takes to many times that.
const FIRST_PAUSE: Duration = Duration::from_micros(16);
const LONGEST_PAUSE: Duration = Duration::from_millis(1);
/// All pauses together, after which it is no other's doing. They are counted and not the clock: whoever is kept from
/// its processor has tried no more often.
const WITHIN: Duration = Duration::from_millis(200);

/// Half of a pause at least, and as much more as chance says: two that keep step meet at the same point again and again.
fn by_chance(pause: Duration) -> Duration {
    let chance = f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX);
    pause.mul_f64(0.5 + chance / 2.0)
}

/// Does it until others are not in the way of it any more, and not for ever; what came of the last.
pub fn while_in_the_way<T>(is_in_the_way: impl Fn(&T) -> bool, mut how: impl FnMut() -> T) -> T {
    let mut done = how();
    let (mut longest, mut paused) = (FIRST_PAUSE, Duration::ZERO);
    while is_in_the_way(&done) && paused < WITHIN {
        let pause = by_chance(longest);
        std::thread::sleep(pause);
        paused += pause;
        longest = (longest * 2).min(LONGEST_PAUSE);
        done = how();
    }
    done
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_in_the_way_for_good_is_told_soon() {
        let (mut tries, began) = (0, Instant::now());
        let done = while_in_the_way(
            |_| true,
            || {
                tries += 1;
                tries
            },
        );
        assert_eq!(done, tries, "what came of the last");
        assert!(began.elapsed() >= WITHIN);
        // Each pause is as long as it may be, or half of that.
        assert!((200..=420).contains(&tries), "{tries}");
    }

    #[test]
    fn no_two_keep_step() {
        let pauses: Vec<_> = (0..100).map(|_| by_chance(LONGEST_PAUSE)).collect();
        assert!(pauses.iter().all(|pause| (LONGEST_PAUSE / 2..=LONGEST_PAUSE).contains(pause)));
        assert!(pauses.windows(2).any(|two| two[0].abs_diff(two[1]) > LONGEST_PAUSE / 10));
    }
}
