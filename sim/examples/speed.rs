// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many connection attempts a second of real time one core simulates, in one-packet overload.
//!
//! `cargo run --release -p tidegate-sim --example speed`, of all, or with the beginning of a line's name
//! behind `--` of those lines only, and with a number after it for so many simulated seconds.

mod processor;

use processor::processor_s;
use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_servers::AcceptLimit;
use tidegate_sim::{Load, Machine, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let only = std::env::args().nth(1).unwrap_or_default();
    let seconds = std::env::args().nth(2).map_or(Ok(20), |seconds| seconds.parse())?;
    println!("{:<28} {:>10} {:>14} {:>14} {:>10}", "", "attempts", "attempts/s", "events/s", "s");
    let dynamic = AcceptLimit::Dynamic;
    for (machine, name, limit, mechanism, per_s) in [
        (Machine::today(), "today", dynamic, "abort rst-syn", 150_000.0),
        (Machine::today(), "today", dynamic, "default", 60_000.0),
        (Machine::xeon(), "the papers", AcceptLimit::INF, "abort rst-syn", 60_000.0),
        (Machine::xeon(), "the papers", AcceptLimit::INF, "default", 40_000.0),
    ] {
        let name = format!("{mechanism}, {name}");
        if !name.starts_with(&only) {
            continue;
        }
        let world = World::new(setup(machine, limit, mechanism, per_s, seconds)?);
        let began_s = processor_s();
        let report = world.run(&mut |_| {});
        let took_s = processor_s() - began_s;
        println!(
            "{name:<28} {:>10} {:>14.0} {:>14.0} {took_s:>10.2}",
            report.balance.attempts,
            report.balance.attempts as f64 / took_s,
            report.events as f64 / took_s,
        );
    }
    Ok(())
}

fn setup(
    machine: Machine,
    accept_limit: AcceptLimit,
    mechanism: &str,
    per_s: f64,
    seconds: u64,
) -> Result<Setup, Box<dyn std::error::Error>> {
    let guard = (mechanism::parse(mechanism)?, machine.hook);
    let mut setup = Setup::one_packet(machine, Some(guard), Os::named("linux-2.4")?);
    setup.accept_limit = accept_limit;
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = SECOND_NS;
    setup.crowd.duration_ns = seconds * SECOND_NS;
    setup.crowd.cool_down_ns = SECOND_NS;
    Ok(setup)
}
