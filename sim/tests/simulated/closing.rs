// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who closes first holds TIME-WAIT, and what each way of closing takes (Faber, section 4.2).

use tidegate_client::{Arrivals, Close, Os};
use tidegate_sim::{Balance, Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

fn of(machine: Machine, close: Close, requests: f64) -> Report {
    let mut setup = Setup::one_packet(machine, None, Os::named("linux").unwrap());
    setup.crowd.person.close = close;
    setup.crowd.requests = requests;
    setup.crowd.load = Load::Open(Arrivals::constant(500.0));
    setup.crowd.duration_ns = SECOND_NS;
    World::new(setup).run(&mut |_| {})
}

#[test]
fn who_closes_first_holds_time_wait() {
    for machine in [Machine::today(), Machine::xeon()] {
        for requests in [1.0, 3.0] {
            for close in [Close::Fin, Close::Reset, Close::HalfClose, Close::ClientClose] {
                let report = of(machine, close, requests);
                assert_eq!(report.balance.served, report.balance.attempts, "{close:?}");
                assert_eq!(report.time_waits(), 0, "{close:?}");
            }
            let report = of(machine, Close::Server, requests);
            assert_eq!(report.balance.served, report.balance.attempts);
            // The last ones are still under way when the second ends.
            let attempts = report.balance.attempts;
            assert!(attempts - report.time_waits() <= 3, "{attempts}, {}", report.time_waits());
        }
    }
}

/// It lasts a minute: as many are held as begin in one.
#[test]
fn time_wait_lasts_a_minute() {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named("linux").unwrap());
    setup.crowd.person.close = Close::Server;
    setup.crowd.load = Load::Open(Arrivals::constant(20.0));
    for (lasts_s, expected) in [(30, 600), (90, 1200), (200, 1200)] {
        setup.crowd.duration_ns = lasts_s * SECOND_NS;
        let report = World::new(setup.clone()).run(&mut |_| {});
        let held = report.time_waits_held();
        assert!(held.abs_diff(expected) <= 2, "{held} after {lasts_s} s");
        assert_eq!(report.outcome.time_waits.unwrap().most, 0, "and none at the clients");
    }
    setup.crowd.person.close = Close::ClientClose;
    let report = World::new(setup).run(&mut |_| {});
    let held = report.outcome.time_waits.unwrap();
    assert_eq!(report.time_waits_held(), 0);
    assert!(held.at_end.abs_diff(1200) <= 21, "{held:?}, to the second");
}

/// Shukla, sections 4.2.2 and 4.2.3: a server that gets a RST has nothing more to send on the
/// connection, and nothing more to receive.
#[test]
fn a_rst_spares_the_server_the_closing() {
    let [fin, reset] =
        [Close::Fin, Close::Reset].map(|close| of(Machine::today(), close, 1.0).outcome.segments);
    let attempts = fin.syn_sent;
    assert_eq!((reset.syn_sent, reset.rst_sent), (attempts, attempts));
    assert_eq!((fin.fin_sent, reset.fin_sent), (attempts, 0));
    assert_eq!(fin.sent - reset.sent, attempts, "no acknowledgement of the server's FIN");
    assert!(reset.received < fin.received, "nor a FIN of the server's");
}

/// The FIN goes with the word, so that saying so takes a request more and no segment more.
#[test]
fn client_close_is_a_request_more_and_no_segment_more() {
    let [fin, said] = [Close::Fin, Close::ClientClose]
        .map(|close| of(Machine::today(), close, 1.0).outcome.segments);
    assert_eq!(said.data_sent, 2 * said.syn_sent);
    assert_eq!((said.sent, said.fin_sent), (fin.sent, fin.fin_sent));
    assert_eq!(said.rst_sent + said.rst_received, 0);
}

/// Shukla, figure 4.11: who gave up refuses a reply that is late, and the FIN behind it as well, which was on its
/// way by then. Nothing is acknowledged to a server that has been told.
#[test]
fn a_late_reply_is_refused_with_the_fin_behind_it() {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named("linux").unwrap());
    setup.cost_ns = SECOND_NS / 2;
    setup.way.delay.mean_ms = 20.0;
    setup.crowd.person.close = Close::Server;
    setup.crowd.person.timeout_ns = SECOND_NS / 5;
    setup.crowd.load = Load::Open(Arrivals::constant(1.0));
    setup.crowd.duration_ns = SECOND_NS;
    setup.crowd.cool_down_ns = SECOND_NS;
    let report = World::new(setup).run(&mut |_| {});
    let Balance { attempts, timed_out, .. } = report.balance;
    assert_eq!((attempts, timed_out), (2, 2));
    let counted = report.outcome.segments;
    assert_eq!((counted.syn_sent, counted.data_sent, counted.fin_sent), (2, 2, 2));
    assert_eq!(
        (counted.ack_sent, counted.rst_sent),
        (2, 4),
        "that of the SYN/ACK alone: {counted:?}"
    );
    assert_eq!(counted.rst_received, 0);
}
