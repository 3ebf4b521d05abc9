// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a server's threads post what they counted, for whoever looks.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use nix::libc;
use nix::time::{ClockId, clock_gettime};

use crate::statistics::Statistics;

/// The counts of all threads of a server. Each posts its own after every phase or two, so that a
/// look at a running server needs no answer from it.
#[derive(Debug, Default)]
pub(crate) struct Board {
    started: OnceLock<Instant>,
    counts: Mutex<Statistics>,
    held: AtomicU64,
    held_max: AtomicU64,
    /// The processor clocks of the threads that run, and what they showed at first, in ns.
    clocks: Mutex<HashMap<ThreadId, (libc::clockid_t, u64)>>,
}

impl Board {
    /// Starts the time that rates are over.
    pub(crate) fn start(&self) {
        self.started.get_or_init(Instant::now);
    }

    /// Adds a thread's counts, and leaves it none.
    pub(crate) fn post(&self, counts: &mut Statistics) {
        lock(&self.counts).add(counts);
        *counts = Statistics::default();
    }

    /// A connection is held.
    pub(crate) fn holds(&self) {
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        if held > self.held_max.load(Ordering::Relaxed) {
            self.held_max.fetch_max(held, Ordering::Relaxed);
        }
    }

    /// A connection is let go.
    pub(crate) fn lets_go(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts the calling thread's processor time until the guard is dropped, by the same thread.
    pub(crate) fn clock_thread(&self) -> ThreadClock<'_> {
        let mut clock = 0;
        // SAFETY: the thread that is asked about is the calling one, and `clock` is written only.
        let failed = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        if failed == 0 {
            lock(&self.clocks).insert(std::thread::current().id(), (clock, clock_ns(clock)));
        }
        ThreadClock(self)
    }

    /// Everything until now.
    pub(crate) fn look(&self) -> Statistics {
        let mut statistics = *lock(&self.counts);
        statistics.connections_max = self.held_max.load(Ordering::Relaxed);
        statistics.cpu_ns += lock(&self.clocks).values().map(used_ns).sum::<u64>();
        let elapsed = self.started.get().map_or(0, |started| started.elapsed().as_nanos());
        statistics.elapsed_ns = u64::try_from(elapsed).unwrap_or(u64::MAX);
        statistics
    }
}

/// Counts a thread's processor time while it lives.
pub(crate) struct ThreadClock<'a>(&'a Board);

impl Drop for ThreadClock<'_> {
    fn drop(&mut self) {
        let clock = lock(&self.0.clocks).remove(&std::thread::current().id());
        lock(&self.0.counts).cpu_ns += clock.as_ref().map_or(0, used_ns);
    }
}

fn used_ns(&(clock, first_ns): &(libc::clockid_t, u64)) -> u64 {
    clock_ns(clock).saturating_sub(first_ns)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    // A thread that has just ended has no clock any more; its time is posted a moment later.
    clock_gettime(ClockId::from_raw(clock))
        .map_or(0, |now| now.tv_sec().unsigned_abs() * 1_000_000_000 + now.tv_nsec().unsigned_abs())
}

/// A thread that panicked has left counts that are as good as any.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_posted_is_seen() {
        let board = Board::default();
        board.start();
        let mut counts = Statistics { accepted: 2, ..Statistics::default() };
        board.post(&mut counts);
        assert_eq!(counts, Statistics::default());
        for _ in 0..3 {
            board.holds();
        }
        board.lets_go();
        board.holds();
        board.post(&mut Statistics { accepted: 1, ..Statistics::default() });
        let seen = board.look();
        assert_eq!((seen.accepted, seen.connections_max), (3, 3));
        assert!(seen.elapsed_ns > 0);
    }

    #[test]
    fn processor_time_is_seen_while_a_thread_runs_and_afterwards() {
        let board = Board::default();
        let during = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _clock = board.clock_thread();
                let mut work = crate::work::Work::costing(0, 300);
                work.burn(1000);
                board.look().cpu_ns
            });
            thread.join().unwrap()
        });
        assert!(during > 0);
        assert!(board.look().cpu_ns >= during);
    }
}
