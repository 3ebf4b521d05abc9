// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The FIN stage: rst-fin (Shukla, section 4.2.1), by the policy itself.

use tidegate_client::Flags;
use tidegate_policy::decide_fin;
use tidegate_policy::raw::{
    TG_CONNECTION_CLOSING, TG_CONNECTION_NONE, TG_CONNECTION_OPEN, TG_HALF_CLOSE, TG_RESET, tg_fin,
};

use super::{Conn, Host, State};
use crate::flow::Flow;
use crate::packet::Packet;
use crate::wire::Work;

impl Conn {
    /// What the policy is to know of it, and of a FIN to it.
    fn fin(&self, packet: &Packet, window: u32) -> tg_fin {
        let connection = match self.state {
            State::Queued | State::Accepted if !self.fin_seen => TG_CONNECTION_OPEN,
            State::Queued | State::Accepted | State::Closing => TG_CONNECTION_CLOSING,
            State::None | State::HalfOpen | State::TimeWait => TG_CONNECTION_NONE,
        };
        // Requests come whole, and are read whole.
        let is_read = self.requests == 0;
        tg_fin {
            connection,
            payload_bytes: packet.length.into(),
            is_signed: 0,
            seq: packet.seq,
            ack: packet.ack,
            rcv_nxt: self.expected,
            rcv_end: self.expected.wrapping_add(window),
            copied_seq: self.expected.wrapping_sub(u32::from(!is_read)),
            snd_una: self.unacked,
            snd_nxt: self.sent_max,
            write_seq: self.data_end,
        }
    }
}

impl Host {
    /// Judges a FIN; true where it ended the connection. Then the kernel has had a RST in its place,
    /// and the client has got one.
    pub(super) fn ends_by_fin(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) -> bool {
        let is_fin = packet.flags.has(Flags::FIN) && packet.flags.has(Flags::ACK);
        let Some(guard) = self.guard.as_ref().filter(|guard| guard.rules.fin != TG_HALF_CLOSE)
        else {
            return false;
        };
        if !is_fin || packet.flags.has(Flags::SYN) || packet.flags.has(Flags::RST) {
            return false;
        }
        let decision = decide_fin(guard.rules.fin, &flow.conn.fin(packet, self.profile.window()));
        self.counted.judge(decision);
        // A look at the connection, as a SYN costs one at its listening socket.
        work.took.guard_ns += self.costs.hook_ns;
        if decision.verdict != TG_RESET {
            return false;
        }
        work.comes_up();
        work.tcp_takes(self.costs.segment_ns);
        work.answer_fin(flow, packet);
        self.reset(flow, work);
        true
    }
}
