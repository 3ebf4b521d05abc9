// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drives the clients with packets: starts them, hands them what arrives, wakes them.

use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use tidegate_client::{Attempt, Close, End, Flags, Outcome, Person, Segment, Tally};

use crate::class::Classes;
use crate::error::CrowdError;
use crate::network::{Network, draw_requests};
use crate::plan::{Plan, ns};
use crate::progress::{Meter, Progress};
use crate::raw::attempts::{Attempts, New};
use crate::raw::device::Arrivals;
use crate::raw::frame::{self, Way};
use crate::raw::held::Direction;
use crate::raw::post::{Office, Post};
use crate::raw::tuples::Tuples;
use crate::schedule::Schedule;
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
}

/// Everyone, without the interface at which they are spoken to.
pub(crate) struct Crowd<'a> {
    plan: &'a Plan,
    schedule: Schedule,
    classes: Classes,
    /// Each class at each target.
    personas: Vec<Persona>,
    ways: Vec<Way>,
    tuples: Tuples,
    attempts: Attempts,
    timers: Wheel,
    office: Office,
    /// Decides who comes, and how they count.
    chance: ChaCha8Rng,
    tally: Tally,
    meter: Meter<'a>,
    started: u32,
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
        let begun_ns = clock_ns();
        Ok(Self {
            plan,
            schedule: Schedule::of(plan),
            classes: Classes::of(plan),
            personas: parts.personas,
            ways: parts.ways,
            tuples: parts.tuples,
            attempts: Attempts::new(),
            timers: Wheel::new(TICK_BITS, begun_ns),
            office: parts.office,
            chance: ChaCha8Rng::seed_from_u64(plan.seed),
            tally: Tally::new(counted_from_ns..counted_from_ns + ns(plan.duration)),
            meter: Meter::new(watch),
            started: 0,
            begun_ns,
        })
    }

    /// Sends the crowd and says what became of it, and how many frames found no room.
    pub(crate) fn drive(mut self, arrivals: &mut Arrivals) -> Result<(Outcome, u64), CrowdError> {
        loop {
            let busy = self.turn(arrivals);
            if self.schedule.is_over() && self.attempts.counting == 0 {
                break;
            }
            if !busy {
                let start_ns = self.schedule.next_ns(self.attempts.under_way);
                self.wait(arrivals, start_ns.map(|start_ns| self.begun_ns + start_ns))?;
            }
        }
        self.leave(arrivals)?;
        self.tally.segments = self.office.segments;
        let lost = self.office.transmitter.lost() + arrivals.lost();
        Ok((self.tally.outcome(self.plan.seed), lost))
    }

    /// Does what is to be done now; whether there was anything.
    fn turn(&mut self, arrivals: &mut Arrivals) -> bool {
        let now_ns = clock_ns();
        let started = self.start_due(now_ns);
        let woken = self.wake_due(now_ns);
        let released = self.release_due(now_ns);
        self.office.transmitter.flush();
        // Time has passed, and what comes now came after it.
        let now_ns = clock_ns();
        let received = arrivals.each(|frame| self.receive(frame, now_ns, false));
        self.office.transmitter.flush();
        self.meter.look(now_ns - self.begun_ns, self.attempts.under_way as u64);
        started + woken + released + received > 0
    }

    /// Everyone goes home: those of the cool-down who still wait give up, and connections close.
    fn leave(&mut self, arrivals: &mut Arrivals) -> Result<(), CrowdError> {
        let now_ns = clock_ns();
        for number in self.attempts.numbers() {
            self.attend(number, now_ns, |attempt, person, post| {
                if attempt.end().is_some() { None } else { attempt.give_up(now_ns, person, post) }
            });
        }
        let until_ns = now_ns + LEAVING_MAX_NS;
        while self.attempts.open > 0 && clock_ns() < until_ns {
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
            }
        }
        for count in 0..STARTS_PER_TURN {
            let Some(intended_ns) = self.schedule.take_due(since_ns, self.attempts.under_way)
            else {
                return count;
            };
            self.start(intended_ns, now_ns);
        }
        STARTS_PER_TURN
    }

    fn start(&mut self, intended_ns: u64, now_ns: u64) {
        let since_ns = now_ns - self.begun_ns;
        self.tally.started(intended_ns, since_ns);
        self.meter.started();
        let (target, tuple) = self.tuples.take(|tuple| self.attempts.find(tuple).is_some());
        let Some(tuple) = tuple else {
            // As connect() says when the ports are used up.
            return self.count(End::Other(Errno::EADDRNOTAVAIL as i32), intended_ns, now_ns, 0);
        };
        let class = self.classes.draw(&mut self.chance);
        let place = class * self.ways.len() + target;
        let persona = &self.personas[place];
        let delay_ns = ns(persona.network.delay.draw(&mut self.chance));
        let requests = draw_requests(persona.requests, &mut self.chance);
        let (_, address, port) = self.tuples.parts(tuple);
        let mut post = Post {
            office: &mut self.office,
            way: &self.ways[target],
            from: (address, port),
            os: persona.person.os,
            network: persona.network,
            delay_ns,
            now_ns,
            packets: 0,
        };
        self.started = self.started.wrapping_add(1);
        let (person, first) = (&persona.person, self.started);
        let attempt = Attempt::start(now_ns, person, first, requests, &mut self.chance, &mut post);
        let new = New {
            tuple,
            person: place as u32,
            delay_ns,
            intended_ns,
            counts: self.tally.counts(intended_ns),
            packets: post.packets,
        };
        let number = self.attempts.insert(attempt, new);
        self.tally.in_flight(self.attempts.under_way as u64);
        self.settle(number, None, now_ns);
    }

    fn wake_due(&mut self, now_ns: u64) -> usize {
        for count in 0..TIMERS_PER_TURN {
            let Some(number) = self.timers.fire(now_ns) else { return count };
            // Those who left, or moved their timer away, do not tell the wheel.
            let Some(slot) = self.attempts.get(number) else { continue };
            match slot.attempt.next_timer_ns() {
                Some(at_ns) if at_ns > now_ns => self.timers.set_no_later(number, at_ns),
                Some(_) => {
                    self.attend(number, now_ns, |attempt, person, post| {
                        attempt.timer(now_ns, person, post)
                    });
                }
                None => {}
            }
        }
        TIMERS_PER_TURN
    }

    fn release_due(&mut self, now_ns: u64) -> usize {
        let mut count = 0;
        while count < TIMERS_PER_TURN
            && let Some(due) = self.office.held.take_due(now_ns)
        {
            count += 1;
            match due.direction {
                Direction::ToServer => self.office.transmitter.send(|frame| {
                    frame[..due.frame.len()].copy_from_slice(&due.frame);
                    due.frame.len()
                }),
                Direction::ToClient => self.receive(&due.frame, now_ns, true),
            }
            self.office.held.give_back(due);
        }
        count
    }

    /// A frame arrived at the interface, or `was_held` and arrives at its client.
    fn receive(&mut self, frame: &[u8], now_ns: u64, was_held: bool) {
        let Some(arrived) = frame::read(frame) else { return };
        let Some(tuple) = self.tuples.of(arrived.from, arrived.to) else { return };
        let Some(number) = self.attempts.find(tuple) else {
            self.answer_stray(tuple, &arrived.segment, now_ns);
            return;
        };
        let slot = self.attempts.get(number).expect("it was just found");
        let network = self.personas[slot.person as usize].network;
        if !was_held && !network.is_plain() {
            match network.holds_ns(slot.delay_ns, &mut self.office.weather) {
                None => return,
                Some(0) => {}
                Some(hold_ns) => {
                    return self.office.held.keep(Direction::ToClient, frame, now_ns + hold_ns);
                }
            }
        }
        self.office.segments.receives(&arrived.segment);
        self.attend(number, now_ns, |attempt, person, post| {
            attempt.receive(now_ns, person, &arrived.segment, post)
        });
    }

    /// Answers what belongs to no attempt as the client's host would: a FIN as in TIME-WAIT,
    /// since our last ACK must have been lost, and all else with a RST.
    fn answer_stray(&mut self, tuple: u64, segment: &Segment<'_>, now_ns: u64) {
        self.office.segments.receives(segment);
        let (target, address, port) = self.tuples.parts(tuple);
        let persona = &self.personas[target];
        let is_fin = segment.flags.has(Flags::FIN | Flags::ACK)
            && !segment.flags.has(Flags::RST)
            && !segment.flags.has(Flags::SYN)
            && persona.person.close != Close::Reset;
        let answer = if is_fin {
            let ack = segment.seq.wrapping_add(segment.sequence_length());
            Some(Segment { flags: Flags::ACK, seq: segment.ack, ack, ..Segment::default() })
        } else {
            segment.refusal()
        };
        let Some(answer) = answer else { return };
        let mut post = Post {
            office: &mut self.office,
            way: &self.ways[target],
            from: (address, port),
            os: persona.person.os,
            network: Network::default(),
            delay_ns: 0,
            now_ns,
            packets: 0,
        };
        tidegate_client::Out::send(&mut post, answer);
    }

    /// Has an attempt act, and sees to what comes of it.
    fn attend(
        &mut self,
        number: u32,
        now_ns: u64,
        act: impl FnOnce(&mut Attempt, &Person, &mut Post<'_>) -> Option<End>,
    ) {
        let Some(slot) = self.attempts.get(number) else { return };
        let persona = &self.personas[slot.person as usize];
        let (target, address, port) = self.tuples.parts(slot.tuple);
        let mut post = Post {
            office: &mut self.office,
            way: &self.ways[target],
            from: (address, port),
            os: persona.person.os,
            network: persona.network,
            delay_ns: slot.delay_ns,
            now_ns,
            packets: slot.packets,
        };
        let end = act(&mut slot.attempt, &persona.person, &mut post);
        slot.packets = post.packets;
        self.settle(number, end, now_ns);
    }

    fn settle(&mut self, number: u32, end: Option<End>, now_ns: u64) {
        let slot = self.attempts.get(number).expect("it has just acted");
        let (intended_ns, syns) = (slot.intended_ns, slot.attempt.syns());
        let answered = slot.attempt.answered();
        let (finished, timer_ns) = (slot.attempt.is_finished(), slot.attempt.next_timer_ns());
        if let Some(end) = end {
            self.tally.answered(answered, now_ns - self.begun_ns);
            self.count(end, intended_ns, now_ns, syns);
            self.attempts.end(number);
        }
        if finished {
            self.attempts.remove(number);
        } else if let Some(at_ns) = timer_ns {
            self.timers.set_no_later(number, at_ns);
        }
    }

    fn count(&mut self, end: End, intended_ns: u64, now_ns: u64, syns: u32) {
        self.tally.ended(end, intended_ns, now_ns - self.begun_ns, Some(syns));
        self.meter.ended(end);
    }

    /// Waits for frames, at most until something is due.
    fn wait(&self, arrivals: &Arrivals, start_ns: Option<u64>) -> Result<(), CrowdError> {
        let tell_ns = self.begun_ns + self.meter.next_ns();
        let due = [self.timers.next_ns(), self.office.held.next_ns(), start_ns];
        let until_ns = due.into_iter().flatten().min().unwrap_or(tell_ns).min(tell_ns);
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
