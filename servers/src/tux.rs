// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server with two phases and no call for events between them (Pariag 3.1.3).
//!
//! TUX lived in the kernel: its `work_pending` queue grew by itself while it was worked off, and a
//! look at the listen queue cost a load. Here both are told of in memory that an `io_uring` shares
//! with the kernel:
//!
//! - *It learns of work* by reading completions of polls, after every step of work; the kernel
//!   adds them whenever the thread is in it. What is accepted is work at once, since its request
//!   has most often arrived; what would block is watched, which is asked for in one call at the
//!   end of a work phase.
//! - *It accepts* in every turn, without a call when the listen queue has been found empty and the
//!   ring has not told of it since. It waits only when there is nothing at all to do.
//!
//! TUX answered inside the kernel, and so can this: on a connection at rest, a program answers
//! requests for the one-packet page ([`InKernel`]), and the server hears of nothing. It is there to
//! be compared. Such a reply is sent by a worker thread of the kernel, twice handed on, which takes
//! longer than the system calls that it saves; and who closes its side meanwhile loses it.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::accept::{LOOK_EVERY, Phase, Queues, Strategy};
use crate::connection::Next;
use crate::error::ServerError;
use crate::events::{Interest, STOP, is_listener, listener_token};
use crate::held::Held;
use crate::in_kernel::InKernel;
use crate::listen::{Accepted, Listeners};
use crate::ring::{Completions, Ring};
use crate::server::{ACCEPT_REST, Clock, Parts};
use crate::stop::Stop;

/// So many accept phases and pieces of work come to one post of a busy server's counts, at least: a
/// turn may be as short as one connection, and as long as a thousand.
const POST_EVERY: u64 = 64;

/// Something may arrive while a connection is handed over to the kernel; then it is tried again.
const HANDED_OVER_MAX: u8 = 4;

/// The server without calls for events.
#[derive(Debug)]
pub(crate) struct Tux {
    ring: Ring,
    stop: Arc<Stop>,
    listeners: Listeners,
    held: Held,
    strategy: Strategy,
    clock: Clock,
    /// Connections that can be worked on: TUX's `work_pending`.
    pending: VecDeque<u64>,
    /// Listening sockets that nobody waits at until the ring tells of them.
    is_empty: Vec<bool>,
    /// Until when accepting rests, for want of descriptors.
    resting_until: Option<Instant>,
    in_kernel: Option<InKernel>,
}

impl Tux {
    /// # Errors
    /// [`ServerError::NoIoUring`], [`ServerError::InKernel`].
    pub(crate) fn new(mut parts: Parts, in_kernel: bool) -> Result<Self, ServerError> {
        let reply = parts.worker.ordinary_reply();
        let in_kernel = in_kernel.then(|| InKernel::answering(&reply)).transpose();
        let sockets = parts.listeners.sockets().count();
        Ok(Self {
            ring: Ring::new(Completions::Anytime)?,
            stop: parts.stop,
            listeners: parts.listeners,
            held: Held::new(parts.worker),
            clock: Clock::new(),
            strategy: parts.strategy,
            pending: VecDeque::new(),
            is_empty: vec![false; sockets],
            resting_until: None,
            in_kernel: in_kernel.map_err(|source| ServerError::InKernel { source })?,
        })
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// [`ServerError::Events`].
    pub(crate) fn serve(mut self) -> Result<(), ServerError> {
        self.ring.start().map_err(ServerError::events("start"))?;
        self.ring
            .watch(self.stop.as_fd(), STOP, Interest::Read)
            .map_err(ServerError::events("watch its stop signal"))?;
        while !self.stop.is_over() {
            self.accept_phase()?;
            let begun = Instant::now();
            self.work_phase()?;
            self.close_overdue(begun);
            let is_idle = self.pending.is_empty() && !self.may_accept();
            let unposted = &self.held.worker.statistics;
            if is_idle || unposted.accept_phases + unposted.work_items >= POST_EVERY {
                self.post();
            }
            // The word to stop may have been among what was just told.
            if is_idle && !self.stop.is_over() {
                self.wait()?;
            }
        }
        self.post();
        Ok(())
    }

    fn post(&mut self) {
        if let Some(in_kernel) = &mut self.in_kernel {
            let (replies, bytes) = in_kernel.replies();
            self.held.worker.statistics.replies += replies;
            self.held.worker.statistics.kernel_replies += replies;
            self.held.worker.statistics.bytes_sent += bytes;
        }
        self.held.worker.post();
    }

    /// Whether somebody may wait at a listening socket, and may be accepted.
    fn may_accept(&mut self) -> bool {
        if self.resting_until.is_some_and(|until| until <= Instant::now()) {
            self.resting_until = None;
        }
        self.resting_until.is_none() && self.is_empty.contains(&false)
    }

    fn accept_phase(&mut self) -> Result<(), ServerError> {
        self.held.worker.statistics.accept_phases += 1;
        let accepts = self.may_accept();
        let listen = match accepts {
            false => Some(0),
            true if self.strategy.looks_at_queues() => self.listeners.waiting(),
            true => None,
        };
        let queues = Queues { listen, work: self.pending.len() as u32 };
        self.strategy.began(Phase::Accept, queues, self.clock.now_ns());
        if accepts && listen == Some(0) {
            return self.found_empty();
        }
        while accepts && self.strategy.accept_now(queues, self.clock.now_ns()) > 0 {
            match self.listeners.accept() {
                Accepted::Connection(stream) => {
                    let token = self.held.admit(stream);
                    self.enqueue(token);
                    self.strategy.accepted(self.clock.now_ns());
                }
                Accepted::Dead => {
                    self.held.worker.found_dead();
                    self.strategy.accepted(self.clock.now_ns());
                }
                Accepted::Nobody => {
                    self.strategy.ran_dry();
                    self.found_empty()?;
                }
                Accepted::NoRoom => {
                    self.held.worker.statistics.accept_failures += 1;
                    self.resting_until = Some(Instant::now() + ACCEPT_REST);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Nobody waits: the ring will tell when somebody does.
    fn found_empty(&mut self) -> Result<(), ServerError> {
        for (index, socket) in self.listeners.sockets().enumerate() {
            if !self.is_empty[index] {
                self.ring
                    .watch(socket, listener_token(index), Interest::Read)
                    .map_err(ServerError::events("watch a listening socket"))?;
                self.is_empty[index] = true;
            }
        }
        Ok(())
    }

    /// Works until nothing is pending, however much is added meanwhile, or the strategy has had
    /// enough of it.
    fn work_phase(&mut self) -> Result<(), ServerError> {
        self.held.worker.statistics.work_phases += 1;
        self.collect()?;
        let queues = Queues { listen: None, work: self.pending.len() as u32 };
        self.strategy.began(Phase::Work, queues, self.clock.now_ns());
        let mut worked: u32 = 0;
        loop {
            while !self.stop.is_over()
                && let Some(token) = self.pending.pop_front()
            {
                self.work(token)?;
                self.strategy.worked();
                worked += 1;
                self.collect()?;
                if !self.pending.is_empty() && self.next_phase(worked) == Phase::Accept {
                    return self.submit();
                }
            }
            self.submit()?;
            self.collect()?;
            if self.pending.is_empty() || self.stop.is_over() {
                return Ok(());
            }
        }
    }

    fn next_phase(&mut self, worked: u32) -> Phase {
        let looks = self.strategy.looks_at_queues() && worked.is_multiple_of(LOOK_EVERY);
        let listen = if looks { self.listeners.waiting() } else { None };
        let queues = Queues { listen, work: self.pending.len() as u32 };
        self.strategy.next_phase(queues, self.clock.now_ns())
    }

    fn work(&mut self, token: u64) -> Result<(), ServerError> {
        match self.held.turn(token) {
            None => Ok(()),
            Some(Next::Close) => {
                self.close(token);
                Ok(())
            }
            Some(Next::Turn) => {
                self.enqueue(token);
                Ok(())
            }
            Some(Next::Read | Next::Drain) => {
                // A phase has no end before who is readable at once has none, and accepts nobody.
                if self.held.is_overdue_behind_turn(token) && !self.is_answered_in_kernel(token) {
                    self.close(token);
                    return Ok(());
                }
                self.hand_over(token);
                self.watch(token, Interest::Read)
            }
            Some(Next::Write) => self.watch(token, Interest::Write),
        }
    }

    /// Lets the kernel answer by itself from now on, if it can.
    fn hand_over(&mut self, token: u64) {
        let Some(in_kernel) = &self.in_kernel else { return };
        if let Some(connection) = self.held.get(token)
            && connection.is_at_rest()
            && connection.handed_over < HANDED_OVER_MAX
        {
            // If it cannot, this server answers on, as it would have anyway.
            let is_done = in_kernel.hand_over(&connection.stream).unwrap_or(true);
            connection.handed_over =
                if is_done { HANDED_OVER_MAX } else { connection.handed_over + 1 };
        }
    }

    fn enqueue(&mut self, token: u64) {
        if let Some(connection) = self.held.get(token) {
            connection.is_queued = true;
            self.pending.push_back(token);
        }
    }

    fn watch(&mut self, token: u64, interest: Interest) -> Result<(), ServerError> {
        if let Some(connection) = self.held.get(token) {
            self.ring
                .watch(connection.stream.as_fd(), token, interest)
                .map_err(ServerError::events("watch a connection"))?;
            connection.watched = Some(interest);
        }
        Ok(())
    }

    fn close(&mut self, token: u64) {
        let Some(connection) = self.held.get(token) else { return };
        if connection.watched.is_some() {
            // It fails only if it has just been told of.
            let _ = self.ring.forget(token);
        }
        if let Some(in_kernel) = &self.in_kernel
            && connection.handed_over > 0
        {
            in_kernel.forget(&connection.stream);
        }
        self.held.end(token);
        self.strategy.closed();
    }

    fn close_overdue(&mut self, by: Instant) {
        for token in self.held.overdue(by) {
            if !self.is_answered_in_kernel(token) {
                self.close(token);
            }
        }
    }

    /// Whether the kernel has answered on a connection since this server had to do with it.
    fn is_answered_in_kernel(&mut self, token: u64) -> bool {
        let patience = self.held.worker.patience;
        let (Some(in_kernel), Some(connection)) = (&self.in_kernel, self.held.get(token)) else {
            return false;
        };
        let left = in_kernel
            .silent_for(&connection.stream)
            .and_then(|silent| patience.checked_sub(silent))
            .filter(|left| !left.is_zero());
        if let Some(left) = left {
            connection.deadline = Instant::now() + left;
        }
        left.is_some()
    }

    fn submit(&mut self) -> Result<(), ServerError> {
        self.ring.submit().map_err(ServerError::events("say what it waits for"))
    }

    /// Takes what the kernel has told, and says how much that was. No call.
    fn collect(&mut self) -> Result<u64, ServerError> {
        let Self { ring, held, pending, is_empty, .. } = self;
        let mut count = 0;
        let completed = ring.completed(|told| {
            count += 1;
            if is_listener(told.token) {
                for (index, is_empty) in is_empty.iter_mut().enumerate() {
                    *is_empty &= listener_token(index) != told.token;
                }
            } else if let Some(connection) = held.get(told.token) {
                connection.watched = None;
                connection.client_left |= told.client_left;
                if !connection.is_queued {
                    connection.is_queued = true;
                    pending.push_back(told.token);
                }
            }
        });
        completed.map_err(ServerError::events("take what it was told"))?;
        Ok(count)
    }

    /// There is nothing to do until the ring says so.
    fn wait(&mut self) -> Result<(), ServerError> {
        self.strategy.idle();
        let until = self.held.next_look().into_iter().chain(self.resting_until).min();
        let at_most = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A poll of the kernel's memory told nothing just now, so this is where time passes.
        self.ring
            .wait(at_most.map(|time| time.max(Duration::from_micros(1))))
            .map_err(ServerError::events("wait for something to do"))?;
        self.held.worker.look_at_clock();
        self.held.worker.statistics.event_calls += 1;
        self.held.worker.statistics.fds_told += self.collect()?;
        Ok(())
    }
}
