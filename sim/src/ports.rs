// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients' addresses and ports, where there are only so many.

use std::collections::VecDeque;

use tidegate_client::TIME_WAIT_NS;

/// The port of who needs none.
pub(crate) const ANY: u32 = u32::MAX;
const NOTHING: u32 = u32::MAX;

/// Pairs of an address and a port of the clients, by number. Each is free, an attempt's, or in
/// TIME-WAIT at its client; of those that are free, the one that has been so for longest is next.
#[derive(Debug)]
pub(crate) struct Ports {
    free: VecDeque<u32>,
    /// Those in TIME-WAIT, and when that ends, in order.
    waiting: VecDeque<(u64, u32)>,
    /// Where something is left of a port's last connection, at the server or on the way.
    left: Vec<u32>,
}

impl Ports {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            free: (0..count).collect(),
            waiting: VecDeque::new(),
            left: vec![NOTHING; count as usize],
        }
    }

    /// The next port, and the place of what is left of its last connection; `None` when all are
    /// taken.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<(u32, Option<u32>)> {
        while let Some((_, port)) = self.waiting.pop_front_if(|(until_ns, _)| *until_ns <= now_ns) {
            self.free.push_back(port);
        }
        let port = self.free.pop_front()?;
        let left = self.left[port as usize];
        Some((port, (left != NOTHING).then_some(left)))
    }

    /// A port's connection is at this place.
    pub(crate) fn settle(&mut self, port: u32, place: u32) {
        self.left[port as usize] = place;
    }

    /// Nothing is left of a port's connection.
    pub(crate) fn forget(&mut self, port: u32) {
        self.left[port as usize] = NOTHING;
    }

    /// The client's side of a connection is over, and waits or not.
    pub(crate) fn give_back(&mut self, port: u32, holds_time_wait: bool, now_ns: u64) {
        if holds_time_wait {
            self.waiting.push_back((now_ns + TIME_WAIT_NS, port));
        } else {
            self.free.push_back(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_once_and_waits_for_a_minute() {
        let mut ports = Ports::new(3);
        assert_eq!([0, 0, 0].map(|ns| ports.take(ns).unwrap().0), [0, 1, 2]);
        assert_eq!(ports.take(5), None);
        ports.settle(1, 70);
        ports.give_back(2, true, 10);
        ports.give_back(1, false, 20);
        assert_eq!(ports.take(30), Some((1, Some(70))));
        ports.forget(1);
        ports.give_back(1, false, 40);
        assert_eq!(ports.take(50), Some((1, None)));
        assert_eq!(ports.take(TIME_WAIT_NS + 9), None);
        assert_eq!(ports.take(TIME_WAIT_NS + 10), Some((2, None)));
    }
}
