// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guard sees of how an application accepts, held against what the application did.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::accepts::Advice;
use tidegate_policy::mechanism;
use tidegate_sim::{Hook, Load, Machine, Program, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

/// One-packet requests at this rate, twice what the server is at its peak, before this accept-limit.
fn of(machine: Machine, program: Program, mechanism: &str, limit: &str, per_s: f64) -> Report {
    let guard = (mechanism::parse(mechanism).unwrap(), Hook::Ip);
    let mut setup = Setup::one_packet(machine, Some(guard), Os::named("linux").unwrap());
    setup.program = program;
    setup.accept_limit = limit.parse().unwrap();
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = SECOND_NS;
    setup.crowd.duration_ns = 2 * SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

/// Accept-1 is told from Accept-100 before the papers' machine and before today's, and the thesis' advice
/// follows.
#[test]
fn the_advice_is_that_of_the_strategy() {
    for (machine, mechanism, per_s) in
        [(Machine::xeon(), "default", 36_000.0), (Machine::today(), "abort rst-syn", 64_000.0)]
    {
        for (limit, advice) in [("1", Advice::More), ("100", Advice::Keep)] {
            let report = of(machine, machine.userver, mechanism, limit, per_s);
            let seen = report.accepts.expect("clients find no room");
            assert_eq!(seen.advice(), advice, "{mechanism}, Accept-{limit}: {seen:?}");
        }
    }
}

/// C_avg (Pariag, equation 4.1) as the queue shows it, and as the server itself counts.
#[test]
fn how_many_at_a_time_is_about_what_the_server_counts() {
    for (limit, advice) in [("100", Advice::Keep), ("inf", Advice::Fewer)] {
        let machine = Machine::today();
        let report = of(machine, machine.userver, "abort rst-syn", limit, 64_000.0);
        let seen = report.accepts.expect("clients find no room");
        let counted = report.application.accepted_per_phase();
        let share = seen.at_a_time.expect("many at a time") / counted;
        // Those who come meanwhile are not seen to be taken.
        assert!((0.5..1.1).contains(&share), "{share} of {counted}: {seen:?}");
        assert_eq!(seen.advice(), advice, "Accept-{limit}: {seen:?}");
        let taken = report.application.accepted as f64 / report.outcome.duration_s;
        assert!((seen.let_in_per_s / taken - 1.0).abs() < 0.1, "{taken}: {seen:?}");
    }
}

/// Pariag, Figure 4.12: below the peak every strategy serves what comes.
#[test]
fn before_a_server_that_keeps_up_there_is_nothing_to_say() {
    let machine = Machine::today();
    for limit in ["1", "inf"] {
        let report = of(machine, machine.userver, "abort rst-syn", limit, 10_000.0);
        assert_eq!(report.accepts, None);
    }
}
