// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many connections to accept before turning to the work at hand.
//!
//! A decision without a socket: the simulator takes it too.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::error::ServerError;

/// The most connections accepted in one accept phase; by default as many as there are.
///
/// A low limit favours the connections already held, a high one those still waiting in the
/// kernel's queue (Brecht, Pariag and Gammo, "accept()able Strategies", 2004).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptLimit(Option<NonZeroU32>);

impl AcceptLimit {
    /// Accepts until the queue is empty.
    pub const INF: Self = Self(None);

    /// Accepts at most so many.
    #[must_use]
    pub const fn at_most(connections: NonZeroU32) -> Self {
        Self(Some(connections))
    }

    /// Whether to call `accept` once more, having accepted so many in this phase.
    #[must_use]
    pub fn wants_another(self, accepted_in_phase: u32) -> bool {
        self.0.is_none_or(|limit| accepted_in_phase < limit.get())
    }
}

impl FromStr for AcceptLimit {
    type Err = ServerError;

    fn from_str(given: &str) -> Result<Self, ServerError> {
        if given.eq_ignore_ascii_case("inf") {
            return Ok(Self::INF);
        }
        given
            .parse()
            .map(Self::at_most)
            .map_err(|_| ServerError::AcceptLimit { given: given.to_owned() })
    }
}

impl fmt::Display for AcceptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("inf"),
            Some(limit) => limit.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::AcceptLimit;

    #[test]
    fn a_phase_ends_at_the_limit() {
        let limit: AcceptLimit = "2".parse().unwrap();
        assert!(limit.wants_another(1));
        assert!(!limit.wants_another(2));
        assert!(AcceptLimit::INF.wants_another(u32::MAX));
    }

    #[test]
    fn limits_are_read_as_they_are_written() {
        for text in ["1", "64", "inf"] {
            assert_eq!(text.parse::<AcceptLimit>().unwrap().to_string(), text);
        }
        for text in ["0", "-1", "", "many"] {
            assert!(text.parse::<AcceptLimit>().is_err(), "{text}");
        }
    }
}
