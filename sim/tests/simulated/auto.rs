// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `auto` beside the mechanisms that one would have to choose from, at a few points of the grid whose best are
//! different ones: `tidelab figure today-auto-grid --world sim --full` has all of them.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_sim::{Hook, Load, Machine, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;
/// A request of 0.9 ms of work, and what serving it takes.
const CAPACITY_PER_S: f64 = 1000.0;
const FIXED: [&str; 4] = ["default", "abort", "abort rst-syn", "no-syn-drop"];
/// Bursts of so many seconds, with five of silence behind each; 0: the crowd stays.
const CROWDS: [(u64, f64); 4] = [(0, 1.5), (0, 3.0), (1, 3.0), (10, 1.5)];

/// A server with a listen queue of this length, and clients of this system, so many times as many as it
/// can serve.
fn setup(mechanism: &str, backlog: u32, os: &str, (burst_s, times): (u64, f64)) -> Setup {
    let rules = mechanism::parse(mechanism).unwrap();
    let os = Os::named(os).unwrap();
    let mut setup = Setup::one_packet(Machine::today(), Some((rules, Hook::Ip)), os);
    setup.cost_ns = 900_000;
    setup.backlog = backlog;
    let come = Arrivals::poisson(times * CAPACITY_PER_S, 1);
    let silence_s = if burst_s == 0 { 0 } else { 5 };
    setup.crowd.load = Load::Open(come.in_bursts(burst_s * SECOND_NS, silence_s * SECOND_NS));
    setup.crowd.warm_up_ns = 30 * SECOND_NS;
    setup.crowd.duration_ns = 60 * SECOND_NS;
    setup
}

fn replies_per_s(mechanism: &str, os: &str, crowd: (u64, f64)) -> f64 {
    World::new(setup(mechanism, 128, os, crowd)).run(&mut |_| {}).outcome.replies_per_s
}

/// Nobody knows beforehand which of the fixed mechanisms will be the best.
#[test]
fn auto_serves_as_many_as_the_best_of_those_that_one_would_have_to_choose() {
    let mut best_ones = Vec::new();
    for os in ["linux", "windows"] {
        for crowd in CROWDS {
            let fixed = FIXED.map(|name| replies_per_s(name, os, crowd));
            let best = fixed.into_iter().fold(0.0, f64::max);
            best_ones.push(fixed.iter().position(|per_s| *per_s == best).unwrap());
            let auto = replies_per_s("auto", os, crowd);
            println!("{os}, {crowd:?}: {auto} of {FIXED:?} {fixed:?}");
            assert!(auto >= 0.97 * best, "{os}, {crowd:?}: {auto} of {best}");
        }
    }
    best_ones.sort_unstable();
    best_ones.dedup();
    assert!(best_ones.len() > 1, "one of them is the best everywhere here: {best_ones:?}");
}

/// What an administrator has who asks for as long a queue as today's kernel allows: seconds of waiting. At
/// hardly more than the capacity a second is left of it, in which hardly anybody finds no room; in a crowd
/// nothing, when it has stayed for a while.
#[test]
fn a_long_listen_queue_is_no_longer_than_those_who_are_served_care_to_wait() {
    const LONGEST: u32 = 4096;
    let of = |mechanism, times| {
        let mut setup = setup(mechanism, LONGEST, "linux", (0, times));
        // One that accepts all who wait has them wait inside, where nobody sees it.
        setup.accept_limit = "1".parse().unwrap();
        let report = World::new(setup).run(&mut |_| {});
        println!("{mechanism}, {times}: {:?}", report.outcome.response_ms);
        report.outcome
    };
    for times in [1.1, 1.5, 3.0] {
        let (kernel, auto) = (of("default", times), of("auto", times));
        assert!(kernel.response_ms.p99 > 1700.0, "{times}: {:?}", kernel.response_ms);
        assert!(auto.response_ms.mean < 0.7 * kernel.response_ms.mean, "{times}");
        assert!(times < 1.5 || auto.response_ms.p99 < 100.0, "{times}: {:?}", auto.response_ms);
        assert!(auto.replies_per_s >= 0.97 * kernel.replies_per_s, "{times}");
    }
}

/// In a minute after the first thirty seconds, of three crowds that stay.
fn phase_changes(os: &str, times: f64) -> [u64; 3] {
    [1, 2, 3].map(|seed| {
        let mut setup = setup("auto", 128, os, (0, times));
        setup.crowd.load = Load::Open(Arrivals::poisson(times * CAPACITY_PER_S, seed));
        setup.seed = seed;
        World::new(setup).run(&mut |_| {}).phase_changes()
    })
}

/// Hysteresis: what a crowd is taken for does not change while the crowd does not, neither below what the
/// server can do (1,130 a second) nor a third above it. Between there chance has a part in whether more
/// come than are served, and it changes every few seconds, mostly for some milliseconds.
#[test]
fn while_a_crowd_stays_it_is_in_one_phase() {
    for os in ["linux", "windows"] {
        for times in [0.5, 0.9, 1.5, 3.0, 5.0] {
            assert_eq!(phase_changes(os, times), [0; 3], "{os}, {times}");
        }
        let edge = phase_changes(os, 1.2);
        println!("{os}: {edge:?} where it is hardly an overload");
        assert!(edge.iter().all(|changes| (1..=24).contains(changes)), "{os}: {edge:?}");
    }
}

/// A server that takes as many as the listen queue holds and then, for half a second, none, before clients
/// who stay no longer than that: of what it takes in one turn nobody is left to be served in the next,
/// unless the queue is kept short, for which it has to be known what it takes in the mean.
#[test]
fn who_has_little_patience_is_served_by_a_server_that_takes_many_at_a_time() {
    let of = |mechanism, seed| {
        let mut setup = setup(mechanism, 512, "linux", (0, 1.3));
        setup.way.delay.mean_ms = 50.0;
        setup.crowd.person.timeout_ns = 600_000_000;
        setup.crowd.load = Load::Open(Arrivals::poisson(1.3 * CAPACITY_PER_S, seed));
        setup.seed = seed;
        World::new(setup).run(&mut |_| {}).outcome.replies_per_s
    };
    for seed in [1, 2, 3] {
        let (kernel, auto) = (of("default", seed), of("auto", seed));
        println!("{seed}: {kernel} and {auto} /s");
        assert!(kernel < 0.1 * CAPACITY_PER_S, "{seed}: {kernel}");
        assert!(auto > 0.85 * CAPACITY_PER_S, "{seed}: {auto}");
    }
}
