// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of reserv and lazy, from a scenario's words to what becomes of clients.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_report::Point;
use tidegate_sim::{Hook, Load, Machine, Report, Setup, World};

use crate::exact::points_of;

const SECOND_NS: u64 = 1_000_000_000;
const LOSING_S: u64 = 24;

/// 33 places, and clients who are 50 ms away: what comes of each curve, once the first have come.
fn far(curves: &[&str], machine: Machine) -> Vec<Point> {
    let mut text = "title = \"Far\"\nsource = \"us\"\n[server]\nbacklog = 32\ncost_us = 300\n\
                    [clients]\ntimeout_s = 2\ndelay = { mean_ms = 50, spread_ms = 0 }\n\
                    [load]\noffered = [1]\nduration_s = 4\nwarm_up_s = 2\n"
        .to_owned();
    for (number, curve) in curves.iter().enumerate() {
        text += &format!("[[curve]]\nname = \"{number}\"\n{curve}\n");
    }
    let kept = points_of(&text, machine, 1);
    assert_eq!(kept.points.len(), curves.len(), "{:?}", kept.left_out);
    kept.points
}

/// Shukla 4.1.2: "lest the server's listen queue becomes completely empty while the SYN/ACK ACKs from
/// the clients are in transit". Today's SYN queue is as long as the listen queue, so that it is the
/// few places of lazy that can be promised twice there.
#[test]
fn a_place_that_is_promised_twice_lets_twice_as_many_come_from_afar() {
    for (places, mechanism, machine) in [
        (33.0, "mechanism = \"reserv rst-syn\"", Machine::xeon()),
        (8.0, "mechanism = \"lazy rst-syn\"\nahead = 8", Machine::today()),
    ] {
        let twice = format!("{mechanism}\nreserv = {{ overbook = 2 }}");
        let points = far(&[mechanism, &twice], machine);
        let [once, twice] = [0, 1].map(|curve: usize| points[curve].replies_per_s);
        let most_per_s = places / 0.1;
        assert!((0.8..=1.0).contains(&(once / most_per_s)), "{mechanism}: {once} of {most_per_s}");
        assert!((1.8..=2.1).contains(&(twice / once)), "{mechanism}: {twice} and {once}");
    }
}

#[test]
fn who_is_dropped_early_is_counted_as_that_and_nobody_else_is() {
    let early = |options: &str| format!("mechanism = \"reserv rst-syn\"\nreserv = {{ {options} }}");
    let curves = [
        early("overbook = 1"),
        early("early_drop_from = 0.5"),
        early("early_drop_from = 0.5, early_drop_probability = 0"),
    ];
    let points = far(&curves.each_ref().map(String::as_str), Machine::today());
    let of = |point: &Point| {
        let count = |reason| point.verdicts_per_s.get(reason).copied().unwrap_or(0.0);
        (count("reset: EarlyRandom"), count("reset: NoReservation"))
    };
    let [none, always, never] = [0, 1, 2].map(|curve: usize| of(&points[curve]));
    assert!(none.0 == 0.0 && none.1 > 0.0, "{none:?}");
    // Who comes to the last place is dropped for certain, so that nobody finds all taken.
    assert!(always.0 > 0.9 * none.1 && always.1 == 0.0, "{always:?}");
    assert_eq!(never, none);
}

#[test]
fn where_every_place_is_reserved_a_cookie_lets_more_come_in_than_a_refusal() {
    let of = |word| {
        format!("mechanism = \"reserv rst-syn\"\nreserv = {{ when_exhausted = \"{word}\" }}")
    };
    let points = far(&[&of("refuse"), &of("cookie")], Machine::today());
    let given = |point: &Point| point.verdicts_per_s.contains_key("cookie: NoReservation");
    assert!(!given(&points[0]) && given(&points[1]));
    let [refuse, cookie] = [0, 1].map(|curve: usize| points[curve].replies_per_s);
    assert!(cookie > 2.0 * refuse, "{cookie} and {refuse}");
}

/// Nine of ten SYN/ACKs get lost: what is half open then is so for a second, until one is sent again.
fn losing(clean_after_ms: u32) -> Report {
    let rules = mechanism::parse("reserv rst-syn").unwrap();
    let rules = tidegate_policy::raw::tg_rules { clean_after_ms, ..rules };
    let os = Os::named("linux").unwrap();
    let mut setup = Setup::one_packet(Machine::today(), Some((rules, Hook::Ip)), os);
    setup.backlog = 32;
    setup.way.loss_out = 0.9;
    setup.crowd.load = Load::Open(Arrivals::poisson(500.0, 1));
    setup.crowd.warm_up_ns = 2 * SECOND_NS;
    setup.crowd.duration_ns = LOSING_S * SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

/// docs/configuration.md, `clean_after_ms`: "older half-open requests give their place back, where with a
/// third more of them there would be no room".
#[test]
fn old_reservations_give_their_places_back_while_places_are_short() {
    let (never, soon) = (losing(0), losing(100));
    assert_eq!(never.reservations_cleaned(), 0);
    // Four times in a second, as the daemon looks, from the 33 places that there are down to 24.
    let cleaned = soon.reservations_cleaned();
    let replies = [&never, &soon].map(|report| report.outcome.replies);
    assert!((2 * 9 * LOSING_S..=4 * 9 * LOSING_S).contains(&cleaned), "{cleaned}");
    assert!(replies[1] > replies[0] * 4, "{replies:?}");
    // No request becomes as old as that.
    assert_eq!(losing(600_000).reservations_cleaned(), 0);
}
