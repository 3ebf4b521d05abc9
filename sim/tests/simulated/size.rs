// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues of the recommended size (`tidegate_policy::size`) against simulated bursts: drops stay below
//! the target, and do not where a third of it is all that there is.
//!
//! The bursts are drawn at random, from a seed that is always the same.

use std::num::NonZeroU32;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidegate_client::{Arrivals, Os, Step};
use tidegate_policy::size::{Burst, Size, recommend};
use tidegate_servers::AcceptLimit;
use tidegate_sim::{Attention, Costs, Load, Machine, Napi, Pace, Report, Setup, World};

const SECOND_NS: f64 = 1e9;
/// Load before the burst: the queue is as long as it is in calm.
const CALM_S: f64 = 1.0;
/// Who waits longer has met a queue that is longer than any here.
const TIMEOUT_S: f64 = 60.0;

/// A burst, and before what.
#[derive(Clone, Debug)]
struct Case {
    burst: Burst,
    accept_limit: AcceptLimit,
    syncookies: u32,
    seed: u64,
}

fn cases(count: usize) -> Vec<Case> {
    let numbers =
        (300.0..2000.0_f64, 0.0..0.8_f64, 1.1..4.0_f64, 0.2..1.5_f64, 0.002..0.2_f64, 0.001..0.03);
    let ways = (0..3_usize, 0..2_u32, any::<u64>());
    let drawn = (numbers, ways).prop_map(|(numbers, (limit, syncookies, seed))| {
        let (drain_per_s, calm, times, burst_s, rtt_s, drops) = numbers;
        let (calm_per_s, burst_per_s) = (calm * drain_per_s, times * drain_per_s);
        let limits = [1, 16, u32::MAX].map(|limit| NonZeroU32::new(limit).expect("not 0"));
        let accept_limit = match limits[limit].get() {
            u32::MAX => AcceptLimit::INF,
            _ => AcceptLimit::at_most(limits[limit]),
        };
        let pause_s = 0.0;
        let burst = Burst { drain_per_s, calm_per_s, burst_per_s, burst_s, rtt_s, pause_s, drops };
        Case { burst, accept_limit, syncookies, seed }
    });
    let mut runner = TestRunner::deterministic();
    let mut draw = || drawn.new_tree(&mut runner).expect("numbers").current();
    (0..count).map(|_| draw()).collect()
}

impl Case {
    /// A server at which nothing costs anything but the requests.
    fn ideal(&self) -> Setup {
        let machine = Machine {
            costs: Costs::default(),
            napi: Napi::NONE,
            wire_ns: (self.burst.rtt_s * SECOND_NS / 2.0) as u64,
            clients: Attention::default(),
            pace: Pace::EVEN,
            ..Machine::today()
        };
        self.setup(machine)
    }

    /// The same on a machine of today, whose packets take its processor's time.
    fn today(&self) -> Setup {
        self.setup(Machine { wire_ns: self.ideal().machine.wire_ns, ..Machine::today() })
    }

    fn setup(&self, machine: Machine) -> Setup {
        let Burst { drain_per_s, calm_per_s, burst_per_s, burst_s, .. } = self.burst;
        let mut setup = Setup::one_packet(machine, None, Os::named("linux").expect("a system"));
        setup.cost_ns = (SECOND_NS / drain_per_s) as u64;
        setup.accept_limit = self.accept_limit;
        setup.seed = self.seed;
        let ns = |seconds: f64| (seconds * SECOND_NS) as u64;
        let step = |lasts_s, per_s| Step { lasts_ns: ns(lasts_s), times: per_s };
        let calm = step(CALM_S, calm_per_s);
        let steps = [calm, step(burst_s, burst_per_s), calm];
        let crowd = &mut setup.crowd;
        crowd.load = Load::Open(Arrivals::poisson(1.0, self.seed).in_steps(&steps));
        crowd.person.timeout_ns = ns(TIMEOUT_S);
        (crowd.warm_up_ns, crowd.duration_ns) = (calm.lasts_ns, ns(burst_s));
        setup.kernel.syncookies = self.syncookies;
        setup
    }
}

fn run(mut setup: Setup, backlog: u32, size: &Size) -> Report {
    setup.backlog = backlog;
    setup.kernel.syn_max = size.max_syn_backlog;
    World::new(setup).run(&mut |_| {})
}

/// Of the SYNs of those that came in the burst, the share that was dropped: nothing else has one sent
/// again.
fn dropped(report: &Report) -> f64 {
    let classes = &report.outcome.syns_per_attempt;
    let syns: u64 = classes.iter().map(|(syns, class)| u64::from(*syns) * class.attempts).sum();
    (syns - report.outcome.attempts) as f64 / syns as f64
}

/// What a server takes while clients wait: it answers one after the other.
fn measured_drain(setup: &Setup, size: &Size) -> f64 {
    let report = run(setup.clone(), 65_535, size);
    report.application.replies as f64 / report.outcome.duration_s
}

/// Holds the recommendation for a burst against it. Whether a third was tried, too: where most of a
/// queue is for chance, a third of it may well do.
fn check(case: &Case, setup: &Setup) -> bool {
    let (size, target) = (recommend(&case.burst).unwrap(), case.burst.drops);
    let report = run(setup.clone(), size.backlog, &size);
    let share = dropped(&report);
    assert!(share <= target, "{share} with {size:?} of {case:?}");
    assert_eq!(report.outcome.replies, report.outcome.attempts, "{case:?}");
    let tries_third = f64::from(size.fluid_places) > 0.6 * f64::from(size.backlog);
    if tries_third {
        let third = dropped(&run(setup.clone(), size.backlog / 3, &size));
        assert!(third > target, "{third} with a third of {size:?} of {case:?}");
    }
    tries_third
}

#[test]
fn the_recommended_queues_hold_drops_under_their_target() {
    let thirds = cases(30).iter().filter(|case| check(case, &case.ideal())).count();
    assert!(thirds > 10, "{thirds}");
}

/// Where packets take the processor, the drain is what is measured under such a load.
#[test]
fn with_the_drain_as_it_is_under_load_they_do_so_on_a_machine_of_today() {
    let mut thirds = 0;
    for mut case in cases(12) {
        let setup = case.today();
        let before = recommend(&case.burst).unwrap();
        case.burst.drain_per_s = measured_drain(&setup, &before);
        thirds += u32::from(check(&case, &setup));
    }
    assert!(thirds > 3, "{thirds}");
}

/// Clients so far away that the SYN queue is the longer one, without SYN cookies: both of its bounds, the
/// backlog and three quarters of tcp_max_syn_backlog, hold what comes, and a third of either does not.
#[test]
fn a_syn_queue_of_the_recommended_length_holds_clients_far_away() {
    let burst = Burst {
        drain_per_s: 2000.0,
        calm_per_s: 200.0,
        burst_per_s: 1500.0,
        burst_s: 2.0,
        rtt_s: 0.2,
        pause_s: 0.0,
        drops: 0.001,
    };
    for seed in 0..10 {
        let case = Case { burst, accept_limit: AcceptLimit::INF, syncookies: 0, seed };
        let size = recommend(&case.burst).unwrap();
        assert!(size.syn_places > size.listen_places, "{size:?}");
        let share = |backlog: u32, size: &Size| dropped(&run(case.ideal(), backlog, size));
        let recommended = share(size.backlog, &size);
        assert!(recommended <= burst.drops, "{recommended} with {size:?}");
        let short_backlog = share(size.backlog / 3, &size);
        assert!(short_backlog > burst.drops, "{short_backlog}");
        let short_sysctl = Size { max_syn_backlog: size.max_syn_backlog / 3, ..size };
        let short_sysctl = share(size.backlog, &short_sysctl);
        assert!(short_sysctl > burst.drops, "{short_sysctl}");
    }
}
