// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One connection, from its acceptance to its end.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use crate::events::Interest;
use crate::reply::Reply;
use crate::request::{self, HEAD_MAX_BYTES, Method, Refusal, Request};

/// A client that sends faster than we throw away must not hold up the others.
const READS_PER_TURN: u32 = 8;
/// What an empty line may have come to.
const HALF_A_LINE_END: &[u8] = b"\r";

/// What a connection waits for after a turn of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// More bytes from the client.
    Read,
    /// Room to send in.
    Write,
    /// Nothing: another request is already here.
    Turn,
    /// The client to close, after the last reply.
    Drain,
    /// Nothing: it is over.
    Close,
}

/// What came of looking for a request.
pub(crate) enum Found {
    Request(Request),
    /// The client has said that it closes.
    ClientClose,
    Refusal(Refusal),
    Nothing,
}

/// A connection's state. Deadlines and counts are the server's business.
#[derive(Debug)]
pub(crate) struct Connection {
    pub stream: TcpStream,
    /// When it is closed if it has not progressed by then.
    pub deadline: Instant,
    /// What the kernel watches for, if it does.
    pub watched: Option<Interest>,
    /// Whether it waits for its turn of work.
    pub is_queued: bool,
    /// Whether the kernel has told that the client closed its side.
    pub client_left: bool,
    /// How often the kernel was asked to answer on it by itself.
    pub handed_over: u8,
    /// Whether any request was answered.
    pub answered: bool,
    input: Vec<u8>,
    /// Bytes of a request's body still to be thrown away.
    skip_bytes: u64,
    pub reply: Option<Reply>,
    /// The client has closed its side.
    pub input_ended: bool,
    /// The last reply is out; what still arrives is read and forgotten until the client closes,
    /// because closing with unread input would send a RST that can destroy the reply. Or the client
    /// is to close first.
    pub draining: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, deadline: Instant) -> Self {
        Self {
            stream,
            deadline,
            watched: None,
            is_queued: false,
            client_left: false,
            handed_over: 0,
            answered: false,
            input: Vec::new(),
            skip_bytes: 0,
            reply: None,
            input_ended: false,
            draining: false,
        }
    }

    /// Reads what has arrived, into the scratch buffer first.
    pub(crate) fn receive(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        for _ in 0..READS_PER_TURN {
            if self.input_ended || self.input.len() >= HEAD_MAX_BYTES {
                break;
            }
            match (&self.stream).read(scratch) {
                Ok(0) => self.input_ended = true,
                Ok(count) => {
                    self.take_in(&scratch[..count]);
                    // A short read emptied the socket: no call is spent on hearing so.
                    if count < scratch.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8]) {
        if self.draining {
            return;
        }
        let skipped = usize::try_from(self.skip_bytes).map_or(bytes.len(), |n| n.min(bytes.len()));
        self.skip_bytes -= skipped as u64;
        self.input.extend_from_slice(&bytes[skipped..]);
        self.forget_empty_lines();
    }

    /// What comes before a request's first line begins none (RFC 9112, 2.2): some clients send an
    /// empty line behind a body.
    fn forget_empty_lines(&mut self) {
        let mut empty = 0;
        while let Some(length) = empty_line(&self.input[empty..]) {
            empty += length;
        }
        self.input.drain(..empty);
    }

    /// Takes the next whole request out of what has arrived.
    pub(crate) fn next_request(&mut self) -> Found {
        if self.input.is_empty() || self.draining {
            return Found::Nothing;
        }
        match request::parse(&self.input) {
            Ok(None) => Found::Nothing,
            Err(refusal) => Found::Refusal(refusal),
            Ok(Some(request)) => {
                let rest = self.input.len() - request.head_bytes;
                let body_here = request.body_bytes.min(rest as u64);
                self.skip_bytes = request.body_bytes - body_here;
                self.input.drain(..request.head_bytes + body_here as usize);
                self.forget_empty_lines();
                match request.method {
                    Method::ClientClose => Found::ClientClose,
                    _ => Found::Request(request),
                }
            }
        }
    }

    /// Whether a request has begun to arrive.
    pub(crate) fn is_mid_request(&self) -> bool {
        let is_begun = !self.input.is_empty() && self.input != HALF_A_LINE_END;
        is_begun || self.skip_bytes > 0
    }

    /// Whether nothing is left to be done for what has been read.
    pub(crate) fn is_idle(&self) -> bool {
        !self.is_mid_request() && self.reply.is_none()
    }

    /// Whether it had stood still for too long at this time. Whoever could go on then has had a turn
    /// since, and progress moves a deadline: who only keeps sending, half a request or what nobody
    /// wants any more, makes none. Who waits for another turn has just made some, and who has asked
    /// for something that is unread waits for us.
    pub(crate) fn is_overdue(&self, by: Instant) -> bool {
        !self.is_queued && self.deadline <= by && !self.has_asked()
    }

    /// Whether a request waits in the socket: empty lines are none.
    fn has_asked(&self) -> bool {
        let mut first = [b'\n'];
        let is_at_start = self.is_idle() && !self.draining;
        is_at_start && self.stream.peek(&mut first).is_ok() && !first[0].is_ascii_whitespace()
    }

    /// Whether every request that has arrived was answered, and another may come.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.answered
            && self.is_idle()
            && self.input.is_empty()
            && !self.draining
            && !self.input_ended
    }

    /// Nothing that arrives matters any more, until the client closes.
    pub(crate) fn expect_end(&mut self) {
        self.draining = true;
        self.input = Vec::new();
    }

    /// Closes our side and waits for the client to close its own.
    pub(crate) fn start_draining(&mut self) {
        self.expect_end();
        // An error means that the client is gone, which reading will tell.
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}

/// The length of the empty line that the bytes begin with, if they do.
fn empty_line(bytes: &[u8]) -> Option<usize> {
    match bytes {
        [b'\r', b'\n', ..] => Some(2),
        [b'\n', ..] => Some(1),
        _ => None,
    }
}
