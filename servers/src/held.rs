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

    /// Whether one that has just had its turn had stood still for too long before it, and has been told so: it is to
    /// be closed. Who only keeps sending what nobody wants has a turn whenever anybody looks.
    pub(crate) fn is_overdue_behind_turn(&mut self, token: u64) -> bool {
        let Self { connections, worker, .. } = self;
        let Some(connection) = connections.get(token) else { return false };
        let is_overdue = connection.is_overdue(worker.begun());
        if is_overdue {
            worker.gives_up(connection);
        }
        is_overdue
    }

    /// Closes a connection.
    pub(crate) fn end(&mut self, token: u64) {
        if let Some(connection) = self.connections.remove(token) {
            self.worker.ends(&connection);
        }
    }

    /// Who had stood still for too long at this time and has been told so: they are to be closed.
    /// Whoever could go on then must have had a turn since, or be queued.
    pub(crate) fn overdue(&mut self, by: Instant) -> Vec<u64> {
        if self.connections.held == 0 || by < self.next_look {
            return Vec::new();
        }
        self.next_look = by + self.look_interval();
        let worker = &mut self.worker;
        let mut overdue = Vec::new();
        self.connections.for_each(|token, connection| {
            if connection.is_overdue(by) {
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

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;
    use crate::board::Board;
    use crate::content::Content;
    use crate::settings::Settings;
    use crate::work::Work;

    const PATIENCE: Duration = Duration::from_millis(2);

    #[test]
    fn only_who_was_idle_for_too_long_at_that_time_is_overdue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let content = Content::of(&Settings::default()).unwrap();
        let board = Arc::new(Board::default());
        let mut held = Held::new(Worker::new(content, Work::costing(0, 1), PATIENCE, board));
        let mut connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            (client, held.admit(stream))
        };
        let ((mut idles, idle), (_queues, queued), (mut asks, asked)) =
            (connect(), connect(), connect());
        held.get(queued).unwrap().is_queued = true;
        idles.write_all(b"\r\n").unwrap();
        asks.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        std::thread::sleep(PATIENCE * 2);
        let moved = Instant::now();
        held.get(asked).unwrap().deadline = moved;
        assert_eq!(held.overdue(moved), [idle], "the others wait for the server");
        held.end(idle);
        std::thread::sleep(PATIENCE);
        held.get(queued).unwrap().is_queued = false;
        held.get(queued).unwrap().deadline = Instant::now();
        assert_eq!(held.overdue(moved + PATIENCE / 2), [0; 0], "not until then");
        assert_eq!(held.overdue(Instant::now()), [queued]);
    }
}
