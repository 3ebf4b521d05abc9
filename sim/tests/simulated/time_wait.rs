// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT under each of Faber's systems, whoever closes first (sections 3 and 4.1).

use tidegate_client::{Arrivals, Close, Os};
use tidegate_policy::raw::tg_tw_rules;
use tidegate_policy::time_wait::{End, negotiate};
use tidegate_sim::{Load, Machine, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

/// What both ends want.
#[derive(Clone, Copy)]
struct System {
    name: &'static str,
    client: tg_tw_rules,
    server: tg_tw_rules,
}

fn close_swap() -> tg_tw_rules {
    tg_tw_rules { close_swap: 1, ..negotiate(None) }
}

fn system(name: &'static str, client: tg_tw_rules, server: tg_tw_rules) -> System {
    System { name, client, server }
}

fn negotiated(name: &'static str, holder: End) -> System {
    system(name, negotiate(Some(holder)), negotiate(Some(holder)))
}

fn setup(system: System, close: Close, per_s: f64, duration_s: u64) -> Setup {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::named("linux").unwrap());
    setup.crowd.person.close = close;
    setup.crowd.person.time_wait = system.client;
    setup.time_wait = system.server;
    setup.crowd.load = Load::Open(Arrivals::constant(per_s));
    setup.crowd.duration_ns = duration_s * SECOND_NS;
    setup
}

fn run(setup: Setup) -> Report {
    World::new(setup).run(&mut |_| {})
}

/// Who holds how many when the load ends: the server's TCP, its table, and the clients.
fn holders(report: &Report) -> [u64; 3] {
    let clients = report.outcome.time_waits.unwrap().at_end;
    [report.time_waits_held(), report.pairs(), clients]
}

/// "The TIME-WAIT holder will enter TIME-WAIT and the other endpoint will enter CLOSED, regardless
/// of which end closed actively and which passively" (section 3); close_swap moves it from a server
/// that closed first (section 4.1).
#[test]
fn the_holder_is_the_agreed_one_whoever_closes_first() {
    let today = system("today", negotiate(None), negotiate(None));
    let swapped = system("close_swap", close_swap(), negotiate(None));
    let (server_tcp, server_table, clients) = (0, 1, 2);
    for (system, close, holder) in [
        (today, Close::Server, server_tcp),
        (today, Close::ClientClose, clients),
        (negotiated("client", End::Client), Close::Server, clients),
        (negotiated("client", End::Client), Close::ClientClose, clients),
        (negotiated("client", End::Client), Close::HalfClose, clients),
        (negotiated("server", End::Server), Close::Server, server_tcp),
        (negotiated("server", End::Server), Close::ClientClose, server_table),
        (negotiated("server", End::Server), Close::HalfClose, server_table),
        (swapped, Close::Server, clients),
        (swapped, Close::ClientClose, clients),
    ] {
        let report = run(setup(system, close, 500.0, 1));
        let (attempts, held) = (report.balance.attempts, holders(&report));
        let what = format!("{}, {close:?}: {held:?} of {attempts}", system.name);
        assert_eq!(report.balance.served, attempts, "{what}");
        // The last ones are still under way when the second ends.
        assert!(attempts - held[holder] <= 4, "{what}");
        let others = held.iter().sum::<u64>() - held[holder];
        let swaps = u64::from(system.client.close_swap == 1 && close == Close::Server);
        assert!(others <= 2 * swaps, "but for one under way: {what}");
    }
}

/// "Without a packet more": the agreed end waits, and nobody is told so when it is over.
#[test]
fn agreeing_takes_no_packet_and_swapping_takes_a_rst() {
    let segments = |system, close| run(setup(system, close, 500.0, 1)).outcome.segments;
    let today = system("today", negotiate(None), negotiate(None));
    for close in [Close::Server, Close::ClientClose, Close::HalfClose] {
        let plain = segments(today, close);
        for holder in [End::Client, End::Server] {
            assert_eq!(segments(negotiated("", holder), close), plain, "{close:?}");
        }
    }
    let plain = segments(today, Close::Server);
    let swapped = segments(system("", close_swap(), negotiate(None)), Close::Server);
    assert_eq!((plain.rst_sent, swapped.rst_sent), (0, plain.syn_sent));
    assert_eq!(swapped.sent - plain.sent, plain.syn_sent);
}

/// Section 3, step 3: a server that does not speak leaves TCP as it is; whose choice is not the
/// client's has it its way, or no connection.
#[test]
fn the_server_decides_and_the_client_may_decline() {
    let (client, server) = (negotiate(Some(End::Client)), negotiate(Some(End::Server)));
    let silent = run(setup(system("", client, negotiate(None)), Close::Server, 500.0, 1));
    assert!(holders(&silent)[0] >= silent.balance.attempts - 4);
    let unasked = run(setup(system("", negotiate(None), client), Close::Server, 500.0, 1));
    assert!(holders(&unasked)[0] >= unasked.balance.attempts - 4);
    let decided = run(setup(system("", client, server), Close::Server, 500.0, 1));
    assert!(holders(&decided)[0] >= decided.balance.attempts - 4);
    let insists = tg_tw_rules { insist: 1, ..server };
    let declined = run(setup(system("", insists, client), Close::Server, 500.0, 1));
    let balance = declined.balance;
    assert_eq!((balance.served, balance.refused), (0, balance.attempts));
    assert_eq!(holders(&declined), [0, 0, 0], "no extra state at either endpoint");
}

/// A cookie keeps nothing of the SYN: it names the client, which holds in any case, and never the
/// server, which might not hear of it.
#[test]
fn a_cookie_names_the_client_and_never_the_server() {
    for (choice, close, holder) in [
        (End::Client, Close::Server, 2),
        // As today: the end that closes first.
        (End::Server, Close::Server, 0),
        (End::Server, Close::ClientClose, 2),
    ] {
        let mut setup = setup(negotiated("", choice), close, 500.0, 1);
        setup.kernel.syncookies = 2;
        let report = run(setup);
        let (attempts, held) = (report.balance.attempts, holders(&report));
        assert_eq!(report.balance.served, attempts);
        let what = format!("{choice:?}, {close:?}: {held:?} of {attempts}");
        assert!(held[1] == 0 && attempts - held[holder] <= 4, "{what}");
    }
}

/// "If the client <RST> is lost, both server and client remain in TIME-WAIT state" (section 4.1).
#[test]
fn a_lost_rst_leaves_both() {
    let mut setup = setup(system("", close_swap(), negotiate(None)), Close::Server, 100.0, 20);
    setup.way.loss_in = 0.2;
    let report = run(setup);
    let [server, _, clients] = holders(&report);
    let begun = report.time_waits();
    assert!(clients * 10 > report.balance.served * 9, "{clients} of {}", report.balance.served);
    let share = server as f64 / begun as f64;
    assert!((0.12..0.28).contains(&share), "{server} of {begun}: as many as RSTs were lost");
}

/// What is agreed is held, though acknowledgements and FINs are lost.
#[test]
fn losses_leave_no_agreed_pair_without_its_holder() {
    for (holder, place) in [(End::Client, 2), (End::Server, 1)] {
        let close = if holder == End::Client { Close::Server } else { Close::ClientClose };
        let mut setup = setup(negotiated("", holder), close, 50.0, 40);
        (setup.way.loss_in, setup.way.loss_out) = (0.05, 0.05);
        let report = run(setup);
        let (held, served) = (holders(&report), report.balance.served);
        // Of the rest the end is under way, or the option was lost with the first ACK.
        assert!(held[place] * 100 > served * 95, "{holder:?}: {held:?} of {served}");
    }
}

/// A proxy's port may be used again at once where its SYN is newer by its clock, and is the same
/// pair then (RFC 6191).
#[test]
fn a_held_pair_is_opened_again_by_a_syn_that_is_newer() {
    for system in
        [negotiated("client", End::Client), system("close_swap", close_swap(), negotiate(None))]
    {
        let mut setup = setup(system, Close::Server, 100.0, 5);
        setup.crowd.ports = Some(20);
        let report = run(setup);
        assert_eq!(report.balance.served, report.balance.attempts, "{}", system.name);
        let clients = report.outcome.time_waits.unwrap();
        assert!(clients.most <= 20 && clients.at_end >= 18, "{clients:?}");
        assert!(report.time_waits_held() <= 1);
    }
}

/// Without clocks a SYN is new by its number or not at all, and so is the SYN/ACK: those of a pair go
/// on (RFC 9293, section 3.4.1).
#[test]
fn so_it_is_without_clocks_by_the_numbers() {
    let mut setup = setup(negotiated("client", End::Client), Close::Server, 100.0, 5);
    setup.crowd.person.os = Os::named("windows-nt").unwrap();
    assert!(setup.crowd.person.os.timestamp_tick_us.is_none());
    setup.crowd.ports = Some(20);
    let report = run(setup);
    let (segments, attempts) = (report.outcome.segments, report.balance.attempts);
    assert_eq!((report.balance.served, segments.rst_received), (attempts, 0));
    assert_eq!((segments.syn_sent, segments.syn_ack_received), (attempts, attempts));
}

/// A table that is full is not offered, and what is not agreed stays with the server.
#[test]
fn who_has_no_room_does_not_offer_to_hold() {
    for system in
        [negotiated("client", End::Client), system("close_swap", close_swap(), negotiate(None))]
    {
        let mut setup = setup(system, Close::Server, 500.0, 1);
        setup.held_entries = 64;
        let report = run(setup);
        let [server, _, clients] = holders(&report);
        assert!((40..=80).contains(&clients), "{clients}");
        assert!(server + clients + 4 >= report.balance.attempts, "{server} and {clients}");
    }
}
