// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A processor's time, told by its clock.

use std::time::{Duration, Instant};

use tidegate_lab::{ProcessorTime, Profile, allowed_cpus, pin_thread, skip_without_root};

/// Work of which it is known where it is spent: in this program, or in the kernel's memory
/// management.
#[test]
fn a_profile_finds_where_the_time_goes() {
    if skip_without_root("a_profile_finds_where_the_time_goes") {
        return;
    }
    let cpu = allowed_cpus().expect("processors")[0];
    let spend = |work: fn()| {
        pin_thread(cpu).expect("a processor");
        let before = ProcessorTime::of(cpu).expect("a processor's time");
        let profile = Profile::start(cpu).expect("perf events");
        let end = Instant::now() + Duration::from_millis(600);
        while Instant::now() < end {
            work();
        }
        let shares = ProcessorTime::of(cpu).expect("its time").shares_since(&before);
        (profile.finish(), shares)
    };

    let (calm, _) = spend(|| {
        std::hint::black_box((0..10_000_u64).sum::<u64>());
    });
    let (reading, shares) = spend(|| {
        std::hint::black_box(std::fs::read("/proc/self/maps").expect("a file").len());
    });
    // What is done behind a profile's end is not in it, whenever its names are looked up.
    let (calm, reading) = (calm.named(), reading.named());
    // A file of the kernel's is made while it is read.
    let own = [std::process::id().cast_signed()];
    let (calls, calm_calls) = (reading.calls(&own), calm.calls(&own));
    let (calm, reading) = (calm.components(), reading.components());
    let of = |parts: &std::collections::BTreeMap<String, f64>, part: &str| {
        parts.get(part).copied().unwrap_or_default()
    };
    assert!(of(&calm, "application") > of(&calm, "other-kernel"), "{calm:?}");
    assert!(of(&reading, "other-kernel") > of(&calm, "other-kernel"), "{reading:?} {calm:?}");
    assert!((reading.values().sum::<f64>() - 1.0).abs() < 1e-9, "{reading:?}");
    assert!(of(&calls, "read") > 0.3, "{calls:?}");
    assert!(of(&calm_calls, "user") > 0.8, "{calm_calls:?}");
    assert!((shares.values().sum::<f64>() - 1.0).abs() < 1e-9, "{shares:?}");
    assert!(of(&shares, "system") > 0.0, "{shares:?}");
}
