// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments that come (RFC 9293, section 3.10.7; RFC 5961; RFC 7323, section 5).

use super::acks::Came;
use super::{Connection, Ended, MS_NS, NEVER};
use crate::os::OnRefusal;
use crate::segment::{Flags, Out, Segment, is_before};

/// The MSS of a server that names none (RFC 9293, section 3.7.1), and the least believed.
const MSS_DEFAULT: u16 = 536;
const MSS_LEAST: u16 = 88;
/// A window may be shifted by no more (RFC 7323, section 2.3).
const SHIFT_MAX: u8 = 14;
const CLOCKS_BYTES: u16 = 12;

/// What a segment brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received<'a> {
    /// The connection was just established.
    pub connected: bool,
    /// Data, next in order.
    pub data: &'a [u8],
    /// The server's side has ended, after the data.
    pub fin: bool,
}

impl Connection {
    /// Takes a segment. Afterwards [`Connection::ended`] and [`Connection::next_timer_ns`] may
    /// have changed.
    pub fn receive<'a>(
        &mut self,
        now_ns: u64,
        segment: &Segment<'a>,
        data: &[u8],
        out: &mut impl Out,
    ) -> Received<'a> {
        if self.ended.is_some() {
            return Received::default();
        }
        if !self.is_connected {
            return Received {
                connected: self.receive_while_connecting(now_ns, segment, out),
                ..Received::default()
            };
        }
        if !self.accepts(now_ns, segment, out) {
            return Received::default();
        }
        self.agreement.is_heard();
        self.take_ack(now_ns, segment, out);
        if self.ended.is_some() {
            return Received::default();
        }
        let received = self.take_data(now_ns, segment, out);
        self.push(now_ns, data, out);
        received
    }

    /// Whether the server has closed its side.
    #[must_use]
    pub fn has_server_closed(&self) -> bool {
        self.fin_received
    }

    fn receive_while_connecting(
        &mut self,
        now_ns: u64,
        segment: &Segment<'_>,
        out: &mut impl Out,
    ) -> bool {
        let has = |flags| segment.flags.has(flags);
        if !has(Flags::ACK) {
            return false;
        }
        if segment.ack != self.next {
            segment.refusal().into_iter().for_each(|rst| out.send(rst));
            return false;
        }
        if has(Flags::RST) {
            self.refused(now_ns, out);
            return false;
        }
        if has(Flags::SYN) && !self.agreement.accepts(segment.options.time_wait, out) {
            segment.refusal().into_iter().for_each(|rst| out.send(rst));
            self.ended = Some(Ended::Refused);
            return false;
        }
        if has(Flags::SYN) {
            self.establish(now_ns, segment);
            self.acknowledge(now_ns, out);
        }
        has(Flags::SYN)
    }

    fn refused(&mut self, now_ns: u64, out: &mut impl Out) {
        // The RST is for a SYN that another RST has answered: that SYN will be sent again anyway.
        if self.was_refused {
            return;
        }
        let is_last = usize::from(self.syns) > self.os.syn_again_ms.len();
        match self.os.on_refusal {
            OnRefusal::SynAgain { after_ms, times } if self.refusals < times && !is_last => {
                self.refusals += 1;
                self.was_refused = true;
                self.again_at_ns = now_ns + u64::from(after_ms) * MS_NS;
                if after_ms == 0 {
                    self.send_syn(now_ns, out);
                }
            }
            _ => self.ended = Some(Ended::Refused),
        }
    }

    fn establish(&mut self, now_ns: u64, syn_ack: &Segment<'_>) {
        let options = &syn_ack.options;
        self.is_connected = true;
        self.expected = syn_ack.seq.wrapping_add(1);
        self.room = u32::from(syn_ack.window);
        self.unacked = syn_ack.ack;
        self.has_sack = self.os.sack && options.sack_permitted;
        if let (Some(_), Some(shift)) = (self.os.window_scale, options.window_scale) {
            self.has_shift = true;
            self.server_shift = shift.min(SHIFT_MAX);
        }
        let server_mss = options.mss.unwrap_or(MSS_DEFAULT).max(MSS_LEAST);
        self.segment_max = self.segment_max.min(server_mss);
        if let (Some(_), Some(clocks)) = (self.os.timestamp_tick_us, options.timestamps) {
            self.has_clocks = true;
            self.server_clock = clocks.value;
            self.segment_max = self.segment_max.saturating_sub(CLOCKS_BYTES).max(1);
        }
        if self.syns == 1 {
            self.round_trip.measured(now_ns - self.timed_at_ns);
        } else {
            self.measure_by_clock(now_ns, syn_ack);
        }
        (self.again_at_ns, self.quits_at_ns, self.timed_at_ns) = (NEVER, NEVER, NEVER);
    }

    /// Whether the segment belongs to this connection, now; it is answered if it must be.
    fn accepts(&mut self, now_ns: u64, segment: &Segment<'_>, out: &mut impl Out) -> bool {
        let is_rst = segment.flags.has(Flags::RST);
        let end = segment.seq.wrapping_add(segment.sequence_length());
        let last = self.expected.wrapping_add(self.os.window);
        let is_in_window = self.acks.ends_late_enough(end) && !is_before(last, segment.seq);
        if is_rst {
            if segment.seq == self.expected {
                self.is_cut(Ended::Reset, now_ns, out);
            } else if is_in_window {
                // A challenge: a real RST will come again with the number that it tells (RFC 5961).
                self.acknowledge(now_ns, out);
            }
            return false;
        }
        if self.is_old(segment) || !is_in_window || segment.flags.has(Flags::SYN) {
            self.acknowledge(now_ns, out);
            return false;
        }
        segment.flags.has(Flags::ACK) && !is_before(self.sent_max, segment.ack)
    }

    /// Whether its clock says that it is from before what came already (PAWS).
    fn is_old(&self, segment: &Segment<'_>) -> bool {
        let clock = segment.options.timestamps.map(|clocks| clocks.value);
        self.has_clocks && clock.is_some_and(|clock| is_before(clock, self.server_clock))
    }

    fn take_ack(&mut self, now_ns: u64, segment: &Segment<'_>, out: &mut impl Out) {
        if let Some(clocks) = segment.options.timestamps.filter(|_| self.has_clocks)
            && self.acks.covers(segment.seq)
        {
            self.server_clock = clocks.value;
        }
        if is_before(segment.ack, self.unacked) {
            return;
        }
        self.room = u32::from(segment.window) << self.server_shift;
        if segment.ack == self.unacked {
            self.probe_is_answered();
            return;
        }
        self.unacked = segment.ack;
        if is_before(self.next, self.unacked) {
            self.next = self.unacked;
        }
        if self.timed_at_ns == NEVER {
            self.measure_by_clock(now_ns, segment);
        } else if !is_before(self.unacked, self.timed_end) {
            self.round_trip.measured(now_ns - self.timed_at_ns);
            self.timed_at_ns = NEVER;
        }
        (self.backoff, self.times_again, self.has_probed) = (0, 0, false);
        self.watch(now_ns);
        if self.fin_is_acked() && self.fin_received {
            self.is_over(now_ns, out);
        }
        self.wait_for_fin(now_ns);
    }

    /// The server has said how much room it has. As long as it does, the connection stays (RFC 9293,
    /// section 3.8.6.1), but for one whose application has left; and what is sent into new room has the
    /// usual time (tcp_ack_probe() in Linux).
    fn probe_is_answered(&mut self) {
        if self.unacked != self.sent_max || !self.is_open {
            return;
        }
        self.times_again = 0;
        if self.room > 0 {
            self.backoff = 0;
        }
    }

    /// A round trip by the clock that came back, where it cannot be timed (RFC 7323, section 4).
    fn measure_by_clock(&mut self, now_ns: u64, segment: &Segment<'_>) {
        let Some(clocks) = segment.options.timestamps.filter(|_| self.has_clocks) else {
            return;
        };
        let ticks = self.clock(now_ns).wrapping_sub(clocks.echo);
        let tick_ns = u64::from(self.os.timestamp_tick_us.unwrap_or(1000)) * 1000;
        let took_ns = u64::from(ticks.max(1)) * tick_ns;
        // An echo of something else would be years off.
        if took_ns <= u64::from(self.os.rto_max_ms) * MS_NS {
            self.round_trip.measured(took_ns);
        }
    }

    fn take_data<'a>(
        &mut self,
        now_ns: u64,
        segment: &Segment<'a>,
        out: &mut impl Out,
    ) -> Received<'a> {
        let length = segment.payload.len() as u32;
        let has_fin = segment.flags.has(Flags::FIN);
        if length == 0 && !has_fin {
            return Received::default();
        }
        let end = segment.seq.wrapping_add(length);
        let has_new_data = length > 0 && is_before(self.expected, end);
        if has_new_data && !self.is_open {
            // Nobody is there to read it (RFC 9293, section 3.6.1; Shukla, figure 4.11).
            segment.refusal().into_iter().for_each(|rst| out.send(rst));
            self.ended = Some(Ended::Aborted);
            return Received::default();
        }
        let is_ahead = is_before(self.expected, segment.seq);
        let has_new_fin = has_fin && end == self.expected;
        let is_repeated = !has_new_data && !has_new_fin;
        if is_ahead || is_repeated || self.fin_received {
            self.acks.lost_something(self.os.quick_acks);
            self.acknowledge(now_ns, out);
            return Received::default();
        }
        let mut received = Received::default();
        let mut acknowledges = false;
        if has_new_data {
            let known = self.expected.wrapping_sub(segment.seq) as usize;
            received.data = &segment.payload[known..];
            self.expected = end;
            let came = Came {
                bytes: received.data.len(),
                pushes: segment.flags.has(Flags::PSH),
                expected: end,
                rto_ns: self.round_trip.timeout_ns(self.os, 0),
            };
            let (quick, delayed_ms) = (self.os.quick_acks, self.os.delayed_ack_ms);
            acknowledges = self.acks.data_came(now_ns, &came, quick, delayed_ms);
        }
        if has_fin {
            received.fin = true;
            self.take_fin(now_ns, out);
            acknowledges = self.fin_is_sent();
        }
        if acknowledges {
            self.acknowledge(now_ns, out);
        }
        received
    }

    fn take_fin(&mut self, now_ns: u64, out: &mut impl Out) {
        self.expected = self.expected.wrapping_add(1);
        self.fin_received = true;
        self.acks.fin_came(now_ns, self.os.delayed_ack_ms);
        if self.fin_is_acked() {
            self.is_over(now_ns, out);
        }
    }
}
