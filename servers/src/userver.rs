// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event-driven server of the papers: one process, one thread, three phases.
//!
//! Each turn gets events, then accepts at most [`AcceptLimit`] connections, then works on every
//! connection that can go on (Pariag, *Understanding and Improving Web Server Performance*, 2004).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{SockFlag, accept4};

use crate::connection::{Connection, Next};
use crate::content::Content;
use crate::error::ServerError;
use crate::listen::listen;
use crate::reply::Reply;
use crate::request::Refusal;
use crate::settings::Settings;
use crate::slab::Slab;
use crate::statistics::Statistics;
use crate::work::{Work, thread_cpu_ns};
use crate::worker::Worker;

/// Tokens above every connection's.
const STOP: u64 = u64::MAX;
const LISTENER: u64 = u64::MAX - 1;
const EVENTS_MAX: usize = 1024;
const SCRATCH_BYTES: usize = 64 * 1024;
/// How long a client may take to close after its last reply.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// How long accepting rests when there are no descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// Ends a running [`Userver`] from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<EventFd>);

impl Stopper {
    /// Has the server return from [`Userver::run`] after the turn it is in.
    pub fn stop(&self) {
        // It can only fail when it has been called 2^64 − 2 times.
        let _ = self.0.write(1);
    }
}

/// The server: what holds the connections, and says whose turn it is.
#[derive(Debug)]
pub struct Userver {
    settings: Settings,
    epoll: Epoll,
    listeners: Vec<TcpListener>,
    stop: Arc<EventFd>,
    connections: Slab,
    /// Connections by the deadline they had when entered. They are looked at again then, not
    /// moved whenever they progress.
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Connections with another request already read.
    turns: Vec<u64>,
    /// Until when accepting rests; listeners are then not watched.
    resting_until: Option<Instant>,
    worker: Worker,
}

impl Userver {
    /// Listens. Connections queue up in the kernel until [`Userver::run`].
    ///
    /// # Errors
    /// [`ServerError::NoAddress`], [`ServerError::Listen`] naming the address,
    /// [`ServerError::Root`] naming the root.
    pub fn bind(settings: Settings) -> Result<Self, ServerError> {
        let worker = Worker {
            content: Content::of(&settings)?,
            work: Work::costing(settings.cost_us),
            patience: settings.patience,
            scratch: vec![0; SCRATCH_BYTES],
            statistics: Statistics::default(),
        };
        let listeners = listen(&settings.addresses, settings.backlog, settings.reuse_port)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(ServerError::events("create an epoll instance"))?;
        let stop = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(ServerError::events("create an eventfd"))?;
        epoll
            .add(&stop, EpollEvent::new(EpollFlags::EPOLLIN, STOP))
            .map_err(ServerError::events("watch its stop signal"))?;
        let server = Self {
            settings,
            epoll,
            listeners,
            stop: Arc::new(stop),
            connections: Slab::default(),
            deadlines: BinaryHeap::new(),
            turns: Vec::new(),
            resting_until: None,
            worker,
        };
        server.watch_listeners()?;
        Ok(server)
    }

    /// The addresses listened on, ports filled in.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect()
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// Serves until stopped, and says what happened.
    ///
    /// # Errors
    /// [`ServerError::Events`] when the kernel refuses to wait for events.
    pub fn run(mut self) -> Result<Statistics, ServerError> {
        let cpu_before_ns = thread_cpu_ns();
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        loop {
            let count = match self.epoll.wait(&mut events, self.wait_at_most()) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(ServerError::events("wait for events")(errno)),
            };
            let events = &events[..count];
            if events.iter().any(|event| event.data() == STOP) {
                break;
            }
            if events.iter().any(|event| event.data() == LISTENER) {
                self.accept_phase()?;
            }
            self.work_phase(events);
            self.end_overdue();
            self.end_rest()?;
        }
        self.worker.statistics.cpu_ns = thread_cpu_ns().saturating_sub(cpu_before_ns);
        Ok(self.worker.statistics)
    }

    fn accept_phase(&mut self) -> Result<(), ServerError> {
        let mut accepted = 0;
        for index in 0..self.listeners.len() {
            while self.settings.accept_limit.wants_another(accepted) {
                match accept(&self.listeners[index]) {
                    Ok(stream) => {
                        accepted += 1;
                        self.admit(stream);
                    }
                    Err(Errno::EAGAIN) => break,
                    // The client took it back while it was queued.
                    Err(Errno::ECONNABORTED) => {
                        accepted += 1;
                        self.worker.statistics.accepted += 1;
                        self.worker.statistics.dead_connections += 1;
                    }
                    Err(Errno::EINTR) => {}
                    Err(_) => return self.start_rest(),
                }
            }
        }
        Ok(())
    }

    fn admit(&mut self, stream: TcpStream) {
        self.worker.statistics.accepted += 1;
        let deadline = Instant::now() + self.settings.patience;
        let token = self.connections.insert(Connection::new(stream, deadline));
        self.deadlines.push(Reverse((deadline, token)));
        let held = self.connections.held as u64;
        self.worker.statistics.connections_max = self.worker.statistics.connections_max.max(held);
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let interest = EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, token);
        if self.epoll.add(&connection.stream, interest).is_err() {
            self.worker.statistics.accept_failures += 1;
            self.end(token);
        }
    }

    fn work_phase(&mut self, events: &[EpollEvent]) {
        for token in std::mem::take(&mut self.turns) {
            if let Some(connection) = self.connections.get(token) {
                connection.turn_due = false;
                self.work(token, false);
            }
        }
        for event in events {
            if event.data() != LISTENER {
                let left = event.events().contains(EpollFlags::EPOLLRDHUP);
                self.work(event.data(), left);
            }
        }
    }

    fn work(&mut self, token: u64, client_left: bool) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let next = self.worker.turn(connection, client_left);
        match next {
            Next::Close => self.end(token),
            // It may have had both a turn due and an event: one more turn is enough.
            Next::Turn if connection.turn_due => {}
            Next::Turn => {
                connection.turn_due = true;
                self.turns.push(token);
            }
            Next::Read | Next::Write => self.watch(token, next),
            Next::Drain => self.drain(token),
        }
    }

    fn watch(&mut self, token: u64, next: Next) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        if connection.watched == next {
            return;
        }
        connection.watched = next;
        let flags = if next == Next::Write {
            EpollFlags::EPOLLOUT
        } else {
            EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP
        };
        let modified = self.epoll.modify(&connection.stream, &mut EpollEvent::new(flags, token));
        if modified.is_err() {
            self.end(token);
        }
    }

    fn drain(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        connection.start_draining();
        connection.deadline = Instant::now() + DRAIN_MAX.min(self.settings.patience);
        self.deadlines.push(Reverse((connection.deadline, token)));
        self.watch(token, Next::Read);
    }

    fn end(&mut self, token: u64) {
        if let Some(connection) = self.connections.remove(token)
            && !connection.answered
            && !connection.draining
        {
            self.worker.statistics.dead_connections += 1;
        }
    }

    fn end_overdue(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((entered, token))) = self.deadlines.peek() {
            if entered > now {
                break;
            }
            self.deadlines.pop();
            let Some(connection) = self.connections.get(token) else {
                continue;
            };
            if connection.deadline > now {
                self.deadlines.push(Reverse((connection.deadline, token)));
            } else {
                self.time_out(token);
            }
        }
    }

    fn time_out(&mut self, token: u64) {
        let Some(connection) = self.connections.get(token) else {
            return;
        };
        let idle = !connection.is_mid_request() && connection.reply.is_none();
        if !idle && !connection.draining {
            self.worker.statistics.timed_out += 1;
            if connection.reply.is_none() {
                // The connection is closed at once: whoever sends half a request gets half a word.
                let _ = Reply::refusing(Refusal::Halted).send(&connection.stream);
            }
        }
        self.end(token);
    }

    /// Without descriptors, a listener that stays readable would make the loop spin.
    fn start_rest(&mut self) -> Result<(), ServerError> {
        self.worker.statistics.accept_failures += 1;
        self.resting_until = Some(Instant::now() + ACCEPT_REST);
        for listener in &self.listeners {
            self.epoll.delete(listener).map_err(ServerError::events("rest from accepting"))?;
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

    fn watch_listeners(&self) -> Result<(), ServerError> {
        for listener in &self.listeners {
            self.epoll
                .add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))
                .map_err(ServerError::events("watch a listening socket"))?;
        }
        Ok(())
    }

    fn wait_at_most(&self) -> EpollTimeout {
        if !self.turns.is_empty() {
            return EpollTimeout::ZERO;
        }
        let deadline = self.deadlines.peek().map(|entry| entry.0.0);
        let Some(until) = deadline.into_iter().chain(self.resting_until).min() else {
            return EpollTimeout::NONE;
        };
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, lest the loop spin through the last fraction of a millisecond.
        EpollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
    }
}

fn accept(listener: &TcpListener) -> Result<TcpStream, Errno> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = accept4(listener.as_fd().as_raw_fd(), flags)?;
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}
