// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a curve says of its mechanism beside the name, in the words of `tidegate`'s configuration.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tidegate_policy::mechanism::{self, PATIENCE_S, QUEUE_LENGTH, SYN_US, WAIT_MS};
use tidegate_policy::raw::tg_rules;

use crate::curve::Treatment;

/// The options of `auto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auto {
    /// How long clients wait before they give up, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_s: Option<f64>,
    /// How long who is let in waits for accept(), in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<f64>,
    /// What a SYN costs the host that is dropped in silence, in µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syn_us: Option<f64>,
}

const OF_AUTO: &str = "auto.";

/// The options of a mechanism; of each, none is what `tidegate` has for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Options {
    /// Those of `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<Auto>,
    /// `lazy`: connections that are answered ahead of the application's asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
    /// The listen queue's logical limit, below the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
}

impl Options {
    /// Each that is given, as in `wait_ms = 3`, behind the section that it stands in.
    fn given(&self) -> Vec<(&'static str, &'static str, f64)> {
        let auto = self.auto.unwrap_or_default();
        [
            (OF_AUTO, "patience_s", auto.patience_s),
            (OF_AUTO, "wait_ms", auto.wait_ms),
            (OF_AUTO, "syn_us", auto.syn_us),
            ("", "ahead", self.ahead.map(f64::from)),
            ("", "places", self.places.map(f64::from)),
        ]
        .into_iter()
        .filter_map(|(section, key, value)| value.map(|value| (section, key, value)))
        .collect()
    }

    pub(crate) fn check(&self, treatment: &Treatment) -> Result<(), String> {
        let given = self.given();
        let Treatment::Mechanism(name) = treatment else {
            return match given.first() {
                None => Ok(()),
                Some((_, key, _)) => Err(format!("{key} is Tidegate's: give a mechanism")),
            };
        };
        let rules = mechanism::parse(name).map_err(|error| error.to_string())?;
        let queue = f64::from(*QUEUE_LENGTH.start())..=f64::from(*QUEUE_LENGTH.end());
        for (section, key, value) in given {
            let range = match key {
                "patience_s" => &PATIENCE_S,
                "wait_ms" => &WAIT_MS,
                "syn_us" => &SYN_US,
                _ => &queue,
            };
            let is_others =
                (section == OF_AUTO && rules.is_auto == 0) || (key == "ahead" && rules.ahead == 0);
            if is_others {
                return Err(format!("{key} is no option of \"{name}\": take it out"));
            }
            if !range.contains(&value) {
                let (from, to) = (range.start(), range.end());
                return Err(format!("{key} = {value} is not from {from} to {to}"));
            }
        }
        Ok(())
    }

    /// A mechanism's rules with these options.
    #[must_use]
    pub fn over(&self, rules: tg_rules) -> tg_rules {
        let auto = self.auto.unwrap_or_default();
        let thousandths = |given: Option<f64>| given.map(|n| (n * 1000.0).round() as u32);
        tg_rules {
            patience_ms: thousandths(auto.patience_s).unwrap_or(rules.patience_ms),
            wait_us: thousandths(auto.wait_ms).unwrap_or(rules.wait_us),
            syn_ns: thousandths(auto.syn_us).map_or(rules.syn_ns, u64::from),
            ahead: self.ahead.unwrap_or(rules.ahead),
            places: self.places.unwrap_or(rules.places),
            ..rules
        }
    }

    /// Lines of a listener's section.
    #[must_use]
    pub fn configuration(&self) -> String {
        self.given().iter().fold(String::new(), |mut lines, (section, key, value)| {
            // A whole number is written without a point, which suits both kinds.
            let _ = writeln!(lines, "{section}{key} = {value}");
            lines
        })
    }

    /// As results name them: none, where none is given.
    pub(crate) fn name(&self) -> Option<String> {
        let words: Vec<_> =
            self.given().iter().map(|(_, key, value)| format!("{key} = {value}")).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mechanism(name: &str) -> Treatment {
        Treatment::Mechanism(name.to_owned())
    }

    fn waiting(wait_ms: f64) -> Options {
        Options {
            auto: Some(Auto { wait_ms: Some(wait_ms), ..Auto::default() }),
            ..Options::default()
        }
    }

    #[test]
    fn what_is_not_given_stays_as_it_is() {
        let rules = mechanism::parse("auto").unwrap();
        assert_eq!(Options::default().over(rules), rules);
        assert_eq!(Options::default().configuration(), "");
        assert_eq!(waiting(2.5).over(rules), tg_rules { wait_us: 2500, ..rules });
    }

    #[test]
    fn both_worlds_are_told_the_same() {
        let options = Options { ahead: Some(4), places: Some(20), ..Options::default() };
        assert_eq!(options.configuration(), "ahead = 4\nplaces = 20\n");
        assert_eq!(waiting(3.0).configuration(), "auto.wait_ms = 3\n");
        assert_eq!(waiting(3.0).name().as_deref(), Some("wait_ms = 3"));
    }

    #[test]
    fn an_option_of_another_mechanism_is_said_to_be_one() {
        assert_eq!(waiting(3.0).check(&mechanism("auto")), Ok(()));
        let wrong = waiting(3.0).check(&mechanism("abort")).unwrap_err();
        assert_eq!(wrong, "wait_ms is no option of \"abort\": take it out");
        let wrong = waiting(-1.0).check(&mechanism("auto")).unwrap_err();
        assert_eq!(wrong, "wait_ms = -1 is not from 0 to 1000");
        assert!(waiting(3.0).check(&Treatment::Peer(crate::Peer::Kernel)).is_err());
    }
}
