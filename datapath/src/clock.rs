// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two clocks that the programs know: the kernel's monotonic one, and the wall's.

use nix::time::{ClockId, clock_gettime};

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("Linux has both clocks");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Nanoseconds of CLOCK_MONOTONIC, what `bpf_ktime_get_ns()` tells.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
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
