// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is to happen, and who sends what to whom.

use tidegate_client::{Flags, LastNumbers, Out, Segment, Segments};
use tidegate_policy::time_wait::End;

use crate::chance::{Chance, Entity};
use crate::costs::{Costs, Frames};
use crate::ends::Ends;
use crate::engine::Queue;
use crate::flow::Flow;
use crate::hook::Hook;
use crate::machine::Attention;
use crate::network::{Direction, Way};
use crate::packet::Packet;
use crate::spent::Took;
use crate::stack::Profile;

/// Spreads the pairs' first sequence numbers (2^32 by the golden ratio).
const SPREAD: u32 = 0x9e37_79b9;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The next attempt starts.
    Start,
    /// A packet arrives at the server's machine.
    AtServer(Packet),
    /// A packet arrives at its client.
    AtClient(Packet),
    /// A client's timer.
    Client(u32),
    /// A timer of the server's TCP.
    Conn(u32),
    /// A processor of the server's turns to packets that wait.
    Poll(u32),
    /// The application's step may be done.
    Step,
    /// Old half-open requests are looked for.
    Clean,
    /// The daemon looks at the host.
    Look,
}

/// Events of a kind that mostly come in the order in which they are added.
pub(crate) mod lane {
    pub(crate) const STARTS: usize = 0;
    pub(crate) const TO_SERVER: usize = 1;
    pub(crate) const TO_CLIENTS: usize = 2;
    pub(crate) const STEPS: usize = 3;
}

/// Events to come, and both directions.
#[derive(Debug)]
pub(crate) struct Wire {
    pub queue: Queue<Event>,
    pub inward: Direction,
    pub outward: Direction,
    /// Packets that are under way, by the events to come.
    pub under_way: u64,
    /// How clients are attended to.
    pub clients: Attention,
    /// As clients count them.
    pub segments: Segments,
    /// What hosts hold blocked.
    pub ends: Ends,
    /// Clients have only so many ports.
    pub reuses_pairs: bool,
}

impl Wire {
    pub(crate) fn new(
        way: &Way,
        clients: Attention,
        ends: Ends,
        reuses_pairs: bool,
        seed: u64,
    ) -> Self {
        Self {
            queue: Queue::default(),
            inward: Direction::inward(way, Chance::of(seed, Entity::WayIn)),
            outward: Direction::outward(way, Chance::of(seed, Entity::WayOut)),
            under_way: 0,
            clients,
            segments: Segments::default(),
            ends,
            reuses_pairs,
        }
    }

    /// Where the sequence numbers of a pair begin, at either end. Where ports are not short, each attempt
    /// has a pair of its own.
    pub(crate) fn pair_first(&self, pair: u32) -> Option<u32> {
        self.reuses_pairs.then(|| pair.wrapping_mul(SPREAD))
    }

    /// A host tells its own client that these addresses and ports are taken.
    fn refuse_here(&mut self, packet: &Packet, now_ns: u64) {
        let flags = Flags::RST | Flags::ACK;
        let rst = Segment { flags, ack: packet.end(), ..Segment::default() };
        let rst = Packet::of(packet.flow, &rst);
        self.outward.carried.sent += 1;
        self.comes_to_client(rst, now_ns);
    }

    #[inline]
    fn comes_to_server(&mut self, packet: Packet, at_ns: u64) {
        self.under_way += 1;
        self.queue.add_to(lane::TO_SERVER, at_ns, Event::AtServer(packet));
    }

    #[inline]
    fn comes_to_client(&mut self, packet: Packet, at_ns: u64) {
        self.under_way += 1;
        self.queue.add_to(lane::TO_CLIENTS, at_ns, Event::AtClient(packet));
    }
}

/// Where a client's segments go.
pub(crate) struct Post<'a> {
    pub wire: &'a mut Wire,
    pub place: u32,
    /// The number of its pair.
    pub pair: u32,
    pub now_ns: u64,
    pub delay_ns: u64,
    /// Packets of this flow under way.
    pub packets: u16,
    /// SYNs of this flow so far.
    pub syns: u8,
}

impl Out for Post<'_> {
    fn send(&mut self, segment: Segment<'_>) {
        let packet = Packet::of(self.place, &segment);
        if self.wire.ends.block(End::Client, self.pair, true, &packet, self.now_ns) {
            if packet.is_syn() {
                self.packets += 1;
                self.wire.refuse_here(&packet, self.now_ns);
            }
            return;
        }
        self.wire.segments.sends(&segment);
        let arrives = self.wire.inward.carry(self.now_ns, self.delay_ns, &packet, self.syns);
        self.syns = self.syns.saturating_add(u8::from(segment.flags.has(Flags::SYN)));
        if let Some(at_ns) = arrives {
            self.packets += 1;
            self.wire.comes_to_server(packet, at_ns);
        }
    }

    fn can_hold(&mut self) -> bool {
        self.wire.ends.can_hold(End::Client, self.pair, self.now_ns)
    }

    fn hold(&mut self, last: &LastNumbers) -> bool {
        self.wire.ends.hold(End::Client, self.pair, last, self.now_ns)
    }

    fn pair_first(&mut self) -> Option<u32> {
        self.wire.pair_first(self.pair)
    }
}

/// Work of the server's processor on one flow: what it took so far, and what it sends.
pub(crate) struct Work<'a> {
    pub wire: &'a mut Wire,
    frames: Frames,
    pub place: u32,
    pub began_ns: u64,
    pub took: Took,
    /// It comes as far as TCP, whatever becomes of it there.
    pub reaches_tcp: bool,
}

impl<'a> Work<'a> {
    pub(crate) fn new(wire: &'a mut Wire, costs: &Costs, place: u32, began_ns: u64) -> Self {
        let (frames, took) = (costs.frames(), Took::default());
        Self { wire, frames, place, began_ns, took, reaches_tcp: true }
    }

    /// TCP has so much to do.
    #[inline]
    pub(crate) fn tcp_takes(&mut self, ns: u64) {
        self.took.tcp_ns += ns;
    }

    /// A segment comes up to TCP.
    #[inline]
    pub(crate) fn comes_up(&mut self) {
        self.took.driver_ns += self.frames.frame_ns;
        self.took.other_ns += self.frames.buffer_ns;
        self.took.ip_ns += self.frames.ip_ns;
    }

    /// The same, and TCP looks its connection up.
    #[inline]
    pub(crate) fn comes_to_tcp(&mut self, costs: &Costs) {
        self.comes_up();
        self.tcp_takes(costs.look_up_ns);
    }

    /// The segment has been answered, or dropped, where a hook looked at it: what goes back from the
    /// entry of IP or before does not take IP's way out. At the driver that is one cost for all of it,
    /// the frame goes back as it came.
    pub(crate) fn ends_at(&mut self, hook: Hook, profile: Profile, costs: &Costs) {
        self.reaches_tcp = hook == Hook::Tcp && profile.has_hook_in_tcp();
        match hook {
            Hook::Driver => self.took = Took { guard_ns: costs.early_ns, ..Took::default() },
            Hook::Ip => self.took.ip_ns = 0,
            Hook::Tcp => {}
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.began_ns + self.took.whole_ns()
    }

    /// Sends a segment in a frame of its own.
    pub(crate) fn send(&mut self, flow: &mut Flow, segment: &Segment<'_>) {
        self.frame_goes_out();
        self.deliver(flow, Packet::of(self.place, segment));
    }

    /// What a frame costs on its way out.
    #[inline]
    pub(crate) fn frame_goes_out(&mut self) {
        self.took.ip_ns += self.frames.ip_ns;
        self.took.driver_ns += self.frames.transmit_ns;
    }

    /// Hands a packet, whose frame has been paid for, to the network.
    #[inline]
    pub(crate) fn deliver(&mut self, flow: &mut Flow, packet: Packet) {
        let now_ns = self.now_ns();
        if self.wire.ends.block(End::Server, flow.pair, true, &packet, now_ns) {
            return;
        }
        if let Some(at_ns) = self.wire.outward.carry(now_ns, flow.delay_ns, &packet, 0) {
            flow.packets += 1;
            let seen_ns = self.wire.clients.sees_ns(at_ns);
            self.wire.comes_to_client(packet, seen_ns);
        }
    }

    /// The RST by which rst-fin answers a FIN: it follows everything that was sent.
    pub(crate) fn answer_fin(&mut self, flow: &mut Flow, packet: &Packet) {
        let flags = Flags::RST | Flags::ACK;
        let (seq, ack) = (flow.conn.sent_max(), packet.end());
        self.send(flow, &Segment { flags, seq, ack, ..Segment::default() });
    }

    /// Answers as a host does that has no connection for it; not a RST.
    pub(crate) fn refuse(&mut self, flow: &mut Flow, packet: &Packet) {
        // What brings data brings an ACK, too: its length is not asked for.
        if let Some(rst) = packet.segment(b"").refusal() {
            self.send(flow, &rst);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::Os;
    use tidegate_policy::time_wait::negotiate;

    use super::*;
    use crate::machine::Machine;
    use crate::setup::Setup;

    /// Without clocks a SYN is new by its number or not at all; its own host says so at once.
    #[test]
    fn a_pair_that_is_held_blocks_a_syn_that_may_be_old() {
        let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
        setup.crowd.person.time_wait = negotiate(Some(End::Client));
        let mut ends = Ends::of(&setup);
        let last = LastNumbers { sent: 1000, expected: 7, clocks: None, swapped: false };
        assert!(ends.hold(End::Client, 3, &last, 0));
        let mut wire = Wire::new(&setup.way, setup.machine.clients, ends, true, 1);
        for (seq, goes) in [(999, false), (1000, false), (1001, true)] {
            let before = wire.segments.syn_sent;
            let (pair, now_ns, delay_ns) = (3, 5, setup.way.wire_ns);
            let mut post =
                Post { wire: &mut wire, place: 0, pair, now_ns, delay_ns, packets: 0, syns: 0 };
            post.send(Segment { flags: Flags::SYN, seq, ..Segment::default() });
            assert_eq!(wire.segments.syn_sent > before, goes, "{seq}");
            let (_, event) = wire.queue.take_next().unwrap();
            let is_refused = |packet: Packet| packet.flags.has(Flags::RST);
            assert!(match event {
                Event::AtClient(packet) => is_refused(packet) && !goes,
                Event::AtServer(_) => goes,
                _ => false,
            });
        }
    }
}
