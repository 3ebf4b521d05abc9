// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recommendation, case by case; `sim/tests/simulated/size.rs` holds it against simulated bursts.

use super::*;

fn burst() -> Burst {
    Burst {
        drain_per_s: 1000.0,
        calm_per_s: 500.0,
        burst_per_s: 3000.0,
        burst_s: 1.0,
        rtt_s: 0.1,
        pause_s: 0.0,
        drops: 0.001,
    }
}

fn size(change: impl Fn(&mut Burst)) -> Size {
    let mut burst = burst();
    change(&mut burst);
    recommend(&burst).unwrap()
}

#[test]
fn a_burst_needs_what_comes_and_is_not_taken_and_something_for_chance() {
    let size = size(|_| ());
    assert_eq!(size.fluid_places, 2000);
    // Chance: 3.3 standard deviations of √4000, 11 before it; 3 may be dropped.
    assert!((2200..2240).contains(&size.listen_places), "{size:?}");
    // 300 half-open, and chance.
    assert!((360..400).contains(&size.syn_places), "{size:?}");
    assert_eq!(size.backlog, size.listen_places);
    assert_eq!(size.both_places, size.listen_places + size.syn_places);
    assert!((size.last_waits_s - f64::from(size.backlog) / 1000.0).abs() < 1e-9);
    assert!((size.empty_after_s - f64::from(size.listen_places) / 500.0).abs() < 1e-9);
}

#[test]
fn everything_that_makes_it_worse_makes_the_queue_longer() {
    let usual = size(|_| ()).listen_places;
    assert!(size(|b| b.burst_s = 2.0).listen_places > usual + 1900);
    assert!(size(|b| b.burst_per_s = 4000.0).listen_places > usual + 900);
    assert!(size(|b| b.calm_per_s = 950.0).listen_places > usual + 100);
    assert_eq!(size(|b| b.pause_s = 0.2).listen_places, usual + 200);
    assert!(size(|b| b.drain_per_s = 1500.0).listen_places < usual - 400);
    assert!(size(|b| b.drops = 0.05).listen_places < usual - 100);
    assert!(size(|b| b.rtt_s = 0.3).syn_places > 2 * size(|_| ()).syn_places);
}

/// Whoever is dropped comes again: what may be dropped is bounded by the room that there is then.
#[test]
fn half_of_a_burst_is_not_dropped_where_it_would_find_no_room_again() {
    let dropped = |burst: Burst| burst.may_drop();
    assert_eq!(dropped(Burst { drops: 0.01, ..burst() }), 30.0);
    assert_eq!(dropped(Burst { drops: 0.5, ..burst() }), 250.0);
    assert_eq!(dropped(Burst { drops: 0.5, burst_per_s: 1100.0, ..burst() }), 50.0);
    assert_eq!(dropped(Burst { drops: 0.5, burst_per_s: 900.0, ..burst() }), 0.0);
}

#[test]
fn a_burst_below_the_drain_needs_places_for_chance_alone() {
    let size = size(|b| (b.burst_per_s, b.burst_s, b.calm_per_s) = (800.0, 3600.0, 0.0));
    assert_eq!(size.fluid_places, 0);
    // M/M/1 at 0.8: one in two thousand finds 34 before it.
    assert!((34..45).contains(&size.listen_places), "{size:?}");
}

/// The kernel's rule: a SYN is dropped where less than a quarter of tcp_max_syn_backlog is free.
#[test]
fn a_quarter_of_the_syn_queue_is_free() {
    for places in 1..2000 {
        let most = max_syn_backlog(places);
        let is_dropped = |max: u32| places > max || max - places < max >> 2;
        assert!(!is_dropped(most), "{places} of {most}");
        assert!(is_dropped(most - 1), "{places} of {most}");
    }
}

/// Clients far away: the SYN queue is the longer one, and the backlog bounds it.
#[test]
fn the_backlog_is_as_long_as_the_longer_queue() {
    let size = size(|b| (b.burst_per_s, b.rtt_s) = (1000.0, 0.5));
    assert!(size.syn_places > size.listen_places, "{size:?}");
    assert_eq!(size.backlog, size.syn_places);
}

#[test]
fn what_no_queue_can_do_is_refused() {
    let refused = |change: &dyn Fn(&mut Burst)| {
        let mut burst = burst();
        change(&mut burst);
        recommend(&burst).unwrap_err().to_string()
    };
    let never = refused(&|b| b.calm_per_s = 1000.0);
    assert!(never.contains("no queue is long enough; refuse"), "{never}");
    let long = refused(&|b| (b.burst_per_s, b.burst_s) = (1e8, 86_400.0));
    assert!(long.contains("more than a listen queue can have"), "{long}");
    for (change, named) in [
        (&(|b: &mut Burst| b.drain_per_s = 0.0) as &dyn Fn(&mut Burst), "drain = 0"),
        (&|b| b.burst_per_s = f64::NAN, "burst rate = NaN"),
        (&|b| b.burst_s = -1.0, "burst length = -1"),
        (&|b| b.calm_per_s = -1.0, "calm rate = -1"),
        (&|b| b.rtt_s = f64::INFINITY, "round trip = inf"),
        (&|b| b.pause_s = 601.0, "pause = 601"),
        (&|b| b.drops = 1.0, "drops = 1"),
    ] {
        let said = refused(change);
        assert!(said.contains(named) && said.contains("; give "), "{said}");
    }
}

#[test]
fn a_queue_is_not_made_shorter_than_it_was() {
    let seen = |queued| Seen {
        drain_per_s: 1000.0,
        burst_per_s: 3000.0,
        burst_s: 1.0,
        calm_per_s: Some(500.0),
        queued,
        dropped: 0,
        has_ended: true,
    };
    let clients = Burst { drain_per_s: 1.0, burst_per_s: 1.0, ..burst() };
    let (told, size) = recommend_seen(&seen(100), &clients).unwrap();
    assert_eq!((told, size), (burst(), recommend(&burst()).unwrap()));
    let (_, size) = recommend_seen(&seen(5000), &clients).unwrap();
    assert_eq!((size.backlog, size.listen_places), (5000, 5000));
}
