// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The papers' mechanisms by name, as combinations of orthogonal rules: what is room,
//! what a SYN without room gets, what an ACK without room gets.

use std::ops::RangeInclusive;

use crate::nearest::nearest;
use crate::raw::{
    TG_ACK_KERNEL, TG_ACK_RESET, TG_ONE_X256, TG_OVERLOAD_PLACES_LEAST, TG_ROOM_KERNEL,
    TG_ROOM_RESERVE, TG_SYN_COOKIE, TG_SYN_DROP, TG_SYN_KERNEL, TG_SYN_RESET, tg_rules,
};

/// The names that a mechanism is put together from (Shukla, thesis, Figure 4.1 and 5.4).
pub const NAMES: [&str; 8] =
    ["auto", "default", "abort", "reserv", "lazy", "rst-syn", "no-syn-drop", "early-syn-drop"];

/// The mechanism of a listener that names none.
pub const DEFAULT: &str = "auto";
/// The same where persistent dropping decides who is dropped: two controls of one queue would work
/// against each other.
pub const BESIDE_SHED: &str = "abort rst-syn";

/// `lazy`: connections that an application finds when it asks, so that it need not wait for a round
/// trip. With as many as the short queue of `auto` a server of one thread is idle for 2 % of its time
/// at 1.1 times its capacity. 1 is lazy accept() to the letter.
pub const AHEAD: u32 = TG_OVERLOAD_PLACES_LEAST;

/// `auto`: how long clients wait before they give up, in ms. `docs/auto.md` says what follows.
pub const PATIENCE_MS: u32 = 10_000;
/// What it may be set to, in seconds.
pub const PATIENCE_S: RangeInclusive<f64> = 0.0..=600.0;
/// `auto`: what a SYN costs the host that is dropped in silence, in µs. By itself it is as dear as it
/// is where it is decided.
pub const SYN_US: RangeInclusive<f64> = 0.1..=1000.0;
/// `auto`: who is let in during a persistent overload waits about so long for accept(), in µs.
pub const WAIT_US: u32 = 3_000;
/// What it may be set to, in ms.
pub const WAIT_MS: RangeInclusive<f64> = 0.0..=1000.0;
/// A queue's length, or a limit of it: the kernel has it in an int.
pub const QUEUE_LENGTH: RangeInclusive<u32> = 1..=i32::MAX as u32;

/// Refusals a second and processor that a listener sends at most, unless it says otherwise.
/// What a forged flood could make of us is bounded so; a silent drop is what is left.
pub const REFUSALS_PER_S: u32 = 1_000_000;

/// Why a text names no mechanism.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub struct NoMechanism {
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub fix: String,
}

impl NoMechanism {
    fn new(what: &str, fix: &str) -> Self {
        Self { what: what.to_owned(), fix: fix.to_owned() }
    }
}

/// Rules from names such as `abort rst-syn`.
///
/// # Errors
/// [`NoMechanism`], for names that are none, stand twice or contradict each other.
pub fn parse(text: &str) -> Result<tg_rules, NoMechanism> {
    let words = words(text)?;
    if let Some((what, fix)) = contradiction(&words) {
        return Err(NoMechanism::new(what, fix));
    }
    Ok(if words.contains(&"auto") { auto() } else { rules_of(&words) })
}

/// The names in a text: each one of ours, and once.
fn words(text: &str) -> Result<Vec<&str>, NoMechanism> {
    let wrong = |what: &str, fix: &str| Err(NoMechanism::new(what, fix));
    let words: Vec<&str> = text.split_whitespace().collect();
    for (at, word) in words.iter().enumerate() {
        if word.contains([',', '+', ';']) {
            let apart = text.split([',', '+', ';']).flat_map(str::split_whitespace);
            let apart = apart.collect::<Vec<_>>().join(" ");
            return wrong(
                &format!("\"{text}\" is no mechanism"),
                &format!("separate names by a space: \"{apart}\""),
            );
        }
        if !NAMES.contains(word) {
            let meant = nearest(word, NAMES).map(|name| format!("did you mean \"{name}\"? "));
            return wrong(
                &format!("unknown mechanism \"{word}\""),
                &format!("{}known: {}", meant.unwrap_or_default(), NAMES.join(", ")),
            );
        }
        if words[..at].contains(word) {
            return wrong(&format!("\"{word}\" stands twice"), "name it once");
        }
    }
    if words.is_empty() {
        return wrong("no mechanism is named", &format!("name one of {}", NAMES.join(", ")));
    }
    Ok(words)
}

/// Why these names do not go together, and how to mend it.
fn contradiction(words: &[&str]) -> Option<(&'static str, &'static str)> {
    let has = |name| words.contains(&name);
    let have = |one, other| has(one) && has(other);
    if has("auto") && words.len() > 1 {
        return Some(("\"auto\" chooses by itself and stands alone", "drop it, or the others"));
    }
    if has("default") && words.len() > 1 {
        return Some((
            "\"default\" is the kernel's own behaviour and stands alone",
            "drop it, or the others",
        ));
    }
    if have("rst-syn", "no-syn-drop") {
        return Some((
            "\"rst-syn\" and \"no-syn-drop\" answer the same SYN in two ways",
            "choose one",
        ));
    }
    if have("no-syn-drop", "early-syn-drop") {
        return Some((
            "\"no-syn-drop\" drops no SYN, so none early",
            "leave \"early-syn-drop\" out",
        ));
    }
    have("reserv", "lazy").then_some((
        "\"lazy\" is \"reserv\" with few places",
        "leave \"reserv\" out; its options are lazy's, too",
    ))
}

/// The rules of `auto`, with those by which it refuses where it does.
fn auto() -> tg_rules {
    let refusing = rules_of(&["abort", "rst-syn"]);
    tg_rules { is_auto: 1, patience_ms: PATIENCE_MS, wait_us: WAIT_US, ..refusing }
}

/// The rules of names that go together.
fn rules_of(words: &[&str]) -> tg_rules {
    let has = |name| words.contains(&name);
    let syn = if has("rst-syn") {
        TG_SYN_RESET
    } else if has("no-syn-drop") {
        TG_SYN_COOKIE
    } else if has("early-syn-drop") {
        TG_SYN_DROP
    } else {
        TG_SYN_KERNEL
    };
    tg_rules {
        room: if has("reserv") || has("lazy") { TG_ROOM_RESERVE } else { TG_ROOM_KERNEL },
        ahead: if has("lazy") { AHEAD } else { 0 },
        syn,
        // no-syn-drop moves the decision to the ACK, which is let in or answered with RST.
        ack: if has("abort") || has("no-syn-drop") { TG_ACK_RESET } else { TG_ACK_KERNEL },
        overbook_x256: TG_ONE_X256,
        early_from_x256: TG_ONE_X256,
        refusal_cost_ns: 1_000_000_000 / REFUSALS_PER_S,
        ..tg_rules::default()
    }
}

/// The names that `rules` were put together from.
pub fn name(rules: &tg_rules) -> String {
    if rules.is_auto != 0 {
        return "auto".to_owned();
    }
    let mut words = Vec::new();
    if rules.ack == TG_ACK_RESET && rules.syn != TG_SYN_COOKIE {
        words.push("abort");
    }
    if rules.room == TG_ROOM_RESERVE {
        words.push(if rules.ahead == 0 { "reserv" } else { "lazy" });
    }
    match rules.syn {
        TG_SYN_DROP => words.push("early-syn-drop"),
        TG_SYN_RESET => words.push("rst-syn"),
        TG_SYN_COOKIE => words.push("no-syn-drop"),
        _ => {}
    }
    if words.is_empty() { "default".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_keeps_its_name() {
        for text in [
            "auto",
            "default",
            "abort",
            "reserv",
            "early-syn-drop",
            "rst-syn",
            "no-syn-drop",
            "abort rst-syn",
            "reserv rst-syn",
            "abort early-syn-drop",
            "abort reserv rst-syn",
            "reserv no-syn-drop",
            "lazy",
            "abort lazy rst-syn",
        ] {
            assert_eq!(name(&parse(text).unwrap()), text);
        }
    }

    #[test]
    fn names_are_rules() {
        let rules = |text| {
            let rules = parse(text).unwrap();
            (rules.room, rules.syn, rules.ack)
        };
        assert_eq!(rules("default"), (TG_ROOM_KERNEL, TG_SYN_KERNEL, TG_ACK_KERNEL));
        assert_eq!(rules("abort rst-syn"), (TG_ROOM_KERNEL, TG_SYN_RESET, TG_ACK_RESET));
        assert_eq!(rules("reserv rst-syn"), (TG_ROOM_RESERVE, TG_SYN_RESET, TG_ACK_KERNEL));
        assert_eq!(rules("no-syn-drop"), (TG_ROOM_KERNEL, TG_SYN_COOKIE, TG_ACK_RESET));
    }

    /// docs/configuration.md, `refusals_per_s`: a million a second, whatever the mechanism.
    #[test]
    fn refusals_are_limited_unless_that_is_said_otherwise() {
        for name in NAMES {
            assert_eq!(parse(name).unwrap().refusal_cost_ns, 1000, "{name}");
        }
    }

    #[test]
    fn a_typo_is_answered_with_the_name_that_was_meant() {
        let wrong = parse("abort rst-sin").unwrap_err();
        assert_eq!(wrong.what, "unknown mechanism \"rst-sin\"");
        assert!(wrong.fix.starts_with("did you mean \"rst-syn\"? known: auto"), "{wrong}");
        assert!(parse("ABORT").unwrap_err().fix.starts_with("did you mean \"abort\"? "));
        for apart in ["abort,rst-syn", "abort, rst-syn", "abort+rst-syn"] {
            let wrong = parse(apart).unwrap_err().to_string();
            let told = "is no mechanism; separate names by a space: \"abort rst-syn\"";
            assert_eq!(wrong, format!("\"{apart}\" {told}"));
        }
        // Nothing is guessed of a word that is like none.
        assert!(parse("none").unwrap_err().fix.starts_with("known: auto"));
    }

    #[test]
    fn contradictions_are_refused() {
        for text in [
            "",
            "abrot",
            "default abort",
            "auto rst-syn",
            "rst-syn no-syn-drop",
            "abort abort",
            "reserv lazy",
            "no-syn-drop early-syn-drop",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
