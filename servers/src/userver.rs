// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event-driven server of the papers: one thread, three phases (Pariag 3.1.1).
//!
//! - *It learns of work* by a call for events: `select`, `poll`, `epoll` or `io_uring`.
//! - *It accepts* after each such call, if a listening socket was told of; then it works on the
//!   connections that were told of, and on none that it has just accepted.
//!
//! The papers' reads a request in one work phase, and writes its reply in a later one, once it is told
//! that it can; this one does both in one turn.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::accept::{LOOK_EVERY, Phase, Queues, Strategy};
use crate::connection::Next;
use crate::error::ServerError;
use crate::events::{Events, Interest, STOP, Told, events_of, is_listener, listener_token};
use crate::held::Held;
use crate::listen::{Accepted, Listeners};
use crate::server::{ACCEPT_REST, Clock, Parts};
use crate::settings::EventsKind;
use crate::stop::Stop;

/// The event-driven server.
#[derive(Debug)]
pub(crate) struct Userver {
    events: Box<dyn Events>,
    stop: Arc<Stop>,
    listeners: Listeners,
    held: Held,
    strategy: Strategy,
    clock: Clock,
    /// When the last call for events returned.
    asked: Instant,
    told: Vec<Told>,
    /// Listening sockets told of.
    listeners_told: Vec<u64>,
    /// Whether somebody may wait at them.
    is_listener_ready: bool,
    /// Connections that can be worked on.
    ready: VecDeque<u64>,
    /// Those of them that the last call told of, or that had more to do before it. What becomes
    /// ready in a work phase is for the next.
    batch: usize,
    /// Until when accepting rests, for want of descriptors; listeners are not watched then.
    resting_until: Option<Instant>,
}

impl Userver {
    /// # Errors
    /// [`ServerError::Events`], [`ServerError::NoIoUring`].
    pub(crate) fn new(parts: Parts, kind: EventsKind) -> Result<Self, ServerError> {
        let mut events = events_of(kind)?;
        events
            .add(parts.stop.as_fd(), STOP, Interest::Read)
            .map_err(ServerError::events("watch its stop signal"))?;
        let mut server = Self {
            events,
            stop: parts.stop,
            listeners: parts.listeners,
            held: Held::new(parts.worker),
            clock: Clock::new(),
            strategy: parts.strategy,
            asked: Instant::now(),
            told: Vec::new(),
            listeners_told: Vec::new(),
            is_listener_ready: false,
            ready: VecDeque::new(),
            batch: 0,
            resting_until: None,
        };
        server.watch_listeners()?;
        Ok(server)
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// [`ServerError::Events`].
    pub(crate) fn serve(mut self) -> Result<(), ServerError> {
        self.events.start().map_err(ServerError::events("start"))?;
        while self.get_events()? {
            self.accept_phase()?;
            self.work_phase();
            self.close_overdue();
            self.end_rest()?;
            self.held.worker.post();
        }
        self.held.worker.post();
        Ok(())
    }

    /// Asks for events, unless the last work phase left some. Says whether to go on.
    fn get_events(&mut self) -> Result<bool, ServerError> {
        if self.batch > 0 {
            return Ok(!self.stop.is_over());
        }
        let mut goes_on = true;
        if self.strategy.looks_at_queues() && self.ready.is_empty() {
            goes_on = self.ask(Some(Duration::ZERO))?;
            if goes_on && self.ready.is_empty() && !self.is_listener_ready {
                self.strategy.idle();
                goes_on = self.ask(self.wait_at_most())?;
            }
        } else {
            goes_on &= self.ask(self.wait_at_most())?;
        }
        self.batch = self.ready.len();
        Ok(goes_on)
    }

    /// One call for events.
    fn ask(&mut self, at_most: Option<Duration>) -> Result<bool, ServerError> {
        self.told.clear();
        self.events
            .wait(at_most, &mut self.told)
            .map_err(ServerError::events("wait for events"))?;
        self.asked = self.held.worker.look_at_clock();
        self.held.worker.statistics.event_calls += 1;
        self.held.worker.statistics.fds_told += self.told.len() as u64;
        let mut goes_on = true;
        self.listeners_told.clear();
        for told in &self.told {
            if told.token == STOP {
                goes_on = false;
            } else if is_listener(told.token) {
                self.listeners_told.push(told.token);
            } else if let Some(connection) = self.held.get(told.token) {
                connection.client_left |= told.client_left;
                if self.events.tells_once() {
                    connection.watched = None;
                }
                // It may have had more to do already: one turn is enough.
                if !connection.is_queued {
                    connection.is_queued = true;
                    self.ready.push_back(told.token);
                }
            }
        }
        self.is_listener_ready = !self.listeners_told.is_empty();
        Ok(goes_on)
    }

    fn accept_phase(&mut self) -> Result<(), ServerError> {
        self.held.worker.statistics.accept_phases += 1;
        let accepts = self.is_listener_ready && self.resting_until.is_none();
        let listen = match accepts {
            false => Some(0),
            true if self.strategy.looks_at_queues() => self.listeners.waiting(),
            true => None,
        };
        let queues = Queues { listen, work: self.batch as u32 };
        self.strategy.began(Phase::Accept, queues, self.clock.now_ns());
        while accepts && self.strategy.accept_now(queues, self.clock.now_ns()) > 0 {
            match self.listeners.accept() {
                Accepted::Connection(stream) => {
                    self.admit(stream);
                    self.strategy.accepted(self.clock.now_ns());
                }
                Accepted::Dead => {
                    self.held.worker.found_dead();
                    self.strategy.accepted(self.clock.now_ns());
                }
                Accepted::Nobody => {
                    self.strategy.ran_dry();
                    self.is_listener_ready = false;
                }
                Accepted::NoRoom => return self.start_rest(),
            }
        }
        if self.events.tells_once() {
            self.watch_listeners_told()?;
        }
        Ok(())
    }

    fn admit(&mut self, stream: TcpStream) {
        let token = self.held.admit(stream);
        self.watch(token, Interest::Read);
    }

    fn work_phase(&mut self) {
        self.held.worker.statistics.work_phases += 1;
        let queues = Queues { listen: None, work: self.batch as u32 };
        self.strategy.began(Phase::Work, queues, self.clock.now_ns());
        let mut worked: u32 = 0;
        // Whoever stops it need not wait for the whole batch.
        while self.batch > 0 && !self.stop.is_over() {
            let Some(token) = self.ready.pop_front() else { break };
            self.batch -= 1;
            self.work(token);
            self.strategy.worked();
            worked += 1;
            let looks = self.strategy.looks_at_queues() && worked.is_multiple_of(LOOK_EVERY);
            let listen = if looks { self.listeners.waiting() } else { None };
            let queues = Queues { listen, work: self.batch as u32 };
            if self.strategy.next_phase(queues, self.clock.now_ns()) == Phase::Accept {
                self.is_listener_ready |= listen.is_some_and(|listen| listen > 0);
                break;
            }
        }
    }

    fn work(&mut self, token: u64) {
        match self.held.turn(token) {
            None => {}
            Some(Next::Close) => self.close(token),
            Some(Next::Turn) => {
                if let Some(connection) = self.held.get(token) {
                    connection.is_queued = true;
                    self.ready.push_back(token);
                }
            }
            Some(Next::Read | Next::Drain) => self.watch(token, Interest::Read),
            Some(Next::Write) => self.watch(token, Interest::Write),
        }
    }

    fn watch(&mut self, token: u64, interest: Interest) {
        let Some(connection) = self.held.get(token) else { return };
        let fd = connection.stream.as_fd();
        let done = match connection.watched {
            Some(watched) if watched == interest => Ok(()),
            Some(_) => self.events.change(fd, token, interest),
            None => self.events.add(fd, token, interest),
        };
        match done {
            Ok(()) => connection.watched = Some(interest),
            Err(_) => {
                self.held.worker.statistics.accept_failures += 1;
                self.close(token);
            }
        }
    }

    fn close(&mut self, token: u64) {
        let Some(connection) = self.held.get(token) else { return };
        if connection.watched.is_some() {
            self.events.closes(connection.stream.as_fd(), token);
        }
        self.held.end(token);
        self.strategy.closed();
    }

    fn close_overdue(&mut self) {
        for token in self.held.overdue(self.asked) {
            self.close(token);
        }
    }

    /// Without descriptors, a listener that stays readable would make the loop spin.
    fn start_rest(&mut self) -> Result<(), ServerError> {
        self.held.worker.statistics.accept_failures += 1;
        self.resting_until = Some(Instant::now() + ACCEPT_REST);
        self.listeners_told.clear();
        for (index, socket) in self.listeners.sockets().enumerate() {
            self.events
                .remove(socket, listener_token(index))
                .map_err(ServerError::events("rest from accepting"))?;
        }
        Ok(())
    }

    fn end_rest(&mut self) -> Result<(), ServerError> {
        if self.resting_until.is_some_and(|until| until <= Instant::now()) {
            self.resting_until = None;
            self.watch_listeners()?;
        }
        Ok(())
    }

    fn watch_listeners(&mut self) -> Result<(), ServerError> {
        self.listeners_told = (0..self.listeners.sockets().count()).map(listener_token).collect();
        self.watch_listeners_told()
    }

    fn watch_listeners_told(&mut self) -> Result<(), ServerError> {
        for (index, socket) in self.listeners.sockets().enumerate() {
            let token = listener_token(index);
            if self.listeners_told.contains(&token) {
                self.events
                    .add(socket, token, Interest::Read)
                    .map_err(ServerError::events("watch a listening socket"))?;
            }
        }
        self.listeners_told.clear();
        Ok(())
    }

    fn wait_at_most(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let until = self.held.next_look().into_iter().chain(self.resting_until).min()?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}
