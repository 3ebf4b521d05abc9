// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a crowd fares while it is under way.

/// How it goes: rates since the last time it was told, warm-up and cool-down included. In the
/// simulator time is simulated time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Time since the beginning of the load, in s.
    pub at_s: f64,
    /// Attempts started per second.
    pub started_per_s: f64,
    /// Whole replies per second.
    pub replies_per_s: f64,
    /// Attempts per second that ended in any other way.
    pub errors_per_s: f64,
    /// Attempts under way now.
    pub in_flight: u64,
}
