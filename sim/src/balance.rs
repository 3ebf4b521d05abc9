// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How things stand in a world; what is kept as a count of it, counted anew.

use crate::stack::State;
use crate::wire::Event;
use crate::world::World;

/// How things stand: what was begun is somewhere, at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Attempts started.
    pub attempts: u64,
    /// Those under way.
    pub waiting: u64,
    /// Those with whole replies.
    pub served: u64,
    /// Those told no, by a RST sooner or later.
    pub refused: u64,
    /// Those that gave up.
    pub timed_out: u64,
    /// Those that ended in any other way.
    pub others: u64,
    /// Packets sent by clients and server.
    pub packets_sent: u64,
    /// Packets that the network lost.
    pub packets_lost: u64,
    /// Packets that arrived.
    pub packets_arrived: u64,
    /// Packets under way.
    pub packets_under_way: u64,
}

impl World {
    /// Counts everything anew, flow by flow and packet by packet, and compares. Debug builds do so
    /// now and then.
    ///
    /// # Panics
    /// When a count is wrong.
    pub fn recount(&mut self) {
        let (mut waiting, mut packets, mut half_open, mut queued, mut held) = (0, 0, 0, 0, 0);
        let (mut young, mut time_waits) = (0, 0);
        for flow in self.flows.each() {
            let conn = &flow.conn;
            waiting += u64::from(!flow.ended);
            packets += u64::from(flow.packets);
            half_open += u32::from(conn.state == State::HalfOpen);
            young += u32::from(conn.is_young());
            queued += usize::from(conn.state == State::Queued);
            held += u32::from(conn.state == State::Accepted);
            time_waits += u64::from(conn.state == State::TimeWait);
        }
        let balance = self.balance();
        let ended = balance.served + balance.refused + balance.timed_out + balance.others;
        assert_eq!(balance.attempts, waiting + ended, "attempts are somewhere");
        assert_eq!(balance.waiting, waiting);
        let is_packet = |event: &&Event| matches!(event, Event::AtServer(_) | Event::AtClient(_));
        let flying = self.wire.queue.each().filter(is_packet).count() as u64;
        let in_ring = self.host.cores.in_rings() as u64;
        assert_eq!(balance.packets_under_way, flying, "packets are under way");
        assert_eq!(packets, flying + in_ring, "packets are their flows'");
        assert_eq!(half_open, self.host.listener.half_open);
        assert_eq!(young, self.host.listener.young);
        assert_eq!(queued, self.host.listener.queue.len());
        assert_eq!(held, self.host.app.held);
        assert_eq!(time_waits, self.host.counted.time_waits_held);
    }
}
