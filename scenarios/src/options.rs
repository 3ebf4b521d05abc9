// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a curve says of its mechanism beside the name, in the words of `tidegate`'s configuration.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tidegate_policy::mechanism::{self, PATIENCE_S, QUEUE_LENGTH, SYN_US, WAIT_MS};
use tidegate_policy::raw::tg_rules;
use tidegate_policy::reserv::{self, WrongOption};

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

/// The options of `reserv`, and of `lazy`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserv {
    /// Each free place is promised so many times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overbook: Option<f64>,
    /// What a SYN gets when no place is left: `refuse` or `cookie`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_exhausted: Option<String>,
    /// From this share of the places on SYNs are dropped early, by lot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_drop_from: Option<f64>,
    /// Up to this probability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub early_drop_probability: Option<f64>,
    /// Older half-open requests give their place back, where there is no room, in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_after_ms: Option<i64>,
}

impl Reserv {
    fn over(&self, rules: tg_rules) -> Result<tg_rules, WrongOption> {
        let asked = reserv::Reserv {
            overbook: self.overbook,
            when_exhausted: self.when_exhausted.as_deref(),
            early_drop_from: self.early_drop_from,
            early_drop_probability: self.early_drop_probability,
            clean_after_ms: self.clean_after_ms,
        };
        asked.over(rules)
    }

    fn given(&self) -> impl Iterator<Item = Given> + use<> {
        let text = |number: Option<f64>| number.map(|number| number.to_string());
        [
            ("overbook", text(self.overbook)),
            ("when_exhausted", self.when_exhausted.as_ref().map(|word| format!("\"{word}\""))),
            ("early_drop_from", text(self.early_drop_from)),
            ("early_drop_probability", text(self.early_drop_probability)),
            ("clean_after_ms", self.clean_after_ms.map(|ms| ms.to_string())),
        ]
        .into_iter()
        .filter_map(|(key, value)| value.map(|value| ("reserv.", key, value)))
    }
}

const OF_AUTO: &str = "auto.";

/// The section that an option stands in, its key, and its value as the configuration has it.
type Given = (&'static str, &'static str, String);

/// The options of a mechanism; of each, none is what `tidegate` has for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Options {
    /// Those of `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<Auto>,
    /// Those of `reserv` and `lazy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserv: Option<Reserv>,
    /// `lazy`: connections that are answered ahead of the application's asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ahead: Option<u32>,
    /// The listen queue's logical limit, below the kernel's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub places: Option<u32>,
}

impl Options {
    /// Each that is given.
    fn given(&self) -> Vec<Given> {
        // A whole number is written without a point, which suits both kinds.
        let numbers = self.numbers().into_iter();
        let numbers = numbers.map(|(section, key, number)| (section, key, number.to_string()));
        numbers.chain(self.reserv.iter().flat_map(Reserv::given)).collect()
    }

    /// Those that are numbers, each with a range of its own.
    fn numbers(&self) -> Vec<(&'static str, &'static str, f64)> {
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
        let Treatment::Mechanism(name) = treatment else {
            return match self.given().first() {
                None => Ok(()),
                Some((_, key, _)) => Err(format!("{key} is Tidegate's: give a mechanism")),
            };
        };
        let rules = mechanism::parse(name).map_err(|error| error.to_string())?;
        let queue = f64::from(*QUEUE_LENGTH.start())..=f64::from(*QUEUE_LENGTH.end());
        for (section, key, value) in self.numbers() {
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
        self.reserving(rules).map_err(|WrongOption { what, fix, .. }| format!("{what}; {fix}"))?;
        Ok(())
    }

    fn reserving(&self, rules: tg_rules) -> Result<tg_rules, WrongOption> {
        self.reserv.as_ref().map_or(Ok(rules), |reserv| reserv.over(rules))
    }

    /// A mechanism's rules with these options.
    ///
    /// # Panics
    /// Where no scenario could have them.
    #[must_use]
    pub fn over(&self, rules: tg_rules) -> tg_rules {
        let rules = self.reserving(rules).expect("options that a scenario has");
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
            let _ = writeln!(lines, "{section}{key} = {value}");
            lines
        })
    }

    /// As results name them: none, where none is given.
    pub(crate) fn name(&self) -> Option<String> {
        let word = |(_, key, value): &Given| format!("{key} = {}", value.trim_matches('"'));
        let words: Vec<_> = self.given().iter().map(word).collect();
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

    fn reserving(text: &str) -> Options {
        Options { reserv: Some(toml::from_str(text).unwrap()), ..Options::default() }
    }

    #[test]
    fn what_is_said_of_reserv_is_told_the_daemon_in_its_words_and_the_simulator_in_rules() {
        let options = reserving(
            "overbook = 1.5\nwhen_exhausted = \"cookie\"\nearly_drop_from = 0.75\n\
             early_drop_probability = 0.5\nclean_after_ms = 3000",
        );
        assert_eq!(options.check(&mechanism("lazy rst-syn")), Ok(()));
        let told = "reserv.overbook = 1.5\nreserv.when_exhausted = \"cookie\"\n\
                    reserv.early_drop_from = 0.75\nreserv.early_drop_probability = 0.5\n\
                    reserv.clean_after_ms = 3000\n";
        assert_eq!(options.configuration(), told);
        let named = "overbook = 1.5, when_exhausted = cookie, early_drop_from = 0.75, \
                     early_drop_probability = 0.5, clean_after_ms = 3000";
        assert_eq!(options.name().as_deref(), Some(named));
        let rules = mechanism::parse("reserv").unwrap();
        let asked = tg_rules {
            overbook_x256: 384,
            cookie_when_reserved: 1,
            early_from_x256: 192,
            early_probability_x256: 128,
            clean_after_ms: 3000,
            ..rules
        };
        assert_eq!(options.over(rules), asked);
        // What it is told is what a scenario may say.
        #[derive(Deserialize)]
        struct Listener {
            reserv: Reserv,
        }
        let read: Listener = toml::from_str(told).unwrap();
        assert_eq!(Some(read.reserv), options.reserv);
    }

    #[test]
    fn wrong_options_of_reserv_are_answered_as_the_daemon_answers_them() {
        for (text, told) in [
            ("overbook = 0.5", "overbook = 0.5 is out of range; give a number from 1 to 1000"),
            (
                "overbook = 1.001",
                "overbook = 1.001 is counted in 256ths, and would be 1; give 1, or 1.004 or more",
            ),
            (
                "early_drop_from = 1.5",
                "early_drop_from = 1.5 is out of range; give a number from 0 to 1",
            ),
            (
                "early_drop_probability = 0.5",
                "early_drop_probability does nothing without early_drop_from; \
                 add early_drop_from = 0.75, or take it out",
            ),
            (
                "when_exhausted = \"drop\"",
                "when_exhausted = \"drop\" is unknown; write \"refuse\" or \"cookie\"",
            ),
            (
                "clean_after_ms = 0",
                "clean_after_ms = 0 is out of range; give a number from 1 to 600000",
            ),
        ] {
            assert_eq!(reserving(text).check(&mechanism("reserv")), Err(told.to_owned()));
        }
        let others = reserving("overbook = 2").check(&mechanism("abort")).unwrap_err();
        assert!(others.starts_with("reserv has options, but the mechanism names neither"));
        let peers = reserving("overbook = 2").check(&Treatment::Peer(crate::Peer::Kernel));
        assert_eq!(peers, Err("overbook is Tidegate's: give a mechanism".to_owned()));
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
