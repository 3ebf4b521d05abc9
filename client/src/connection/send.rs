// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYN, data and FIN, and sending them again.

use super::{Connection, Ended, MS_NS, NEVER};
use crate::segment::{Flags, Options, Out, Segment, is_before};

/// How many segments may be under way (RFC 6928).
const UNDER_WAY_MAX: u32 = 10;

impl Connection {
    pub(super) fn send_syn(&mut self, now_ns: u64, out: &mut impl Out) {
        let times_ms = self.os.syn_again_ms;
        let due_ms = |place: usize| times_ms.get(place).map(|ms| u64::from(*ms) * MS_NS);
        let place = usize::from(self.syns);
        if self.was_refused {
            // After a RST, silence is met as it would be after a retransmission in turn.
            self.was_refused = false;
            let turn_ns = place.checked_sub(1).and_then(due_ms).unwrap_or(0);
            self.timed_at_ns = now_ns.saturating_sub(turn_ns);
        }
        self.syns = self.syns.saturating_add(1);
        self.again_at_ns = due_ms(place).map_or(NEVER, |due_ns| self.timed_at_ns + due_ns);
        out.send(Segment {
            flags: Flags::SYN,
            seq: self.unacked,
            window: self.os.syn_window,
            options: Options {
                mss: Some(self.segment_max),
                window_scale: self.os.window_scale,
                sack_permitted: self.os.sack,
                timestamps: self.os.timestamp_tick_us.map(|_| self.clocks(now_ns)),
                time_wait: self.agreement.offered(),
            },
            ..Segment::default()
        });
    }

    /// Sends data and the FIN behind it, in one segment where they fit, and goes on reading.
    /// Everything sent before must be acknowledged.
    pub fn send_last(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        debug_assert!(self.is_drained() && !self.wants_fin);
        self.data_end = self.data_end.wrapping_add(data.len() as u32);
        self.wants_fin = true;
        self.closed_first = !self.fin_received;
        self.push(now_ns, data, out);
    }

    /// Sends what has not been sent yet, as far as the server has room.
    pub(super) fn push(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        let was_idle = self.unacked == self.sent_max;
        let mut is_new = false;
        // After a loss one segment at a time, until something is acknowledged.
        let may_send = |connection: &Self| {
            let is_fin = connection.next == connection.data_end;
            connection.backoff == 0
                || connection.next == connection.unacked
                || is_fin && !connection.os.fin_waits
        };
        while self.ended.is_none() && self.has_unsent() && may_send(self) {
            let room = self.room.min(UNDER_WAY_MAX * u32::from(self.segment_max));
            let under_way = self.next.wrapping_sub(self.unacked);
            let Some(end) =
                self.transmit(self.next, room.saturating_sub(under_way), now_ns, data, out)
            else {
                break;
            };
            self.next = end;
            if is_before(self.sent_max, end) {
                is_new = true;
                self.sent_max = end;
                if self.timed_at_ns == NEVER {
                    (self.timed_at_ns, self.timed_end) = (now_ns, end);
                }
            }
        }
        let waits_for_room = was_idle && self.has_unsent() && self.again_at_ns == NEVER;
        if is_new && (was_idle || self.probes()) || waits_for_room {
            self.watch(now_ns);
        }
    }

    fn has_unsent(&self) -> bool {
        is_before(self.next, self.data_end) || (self.wants_fin && self.next == self.data_end)
    }

    /// Sends one segment from `from` on with at most `most` bytes, and the FIN if that comes next.
    /// Says where it ended; `None` if it would have been empty.
    fn transmit(
        &mut self,
        from: u32,
        most: u32,
        now_ns: u64,
        data: &[u8],
        out: &mut impl Out,
    ) -> Option<u32> {
        let left = self.data_end.wrapping_sub(from);
        let fits = u32::from(self.segment_max) - self.agreement.option_bytes();
        let length = left.min(most).min(fits);
        let begin = (data.len() as u32).checked_sub(left)? as usize;
        let payload = data.get(begin..begin + length as usize)?;
        let is_last = length == left;
        let mut flags = Flags::ACK;
        if length > 0 {
            self.acks.data_sent(now_ns, self.os.delayed_ack_ms);
            if is_last {
                flags |= Flags::PSH;
            }
        }
        // A FIN joins data that has not been sent before; and, once it has gone out itself, what is sent
        // again (tcp_retrans_try_collapse() in Linux from 2.4 to 6.18, tcp_output() in BSD).
        let joins = from == self.sent_max || self.fin_is_sent();
        let has_fin = is_last && self.wants_fin && (length == 0 || joins);
        if has_fin {
            flags |= Flags::FIN;
        } else if length == 0 {
            return None;
        }
        let segment = self.segment(now_ns, flags, from, payload);
        out.send(segment);
        Some(from.wrapping_add(length + u32::from(has_fin)))
    }

    fn probes(&self) -> bool {
        self.os.tail_loss_probe && self.has_sack && self.backoff == 0 && !self.has_probed
    }

    /// Waits anew for an acknowledgement of what is under way, if anything is.
    pub(super) fn watch(&mut self, now_ns: u64) {
        if self.unacked == self.sent_max && !self.has_unsent() {
            self.again_at_ns = NEVER;
            return;
        }
        let under_way = self.sent_max.wrapping_sub(self.unacked);
        self.probes_next = self.probes() && under_way > 0;
        let wait_ns = if self.probes_next {
            self.round_trip.probe_ns(self.os, under_way <= u32::from(self.segment_max))
        } else {
            self.round_trip.timeout_ns(self.os, self.backoff)
        };
        self.again_at_ns = now_ns + wait_ns;
    }

    /// No acknowledgement came in time.
    pub(super) fn send_again(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        // What was sent twice tells nothing about a round trip (Karn).
        self.timed_at_ns = NEVER;
        if self.probes_next {
            self.has_probed = true;
            let tail = self.tail();
            let _ = self.transmit(tail, u32::MAX, now_ns, data, out);
            self.watch(now_ns);
            return;
        }
        self.times_again += 1;
        let most = if self.is_open { self.os.data_again_max } else { self.os.orphan_again_max };
        if self.times_again > most {
            return self.is_cut(Ended::TimedOut, now_ns, out);
        }
        self.backoff = self.backoff.saturating_add(1);
        if self.unacked == self.sent_max {
            // The server has no room: ask whether that is still so (RFC 9293, section 3.8.6.1).
            let probe = self.segment(now_ns, Flags::ACK, self.unacked.wrapping_sub(1), b"");
            out.send(probe);
        } else if let Some(end) = self.transmit(self.unacked, u32::MAX, now_ns, data, out) {
            self.next = end;
        }
        self.watch(now_ns);
    }

    /// Where the last segment under way begins.
    fn tail(&self) -> u32 {
        if self.fin_is_sent() {
            return self.data_end;
        }
        let full = self.sent_max.wrapping_sub(u32::from(self.segment_max));
        if is_before(full, self.unacked) { self.unacked } else { full }
    }
}
