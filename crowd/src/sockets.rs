// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives a crowd over non-blocking kernel sockets, in one thread.

use std::collections::VecDeque;
use std::iter::Peekable;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;

use crate::arrivals::Arrivals;
use crate::attempt::{Attempt, End};
use crate::error::CrowdError;
use crate::limits::{allow_descriptors, wake_punctually};
use crate::outcome::{Outcome, Tally};
use crate::plan::{Load, Plan};

const EVENTS_MAX: usize = 512;
const SCRATCH_BYTES: usize = 64 * 1024;
/// Starts made before looking for replies again: a burst must not make replies look slow.
const STARTS_PER_TURN: usize = 32;

/// Sends a crowd from the calling thread's network namespace and says what became of it.
///
/// It returns when the load and every attempt that counts have ended, at most a
/// [`Plan::timeout`] after the load. Attempts of the cool-down may be cut short then.
///
/// # Errors
/// What [`Plan::check`] finds, or [`CrowdError::Events`].
pub fn run(plan: &Plan) -> Result<Outcome, CrowdError> {
    plan.check()?;
    allow_descriptors(plan.descriptors_needed());
    wake_punctually();
    let mut crowd = Crowd::gather(plan)?;
    crowd.drive()?;
    Ok(crowd.tally.outcome(plan.duration.as_secs_f64(), plan.seed))
}

struct Crowd<'a> {
    plan: &'a Plan,
    schedule: Schedule,
    ways: Ways,
    request: Vec<u8>,
    epoll: Epoll,
    attempts: Attempts,
    /// Patience is the same for all, so the first to start is the first to give up.
    deadlines: VecDeque<(u64, u64)>,
    counted_from_ns: u64,
    counted_to_ns: u64,
    begun: Instant,
    tally: Tally,
}

impl<'a> Crowd<'a> {
    fn gather(plan: &'a Plan) -> Result<Self, CrowdError> {
        let counted_from_ns = ns(plan.warm_up);
        Ok(Self {
            plan,
            schedule: Schedule::of(plan),
            ways: Ways::of(plan),
            request: request(plan),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
                .map_err(CrowdError::events("create an epoll instance"))?,
            attempts: Attempts::default(),
            deadlines: VecDeque::new(),
            counted_from_ns,
            counted_to_ns: counted_from_ns + ns(plan.duration),
            begun: Instant::now(),
            tally: Tally::new(),
        })
    }

    fn drive(&mut self) -> Result<(), CrowdError> {
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        let mut scratch = vec![0; SCRATCH_BYTES];
        self.begun = Instant::now();
        loop {
            self.start_due();
            self.give_up_overdue();
            if self.schedule.is_over() && self.attempts.counting == 0 {
                return Ok(());
            }
            self.wait()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(errno) => return Err(CrowdError::events("wait for events")(errno)),
            };
            for event in &events[..count] {
                self.proceed(*event, &mut scratch);
            }
        }
    }

    fn start_due(&mut self) {
        for _ in 0..STARTS_PER_TURN {
            let now_ns = self.now_ns();
            if self.gives_up_starting(now_ns) {
                return;
            }
            let under_way = self.attempts.under_way;
            let Some(intended_ns) = self.schedule.take_due(now_ns, under_way) else {
                return;
            };
            self.start(intended_ns, now_ns);
        }
    }

    /// A generator hopelessly behind must end all the same; what it left out is in the outcome.
    fn gives_up_starting(&mut self, now_ns: u64) -> bool {
        let hopeless = now_ns > ns(self.plan.whole()) + ns(self.plan.timeout);
        if hopeless {
            let counted = self.counted_from_ns..self.counted_to_ns;
            let left_out = self.schedule.abandon();
            let count = left_out.filter(|start_ns| counted.contains(start_ns)).count();
            self.tally.not_started(count as u64);
        }
        hopeless
    }

    fn start(&mut self, intended_ns: u64, now_ns: u64) {
        let counts = (self.counted_from_ns..self.counted_to_ns).contains(&intended_ns);
        if counts {
            self.tally.started(now_ns.saturating_sub(intended_ns));
        }
        let (source, target) = self.ways.next();
        let deadline_ns = now_ns + ns(self.plan.timeout);
        let close = self.plan.close;
        match Attempt::start(source, target, close, intended_ns, deadline_ns, counts) {
            Err(end) => self.count(end, intended_ns, counts),
            Ok(attempt) => self.watch(attempt),
        }
    }

    fn watch(&mut self, attempt: Attempt) {
        let deadline_ns = attempt.deadline_ns;
        let token = self.attempts.insert(attempt);
        self.deadlines.push_back((deadline_ns, token));
        let under_way = self.attempts.under_way as u64;
        self.tally.in_flight_max = self.tally.in_flight_max.max(under_way);
        // By edges, one call lasts for the attempt's whole life.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let attempt = self.attempts.get(token).expect("inserted just above");
        let added = self.epoll.add(&attempt.socket, EpollEvent::new(flags, token));
        if let Err(errno) = added {
            self.end(token, End::Other(errno as i32));
        }
    }

    fn proceed(&mut self, event: EpollEvent, scratch: &mut [u8]) {
        let token = event.data();
        let Some(attempt) = self.attempts.get(token) else {
            return;
        };
        let readable = event.events() != EpollFlags::EPOLLOUT;
        if let Some(end) = attempt.proceed(&self.request, readable, scratch) {
            self.end(token, end);
        }
    }

    fn give_up_overdue(&mut self) {
        while let Some(&(deadline_ns, token)) = self.deadlines.front() {
            if deadline_ns > self.now_ns() {
                return;
            }
            self.deadlines.pop_front();
            if let Some(attempt) = self.attempts.get(token) {
                let end = attempt.given_up();
                self.end(token, end);
            }
        }
    }

    fn end(&mut self, token: u64, end: End) {
        if let Some(attempt) = self.attempts.remove(token) {
            self.count(end, attempt.intended_ns, attempt.counts);
        }
    }

    fn count(&mut self, end: End, intended_ns: u64, counts: bool) {
        let now_ns = self.now_ns();
        if end == End::Replied && (self.counted_from_ns..self.counted_to_ns).contains(&now_ns) {
            self.tally.replies_in_time += 1;
        }
        if counts {
            self.tally.ended(end, now_ns.saturating_sub(intended_ns));
        }
    }

    /// Waits for the next start, the next deadline or an event. `epoll_wait` counts in whole
    /// milliseconds, too coarse for a schedule, so the descriptor itself is polled.
    fn wait(&mut self) -> Result<(), CrowdError> {
        let start_ns = self.schedule.next_ns(self.attempts.under_way);
        let deadline_ns = self.deadlines.front().map(|(deadline_ns, _)| *deadline_ns);
        let until_ns = start_ns.into_iter().chain(deadline_ns).min();
        let left = until_ns.map(|until| Duration::from_nanos(until.saturating_sub(self.now_ns())));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let mut descriptors = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut descriptors, left.map(TimeSpec::from_duration), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(CrowdError::events("wait for the next start")(errno)),
        }
    }

    fn now_ns(&self) -> u64 {
        ns(self.begun.elapsed())
    }
}

/// When the next attempt is due.
enum Schedule {
    Open { starts: Peekable<Box<dyn Iterator<Item = u64>>> },
    Closed { clients: usize, end_ns: u64, over: bool },
}

impl Schedule {
    fn of(plan: &Plan) -> Self {
        let end_ns = ns(plan.whole());
        let arrivals = match plan.load {
            Load::Constant { per_s } => Arrivals::constant(per_s),
            Load::Poisson { per_s } => Arrivals::poisson(per_s, plan.seed),
            Load::Closed { clients } => {
                return Self::Closed { clients, end_ns, over: false };
            }
        };
        let starts: Box<dyn Iterator<Item = u64>> =
            Box::new(arrivals.take_while(move |start_ns| *start_ns < end_ns));
        Self::Open { starts: starts.peekable() }
    }

    /// The intended time of a start that is due.
    fn take_due(&mut self, now_ns: u64, under_way: usize) -> Option<u64> {
        match self {
            Self::Open { starts } => starts.next_if(|start_ns| *start_ns <= now_ns),
            Self::Closed { clients, end_ns, over } => {
                *over |= now_ns >= *end_ns;
                (!*over && under_way < *clients).then_some(now_ns)
            }
        }
    }

    /// When to look again, if anything is left to start.
    fn next_ns(&mut self, under_way: usize) -> Option<u64> {
        match self {
            Self::Open { starts } => starts.peek().copied(),
            Self::Closed { over: true, .. } => None,
            Self::Closed { clients, end_ns, .. } => {
                Some(if under_way < *clients { 0 } else { *end_ns })
            }
        }
    }

    fn is_over(&mut self) -> bool {
        match self {
            Self::Open { starts } => starts.peek().is_none(),
            Self::Closed { over, .. } => *over,
        }
    }

    /// What is left to start, none of which will be.
    fn abandon(&mut self) -> impl Iterator<Item = u64> + use<> {
        let over = Self::Closed { clients: 0, end_ns: 0, over: true };
        match std::mem::replace(self, over) {
            Self::Open { starts } => Some(starts).into_iter().flatten(),
            Self::Closed { .. } => None.into_iter().flatten(),
        }
    }
}

/// Pairs of source and target, taken in turn.
struct Ways {
    pairs: Vec<(Option<IpAddr>, SocketAddr)>,
    next: usize,
}

impl Ways {
    fn of(plan: &Plan) -> Self {
        let mut pairs = Vec::new();
        // Targets alternate faster than sources.
        let rounds = plan.sources.len().max(1);
        for round in 0..rounds {
            for &target in &plan.targets {
                let sources: Vec<IpAddr> = plan.sources_for(target).collect();
                let source = (!sources.is_empty()).then(|| sources[round % sources.len()]);
                pairs.push((source, target));
            }
        }
        Self { pairs, next: 0 }
    }

    fn next(&mut self) -> (Option<IpAddr>, SocketAddr) {
        let pair = self.pairs[self.next];
        self.next = (self.next + 1) % self.pairs.len();
        pair
    }
}

/// Attempts by token. A token is never used twice, so a late event finds nobody.
#[derive(Default)]
struct Attempts {
    places: Vec<(u32, Option<Attempt>)>,
    free: Vec<u32>,
    under_way: usize,
    /// Those under way that count.
    counting: usize,
}

impl Attempts {
    fn insert(&mut self, attempt: Attempt) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("fewer descriptors than 2^32")
        });
        self.under_way += 1;
        self.counting += usize::from(attempt.counts);
        let place = &mut self.places[index as usize];
        place.0 = place.0.wrapping_add(1);
        place.1 = Some(attempt);
        u64::from(place.0) << 32 | u64::from(index)
    }

    fn get(&mut self, token: u64) -> Option<&mut Attempt> {
        let (generation, index) = ((token >> 32) as u32, token as u32 as usize);
        match self.places.get_mut(index) {
            Some((current, attempt)) if *current == generation => attempt.as_mut(),
            _ => None,
        }
    }

    fn remove(&mut self, token: u64) -> Option<Attempt> {
        let counts = self.get(token)?.counts;
        let index = token as u32;
        self.free.push(index);
        self.under_way -= 1;
        self.counting -= usize::from(counts);
        self.places[index as usize].1.take()
    }
}

/// The same for every attempt. It does not ask the server to close: as in a browser, that is the
/// client's part.
fn request(plan: &Plan) -> Vec<u8> {
    format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidelab-crowd\r\n\r\n",
        plan.path, plan.targets[0]
    )
    .into_bytes()
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
