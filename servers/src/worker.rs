// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One turn of a connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::board::Board;
use crate::connection::{Connection, Found, Next};
use crate::content::Content;
use crate::reply::{Outcome, Reply};
use crate::request::{self, Refusal};
use crate::statistics::Statistics;
use crate::work::Work;

/// A fast client of a long reply must not hold up the others.
const SEND_PER_TURN_BYTES: u64 = 2 << 20;
/// Turns between two looks at the clock.
const CLOCK_EVERY: u32 = 16;
/// Behind so much work in one turn there is a look, too.
const LONG_WORK_US: u64 = 1000;
/// How long a client may take to close after its last reply, or after it said that it would.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// What works on connections, apart from the server that holds them: the same for all servers.
#[derive(Debug)]
pub(crate) struct Worker {
    pub content: Content,
    pub work: Work,
    /// How long a connection may stand still.
    pub patience: Duration,
    pub scratch: Vec<u8>,
    pub statistics: Statistics,
    pub board: Arc<Board>,
    /// The time of the last look at the clock. Deadlines are seconds away: a look for each of many
    /// connections would be paid for nothing.
    now: Instant,
    turns: u32,
}

impl Worker {
    pub(crate) fn new(content: Content, work: Work, patience: Duration, board: Arc<Board>) -> Self {
        let statistics = Statistics::default();
        let (scratch, now) = (Vec::new(), Instant::now());
        Self { content, work, patience, scratch, statistics, board, now, turns: 0 }
    }

    /// Another one, for another thread.
    pub(crate) fn another(&self, scratch_bytes: usize) -> Self {
        Self {
            content: self.content.clone(),
            work: self.work.clone(),
            patience: self.patience,
            scratch: vec![0; scratch_bytes],
            statistics: Statistics::default(),
            board: Arc::clone(&self.board),
            now: Instant::now(),
            turns: 0,
        }
    }

    /// Looks at the clock: time may have passed in which there was no turn.
    pub(crate) fn look_at_clock(&mut self) -> Instant {
        self.now = Instant::now();
        self.now
    }

    /// A time at which the last turn had begun, or the one before.
    pub(crate) fn begun(&self) -> Instant {
        self.now
    }

    /// When who does nothing from now on is given up.
    pub(crate) fn deadline(&self) -> Instant {
        self.now + self.patience
    }

    /// Gives a connection one turn: at most one request is read, worked on and answered.
    ///
    /// Who holds the connection closes it, comes back to it, or has it watched.
    pub(crate) fn turn(&mut self, connection: &mut Connection) -> Next {
        self.statistics.work_items += 1;
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(CLOCK_EVERY) {
            self.look_at_clock();
        }
        connection.is_queued = false;
        match self.work(connection) {
            Next::Drain => {
                connection.start_draining();
                connection.deadline = self.now + DRAIN_MAX.min(self.patience);
                Next::Read
            }
            next => next,
        }
    }

    /// The reply to a request for the ordinary page on a connection that stays open.
    pub(crate) fn ordinary_reply(&mut self) -> Vec<u8> {
        let request = request::parse(b"GET / HTTP/1.1\r\n\r\n").ok().flatten();
        let reply =
            request.and_then(|request| self.content.reply_to(&request, &mut self.work).ok());
        reply.map_or_else(Vec::new, |(reply, _)| reply.at_hand())
    }

    /// A connection was accepted.
    pub(crate) fn begins(&mut self) {
        self.statistics.accepted += 1;
        self.board.holds();
    }

    /// A connection was accepted that its client had taken back.
    pub(crate) fn found_dead(&mut self) {
        self.statistics.accepted += 1;
        self.statistics.dead_connections += 1;
    }

    /// A connection is over.
    pub(crate) fn ends(&mut self, connection: &Connection) {
        self.board.lets_go();
        if !connection.answered && !connection.draining {
            self.statistics.dead_connections += 1;
        }
    }

    /// A connection has stood still for too long, and is about to be closed.
    pub(crate) fn gives_up(&mut self, connection: &mut Connection) {
        if connection.is_idle() || connection.draining {
            return;
        }
        self.statistics.timed_out += 1;
        if connection.reply.is_none() {
            // The connection is closed at once: whoever sends half a request gets half a word.
            let _ = Reply::refusing(Refusal::Halted).send(&connection.stream);
        }
    }

    /// Posts what was counted, for whoever looks.
    pub(crate) fn post(&mut self) {
        self.board.post(&mut self.statistics);
    }

    fn work(&mut self, connection: &mut Connection) -> Next {
        if connection.reply.is_none() {
            // The clock of a request runs from its first byte: a trickle does not wind it up again.
            let is_first = !connection.is_mid_request() && !connection.draining;
            if connection.receive(&mut self.scratch).is_err() {
                return Next::Close;
            }
            if is_first && connection.is_mid_request() {
                connection.deadline = self.deadline();
            }
            connection.reply = match connection.next_request() {
                Found::Request(request) => match self.content.reply_to(&request, &mut self.work) {
                    Ok((reply, steps)) => {
                        let steps = steps + self.work.once();
                        self.statistics.work_steps += steps;
                        if self.work.takes(steps, LONG_WORK_US) {
                            self.look_at_clock();
                        }
                        let has_left = connection.client_left || connection.input_ended;
                        self.statistics.half_closed_replies += u64::from(has_left);
                        Some(reply)
                    }
                    Err(refusal) => Some(self.refuse(refusal)),
                },
                Found::Refusal(refusal) => Some(self.refuse(refusal)),
                Found::ClientClose => return self.let_close(connection),
                Found::Nothing if connection.input_ended => return Next::Close,
                Found::Nothing => return Next::Read,
            };
        }
        self.send(connection)
    }

    /// Who closes first holds TIME-WAIT. The client means to, so its FIN is waited for; it has most
    /// often come with the request that says so.
    fn let_close(&mut self, connection: &mut Connection) -> Next {
        connection.expect_end();
        if connection.receive(&mut self.scratch).is_err() || connection.input_ended {
            return Next::Close;
        }
        connection.deadline = self.now + DRAIN_MAX.min(self.patience);
        Next::Read
    }

    fn refuse(&mut self, refusal: Refusal) -> Reply {
        self.statistics.bad_requests += 1;
        Reply::refusing(refusal)
    }

    fn send(&mut self, connection: &mut Connection) -> Next {
        let Some(reply) = &mut connection.reply else {
            return Next::Read;
        };
        let mut sent_in_turn = 0;
        while !reply.is_sent() {
            if sent_in_turn >= SEND_PER_TURN_BYTES {
                return Next::Write;
            }
            match reply.send(&connection.stream) {
                Ok(sent) => {
                    sent_in_turn += sent;
                    self.statistics.bytes_sent += sent;
                    connection.deadline = self.now + self.patience;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Next::Write,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Also a file that became shorter: the length is promised, so only an early end
                // tells the client that this is not all.
                Err(_) => return Next::Close,
            }
        }
        let (closes, outcome) = (reply.closes, reply.outcome);
        connection.reply = None;
        self.statistics.count(outcome);
        let is_refusal = outcome == Outcome::Refusal;
        connection.answered |= !is_refusal;
        match (closes, connection.is_mid_request()) {
            // Bytes of a next request may wait in our buffer, where no event tells of them.
            (false, true) => Next::Turn,
            _ if connection.input_ended => Next::Close,
            (false, false) => Next::Read,
            // The rest of a body, or of requests behind the last one, may be unread or on its way.
            (true, is_mid_request) if is_refusal || is_mid_request => Next::Drain,
            (true, _) => Next::Close,
        }
    }
}
