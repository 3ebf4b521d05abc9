// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, at the server (Faber, section 3): its answer in the handshake, and what
//! becomes of the pair in the end, by the policy itself.

use tidegate_client::LastNumbers;
use tidegate_policy::raw::TG_TW_NOBODY;
use tidegate_policy::time_wait::{self, Close, End, Ending};

use super::{Host, State};
use crate::flow::Flow;
use crate::network::Packet;
use crate::wire::Work;

/// What is kept of a SYN that is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Request,
    /// The SYN/ACK is a cookie.
    Nothing,
}

impl Host {
    /// Step 2: whom the SYN/ACK names.
    pub(super) fn names(
        &self,
        flow: &Flow,
        packet: &Packet,
        keeps: Keeps,
        work: &mut Work<'_>,
    ) -> Option<End> {
        if self.time_wait.negotiate == TG_TW_NOBODY || packet.named().is_none() {
            return None;
        }
        // A program makes the option, as one looks at a SYN.
        work.took.guard_ns += self.costs.hook_ns;
        let now_ns = work.now_ns();
        let can_hold =
            keeps == Keeps::Request && work.wire.ends.can_hold(End::Server, flow.pair, now_ns);
        time_wait::answer(&self.time_wait, packet.named(), can_hold)
    }

    /// What is agreed when the handshake is over.
    pub(super) fn agree(&self, flow: &mut Flow, packet: &Packet) {
        if let Some(named) = flow.conn.named {
            flow.conn.agreed = time_wait::settle(End::Server, Some(named), packet.named());
        }
    }

    /// Before TIME-WAIT: whether the other end holds it, and nothing is left here.
    pub(super) fn leaves(&mut self, flow: &mut Flow, work: &mut Work<'_>) -> bool {
        let agreed = flow.conn.agreed;
        let ending = time_wait::end(agreed, End::Server, Close::Active, false);
        if ending != Ending::Leave {
            return false;
        }
        // The FIN is looked up, and a RST of our own goes up behind it.
        work.took.guard_ns += self.costs.hook_ns;
        work.comes_to_tcp(&self.costs);
        self.counted.time_waits_left += 1;
        flow.conn.forget(work.wire);
        true
    }

    /// A connection that the application has closed is CLOSED, whatever ended it. In LAST-ACK, the
    /// client counts on us where so agreed.
    pub(super) fn closed(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &flow.conn;
        let is_last_ack = conn.state == State::Closing && conn.fin_seen && !conn.closed_first;
        let ending = time_wait::end(conn.agreed, End::Server, Close::Passive, false);
        if is_last_ack && ending == Ending::Hold {
            let now_ns = work.now_ns();
            let last = LastNumbers {
                sent: conn.sent_max,
                expected: conn.expected,
                clocks: conn.has_clocks.then(|| (self.profile.clock(now_ns), conn.peer_clock)),
                swapped: false,
            };
            work.wire.ends.hold(End::Server, flow.pair, &last, now_ns);
            self.counted.pairs += 1;
        }
        flow.conn.forget(work.wire);
    }
}
