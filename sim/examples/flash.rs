// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A flash crowd of up to so many million clients within 500 s: real time and memory.
//!
//! `cargo run --release -p tidegate-sim --example flash -- 100 "abort rst-syn"`

mod processor;

use processor::processor_s;
use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_servers::AcceptLimit;
use tidegate_sim::{Load, Machine, Setup, SimError, World};

const SECOND_NS: u64 = 1_000_000_000;
const LASTS_S: u64 = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let millions: u64 = arguments.next().map_or(Ok(10), |given| given.parse())?;
    let mechanism = arguments.next().unwrap_or_else(|| "abort rst-syn".to_owned());
    println!("{mechanism}, Linux clients of today, 10 s of patience, {LASTS_S} s");
    println!(
        "{:>12} {:>10} {:>12} {:>12} {:>10} {:>10}",
        "clients", "served", "at a time", "clients/s", "s", "MiB most"
    );
    let mut clients = millions * 1_000_000;
    let mut sizes = vec![clients];
    while clients > 1_000_000 && sizes.len() < 4 {
        clients /= 4;
        sizes.push(clients);
    }
    // From small to large: the most memory so far is then the largest's.
    for clients in sizes.into_iter().rev() {
        let world = World::new(setup(&mechanism, clients)?);
        let began_s = processor_s();
        let report = world.run(&mut |_| {});
        let took_s = processor_s() - began_s;
        let balance = report.balance;
        println!(
            "{:>12} {:>10} {:>12} {:>12.0} {took_s:>10.2} {:>10}",
            balance.attempts,
            balance.served,
            report.outcome.in_flight_max,
            balance.attempts as f64 / took_s,
            most_memory_mib(),
        );
    }
    Ok(())
}

fn setup(mechanism: &str, clients: u64) -> Result<Setup, SimError> {
    let machine = Machine::today();
    let guard = (mechanism::parse(mechanism)?, machine.hook);
    let mut setup = Setup::one_packet(machine, Some(guard), Os::linux());
    // Accept-INF would never come to work: somebody always waits.
    setup.accept_limit = AcceptLimit::Dynamic;
    setup.cost_ns = 20_000;
    setup.crowd.load = Load::Open(Arrivals::poisson(clients as f64 / LASTS_S as f64, 1));
    setup.crowd.duration_ns = LASTS_S * SECOND_NS;
    Ok(setup)
}

/// The most memory that this process has had, in MiB; 0 where nobody says.
fn most_memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
