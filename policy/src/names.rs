// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of the headers' enums, in their order, as configuration, status and metrics write them.

use crate::raw::{self, *};

/// Every verdict's name, in the order of `enum tg_verdict`.
pub const VERDICTS: [&str; raw::TG_VERDICTS as usize] =
    ["pass", "drop", "reset", "cookie", "hollow", "admit"];

/// Every policy of persistent dropping, in the order of `enum tg_shed_policy`.
pub const SHED_POLICIES: [&str; 4] = ["off", "rbd", "slpd", "sbpd"];

/// What is shed as one, in the order of `enum tg_shed_key`.
pub const SHED_KEYS: [&str; 2] = ["client", "connection"];

/// The forms of refusal, in the order of `enum tg_shed_refusal`.
pub const SHED_REFUSALS: [&str; 3] = ["silence", "rst", "cookie"];

/// How far a policy has fallen back, in the order of `enum tg_shed_fallback`.
pub const SHED_FALLBACKS: [&str; 3] = ["none", "stateless", "uniform"];

/// What an overload is in, in the order of `enum tg_phase`.
pub const PHASES: [&str; raw::TG_PHASES as usize] = ["calm", "burst", "persistent", "recovering"];

/// What a client's FIN does, in the order of `enum tg_fin_rule`.
pub const FIN_RULES: [&str; 3] = ["half-close", "rst-fin", "rst-fin strict"];

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
    "WaitLimit",
    "NewFirst",
    "Policed",
    "BeyondShare",
    "Exempt",
    "Handshake",
    "ListenQOverflow SYN/ACK ACK",
    "ListenQOverflow other",
    "CookieValid",
    "CookieNoRoom",
    "CookieForeign",
    "HollowAnswered",
    "ShedStateless",
    "ShedNew",
    "ShedAgain",
    "ShedUniform",
    "Spared",
    "Forwarded",
    "FinEnds",
    "FinHalfClose",
    "FinNoConnection",
    "FinClosing",
    "FinWithData",
    "FinSigned",
    "FinOutOfOrder",
    "FinOutsideWindow",
    "FinBadAck",
    "FinUnread",
    "FinUnacked",
];

/// The verdicts that can stand beside a reason; which of them it is depends on the mechanism.
/// `docs/reasons.md` has them for people.
#[must_use]
pub fn verdicts_beside(reason: u32) -> &'static [u32] {
    match reason {
        TG_SYNQ_FULL | TG_SYNQ_3_4_FULL | TG_LISTENQ_FULL_AT_SYN => {
            &[TG_PASS, TG_DROP, TG_RESET, TG_HOLLOW, TG_COOKIE]
        }
        TG_KERNEL_COOKIE => &[TG_PASS, TG_COOKIE],
        TG_NO_RESERVATION | TG_EARLY_RANDOM => &[TG_DROP, TG_RESET, TG_COOKIE],
        TG_REFUSAL_LIMIT => &[TG_DROP],
        TG_NO_COOKIE => &[TG_PASS, TG_DROP],
        TG_WAIT_LIMIT | TG_NEW_FIRST | TG_POLICED => &[TG_DROP, TG_RESET, TG_HOLLOW, TG_COOKIE],
        TG_BEYOND_SHARE | TG_SHED_STATELESS..=TG_SHED_UNIFORM => &[TG_DROP, TG_RESET, TG_HOLLOW],
        TG_OVERFLOW_SYNACK_ACK | TG_OVERFLOW_OTHER => &[TG_PASS, TG_RESET, TG_DROP],
        TG_COOKIE_VALID => &[TG_ADMIT],
        TG_COOKIE_NO_ROOM | TG_FIN_ENDS => &[TG_RESET],
        TG_HOLLOW_ANSWERED => &[TG_RESET, TG_DROP],
        _ => &[TG_PASS],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(VERDICTS[raw::TG_ADMIT as usize], "admit");
        assert_eq!(REASONS[raw::TG_HALF_OPEN as usize], "HalfOpen");
        assert_eq!(REASONS[raw::TG_WAIT_LIMIT as usize], "WaitLimit");
        assert_eq!(PHASES[raw::TG_RECOVERING as usize], "recovering");
        assert_eq!(REASONS[raw::TG_COOKIE_FOREIGN as usize], "CookieForeign");
        assert_eq!(REASONS[raw::TG_OVERFLOW_OTHER as usize], "ListenQOverflow other");
        assert_eq!(REASONS[raw::TG_SHED_AGAIN as usize], "ShedAgain");
        assert_eq!(REASONS[raw::TG_FORWARDED as usize], "Forwarded");
        assert_eq!(REASONS[raw::TG_FIN_ENDS as usize], "FinEnds");
        assert_eq!(REASONS[raw::TG_FIN_OUTSIDE as usize], "FinOutsideWindow");
        assert_eq!(REASONS[raw::TG_FIN_UNACKED as usize], "FinUnacked");
        assert_eq!(FIN_RULES[raw::TG_RST_FIN_STRICT as usize], "rst-fin strict");
        assert_eq!(SHED_POLICIES[raw::TG_SBPD as usize], "sbpd");
        assert_eq!(SHED_KEYS[raw::TG_KEY_CONNECTION as usize], "connection");
        assert_eq!(SHED_REFUSALS[raw::TG_REFUSE_RESET as usize], "rst");
        assert_eq!(SHED_FALLBACKS[raw::TG_FALLBACK_UNIFORM as usize], "uniform");
    }

    #[test]
    fn the_document_has_each_reason_with_the_verdicts_that_can_stand_beside_it() {
        let document = include_str!("../../docs/reasons.md");
        for (reason, name) in (0..).zip(REASONS) {
            let row = document.lines().find(|line| line.starts_with(&format!("| `{name}` | `")));
            let column = row.and_then(|row| row.split(" | ").nth(1));
            let verdicts = verdicts_beside(reason).iter();
            let named: Vec<_> = verdicts.map(|v| format!("`{}`", VERDICTS[*v as usize])).collect();
            assert_eq!(column, Some(named.join(", ").as_str()), "{name}");
        }
    }
}
