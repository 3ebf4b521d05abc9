// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bounds of the way between clients and server, which crowds and simulations have alike.

/// No way is longer: a minute.
pub const DELAY_MAX_MS: f64 = 60_000.0;
/// How much later a reordered packet comes at least.
pub const REORDERED_LATER_NS: u64 = 1_000_000;
