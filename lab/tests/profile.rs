// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A processor's time, told by its clock.

use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tidegate_lab::{
    Link, Namespace, ProcessorTime, Profile, allowed_cpus, pin_thread, say_skipped,
    skip_without_root,
};

/// Each measures the same processor.
static ALONE: Mutex<()> = Mutex::new(());

/// Work of which it is known where it is spent: in this program, or in the kernel's memory
/// management.
#[test]
fn a_profile_finds_where_the_time_goes() {
    if skip_without_root("a_profile_finds_where_the_time_goes") {
        return;
    }
    let _alone = ALONE.lock();
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

/// A program that runs for a tenth of the time, on a processor to which packets come throughout: most
/// of them find nobody running there.
#[test]
fn packets_that_come_to_an_idle_processor_are_in_its_busy_time() {
    let test = "packets_that_come_to_an_idle_processor_are_in_its_busy_time";
    if skip_without_root(test) {
        return;
    }
    let [own, senders, ..] = allowed_cpus().expect("processors")[..] else {
        return say_skipped(test, &"there is one processor");
    };
    let _alone = ALONE.lock();
    let [server, clients] = ["server", "clients"].map(|label| Namespace::new(label).unwrap());
    let link = Link::between(&server, "server0", &clients, "clients0").unwrap();
    for (end, address, cpu) in [(link.a(), "10.0.0.1", own), (link.b(), "10.0.0.2", senders)] {
        end.add_address(&format!("{address}/24")).unwrap();
        end.receive_on(cpu).unwrap();
    }
    link.up().unwrap();
    let end = Instant::now() + Duration::from_secs(2);

    let before = ProcessorTime::of(own).expect("a processor's time");
    let profile = Profile::start(own).expect("perf events");
    let program = thread::spawn(move || {
        pin_thread(own).expect("a processor");
        while Instant::now() < end {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(10) {}
            thread::sleep(Duration::from_millis(90));
        }
    });
    let connecting = clients.thread(move || {
        pin_thread(senders).expect("a processor");
        while Instant::now() < end {
            assert!(TcpStream::connect("10.0.0.1:80").is_err(), "nobody listens there");
        }
    });
    connecting.unwrap().join().unwrap();
    program.join().unwrap();
    let clock = ProcessorTime::of(own).expect("its time").shares_since(&before);
    let parts = profile.finish().named().components();

    // Other programs may run there meanwhile: the clock tells of them, too.
    let by_clock = clock["user"] / (1.0 - clock["idle"]);
    let off = (parts["application"] - by_clock).abs();
    assert!(off < 0.35, "{parts:?}, by the processor's clock: {clock:?}");
    assert!((parts.values().sum::<f64>() - 1.0).abs() < 1e-9, "{parts:?}");
}
