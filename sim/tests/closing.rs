// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who closes first holds TIME-WAIT, and what each way of closing takes (Faber, section 4.2).

use tidegate_client::{Arrivals, Close, Os};
use tidegate_sim::{Load, Machine, Report, Setup, World};

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

/// Shukla, section 4.2.2: with a RST, "the server TCP stack has to transmit no subsequent segments",
/// and one connection takes two segments less to the server: its FIN's acknowledgement, and none more.
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
