// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a processor does with its time, by the kernel's own account.

use std::collections::BTreeMap;
use std::fs;

use crate::error::LabError;
use crate::family::family;

const FILE: &str = "/proc/stat";
/// The columns of a processor's line, summed under the name that reports use.
const MODES: [&str; 8] =
    ["user", "user", "system", "idle", "idle", "interrupt", "softirq", "stolen"];

/// User time of all programs beside this process and its descendants, and the time of all
/// processors, in kernel ticks: what a measurement shares the machine with.
///
/// A program's own account is what counts: a processor's is by sampling, and differs from the sum
/// of its programs' by several percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignTime {
    others_ticks: u64,
    all_ticks: u64,
}

impl ForeignTime {
    /// Reads it, now.
    #[must_use]
    pub fn now() -> Self {
        let others_ticks = user_ticks_beside(&family(nix::unistd::getpid().as_raw()));
        let text = fs::read_to_string(FILE).unwrap_or_default();
        let whole = text.lines().next().unwrap_or_default();
        let all_ticks = whole.split_ascii_whitespace().filter_map(|word| word.parse::<u64>().ok());
        Self { others_ticks, all_ticks: all_ticks.sum() }
    }

    /// The share of others in the time of all processors between an earlier reading and this one,
    /// from 0 to 1.
    #[must_use]
    pub fn share_since(&self, earlier: &Self) -> f64 {
        let others = self.others_ticks.saturating_sub(earlier.others_ticks) as f64;
        others / (self.all_ticks.saturating_sub(earlier.all_ticks).max(1) as f64)
    }
}

fn user_ticks_beside(own: &[i32]) -> u64 {
    let everyone = fs::read_dir("/proc").into_iter().flatten().flatten();
    everyone
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| !own.contains(pid))
        .map(user_ticks)
        .sum()
}

/// User time of a process and of its children that have ended: fields 14 and 16 of its `stat`.
fn user_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is the name in brackets, which may hold anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |number: usize| {
        after_name
            .split_ascii_whitespace()
            .nth(number - 3)
            .and_then(|word| word.parse::<u64>().ok())
    };
    field(14).unwrap_or(0) + field(16).unwrap_or(0)
}

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
    fn own_work_is_not_foreign() {
        let pid = nix::unistd::getpid().as_raw();
        while user_ticks(pid) < 20 {
            std::hint::black_box((0..100_000_u64).sum::<u64>());
        }
        let others = user_ticks_beside(&family(pid));
        let own = user_ticks(pid);
        assert!(user_ticks_beside(&[]) >= others + own);

        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let family = family(pid);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(family.contains(&child.id().cast_signed()) && !family.contains(&1));
    }

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
