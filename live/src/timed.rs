// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read, with when it was: a rate is over the time between two readings of the same thing,
//! and reading others takes a while, a profile's most of all.

use std::collections::BTreeMap;
use std::time::Instant;

use tidegate_scenarios::KERNEL_DROPS;

use crate::guard;

/// A reading, and when it was there.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub what: T,
    at: Instant,
}

impl<T> Timed<T> {
    /// Reads it. What a program tells is as it stood when the program was about to end, so the time
    /// is looked at afterwards.
    pub(crate) fn read<E>(read: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let what = read()?;
        Ok(Self { what, at: Instant::now() })
    }

    /// Time between an earlier reading and this one, in s.
    pub(crate) fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at.duration_since(earlier.at).as_secs_f64()
    }
}

/// What was counted between two readings, and in how many seconds.
#[derive(Debug, Default)]
pub(crate) struct Within<T> {
    pub counts: T,
    pub seconds: f64,
}

/// Numbers a second, by cause or by verdict and reason.
pub(crate) type Rates = BTreeMap<String, f64>;

impl Timed<guard::Counted> {
    pub(crate) fn since(&self, earlier: &Self) -> Within<guard::Counted> {
        let counts = self.what.since(&earlier.what);
        Within { counts, seconds: self.seconds_since(earlier) }
    }
}

impl Within<guard::Counted> {
    /// A guard tells drops by cause.
    pub(crate) fn queue_drops_per_s(&self) -> Rates {
        self.rates(&self.counts.queue_drops)
    }

    pub(crate) fn verdicts_per_s(&self) -> Rates {
        self.rates(&self.counts.verdicts)
    }

    fn rates(&self, counts: &BTreeMap<String, u64>) -> Rates {
        counts.iter().map(|(name, count)| (name.clone(), *count as f64 / self.seconds)).collect()
    }
}

impl Within<BTreeMap<String, i64>> {
    /// The kernel has two counters, which do not tell a SYN from an ACK.
    pub(crate) fn queue_drops_per_s(&self) -> Rates {
        let kernel = |name: &str| self.counts.get(name).copied().unwrap_or_default() as f64;
        let overflows = kernel("TcpExtListenOverflows");
        let others = (kernel("TcpExtListenDrops") - overflows).max(0.0);
        let drops = KERNEL_DROPS.into_iter().zip([overflows, others]);
        drops.map(|(name, count)| (name.to_owned(), count / self.seconds)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn one<T>(name: &str, count: T) -> BTreeMap<String, T> {
        [(name.to_owned(), count)].into()
    }

    #[test]
    fn a_guards_rates_are_over_the_time_between_its_own_readings() {
        let counted = |drops, verdicts| guard::Counted {
            queue_drops: one("SynQFull", drops),
            verdicts: one("drop: SynQFull", verdicts),
            pairs: 0,
        };
        let at = Instant::now();
        let before = Timed { what: counted(100, 1000), at };
        let now = Timed { what: counted(700, 5000), at: at + Duration::from_secs(4) };
        let counted = now.since(&before);
        assert_eq!(counted.queue_drops_per_s(), one("SynQFull", 150.0));
        assert_eq!(counted.verdicts_per_s(), one("drop: SynQFull", 1000.0));
    }

    #[test]
    fn the_kernels_rates_are_over_the_time_between_its_own_readings() {
        let (drops, overflows) = (one("TcpExtListenDrops", 500), one("TcpExtListenOverflows", 300));
        let counts: BTreeMap<String, i64> = drops.into_iter().chain(overflows).collect();
        let rates = Within { counts, seconds: 4.0 }.queue_drops_per_s();
        assert_eq!((rates["ListenOverflows"], rates["ListenDrops, others"]), (75.0, 50.0));
    }

    #[test]
    fn a_reading_is_as_old_as_its_end() {
        let pause = Duration::from_millis(30);
        let begun = Instant::now();
        let sleeps = || {
            std::thread::sleep(pause);
            Ok::<_, ()>(())
        };
        let slow = Timed::read(sleeps).unwrap();
        assert!(slow.at - begun >= pause);
        let later = Timed { what: (), at: slow.at + Duration::from_secs(2) };
        assert!((later.seconds_since(&slow) - 2.0).abs() < 1e-9);
    }
}
