// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of the programs is the kernel's monotonic one, by its ticks.

use std::time::Duration;

use tidegate_datapath::clock;
use tidegate_datapath::control::{self, LetsIn};
use tidegate_lab::skip_without_root;

use crate::common::scene::Guards;

/// For a second and a half, at moments that no tick knows of: the programs' time is never after the
/// clock's, and, but for a tick that an interrupt delays, at most two ticks before it.
#[test]
fn ticks_tell_the_time_of_the_monotonic_clock() {
    if skip_without_root("ticks_tell_the_time_of_the_monotonic_clock") {
        return;
    }
    let guards = Guards::new(vec![]);
    let told = control::read(&guards.programs).unwrap();
    assert!(told.tick_ns > 0, "Linux tells how long a tick is");
    let (tick_ns, mut late, mut last_ns) = (u64::from(told.tick_ns), 0, 0);
    for _ in 0..500 {
        std::thread::sleep(Duration::from_nanos(2_718_281));
        let (count, _) = clock::look(&guards.programs).unwrap();
        let clock_ns = clock::monotonic_ns();
        let told_ns = count.wrapping_mul(tick_ns).wrapping_add(told.ticks_began_ns);
        assert!(told_ns >= last_ns, "time goes back");
        assert!(told_ns <= clock_ns + 2 * tick_ns, "{told_ns} is {} ns early", told_ns - clock_ns);
        late += u32::from(clock_ns.saturating_sub(told_ns) > 2 * tick_ns);
        last_ns = told_ns;
    }
    assert!(late <= 25, "more than two ticks late at {late} of 500 looks");
}

/// What was told once is told again, so that no program's time goes back.
#[test]
fn the_clock_is_told_once() {
    if skip_without_root("the_clock_is_told_once") {
        return;
    }
    let guards = Guards::new(vec![]);
    let first = control::read(&guards.programs).unwrap();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(3));
        control::write_clock(&guards.programs, LetsIn::All).unwrap();
        let again = control::read(&guards.programs).unwrap();
        assert_eq!((again.tick_ns, again.ticks_began_ns), (first.tick_ns, first.ticks_began_ns));
    }
}
