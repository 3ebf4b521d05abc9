// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connections that a thread of Knot finishes before it takes others.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::libc;

use crate::connection::{Connection, Next};
use crate::error::ServerError;
use crate::events::Interest;
use crate::listen::Listeners;
use crate::stop::Stop;
use crate::worker::Worker;

/// Rounds between two looks at who else can go on, where some always can: their requests came one
/// behind the other. A call in so many rounds of theirs costs little.
const ROUNDS: u32 = 16;

/// The connections of one thread.
///
/// They have turns in the order in which they came. One that would block lets the others go on, and
/// the thread sleeps only when none can. In the thesis they wait with it: Capriccio lets another
/// thread go on where a call would block (Pariag 3.1.2).
#[derive(Debug)]
pub(super) struct Batch {
    pub worker: Worker,
    connections: Vec<Connection>,
    /// What is polled: the stop signal, then a connection an entry.
    entries: Vec<libc::pollfd>,
}

/// What came of waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    /// Descriptors told of.
    pub told: u64,
}

impl Batch {
    pub(super) fn new(worker: Worker) -> Self {
        Self { worker, connections: Vec::new(), entries: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    pub(super) fn admit(&mut self, stream: TcpStream) {
        self.worker.begins();
        self.worker.look_at_clock();
        let mut connection = Connection::new(stream, self.worker.deadline());
        connection.is_queued = true;
        self.connections.push(connection);
    }

    /// The work phase: works until every connection is closed, or the server stops. Says how many
    /// were closed.
    ///
    /// # Errors
    /// [`ServerError::Events`].
    pub(super) fn finish(&mut self, stop: &Stop) -> Result<u32, ServerError> {
        self.worker.statistics.work_phases += 1;
        let (mut closed, mut rounds) = (0, 0);
        while !stop.is_over() {
            let begun = Instant::now();
            closed += self.round(stop);
            closed += self.end_overdue(begun);
            if self.connections.is_empty() {
                break;
            }
            rounds += 1;
            let queued = self.connections.iter().filter(|connection| connection.is_queued).count();
            if queued == 0 || (queued < self.connections.len() && rounds >= ROUNDS) {
                self.wait(stop, queued == 0)?;
                rounds = 0;
            }
        }
        self.connections.clear();
        Ok(closed)
    }

    /// Gives a turn to everyone who can go on, unless the server stops.
    fn round(&mut self, stop: &Stop) -> u32 {
        let before = self.connections.len();
        let worker = &mut self.worker;
        self.connections.retain_mut(|connection| {
            if !connection.is_queued || stop.is_over() {
                return true;
            }
            match worker.turn(connection) {
                Next::Close => {
                    worker.ends(connection);
                    return false;
                }
                Next::Turn => connection.is_queued = true,
                Next::Read | Next::Drain => connection.watched = Some(Interest::Read),
                Next::Write => connection.watched = Some(Interest::Write),
            }
            true
        });
        (before - self.connections.len()) as u32
    }

    /// Looks who can go on. It sleeps, if it may, until one can, or one has stood still for too long,
    /// or the server stops.
    fn wait(&mut self, stop: &Stop, sleeps: bool) -> Result<(), ServerError> {
        self.entries.clear();
        self.entries.push(entry(stop));
        self.entries.extend(self.connections.iter().map(|connection| {
            let write = connection.watched == Some(Interest::Write);
            let events = if write { libc::POLLOUT } else { libc::POLLIN | libc::POLLRDHUP };
            let of = entry(&connection.stream);
            // Who is queued can go on anyway: poll() passes over a negative one.
            let fd = if connection.is_queued { -1 } else { of.fd };
            libc::pollfd { fd, events, ..of }
        }));
        let deadline = self.connections.iter().map(|connection| connection.deadline).min();
        let at_most = match sleeps {
            true => deadline.map(|time| time.saturating_duration_since(Instant::now())),
            false => Some(Duration::ZERO),
        };
        self.worker.post();
        let waited = wait_for(&mut self.entries, at_most)?;
        self.worker.look_at_clock();
        self.worker.statistics.event_calls += 1;
        self.worker.statistics.fds_told += waited.told;
        for (connection, entry) in self.connections.iter_mut().zip(&self.entries[1..]) {
            connection.is_queued |= entry.revents != 0;
            connection.client_left |= entry.revents & libc::POLLRDHUP != 0;
        }
        Ok(())
    }

    /// Ends who was overdue when a round began.
    fn end_overdue(&mut self, begun: Instant) -> u32 {
        let before = self.connections.len();
        let worker = &mut self.worker;
        self.connections.retain_mut(|connection| {
            let is_overdue = connection.is_overdue(begun);
            if is_overdue {
                worker.gives_up(connection);
                worker.ends(connection);
            }
            !is_overdue
        });
        (before - self.connections.len()) as u32
    }
}

/// What to poll to read from a descriptor.
pub(super) fn entry(fd: &impl AsFd) -> libc::pollfd {
    libc::pollfd { fd: fd.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

/// Waits until somebody is there to accept, or the server stops.
pub(super) fn wait_for_listeners(
    listeners: &Listeners,
    stop: &Stop,
    at_most: Option<Duration>,
) -> Result<Waited, ServerError> {
    let mut entries: Vec<_> = listeners.sockets().map(|socket| entry(&socket)).collect();
    entries.push(entry(stop));
    wait_for(&mut entries, at_most)
}

/// Waits until one of them is ready, at most so long.
pub(super) fn wait_for(
    entries: &mut [libc::pollfd],
    at_most: Option<Duration>,
) -> Result<Waited, ServerError> {
    let timeout_ms = crate::events::timeout_ms(at_most);
    // SAFETY: the pointer is to as many entries as are named, which the kernel may write to.
    let ready =
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout_ms) };
    match u64::try_from(ready) {
        Ok(told) => Ok(Waited { told }),
        Err(_) => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                entries.iter_mut().for_each(|entry| entry.revents = 0);
                return Ok(Waited { told: 0 });
            }
            Err(ServerError::events("wait for its connections")(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener};
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::board::Board;
    use crate::content::Content;
    use crate::settings::Settings;
    use crate::work::{Work, steps_per_us};

    const PATIENCE: Duration = Duration::from_millis(1);
    /// For who is not to be given up.
    const LONG: Duration = Duration::from_secs(60);
    /// A turn reads eight times as much.
    const SCRATCH_BYTES: usize = 1;
    /// What fits into a socket before anyone reads, and keeps its reader busy for several ms.
    const SENT_BYTES: usize = 40_000;
    const TURNS_TO_READ_ALL: u64 = SENT_BYTES as u64 / 8;

    /// How many turns a connection had of which this came, and much behind it.
    fn turns(head: &str) -> u64 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        client.write_all(head.as_bytes()).unwrap();
        client.write_all(&[b'x'; SENT_BYTES]).unwrap();
        let board = Arc::new(Board::default());
        let content = Content::of(&Settings::default()).unwrap();
        let worker = Worker::new(content, Work::costing(0, 1), PATIENCE, Arc::clone(&board));
        let mut batch = Batch::new(worker.another(SCRATCH_BYTES));
        batch.admit(stream);
        assert_eq!(batch.finish(&Stop::new().unwrap()).unwrap(), 1);
        batch.worker.post();
        board.look().work_items
    }

    const GET: &str = "GET / HTTP/1.1\r\n\r\n";
    /// Of one behind the other, all of which fit into the sockets, as do their replies.
    const REQUESTS: usize = 400;
    const REQUEST_US: u64 = 1000;

    /// Everything that has come to a client so far.
    fn read_now(client: &mut TcpStream) -> usize {
        client.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let _ = client.read_to_end(&mut bytes);
        bytes.len()
    }

    /// Two clients, and a batch of their connections whose requests take so much work.
    fn two(work: Work) -> ([TcpStream; 2], Batch) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings { body_bytes: 0, ..Settings::default() };
        let content = Content::of(&settings).unwrap();
        let worker = Worker::new(content, work, LONG, Arc::new(Board::default()));
        let mut batch = Batch::new(worker.another(SENT_BYTES));
        let clients = [(); 2].map(|()| {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (stream, _) = listener.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            batch.admit(stream);
            client
        });
        (clients, batch)
    }

    #[test]
    fn while_all_can_go_on_nobody_is_asked_for() {
        let (mut clients, mut batch) = two(Work::costing(0, 1));
        for client in &mut clients {
            client.write_all(GET.repeat(REQUESTS).as_bytes()).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        }
        assert_eq!(batch.finish(&Stop::new().unwrap()).unwrap(), 2);
        let board = Arc::clone(&batch.worker.board);
        batch.worker.post();
        let statistics = board.look();
        assert_eq!((statistics.replies, statistics.event_calls), (2 * REQUESTS as u64, 0));
    }

    #[test]
    fn who_sends_many_requests_ahead_shuts_out_no_other() {
        let work = Work::costing(REQUEST_US, steps_per_us());
        let ([mut ahead, mut other], mut batch) = two(work);
        let stop = Stop::new().unwrap();
        ahead.write_all(GET.repeat(REQUESTS).as_bytes()).unwrap();
        assert_eq!(batch.round(&stop), 0, "both have had a turn");
        other.write_all(GET.as_bytes()).unwrap();
        let clients = thread::spawn(move || {
            let mut reply = [0; 1024];
            let reply_bytes = other.read(&mut reply).unwrap();
            read_now(&mut ahead) / reply_bytes
        });
        assert_eq!(batch.finish(&stop).unwrap(), 2);
        let replies = clients.join().unwrap();
        assert!(replies < REQUESTS, "it had all of its replies first");
    }

    #[test]
    fn who_keeps_sending_is_heard_for_as_long_as_who_stands_still() {
        // The one is refused, and what comes behind it forgotten; the other has a body without end.
        for head in ["nonsense\r\n\r\n", "PUT / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n"] {
            let turns = turns(head);
            assert!(turns < TURNS_TO_READ_ALL, "all was read, in {turns} turns: {head:?}");
        }
    }
}
