// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server, whichever: what all of them have, and how they are started.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::accept::Strategy;
use crate::board::Board;
use crate::content::Content;
use crate::error::ServerError;
use crate::knot::{KnotA, KnotC};
use crate::listen::Listeners;
use crate::settings::{ServerKind, Settings};
use crate::statistics::Statistics;
use crate::stop::{Stop, Stopper, StopsAll};
use crate::tux::Tux;
use crate::userver::Userver;
use crate::work::{Work, steps_per_us};
use crate::worker::Worker;

const SCRATCH_BYTES: usize = 64 * 1024;
/// A thread's stack, the one on which it takes signals, and a page that guards each.
const MAPPINGS_A_THREAD: u64 = 4;
/// The program's own, its libraries' and its memory's; they are some hundred.
const OTHER_MAPPINGS: u64 = 1000;
/// How long accepting rests when there are no descriptors.
pub(crate) const ACCEPT_REST: Duration = Duration::from_millis(10);

/// Phases may last a second: a look at the clock need not be paid for every connection.
const CLOCK_EVERY: u32 = 64;

/// The clock of a strategy.
#[derive(Debug)]
pub(crate) struct Clock {
    started: Instant,
    now_ns: u64,
    reads: u32,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { started: Instant::now(), now_ns: 0, reads: 0 }
    }

    /// Since it was made, in ns.
    pub(crate) fn now_ns(&mut self) -> u64 {
        if self.reads.is_multiple_of(CLOCK_EVERY) {
            self.now_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        }
        self.reads = self.reads.wrapping_add(1);
        self.now_ns
    }
}

/// What every server is made of. They differ in what they do with it.
#[derive(Debug)]
pub(crate) struct Parts {
    pub listeners: Listeners,
    pub stop: Arc<Stop>,
    pub worker: Worker,
    pub strategy: Strategy,
}

#[derive(Debug)]
enum Kind {
    Userver(Box<Userver>),
    KnotC(KnotC),
    KnotA(KnotA),
    Tux(Box<Tux>),
}

impl Kind {
    fn new(settings: &Settings, parts: Parts) -> Result<Self, ServerError> {
        let threads = settings.knot_threads();
        Ok(match settings.server {
            ServerKind::Userver => {
                Self::Userver(Box::new(Userver::new(parts, settings.events.unwrap_or_default())?))
            }
            ServerKind::KnotC => Self::KnotC(KnotC::new(parts, threads)),
            ServerKind::KnotA => Self::KnotA(KnotA::new(parts, threads)),
            ServerKind::Tux => Self::Tux(Box::new(Tux::new(parts, settings.in_kernel)?)),
        })
    }

    fn serve(self) -> Result<(), ServerError> {
        match self {
            Self::Userver(server) => server.serve(),
            Self::KnotC(server) => server.serve(),
            Self::KnotA(server) => server.serve(),
            Self::Tux(server) => server.serve(),
        }
    }
}

/// A server that listens. Connections queue up in the kernel until [`Server::run`].
#[derive(Debug)]
pub struct Server {
    workers: Vec<Kind>,
    addresses: Vec<SocketAddr>,
    stop: Arc<Stop>,
    board: Arc<Board>,
}

impl Server {
    /// Listens. The limit of this process's descriptors is raised as far as it may be.
    ///
    /// # Errors
    /// [`ServerError::EventsNotChosen`], [`ServerError::ThreadsNotChosen`],
    /// [`ServerError::ThreadsTooMany`], [`ServerError::NoAddress`], [`ServerError::Listen`] naming the
    /// address,
    /// [`ServerError::Root`] naming the root, [`ServerError::NoIoUring`],
    /// [`ServerError::InKernelNotFit`], [`ServerError::InKernel`].
    pub fn bind(settings: &Settings) -> Result<Self, ServerError> {
        settings.check()?;
        check_threads(settings.all_threads(), &mappings_most())?;
        raise_descriptor_limit();
        // Measured now, lest the first computed page wait for it.
        let steps_per_us = settings.steps_per_us.map_or_else(steps_per_us, NonZeroU64::get);
        let (stop, board) = (Arc::new(Stop::new()?), Arc::new(Board::default()));
        let content = Content::of(settings)?;
        let work = Work::costing(settings.cost_us, steps_per_us);
        let prototype = Worker::new(content, work, settings.patience, Arc::clone(&board));
        let reuse_port = settings.reuse_port || settings.workers.get() > 1;
        let mut addresses = settings.addresses.clone();
        let mut workers = Vec::new();
        for _ in 0..settings.workers.get() {
            let listeners = Listeners::on(&addresses, settings.backlog, reuse_port)?;
            // Where the kernel chose the port, the others are to have the same.
            addresses = listeners.addresses();
            let parts = Parts {
                listeners,
                stop: Arc::clone(&stop),
                worker: prototype.another(SCRATCH_BYTES),
                strategy: Strategy::new(settings.accept_limit),
            };
            workers.push(Kind::new(settings, parts)?);
        }
        Ok(Self { workers, addresses, stop, board })
    }

    /// The addresses listened on, ports filled in.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What ends it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.stop))
    }

    /// What tells how it does while it runs.
    #[must_use]
    pub fn observer(&self) -> Observer {
        Observer(Arc::clone(&self.board))
    }

    /// Serves until stopped, and says what happened.
    ///
    /// # Errors
    /// [`ServerError::Events`] when the kernel refuses to wait for events,
    /// [`ServerError::Thread`].
    pub fn run(self) -> Result<Statistics, ServerError> {
        let Self { workers, stop, board, .. } = self;
        board.start();
        let (board, stop) = (&board, &stop);
        let workers = workers.into_iter().map(|worker| (Builder::new(), worker));
        side_by_side(workers, stop, |worker| {
            let _clock = board.clock_thread();
            worker.serve()
        })?;
        Ok(board.look())
    }
}

/// Has each worker, or thread of a pool, serve in a thread of its own, until all have ended. None goes
/// on alone: where one cannot be started, fails or panics, the others are stopped.
pub(crate) fn side_by_side<W: Send>(
    workers: impl IntoIterator<Item = (Builder, W)>,
    stop: &Stop,
    serve: impl Fn(W) -> Result<(), ServerError> + Sync,
) -> Result<(), ServerError> {
    let serve = &serve;
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, (builder, worker)) in (1..).zip(workers) {
            let thread = builder.spawn_scoped(scope, move || {
                let _ending = StopsAll(stop);
                serve(worker)
            });
            match thread {
                Ok(thread) => running.push(thread),
                Err(source) => {
                    stop.stop();
                    return Err(ServerError::Thread { number, source });
                }
            }
        }
        // The first to fail tells why; a panic goes on as one.
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// Tells how a server does, from any thread.
#[derive(Clone, Debug)]
pub struct Observer(Arc<Board>);

impl Observer {
    /// What happened until now.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.look()
    }
}

/// A connection is a descriptor, and most systems allow 1,024 until they are asked for more.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it the server serves fewer at a time, and says how often accepting failed.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// What the kernel lets a process map.
fn mappings_most() -> String {
    std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default()
}

/// The standard library ends the process where a thread has no room for the second of its stacks.
fn check_threads(threads: u64, mappings_most: &str) -> Result<(), ServerError> {
    let Ok(mappings_most) = mappings_most.trim().parse::<u64>() else { return Ok(()) };
    let most = mappings_most.saturating_sub(OTHER_MAPPINGS) / MAPPINGS_A_THREAD;
    if threads > most {
        let mappings = OTHER_MAPPINGS.saturating_add(threads.saturating_mul(MAPPINGS_A_THREAD));
        return Err(ServerError::ThreadsTooMany { threads, most, mappings });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);
    /// More than any address space has.
    const TOO_LARGE: usize = 1 << 56;

    /// Serves until it is told to stop, which is to be soon.
    fn goes_on(stop: &Stop) -> Result<(), ServerError> {
        let begun = Instant::now();
        while !stop.is_over() {
            assert!(begun.elapsed() < LONGEST, "nobody has stopped it");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    #[test]
    fn a_worker_that_cannot_be_started_leaves_no_other_running() {
        let stop = Stop::new().unwrap();
        let builders = [Builder::new(), Builder::new(), Builder::new().stack_size(TOO_LARGE)];
        let workers = builders.into_iter().map(|builder| (builder, ()));
        let error = side_by_side(workers, &stop, |()| goes_on(&stop)).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("cannot start thread 3: "), "{told}");
        assert!(told.contains("fewer workers") && told.lines().count() == 1, "{told}");
    }

    /// 65,530 mappings, which kernels allow, were used up by 16,900 threads, and the server was gone.
    #[test]
    fn more_threads_than_the_kernel_maps_stacks_for_are_refused() {
        assert!(check_threads(16_000, "65530\n").is_ok());
        let told = check_threads(16_900, "65530\n").unwrap_err().to_string();
        assert!(told.starts_with("16900 threads are more than"), "{told}");
        assert!(told.contains("at most 16132, or set that sysctl to 68600"), "{told}");
        assert!(check_threads(16_900, "68600\n").is_ok());
        assert!(check_threads(16_900, "").is_ok(), "what the kernel does not tell is no limit");

        let workers = NonZeroU32::new(u32::MAX).unwrap();
        let knot = Settings { server: ServerKind::KnotA, workers, ..Settings::default() };
        let error = Server::bind(&knot).unwrap_err();
        assert!(matches!(error, ServerError::ThreadsTooMany { .. }), "{error}");
        let error = Server::bind(&Settings { server: ServerKind::Tux, ..knot }).unwrap_err();
        assert!(matches!(error, ServerError::NoAddress), "{error}");
    }

    #[test]
    fn a_worker_that_panics_stops_the_others() {
        let stop = Stop::new().unwrap();
        let workers = [false, true, false].map(|panics| (Builder::new(), panics));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            side_by_side(workers, &stop, |panics| {
                assert!(!panics, "as it is to");
                goes_on(&stop)
            })
        }));
        let panic = ended.unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"as it is to"), "the first that was heard");
    }
}
