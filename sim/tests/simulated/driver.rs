// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A driver whose work is another processor's, as a veth's is.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_sim::{Costs, Hook, Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

fn run(driver_elsewhere: bool, hook: Hook, early_ns: u64, per_s: f64) -> Report {
    let costs = Costs { early_ns, ..Costs::TODAY };
    let machine = Machine { driver_elsewhere, costs, ..Machine::today() };
    let rules = mechanism::parse("rst-syn").unwrap();
    let os = Os::named("linux-2.4").unwrap();
    let mut setup = Setup::one_packet(machine, Some((rules, hook)), os);
    setup.cost_ns = 100_000;
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = SECOND_NS / 5;
    setup.crowd.duration_ns = SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

/// What such a driver refuses takes nothing from the server but what the processors take from each
/// other; at any other hook, and by a driver of its own, it takes interrupts and more.
#[test]
fn what_it_refuses_costs_the_server_what_the_processors_take_from_each_other() {
    const FLOOD_PER_S: f64 = 100_000.0;
    let served = |elsewhere, hook, early_ns, per_s| {
        run(elsewhere, hook, early_ns, per_s).outcome.replies_per_s
    };
    let peak = served(true, Hook::Driver, 0, 10_000.0);
    let unmoved = served(true, Hook::Driver, 0, FLOOD_PER_S);
    assert!((unmoved / peak - 1.0).abs() < 0.02, "{unmoved} of {peak} replies/s");
    // Some 93,000 a second, 1 µs each.
    let slowed = served(true, Hook::Driver, 1000, FLOOD_PER_S);
    let share = slowed / peak;
    assert!((0.88..0.94).contains(&share), "{slowed} of {peak} replies/s");
    assert!(served(false, Hook::Driver, 1000, FLOOD_PER_S) < slowed);
    let elsewhere_at_ip = served(true, Hook::Ip, 0, FLOOD_PER_S);
    assert!((elsewhere_at_ip - served(false, Hook::Ip, 0, FLOOD_PER_S)).abs() < 1e-9);
}

/// The same clients are refused, and none of that is the server's own time.
#[test]
fn what_it_does_is_not_the_servers_time() {
    let (own, other) =
        (run(false, Hook::Driver, 300, 30_000.0), run(true, Hook::Driver, 300, 30_000.0));
    assert!(own.outcome.errors.refused > 20_000 && other.outcome.errors.refused > 20_000);
    let refused_ns = other.outcome.errors.refused * 300;
    assert!(other.spent.softirq_ns + refused_ns < own.spent.softirq_ns, "{other:?}");
}
