// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many connections are in TIME-WAIT at one side.

/// How long TIME-WAIT lasts: two maximum segment lifetimes of 30 s, as Linux has it
/// (`TCP_TIMEWAIT_LEN`); RFC 9293, section 3.4.2, would have four minutes.
pub const TIME_WAIT_NS: u64 = 60_000_000_000;

const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: usize = (TIME_WAIT_NS / SECOND_NS) as usize;

/// Connections in TIME-WAIT, counted to the second: each ends with the minute that it began in, up
/// to a second early. It takes the same memory for one as for a million.
///
/// Times are in ns, on a clock that begins with 0, and do not go back.
#[derive(Clone, Debug)]
pub struct TimeWaits {
    /// Those begun in each of the last seconds, by the second's number.
    begun: [u64; SECONDS],
    second: u64,
    held: u64,
    held_max: u64,
}

impl Default for TimeWaits {
    fn default() -> Self {
        Self { begun: [0; SECONDS], second: 0, held: 0, held_max: 0 }
    }
}

impl TimeWaits {
    /// One begins.
    #[inline]
    pub fn begins(&mut self, now_ns: u64) {
        self.pass_until(now_ns);
        self.begun[self.second as usize % SECONDS] += 1;
        self.held += 1;
        self.held_max = self.held_max.max(self.held);
    }

    /// One that began then is over before its time, or begins anew.
    pub fn ends(&mut self, begun_ns: u64, now_ns: u64) {
        self.pass_until(now_ns);
        let second = begun_ns / SECOND_NS;
        let begun = &mut self.begun[second as usize % SECONDS];
        if second + SECONDS as u64 > self.second && *begun > 0 {
            *begun -= 1;
            self.held -= 1;
        }
    }

    /// How many there are now.
    pub fn held(&mut self, now_ns: u64) -> u64 {
        self.pass_until(now_ns);
        self.held
    }

    /// The most that there were at a time.
    #[must_use]
    pub fn held_max(&self) -> u64 {
        self.held_max
    }

    #[inline]
    fn pass_until(&mut self, now_ns: u64) {
        let second = now_ns / SECOND_NS;
        if second > self.second {
            self.forget_until(second);
        }
    }

    fn forget_until(&mut self, second: u64) {
        if second - self.second >= SECONDS as u64 {
            self.begun = [0; SECONDS];
            self.held = 0;
        } else {
            for past in self.second + 1..=second {
                self.held -= std::mem::take(&mut self.begun[past as usize % SECONDS]);
            }
        }
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lasts_for_a_minute() {
        let mut waits = TimeWaits::default();
        // Ten a second for two minutes: there are never more than a minute's.
        for tenth in 0..1200 {
            waits.begins(tenth * SECOND_NS / 10);
        }
        assert_eq!((waits.held(119 * SECOND_NS), waits.held_max()), (600, 600));
        assert_eq!(waits.held(150 * SECOND_NS), 290, "those of the seconds from 91 on");
        assert_eq!(waits.held(179 * SECOND_NS), 0);
        assert_eq!(waits.held(100_000 * SECOND_NS), 0);
        waits.begins(100_000 * SECOND_NS);
        assert_eq!(waits.held(100_059 * SECOND_NS), 1);
        assert_eq!(waits.held(100_060 * SECOND_NS), 0);
    }

    #[test]
    fn a_gap_forgets_those_before_it_and_no_others() {
        let mut waits = TimeWaits::default();
        waits.begins(0);
        waits.begins(59 * SECOND_NS);
        assert_eq!(waits.held(59 * SECOND_NS), 2);
        assert_eq!(waits.held(60 * SECOND_NS), 1);
        assert_eq!(waits.held(118 * SECOND_NS), 1);
        assert_eq!(waits.held(119 * SECOND_NS), 0);
    }
}
