// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What serves: the userver, ours or the papers', TUX, and Knot.
//!
//! When they accept, and when they work, is decided by `tidegate-servers`' [`Strategy`], as it is in
//! the servers themselves. What comes next is known to a server's [`Order`]: of phases, or of
//! threads. A turn reads a request, writes as much of a reply as there is room for, or sees an end
//! and closes. A step is a system call or two; what it does, it has done at its end.

mod phases;
mod price;
mod threads;
mod turn;

use tidegate_servers::{PATIENCE, Statistics, Strategy};

use crate::flow::{Flow, Flows};
use crate::machine::{Program, Threading};
use crate::setup::Setup;
use crate::spent::Took;
use crate::stack::{Host, State};
use crate::wire::{Event, Wire, lane};
use phases::Phases;
use threads::Threads;
use turn::Turn;

const PATIENCE_NS: u64 = PATIENCE.as_nanos() as u64;

/// The application.
#[derive(Debug)]
pub(crate) struct App {
    program: Program,
    order: Order,
    /// Work for each request beside serving it, in ns.
    cost_ns: u64,
    /// Whether it gives up connections that stand still.
    is_impatient: bool,
    step: Step,
    /// What the last step did beyond its length: the segments that it sent, and who runs instead.
    owes: Took,
    /// Connections it holds.
    pub held: u32,
    /// What it did.
    pub statistics: Statistics,
}

/// Who has their turn when.
#[derive(Debug)]
enum Order {
    Phases(Phases),
    Threads(Threads),
}

/// What the application does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It asks for events: so many are told, of so many connections that are looked at.
    Events {
        told: u64,
        watched: u64,
    },
    Accept,
    /// It tries to accept, and nobody is there.
    AcceptNone,
    /// A connection has its turn.
    Turn(u32),
    /// There is nothing to do.
    Rest,
}

impl Next {
    fn accept(listen: u32) -> Self {
        if listen == 0 { Self::AcceptNone } else { Self::Accept }
    }
}

/// What an order sees when it is asked, and where it counts.
struct Sight<'a> {
    /// Connections in the listen queue.
    listen: u32,
    /// Connections held.
    held: u32,
    now_ns: u64,
    statistics: &'a mut Statistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Nothing to do.
    Blocked,
    Wake,
    Events,
    Accept,
    AcceptNone,
    Turn(u32, Turn),
    /// The last segments go out.
    Rest,
}

impl App {
    /// A setup's, before anybody comes.
    pub(crate) fn of(setup: &Setup) -> Self {
        let Setup { program, threads, accept_limit, cost_ns, .. } = *setup;
        let threading = setup.machine.threading;
        let strategy = Strategy::new(accept_limit);
        let is_papers = match program {
            Program::PapersUserver => true,
            Program::Tux => setup.machine.userver == Program::PapersUserver,
            _ => false,
        };
        let order = match program {
            Program::KnotC => Order::Threads(Threads::pool(strategy, threads, threading)),
            Program::KnotA => Order::Threads(Threads::acceptor(strategy, threads, threading)),
            _ => Order::Phases(Phases::new(strategy, program, is_papers)),
        };
        Self {
            program,
            order,
            cost_ns,
            is_impatient: match program {
                Program::KnotC | Program::KnotA => threading == Threading::Kernel,
                // The papers' TUX has `tux_keepalive_timeout`, which is 0: never.
                _ => !is_papers,
            },
            step: Step::Blocked,
            owes: Took::default(),
            held: 0,
            statistics: Statistics::default(),
        }
    }
}

impl Host {
    /// Tells the application that a connection of its own has something to do.
    pub(crate) fn tell(&mut self, flow: &mut Flow, place: u32) {
        let conn = &mut flow.conn;
        if conn.state == State::Accepted && !conn.is_ready && conn.wants_turn(self.profile) {
            conn.is_ready = true;
            match &mut self.app.order {
                Order::Phases(phases) => phases.tell(place),
                Order::Threads(threads) => threads.tell(place, conn.thread),
            }
        }
    }

    /// Wakes the application if it waits for what is there now.
    pub(crate) fn wake(&mut self, now_ns: u64, wire: &mut Wire) {
        if self.app.step == Step::Blocked && self.has_news(now_ns) {
            let took = Took { kernel_ns: self.costs.wake_ns, ..Took::default() };
            self.begin(Step::Wake, took, now_ns, wire);
        }
    }

    fn has_news(&mut self, now_ns: u64) -> bool {
        match self.order(now_ns) {
            (Order::Phases(phases), sight) => phases.has_news(&sight),
            (Order::Threads(threads), sight) => threads.has_news(sight.listen),
        }
    }

    fn begin(&mut self, step: Step, mut took: Took, now_ns: u64, wire: &mut Wire) {
        took.add(&std::mem::take(&mut self.app.owes));
        self.app.step = step;
        let took = self.pacing.takes(now_ns, took);
        let ends_ns = self.cores.first().step(now_ns, &took);
        wire.queue.add_to(lane::STEPS, ends_ns, Event::Step);
    }

    /// A step may be done: packets may have put it off.
    pub(crate) fn step_event(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        let Some(ends_ns) = self.cores.first().step_ends_ns else { return };
        if ends_ns > now_ns {
            wire.queue.add_to(lane::STEPS, ends_ns, Event::Step);
            return;
        }
        self.finish(flows, now_ns, wire);
        self.go_on(flows, now_ns, wire);
    }

    /// The order, and what it may see.
    fn order(&mut self, now_ns: u64) -> (&mut Order, Sight<'_>) {
        let App { order, held, statistics, .. } = &mut self.app;
        let listen = self.listener.queue.len() as u32;
        (order, Sight { listen, held: *held, now_ns, statistics })
    }

    /// Carries out what the step was about.
    fn finish(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        match self.app.step {
            Step::Blocked | Step::Rest | Step::Wake => {}
            Step::Events => match self.order(now_ns) {
                (Order::Phases(phases), sight) => phases.told(sight),
                (Order::Threads(threads), sight) => threads.told(sight),
            },
            Step::AcceptNone => match &mut self.app.order {
                Order::Phases(phases) => phases.ran_dry(),
                Order::Threads(threads) => threads.ran_dry(),
            },
            Step::Accept => self.finish_accept(flows, now_ns, wire),
            Step::Turn(place, turn) => {
                self.finish_turn(flows.get(place), place, turn, now_ns, wire);
                flows.tidy(place);
                self.app.statistics.work_items += 1;
                if let (Order::Phases(phases), sight) = self.order(now_ns) {
                    phases.worked(sight);
                }
            }
        }
    }

    fn finish_accept(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        let place = self.listener.queue.pop_front().expect("one was there");
        let flow = flows.get(place);
        self.app.statistics.accepted += 1;
        self.app.held += 1;
        let most = &mut self.app.statistics.connections_max;
        *most = (*most).max(self.app.held.into());
        flow.conn.state = State::Accepted;
        self.bear_with(flow, place, now_ns, wire);
        match self.order(now_ns) {
            (Order::Phases(phases), _) => phases.accepted(now_ns),
            (Order::Threads(threads), sight) => {
                // Its thread tries to read at once.
                flow.conn.thread = threads.accepted(place, sight);
                flow.conn.is_ready = true;
            }
        }
        self.tell(flow, place);
    }

    /// From now on a connection may stand still for as long as the application bears it.
    fn bear_with(&self, flow: &mut Flow, place: u32, now_ns: u64, wire: &mut Wire) {
        if self.app.is_impatient {
            flow.conn.patience_at_ns = now_ns + PATIENCE_NS;
            flow.conn.wake_at(place, flow.conn.patience_at_ns, wire);
        }
    }

    /// Begins the next step, or waits.
    fn go_on(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        let next = match self.order(now_ns) {
            (Order::Phases(phases), sight) => phases.next(sight),
            (Order::Threads(threads), sight) => threads.next(sight),
        };
        if let Order::Threads(threads) = &mut self.app.order {
            self.app.owes.kernel_ns += threads.takes_ns(&self.costs);
        }
        let of = |socket_ns: u64| Took { socket_ns, ..Took::default() };
        match next {
            Next::Rest => self.rest(now_ns, wire),
            Next::Accept => self.begin(Step::Accept, of(self.costs.accept_ns), now_ns, wire),
            Next::AcceptNone => {
                // TUX sees an empty queue without a call.
                let ns =
                    if self.app.program == Program::Tux { 0 } else { self.costs.accept_none_ns };
                self.begin(Step::AcceptNone, of(ns), now_ns, wire);
            }
            Next::Turn(place) => self.begin_turn(flows.get(place), place, now_ns, wire),
            Next::Events { told, watched } => {
                let costs = &self.costs;
                let each_ns = costs.event_ns * told + costs.watched_ns * watched;
                let took = Took { kernel_ns: costs.events_ns + each_ns, ..Took::default() };
                self.begin(Step::Events, took, now_ns, wire);
            }
        }
    }

    /// There is nothing to do: segments go out that were written last, then it waits.
    fn rest(&mut self, now_ns: u64, wire: &mut Wire) {
        if self.app.owes != Took::default() {
            return self.begin(Step::Rest, Took::default(), now_ns, wire);
        }
        if let Order::Phases(phases) = &mut self.app.order {
            phases.idle();
        }
        self.app.step = Step::Blocked;
        self.cores.first().step_ends_ns = None;
    }
}
