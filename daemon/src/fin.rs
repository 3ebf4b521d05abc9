// SPDX-License-Identifier: Apache-2.0 OR MIT
//! rst-fin (Shukla, thesis, section 4.2.1), as an operator writes it.

use tidegate_policy::mechanism;
use tidegate_policy::names::FIN_RULES;
use tidegate_policy::raw::*;

use crate::setting::{Written, Wrong};

/// What a client's FIN does, by its name.
///
/// # Errors
/// What is wrong, and the fix.
pub fn parse(written: Written, name: &str) -> Result<u32, Wrong> {
    let number = FIN_RULES.iter().position(|known| *known == name);
    number.map(|number| number as u32).ok_or_else(|| {
        (
            format!("{} is unknown", written.setting("fin", name)),
            "write \"half-close\", \"rst-fin\" or \"rst-fin strict\"".to_owned(),
        )
    })
}

/// The name of what a client's FIN does.
pub fn name(rule: u32) -> &'static str {
    FIN_RULES.get(rule as usize).copied().unwrap_or("?")
}

/// The mechanism of a guard by the papers' names, with rst-fin where it has that too.
pub fn mechanism_name(rules: &tg_rules) -> String {
    let mechanism = mechanism::name(rules);
    match rules.fin {
        TG_HALF_CLOSE => mechanism,
        rule => format!("{mechanism} {}", name(rule)),
    }
}
