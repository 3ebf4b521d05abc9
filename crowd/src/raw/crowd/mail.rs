// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What arrives: for whom it is, and what is said to those who are not there.

use tidegate_client::{Flags, Out, Segment};

use super::{Crowd, TIMERS_PER_TURN};
use crate::class::Class;
use crate::plan::ns;
use crate::raw::delayed::Direction;
use crate::raw::frame;
use crate::raw::post::Post;
use crate::raw::tuples::Tuple;

impl Crowd<'_> {
    /// Sends on what was held back for so long, either way.
    pub(super) fn release_due(&mut self, now_ns: u64) -> usize {
        let mut count = 0;
        while count < TIMERS_PER_TURN
            && let Some(due) = self.office.delayed.take_due(now_ns)
        {
            count += 1;
            match due.direction {
                Direction::ToServer => self.office.transmitter.send(|frame| {
                    frame[..due.frame.len()].copy_from_slice(&due.frame);
                    due.frame.len()
                }),
                Direction::ToClient => self.receive(&due.frame, now_ns, true),
            }
            self.office.delayed.give_back(due);
        }
        count
    }

    /// A frame arrived at the interface, or `was_delayed` and arrives at its client.
    pub(super) fn receive(&mut self, frame: &[u8], now_ns: u64, was_delayed: bool) {
        let Some(arrived) = frame::read(frame) else { return };
        let Some(tuple) = self.tuples.of(arrived.from, arrived.to) else { return };
        let ends = (arrived.to, arrived.from);
        if arrived.segment.flags.has(Flags::SYN)
            && self.office.block(ends, &arrived.segment, false, now_ns)
        {
            return;
        }
        let number = self.attempts.find(tuple);
        let (persona, delay_ns) = match number.and_then(|number| self.attempts.get(number)) {
            Some(slot) => (slot.person as usize, slot.delay_ns),
            None => self.stray_way(tuple),
        };
        let network = self.personas[persona].network;
        if !was_delayed && !network.is_plain() {
            match network.holds_ns(delay_ns, &mut self.office.weather) {
                None => return,
                Some(0) => {}
                Some(hold_ns) => {
                    return self.office.delayed.keep(Direction::ToClient, frame, now_ns + hold_ns);
                }
            }
        }
        self.office.segments.receives(&arrived.segment);
        match number {
            Some(number) => self.attend(number, now_ns, |attempt, person, post| {
                attempt.receive(now_ns, person, &arrived.segment, post)
            }),
            None => self.answer_stray(tuple, (persona, delay_ns), &arrived.segment, now_ns),
        }
    }

    /// Whose host gets what belongs to no attempt, and how far away it is. Nothing is kept of who was
    /// there: it is the first class that comes from this address, and a delay is drawn anew.
    fn stray_way(&mut self, tuple: Tuple) -> (usize, u64) {
        let (target, address, _) = self.tuples.parts(tuple);
        let comes_from_there = |class: &Class| {
            let home = self.plan.home_of(class);
            home.is_empty() || home.iter().any(|net| net.contains(&address))
        };
        let class = self.plan.classes.iter().position(comes_from_there).unwrap_or(0);
        let persona = class * self.ways.len() + target;
        (persona, ns(self.personas[persona].network.delay.draw(&mut self.office.weather)))
    }

    /// Answers what belongs to no attempt as the client's host would.
    pub(super) fn answer_stray(
        &mut self,
        tuple: Tuple,
        (persona, delay_ns): (usize, u64),
        segment: &Segment<'_>,
        now_ns: u64,
    ) {
        let (target, address, port) = self.tuples.parts(tuple);
        let persona = &self.personas[persona];
        let in_time_wait = self.latest.has(tuple);
        let Some(answer) = segment.answer_to_stray(in_time_wait) else { return };
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
        post.send(answer);
    }
}
