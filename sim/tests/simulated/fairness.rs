// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who goes first, in a simulated world: networks of clients that are policed or exempt.

use tidegate_client::{Arrivals, Os, Outcome, Part};
use tidegate_policy::mechanism;
use tidegate_policy::police::Limited;
use tidegate_policy::raw::tg_limit;
use tidegate_policy::share::max_min;
use tidegate_scenarios::{Delay, network};
use tidegate_sim::{Hook, Load, Machine, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;
const SECONDS: u64 = 10;
/// What the server of these tests takes, a second.
const TAKEN_PER_S: f64 = 1130.0;

/// A server that can do about 1,000 requests a second, and clients of these networks, so many
/// connections a second from each.
fn setup(mechanism: &str, per_s: &[f64]) -> Setup {
    let rules = mechanism::parse(mechanism).unwrap();
    let os = Os::named("linux").unwrap();
    let mut setup = Setup::one_packet(Machine::today(), Some((rules, Hook::Ip)), os);
    setup.cost_ns = 900_000;
    setup.crowd.person.timeout_ns = 3 * SECOND_NS;
    setup.crowd.networks = per_s.to_vec();
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s.iter().sum(), 1));
    setup.crowd.warm_up_ns = 2 * SECOND_NS;
    setup.crowd.duration_ns = SECONDS * SECOND_NS;
    setup.crowd.cool_down_ns = 3 * SECOND_NS;
    setup
}

fn networks(setup: Setup) -> Vec<Part> {
    World::new(setup).run(&mut |_| {}).outcome.parts
}

fn limited(number: u16, bits: u8, limit: tg_limit) -> Limited {
    let addr = [u32::from_ne_bytes(network(number).octets()), 0, 0, 0];
    Limited { addr, is_ipv6: false, bits, limit }
}

/// Voigt and others: a network that sends five times what the server can do is held to its rate, and
/// who is not policed does not notice; within the policed network an exempt one does not, either.
#[test]
fn a_policed_network_has_its_rate_and_nobody_else_notices() {
    for mechanism in ["abort rst-syn", "reserv rst-syn", "auto"] {
        let mut setup = setup(mechanism, &[5000.0, 100.0, 100.0]);
        setup.limits =
            vec![limited(0, 23, tg_limit::new(200, 20)), limited(1, 24, tg_limit::exempt())];
        let seen = networks(setup);
        let per_s = seen[0].replies as f64 / SECONDS as f64;
        assert!((190.0..=203.0).contains(&per_s), "{mechanism}: {per_s} a second at 200");
        for other in &seen[1..] {
            assert_eq!(other.replies, other.attempts, "{mechanism}: {seen:?}");
        }
    }
}

/// One network sends fifty times what each of the others does, and there is room for half of all, or
/// less: it gets no more than its share, and the others do alike, whatever the mechanism, and whether
/// the server accepts one at a time or all who wait. Without shares it has most of the room.
#[test]
fn one_network_at_fifty_times_the_rate_gets_no_more_than_its_share() {
    const OTHERS: usize = 30;
    const LONG_S: u64 = 40;
    let per_s = |replies: u64| replies as f64 / LONG_S as f64;
    for (each_per_s, mechanism, accept_limit) in [
        (20.0, "abort rst-syn", "1"),
        (20.0, "abort rst-syn", "inf"),
        (20.0, "reserv rst-syn", "inf"),
        (20.0, "early-syn-drop", "inf"),
        (20.0, "auto", "inf"),
        (40.0, "abort rst-syn", "1"),
        (40.0, "abort rst-syn", "inf"),
        (40.0, "reserv rst-syn", "inf"),
        (40.0, "auto", "inf"),
    ] {
        let label = format!("{mechanism}, {each_per_s} a second each, accept {accept_limit}");
        let mut rates = vec![each_per_s; OTHERS];
        rates.push(50.0 * each_per_s);
        let mut unfair = setup(mechanism, &rates);
        unfair.accept_limit = accept_limit.parse().unwrap();
        unfair.crowd.warm_up_ns = 5 * SECOND_NS;
        unfair.crowd.duration_ns = LONG_S * SECOND_NS;
        let mut fair = unfair.clone();
        let rules = &mut fair.guard.as_mut().unwrap().0;
        (rules.share_ipv4_bits, rules.share_ipv6_bits) = (24, 56);

        let (unfair, fair) = (networks(unfair), networks(fair));
        let all: u64 = fair.iter().map(|seen| seen.replies).sum();
        let share = max_min(&rates, per_s(all));
        let large = per_s(fair[OTHERS].replies);
        let others = &fair[..OTHERS];
        let replies: u64 = others.iter().map(|seen| seen.replies).sum();
        let attempts: u64 = others.iter().map(|seen| seen.attempts).sum();
        let success = replies as f64 / attempts as f64;
        println!(
            "{label}: {all} replies, {large} a second of shares of {share:.1} (without {}); others {success:.3}",
            per_s(unfair[OTHERS].replies)
        );
        assert!(per_s(unfair[OTHERS].replies) > 1.2 * share, "{label}: {unfair:?}");
        // Twice what chance makes of a count.
        let chance = 2.0 * (share / LONG_S as f64).sqrt();
        assert!(large <= 1.05 * share + chance, "{label}: {large} a second of shares of {share}");
        assert!(success >= 0.95 * (share / each_per_s).min(1.0), "{label}: others {success}");
        for other in others {
            // What chance leaves: five standard deviations of a draw.
            let chance = 5.0 * (success * (1.0 - success) / other.attempts as f64).sqrt();
            let apart = (other.success() - success).abs();
            assert!(apart <= 0.05 * success + chance, "{label}: {other:?} of {success}");
        }
    }
}

/// What twenty networks that are alike, and one of fifty times as much, send together so many times as often as
/// the server takes.
fn twenty_and_a_large_one(times: f64) -> Vec<f64> {
    let each_per_s = times * TAKEN_PER_S / 70.0;
    let mut rates = vec![each_per_s; 20];
    rates.push(50.0 * each_per_s);
    rates
}

/// What clients see of a crowd that has stayed for a while, with shares and without.
fn with_and_without_shares(setup: Setup) -> [Outcome; 2] {
    [(24, 56), (0, 0)].map(|bits| {
        let mut setup = setup.clone();
        let rules = &mut setup.guard.as_mut().unwrap().0;
        (rules.share_ipv4_bits, rules.share_ipv6_bits) = bits;
        setup.crowd.warm_up_ns = 20 * SECOND_NS;
        setup.crowd.duration_ns = 40 * SECOND_NS;
        World::new(setup).run(&mut |_| {}).outcome
    })
}

/// `auto` keeps the queue short, and shares are kept before it: twenty networks that are alike and one of
/// fifty times as much are served as many as without shares, and wait no longer than twice as long, but
/// where the crowd is hardly too large.
#[test]
fn with_auto_shares_cost_nobody_replies_or_time() {
    for times in [1.2, 1.5, 2.0, 5.0] {
        let [fair, unfair] = with_and_without_shares(setup("auto", &twenty_and_a_large_one(times)));
        let per_s = [&fair, &unfair].map(|outcome| outcome.replies_per_s);
        let mean_ms = [&fair, &unfair].map(|outcome| outcome.response_ms.mean);
        let least = fair.parts[..20].iter().map(Part::success).fold(1.0, f64::min);
        println!("{times}: {per_s:?} a second in {mean_ms:?} ms; of the others {least:.3}");
        assert!(per_s[0] >= 0.97 * per_s[1], "{times}: {per_s:?}");
        assert!(times < 1.5 || mean_ms[0] <= 2.0 * mean_ms[1], "{times}: {mean_ms:?}");
        assert!(times > 2.0 || least >= 0.98, "{times}: {least}");
    }
}

/// Networks of which none sends more than the others, a client now and then from each of thousands, have
/// what they have without shares. And where clients are away, a round trip of 40 ms, shares cost hardly more.
#[test]
fn with_auto_shares_change_nothing_for_a_crowd_from_everywhere() {
    let alike = vec![5.0 * TAKEN_PER_S / 5000.0; 5000];
    for (rates, mean_ms) in [(alike, 0.0), (twenty_and_a_large_one(5.0), 20.0)] {
        let mut setup = setup("auto", &rates);
        setup.backlog = 511;
        setup.way.delay = Delay { mean_ms, spread_ms: 0.0 };
        let [fair, unfair] = with_and_without_shares(setup);
        let per_s = [&fair, &unfair].map(|outcome| outcome.replies_per_s);
        let response_ms = [&fair, &unfair].map(|outcome| outcome.response_ms.mean);
        println!("{mean_ms} ms away: {per_s:?} a second in {response_ms:?} ms");
        assert!(per_s[0] >= 0.97 * per_s[1], "{mean_ms}: {per_s:?}");
        assert!(response_ms[0] <= 1.2 * response_ms[1], "{mean_ms}: {response_ms:?}");
    }
}
