// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives a crowd over non-blocking kernel sockets, in one thread.

mod attempts;
mod leaving;
mod visits;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;

use rand_chacha::ChaCha8Rng;
use tidegate_client::{End, Os, Outcome, Progress, Requests, Tally, Turn, geometric};

use crate::attempt::{Attempt, Errand, New};
use crate::carrier::Carrier;
use crate::class::{Class, Classes, each_at_each, host};
use crate::error::CrowdError;
use crate::limits::{allow_descriptors, wake_punctually};
use crate::plan::{Plan, ns};
use crate::progress::Meter;
use crate::schedule::Schedule;
use crate::sources::Sources;
use crate::visits::{ALONE, Home, Visits};
use attempts::Attempts;
use leaving::Leaving;

const EVENTS_MAX: usize = 512;
const SCRATCH_BYTES: usize = 64 * 1024;
/// Starts made before looking for replies again: a burst must not make replies look slow.
const STARTS_PER_TURN: usize = 32;

/// Sends a crowd over kernel sockets.
pub(crate) fn run(
    plan: &Plan,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(Progress),
) -> Result<Outcome, CrowdError> {
    check(plan)?;
    allow_descriptors(plan.descriptors_needed());
    wake_punctually();
    let mut crowd = Crowd::gather(plan, watch)?;
    crowd.drive(stop)?;
    let outcome = crowd.tally.outcome(plan.seed);
    Ok(Outcome { driver: Carrier::Sockets.to_string(), ..outcome })
}

struct Crowd<'a> {
    plan: &'a Plan,
    schedule: Schedule,
    ways: Ways,
    classes: Classes,
    errands: Vec<Errand>,
    chance: ChaCha8Rng,
    epoll: Epoll,
    attempts: Attempts,
    leaving: Leaving,
    /// By class. Patience is the same within one, so the first to start is the first to give up.
    deadlines: Vec<VecDeque<(u64, u64)>>,
    begun: Instant,
    turn: Turn,
    visits: Visits,
    tally: Tally,
    meter: Meter<'a>,
}

impl<'a> Crowd<'a> {
    fn gather(plan: &'a Plan, watch: &'a mut dyn FnMut(Progress)) -> Result<Self, CrowdError> {
        let counted_from_ns = ns(plan.warm_up);
        let counted_ns = counted_from_ns..counted_from_ns + ns(plan.duration);
        Ok(Self {
            plan,
            schedule: Schedule::of(plan),
            ways: Ways::of(plan),
            classes: Classes::of(plan),
            errands: each_at_each(plan, errand),
            chance: plan.chance(),
            epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
                .map_err(CrowdError::events("create an epoll instance"))?,
            attempts: Attempts::default(),
            leaving: Leaving::default(),
            deadlines: vec![VecDeque::new(); plan.classes.len()],
            begun: Instant::now(),
            turn: Turn::default(),
            visits: Visits::new(counted_ns.clone(), ns(plan.whole()), 0),
            meter: Meter::new(watch),
            tally: Tally::new(counted_ns),
        })
    }

    fn drive(&mut self, stop: &AtomicBool) -> Result<(), CrowdError> {
        let mut events = vec![EpollEvent::empty(); EVENTS_MAX];
        let mut scratch = vec![0; SCRATCH_BYTES];
        self.begun = Instant::now();
        self.meter.begin(self.now_ns());
        loop {
            self.start_due();
            self.give_up_overdue();
            self.wake_visits();
            self.meter.look(self.now_ns(), self.attempts.under_way as u64);
            if self.schedule.is_over() && self.attempts.counting + self.visits.counting == 0 {
                return Ok(());
            }
            if stop.load(Ordering::Relaxed) {
                return Err(CrowdError::Stopped);
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
            let at_work = self.at_work();
            let Some(intended_ns) = self.schedule.take_due(now_ns, at_work) else {
                return;
            };
            self.start(intended_ns, now_ns);
        }
    }

    /// A generator hopelessly behind must end all the same; what it left out is in the outcome.
    fn gives_up_starting(&mut self, now_ns: u64) -> bool {
        let hopeless = now_ns > ns(self.plan.whole()) + ns(self.plan.longest_timeout());
        if hopeless {
            for start_ns in self.schedule.abandon() {
                self.tally.not_started(start_ns);
            }
        }
        hopeless
    }

    /// Clients at work: those with one attempt, and those who visit pages.
    fn at_work(&self) -> usize {
        self.attempts.under_way - self.visits.connections + self.visits.clients()
    }

    /// Someone comes: with one attempt to make, or to visit pages.
    fn start(&mut self, intended_ns: u64, now_ns: u64) {
        let (target, address) = self.ways.next();
        let class = self.classes.draw(&mut self.chance);
        let home = Home { class, target, address, delay_ns: 0 };
        let errand = class * self.ways.each.len() + target;
        if self.errands[errand].objects.is_some() {
            return self.come(home, intended_ns, now_ns);
        }
        let count = geometric(self.plan.classes[class].requests, &mut self.chance);
        let new = New {
            errand,
            first: self.turn.take(count),
            count,
            intended_ns,
            counts: self.tally.counts(intended_ns),
            visit: ALONE,
        };
        // What kept it from starting is counted.
        if let Err(end) = self.open(&home, new, now_ns) {
            self.schedule.failed_at_once(end, now_ns);
        }
    }

    /// Starts an attempt and returns its token, or its end already.
    fn open(&mut self, home: &Home, new: New, now_ns: u64) -> Result<u64, End> {
        self.tally.started(new.intended_ns, now_ns);
        self.meter.started();
        let class = &self.plan.classes[home.class];
        let target = self.plan.targets[home.target];
        let started = Attempt::start(home.address, target, class.close, new);
        let attempt = started.inspect_err(|end| self.count(*end, new.intended_ns))?;
        let token = self.attempts.insert(attempt);
        self.deadlines[home.class].push_back((now_ns + ns(class.timeout), token));
        self.tally.in_flight(self.attempts.under_way as u64);
        self.watch(token).inspect_err(|end| {
            self.finish(token, *end);
        })?;
        Ok(token)
    }

    fn watch(&mut self, token: u64) -> Result<(), End> {
        // By edges, one call lasts for the attempt's whole life.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let Some(attempt) = self.attempts.get(token) else { return Ok(()) };
        let added = self.epoll.add(&attempt.socket, EpollEvent::new(flags, token));
        added.map_err(|errno| End::Other(errno as i32))
    }

    fn proceed(&mut self, event: EpollEvent, scratch: &mut [u8]) {
        let token = event.data();
        let Some(attempt) = self.attempts.get(token) else {
            return self.leaving.heard(token);
        };
        let readable = event.events() != EpollFlags::EPOLLOUT;
        let end = attempt.proceed(&self.errands[attempt.errand()], readable, scratch);
        let (visit, is_connected) = (attempt.new.visit, attempt.is_connected());
        match end {
            Some(end) => self.end(token, end),
            None if visit != ALONE && is_connected => self.tell(visit, token, true, None),
            None => {}
        }
    }

    fn give_up_overdue(&mut self) {
        for class in 0..self.deadlines.len() {
            while let Some(&(deadline_ns, token)) = self.deadlines[class].front() {
                if deadline_ns > self.now_ns() {
                    break;
                }
                self.deadlines[class].pop_front();
                self.leaving.forget(token);
                if let Some(attempt) = self.attempts.get(token) {
                    let end = attempt.given_up();
                    self.end(token, end);
                }
            }
        }
    }

    fn end(&mut self, token: u64, end: End) {
        if let Some((visit, is_connected)) = self.finish(token, end)
            && visit != ALONE
        {
            self.tell(visit, token, is_connected, Some(end));
        }
    }

    /// Counts an attempt and forgets it; its visit, and whether it was connected.
    fn finish(&mut self, token: u64, end: End) -> Option<(u32, bool)> {
        let attempt = self.attempts.remove(token)?;
        self.tally.answered(attempt.answered, self.now_ns());
        self.count(end, attempt.new.intended_ns);
        let told = (attempt.new.visit, attempt.is_connected());
        if end == End::Replied {
            self.leaving.leave(token, attempt.socket, &self.errands[attempt.new.errand]);
        }
        Some(told)
    }

    fn count(&mut self, end: End, intended_ns: u64) {
        // The kernel does not tell how many SYNs it sent.
        self.tally.ended(end, intended_ns, self.now_ns(), None);
        self.meter.ended(end);
    }

    /// Waits for the next start, the next deadline or an event. `epoll_wait` counts in whole
    /// milliseconds, too coarse for a schedule, so the descriptor itself is polled.
    fn wait(&mut self) -> Result<(), CrowdError> {
        let start_ns = self.schedule.next_ns(self.at_work());
        let deadlines = self.deadlines.iter().filter_map(|class| class.front());
        let deadline_ns = deadlines.map(|(deadline_ns, _)| *deadline_ns).min();
        let due = start_ns.into_iter().chain(deadline_ns).chain(self.visits.next_ns()).min();
        let until_ns = due.unwrap_or(u64::MAX).min(self.meter.next_ns());
        let left = Duration::from_nanos(until_ns.saturating_sub(self.now_ns()));
        if left.is_zero() {
            return Ok(());
        }
        let mut descriptors = [PollFd::new(self.epoll.0.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut descriptors, Some(TimeSpec::from_duration(left)), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(CrowdError::events("wait for the next start")(errno)),
        }
    }

    fn now_ns(&self) -> u64 {
        ns(self.begun.elapsed())
    }
}

/// Targets in turn, each with its sources in turn.
struct Ways {
    each: Vec<(SocketAddr, Option<Sources>)>,
    next: u64,
}

impl Ways {
    fn of(plan: &Plan) -> Self {
        let with_sources = |&target: &SocketAddr| {
            let ranges = plan.ranges_for(target);
            (target, (!ranges.is_empty()).then(|| Sources::new(ranges)))
        };
        Self { each: plan.targets.iter().map(with_sources).collect(), next: 0 }
    }

    /// The next target's place, and where to come from.
    fn next(&mut self) -> (usize, Option<IpAddr>) {
        let targets = self.each.len() as u64;
        let (round, target) = (self.next / targets, (self.next % targets) as usize);
        self.next += 1;
        let sources = self.each[target].1.as_ref();
        (target, sources.map(|sources| sources.address(round % sources.len())))
    }
}

/// What a class wants of a target.
fn errand(class: &Class, target: SocketAddr, paths: &[String], objects: Option<usize>) -> Errand {
    let requests = Requests::get(&host(target), paths.iter().map(String::as_str));
    Errand { requests, close: class.close, objects }
}

/// Kernel sockets have the kernel's TCP and the network that there is.
fn check(plan: &Plan) -> Result<(), CrowdError> {
    for class in &plan.classes {
        if class.os != Os::linux() {
            let what = format!("behave as {}", class.os.name);
            return Err(CrowdError::Sockets { what });
        }
        if !class.network.is_plain() {
            let what = "delay, lose or reorder packets".to_owned();
            return Err(CrowdError::Sockets { what });
        }
    }
    Ok(())
}
