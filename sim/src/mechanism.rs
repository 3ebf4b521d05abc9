// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' mechanisms by name, as rules of the policy.

use tidegate_policy::raw::{
    TG_ACK_KERNEL, TG_ACK_RESET, TG_ONE_X256, TG_ROOM_KERNEL, TG_ROOM_RESERVE, TG_SYN_COOKIE,
    TG_SYN_DROP, TG_SYN_KERNEL, TG_SYN_RESET, tg_rules,
};

use crate::error::SimError;

const NAMES: [&str; 6] = ["default", "abort", "reserv", "rst-syn", "no-syn-drop", "early-syn-drop"];

/// As the daemon has it: refusals a second and processor at most.
const REFUSALS_PER_S: u32 = 1_000_000;

/// Rules from names such as `abort rst-syn` (Shukla, figure 4.1 and section 5.4), as the daemon
/// makes them where a configuration says no more.
///
/// # Errors
/// [`SimError::Mechanism`], which says what is wrong.
pub fn rules(given: &str) -> Result<tg_rules, SimError> {
    let wrong = |what: String| SimError::Mechanism { given: given.to_owned(), what };
    let words: Vec<&str> = given.split_whitespace().collect();
    if let Some(unknown) = words.iter().find(|word| !NAMES.contains(word)) {
        return Err(wrong(format!("\"{unknown}\" is none of {}", NAMES.join(", "))));
    }
    let has = |name| words.contains(&name);
    if words.is_empty() || (has("default") && words.len() > 1) {
        return Err(wrong("give \"default\" alone, or others without it".to_owned()));
    }
    if has("no-syn-drop") && (has("rst-syn") || has("early-syn-drop")) {
        return Err(wrong("\"no-syn-drop\" answers every SYN: leave the other out".to_owned()));
    }
    let syn = if has("rst-syn") {
        TG_SYN_RESET
    } else if has("no-syn-drop") {
        TG_SYN_COOKIE
    } else if has("early-syn-drop") {
        TG_SYN_DROP
    } else {
        TG_SYN_KERNEL
    };
    Ok(tg_rules {
        room: if has("reserv") { TG_ROOM_RESERVE } else { TG_ROOM_KERNEL },
        syn,
        ack: if has("abort") || has("no-syn-drop") { TG_ACK_RESET } else { TG_ACK_KERNEL },
        overbook_x256: TG_ONE_X256,
        early_from_x256: TG_ONE_X256,
        refusal_cost_ns: 1_000_000_000 / REFUSALS_PER_S,
        ..tg_rules::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_rules() {
        let these = rules("abort rst-syn").unwrap();
        assert_eq!(
            (these.room, these.syn, these.ack),
            (TG_ROOM_KERNEL, TG_SYN_RESET, TG_ACK_RESET)
        );
        let these = rules("reserv rst-syn").unwrap();
        assert_eq!(
            (these.room, these.syn, these.ack),
            (TG_ROOM_RESERVE, TG_SYN_RESET, TG_ACK_KERNEL)
        );
        assert_eq!(rules("no-syn-drop").unwrap().ack, TG_ACK_RESET);
        assert_eq!(rules("default").unwrap().syn, TG_SYN_KERNEL);
    }

    #[test]
    fn what_is_none_is_told_so() {
        for given in ["", "abrot", "default abort", "no-syn-drop rst-syn"] {
            assert!(rules(given).is_err(), "{given}");
        }
    }
}
