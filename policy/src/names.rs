// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of verdicts and reasons, as configuration, status and metrics write them.

use crate::raw;

/// Every verdict's name, in the order of `enum tg_verdict`.
pub const VERDICTS: [&str; raw::TG_VERDICTS as usize] =
    ["pass", "drop", "reset", "cookie", "admit"];

/// Every reason's name, in the order of `enum tg_reason`. Queue drop rules are spelled
/// as in Shukla's thesis, 2.1.1.
pub const REASONS: [&str; raw::TG_REASONS as usize] = [
    "Room",
    "SynQFull",
    "SynQ3/4Full",
    "ListenQFullAtSyn",
    "KernelCookie",
    "NoReservation",
    "EarlyRandom",
    "RefusalLimit",
    "NoCookie",
    "HalfOpen",
    "Handshake",
    "ListenQOverflow SYN/ACK ACK",
    "ListenQOverflow other",
    "CookieValid",
    "CookieNoRoom",
    "CookieForeign",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(VERDICTS[raw::TG_ADMIT as usize], "admit");
        assert_eq!(REASONS[raw::TG_HALF_OPEN as usize], "HalfOpen");
        assert_eq!(REASONS[raw::TG_COOKIE_FOREIGN as usize], "CookieForeign");
        assert_eq!(REASONS[raw::TG_OVERFLOW_OTHER as usize], "ListenQOverflow other");
    }
}
