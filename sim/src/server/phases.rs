// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers of one thread: they accept, and then work on those whom they hold.
//!
//! The userver gets events, accepts, then gives every connection that it was told of one turn
//! (Pariag, section 3.1.1); TUX accepts, then works while there is work (3.1.3).

use std::collections::VecDeque;

use tidegate_servers::{EVENTS_MAX, LOOK_EVERY, Phase, Queues, Strategy};

use super::{Next, Sight};
use crate::machine::Program;

/// The most connections that the papers' userver and TUX hold (Shukla, section 3.1.1; Pariag, 3.2.1,
/// by FD_SETSIZE and TUX's `max_connections`).
const PAPERS_MOST: u32 = 15_000;

#[derive(Debug)]
pub(super) struct Phases {
    strategy: Strategy,
    /// How many connections it holds at most: with so many it asks nothing of its listening socket.
    most: u32,
    asks: Asks,
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
}

/// How it learns of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// It looks at its queues itself, at no cost.
    Nobody,
    Epoll,
    /// select() and poll() look at every connection, and tell all at once.
    Scanning,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Events,
    Accept,
    Work,
}

impl Phases {
    pub(super) fn new(strategy: Strategy, program: Program, is_papers: bool) -> Self {
        Self {
            strategy,
            most: if is_papers { PAPERS_MOST } else { u32::MAX },
            asks: match program {
                Program::Tux => Asks::Nobody,
                Program::Userver => Asks::Epoll,
                _ => Asks::Scanning,
            },
            stage: Stage::Events,
            ready: VecDeque::with_capacity(EVENTS_MAX),
            told: VecDeque::with_capacity(EVENTS_MAX),
            queues: Queues::default(),
            is_listener_told: false,
            worked_in_phase: 0,
        }
    }

    /// TUX's queue grows while it works; the userver works on what it was told.
    fn work_queue(&mut self) -> &mut VecDeque<u32> {
        if self.asks == Asks::Nobody { &mut self.ready } else { &mut self.told }
    }

    fn waiting(&mut self) -> u32 {
        self.work_queue().len() as u32
    }

    /// A connection has something to do.
    pub(super) fn tell(&mut self, place: u32) {
        self.ready.push_back(place);
    }

    pub(super) fn has_news(&self, sight: &Sight<'_>) -> bool {
        !self.ready.is_empty() || self.outside(sight) > 0
    }

    fn has_room(&self, sight: &Sight<'_>) -> bool {
        sight.held < self.most
    }

    /// Connections in the listen queue, as it is told of them.
    fn outside(&self, sight: &Sight<'_>) -> u32 {
        if self.has_room(sight) { sight.listen } else { 0 }
    }

    pub(super) fn next(&mut self, mut sight: Sight<'_>) -> Next {
        loop {
            match self.stage {
                Stage::Accept if self.accepts(&sight) => return Next::accept(sight.listen),
                Stage::Accept => self.begin_work_phase(&mut sight),
                Stage::Work => {
                    if let Some(place) = self.work_queue().pop_front() {
                        return Next::Turn(place);
                    }
                    self.stage = Stage::Events;
                }
                Stage::Events if !self.has_news(&sight) => return Next::Rest,
                Stage::Events if self.asks == Asks::Nobody => {
                    self.is_listener_told = self.outside(&sight) > 0;
                    self.begin_accept_phase(&mut sight);
                }
                Stage::Events => return self.get_events(&mut sight),
            }
        }
    }

    fn accepts(&self, sight: &Sight<'_>) -> bool {
        self.is_listener_told
            && self.has_room(sight)
            && self.strategy.accept_now(self.queues, sight.now_ns) > 0
    }

    fn get_events(&mut self, sight: &mut Sight<'_>) -> Next {
        let scans = self.asks == Asks::Scanning;
        let count = self.ready.len().min(if scans { usize::MAX } else { EVENTS_MAX });
        self.told.extend(self.ready.drain(..count));
        self.is_listener_told = self.outside(sight) > 0;
        let told = count as u64 + u64::from(self.is_listener_told);
        sight.statistics.event_calls += 1;
        sight.statistics.fds_told += told;
        Next::Events { told, watched: if scans { u64::from(sight.held) } else { 0 } }
    }

    /// The events are there.
    pub(super) fn told(&mut self, mut sight: Sight<'_>) {
        self.begin_accept_phase(&mut sight);
    }

    fn begin_accept_phase(&mut self, sight: &mut Sight<'_>) {
        let listen = match self.is_listener_told {
            false => Some(0),
            true => self.strategy.looks_at_queues().then(|| self.outside(sight)),
        };
        self.stage = Stage::Accept;
        self.queues = Queues { listen, work: self.waiting() };
        self.strategy.began(Phase::Accept, self.queues, sight.now_ns);
        sight.statistics.accept_phases += 1;
    }

    fn begin_work_phase(&mut self, sight: &mut Sight<'_>) {
        self.stage = Stage::Work;
        self.worked_in_phase = 0;
        let queues = Queues { listen: None, work: self.waiting() };
        self.strategy.began(Phase::Work, queues, sight.now_ns);
        sight.statistics.work_phases += 1;
    }

    pub(super) fn accepted(&mut self, now_ns: u64) {
        self.strategy.accepted(now_ns);
    }

    pub(super) fn ran_dry(&mut self) {
        self.strategy.ran_dry();
    }

    pub(super) fn closed(&mut self) {
        self.strategy.closed();
    }

    pub(super) fn idle(&mut self) {
        self.strategy.idle();
    }

    /// A connection had its turn. The strategy may have had enough before all had theirs.
    pub(super) fn worked(&mut self, mut sight: Sight<'_>) {
        self.strategy.worked();
        self.worked_in_phase += 1;
        let looks =
            self.strategy.looks_at_queues() && self.worked_in_phase.is_multiple_of(LOOK_EVERY);
        let listen = looks.then(|| self.outside(&sight));
        let queues = Queues { listen, work: self.waiting() };
        let next = self.strategy.next_phase(queues, sight.now_ns);
        if queues.work > 0 && next == Phase::Accept {
            self.is_listener_told |= listen.is_some_and(|listen| listen > 0);
            self.begin_accept_phase(&mut sight);
        }
    }
}

#[cfg(test)]
mod tests;
