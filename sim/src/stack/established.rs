// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Established connections: requests, replies, and the end (RFC 9293, section 3.10.7.4).

use tidegate_client::segment::is_before;
use tidegate_client::{Flags, TIME_WAIT_NS};

use super::conn::NEVER;
use super::{Host, State};
use crate::flow::Flow;
use crate::hook::Hook;
use crate::packet::Packet;
use crate::wire::Work;

const SECOND_NS: u64 = 1_000_000_000;
const DELAYED_ACK_NS: u64 = 40_000_000;
/// `tcp_fin_timeout`.
const FIN_WAIT_NS: u64 = 60 * SECOND_NS;

impl Host {
    pub(super) fn established(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        work.tcp_takes(self.costs.segment_ns);
        let conn = &mut flow.conn;
        let window_end = conn.expected.wrapping_add(self.profile.window());
        let in_window = !is_before(packet.end(), conn.expected)
            && !is_before(window_end, packet.seq)
            && !packet.flags.has(Flags::SYN);
        if packet.flags.has(Flags::RST) {
            if in_window {
                self.reset(flow, work);
            }
            return;
        }
        if !in_window {
            return self.acknowledge(flow, work);
        }
        if let Some(clocks) = packet.clocks() {
            conn.peer_clock = clocks.value;
        }
        self.take_ack(flow, packet, work);
        let conn = &flow.conn;
        let is_over = matches!(conn.state, State::None | State::TimeWait);
        if !is_over && (packet.length > 0 || packet.flags.has(Flags::FIN)) {
            self.take_data(flow, packet, work);
        }
    }

    /// A RST came. In the listen queue the connection keeps its place until it is accepted.
    pub(super) fn reset(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        if conn.state == State::Closing {
            return self.closed(flow, work);
        }
        conn.was_reset = true;
        conn.again_at_ns = NEVER;
        conn.ack_at_ns = NEVER;
        conn.patience_at_ns = NEVER;
        self.tell(flow, work.place);
    }

    fn take_data(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let has_fin = packet.flags.has(Flags::FIN);
        let data_end = packet.seq.wrapping_add(u32::from(packet.length));
        let has_new_data = is_before(conn.expected, data_end);
        if has_new_data && conn.state == State::Closing {
            self.refuse_at(Hook::Tcp, flow, packet, work);
            return flow.conn.forget(work.wire);
        }
        let has_new_fin = has_fin && is_before(conn.expected, packet.end());
        let is_ahead = is_before(conn.expected, packet.seq);
        if is_ahead || !(has_new_data || has_new_fin) {
            return self.acknowledge(flow, work);
        }
        // A client sends a request as one segment, so new data is a whole one.
        conn.requests += u16::from(has_new_data);
        conn.expected = packet.end();
        conn.fin_seen |= has_fin;
        conn.heard_at_ns = work.now_ns();
        if has_fin && conn.state == State::Closing {
            self.acknowledge(flow, work);
            if flow.conn.fin_is_acked() {
                self.begin_time_wait(flow, work);
            }
            return;
        }
        if conn.alternates {
            let due_ns = work.now_ns() + DELAYED_ACK_NS;
            conn.ack_at_ns = due_ns;
            conn.wake_at(work.place, due_ns, work.wire);
        } else {
            self.acknowledge(flow, work);
        }
        self.tell(flow, work.place);
    }

    pub(super) fn acknowledge(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        work.tcp_takes(self.costs.make_ns);
        let seq = flow.conn.sent_max;
        let segment = flow.conn.segment(self.profile, work.now_ns(), Flags::ACK, seq, b"");
        work.send(flow, &segment);
    }

    /// Our FIN is acknowledged. Who closed first waits: for the client's, or for strays.
    pub(super) fn fin_acked(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        if !conn.closed_first {
            return self.closed(flow, work);
        }
        if conn.fin_seen {
            return self.begin_time_wait(flow, work);
        }
        conn.again_at_ns = work.now_ns() + FIN_WAIT_NS;
        conn.wake_at(work.place, conn.again_at_ns, work.wire);
    }

    fn begin_time_wait(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        if self.leaves(flow, work) {
            return;
        }
        let conn = &mut flow.conn;
        if conn.state != State::TimeWait {
            let counted = &mut self.counted;
            counted.time_waits += 1;
            counted.time_waits_held += 1;
            counted.wait(work);
        }
        conn.state = State::TimeWait;
        conn.ack_at_ns = NEVER;
        conn.again_at_ns = work.now_ns() + TIME_WAIT_NS;
        conn.wake_at(work.place, conn.again_at_ns, work.wire);
    }

    pub(super) fn end_time_wait(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        self.counted.time_waits_held -= 1;
        flow.conn.forget(work.wire);
    }

    /// A RST ends TIME-WAIT, a FIN begins it anew (RFC 9293, section 3.10.7.4). A SYN is judged as one
    /// to the listening socket, and may end it where it comes to TCP.
    pub(super) fn segment_in_time_wait(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) {
        if packet.is_syn() {
            return self.syn(flow, packet, work);
        }
        work.comes_to_tcp(&self.costs);
        if packet.flags.has(Flags::RST) {
            if packet.seq == flow.conn.expected {
                self.end_time_wait(flow, work);
            }
            return;
        }
        if packet.flags.has(Flags::FIN) {
            self.begin_time_wait(flow, work);
        }
        if packet.sequence_length() > 0 {
            self.acknowledge(flow, work);
        }
    }

    pub(super) fn established_timer(&mut self, flow: &mut Flow, now_ns: u64, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        if conn.ack_at_ns <= now_ns {
            conn.alternates = false;
            self.acknowledge(flow, work);
        }
        let conn = &mut flow.conn;
        if conn.patience_at_ns <= now_ns {
            conn.patience_at_ns = NEVER;
            // Who is queued for a turn waits for the application, whose patience begins anew with that.
            conn.is_overdue = !conn.is_ready;
            self.tell(flow, work.place);
        }
        let conn = &mut flow.conn;
        if conn.again_at_ns <= now_ns {
            if conn.state == State::TimeWait {
                return self.end_time_wait(flow, work);
            }
            if conn.fin_is_acked() {
                return conn.forget(work.wire);
            }
            return self.send_again(flow, work);
        }
        let due_ns = conn.again_at_ns.min(conn.ack_at_ns).min(conn.patience_at_ns);
        if due_ns != NEVER {
            conn.wake_at(work.place, due_ns, work.wire);
        }
    }
}
