// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine of several processors: packets are spread over all, the program has the first.

use tidegate_client::{Arrivals, Os};
use tidegate_sim::{Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

fn run(cores: u32, per_s: f64) -> Report {
    let os = Os::named("linux-2.4").unwrap();
    let mut setup = Setup::one_packet(Machine { cores, ..Machine::xeon() }, None, os);
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = SECOND_NS / 5;
    setup.crowd.duration_ns = SECOND_NS / 2;
    World::new(setup).run(&mut |_| {})
}

/// One processor spends its time on packets that come to nothing (Shukla, section 4.1.1); of four,
/// three take them off the program's.
#[test]
fn processors_for_packets_leave_the_program_to_its_work() {
    // At three times the capacity one processor serves 11,000 or 21,000 in this half second, as chance has it.
    let (one, four) = (run(1, 40_000.0), run(4, 40_000.0));
    let (alone, helped) = (one.outcome.replies_per_s, four.outcome.replies_per_s);
    assert!(helped > 1.5 * alone, "{alone} replies/s on one processor, {helped} on four");
    let whole_ns = |report: &Report| {
        let spent = report.spent;
        spent.softirq_ns + spent.system_ns + spent.user_ns
    };
    assert_eq!(four.cores, 4);
    assert!(whole_ns(&four) > whole_ns(&one), "four do more");
    assert!(whole_ns(&four) <= 4 * SECOND_NS / 2 + SECOND_NS / 1000, "and no more than they can");
}

/// Below saturation they change nothing but how long things take.
#[test]
fn nobody_is_lost_between_them() {
    for cores in [2, 3, 8] {
        let report = run(cores, 5_000.0);
        assert_eq!(report.outcome.errors.total(), 0, "{cores}");
        assert_eq!(report.balance.served, report.balance.attempts, "{cores}");
        assert!(report.outcome.response_ms.p99 < 2.0, "{:?}", report.outcome.response_ms);
    }
}

#[test]
fn a_seed_is_a_run_on_any_number_of_them() {
    for cores in [2, 5] {
        let (one, other) = (run(cores, 40_000.0), run(cores, 40_000.0));
        assert_eq!(one.outcome, other.outcome, "{cores}");
        assert_eq!((one.spent, one.events), (other.spent, other.events), "{cores}");
    }
}
