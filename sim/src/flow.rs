// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends of a connection attempt, in one place of memory.

use tidegate_client::Attempt;

use crate::engine::Ticket;
use crate::ports::{ANY, Ports};
use crate::stack::Conn;

/// A pair of addresses and ports, and what stands on it at either end.
#[derive(Debug)]
pub(crate) struct Flow {
    /// The client, until its connection is over.
    pub attempt: Option<Attempt>,
    /// What the server has of it.
    pub conn: Conn,
    pub intended_ns: u64,
    /// How long its packets take, one way.
    pub delay_ns: u64,
    /// The client's next timer, and its event.
    pub timer: Option<(u64, Ticket)>,
    /// Which request is its first, and how many it makes.
    pub first: u32,
    pub count: u16,
    /// Which of all attempts it is.
    pub number: u32,
    /// Its address and port; [`ANY`] where these are not counted, or are another's by now.
    pub port: u32,
    /// The number of its pair of addresses and ports: its port's where these are counted, else its own.
    pub pair: u32,
    /// The network that its client comes from, where clients come from networks.
    pub network: Option<u16>,
    /// Packets of it on the way, or waiting for the server's processor.
    pub packets: u16,
    /// Which of the people it is.
    pub kind: u8,
    /// Those that its packets have left at the server, which is one network away.
    pub hops: u8,
    /// SYNs sent so far.
    pub syns: u8,
    /// The attempt has come to its end; only its connection has not.
    pub ended: bool,
    /// Its ACK of a SYN/ACK behind which there is nothing has met a RST, and nothing came since.
    pub was_told: bool,
    /// It was to start in the time that counts.
    pub counts: bool,
    /// Its client's TCP holds TIME-WAIT, or has held it.
    pub in_time_wait: bool,
}

impl Flow {
    /// Whether nothing is left of it anywhere: its place can be another's.
    fn is_over(&self) -> bool {
        self.attempt.is_none() && self.packets == 0 && self.conn.is_none()
    }
}

/// All flows, by place. A place is used again when nothing is left of its flow, not even a packet,
/// so that a packet never reaches a stranger.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    all: Vec<Flow>,
    free: Vec<u32>,
    /// Where there are only so many.
    ports: Option<Ports>,
}

impl Flows {
    /// No flows yet; of clients with so many addresses and ports, if these are counted.
    pub(crate) fn new(ports: Option<u32>) -> Self {
        Self { ports: ports.map(Ports::new), ..Self::default() }
    }

    /// The place of a new flow; `None` when there is no port for it. On a port whose last connection
    /// has left something, it takes that over: the server's end, and packets on the way.
    pub(crate) fn insert(&mut self, mut flow: Flow, now_ns: u64) -> Option<u32> {
        let Some(ports) = &mut self.ports else { return Some(self.place(flow)) };
        let (port, left) = ports.take(now_ns)?;
        (flow.port, flow.pair) = (port, port);
        if let Some(place) = left {
            let last = &mut self.all[place as usize];
            if !last.conn.was_reset {
                flow.conn = std::mem::take(&mut last.conn);
                flow.packets = last.packets;
                *last = flow;
                return Some(place);
            }
            // TCP has forgotten it: what is left is the application's.
            last.port = ANY;
        }
        let place = self.place(flow);
        if let Some(ports) = &mut self.ports {
            ports.settle(port, place);
        }
        Some(place)
    }

    fn place(&mut self, flow: Flow) -> u32 {
        if let Some(place) = self.free.pop() {
            self.all[place as usize] = flow;
            return place;
        }
        self.all.push(flow);
        u32::try_from(self.all.len() - 1).expect("memory ends before numbers do")
    }

    /// The client's side of a flow is over.
    pub(crate) fn give_back(&mut self, port: u32, holds_time_wait: bool, now_ns: u64) {
        if let Some(ports) = &mut self.ports {
            ports.give_back(port, holds_time_wait, now_ns);
        }
    }

    #[inline]
    pub(crate) fn get(&mut self, place: u32) -> &mut Flow {
        &mut self.all[place as usize]
    }

    /// Gives the place back if nothing is left there. It is called once after each thing that
    /// happens to a flow, and never for one that is over already.
    #[inline]
    pub(crate) fn tidy(&mut self, place: u32) {
        let flow = &self.all[place as usize];
        if flow.is_over() {
            if let Some(ports) = &mut self.ports
                && flow.port != ANY
            {
                ports.forget(flow.port);
            }
            self.free.push(place);
        }
    }

    /// How many places there are, those that are free among them.
    pub(crate) fn places(&self) -> u32 {
        self.all.len() as u32
    }

    /// Those of which something is left.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Flow> {
        self.all.iter().filter(|flow| !flow.is_over())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Queue;
    use crate::wire::Event;

    /// A client that waits has a flow and a timer: thirty million of them fit in 16 GiB.
    #[test]
    fn who_waits_takes_little_memory() {
        let bytes = size_of::<Flow>() + Queue::<Event>::bytes_an_event();
        assert!(bytes <= 512, "{} and {bytes}", size_of::<Flow>());
    }
}
