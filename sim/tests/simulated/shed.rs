// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping in a simulated world: the policy's own decisions, at a server with a queue.

use tidegate_client::{Arrivals, Os, Outcome, Trace};
use tidegate_policy::raw::{
    TG_KEY_CLIENT, TG_KEY_CONNECTION, TG_RBD, TG_REFUSE_COOKIE, TG_REFUSE_RESET, TG_SBPD, TG_SLPD,
    tg_shed_rules,
};
use tidegate_sim::{Hook, Load, Machine, Report, Setup, Shed, World};

const SECOND_NS: u64 = 1_000_000_000;

/// A server that can do about 1,000 requests a second.
fn setup(shed: Option<Shed>) -> Setup {
    let os = Os::named("linux").unwrap();
    let mut setup = Setup::one_packet(Machine::today(), None, os);
    setup.cost_ns = 900_000;
    setup.crowd.person.timeout_ns = 3 * SECOND_NS;
    setup.shed = shed;
    setup
}

fn of(setup: Setup) -> Report {
    World::new(setup).run(&mut |_| {})
}

fn shed(rules: tg_shed_rules) -> Option<Shed> {
    Some(Shed {
        rules: rules.with_table(10_000, 1.2),
        hook: Some(Hook::Ip),
        in_series: 1,
        preferred: None,
    })
}

fn capacity_per_s() -> f64 {
    let mut closed = setup(None);
    closed.crowd.load = Load::Closed { clients: 64 };
    closed.crowd.warm_up_ns = SECOND_NS;
    closed.crowd.duration_ns = 4 * SECOND_NS;
    of(closed).outcome.replies_per_s
}

/// Half of the capacity, three times as much from 3 s on, and half again from 13 s on.
fn step(capacity_per_s: f64) -> Arrivals {
    let (mut text, mut at_s) = (String::new(), 0.0);
    while at_s < 25.0 {
        text.push_str(&format!("{at_s:.6}\n"));
        let load = if (3.0..13.0).contains(&at_s) { 3.0 } else { 0.5 };
        at_s += 1.0 / (load * capacity_per_s);
    }
    Arrivals::trace(&Trace::parse(&text).unwrap())
}

/// What became of those who came in these seconds.
fn between(capacity_per_s: f64, policy: u32, from_s: u64, to_s: u64) -> Report {
    let rules = tg_shed_rules::automatic(policy, TG_KEY_CONNECTION, 0, 5);
    let mut setup = setup(shed(rules));
    setup.crowd.load = Load::Open(step(capacity_per_s));
    setup.crowd.warm_up_ns = from_s * SECOND_NS;
    setup.crowd.duration_ns = (to_s - from_s) * SECOND_NS;
    setup.crowd.cool_down_ns = 25 * SECOND_NS - to_s * SECOND_NS;
    of(setup)
}

#[test]
fn p_follows_a_step_of_load_and_goodput_stays_at_capacity() {
    let capacity_per_s = capacity_per_s();
    assert!((800.0..1100.0).contains(&capacity_per_s), "{capacity_per_s}");
    for policy in [TG_SLPD, TG_SBPD, TG_RBD] {
        let before = between(capacity_per_s, policy, 0, 3).outcome;
        assert_eq!(before.errors.total(), 0, "policy {policy}: nobody is shed below capacity");
        for from_s in [5, 7, 9, 11] {
            let during = between(capacity_per_s, policy, from_s, from_s + 2).outcome;
            let share = during.replies_per_s / capacity_per_s;
            assert!(share >= 0.95, "policy {policy}: {share} of the capacity from {from_s} s on");
        }
        // Whoever was shed has given up by now.
        let after = between(capacity_per_s, policy, 19, 22).outcome;
        assert_eq!(after.errors.total(), 0, "policy {policy}: nor afterwards");
    }
}

/// Everyone is shed: what each form tells clients of Linux and of Windows, and in how many SYNs.
#[test]
fn each_form_of_refusal_is_told_as_it_should_be() {
    for (os, refusal, syns, refused, reset) in [
        ("linux", TG_REFUSE_RESET, 1, true, false),
        ("windows", TG_REFUSE_RESET, 5, true, false),
        ("linux", TG_REFUSE_COOKIE, 1, false, true),
        ("windows", TG_REFUSE_COOKIE, 1, false, true),
    ] {
        let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
        let mut setup = setup(shed(tg_shed_rules { refusal, ..everyone }));
        setup.crowd.person.os = Os::named(os).unwrap();
        setup.crowd.load = Load::Open(Arrivals::poisson(500.0, 1));
        let outcome = of(setup).outcome;
        let told = (outcome.errors.refused, outcome.errors.reset);
        let all = outcome.attempts;
        let expected = (if refused { all } else { 0 }, if reset { all } else { 0 });
        assert_eq!(told, expected, "{os}, {refusal}: {:?}", outcome.errors);
        assert_eq!(outcome.syns_per_attempt.keys().copied().collect::<Vec<_>>(), [syns], "{os}");
    }
}

/// On a router it costs the server nothing, and the server never learns of it.
#[test]
fn a_router_keeps_it_from_the_server() {
    let all = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
    let mut setup = setup(shed(all).map(|shed| Shed { hook: None, ..shed }));
    setup.crowd.load = Load::Open(Arrivals::poisson(500.0, 1));
    let report = of(setup);
    assert_eq!(report.segments_received(), 0);
    assert_eq!(report.outcome.errors.timed_out(), report.outcome.attempts);
}

/// Two in a row, with keys of their own, let through the share of the share.
#[test]
fn hosts_in_series_each_take_their_share() {
    let half = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 0.5, 5);
    let mut setup = setup(shed(half).map(|shed| Shed { in_series: 3, ..shed }));
    setup.cost_ns = 0;
    setup.crowd.load = Load::Open(Arrivals::poisson(8000.0, 1));
    let outcome = of(setup).outcome;
    let share = outcome.replies as f64 / outcome.attempts as f64;
    assert!((share - 0.125).abs() < 0.02, "{share} of {}", outcome.attempts);
}

/// A crowd of these networks, so many connections a second from each, before a host that sheds and tells so.
fn told(
    rules: tg_shed_rules,
    preferred: Option<u16>,
    per_s: &[f64],
    load: Arrivals,
    seed: u64,
) -> Outcome {
    let rules = tg_shed_rules { refusal: TG_REFUSE_RESET, ..rules };
    let mut setup = setup(shed(rules).map(|shed| Shed { preferred, ..shed }));
    (setup.cost_ns, setup.seed) = (0, seed);
    setup.crowd.warm_up_ns = SECOND_NS;
    setup.crowd.networks = per_s.to_vec();
    setup.crowd.load = Load::Open(load);
    setup.crowd.duration_ns = 2 * SECOND_NS;
    of(setup).outcome
}

/// Section 3.4, H1: each client's connections all come in, or none does. There are 254 addresses, from which they come
/// by turns, and what is turned away is a multiple of what each has.
#[test]
fn by_client_each_address_is_served_whole_or_not_at_all() {
    const ADDRESSES: u64 = 254;
    const OF_EACH: u64 = 20;
    let turned_away = |key, seed| {
        let rules = tg_shed_rules::new(TG_SLPD, key, 0.3, 5);
        let per_s = (ADDRESSES * OF_EACH / 2) as f64;
        let outcome = told(rules, None, &[per_s], Arrivals::constant(per_s), seed);
        assert_eq!(outcome.attempts, ADDRESSES * OF_EACH);
        assert_eq!(outcome.replies + outcome.errors.refused, outcome.attempts);
        outcome.errors.refused
    };
    for seed in 1..=3 {
        let by_client = turned_away(TG_KEY_CLIENT, seed);
        assert_eq!(by_client % OF_EACH, 0, "{by_client}");
        // Three tenths of them, give or take three standard deviations.
        assert!((54..=98).contains(&(by_client / OF_EACH)), "{by_client}");
        assert_ne!(turned_away(TG_KEY_CONNECTION, seed) % OF_EACH, 0, "by connection it is none");
    }
}

/// Section 3.4, H1: "Packets originating from these addresses can then be excluded from dropping as long as the control
/// target is met", which the others cannot make up for where the preferred make most of the requests.
#[test]
fn a_preferred_proxy_is_spared_as_long_as_the_target_is_met() {
    const P: f64 = 0.3;
    for policy in [TG_SLPD, TG_SBPD] {
        for (per_s, is_met) in [([1000.0, 4000.0], true), ([4000.0, 1000.0], false)] {
            let rules = tg_shed_rules {
                has_preferred: 1,
                ..tg_shed_rules::new(policy, TG_KEY_CONNECTION, P, 5)
            };
            let load = Arrivals::poisson(per_s.iter().sum(), 1);
            let parts = told(rules, Some(0), &per_s, load, 1).parts;
            let [proxy, others] = [0, 1].map(|network| parts[network].success());
            let seen =
                format!("policy {policy}: {proxy} of the proxy's come in, {others} of others'");
            assert!((others + P - 1.0).abs() < 0.03, "{seen}");
            assert!(if is_met { proxy == 1.0 } else { (proxy + P - 1.0).abs() < 0.03 }, "{seen}");
        }
    }
}
