// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the papers tell of single connections and of queues comes out of the model.

use tidegate_client::{Arrivals, Close, Os, Outcome, Step};
use tidegate_policy::mechanism;
use tidegate_policy::raw::{TG_HALF_CLOSE, TG_RST_FIN, TG_RST_FIN_STRICT};
use tidegate_scenarios::Page;
use tidegate_sim::{Hook, Link, Load, Machine, Pages, Profile, Program, Report, Setup, World};

const SECOND_NS: u64 = 1_000_000_000;

fn setup(machine: Machine, mechanism: Option<&str>, per_s: f64) -> Setup {
    let os = Os::named("linux-2.4").unwrap();
    let guard = mechanism.map(|name| (mechanism::parse(name).unwrap(), Hook::Tcp));
    let mut setup = Setup::one_packet(machine, guard, os);
    setup.crowd.load = Load::Open(Arrivals::poisson(per_s, 1));
    setup.crowd.warm_up_ns = SECOND_NS / 10;
    setup.crowd.duration_ns = SECOND_NS / 2;
    setup.crowd.cool_down_ns = SECOND_NS / 10;
    setup
}

fn of(setup: Setup) -> Report {
    World::new(setup).run(&mut |_| {})
}

/// Shukla, table 4.5: 2,640,011 connections are 15,840,231 segments.
#[test]
fn a_connection_is_six_segments_to_the_server() {
    let report = of(setup(Machine::xeon(), None, 1000.0));
    let outcome = &report.outcome;
    assert_eq!(outcome.errors.total(), 0);
    let attempts = report.balance.attempts;
    assert_eq!(outcome.segments.sent, 6 * attempts);
    assert_eq!(outcome.segments.syn_sent, attempts);
    assert_eq!(report.balance.served, attempts);
    assert!(outcome.response_ms.p99 < 2.0, "{:?}", outcome.response_ms);
}

/// Shukla, section 4.2.3: rst-fin "frees the server from having to process additional ACK segments (in
/// response to FINs)", and from half of what a close is.
#[test]
fn rst_fin_spares_the_server_the_last_of_six_segments() {
    for machine in [Machine::xeon(), Machine::today()] {
        for fin in [TG_RST_FIN, TG_RST_FIN_STRICT] {
            let mut world = setup(machine, Some("default"), 1000.0);
            world.guard.as_mut().unwrap().0.fin = fin;
            let report = of(world);
            assert_eq!(report.outcome.errors.total(), 0);
            let attempts = report.balance.attempts;
            assert_eq!(report.balance.served, attempts);
            assert_eq!(report.outcome.segments.sent, 5 * attempts, "{fin}");
            assert_eq!(report.time_waits(), 0);
        }
    }
}

/// Shukla, section 4.2.3: either spares the server segments, and raises what it serves. How much, this does
/// not ask.
#[test]
fn a_server_that_need_not_close_serves_more() {
    let replies = |fin, close| {
        let mut world = setup(Machine::xeon(), Some("default"), 30_000.0);
        world.crowd.person.close = close;
        world.crowd.duration_ns = 2 * SECOND_NS;
        world.guard.as_mut().unwrap().0.fin = fin;
        of(world).outcome.replies_per_s
    };
    let default = replies(TG_HALF_CLOSE, Close::Fin);
    for (fin, close) in [(TG_RST_FIN, Close::Fin), (TG_HALF_CLOSE, Close::Reset)] {
        let more = replies(fin, close) / default;
        assert!(more > 1.03, "{more} times {default} with {fin} and {close:?}");
    }
}

/// Shukla, section 4.1.5: an explicit refusal ends the matter at once.
#[test]
fn whoever_is_refused_sends_one_syn() {
    for machine in [Machine::xeon(), Machine::today()] {
        for mechanism in ["abort rst-syn", "reserv rst-syn"] {
            let outcome = of(setup(machine, Some(mechanism), 60_000.0)).outcome;
            let classes: Vec<u32> = outcome.syns_per_attempt.keys().copied().collect();
            assert_eq!(classes, [1], "{mechanism}");
            assert!(outcome.errors.turned_away() > outcome.attempts / 4, "{outcome:?}");
            assert_eq!(outcome.errors.timed_out(), 0, "{mechanism}");
            assert!(outcome.replies_per_s > 1000.0, "{mechanism}");
        }
    }
}

/// Shukla, section 4.1.2: reserv promises no more than there is, so no ACK finds the queue full.
#[test]
fn reserv_has_no_overflow_at_the_ack_stage() {
    let overload = 60_000.0;
    let reset = |mechanism| {
        let outcome = of(setup(Machine::xeon(), Some(mechanism), overload)).outcome;
        outcome.errors.reset
    };
    assert_eq!(reset("reserv rst-syn"), 0);
    assert!(reset("abort rst-syn") > 0, "Linux 2.4 answers SYNs that it has no place for");
}

/// Shukla, section 4.1.5: no-syn-drop drops no SYN; who has no place hears so at its ACK.
#[test]
fn no_syn_drop_answers_every_syn() {
    let report = of(setup(Machine::today(), Some("no-syn-drop"), 60_000.0));
    let outcome = report.outcome;
    let unanswered = outcome.segments.syn_sent - outcome.segments.syn_ack_received;
    assert!(unanswered <= report.balance.packets_under_way, "{unanswered}");
    assert_eq!((outcome.errors.refused, outcome.errors.timed_out()), (0, 0));
    assert!(outcome.errors.reset > 0 && outcome.replies > 0, "{:?}", outcome.errors);
}

/// Shukla, section 3.2.2: a SPECweb99-like reply is 15 KB in the mean, and requests share connections.
#[test]
fn files_come_whole_over_lossy_ways_and_several_on_a_connection() {
    for machine in [Machine::xeon(), Machine::today()] {
        let mut world = setup(machine, None, 300.0);
        world.pages = Pages::of(Page::Specweb99, 1);
        world.crowd.person.requests = world.pages.requests("h");
        world.crowd.person.timeout_ns = 120 * SECOND_NS;
        world.crowd.requests = 2.62;
        // All count, so that the run lasts until the last of them is served.
        (world.crowd.warm_up_ns, world.crowd.cool_down_ns) = (0, 0);
        world.crowd.duration_ns = 5 * SECOND_NS;
        world.way.loss_in = 0.01;
        world.way.loss_out = 0.01;
        world.way.reorder = 0.01;
        let report = of(world);
        let outcome = &report.outcome;
        assert_eq!(outcome.errors.total(), 0, "{:?}", outcome.errors);
        assert_eq!(report.balance.served, report.balance.attempts);
        let requests = outcome.segments.data_sent as f64 / report.balance.attempts as f64;
        assert!((2.2..3.2).contains(&requests), "{requests} requests a connection");
        // 10.4 segments of data in the mean, and a handshake and an end to 2.62 of them.
        let segments = outcome.segments.received as f64 / report.balance.attempts as f64;
        assert!((25.0..45.0).contains(&segments), "{segments} segments a connection");
    }
}

/// The seed chooses the order of the files, and no more of what they cost. While each attempt asked for
/// what the one before it had asked for, but for one, these served 12,800 to 16,000.
#[test]
fn what_a_server_can_do_of_files_hangs_little_on_the_seed() {
    let replies_per_s = [1, 2, 3].map(|seed| {
        let mut world = setup(Machine::xeon(), None, 0.0);
        world.pages = Pages::of(Page::Specweb99, seed);
        world.crowd.person.requests = world.pages.requests("h");
        world.crowd.requests = 100.0;
        world.crowd.load = Load::Closed { clients: 64 };
        world.crowd.warm_up_ns = SECOND_NS;
        world.crowd.duration_ns = 8 * SECOND_NS;
        world.seed = seed;
        of(world).outcome.replies_per_s
    });
    let most = replies_per_s.into_iter().fold(0.0, f64::max);
    assert!(replies_per_s.into_iter().all(|per_s| per_s > 0.95 * most), "{replies_per_s:?}");
}

/// A connection on which nothing is asked is closed by our userver after ten seconds, which then
/// holds TIME-WAIT.
#[test]
fn who_closes_first_holds_time_wait() {
    let mut world = setup(Machine::today(), None, 100.0);
    let os = Os::named("linux").unwrap();
    world.crowd.person.os = os;
    world.crowd.person.timeout_ns = 60 * SECOND_NS;
    world.crowd.duration_ns = 30 * SECOND_NS;
    // Requests that are lost so often that ten seconds are not enough for some of them.
    world.way.loss_in = 0.6;
    let report = of(world);
    assert!(report.outcome.errors.closed_early > 0, "{:?}", report.outcome.errors);
    assert!(report.time_waits() > 0);
    let usual = of(setup(Machine::today(), None, 100.0));
    assert_eq!(usual.time_waits(), 0, "clients close first");
}

/// Its ten seconds are for who stands still: who has asked waits for the server, and is served in the end.
#[test]
fn who_waits_for_the_server_is_not_given_up() {
    for program in [Program::Userver, Program::UserverScanning, Program::Tux, Program::KnotC] {
        let mut world = Setup::one_packet(Machine::today(), None, Os::linux());
        (world.program, world.cost_ns, world.backlog) = (program, 10_000_000, 4096);
        world.crowd.person.timeout_ns = 60 * SECOND_NS;
        world.crowd.load = Load::Open(Arrivals::constant(2000.0));
        let report = of(world);
        assert_eq!(report.balance.served, report.balance.attempts, "{program:?}");
        assert!(report.outcome.response_ms.max > 15_000.0, "{:?}", report.outcome.response_ms);
    }
}

/// As live: also whose client left while its reply was on its way.
#[test]
fn a_connection_of_one_request_has_a_whole_reply_or_is_found_dead() {
    // A buffer that holds no whole file of the larger, and a link on which these take longer than clients wait.
    let machine = Machine { profile: Profile::Windows, ..Machine::today() };
    let mut world = Setup::one_packet(machine, None, Os::linux());
    world.pages = Pages::of(Page::Specweb99, 1);
    world.crowd.person.requests = world.pages.requests("h");
    world.way.links_out = vec![Link { bits_per_s: 1_000_000, queue_bytes: 1_000_000 }];
    world.crowd.person.timeout_ns = SECOND_NS / 5;
    let steps = [(20, 1.0), (40, 0.0)].map(|(s, times)| Step { lasts_ns: s * SECOND_NS, times });
    world.crowd.load = Load::Open(Arrivals::constant(5.0).in_steps(&steps));
    world.crowd.duration_ns = 60 * SECOND_NS;
    let served = of(world).application;
    assert!(served.dead_connections > 0, "{served:?}");
    assert_eq!(served.replies + served.dead_connections, served.accepted, "{served:?}");
}

/// The papers' machine with another TCP, overloaded by clients so far away.
fn overloaded(profile: Profile, away_ms: f64) -> Outcome {
    let mut world = setup(Machine { profile, ..Machine::xeon() }, None, 60_000.0);
    world.way.delay.mean_ms = away_ms;
    of(world).outcome
}

/// Shukla, section 2.1.1: BSD-derived TCPs drop SYNs in silence, and reset at the ACK stage; Windows
/// resets at both; Linux at neither.
#[test]
fn each_system_says_no_in_its_own_way() {
    let linux = overloaded(Profile::Linux24, 10.0);
    assert_eq!((linux.errors.refused, linux.errors.reset), (0, 0), "{:?}", linux.errors);

    let bsd = overloaded(Profile::Bsd, 10.0);
    assert_eq!(bsd.errors.refused, 0, "{:?}", bsd.errors);
    assert!(bsd.errors.reset > 0, "{:?}", bsd.errors);
    assert!(bsd.syns_per_attempt.contains_key(&2), "who hears nothing asks again");

    let windows = overloaded(Profile::Windows, 10.0);
    assert!(windows.errors.refused > 0 && windows.errors.reset > 0, "{:?}", windows.errors);
    assert_eq!(windows.errors.timed_out(), 0, "{:?}", windows.errors);
    for outcome in [linux, bsd, windows] {
        assert!(outcome.replies_per_s > 1000.0, "{outcome:?}");
    }
}

/// What FreeBSD's half a backlog more is good for: on a short way so few handshakes are under way when
/// SYNs are dropped that all of them find a place.
#[test]
fn bsd_lets_in_whoever_was_answered_nearby() {
    let near = overloaded(Profile::Bsd, 0.0);
    assert_eq!(near.errors.turned_away(), 0, "{:?}", near.errors);
    assert!(near.errors.timed_out_connecting > 0, "{:?}", near.errors);
    let windows = overloaded(Profile::Windows, 0.0);
    assert!(windows.errors.reset > 0, "the same without that half: {:?}", windows.errors);
}

/// Shukla and Brecht, table III: what Windows does is the thesis' `abort rst-syn`. Its own rules and the
/// mechanism come to the same, where TCP's checks of a SYN cost as much as the mechanism's: nothing.
#[test]
fn windows_own_rules_are_the_thesis_abort_rst_syn() {
    let mut machine = Machine { profile: Profile::Windows, ..Machine::xeon() };
    machine.costs.refuse_ns = 0;
    let [own, mechanism] = [None, Some("abort rst-syn")]
        .map(|mechanism| of(setup(machine, mechanism, 60_000.0)).outcome);
    assert!(own.errors.refused > 0 && own.errors.reset > 0, "{:?}", own.errors);
    assert_eq!(own.errors, mechanism.errors);
    assert_eq!(own.replies, mechanism.replies);
}

/// One-packet requests at this rate before a server of the papers' machine with this accept-limit.
fn accepting(program: Program, limit: &str, per_s: f64, duration_s: u64) -> Report {
    let mut world = setup(Machine::xeon(), None, per_s);
    world.program = program;
    world.accept_limit = limit.parse().unwrap();
    world.crowd.duration_ns = duration_s * SECOND_NS;
    of(world)
}

/// Pariag, sections 4.2.1 and 4.2.2: accepting one at a time costs the select()-based userver much
/// of its throughput under overload, and TUX nothing.
#[test]
fn accept_one_is_dear_for_select_and_cheap_for_tux() {
    let replies_per_s =
        |program, limit| accepting(program, limit, 27_000.0, 2).outcome.replies_per_s;
    let [one, inf] = ["1", "inf"].map(|limit| replies_per_s(Program::PapersUserver, limit));
    assert!(one < 0.9 * inf, "{one} with Accept-1, {inf} with Accept-INF");
    let [one, inf] = ["1", "inf"].map(|limit| replies_per_s(Program::Tux, limit));
    assert!(one > 0.97 * inf, "{one} with Accept-1, {inf} with Accept-INF");
}

/// Pariag, sections 3.1.2 and 4.2.3: before a crowd Knot-C serves more than Knot-A; Accept-100 has it
/// accept faster, and serve no more for it.
#[test]
fn knot_of_a_pool_serves_more_and_accepting_many_gains_nothing() {
    let knot = |program, limit| accepting(program, limit, 20_000.0, 4);
    let [pool, acceptor] = [Program::KnotC, Program::KnotA].map(|program| knot(program, "1"));
    let [served, fewer] = [&pool, &acceptor].map(|report| report.outcome.replies_per_s);
    assert!(served > 1.1 * fewer, "{served} with a pool, {fewer} with an acceptor");
    let many = knot(Program::KnotC, "100");
    let [slowly, fast] = [&pool, &many].map(|report| report.application.accepted);
    assert!(fast as f64 > 1.2 * slowly as f64, "{fast} with Accept-100, {slowly} with Accept-1");
    let gained = many.outcome.replies_per_s / served;
    assert!(gained < 1.02, "{gained} times as many replies");
}

/// Pariag, chapter 6: the dynamic strategy is as aggressive as Accept-INF before saturation, and then accepts as
/// many as were closed: those inside are as few as keep the server busy, and it serves as much. Before TUX, which
/// closes nearly all in each work phase, no more than the listen queue had room for wait for the next one.
#[test]
fn dynamic_holds_as_few_as_keep_it_busy_and_serves_as_much() {
    for (program, per_s, holds) in [
        (Program::PapersUserver, 29_000.0, 300..=330),
        (Program::Tux, 33_000.0, 200..=300),
        (Program::KnotA, 22_000.0, 300..=360),
    ] {
        let [inf, dynamic] = ["inf", "dynamic"].map(|limit| accepting(program, limit, per_s, 4));
        let [many, few] = [&inf, &dynamic].map(|report| report.application.connections_max);
        assert!(holds.contains(&few), "{program:?} holds {few}");
        assert!(many as f64 > 1.4 * few as f64, "{program:?}: {many} with Accept-INF, {few} so");
        let [inf, dynamic] = [inf, dynamic].map(|report| report.outcome.replies_per_s);
        assert!(dynamic >= 0.97 * inf, "{program:?}: {inf} with Accept-INF, {dynamic} so");
    }
}

/// The time that counts is over when it is over, though nothing happens then.
#[test]
fn a_load_that_ends_in_silence_counts_its_time_and_no_more() {
    let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
    let steps = [(1, 1.0), (9, 0.0)].map(|(s, times)| Step { lasts_ns: s * SECOND_NS, times });
    setup.crowd.load = Load::Open(Arrivals::constant(1000.0).in_steps(&steps));
    setup.crowd.duration_ns = 4 * SECOND_NS;
    setup.crowd.cool_down_ns = 5 * SECOND_NS;
    assert_eq!(of(setup).application.elapsed_ns, 4 * SECOND_NS);
}
