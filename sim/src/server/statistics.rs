// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the application counts of itself.

/// What the application did (Pariag, tables 4.1 to 4.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Times that it asked for events.
    pub event_calls: u64,
    /// Descriptors that it was told of.
    pub events: u64,
    /// Accept phases, those that accepted nobody among them.
    pub accept_phases: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Work phases.
    pub work_phases: u64,
    /// Connections worked on in them, as often as they were.
    pub work_items: u64,
    /// Replies written.
    pub replies: u64,
    /// Connections that were closed without a reply.
    pub dead: u64,
}

impl Statistics {
    /// What was done since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            event_calls: self.event_calls - earlier.event_calls,
            events: self.events - earlier.events,
            accept_phases: self.accept_phases - earlier.accept_phases,
            accepted: self.accepted - earlier.accepted,
            work_phases: self.work_phases - earlier.work_phases,
            work_items: self.work_items - earlier.work_items,
            replies: self.replies - earlier.replies,
            dead: self.dead - earlier.dead,
        }
    }
}
