// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When data is acknowledged: as Linux decides it, packet by packet.

use super::{MS_NS, NEVER};
use crate::segment::is_before;

/// The largest segment that Linux expects before it has seen one.
const EXPECTED_BYTES: u16 = 536;

/// Acknowledgements that wait, and why.
#[derive(Debug)]
pub(super) struct Acks {
    /// When the one that waits is sent after all.
    pub(super) at_ns: u64,
    last_data_ns: u64,
    /// What the last acknowledgement sent has acknowledged.
    pub(super) acked: u32,
    /// The largest segment so far, in bytes.
    largest: u16,
    /// So many are sent at once before any may wait.
    quick: u8,
    /// Segments with PSH, or short ones, since the last acknowledgement.
    pushed: u8,
    is_due: bool,
    has_heard: bool,
    /// Requests and replies alternate, so an acknowledgement can ride on the next request.
    alternates: bool,
}

impl Default for Acks {
    fn default() -> Self {
        Self {
            at_ns: NEVER,
            last_data_ns: 0,
            acked: 0,
            largest: EXPECTED_BYTES,
            quick: 0,
            pushed: 0,
            is_due: false,
            has_heard: false,
            alternates: false,
        }
    }
}

/// What there is to know about data that came in order.
pub(super) struct Came {
    pub(super) bytes: usize,
    pub(super) pushes: bool,
    pub(super) expected: u32,
    pub(super) rto_ns: u64,
}

impl Acks {
    /// Data came in order and was read at once. Says whether to acknowledge it now; otherwise it
    /// is done `delayed_ms` later.
    pub(super) fn data_came(
        &mut self,
        now_ns: u64,
        came: &Came,
        quick_acks: u8,
        delayed_ms: u32,
    ) -> bool {
        let silent_ns = now_ns.saturating_sub(self.last_data_ns);
        if !self.has_heard || silent_ns > came.rto_ns {
            self.quick = quick_acks;
        }
        self.has_heard = true;
        self.last_data_ns = now_ns;
        let is_short = came.bytes < usize::from(self.largest);
        self.largest = self.largest.max(came.bytes.min(usize::from(u16::MAX)) as u16);
        self.pushed = self.pushed.saturating_add(u8::from(came.pushes || is_short));
        self.wait(now_ns, delayed_ms);
        let bytes_due = came.expected.wrapping_sub(self.acked);
        bytes_due > u32::from(self.largest)
            || (self.quick > 0 && !self.alternates)
            // The reader's recv() sends it: after a short segment, or after two in conversation.
            || (self.pushed > 0 && !self.alternates)
            || self.pushed > 1
    }

    /// The server's FIN came: its acknowledgement rides on ours if that comes soon.
    pub(super) fn fin_came(&mut self, now_ns: u64, delayed_ms: u32) {
        self.alternates = true;
        self.wait(now_ns, delayed_ms);
    }

    fn wait(&mut self, now_ns: u64, delayed_ms: u32) {
        self.is_due = true;
        self.at_ns = self.at_ns.min(now_ns + u64::from(delayed_ms) * MS_NS);
    }

    /// Something is missing, so the server should hear of everything at once.
    pub(super) fn lost_something(&mut self, quick_acks: u8) {
        self.alternates = false;
        self.quick = quick_acks;
    }

    /// An acknowledgement waited in vain.
    pub(super) fn waited(&mut self) {
        self.alternates = false;
    }

    /// Data is sent: soon after data came, it is a conversation.
    pub(super) fn data_sent(&mut self, now_ns: u64, delayed_ms: u32) {
        let soon_ns = u64::from(delayed_ms) * MS_NS;
        self.alternates |= self.has_heard && now_ns.saturating_sub(self.last_data_ns) < soon_ns;
    }

    /// A segment that acknowledges all up to `expected` is sent.
    pub(super) fn sent(&mut self, expected: u32) {
        if self.is_due {
            self.quick = self.quick.saturating_sub(1);
        }
        self.is_due = false;
        self.pushed = 0;
        self.at_ns = NEVER;
        self.acked = expected;
    }

    /// Whether a segment that begins there is part of what was last acknowledged, or comes right
    /// after it.
    pub(super) fn covers(&self, seq: u32) -> bool {
        !is_before(self.acked, seq)
    }

    /// Whether a segment that ends there can still bring something.
    pub(super) fn ends_late_enough(&self, end: u32) -> bool {
        !is_before(end, self.acked)
    }
}
