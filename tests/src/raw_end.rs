// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw end of a connection whose other end is the kernel's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::wire::{Segment, Wire};

/// An end that sends what it is told to, and answers nothing by itself.
pub struct RawEnd {
    /// What it sends with.
    pub wire: Wire,
    /// The kernel's end.
    pub own: SocketAddr,
    /// This one.
    pub peer: SocketAddr,
}

impl RawEnd {
    /// The next segment that the kernel sends here.
    pub fn next(&self, what: &str) -> Segment {
        let until = Instant::now() + Duration::from_secs(2);
        std::iter::from_fn(|| self.wire.receive(until))
            .find(|s| s.to == self.peer)
            .unwrap_or_else(|| panic!("the kernel sends {what}"))
    }

    /// Sends a segment to the kernel.
    pub fn send(&self, flags: u8, seq: u32, ack: u32, options: Vec<u8>, payload: &[u8]) {
        let payload = payload.to_vec();
        let segment = Segment::new(self.peer, self.own, flags, seq, ack);
        self.wire.send(&Segment { options, payload, ..segment });
    }
}

/// The option that names who holds TIME-WAIT, as it lies in a segment (Faber, Touch and Yue,
/// section 3).
pub fn our_option(segment: &Segment) -> Option<Vec<u8>> {
    let options = &segment.options;
    (0..options.len())
        .find(|at| options[*at..].starts_with(&[253]) && options[at + 2..].starts_with(b"TW"))
        .map(|at| options[at..at + usize::from(options[at + 1])].to_vec())
}
