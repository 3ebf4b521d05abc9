// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks that the programs know: the kernel's monotonic one, by its ticks, and the wall's.

use std::fs;
use std::sync::LazyLock;

use nix::time::{ClockId, clock_getres, clock_gettime};

use crate::plain::bytes_of_mut;
use crate::programs::Programs;
use crate::raw::tg_control;
use crate::test_run;

/// The program that tells the kernel's ticks.
pub(crate) const TICKS: &str = "tidegate_ticks";

/// What this process's time namespace adds to a clock of the kernel's, in ns (Linux 5.6). No program is in one.
#[derive(Debug, Default, PartialEq, Eq)]
struct Offsets {
    monotonic_ns: i64,
    boot_ns: i64,
}

impl Offsets {
    /// As `/proc/self/timens_offsets` has them: a clock, seconds and nanoseconds a line.
    fn told(text: &str) -> Self {
        let of = |clock: &str| {
            let mut lines = text.lines().map(str::split_whitespace);
            let mut words =
                lines.find_map(|mut words| (words.next() == Some(clock)).then_some(words))?;
            let (seconds, ns): (i64, i64) =
                (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
            Some(seconds * 1_000_000_000 + ns)
        };
        let of = |clock| of(clock).unwrap_or_default();
        Self { monotonic_ns: of("monotonic"), boot_ns: of("boottime") }
    }

    fn of(&self, clock: ClockId) -> i64 {
        match clock {
            ClockId::CLOCK_MONOTONIC | ClockId::CLOCK_MONOTONIC_COARSE => self.monotonic_ns,
            ClockId::CLOCK_BOOTTIME => self.boot_ns,
            _ => 0,
        }
    }
}

/// They change no more once somebody is in the namespace. (A kernel without such namespaces has no such file.)
static OFFSETS: LazyLock<Offsets> = LazyLock::new(|| {
    Offsets::told(&fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default())
});

/// A clock as the kernel itself has it.
fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("Linux has both clocks");
    let here_ns = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
    here_ns.wrapping_add_signed(OFFSETS.of(clock).wrapping_neg())
}

/// Nanoseconds of CLOCK_MONOTONIC, what `bpf_ktime_get_ns()` tells.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds of CLOCK_BOOTTIME, what `bpf_ktime_get_boot_ns()` tells: the same, and the time asleep.
pub fn boot_ns() -> u64 {
    read_ns(ClockId::CLOCK_BOOTTIME)
}

/// Nanoseconds to add to the monotonic clock for the wall clock: by the quickest of a few looks at
/// both, for the processor may be taken away between the two.
pub fn wall_offset_ns() -> u64 {
    let look = |_| {
        let before_ns = monotonic_ns();
        let wall_ns = read_ns(ClockId::CLOCK_REALTIME);
        let took_ns = monotonic_ns() - before_ns;
        (took_ns, wall_ns.wrapping_sub(before_ns + took_ns / 2))
    };
    (0..4).map(look).min().expect("four looks").1
}

/// How the kernel's ticks count its monotonic clock; all 0 where that cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    /// How long one is, in ns.
    pub tick_ns: u32,
    /// When their count was 0, in ns, modulo 2^64.
    pub began_ns: u64,
}

impl Ticks {
    /// What the programs were told.
    pub(crate) fn told(control: &tg_control) -> Self {
        Self { tick_ns: control.tick_ns, began_ns: control.ticks_began_ns }
    }

    /// Whether both tell the same time to within two ticks: a look finds the clock up to a tick late,
    /// or more where interrupts were.
    pub(crate) fn is_near(&self, other: &Self) -> bool {
        let apart_ns = (self.began_ns.wrapping_sub(other.began_ns) as i64).unsigned_abs();
        self.tick_ns == other.tick_ns && apart_ns <= 2 * u64::from(self.tick_ns)
    }
}

/// Looks how the ticks go; `None` where that cannot be told.
pub(crate) fn ticks(programs: &Programs) -> Option<Ticks> {
    // The resolution of the coarse clocks is a tick, as jiffies have it (Linux, KTIME_LOW_RES).
    let tick = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    let tick_ns = u32::try_from(tick.tv_nsec()).ok().filter(|ns| *ns > 0 && tick.tv_sec() == 0)?;
    let looks = (0..4).map(|_| {
        let (count, clock_ns) = look(programs)?;
        Some(clock_ns.wrapping_sub(count.wrapping_mul(tick_ns.into())))
    });
    // An interrupt may have held a tick up.
    Some(Ticks { tick_ns, began_ns: earliest(&looks.collect::<Option<Vec<_>>>()?)? })
}

/// The count of the kernel's ticks, and its clock at the last of them, in ns.
pub fn look(programs: &Programs) -> Option<(u64, u64)> {
    let program = programs.program(TICKS)?;
    let mut count = 0u64;
    loop {
        let before_ns = read_ns(ClockId::CLOCK_MONOTONIC_COARSE);
        test_run::ask(program, bytes_of_mut(&mut count)).ok()?;
        if read_ns(ClockId::CLOCK_MONOTONIC_COARSE) == before_ns {
            return Some((count, before_ns));
        }
    }
}

/// The earliest of times that are close together, modulo 2^64.
fn earliest(times_ns: &[u64]) -> Option<u64> {
    let first_ns = *times_ns.first()?;
    let before = times_ns.iter().map(|ns| ns.wrapping_sub(first_ns) as i64).min()?;
    Some(first_ns.wrapping_add_signed(before))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_time_namespace_adds_is_known_by_its_clock() {
        let host = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(Offsets::told(host), Offsets::default());
        assert_eq!(Offsets::told(""), Offsets::default());
        let away = "monotonic       86400         7\nboottime           -5 500000000\n";
        let away = Offsets::told(away);
        assert_eq!(away, Offsets { monotonic_ns: 86_400_000_000_007, boot_ns: -4_500_000_000 });
        assert_eq!(away.of(ClockId::CLOCK_MONOTONIC_COARSE), away.monotonic_ns);
        assert_eq!(away.of(ClockId::CLOCK_BOOTTIME), away.boot_ns);
        assert_eq!(away.of(ClockId::CLOCK_REALTIME), 0);
    }

    #[test]
    fn the_earliest_time_is_found_where_the_count_turns_over() {
        assert_eq!(earliest(&[2, u64::MAX, 4_000_000]), Some(u64::MAX));
        assert_eq!(earliest(&[7, 9, 7]), Some(7));
        assert_eq!(earliest(&[]), None);
    }

    #[test]
    fn what_was_told_is_kept_while_it_is_right_to_two_ticks() {
        let told = Ticks { tick_ns: 4_000_000, began_ns: 3 };
        let told_later = |ns: i64| Ticks { began_ns: 3u64.wrapping_add_signed(ns), ..told };
        assert!(told.is_near(&told_later(-8_000_000)) && told.is_near(&told_later(8_000_000)));
        assert!(!told.is_near(&told_later(8_000_001)) && !told.is_near(&told_later(-8_000_001)));
        assert!(!Ticks::default().is_near(&told));
    }
}
