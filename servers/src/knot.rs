// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server of threads (Pariag 3.1.2).
//!
//! - *It learns of work* by trying: a thread reads and writes until it would block, and then polls
//!   its own connections.
//! - *It accepts* as each thread is free: in Knot-C a thread of a fixed pool accepts up to its limit
//!   and finishes all of them before it accepts again; in Knot-A one thread accepts, and gives each
//!   connection a thread of its own.

mod batch;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, Scope};
use std::time::Duration;

use crate::accept::{Phase, Queues, Strategy};
use crate::error::ServerError;
use crate::listen::{Accepted, Listeners};
use crate::server::{ACCEPT_REST, Clock, Parts, side_by_side};
use crate::stop::{Stop, StopsAll};
use crate::worker::Worker;
use batch::{Batch, Waited, wait_for_listeners};

/// Of address space; a thread touches a few pages of it.
const STACK_BYTES: usize = 256 * 1024;
/// There are many threads: what one reads at a time is less than an event loop's.
const SCRATCH_BYTES: usize = 16 * 1024;
/// How long the acceptor waits for a connection to end before it asks its strategy again.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Knot-C: a fixed pool of threads.
#[derive(Debug)]
pub(crate) struct KnotC {
    parts: Parts,
    threads: u32,
}

impl KnotC {
    pub(crate) fn new(parts: Parts, threads: u32) -> Self {
        Self { parts, threads }
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// [`ServerError::Thread`], [`ServerError::Events`].
    pub(crate) fn serve(self) -> Result<(), ServerError> {
        let Self { parts: Parts { listeners, stop, worker, strategy }, threads } = self;
        let door = Mutex::new(listeners);
        let pool = (0..threads).map(|_| {
            let thread = PoolThread {
                door: &door,
                stop: &stop,
                batch: Batch::new(worker.another(SCRATCH_BYTES)),
                strategy: strategy.clone(),
                clock: Clock::new(),
                threads,
            };
            (builder(), thread)
        });
        side_by_side(pool, &stop, PoolThread::run)
    }
}

fn builder() -> Builder {
    Builder::new().name("knot".to_owned()).stack_size(STACK_BYTES)
}

/// A thread of the pool.
struct PoolThread<'a> {
    /// One thread at a time accepts; the others wait for their turn.
    door: &'a Mutex<Listeners>,
    stop: &'a Stop,
    batch: Batch,
    strategy: Strategy,
    clock: Clock,
    /// In the pool.
    threads: u32,
}

impl PoolThread<'_> {
    fn run(mut self) -> Result<(), ServerError> {
        let board = Arc::clone(&self.batch.worker.board);
        let _clock = board.clock_thread();
        let done = self.serve();
        self.batch.worker.post();
        done
    }

    fn serve(&mut self) -> Result<(), ServerError> {
        loop {
            self.accept_phase()?;
            // Before the work, which may take long: whoever looks should see who was accepted.
            self.batch.worker.post();
            if self.stop.is_over() {
                return Ok(());
            }
            for _ in 0..self.batch.finish(self.stop)? {
                self.strategy.closed();
            }
            self.batch.worker.post();
        }
    }

    /// Accepts at least one connection, and others as long as there are and the limit allows.
    fn accept_phase(&mut self) -> Result<(), ServerError> {
        let mut door = lock(self.door);
        self.batch.worker.statistics.accept_phases += 1;
        while self.batch.is_empty() && !self.stop.is_over() {
            let listen = if self.strategy.looks_at_queues() { door.waiting() } else { None };
            // The others are to have theirs of those who wait.
            let share = listen.map(|waiting| waiting.div_ceil(self.threads));
            let queues = Queues { listen: share, work: 0 };
            self.strategy.began(Phase::Accept, queues, self.clock.now_ns());
            while self.strategy.accept_now(queues, self.clock.now_ns()) > 0 {
                match door.accept() {
                    Accepted::Connection(stream) => {
                        self.batch.admit(stream);
                        self.strategy.accepted(self.clock.now_ns());
                    }
                    Accepted::Dead => {
                        self.batch.worker.found_dead();
                        self.strategy.accepted(self.clock.now_ns());
                    }
                    Accepted::Nobody => self.strategy.ran_dry(),
                    Accepted::NoRoom => {
                        self.batch.worker.statistics.accept_failures += 1;
                        rest(self.stop)?;
                        break;
                    }
                }
            }
            if self.batch.is_empty() {
                self.strategy.idle();
                self.batch.worker.post();
                let waited = wait_for_listeners(&door, self.stop, None)?;
                count(&mut self.batch.worker, waited);
            }
        }
        Ok(())
    }
}

/// Knot-A: a thread for each connection.
#[derive(Debug)]
pub(crate) struct KnotA {
    parts: Parts,
    threads: u32,
}

impl KnotA {
    pub(crate) fn new(parts: Parts, threads: u32) -> Self {
        Self { parts, threads }
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// [`ServerError::Events`].
    pub(crate) fn serve(self) -> Result<(), ServerError> {
        let Self { parts: Parts { listeners, stop, worker, strategy }, threads } = self;
        let places = Places::new(threads);
        let clock = Clock::new();
        let mut acceptor =
            Acceptor { listeners, stop: &stop, worker, strategy, places: &places, clock };
        std::thread::scope(|scope| {
            let _ending = StopsAll(&stop);
            acceptor.serve(scope)
        })?;
        acceptor.worker.post();
        Ok(())
    }
}

/// The threads that there may still be.
#[derive(Debug)]
struct Places {
    free: Mutex<u32>,
    freed: Condvar,
    /// Connections that have ended and that the acceptor has not heard of.
    ended: AtomicU32,
}

impl Places {
    fn new(threads: u32) -> Self {
        Self { free: Mutex::new(threads), freed: Condvar::new(), ended: AtomicU32::new(0) }
    }

    fn free(&self) -> u32 {
        *lock(&self.free)
    }

    fn take(&self) {
        *lock(&self.free) -= 1;
    }

    fn give_back(&self) {
        *lock(&self.free) += 1;
        self.freed.notify_one();
    }

    /// Waits until one more is given back, or a little while.
    fn wait(&self) {
        let free = lock(&self.free);
        let before = *free;
        let waiting = self.freed.wait_timeout_while(free, LOOK_AGAIN, |free| *free <= before);
        drop(waiting.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Gives its place back when its thread ends, however it ends.
struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

struct Acceptor<'a> {
    listeners: Listeners,
    stop: &'a Stop,
    worker: Worker,
    strategy: Strategy,
    places: &'a Places,
    clock: Clock,
}

impl<'a> Acceptor<'a> {
    fn serve<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>) -> Result<(), ServerError>
    where
        'a: 'scope,
    {
        while !self.stop.is_over() {
            if self.places.free() == 0 {
                self.places.wait();
                continue;
            }
            self.accept_phase(scope)?;
            self.worker.post();
        }
        Ok(())
    }

    fn accept_phase<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>) -> Result<(), ServerError>
    where
        'a: 'scope,
    {
        self.worker.statistics.accept_phases += 1;
        // Before anyone is accepted in it: the threads post that on their own.
        self.worker.post();
        for _ in 0..self.places.ended.swap(0, Ordering::Relaxed) {
            self.strategy.closed();
        }
        let mut free = self.places.free();
        // Each connection has a thread, and whether that can go on is the scheduler's to know.
        let queues = Queues { listen: None, work: 1 };
        self.strategy.began(Phase::Accept, queues, self.clock.now_ns());
        let mut is_stuck = true;
        while free > 0 && self.strategy.accept_now(queues, self.clock.now_ns()) > 0 {
            match self.listeners.accept() {
                Accepted::Connection(stream) => {
                    self.strategy.accepted(self.clock.now_ns());
                    let mut batch = Batch::new(self.worker.another(SCRATCH_BYTES));
                    batch.admit(stream);
                    self.start(scope, batch);
                    free -= 1;
                }
                Accepted::Dead => {
                    self.worker.found_dead();
                    self.strategy.accepted(self.clock.now_ns());
                }
                Accepted::Nobody => {
                    self.strategy.ran_dry();
                    if is_stuck {
                        self.strategy.idle();
                        let waited = wait_for_listeners(&self.listeners, self.stop, None)?;
                        count(&mut self.worker, waited);
                    }
                }
                Accepted::NoRoom => {
                    self.worker.statistics.accept_failures += 1;
                    return rest(self.stop);
                }
            }
            is_stuck = false;
        }
        if is_stuck {
            // It is saturated, and nobody has left.
            self.places.wait();
        }
        Ok(())
    }

    /// Gives connections a thread. Without one they are closed.
    fn start<'scope>(&mut self, scope: &'scope Scope<'scope, 'a>, mut batch: Batch)
    where
        'a: 'scope,
    {
        self.places.take();
        let (place, stop) = (Place(self.places), self.stop);
        batch.worker.post();
        let thread = builder().spawn_scoped(scope, move || {
            let board = Arc::clone(&batch.worker.board);
            let _clock = board.clock_thread();
            // Only poll can fail, for want of memory: then the connection is closed.
            if let Ok(ended) = batch.finish(stop) {
                place.0.ended.fetch_add(ended, Ordering::Relaxed);
            }
            batch.worker.post();
            drop(place);
        });
        if thread.is_err() {
            self.worker.statistics.accept_failures += 1;
            self.worker.board.lets_go();
        }
    }
}

fn count(worker: &mut Worker, waited: Waited) {
    worker.statistics.event_calls += 1;
    worker.statistics.fds_told += waited.told;
}

/// Without descriptors there is nobody to accept for a while.
fn rest(stop: &Stop) -> Result<(), ServerError> {
    batch::wait_for(&mut [batch::entry(stop)], Some(ACCEPT_REST)).map(drop)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
