// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replies and FINs on their way, and sending them again (RFC 5681, RFC 6298).
//!
//! What is lost is sent again with everything after it, since these clients keep nothing that comes
//! out of order.

use tidegate_client::Flags;
use tidegate_client::segment::is_before;

use super::conn::NEVER;
use super::{Host, State};
use crate::flow::Flow;
use crate::packet::Packet;
use crate::wire::Work;

const MS_NS: u64 = 1_000_000;
const RTO_LEAST_NS: u64 = 200 * MS_NS;
/// While no round trip is known.
const RTO_INITIAL_NS: u64 = 1000 * MS_NS;
/// `tcp_retries2`; an orphan's are fewer.
const AGAIN_MAX: u8 = 15;
const ORPHAN_AGAIN_MAX: u8 = 7;
/// Acknowledgements of the same that tell of a loss.
const SAME_ACKS: u8 = 3;
const FLIGHT_LEAST: u16 = 2;
const FLIGHT_MAX: u16 = 1000;

impl Host {
    /// The application begins the reply to a request that it has read.
    pub(crate) fn begin_reply(&mut self, flow: &mut Flow) {
        let conn = &mut flow.conn;
        let request = flow.first.wrapping_add(u32::from(conn.served));
        conn.requests -= 1;
        conn.served = conn.served.wrapping_add(1);
        conn.page = self.pages.asked(request);
        conn.left = self.pages.length(conn.page);
        conn.reply_begins = conn.data_end;
        conn.reply_end = conn.data_end.wrapping_add(conn.left);
        conn.replies = true;
    }

    /// The application hands over as much of the reply as there is room for.
    pub(crate) fn hand_over(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let bytes = conn.left.min(conn.room(self.profile));
        conn.data_end = conn.data_end.wrapping_add(bytes);
        conn.left -= bytes;
        conn.replies = conn.left > 0;
        conn.alternates = true;
        self.push(flow, work);
    }

    /// The application closes. What it left unread makes it a RST, as in Linux.
    pub(crate) fn close(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        if conn.was_reset {
            return conn.forget(work.wire);
        }
        if conn.requests > 0 {
            let (seq, now_ns) = (conn.next, work.now_ns());
            let segment = conn.segment(self.profile, now_ns, Flags::RST, seq, b"");
            work.send(flow, &segment);
            return flow.conn.forget(work.wire);
        }
        conn.state = State::Closing;
        // What it has not handed over of a reply is never sent.
        (conn.replies, conn.left, conn.reply_end) = (false, 0, conn.data_end);
        conn.wants_fin = true;
        conn.closed_first = !conn.fin_seen;
        conn.patience_at_ns = NEVER;
        self.push(flow, work);
    }

    /// Sends what there is to send, as far as both windows reach.
    pub(super) fn push(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let was_idle = flow.conn.unacked == flow.conn.sent_max;
        let mut sent = 0;
        loop {
            let conn = &mut flow.conn;
            if is_before(conn.next, conn.data_end) {
                if !self.send_data(flow, sent, work) {
                    break;
                }
            } else if conn.wants_fin && conn.next == conn.data_end {
                self.send_fin(flow, work);
            } else {
                break;
            }
            sent += 1;
        }
        if sent > 0 && was_idle {
            self.watch(flow, work);
        }
    }

    /// One segment, the one after so many others; `false` when it has to wait.
    fn send_data(&mut self, flow: &mut Flow, sent: u32, work: &mut Work<'_>) -> bool {
        let conn = &mut flow.conn;
        let (seq, mss) = (conn.next, u32::from(conn.mss));
        let length = conn.data_end.wrapping_sub(seq).min(mss);
        let end = seq.wrapping_add(length);
        // What does not fill a segment waits for the rest of the reply.
        if length < mss && end != conn.reply_end {
            return false;
        }
        let under_way = seq.wrapping_sub(conn.unacked);
        let reach = conn.window.min(u32::from(conn.flight) * mss);
        if under_way > 0 && under_way + length > reach {
            return false;
        }
        if sent.is_multiple_of(self.profile.segments_a_frame()) {
            work.tcp_takes(self.costs.make_ns);
            work.frame_goes_out();
        }
        let (page, begins) = (conn.page, seq == conn.reply_begins);
        let flags = if end == conn.reply_end { Flags::PSH } else { Flags::ACK };
        let payload = self.pages.bytes(page, begins, length as u16);
        let segment = conn.segment(self.profile, work.now_ns(), flags, seq, payload);
        let packet = Packet::of(work.place, &segment).of_page(page, begins);
        self.has_sent(flow, end);
        work.deliver(flow, packet);
        true
    }

    fn send_fin(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let seq = conn.next;
        let segment = conn.segment(self.profile, work.now_ns(), Flags::FIN, seq, b"");
        self.has_sent(flow, seq.wrapping_add(1));
        work.send(flow, &segment);
    }

    fn has_sent(&self, flow: &mut Flow, end: u32) {
        let conn = &mut flow.conn;
        conn.next = end;
        if is_before(conn.sent_max, end) {
            conn.sent_max = end;
        }
    }

    /// An acknowledgement of an established connection.
    pub(super) fn take_ack(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        if is_before(packet.ack, conn.unacked) || is_before(conn.sent_max, packet.ack) {
            return;
        }
        conn.takes_window(packet);
        if packet.ack == conn.unacked {
            return self.take_same_ack(flow, packet, work);
        }
        conn.unacked = packet.ack;
        if is_before(conn.next, conn.unacked) {
            conn.next = conn.unacked;
        }
        (conn.again, conn.same_acks) = (0, 0);
        conn.grow_flight();
        if conn.unacked == conn.sent_max {
            conn.again_at_ns = NEVER;
        } else {
            self.watch(flow, work);
        }
        if flow.conn.state == State::Closing && flow.conn.fin_is_acked() {
            return self.fin_acked(flow, work);
        }
        self.push(flow, work);
        if flow.conn.replies {
            self.tell(flow, work.place);
        }
    }

    fn take_same_ack(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let is_bare = packet.length == 0 && !packet.flags.has(Flags::FIN);
        if conn.unacked == conn.sent_max || !is_bare {
            return self.push(flow, work);
        }
        conn.same_acks = conn.same_acks.saturating_add(1);
        if conn.same_acks == SAME_ACKS {
            conn.flight_slow = (conn.under_way() / 2).max(FLIGHT_LEAST);
            conn.flight = conn.flight_slow;
            conn.next = conn.unacked;
            self.push(flow, work);
        }
    }

    /// Waits anew for an acknowledgement.
    fn watch(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let round_trip_ns = u64::from(conn.round_trip_us) * 1000;
        let once_ns = match round_trip_ns {
            0 => RTO_INITIAL_NS,
            ns => ns + (2 * ns).max(RTO_LEAST_NS),
        };
        conn.again_at_ns = work.now_ns() + (once_ns << conn.again.min(10));
        conn.wake_at(work.place, conn.again_at_ns, work.wire);
    }

    /// No acknowledgement came in time.
    pub(super) fn send_again(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        conn.again += 1;
        let is_orphan = conn.state == State::Closing;
        if conn.again > if is_orphan { ORPHAN_AGAIN_MAX } else { AGAIN_MAX } {
            if is_orphan {
                return self.closed(flow, work);
            }
            return self.reset(flow, work);
        }
        if conn.again == 1 {
            conn.flight_slow = (conn.under_way() / 2).max(FLIGHT_LEAST);
        }
        (conn.flight, conn.same_acks) = (1, 0);
        conn.next = conn.unacked;
        work.tcp_takes(self.costs.segment_ns);
        self.push(flow, work);
        self.watch(flow, work);
    }
}

impl super::Conn {
    /// Segments sent that are not acknowledged.
    fn under_way(&self) -> u16 {
        let bytes = self.sent_max.wrapping_sub(self.unacked);
        bytes.div_ceil(u32::from(self.mss).max(1)).min(u32::from(FLIGHT_MAX)) as u16
    }

    /// Slow start, then a segment more each flight.
    fn grow_flight(&mut self) {
        if self.flight < self.flight_slow {
            self.flight = (self.flight + 1).min(FLIGHT_MAX);
            return;
        }
        self.acks += 1;
        if self.acks >= self.flight {
            self.acks = 0;
            self.flight = (self.flight + 1).min(FLIGHT_MAX);
        }
    }

    /// The handshake is complete.
    pub(super) fn begin_flight(&mut self, first_flight: u16) {
        self.flight = first_flight;
        self.flight_slow = FLIGHT_MAX;
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::Os;
    use tidegate_scenarios::Page;

    use crate::machine::Machine;
    use crate::pages::Pages;
    use crate::setup::Setup;
    use crate::stack::{Conn, Profile};
    use crate::world::World;

    /// Nothing is unread, so that Linux' close() sends what write() took, and a FIN.
    #[test]
    fn who_is_given_up_amid_a_reply_gets_what_was_handed_over_and_no_rst() {
        const PLACE: u32 = 0;
        // A third of its 8 KiB is free before it is told that it can go on.
        let machine = Machine { profile: Profile::Windows, ..Machine::today() };
        let mut setup = Setup::one_packet(machine, None, Os::linux());
        setup.pages = Pages::of(Page::Specweb99, 1);
        setup.crowd.person.requests = setup.pages.requests("h");
        let mut world = World::new(setup);
        let waits = |conn: &Conn| conn.replies && !conn.is_ready;
        while !(world.balance.attempts > 0 && waits(&world.flows.get(PLACE).conn)) {
            assert!(world.advance());
        }
        let (now_ns, served) = (world.now_ns(), world.balance.served);
        let flow = world.flows.get(PLACE);
        flow.conn.is_overdue = true;
        world.host.tell(flow, PLACE);
        world.host.wake(now_ns, &mut world.wire);
        while world.balance.attempts == served + 1 {
            assert!(world.advance());
        }
        let balance = world.balance();
        assert_eq!((balance.served, balance.others), (served, 1), "closed early: {balance:?}");
        assert_eq!(world.wire.segments.rst_received, 0);
    }
}
