// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients: starts them, hands them what arrives, wakes them; as `tidegate-crowd` does.

use tidegate_client::{Attempt, End, Flags, Out, Person, Segment, Wait, geometric};
use tidegate_policy::time_wait::End as Side;

use crate::chance::{Chance, Entity};
use crate::flow::Flow;
use crate::packet::Packet;
use crate::people::People;
use crate::ports::ANY;
use crate::stack::Conn;
use crate::wire::{Event, Post, Wire, lane};
use crate::world::{Starts, World};

/// When a client of a closed loop that found no port tries again.
const TRY_AGAIN_NS: u64 = 1_000_000;

impl World {
    pub(crate) fn schedule_starts(&mut self) {
        let ends_ns = self.load_ends_ns();
        match &mut self.starts {
            Starts::Open(arrivals) => {
                if let Some(at_ns) = arrivals.next_if(|at_ns| *at_ns < ends_ns) {
                    self.wire.queue.add_to(lane::STARTS, at_ns, Event::Start);
                } else {
                    // So that the run has an end where nothing else happens.
                    self.wire.queue.add(ends_ns, Event::Poll(0));
                }
            }
            Starts::Closed { clients } => {
                for _ in 0..*clients {
                    self.wire.queue.add_to(lane::STARTS, 0, Event::Start);
                }
                self.wire.queue.add(ends_ns, Event::Poll(0));
            }
        }
    }

    pub(crate) fn start_due(&mut self, now_ns: u64) {
        if let Starts::Open(_) = self.starts {
            self.schedule_starts();
        } else if now_ns >= self.load_ends_ns() {
            return;
        }
        self.start(now_ns);
    }

    fn start(&mut self, now_ns: u64) {
        let number = self.balance.attempts;
        let mut chance = Chance::of(self.seed, Entity::Attempt(number));
        let delay_ns = self.way.draw_ns(&mut chance);
        let requests = geometric(self.crowd.requests, &mut chance);
        let counts = self.tally.counts(now_ns);
        let first = self.turn.take(requests);
        let number = number as u32;
        let kind = self.people.draw();
        let flow = Flow {
            attempt: None,
            conn: Conn::default(),
            intended_ns: now_ns,
            delay_ns,
            timer: None,
            first,
            count: requests,
            port: ANY,
            number,
            pair: number,
            network: self.sources.draw(),
            packets: 0,
            kind,
            hops: self.people.get(kind).os.ttl,
            syns: 0,
            ended: false,
            was_told: false,
            counts,
            in_time_wait: false,
        };
        self.tally.started(now_ns, now_ns);
        self.balance.attempts += 1;
        let network = flow.network;
        let Some(place) = self.flows.insert(flow, now_ns) else {
            return self.no_port(network, now_ns);
        };
        self.balance.waiting += 1;
        self.counting += u64::from(counts);
        self.tally.in_flight(self.balance.waiting);
        let wire = &mut self.wire;
        let Flow { packets, pair, kind, .. } = *self.flows.get(place);
        let mut post = Post { wire, place, pair, now_ns, delay_ns, packets, syns: 0 };
        let person = self.people.get(kind);
        let attempt = Attempt::start(now_ns, person, first, requests, &mut chance, &mut post);
        let (packets, syns) = (post.packets, post.syns);
        let flow = self.flows.get(place);
        (flow.packets, flow.syns) = (packets, syns);
        flow.attempt = Some(attempt);
        self.settle(place, None, now_ns);
    }

    /// As connect() says when the ports are used up.
    fn no_port(&mut self, network: Option<u16>, now_ns: u64) {
        self.tally.ended(End::NO_PORT, now_ns, now_ns, Some(0));
        if let Some(network) = network {
            self.tally.ended_of(network.into(), End::NO_PORT, now_ns);
        }
        self.balance.others += 1;
        if let Starts::Closed { .. } = self.starts {
            self.wire.queue.add_to(lane::STARTS, now_ns + TRY_AGAIN_NS, Event::Start);
        }
    }

    pub(crate) fn client_timer(&mut self, place: u32, now_ns: u64) {
        let flow = self.flows.get(place);
        flow.timer = None;
        let due_ns = flow.attempt.as_ref().and_then(Attempt::next_timer_ns);
        match due_ns {
            Some(at_ns) if at_ns > now_ns => self.settle(place, None, now_ns),
            Some(_) => {
                let wire = &mut self.wire;
                let end =
                    attend(flow, wire, &self.people, place, now_ns, |attempt, person, post| {
                        attempt.timer(now_ns, person, post)
                    });
                self.settle(place, end, now_ns);
            }
            None => {}
        }
        self.flows.tidy(place);
    }

    pub(crate) fn at_client(&mut self, packet: &Packet, now_ns: u64) {
        self.wire.outward.carried.arrived += 1;
        let place = packet.flow;
        let flow = self.flows.get(place);
        flow.packets -= 1;
        let (attempted, pair, in_time_wait) =
            (flow.attempt.is_some(), flow.pair, flow.in_time_wait);
        let is_syn = packet.flags.has(Flags::SYN);
        if is_syn && self.wire.ends.block(Side::Client, pair, false, packet, now_ns) {
            return self.flows.tidy(place);
        }
        let (page, begins) = packet.page();
        let data: &[u8] = match packet.length {
            0 => b"",
            length => self.host.pages.bytes(page, begins, length),
        };
        let segment = packet.segment(data);
        self.wire.segments.receives(&segment);
        if attempted {
            let (flow, wire) = (self.flows.get(place), &mut self.wire);
            let end = attend(flow, wire, &self.people, place, now_ns, |attempt, person, post| {
                attempt.receive(now_ns, person, &segment, post)
            });
            self.settle(place, end, now_ns);
        } else {
            self.answer_stray(place, segment.answer_to_stray(in_time_wait), now_ns);
        }
        self.flows.tidy(place);
    }

    fn settle(&mut self, place: u32, end: Option<End>, now_ns: u64) {
        let flow = self.flows.get(place);
        let Some(attempt) = &flow.attempt else { return };
        if let Some(end) = end {
            flow.ended = true;
            self.tally.answered(attempt.answered(), now_ns);
            self.tally.ended(end, flow.intended_ns, now_ns, Some(attempt.syns()));
            self.counting -= u64::from(flow.counts);
            if let Some(network) = flow.network {
                self.tally.ended_of(network.into(), end, flow.intended_ns);
            }
            self.balance.waiting -= 1;
            *match end {
                End::Replied => &mut self.balance.served,
                End::Refused | End::Reset => &mut self.balance.refused,
                End::TimedOutConnecting | End::TimedOutWaiting => &mut self.balance.timed_out,
                _ => &mut self.balance.others,
            } += 1;
            if let Starts::Closed { .. } = self.starts {
                self.wire.queue.add_to(lane::STARTS, now_ns, Event::Start);
            }
        }
        let is_finished = attempt.is_finished();
        let due_ns = attempt.next_timer_ns().filter(|_| !is_finished);
        let due_ns = due_ns.map(|at_ns| self.wire.clients.wakes_ns(at_ns));
        match (due_ns, flow.timer) {
            (Some(due_ns), Some((set_ns, _))) if set_ns <= due_ns => {}
            (_, timer) => {
                if let Some((_, ticket)) = timer {
                    self.wire.queue.take_back(ticket);
                }
                flow.timer =
                    due_ns.map(|at_ns| (at_ns, self.wire.queue.add(at_ns, Event::Client(place))));
            }
        }
        if is_finished {
            let wait = attempt.wait();
            flow.attempt = None;
            flow.in_time_wait = wait == Wait::Own;
            let port = flow.port;
            self.wait(wait, now_ns);
            self.flows.give_back(port, wait == Wait::Own, now_ns);
        }
    }

    /// A client's host holds TIME-WAIT, or the pair.
    fn wait(&mut self, wait: Wait, now_ns: u64) {
        if wait == Wait::Nothing {
            return;
        }
        if wait == Wait::Pair
            && let Some(begun_ns) = self.wire.ends.take_renewed_ns()
        {
            self.tally.time_wait_ends(begun_ns, now_ns);
        }
        self.tally.time_wait_begins(now_ns);
    }

    fn answer_stray(&mut self, place: u32, answer: Option<Segment<'static>>, now_ns: u64) {
        let Some(answer) = answer else { return };
        let flow = self.flows.get(place);
        let Flow { pair, delay_ns, packets, syns, .. } = *flow;
        let mut post = Post { wire: &mut self.wire, place, pair, now_ns, delay_ns, packets, syns };
        post.send(answer);
        flow.packets = post.packets;
    }
}

/// Has an attempt act.
fn attend(
    flow: &mut Flow,
    wire: &mut Wire,
    people: &People,
    place: u32,
    now_ns: u64,
    act: impl FnOnce(&mut Attempt, &Person, &mut Post<'_>) -> Option<End>,
) -> Option<End> {
    let Flow { pair, delay_ns, packets, kind, syns, .. } = *flow;
    let attempt = flow.attempt.as_mut()?;
    let mut post = Post { wire, place, pair, now_ns, delay_ns, packets, syns };
    let end = act(attempt, people.get(kind), &mut post);
    (flow.packets, flow.syns) = (post.packets, post.syns);
    end
}

#[cfg(test)]
mod tests {
    use tidegate_client::Os;

    use super::*;
    use crate::machine::Machine;
    use crate::setup::{Load, Setup};

    #[test]
    fn no_two_attempts_ask_for_the_same_place() {
        let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
        setup.crowd.requests = 7.2;
        setup.crowd.load = Load::Closed { clients: 20 };
        let mut world = World::new(setup);
        while world.balance.attempts < 20 {
            world.advance();
        }
        let asked: Vec<_> = world.flows.each().map(|flow| (flow.first, flow.count)).collect();
        assert_eq!(asked.len(), 20);
        assert!(asked.iter().any(|(_, count)| *count > 1));
        let mut next = 0;
        for (first, count) in asked {
            assert_eq!(first, next);
            next += u32::from(count);
        }
        // Who they are is told by their own number.
        assert!(world.flows.each().map(|flow| flow.number).eq(0..20));
    }
}
