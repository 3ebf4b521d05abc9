// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that are away: between a SYN that is let in and the place that it takes lies a round trip.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_scenarios::Delay;
use tidegate_sim::{Hook, Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

/// auto before a server that can do about 1,080 requests a second, in a crowd of so many that stays, so far
/// away.
fn of(one_way_ms: f64, per_s: f64) -> Report {
    let rules = mechanism::parse("auto").unwrap();
    let os = Os::named("linux").unwrap();
    let mut setup = Setup::one_packet(Machine::today(), Some((rules, Hook::Ip)), os);
    setup.cost_ns = 900_000;
    setup.way.delay = Delay { mean_ms: one_way_ms, spread_ms: one_way_ms / 5.0 };
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = 25 * SECOND_NS;
    setup.crowd.duration_ns = 20 * SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

/// A short queue is no limit for those who are on their way: let in by the queue that there is, they
/// would come all together, and then, for a round trip, nobody. By the pace of the server it is as busy
/// as with clients next door, and who is let in waits hardly longer than its two round trips.
#[test]
fn clients_that_are_away_keep_the_server_as_busy_and_wait_no_longer() {
    for per_s in [1250.0, 1500.0] {
        let (near, far) = (of(0.0, per_s).outcome, of(50.0, per_s).outcome);
        println!("{per_s}: {} and {} /s", near.replies_per_s, far.replies_per_s);
        println!("{:?} and {:?}", near.response_ms, far.response_ms);
        assert!(far.replies_per_s >= 0.97 * near.replies_per_s);
        assert!(far.response_ms.mean <= near.response_ms.mean + 200.0 + 30.0);
    }
}
