// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections that one thread holds, and what becomes of them.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::connection::{Connection, Next};
use crate::slab::Slab;
use crate::worker::Worker;

/// How often who stands still is looked for, in a connection's patience.
const LOOKS_PER_PATIENCE: u32 = 8;
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// The connections that one thread holds, by token.
#[derive(Debug)]
pub(crate) struct Held {
    connections: Slab,
    pub worker: Worker,
    /// Connections are not sorted by their deadlines, which change with every reply; from time to
    /// time all are looked at, which costs next to nothing for each.
    next_look: Instant,
}

impl Held {
    pub(crate) fn new(worker: Worker) -> Self {
        Self { connections: Slab::default(), worker, next_look: Instant::now() }
    }

    /// Takes a connection in.
    pub(crate) fn admit(&mut self, stream: TcpStream) -> u64 {
        self.worker.begins();
        if self.connections.held == 0 {
            self.next_look = Instant::now() + self.look_interval();
        }
        self.connections.insert(Connection::new(stream, self.worker.deadline()))
    }

    /// The connection with this token, if it is not over.
    pub(crate) fn get(&mut self, token: u64) -> Option<&mut Connection> {
        self.connections.get(token)
    }

    /// Gives a connection its turn; `None` when it is over already.
    pub(crate) fn turn(&mut self, token: u64) -> Option<Next> {
        let connection = self.connections.get(token)?;
        Some(self.worker.turn(connection))
    }

    /// Closes a connection.
    pub(crate) fn end(&mut self, token: u64) {
        if let Some(connection) = self.connections.remove(token) {
            self.worker.ends(&connection);
        }
    }

    /// Who has stood still for too long and has been told so: they are to be closed.
    pub(crate) fn overdue(&mut self) -> Vec<u64> {
        let now = Instant::now();
        if self.connections.held == 0 || now < self.next_look {
            return Vec::new();
        }
        self.next_look = now + self.look_interval();
        let worker = &mut self.worker;
        let mut overdue = Vec::new();
        self.connections.for_each(|token, connection| {
            if connection.deadline <= now {
                worker.gives_up(connection);
                overdue.push(token);
            }
        });
        overdue
    }

    /// When to look next, if there is anyone to look at.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        (self.connections.held > 0).then_some(self.next_look)
    }

    fn look_interval(&self) -> Duration {
        (self.worker.patience / LOOKS_PER_PATIENCE).clamp(LOOK_MIN, LOOK_MAX)
    }
}
