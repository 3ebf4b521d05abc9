// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a processor does with its time, by the kernel's own account.

use std::collections::BTreeMap;
use std::fs;

use crate::error::LabError;

pub(crate) const FILE: &str = "/proc/stat";
/// The columns of a processor's line, summed under the name that reports use.
const MODES: [&str; 8] =
    ["user", "user", "system", "idle", "idle", "interrupt", "softirq", "stolen"];

/// Ticks that a processor has spent in each mode since it was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorTime {
    ticks: BTreeMap<&'static str, u64>,
}

impl ProcessorTime {
    /// Reads it, now.
    ///
    /// # Errors
    /// [`LabError::ProcessorTime`] when the kernel tells nothing of this processor.
    pub fn of(cpu: usize) -> Result<Self, LabError> {
        let text = fs::read_to_string(FILE).unwrap_or_default();
        Self::parse(&text, cpu).ok_or(LabError::ProcessorTime { cpu })
    }

    /// The share of each mode between an earlier reading and this one, from 0 to 1; nothing where
    /// no tick has passed.
    #[must_use]
    pub fn shares_since(&self, earlier: &Self) -> BTreeMap<String, f64> {
        let passed = |mode: &str| self.ticks[mode].saturating_sub(earlier.ticks[mode]) as f64;
        let whole: f64 = self.ticks.keys().map(|mode| passed(mode)).sum();
        if whole == 0.0 {
            return BTreeMap::new();
        }
        self.ticks.keys().map(|mode| ((*mode).to_owned(), passed(mode) / whole)).collect()
    }

    fn parse(text: &str, cpu: usize) -> Option<Self> {
        let name = format!("cpu{cpu}");
        let mut words = text
            .lines()
            .map(str::split_ascii_whitespace)
            .find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
        let mut ticks = BTreeMap::new();
        for mode in MODES {
            *ticks.entry(mode).or_default() += words.next()?.parse::<u64>().ok()?;
        }
        Some(Self { ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_between_two_readings() {
        let before = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu1 10 0 10 100 0 0 5 0 0 0\n";
        let after = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu1 20 0 30 150 0 0 25 0 0 0\n";
        let [before, after] = [before, after].map(|text| ProcessorTime::parse(text, 1).unwrap());
        let shares = after.shares_since(&before);
        assert_eq!((shares["user"], shares["system"]), (0.1, 0.2));
        assert_eq!((shares["idle"], shares["softirq"]), (0.5, 0.2));
        assert!(before.shares_since(&before).is_empty());
        assert!(ProcessorTime::parse("cpu1 1 2\n", 1).is_none());
    }
}
