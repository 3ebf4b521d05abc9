// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What serves: the userver, ours or the papers', and TUX.
//!
//! When they accept, and when they work, is decided by `tidegate-servers`' [`Strategy`], as it is in
//! the servers themselves. The userver gets events, accepts, then gives every connection that it was
//! told of one turn (Pariag, section 3.1.1); TUX accepts, then works while there is work (3.1.3). A turn reads a request, writes as much of a reply as there is room for, or sees
//! an end and closes. A step is a system call or two; what it does, it has done at its end.

mod price;
mod turn;

use std::collections::VecDeque;

use tidegate_servers::{AcceptLimit, Phase, Queues, Statistics, Strategy};

use crate::flow::{Flow, Flows};
use crate::machine::Program;
use crate::spent::Took;
use crate::stack::{Host, State};
use crate::wire::{Event, Wire, lane};
use turn::Turn;

/// Events that epoll is let tell at once; select() and poll() tell all.
const EVENTS_MAX: usize = 1024;
/// How long our userver lets a connection stand still.
const PATIENCE_NS: u64 = 10_000_000_000;
/// A dynamic strategy looks at the listen queue once in so many connections worked on, as
/// `tidegate-servers` has it look.
const LOOK_EVERY: u32 = 16;

/// The application.
#[derive(Debug)]
pub(crate) struct App {
    program: Program,
    strategy: Strategy,
    /// Work for each request beside serving it, in ns.
    cost_ns: u64,
    step: Step,
    stage: Stage,
    /// Connections that have something to do and have not been told of.
    ready: VecDeque<u32>,
    /// Those told of that have not had their turn.
    told: VecDeque<u32>,
    /// The queues as the accept phase found them.
    queues: Queues,
    /// The listening socket was told of.
    is_listener_told: bool,
    worked_in_phase: u32,
    /// What the last step did beyond its length: the segments that it sent.
    owes: Took,
    /// Connections it holds.
    pub held: u32,
    /// What it did.
    pub statistics: Statistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Events,
    Accept,
    Work,
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
    pub(crate) fn new(program: Program, accept_limit: AcceptLimit, cost_ns: u64) -> Self {
        Self {
            program,
            strategy: Strategy::new(accept_limit),
            cost_ns,
            step: Step::Blocked,
            stage: Stage::Events,
            ready: VecDeque::with_capacity(EVENTS_MAX),
            told: VecDeque::with_capacity(EVENTS_MAX),
            queues: Queues::default(),
            is_listener_told: false,
            worked_in_phase: 0,
            owes: Took::default(),
            held: 0,
            statistics: Statistics::default(),
        }
    }

    /// TUX's queue grows while it works; the userver works on what it was told.
    fn work_queue(&mut self) -> &mut VecDeque<u32> {
        if self.program == Program::Tux { &mut self.ready } else { &mut self.told }
    }

    fn waiting(&mut self) -> u32 {
        self.work_queue().len() as u32
    }
}

impl Host {
    /// Tells the application that a connection of its own has something to do.
    pub(crate) fn tell(&mut self, flow: &mut Flow, place: u32) {
        let conn = &mut flow.conn;
        if conn.state == State::Accepted && !conn.is_ready && conn.wants_turn(self.profile) {
            conn.is_ready = true;
            self.app.ready.push_back(place);
        }
    }

    /// Wakes the application if it waits for what is there now.
    pub(crate) fn wake(&mut self, now_ns: u64, wire: &mut Wire) {
        if self.app.step == Step::Blocked && self.has_news() {
            let took = Took { kernel_ns: self.costs.wake_ns, ..Took::default() };
            self.begin(Step::Wake, took, now_ns, wire);
        }
    }

    fn has_news(&self) -> bool {
        !self.app.ready.is_empty() || !self.listener.queue.is_empty()
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

    /// Carries out what the step was about.
    fn finish(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        match self.app.step {
            Step::Blocked | Step::Rest | Step::Wake => {}
            Step::Events => self.begin_accept_phase(now_ns),
            Step::AcceptNone => self.app.strategy.ran_dry(),
            Step::Accept => self.finish_accept(flows, now_ns, wire),
            Step::Turn(place, turn) => {
                self.finish_turn(flows.get(place), place, turn, now_ns, wire);
                flows.tidy(place);
                self.app.strategy.worked();
                self.app.worked_in_phase += 1;
                self.app.statistics.work_items += 1;
                self.end_work_phase_perhaps(now_ns);
            }
        }
    }

    fn begin_accept_phase(&mut self, now_ns: u64) {
        let listen = match self.app.is_listener_told {
            false => Some(0),
            true if self.app.strategy.looks_at_queues() => Some(self.listener.queue.len() as u32),
            true => None,
        };
        let work = self.app.waiting();
        self.app.stage = Stage::Accept;
        self.app.queues = Queues { listen, work };
        self.app.strategy.began(Phase::Accept, self.app.queues, now_ns);
        self.app.statistics.accept_phases += 1;
    }

    fn begin_work_phase(&mut self, now_ns: u64) {
        let work = self.app.waiting();
        self.app.stage = Stage::Work;
        self.app.worked_in_phase = 0;
        self.app.strategy.began(Phase::Work, Queues { listen: None, work }, now_ns);
        self.app.statistics.work_phases += 1;
    }

    /// The strategy may have had enough before all had their turn.
    fn end_work_phase_perhaps(&mut self, now_ns: u64) {
        let looks = self.app.strategy.looks_at_queues()
            && self.app.worked_in_phase.is_multiple_of(LOOK_EVERY);
        let listen = looks.then_some(self.listener.queue.len() as u32);
        let queues = Queues { listen, work: self.app.waiting() };
        let next = self.app.strategy.next_phase(queues, now_ns);
        if queues.work > 0 && next == Phase::Accept {
            self.app.is_listener_told |= listen.is_some_and(|listen| listen > 0);
            self.begin_accept_phase(now_ns);
        }
    }

    fn finish_accept(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        let place = self.listener.queue.pop_front().expect("one was there");
        let flow = flows.get(place);
        self.app.strategy.accepted(now_ns);
        self.app.statistics.accepted += 1;
        self.app.held += 1;
        flow.conn.state = State::Accepted;
        if matches!(self.app.program, Program::Userver | Program::UserverScanning) {
            flow.conn.patience_at_ns = now_ns + PATIENCE_NS;
            flow.conn.wake_at(place, flow.conn.patience_at_ns, wire);
        }
        self.tell(flow, place);
    }

    /// Begins the next step, or waits.
    fn go_on(&mut self, flows: &mut Flows, now_ns: u64, wire: &mut Wire) {
        loop {
            match self.app.stage {
                Stage::Accept if self.accepts(now_ns) => return self.begin_accept(now_ns, wire),
                Stage::Accept => self.begin_work_phase(now_ns),
                Stage::Work => {
                    if let Some(place) = self.app.work_queue().pop_front() {
                        return self.begin_turn(flows.get(place), place, now_ns, wire);
                    }
                    self.app.stage = Stage::Events;
                }
                Stage::Events if !self.has_news() => return self.rest(now_ns, wire),
                Stage::Events if self.app.program == Program::Tux => {
                    // It looks at its queues itself, at no cost.
                    self.app.is_listener_told = !self.listener.queue.is_empty();
                    self.begin_accept_phase(now_ns);
                }
                Stage::Events => return self.get_events(now_ns, wire),
            }
        }
    }

    fn accepts(&self, now_ns: u64) -> bool {
        self.app.is_listener_told && self.app.strategy.accept_now(self.app.queues, now_ns) > 0
    }

    /// There is nothing to do: segments go out that were written last, then it waits.
    fn rest(&mut self, now_ns: u64, wire: &mut Wire) {
        if self.app.owes != Took::default() {
            return self.begin(Step::Rest, Took::default(), now_ns, wire);
        }
        self.app.strategy.idle();
        self.app.step = Step::Blocked;
        self.cores.first().step_ends_ns = None;
    }

    fn begin_accept(&mut self, now_ns: u64, wire: &mut Wire) {
        let of = |ns: u64| Took { socket_ns: ns, ..Took::default() };
        if self.listener.queue.is_empty() {
            // TUX sees an empty queue without a call.
            let ns = if self.app.program == Program::Tux { 0 } else { self.costs.accept_none_ns };
            self.begin(Step::AcceptNone, of(ns), now_ns, wire);
        } else {
            self.begin(Step::Accept, of(self.costs.accept_ns), now_ns, wire);
        }
    }

    fn get_events(&mut self, now_ns: u64, wire: &mut Wire) {
        let app = &mut self.app;
        let scans = app.program != Program::Userver;
        let count = app.ready.len().min(if scans { usize::MAX } else { EVENTS_MAX });
        app.told.extend(app.ready.drain(..count));
        app.is_listener_told = !self.listener.queue.is_empty();
        let events = count as u64 + u64::from(app.is_listener_told);
        app.statistics.event_calls += 1;
        app.statistics.fds_told += events;
        let costs = &self.costs;
        let watched = if scans { u64::from(app.held) } else { 0 };
        let told_ns = costs.event_ns * events + costs.watched_ns * watched;
        let took = Took { kernel_ns: costs.events_ns + told_ns, ..Took::default() };
        self.begin(Step::Events, took, now_ns, wire);
    }
}
