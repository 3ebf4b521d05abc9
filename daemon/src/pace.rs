// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often the host is looked at.
//!
//! The kernel keeps the connections of all network namespaces in one table, and walks it for who
//! asks after its own listeners: ten milliseconds where there are 300,000. So a look that took
//! long is followed by a long rest.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use tidegate_policy::reserv::CLEANS_EVERY;

/// Where a look takes no time to speak of, there are four in a second.
pub const TICK: Duration = CLEANS_EVERY;
/// However long a look takes, another follows within so long: new listeners have no counters of
/// their own until then, and new interfaces no guard.
const LONGEST: Duration = Duration::from_secs(2);
/// What looks may take: one part in so many of a processor.
const SHARE: u32 = 50;

/// Of what may be seen later where it takes long.
const LONGEST_UNHURRIED: Duration = Duration::from_secs(30);

/// When the next look is due.
#[derive(Debug)]
pub struct Pace {
    due: Instant,
    longest: Duration,
}

impl Pace {
    /// A look has just been taken.
    pub fn new() -> Self {
        Self { due: Instant::now() + TICK, longest: LONGEST }
    }

    /// One is due, and no other soon that takes long.
    pub fn unhurried() -> Self {
        Self { due: Instant::now(), longest: LONGEST_UNHURRIED }
    }

    /// Looks, if a look is due, and sees how much of a processor that takes.
    ///
    /// # Errors
    /// Those of the look, after which there is a rest as well.
    pub fn look<E>(&mut self, look: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if Instant::now() < self.due {
            return Ok(());
        }
        let before = processor_time();
        let found = look();
        let took = processor_time().saturating_sub(before);
        self.due = Instant::now() + rest_after(took, self.longest);
        found
    }
}

fn rest_after(took: Duration, longest: Duration) -> Duration {
    (took * SHARE).clamp(TICK, longest)
}

/// What this thread has had of a processor.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_take_a_fiftieth_of_a_processor_and_come_within_two_seconds() {
        let ms = Duration::from_millis;
        for (took, rest) in [(0, 250), (5, 250), (10, 500), (100, 2_000)] {
            assert_eq!(rest_after(ms(took), LONGEST), ms(rest));
        }
        assert_eq!(rest_after(ms(100), LONGEST_UNHURRIED), ms(5_000), "where it need not");
    }

    #[test]
    fn a_look_that_is_not_due_is_not_taken() {
        let mut pace = Pace { due: Instant::now(), ..Pace::new() };
        let busy = || {
            let from = processor_time();
            while processor_time() - from < Duration::from_millis(10) {}
            Err("seen")
        };
        assert_eq!(pace.look(busy), Err("seen"));
        assert_eq!(pace.look(|| Err("seen again")), Ok(()), "half a second has not passed");
        pace.due = Instant::now();
        assert_eq!(pace.look(|| Err("seen again")), Err("seen again"));
    }
}
