// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lazy accept() (Shukla, section 4.1.2) beside the kernel's own rules: clients wait outside, in their
//! own systems, and not in the listen queue; and what that costs.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_sim::{Hook, Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;
/// One and a half times what the server does at its peak.
const PER_S: f64 = 64_000.0;

/// One-packet requests; `ahead` is of lazy alone.
fn of(mechanism: &str, ahead: u32) -> Report {
    let mut rules = mechanism::parse(mechanism).unwrap();
    rules.ahead = ahead;
    let os = Os::named("linux").unwrap();
    let mut setup = Setup::one_packet(Machine::today(), Some((rules, Hook::Ip)), os);
    setup.crowd.load = Load::Open(Arrivals::poisson(PER_S, 1));
    setup.crowd.warm_up_ns = SECOND_NS / 2;
    setup.crowd.duration_ns = SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

/// "The application thread will invariably block waiting for the three-way handshake to be completed": one
/// ahead keeps the server idle for a round trip with each connection, a few keep it busy.
#[test]
fn those_who_are_let_in_are_served_at_once() {
    let (default, one, few) = (of("default", 0), of("lazy rst-syn", 1), of("lazy rst-syn", 16));
    for (name, report) in [("default", &default), ("one", &one), ("few", &few)] {
        let outcome = &report.outcome;
        println!("{name}: {} /s, {:?}", outcome.replies_per_s, outcome.response_ms);
    }
    let mean = |report: &Report| report.outcome.response_ms.mean;
    assert!(mean(&one) < mean(&default) / 10.0 && mean(&few) < mean(&default) / 10.0);
    assert!(one.outcome.replies_per_s < 0.9 * few.outcome.replies_per_s);
    assert!(few.outcome.replies_per_s > default.outcome.replies_per_s);
    // No ACK finds the listen queue full, and nobody who was let in waits in vain.
    for report in [&one, &few] {
        assert_eq!(report.outcome.errors.timed_out(), 0);
        assert!(report.outcome.errors.turned_away() > 0);
    }
}
