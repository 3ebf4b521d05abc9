// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients whose ports are short, as a proxy's are.

use tidegate_client::{Arrivals, Close, Os, Outcome};
use tidegate_sim::{Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

/// Ten attempts a second over sixty ports, for two minutes after the first one.
fn of(os: &str, close: Close) -> Report {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named(os).unwrap());
    setup.crowd.person.close = close;
    setup.crowd.ports = Some(60);
    setup.crowd.load = Load::Open(Arrivals::constant(10.0));
    setup.crowd.warm_up_ns = 60 * SECOND_NS;
    setup.crowd.duration_ns = 120 * SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

fn no_port(outcome: &Outcome) -> u64 {
    assert_eq!(outcome.errors.total(), outcome.errors.other.values().sum::<u64>());
    outcome.errors.other.get("EADDRNOTAVAIL").copied().unwrap_or_default()
}

#[test]
fn who_holds_time_wait_has_a_port_a_minute_and_connection() {
    for close in [Close::Fin, Close::ClientClose] {
        let report = of("linux", close);
        let outcome = &report.outcome;
        // Two minutes of sixty ports.
        assert_eq!((outcome.attempts, outcome.replies), (1200, 120), "{close:?}");
        assert_eq!(no_port(outcome), 1080);
        assert_eq!(outcome.time_waits.unwrap().most, 60);
        assert_eq!(report.time_waits_held(), 0);
    }
}

/// RFC 6191: the SYN is newer than what the server holds, by its clock.
#[test]
fn a_port_that_the_server_holds_can_be_used_again() {
    let report = of("linux", Close::Server);
    let outcome = &report.outcome;
    assert_eq!((outcome.attempts, outcome.replies), (1200, 1200));
    assert!(outcome.response_ms.max < 10.0, "at once: {:?}", outcome.response_ms);
    // Every port but those of connections under way; each block is begun anew every six seconds.
    assert!((58..=60).contains(&report.time_waits_held()), "{}", report.time_waits_held());
    assert!(report.time_waits().abs_diff(1200) <= 2, "{}", report.time_waits());
}

/// Without clocks the SYN's number decides, which goes on with its pair's (RFC 9293, section 3.4.1).
#[test]
fn without_clocks_it_is_used_again_by_its_number() {
    for os in ["windows", "windows-2000", "solaris-2.7"] {
        let outcome = of(os, Close::Server).outcome;
        assert_eq!((outcome.attempts, outcome.replies), (1200, 1200), "{os}");
        assert_eq!(outcome.syns_per_attempt[&1].attempts, 1200, "{os}");
    }
}

#[test]
fn nobody_waits_after_a_rst() {
    let report = of("linux", Close::Reset);
    assert_eq!((report.outcome.replies, report.time_waits_held()), (1200, 0));
}

/// A closed loop that finds no port tries again, and time goes on.
#[test]
fn a_closed_loop_outlives_its_ports() {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named("linux").unwrap());
    setup.crowd.ports = Some(50);
    setup.crowd.load = Load::Closed { clients: 4 };
    setup.crowd.duration_ns = SECOND_NS;
    let outcome = World::new(setup).run(&mut |_| {}).outcome;
    assert_eq!(outcome.replies, 50);
    assert!((3000..4100).contains(&no_port(&outcome)), "each tries a thousand times: {outcome:?}");
}

/// The server's TCP has forgotten who was reset, though its application, busy for three seconds, has not
/// looked yet: the port's next SYN is one to the listening socket.
#[test]
fn a_connection_that_was_reset_does_not_meet_its_ports_next_syn() {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named("linux").unwrap());
    setup.cost_ns = 3 * SECOND_NS;
    setup.crowd.person.close = Close::Reset;
    setup.crowd.person.timeout_ns = SECOND_NS * 3 / 2;
    setup.crowd.ports = Some(1);
    setup.crowd.load = Load::Open(Arrivals::constant(0.5));
    setup.crowd.duration_ns = 20 * SECOND_NS;
    let outcome = World::new(setup).run(&mut |_| {}).outcome;
    assert!((9..=11).contains(&outcome.attempts), "{outcome:?}");
    assert_eq!(outcome.syns_per_attempt.keys().copied().collect::<Vec<_>>(), [1], "{outcome:?}");
}
