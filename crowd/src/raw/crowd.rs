// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives the clients with packets: starts them, hands them what arrives, wakes them.

mod mail;
mod people;
mod visits;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rand_chacha::ChaCha8Rng;
use tidegate_client::{Outcome, Person, Progress, Segments, Tally, Turn};

use crate::class::Classes;
use crate::error::CrowdError;
use crate::network::Network;
use crate::plan::{Plan, ns};
use crate::progress::Meter;
use crate::raw::attempts::Attempts;
use crate::raw::device::Arrivals;
use crate::raw::frame::Way;
use crate::raw::post::Office;
use crate::raw::tuples::Tuples;
use crate::raw::waiting::{Latest, Reusable, Waiting};
use crate::schedule::Schedule;
use crate::visits::Visits;
use crate::wheel::Wheel;

/// 65 µs: far below any timer of TCP.
const TICK_BITS: u32 = 16;
/// Done before looking for arrivals again: a burst must not make replies look slow.
const STARTS_PER_TURN: usize = 64;
const TIMERS_PER_TURN: usize = 256;
/// With less than this to wait, sleeping would only make us late.
const AWAKE_NS: u64 = 50_000;
/// How long connections may take to close when everything else is over.
const LEAVING_MAX_NS: u64 = 1_000_000_000;

/// A kind of person at a target.
#[derive(Debug)]
pub(crate) struct Persona {
    pub person: Person,
    pub network: Network,
    /// Requests over one connection, on average.
    pub requests: f64,
    /// Where they browse: the place of those who ask for the objects of the pages that these ask
    /// for.
    pub objects: Option<usize>,
    /// The part of the crowd that counts them.
    pub part: Option<usize>,
}

/// Everyone, without the interface at which they are spoken to.
pub(crate) struct Crowd<'a> {
    plan: &'a Plan,
    schedule: Schedule,
    classes: Classes,
    /// The home of each class: see [`Plan::home_of_each`].
    homes: Vec<usize>,
    /// Each class at each target, and behind them those who ask for objects.
    personas: Vec<Persona>,
    ways: Vec<Way>,
    tuples: Tuples,
    /// Tuples in TIME-WAIT, where ports can be short.
    waiting: Option<Waiting>,
    /// Those in it where they are not short.
    reusable: Reusable,
    /// Those that came to it last, for what belongs to no attempt.
    latest: Latest,
    attempts: Attempts,
    timers: Wheel,
    visits: Visits,
    office: Office,
    /// Decides who comes, and how they count.
    chance: ChaCha8Rng,
    tally: Tally,
    meter: Meter<'a>,
    turn: Turn,
    begun_ns: u64,
}

/// What a crowd is made of.
pub(crate) struct Parts {
    pub personas: Vec<Persona>,
    pub ways: Vec<Way>,
    pub tuples: Tuples,
    pub office: Office,
}

impl<'a> Crowd<'a> {
    pub(crate) fn gather(
        plan: &'a Plan,
        parts: Parts,
        watch: &'a mut dyn FnMut(Progress),
    ) -> Result<Self, CrowdError> {
        let counted_from_ns = ns(plan.warm_up);
        let counted_ns = counted_from_ns..counted_from_ns + ns(plan.duration);
        // Before the clock of its schedule begins: they may be many.
        let homes = plan.home_of_each();
        let begun_ns = clock_ns();
        let mut tally = Tally::new(counted_ns.clone()).with_parts(plan.parts());
        tally.will_know_time_waits();
        let visits_count_ns = begun_ns + counted_ns.start..begun_ns + counted_ns.end;
        Ok(Self {
            plan,
            schedule: Schedule::of(plan),
            classes: Classes::of(plan),
            homes,
            personas: parts.personas,
            ways: parts.ways,
            reusable: Reusable::new(parts.tuples.end()),
            latest: Latest::new(parts.tuples.end()),
            tuples: parts.tuples,
            waiting: plan.ports.map(|_| Waiting::default()),
            attempts: Attempts::new(),
            timers: Wheel::new(TICK_BITS, begun_ns),
            visits: Visits::new(visits_count_ns, begun_ns + ns(plan.whole()), begun_ns),
            office: parts.office,
            chance: plan.chance(),
            tally,
            meter: Meter::new(watch),
            turn: Turn::default(),
            begun_ns,
        })
    }

    /// Sends the crowd and says what became of it, unless it is told to stop.
    pub(crate) fn drive(
        mut self,
        arrivals: &mut Arrivals,
        stop: &AtomicBool,
    ) -> Result<Outcome, CrowdError> {
        self.meter.begin(clock_ns() - self.begun_ns);
        loop {
            let busy = self.turn(arrivals);
            if self.schedule.is_over() && self.attempts.counting + self.visits.counting == 0 {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(CrowdError::Stopped);
            }
            if !busy {
                let start_ns = self.schedule.next_ns(self.at_work());
                self.wait(arrivals, start_ns.map(|start_ns| self.begun_ns + start_ns))?;
            }
        }
        // Read once, and here: that all leave at one time is none of the load.
        let lost_here = self.office.transmitter.lost() + arrivals.lost();
        self.leave(arrivals)?;
        self.tally.segments = Segments { lost_here, ..self.office.segments };
        Ok(self.tally.outcome(self.plan.seed))
    }

    /// Does what is to be done now; whether there was anything.
    fn turn(&mut self, arrivals: &mut Arrivals) -> bool {
        let now_ns = clock_ns();
        let started = self.start_due(now_ns);
        let woken = self.wake_due(now_ns) + self.wake_visits(now_ns);
        let released = self.release_due(now_ns);
        self.office.transmitter.flush();
        // Time has passed, and what comes now came after it.
        let now_ns = clock_ns();
        let received = arrivals.each(|frame| self.receive(frame, now_ns, false));
        self.office.transmitter.flush();
        self.meter.look(now_ns - self.begun_ns, self.attempts.under_way as u64);
        started + woken + released + received > 0
    }

    /// Everyone goes home: those of the cool-down who still wait give up, connections close, and what
    /// is on its way arrives.
    fn leave(&mut self, arrivals: &mut Arrivals) -> Result<(), CrowdError> {
        let now_ns = clock_ns();
        self.visits.leave(now_ns);
        for number in self.attempts.numbers() {
            self.attend(number, now_ns, |attempt, person, post| {
                if attempt.end().is_some() { None } else { attempt.give_up(now_ns, person, post) }
            });
        }
        let until_ns = now_ns + LEAVING_MAX_NS;
        let is_away = |crowd: &Self| crowd.office.delayed.next_ns().is_some();
        while (self.attempts.open > 0 || is_away(self)) && clock_ns() < until_ns {
            if !self.turn(arrivals) {
                self.wait(arrivals, Some(until_ns))?;
            }
        }
        Ok(())
    }

    fn start_due(&mut self, now_ns: u64) -> usize {
        let since_ns = now_ns - self.begun_ns;
        if since_ns > ns(self.plan.whole()) + ns(self.plan.longest_timeout()) {
            // Hopelessly behind, it must end all the same; what it left out is in the outcome.
            for start_ns in self.schedule.abandon() {
                self.tally.not_started(start_ns);
                let class = self.classes.draw(&mut self.chance);
                if let Some(part) = self.plan.classes[class].part {
                    self.tally.not_started_of(part, start_ns);
                }
            }
        }
        for count in 0..STARTS_PER_TURN {
            let Some(intended_ns) = self.schedule.take_due(since_ns, self.at_work()) else {
                return count;
            };
            self.start(intended_ns, now_ns);
        }
        STARTS_PER_TURN
    }

    /// Clients at work: those with one attempt, and those who visit pages.
    fn at_work(&self) -> usize {
        self.attempts.under_way - self.visits.connections + self.visits.clients()
    }

    /// Waits for frames, at most until something is due.
    fn wait(&self, arrivals: &Arrivals, start_ns: Option<u64>) -> Result<(), CrowdError> {
        let tell_ns = self.begun_ns + self.meter.next_ns();
        let timers = [self.timers.next_ns(), self.visits.next_ns(), self.office.delayed.next_ns()];
        let due = timers.into_iter().chain([start_ns]);
        let until_ns = due.flatten().min().unwrap_or(tell_ns).min(tell_ns);
        let left_ns = until_ns.saturating_sub(clock_ns());
        if left_ns < AWAKE_NS {
            return Ok(());
        }
        let left = TimeSpec::from_duration(Duration::from_nanos(left_ns));
        let descriptors = arrivals.descriptors();
        let mut descriptors: Vec<PollFd<'_>> =
            descriptors.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
        match ppoll(&mut descriptors, Some(left), None) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(CrowdError::events("wait for packets")(errno)),
        }
    }
}

/// The kernel's monotonic clock, which outlives runs: timestamps never go back.
pub(crate) fn clock_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from).unwrap_or_default();
    ns(now)
}

#[cfg(test)]
mod tests;
