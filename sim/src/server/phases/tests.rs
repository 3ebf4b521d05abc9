// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many a server of one thread holds.

use tidegate_client::{Arrivals, Os};
use tidegate_policy::mechanism;
use tidegate_servers::{AcceptLimit, Statistics};

use super::*;
use crate::hook::Hook;
use crate::machine::Machine;
use crate::setup::{Load, Setup};
use crate::world::World;

/// A server with Accept-Inf, before which somebody always waits.
struct Flooded {
    phases: Phases,
    held: u32,
    statistics: Statistics,
}

impl Flooded {
    fn of(program: Program, is_papers: bool) -> Self {
        let phases = Phases::new(Strategy::new(AcceptLimit::INF), program, is_papers);
        Self { phases, held: 0, statistics: Statistics::default() }
    }

    fn sight(&mut self) -> (&mut Phases, Sight<'_>) {
        let Self { phases, held, statistics } = self;
        (phases, Sight { listen: 100, held: *held, now_ns: 0, statistics })
    }

    fn has_news(&mut self) -> bool {
        let (phases, sight) = self.sight();
        phases.has_news(&sight)
    }

    /// Accepts and asks, at most so often, until something else is to be done.
    fn lets_in(&mut self, most: u32) -> Option<Next> {
        for _ in 0..most {
            let (phases, sight) = self.sight();
            match phases.next(sight) {
                Next::Accept => {
                    self.phases.accepted(0);
                    self.held += 1;
                }
                Next::Events { .. } => {
                    let (phases, sight) = self.sight();
                    phases.told(sight);
                }
                next => return Some(next),
            }
        }
        None
    }

    fn closes_one(&mut self) {
        self.held -= 1;
        self.phases.closed();
    }

    fn worked(&mut self) {
        let (phases, sight) = self.sight();
        phases.worked(sight);
    }
}

#[test]
fn the_papers_servers_are_full_with_15_000_connections_and_work_then() {
    for program in [Program::PapersUserver, Program::Tux] {
        let mut server = Flooded::of(program, true);
        // It was told of before the accept phase began.
        server.phases.tell(7);
        assert_eq!(server.lets_in(20_000), Some(Next::Turn(7)), "{program:?}");
        assert_eq!(server.held, 15_000, "{program:?}");

        server.worked();
        assert_eq!(server.lets_in(1), Some(Next::Rest), "{program:?} asks nobody while it is full");
        assert!(!server.has_news());

        server.phases.tell(8);
        assert!(server.has_news());
        assert_eq!(server.lets_in(2), Some(Next::Turn(8)), "{program:?} takes nobody in");
        server.closes_one();
        server.worked();
        assert!(server.has_news(), "a place is free");
        assert_eq!(server.lets_in(10), Some(Next::Rest));
        assert_eq!(server.held, 15_000, "{program:?}");
        assert_eq!(server.statistics.accept_phases, server.statistics.work_phases);
    }
}

#[test]
fn ours_hold_as_many_as_come() {
    for program in [Program::Userver, Program::UserverScanning, Program::Tux] {
        let mut server = Flooded::of(program, false);
        server.phases.tell(7);
        assert_eq!(server.lets_in(20_000), None);
        assert!(server.held > 19_000);
    }
}

/// Seven times what it serves, of whom with `reserv` the next is in the listen queue as soon as one has left it.
#[test]
fn a_flood_of_handshakes_fills_the_papers_userver_and_no_more() {
    let guard = (mechanism::parse("reserv").unwrap(), Hook::Tcp);
    let os = Os::named("linux-2.4").unwrap();
    let mut setup = Setup::one_packet(Machine::xeon(), Some(guard), os);
    setup.crowd.load = Load::Open(Arrivals::poisson(150_000.0, 1));
    let mut world = World::new(setup);
    let mut most = 0;
    while world.advance() {
        most = most.max(world.host.app.held);
    }
    assert_eq!(most, PAPERS_MOST);
    let statistics = world.host.app.statistics;
    assert!(statistics.accepted > 3 * u64::from(PAPERS_MOST), "who has closed made room");
    assert_eq!(statistics.accepted, statistics.replies, "all have had their turns");
}
