// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Servers of many threads: Knot (Pariag, section 3.1.2).
//!
//! In Knot-C each thread of a pool accepts up to its limit, and finishes all of them before it
//! accepts again. In Knot-A the first thread accepts, and gives each connection a thread of its own.
//! Threads share the program's processor: one goes on until it has to wait, and then the one that
//! has been able to for longest. They are of one of two kinds:
//!
//! - **The kernel's**, as `tidegate-servers` has them. One at a time accepts, and sleeps at the door
//!   when nobody is there; a thread polls its own connections, and works on whichever can go on. Whoever
//!   has run for a slice makes room for others. What the kernel's scheduler does besides, such as
//!   letting somebody who was woken go first, is left out.
//! - **Capriccio's**, as the thesis has them: a call that would block puts its connection into one
//!   poll() for all, made when no thread can go on, and switches to another thread in user space. A
//!   thread works on one connection after the other.

mod thread;

use std::collections::VecDeque;

use tidegate_servers::{Phase, Queues, Strategy};

use super::{Next, Sight};
use crate::costs::Costs;
use crate::machine::Threading;
use thread::{Stage, Thread};

/// How long a thread runs before others have their turn: the kernel's slice (`base_slice_ns`, 2.8 ms
/// on two processors, since 6.12).
const SLICE_NS: u64 = 2_800_000;
/// Knot-A's acceptor.
const ACCEPTOR: u32 = 0;

#[derive(Debug)]
pub(super) struct Threads {
    threading: Threading,
    /// The first accepts for all (Knot-A).
    has_acceptor: bool,
    /// How many may hold connections.
    most: u32,
    each: Vec<Thread>,
    /// Those that have ended, and whose numbers can be others'.
    ended: Vec<u32>,
    /// Those that can go on, who could first before the others.
    able: VecDeque<u32>,
    running: Option<u32>,
    /// The last that ran, and since when it did.
    last: u32,
    since_ns: u64,
    /// Those that sleep until somebody is there to be accepted.
    listening: VecDeque<u32>,
    /// The kernel's, which wait until the one that accepts is done.
    at_door: VecDeque<u32>,
    is_door_taken: bool,
    /// Capriccio's, which the next poll() will find able to go on, and how many it looks at.
    found: VecDeque<u32>,
    asleep: u32,
    /// Connections closed of which the acceptor has not heard.
    left: u32,
    /// Since that was last asked for.
    switches: u64,
    begun: u64,
}

impl Threads {
    /// Knot-C.
    pub(super) fn pool(strategy: Strategy, threads: u32, threading: Threading) -> Self {
        let each = (0..threads).map(|_| Thread::new(strategy.clone(), Stage::Door)).collect();
        Self { able: (0..threads).collect(), ..Self::of(each, threads, threading) }
    }

    /// Knot-A.
    pub(super) fn acceptor(strategy: Strategy, threads: u32, threading: Threading) -> Self {
        let each = vec![Thread::new(strategy, Stage::Door)];
        let able = VecDeque::from([ACCEPTOR]);
        Self { has_acceptor: true, able, ..Self::of(each, threads, threading) }
    }

    fn of(each: Vec<Thread>, most: u32, threading: Threading) -> Self {
        Self {
            threading,
            has_acceptor: false,
            most,
            each,
            ended: Vec::new(),
            able: VecDeque::new(),
            running: None,
            last: 0,
            since_ns: 0,
            listening: VecDeque::new(),
            at_door: VecDeque::new(),
            is_door_taken: false,
            found: VecDeque::new(),
            asleep: 0,
            left: 0,
            switches: 0,
            begun: 0,
        }
    }

    fn is_capriccio(&self) -> bool {
        self.threading == Threading::Capriccio
    }

    fn thread(&mut self, number: u32) -> &mut Thread {
        &mut self.each[number as usize]
    }

    fn running(&mut self) -> &mut Thread {
        let number = self.running.expect("whoever does something runs");
        self.thread(number)
    }

    /// A connection of this thread has something to do.
    pub(super) fn tell(&mut self, place: u32, number: u32) {
        let is_capriccio = self.is_capriccio();
        let thread = self.thread(number);
        thread.news.push_back(place);
        if thread.stage != Stage::Sleeps {
            return;
        }
        thread.stage = Stage::Woken;
        if is_capriccio {
            self.found.push_back(number);
        } else {
            self.able.push_back(number);
        }
    }

    pub(super) fn has_news(&self, listen: u32) -> bool {
        !self.able.is_empty() || self.polls_find(listen)
    }

    fn polls_find(&self, listen: u32) -> bool {
        !self.found.is_empty() || (listen > 0 && !self.listening.is_empty())
    }

    /// What changing from thread to thread took since it was last asked, in ns.
    pub(super) fn takes_ns(&mut self, costs: &Costs) -> u64 {
        let (switches, begun) = (self.switches, self.begun);
        (self.switches, self.begun) = (0, 0);
        switches * costs.switch_ns + begun * costs.thread_ns
    }

    pub(super) fn next(&mut self, mut sight: Sight<'_>) -> Next {
        if !self.is_capriccio() {
            self.hear_of_listener(sight.listen.min(1));
            self.make_room(sight.now_ns);
        }
        loop {
            let Some(number) = self.running.or_else(|| self.resume(sight.now_ns)) else {
                return self.nobody_runs(&sight);
            };
            if let Some(next) = self.goes_on(number, &mut sight) {
                return next;
            }
            self.running = None;
        }
    }

    /// Of those who sleep until somebody is there, one for each who is can go on.
    fn hear_of_listener(&mut self, listen: u32) {
        let heard = self.listening.len().min(listen as usize);
        for number in self.listening.drain(..heard) {
            self.each[number as usize].stage = Stage::Heard;
            self.able.push_back(number);
        }
    }

    fn make_room(&mut self, now_ns: u64) {
        if let Some(number) = self.running
            && !self.able.is_empty()
            && now_ns - self.since_ns >= SLICE_NS
        {
            self.able.push_back(number);
            self.running = None;
        }
    }

    fn resume(&mut self, now_ns: u64) -> Option<u32> {
        let number = self.able.pop_front()?;
        self.switches += u64::from(number != self.last);
        (self.running, self.last, self.since_ns) = (Some(number), number, now_ns);
        Some(number)
    }

    fn nobody_runs(&self, sight: &Sight<'_>) -> Next {
        if !self.is_capriccio() || !self.polls_find(sight.listen) {
            return Next::Rest;
        }
        let heard = self.listening.len().min(sight.listen as usize);
        let told = (self.found.len() + heard) as u64;
        let watched = u64::from(self.asleep) + u64::from(!self.listening.is_empty());
        Next::Events { told, watched }
    }

    /// What the running thread does next; `None` when it has to wait.
    fn goes_on(&mut self, number: u32, sight: &mut Sight<'_>) -> Option<Next> {
        loop {
            let stage = self.thread(number).stage;
            let next = match stage {
                Stage::Door => self.comes_to_door(number, sight),
                Stage::Accept => self.accepts(number, sight),
                Stage::Heard => self.look_again(number, sight),
                Stage::Work => self.works(number),
                Stage::Woken => self.wake(number, sight),
                _ => return None,
            };
            if next.is_some() {
                return next;
            }
        }
    }

    fn comes_to_door(&mut self, number: u32, sight: &mut Sight<'_>) -> Option<Next> {
        if self.has_acceptor && self.holding() >= self.most {
            self.thread(number).stage = Stage::WaitsForPlace;
        } else if self.is_door_taken {
            self.thread(number).stage = Stage::AtDoor;
            self.at_door.push_back(number);
        } else {
            // Capriccio's threads all try.
            self.is_door_taken = !self.has_acceptor && !self.is_capriccio();
            self.begin_accept_phase(number, sight);
        }
        None
    }

    /// Threads that hold a connection, of Knot-A.
    fn holding(&self) -> u32 {
        (self.each.len() - 1 - self.ended.len()) as u32
    }

    fn begin_accept_phase(&mut self, number: u32, sight: &mut Sight<'_>) {
        sight.statistics.accept_phases += 1;
        for _ in 0..std::mem::take(&mut self.left) {
            self.thread(number).strategy.closed();
        }
        self.look(number, sight);
    }

    fn look(&mut self, number: u32, sight: &Sight<'_>) {
        // The acceptor leaves it to the scheduler whether its threads can go on; those of a pool are
        // to have theirs of those who wait.
        let (has_acceptor, threads) = (self.has_acceptor, self.most);
        let thread = self.thread(number);
        let looks = thread.strategy.looks_at_queues() && !has_acceptor;
        let listen = looks.then(|| sight.listen.div_ceil(threads));
        thread.queues = Queues { listen, work: u32::from(has_acceptor) };
        thread.strategy.began(Phase::Accept, thread.queues, sight.now_ns);
        (thread.stage, thread.accepted, thread.is_dry) = (Stage::Accept, 0, false);
    }

    /// Somebody is there to be accepted.
    fn look_again(&mut self, number: u32, sight: &mut Sight<'_>) -> Option<Next> {
        if self.has_acceptor {
            self.begin_accept_phase(number, sight);
        } else {
            self.look(number, sight);
        }
        None
    }

    /// It accepts, or its accept phase is over.
    fn accepts(&mut self, number: u32, sight: &mut Sight<'_>) -> Option<Next> {
        let (is_capriccio, has_acceptor) = (self.is_capriccio(), self.has_acceptor);
        let held = if has_acceptor { self.holding() } else { 0 };
        let has_room = !has_acceptor || held < self.most;
        let thread = self.thread(number);
        if has_room && thread.strategy.accept_now(thread.queues, sight.now_ns) > 0 {
            return Some(Next::accept(sight.listen));
        }
        if thread.accepted > 0 && has_acceptor {
            thread.stage = Stage::Door;
        } else if thread.accepted > 0 {
            thread.stage = Stage::Work;
            sight.statistics.work_phases += 1;
            self.leave_door();
        } else if held > 0 && !thread.is_dry {
            // It is saturated, and nobody has left.
            thread.stage = Stage::WaitsForPlace;
        } else {
            thread.strategy.idle();
            if !is_capriccio {
                thread.stage = Stage::AsksListener;
                return Some(Next::Events { told: u64::from(sight.listen > 0), watched: 1 });
            }
            thread.stage = Stage::Listens;
            self.listening.push_back(number);
        }
        None
    }

    fn leave_door(&mut self) {
        self.is_door_taken = false;
        if let Some(number) = self.at_door.pop_front() {
            self.thread(number).stage = Stage::Door;
            self.able.push_back(number);
        }
    }

    /// A connection has its turn, or it has worked on all that it knew of.
    fn works(&mut self, number: u32) -> Option<Next> {
        let (is_capriccio, has_acceptor) = (self.is_capriccio(), self.has_acceptor);
        let thread = self.thread(number);
        if let Some(place) = thread.told.pop_front() {
            thread.tries = is_capriccio.then_some(place);
            return Some(Next::Turn(place));
        }
        if thread.is_free() && has_acceptor {
            self.end(number);
        } else if thread.is_free() {
            thread.stage = Stage::Door;
        } else if !is_capriccio {
            thread.stage = Stage::Asks;
            let told = thread.news.len() as u64;
            return Some(Next::Events { told, watched: u64::from(thread.holds) });
        } else if !thread.news.is_empty() {
            thread.hears();
        } else if thread.holds == 0 {
            thread.told.extend(thread.later.pop_front());
            thread.holds = 1;
        } else if let Some(place) = thread.tries.take() {
            // A call that would block, by which it learns that it has to wait.
            return Some(Next::Turn(place));
        } else {
            thread.stage = Stage::Sleeps;
            self.asleep += 1;
        }
        None
    }

    /// A thread of Knot-A has nothing more to do.
    fn end(&mut self, number: u32) {
        self.thread(number).stage = Stage::Ended;
        self.ended.push(number);
        let acceptor = self.thread(ACCEPTOR);
        if acceptor.stage == Stage::WaitsForPlace {
            acceptor.stage = Stage::Door;
            self.able.push_back(ACCEPTOR);
        }
    }

    fn wake(&mut self, number: u32, sight: &mut Sight<'_>) -> Option<Next> {
        let told = self.thread(number).hears();
        if self.is_capriccio() {
            self.asleep -= 1;
        } else {
            sight.statistics.fds_told += told;
        }
        None
    }

    /// What was asked for is there: for the running thread, or for all.
    pub(super) fn told(&mut self, mut sight: Sight<'_>) {
        sight.statistics.event_calls += 1;
        let Some(number) = self.running else {
            let before = self.able.len();
            self.able.append(&mut self.found);
            self.hear_of_listener(sight.listen);
            sight.statistics.fds_told += (self.able.len() - before) as u64;
            return;
        };
        let thread = self.thread(number);
        match thread.stage {
            Stage::AsksListener if sight.listen > 0 => {
                sight.statistics.fds_told += 1;
                self.look_again(number, &mut sight);
            }
            Stage::AsksListener => {
                thread.stage = Stage::Listens;
                self.listening.push_back(number);
                self.running = None;
            }
            _ if thread.news.is_empty() => {
                thread.stage = Stage::Sleeps;
                self.running = None;
            }
            _ => sight.statistics.fds_told += thread.hears(),
        }
    }

    pub(super) fn ran_dry(&mut self) {
        let thread = self.running();
        thread.is_dry = true;
        thread.strategy.ran_dry();
    }

    /// The running thread has accepted somebody. Says whose connection it is.
    pub(super) fn accepted(&mut self, place: u32, sight: Sight<'_>) -> u32 {
        let (is_capriccio, has_acceptor) = (self.is_capriccio(), self.has_acceptor);
        let thread = self.running();
        thread.strategy.accepted(sight.now_ns);
        thread.accepted += 1;
        if has_acceptor {
            sight.statistics.work_phases += 1;
            return self.begin(place);
        }
        if is_capriccio {
            thread.later.push_back(place);
        } else {
            thread.told.push_back(place);
            thread.holds += 1;
        }
        self.last
    }

    /// A thread of its own for a connection.
    fn begin(&mut self, place: u32) -> u32 {
        let thread = Thread::of_one(self.running().strategy.clone(), place);
        self.begun += 1;
        let number = self.ended.pop().unwrap_or(self.each.len() as u32);
        if number as usize == self.each.len() {
            self.each.push(thread);
        } else {
            *self.thread(number) = thread;
        }
        self.able.push_back(number);
        number
    }

    /// A connection of this thread is closed.
    pub(super) fn closed(&mut self, number: u32) {
        let has_acceptor = self.has_acceptor;
        let thread = self.thread(number);
        thread.holds -= 1;
        thread.tries = None;
        if has_acceptor {
            self.left += 1;
        } else {
            thread.strategy.closed();
        }
    }
}

#[cfg(test)]
#[path = "threads/tests.rs"]
mod tests;
