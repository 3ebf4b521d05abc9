// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How it goes, while it goes.

use tidegate_client::{End, Progress};

/// How often it is told: four times a second.
const EVERY_NS: u64 = 250_000_000;

/// Counts what [`Progress`] tells.
pub(crate) struct Meter<'a> {
    watch: &'a mut dyn FnMut(Progress),
    told_ns: u64,
    started: u64,
    replies: u64,
    errors: u64,
}

impl<'a> Meter<'a> {
    pub(crate) fn new(watch: &'a mut dyn FnMut(Progress)) -> Self {
        Self { watch, told_ns: 0, started: 0, replies: 0, errors: 0 }
    }

    /// Tells that the load begins, so that who watches knows by which clock it is told.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        (self.watch)(Progress { at_s: now_ns as f64 / 1e9, ..Progress::default() });
        self.told_ns = now_ns;
    }

    #[inline]
    pub(crate) fn started(&mut self) {
        self.started += 1;
    }

    #[inline]
    pub(crate) fn ended(&mut self, end: End) {
        match end {
            End::Replied => self.replies += 1,
            _ => self.errors += 1,
        }
    }

    /// Tells when it is time.
    #[inline]
    pub(crate) fn look(&mut self, now_ns: u64, in_flight: u64) {
        if now_ns >= self.told_ns + EVERY_NS {
            self.tell(now_ns, in_flight);
        }
    }

    /// When it is time again.
    pub(crate) fn next_ns(&self) -> u64 {
        self.told_ns + EVERY_NS
    }

    fn tell(&mut self, now_ns: u64, in_flight: u64) {
        let since_s = (now_ns - self.told_ns) as f64 / 1e9;
        let per_s = |count: &mut u64| std::mem::take(count) as f64 / since_s;
        (self.watch)(Progress {
            at_s: now_ns as f64 / 1e9,
            started_per_s: per_s(&mut self.started),
            replies_per_s: per_s(&mut self.replies),
            errors_per_s: per_s(&mut self.errors),
            in_flight,
        });
        self.told_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_at_once_that_it_begins() {
        let mut told = Vec::new();
        let mut watch = |progress| told.push(progress);
        let mut meter = Meter::new(&mut watch);
        meter.begin(EVERY_NS / 5);
        meter.started();
        meter.look(EVERY_NS, 1);
        meter.look(EVERY_NS / 5 + EVERY_NS, 1);
        let first = Progress { at_s: 0.05, ..Progress::default() };
        let second = Progress { at_s: 0.3, started_per_s: 4.0, in_flight: 1, ..first };
        assert_eq!(told, [first, second]);
    }

    #[test]
    fn it_tells_rates_since_the_last_time() {
        let mut told = Vec::new();
        let mut watch = |progress| told.push(progress);
        let mut meter = Meter::new(&mut watch);
        for _ in 0..50 {
            meter.started();
            meter.ended(End::Replied);
        }
        meter.ended(End::Refused);
        meter.look(EVERY_NS - 1, 9);
        meter.look(2 * EVERY_NS, 7);
        meter.look(3 * EVERY_NS - 1, 8);
        meter.look(3 * EVERY_NS, 6);
        let first = Progress {
            at_s: 0.5,
            started_per_s: 100.0,
            replies_per_s: 100.0,
            errors_per_s: 2.0,
            in_flight: 7,
        };
        let second = Progress { at_s: 0.75, in_flight: 6, ..Progress::default() };
        assert_eq!(told, [first, second]);
    }
}
