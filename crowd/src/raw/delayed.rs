// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that are on their way: the network's delay, kept here.

use crate::wheel::Wheel;

/// 16 µs: far below any delay that matters.
const TICK_BITS: u32 = 14;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// Frames that wait for their time. Their memory is used again.
#[derive(Debug)]
pub(crate) struct Delayed {
    wheel: Wheel,
    frames: Vec<(Direction, Vec<u8>)>,
    free: Vec<u32>,
}

impl Delayed {
    pub(crate) fn new() -> Self {
        Self { wheel: Wheel::new(TICK_BITS, 0), frames: Vec::new(), free: Vec::new() }
    }

    /// Keeps a frame until a time.
    pub(crate) fn keep(&mut self, direction: Direction, frame: &[u8], until_ns: u64) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.frames.push((direction, Vec::new()));
            u32::try_from(self.frames.len() - 1).expect("memory ends before numbers do")
        });
        let (kept_direction, kept) = &mut self.frames[place as usize];
        *kept_direction = direction;
        kept.clear();
        kept.extend_from_slice(frame);
        self.wheel.set(place, until_ns);
    }

    /// Takes a frame whose time has come, with the memory it is in. Those of one time come as
    /// they went.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<Due> {
        let place = self.wheel.fire(now_ns)?;
        let (direction, frame) = &mut self.frames[place as usize];
        Some(Due { direction: *direction, frame: std::mem::take(frame), place })
    }

    /// Takes the memory back.
    pub(crate) fn give_back(&mut self, due: Due) {
        self.frames[due.place as usize].1 = due.frame;
        self.free.push(due.place);
    }

    /// When to look again.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.wheel.next_ns()
    }
}

/// A frame whose time has come.
#[derive(Debug)]
pub(crate) struct Due {
    pub direction: Direction,
    pub frame: Vec<u8>,
    place: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_in_time_and_in_order() {
        let mut delayed = Delayed::new();
        let take = |delayed: &mut Delayed, now_ns| {
            let due = delayed.take_due(now_ns)?;
            let shown = (due.direction, due.frame.clone());
            delayed.give_back(due);
            Some(shown)
        };
        for round in 0..3 {
            let now_ns = round * 50_000_000;
            delayed.keep(Direction::ToServer, b"first", now_ns + 20_000_000);
            delayed.keep(Direction::ToClient, b"early", now_ns + 10_000_000);
            delayed.keep(Direction::ToServer, b"second, longer", now_ns + 20_000_000);
            assert_eq!(take(&mut delayed, now_ns + 9_999_999), None);
            let early = (Direction::ToClient, b"early".to_vec());
            assert_eq!(take(&mut delayed, now_ns + 10_020_000), Some(early));
            let due = now_ns + 20_020_000;
            assert_eq!(take(&mut delayed, due), Some((Direction::ToServer, b"first".to_vec())));
            let second = (Direction::ToServer, b"second, longer".to_vec());
            assert_eq!(take(&mut delayed, due), Some(second));
            assert_eq!(take(&mut delayed, due), None);
        }
        assert_eq!(delayed.frames.len(), 3, "memory is used again");
    }
}
