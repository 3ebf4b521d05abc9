// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What clients do: come, act, and end.

use tidegate_client::{Attempt, End, Pairs, Person, Wait, geometric};

use super::{Crowd, TIMERS_PER_TURN};
use crate::plan::ns;
use crate::raw::attempts::New;
use crate::raw::post::Post;
use crate::raw::tuples::Tuple;
use crate::visits::ALONE;

/// An attempt to be made.
pub(super) struct Coming {
    /// The place of its persona.
    pub place: usize,
    pub tuple: Tuple,
    /// The visit that it belongs to, or [`ALONE`].
    pub visit: u32,
    /// Its first request.
    pub first: u32,
    pub requests: u16,
    pub delay_ns: u64,
    /// Since the run began.
    pub intended_ns: u64,
}

impl Crowd<'_> {
    /// Someone comes: with one attempt to make, or to visit pages.
    pub(super) fn start(&mut self, intended_ns: u64, now_ns: u64) {
        let class = self.classes.draw(&mut self.chance);
        if self.plan.classes[class].browsing.is_some() {
            return self.come(class, intended_ns, now_ns);
        }
        // What ended it at once is counted.
        if let Err(end) = self.start_alone(class, intended_ns, now_ns) {
            self.schedule.failed_at_once(end, now_ns - self.begun_ns);
        }
    }

    fn start_alone(&mut self, class: usize, intended_ns: u64, now_ns: u64) -> Result<u32, End> {
        if self.has_no_port(now_ns) {
            return Err(self.no_port(class, intended_ns, now_ns));
        }
        let (attempts, waiting) = (&self.attempts, &self.waiting);
        let (target, tuple) = self.tuples.take(self.homes[class], |tuple| {
            attempts.find(tuple).is_some() || waiting.as_ref().is_some_and(|held| held.has(tuple))
        });
        let Some(tuple) = tuple else { return Err(self.no_port(class, intended_ns, now_ns)) };
        let place = class * self.ways.len() + target;
        let persona = &self.personas[place];
        let delay_ns = ns(persona.network.delay.draw(&mut self.chance));
        let requests = geometric(persona.requests, &mut self.chance);
        let first = self.turn.take(requests);
        let visit = ALONE;
        let coming = Coming { place, tuple, visit, first, requests, delay_ns, intended_ns };
        self.open(coming, now_ns)
    }

    /// Whether all tuples are taken, which would take long to find out by looking at each.
    pub(super) fn has_no_port(&mut self, now_ns: u64) -> bool {
        let held = self.waiting.as_mut().map_or(0, |waiting| {
            waiting.release_due(now_ns, |tuple| self.tuples.give_back(tuple));
            waiting.len()
        });
        (self.attempts.open + held) as u64 >= self.tuples.len()
    }

    /// As connect() says when the ports are used up.
    pub(super) fn no_port(&mut self, class: usize, intended_ns: u64, now_ns: u64) -> End {
        self.tally.started(intended_ns, now_ns - self.begun_ns);
        self.meter.started();
        self.count(End::NO_PORT, self.plan.classes[class].part, intended_ns, now_ns, 0);
        End::NO_PORT
    }

    /// Starts an attempt and returns its number, or its end already, of which its visit is still to
    /// be told.
    pub(super) fn open(&mut self, coming: Coming, now_ns: u64) -> Result<u32, End> {
        let Coming { place, tuple, visit, first, requests, delay_ns, intended_ns } = coming;
        self.tally.started(intended_ns, now_ns - self.begun_ns);
        self.meter.started();
        if let Some(waited_ns) = self.reusable.reuse(tuple) {
            self.tally.time_wait_ends(waited_ns - self.begun_ns, now_ns - self.begun_ns);
        }
        let persona = &self.personas[place];
        let (target, address, port) = self.tuples.parts(tuple);
        let mut post = Post {
            office: &mut self.office,
            way: &self.ways[target],
            from: (address, port),
            os: persona.person.os,
            network: persona.network,
            delay_ns,
            now_ns,
            packets: 0,
            refusal: None,
        };
        let person = &persona.person;
        let mut attempt =
            Attempt::start(now_ns, person, first, requests, &mut self.chance, &mut post);
        let end = hear_host(&mut attempt, now_ns, person, &mut post);
        let new = New {
            tuple,
            person: place as u32,
            visit,
            delay_ns,
            intended_ns,
            counts: self.tally.counts(intended_ns),
            packets: post.packets,
        };
        let number = self.attempts.insert(attempt, new);
        self.tally.in_flight(self.attempts.under_way as u64);
        self.settle(number, end, now_ns);
        end.map_or(Ok(number), Err)
    }

    pub(super) fn wake_due(&mut self, now_ns: u64) -> usize {
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

    /// Has an attempt act, and sees to what comes of it.
    pub(super) fn attend(
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
            refusal: None,
        };
        let end = act(&mut slot.attempt, &persona.person, &mut post);
        let told = hear_host(&mut slot.attempt, now_ns, &persona.person, &mut post);
        let end = end.or(told);
        slot.packets = post.packets;
        let (visit, is_connected) = (slot.visit, slot.attempt.is_connected());
        self.settle(number, end, now_ns);
        if visit != ALONE && (is_connected || end.is_some()) {
            self.visits.heard(visit, number.into(), is_connected, end, now_ns);
            self.browse(visit, now_ns);
        }
    }

    /// Counts an attempt that has come to its end, forgets one that is finished, and else sets its
    /// timer.
    fn settle(&mut self, number: u32, end: Option<End>, now_ns: u64) {
        let slot = self.attempts.get(number).expect("it has just acted");
        let (intended_ns, syns) = (slot.intended_ns, slot.attempt.syns());
        let answered = slot.attempt.answered();
        let (finished, timer_ns) = (slot.attempt.is_finished(), slot.attempt.next_timer_ns());
        let (wait, tuple) = (slot.attempt.wait(), slot.tuple);
        let part = self.personas[slot.person as usize].part;
        if let Some(end) = end {
            // The visit hears of this, and then of nothing more.
            slot.visit = ALONE;
            self.tally.answered(answered, now_ns - self.begun_ns);
            self.count(end, part, intended_ns, now_ns, syns);
            self.attempts.end(number);
        }
        if finished {
            self.latest.ended(tuple, wait == Wait::Own);
            let is_held = self.hold(wait, tuple, now_ns);
            self.attempts.remove(number);
            if !is_held {
                self.tuples.give_back(tuple);
            }
        } else if let Some(at_ns) = timer_ns {
            self.timers.set_no_later(number, at_ns);
        }
    }

    /// A client's host holds TIME-WAIT, or the pair. Says whether nobody uses the tuple meanwhile.
    pub(super) fn hold(&mut self, wait: Wait, tuple: Tuple, now_ns: u64) -> bool {
        if wait == Wait::Nothing {
            return false;
        }
        let pairs = self.office.pairs.as_mut().filter(|_| wait == Wait::Pair);
        if let Some(begun_ns) = pairs.and_then(Pairs::take_renewed_ns) {
            let begun_ns = begun_ns.saturating_sub(self.begun_ns);
            self.tally.time_wait_ends(begun_ns, now_ns - self.begun_ns);
        }
        self.tally.time_wait_begins(now_ns - self.begun_ns);
        if wait == Wait::Pair {
            return false;
        }
        match &mut self.waiting {
            Some(waiting) => waiting.hold(tuple, now_ns),
            None => self.reusable.hold(tuple, now_ns),
        }
        self.waiting.is_some()
    }

    fn count(&mut self, end: End, part: Option<usize>, intended_ns: u64, now_ns: u64, syns: u32) {
        self.tally.ended(end, intended_ns, now_ns - self.begun_ns, Some(syns));
        if let Some(part) = part {
            self.tally.ended_of(part, end, intended_ns);
        }
        self.meter.ended(end);
    }
}

/// Hands a client what its own host says to its SYN, as long as it says anything.
fn hear_host(
    attempt: &mut Attempt,
    now_ns: u64,
    person: &Person,
    post: &mut Post<'_>,
) -> Option<End> {
    let mut end = None;
    while let Some(refusal) = post.refusal.take() {
        end = end.or(attempt.receive(now_ns, person, &refusal, post));
    }
    end
}
