// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that really takes the processor.

use nix::time::{ClockId, clock_gettime};

/// About 1 µs of work: the precision of a cost.
const STEPS_PER_LOOK: u32 = 2000;

/// Keeps the processor busy until the calling thread has had so much of it.
///
/// The thread's own clock counts, so time in which another thread ran is not taken for work. A
/// kernel without `CONFIG_IRQ_TIME_ACCOUNTING` charges softirqs to the thread they interrupt, and
/// then they are; pin receive processing elsewhere where that matters.
pub(crate) fn burn(cost_ns: u64) {
    if cost_ns == 0 {
        return;
    }
    let end_ns = thread_cpu_ns().saturating_add(cost_ns);
    while thread_cpu_ns() < end_ns {
        // Reading the clock is a system call: most of the work should be the program's own.
        for step in 0..STEPS_PER_LOOK {
            std::hint::black_box(step);
        }
    }
}

/// The processor time that the calling thread has had.
pub(crate) fn thread_cpu_ns() -> u64 {
    // The clock exists on every Linux; with no clock there is no work to pretend.
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(u64::MAX, |now| {
        now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs()
    })
}

#[cfg(test)]
mod tests {
    use super::{burn, thread_cpu_ns};

    #[test]
    fn burning_takes_the_thread_s_own_time() {
        let before = thread_cpu_ns();
        burn(3_000_000);
        assert!(thread_cpu_ns() - before >= 3_000_000);
    }
}
