// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of reserv (Shukla, thesis, 4.1.2 and 4.1.7), and of lazy, which is built on it, as an
//! operator and a scenario give them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::bounds;
use crate::raw::{TG_ONE_X256, TG_ROOM_RESERVE, tg_rules};

/// How often each free place may be promised.
pub const OVERBOOK: RangeInclusive<f64> = 1.0..=1000.0;
/// From which share of the places on SYNs are dropped early, and up to which probability.
pub const EARLY_DROP: RangeInclusive<f64> = 0.0..=1.0;
/// How old a half-open request may become that holds a place, in ms.
pub const CLEAN_AFTER_MS: RangeInclusive<i64> = 1..=600_000;
/// So often who cleans looks for old ones.
pub const CLEANS_EVERY: Duration = Duration::from_millis(250);

/// What is said of it; what is not stays as the rules have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reserv<'a> {
    /// Each free place is promised so many times.
    pub overbook: Option<f64>,
    /// What a SYN gets when no place is left: `refuse`, as the mechanism says, or `cookie`.
    pub when_exhausted: Option<&'a str>,
    /// From this share of the places on SYNs are dropped early, by lot.
    pub early_drop_from: Option<f64>,
    /// Up to this probability, where all places are taken.
    pub early_drop_probability: Option<f64>,
    /// Older half-open requests give their place back, where there is no room.
    pub clean_after_ms: Option<i64>,
}

/// What is wrong with an option, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongOption {
    /// Which it is; `reserv` is all of them.
    pub key: &'static str,
    /// What is wrong.
    pub what: String,
    /// How to mend it.
    pub fix: String,
}

impl WrongOption {
    fn new(key: &'static str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { key, what: what.into(), fix: fix.into() }
    }
}

impl Reserv<'_> {
    /// Rules of a mechanism with these options.
    ///
    /// # Errors
    /// The first option that the rules do not go with, or that is out of its bounds.
    pub fn over(&self, rules: tg_rules) -> Result<tg_rules, WrongOption> {
        if rules.room != TG_ROOM_RESERVE {
            return Err(WrongOption::new(
                "reserv",
                "reserv has options, but the mechanism names neither it nor \"lazy\"",
                "add \"reserv\" to the mechanism, or take the options out",
            ));
        }
        let mut rules = rules;
        if let Some(overbook) = self.overbook {
            rules.overbook_x256 = in_256ths("overbook", overbook, OVERBOOK)?;
        }
        self.drop_early(&mut rules)?;
        if let Some(after_ms) = self.clean_after_ms {
            rules.clean_after_ms = within("clean_after_ms", after_ms, CLEAN_AFTER_MS)? as u32;
        }
        match self.when_exhausted {
            None | Some("refuse") => {}
            Some("cookie") => rules.cookie_when_reserved = 1,
            Some(other) => {
                return Err(WrongOption::new(
                    "when_exhausted",
                    format!("when_exhausted = \"{other}\" is unknown"),
                    "write \"refuse\" or \"cookie\"",
                ));
            }
        }
        Ok(rules)
    }

    fn drop_early(&self, rules: &mut tg_rules) -> Result<(), WrongOption> {
        if let Some(from) = self.early_drop_from {
            rules.early_from_x256 = in_256ths("early_drop_from", from, EARLY_DROP)?;
            rules.early_probability_x256 = TG_ONE_X256;
        }
        let Some(probability) = self.early_drop_probability else { return Ok(()) };
        if self.early_drop_from.is_none() {
            return Err(WrongOption::new(
                "early_drop_probability",
                "early_drop_probability does nothing without early_drop_from",
                "add early_drop_from = 0.75, or take it out",
            ));
        }
        rules.early_probability_x256 =
            in_256ths("early_drop_probability", probability, EARLY_DROP)?;
        Ok(())
    }
}

/// An end of the range often says never or always: what is near to one is not taken for it.
fn in_256ths(
    key: &'static str,
    number: f64,
    range: RangeInclusive<f64>,
) -> Result<u32, WrongOption> {
    let (from, to) = range.clone().into_inner();
    let one = f64::from(TG_ONE_X256);
    let parts_x256 = (within(key, number, range)? * one).round();
    let taken = parts_x256 / one;
    // The next that is not the end, in as many digits as tell them apart.
    let fix = if taken == from && number != from {
        format!("give {from}, or {} or more", ((from + 1.0 / one) * 1000.0).ceil() / 1000.0)
    } else if taken == to && number != to {
        format!("give {to}, or {} or less", ((to - 1.0 / one) * 1000.0).floor() / 1000.0)
    } else {
        return Ok(parts_x256 as u32);
    };
    let what = format!("{key} = {number} is counted in 256ths, and would be {taken}");
    Err(WrongOption::new(key, what, fix))
}

fn within<T: PartialOrd + Display>(
    key: &'static str,
    number: T,
    range: RangeInclusive<T>,
) -> Result<T, WrongOption> {
    bounds::within(key, number, range).map_err(|(what, fix)| WrongOption::new(key, what, fix))
}
