// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, at the server (Faber, section 3): its answer in the handshake, and what
//! becomes of the pair in the end, by the policy itself.

use tidegate_client::LastNumbers;
use tidegate_policy::raw::TG_TW_NOBODY;
use tidegate_policy::time_wait::{self, Close, End, Ending};

use super::{Counted, Host, State};
use crate::flow::Flow;
use crate::packet::Packet;
use crate::wire::Work;

/// What is kept of a SYN that is answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeps {
    Request,
    /// The SYN/ACK is a cookie.
    Nothing,
}

impl Counted {
    /// One more is in TIME-WAIT.
    pub(super) fn wait(&mut self, work: &mut Work<'_>) {
        let now_ns = work.now_ns();
        let pairs = work.wire.ends.held_by_server(now_ns);
        self.waiting_max = self.waiting_max.max(self.time_waits_held + pairs);
    }
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
            self.counted.wait(work);
        }
        flow.conn.forget(work.wire);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::{Arrivals, Close, Os, Step};
    use tidegate_policy::time_wait::negotiate;

    use super::*;
    use crate::machine::Machine;
    use crate::setup::{Load, Setup};
    use crate::world::World;

    const SECOND_NS: u64 = 1_000_000_000;

    /// As many blocks come as pairs go: at no time are there as many as the most of each.
    #[test]
    fn the_most_that_wait_are_those_of_one_time() {
        let world = |close| {
            let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
            setup.crowd.person.close = close;
            setup.crowd.person.time_wait = negotiate(Some(End::Server));
            setup.time_wait = negotiate(Some(End::Server));
            setup.crowd.load = Load::Open(Arrivals::constant(10.0));
            setup.crowd.duration_ns = 130 * SECOND_NS;
            World::new(setup)
        };
        let (mut world, later) = (world(Close::ClientClose), world(Close::Server));
        while world.now_ns() < 62 * SECOND_NS {
            assert!(world.advance());
        }
        (world.people, world.host.ending) = (later.people, later.host.ending);
        while world.now_ns() < 125 * SECOND_NS {
            assert!(world.advance());
        }
        let counted = &world.host.counted;
        assert!(counted.pairs >= 600 && counted.time_waits >= 600, "{counted:?}");
        assert!((590..=620).contains(&counted.waiting_max), "{counted:?}");
    }
    /// As live. 20 a second for 30 s, and two a second when their minute is over.
    #[test]
    fn the_most_that_wait_are_those_of_the_time_that_counts() {
        let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
        setup.crowd.person.close = Close::Server;
        let steps = [(30, 10.0), (1000, 1.0)]
            .map(|(lasts_s, times)| Step { lasts_ns: lasts_s * SECOND_NS, times });
        setup.crowd.load = Load::Open(Arrivals::constant(2.0).in_steps(&steps));
        setup.crowd.warm_up_ns = 120 * SECOND_NS;
        setup.crowd.duration_ns = 30 * SECOND_NS;
        let most = World::new(setup).run(&mut |_| {}).counted.waiting_max;
        assert!((115..=125).contains(&most), "{most}");
    }
}
