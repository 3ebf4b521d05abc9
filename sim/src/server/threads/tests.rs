// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose turn it is, call by call.

use tidegate_client::{Arrivals, Os};
use tidegate_servers::{AcceptLimit, Statistics};

use super::*;
use crate::machine::{Machine, Program};
use crate::setup::{Load, Setup};
use crate::world::World;

/// A Knot, the listen queue before it, and its clock.
struct Before {
    threads: Threads,
    listen: u32,
    now_ns: u64,
    statistics: Statistics,
}

impl Before {
    fn of(threads: fn(Strategy, u32, Threading) -> Threads, limit: &str, kind: Threading) -> Self {
        let strategy = Strategy::new(limit.parse::<AcceptLimit>().unwrap());
        let threads = threads(strategy, 2, kind);
        Self { threads, listen: 0, now_ns: 0, statistics: Statistics::default() }
    }

    fn sight(&mut self) -> (&mut Threads, Sight<'_>) {
        let Self { threads, listen, now_ns, statistics } = self;
        (threads, Sight { listen: *listen, held: 0, now_ns: *now_ns, statistics })
    }

    fn next(&mut self) -> Next {
        let (threads, sight) = self.sight();
        threads.next(sight)
    }

    /// Goes on until something other than accepting and asking is to be done; who is accepted
    /// has these places, one after the other. Says whose they are.
    fn lets_in(&mut self, places: &[u32]) -> (Vec<u32>, Next) {
        let mut whose = Vec::new();
        loop {
            match self.next() {
                Next::Accept => {
                    let place = places[whose.len()];
                    let (threads, sight) = self.sight();
                    whose.push(threads.accepted(place, sight));
                    self.listen -= 1;
                }
                Next::AcceptNone => self.threads.ran_dry(),
                Next::Events { .. } => {
                    let (threads, sight) = self.sight();
                    threads.told(sight);
                }
                next => return (whose, next),
            }
        }
    }
}

/// Pariag, section 3.1.2: each thread fully processes all of the accepted connections before
/// admitting any more.
#[test]
fn a_thread_of_a_pool_finishes_those_whom_it_accepted() {
    let mut knot = Before::of(Threads::pool, "2", Threading::Kernel);
    knot.listen = 3;
    assert_eq!(knot.lets_in(&[7, 8]), (vec![0, 0], Next::Turn(7)));
    assert_eq!(knot.next(), Next::Turn(8));
    knot.threads.closed(0);
    // One is left to it, so the next is the other thread's.
    assert_eq!(knot.lets_in(&[9]), (vec![1], Next::Turn(9)));
    knot.threads.closed(1);
    knot.threads.tell(7, 0);
    assert_eq!(knot.lets_in(&[]), (vec![], Next::Turn(7)), "once it can go on");
    knot.threads.closed(0);
    assert_eq!(knot.lets_in(&[]), (vec![], Next::Rest));
    knot.listen = 1;
    assert!(knot.threads.has_news(1));
    let (whose, _) = knot.lets_in(&[9]);
    assert_eq!(whose, [1], "it was at the door first");
    assert_eq!((knot.statistics.accept_phases, knot.statistics.work_phases), (3, 3));
}

/// The same of Capriccio's: a call that would block makes room for another thread, and poll() is
/// asked when none can go on.
#[test]
fn a_thread_of_capriccio_has_one_connection_at_a_time() {
    let mut knot = Before::of(Threads::pool, "2", Threading::Capriccio);
    knot.listen = 2;
    assert_eq!(knot.lets_in(&[7, 8]), (vec![0, 0], Next::Turn(7)));
    assert_eq!(knot.next(), Next::Turn(7), "it tries, and would block");
    assert_eq!(knot.lets_in(&[]), (vec![], Next::Rest), "though 8 waits");
    knot.threads.tell(7, 0);
    assert_eq!(knot.next(), Next::Events { told: 1, watched: 2 }, "7 and the listening socket");
    let (threads, sight) = knot.sight();
    threads.told(sight);
    assert_eq!(knot.next(), Next::Turn(7));
    knot.threads.closed(0);
    assert_eq!(knot.next(), Next::Turn(8));
}

/// Pariag, section 3.1.2: for each connection a new worker thread is created to completely process
/// it.
#[test]
fn an_acceptor_gives_each_a_thread_while_there_are() {
    for kind in [Threading::Kernel, Threading::Capriccio] {
        let mut knot = Before::of(Threads::acceptor, "inf", kind);
        knot.listen = 3;
        assert_eq!(knot.lets_in(&[7, 8]), (vec![1, 2], Next::Turn(7)), "there are two");
        knot.threads.closed(1);
        assert_eq!(knot.next(), Next::Turn(8));
        knot.threads.closed(2);
        let (whose, next) = knot.lets_in(&[9]);
        assert_eq!((whose.len(), next), (1, Next::Turn(9)), "a place is free");
        assert_eq!(knot.threads.begun, 3);
    }
}

#[test]
fn who_has_run_for_a_slice_makes_room() {
    let mut knot = Before::of(Threads::acceptor, "inf", Threading::Kernel);
    knot.listen = 2;
    assert_eq!(knot.next(), Next::Accept);
    let (threads, sight) = knot.sight();
    threads.accepted(7, sight);
    assert_eq!(knot.next(), Next::Accept);
    knot.now_ns += SLICE_NS;
    assert_eq!(knot.next(), Next::Turn(7));
}

/// Pariag, section 3.1.2: under overload the number of threads, and of open connections, becomes very
/// large.
#[test]
fn an_acceptor_holds_as_many_as_it_may_have_threads() {
    let most_held = |threads| {
        let os = Os::named("linux-2.4").unwrap();
        let mut setup = Setup::one_packet(Machine::xeon(), None, os);
        (setup.program, setup.threads) = (Program::KnotA, threads);
        setup.crowd.load = Load::Open(Arrivals::poisson(25_000.0, 1));
        let mut world = World::new(setup);
        let mut most = 0;
        while world.advance() {
            most = most.max(world.host.app.held);
        }
        most
    };
    assert_eq!(most_held(1000), 1000);
    let most = most_held(20_000);
    assert!(most > 10_000, "{most}");
}
