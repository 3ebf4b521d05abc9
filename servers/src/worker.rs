// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One turn of a connection.

use std::io;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Found, Next};
use crate::content::Content;
use crate::reply::{Outcome, Reply};
use crate::request::Refusal;
use crate::statistics::Statistics;
use crate::work::Work;

/// A fast client of a long reply must not hold up the others.
const SEND_PER_TURN_BYTES: u64 = 2 << 20;

/// What works on connections, apart from the server that holds them.
#[derive(Debug)]
pub(crate) struct Worker {
    pub content: Content,
    pub work: Work,
    /// How long a connection may stand still.
    pub patience: Duration,
    pub scratch: Vec<u8>,
    pub statistics: Statistics,
}

impl Worker {
    /// Gives a connection one turn: at most one request is read, worked on and answered.
    pub(crate) fn turn(&mut self, connection: &mut Connection, client_left: bool) -> Next {
        if connection.reply.is_none() {
            // The clock of a request runs from its first byte: a trickle does not wind it up again.
            let is_first = !connection.is_mid_request() && !connection.draining;
            match connection.receive(&mut self.scratch) {
                Ok(true) if is_first => connection.deadline = Instant::now() + self.patience,
                Ok(_) => {}
                Err(_) => return Next::Close,
            }
            connection.reply = match connection.next_request() {
                Found::Request(request) => match self.content.reply_to(&request) {
                    Ok(reply) => {
                        self.statistics.work_steps += self.work.once();
                        let has_left = client_left || connection.input_ended;
                        self.statistics.half_closed_replies += u64::from(has_left);
                        Some(reply)
                    }
                    Err(refusal) => Some(self.refuse(refusal)),
                },
                Found::Refusal(refusal) => Some(self.refuse(refusal)),
                Found::Nothing if connection.input_ended => return Next::Close,
                Found::Nothing => return Next::Read,
            };
        }
        self.send(connection)
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
                    connection.deadline = Instant::now() + self.patience;
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
            // Bytes of a next request may wait in our buffer, where epoll does not see them.
            (false, true) => Next::Turn,
            (false, false) if connection.input_ended => Next::Close,
            (false, false) => Next::Read,
            (true, _) if !is_refusal || connection.input_ended => Next::Close,
            (true, _) => Next::Drain,
        }
    }
}
