// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping of a curve (Jamjoom and Shin, SIGCOMM 2003), in the words of `tidegate`'s
//! configuration.

use serde::{Deserialize, Serialize};
use tidegate_policy::shed::{self, Key, Policy, Refusal, Word};

/// Where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShedPlace {
    /// On the server, before its mechanism.
    #[default]
    Server,
    /// On the router before it, as in the paper (4.1).
    Router,
}

/// Persistent dropping, resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shed {
    /// Who is dropped.
    #[serde(alias = "by", default, with = "word")]
    pub policy: Policy,
    /// What is dropped as one.
    #[serde(default, with = "word")]
    pub key: Key,
    /// p*; with `rbd` that of each SYN.
    pub p: ShedShare,
    /// With `p = "auto"`, connections to admit in multiples of the capacity; none is what the
    /// listener drains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_over_capacity: Option<f64>,
    /// The form of refusal.
    #[serde(default, with = "word")]
    pub refuse: Refusal,
    /// SYNs of a client before it gives up; none is what `tidegate` takes with this form of refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// New connections a second that the table is made for.
    #[serde(default = "arrivals_per_s")]
    pub arrivals_per_s: u32,
    /// Where it stands.
    #[serde(default)]
    pub at: ShedPlace,
    /// So many in a row, each with a key of its own: a network of queues (3.2).
    #[serde(default = "one")]
    pub in_series: u32,
}

/// A probability, or one that is controlled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ShedShare {
    /// This one.
    Of(f64),
    /// What the listener cannot drain, or what is above a rate.
    Auto,
}

/// Twice what anything here offers.
fn arrivals_per_s() -> u32 {
    200_000
}

fn one() -> u32 {
    1
}

/// The policy's words, as text.
mod word {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tidegate_policy::shed::Word;

    pub(super) fn serialize<W: Word, S: Serializer>(word: &W, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(word.name())
    }

    pub(super) fn deserialize<'de, W: Word, D: Deserializer<'de>>(from: D) -> Result<W, D::Error> {
        let name = String::deserialize(from)?;
        let unknown =
            || D::Error::custom(format_args!("`{name}` is unknown: write one of {}", W::list()));
        W::named(&name).ok_or_else(unknown)
    }
}

impl Serialize for ShedShare {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Of(p) => serializer.serialize_f64(*p),
            Self::Auto => serializer.serialize_str("auto"),
        }
    }
}

impl<'de> Deserialize<'de> for ShedShare {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Number(f64),
            Word(String),
        }
        match Given::deserialize(deserializer) {
            Ok(Given::Number(p)) if shed::P_RANGE.contains(&p) => Ok(Self::Of(p)),
            Ok(Given::Word(word)) if word == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom(format_args!(
                "p is a number from {} to {}, or \"auto\"",
                shed::P_RANGE.start(),
                shed::P_RANGE.end(),
            ))),
        }
    }
}

impl Shed {
    /// The same with what it leaves open filled in: what is left open is no other experiment than what is
    /// said as it would be.
    pub(crate) fn resolved(self) -> Self {
        Self { attempts: Some(self.attempts()), ..self }
    }

    /// SYNs of a client before it gives up.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts.unwrap_or(self.refuse.attempts())
    }

    /// In a few words, as curves and results name it.
    #[must_use]
    pub fn name(&self) -> String {
        let share = match (self.p, self.rate_over_capacity) {
            (ShedShare::Of(p), _) => p.to_string(),
            (ShedShare::Auto, None) => "auto".to_owned(),
            (ShedShare::Auto, Some(rate)) => format!("auto to {rate}×"),
        };
        let mut words = format!("{} {share}", self.policy.name());
        if self.key != Key::default() {
            words.push_str(&format!(" by {}", self.key.name()));
        }
        if self.refuse != Refusal::default() {
            words.push_str(&format!(", {}", self.refuse.name()));
        }
        if self.in_series > 1 {
            words.push_str(&format!(", {} in series", self.in_series));
        }
        words
    }

    /// As `tidegate`'s configuration has it, for a server of this capacity.
    #[must_use]
    pub fn configuration(&self, capacity_per_s: f64) -> String {
        let p = match self.p {
            ShedShare::Of(p) => p.to_string(),
            ShedShare::Auto => "\"auto\"".to_owned(),
        };
        let rate = match self.rate_per_s(capacity_per_s) {
            0 => String::new(),
            rate_per_s => format!(", rate_per_s = {rate_per_s}"),
        };
        let (policy, refuse) = (self.policy.name(), self.refuse.name());
        // It draws for every SYN, and takes nothing that is about clients or a table of them.
        let of_clients = match self.policy {
            Policy::Rbd => String::new(),
            Policy::Slpd | Policy::Sbpd => format!(
                ", key = \"{}\", attempts = {}, arrivals_per_s = {}",
                self.key.name(),
                self.attempts(),
                self.arrivals_per_s,
            ),
        };
        format!("{{ policy = \"{policy}\", p = {p}{rate}, refuse = \"{refuse}\"{of_clients} }}")
    }

    /// Connections a second to admit at a server of this capacity; 0 is what its listener drains.
    #[must_use]
    pub fn rate_per_s(&self, capacity_per_s: f64) -> u32 {
        self.rate_over_capacity.map_or(0, |rate| (rate * capacity_per_s).round().max(1.0) as u32)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if !self.policy.can_shed_by(self.key) {
            return Err("sbpd draws for each connection: with key = \"client\" give slpd".into());
        }
        if self.policy == Policy::Rbd && self.key == Key::Client {
            return Err("rbd draws for every SYN: with key = \"client\" give slpd".into());
        }
        let is_auto = self.p == ShedShare::Auto;
        if let Some(rate) = self.rate_over_capacity
            && !(is_auto && rate > 0.0 && rate <= 100.0)
        {
            return Err(format!(
                "rate_over_capacity {rate} is for p = \"auto\", above 0 and up to 100"
            ));
        }
        if is_auto && self.at == ShedPlace::Router && self.rate_over_capacity.is_none() {
            return Err("a router sees no listen queue: with p = \"auto\" give \
                        rate_over_capacity too"
                .into());
        }
        for (key, number, most) in [
            ("attempts", self.attempts(), shed::ATTEMPTS_MOST),
            ("arrivals_per_s", self.arrivals_per_s, shed::ARRIVALS_PER_S_MOST),
            ("in_series", self.in_series, 64),
        ] {
            if !(1..=most).contains(&number) {
                return Err(format!("{key} {number} is not between 1 and {most}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shed(text: &str) -> Result<Shed, String> {
        let shed: Shed = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        shed.check().map(|()| shed)
    }

    #[test]
    fn it_is_said_in_the_words_of_the_configuration() {
        let one = shed("by = \"sbpd\"\np = 0.1\nrefuse = \"rst\"").unwrap();
        assert_eq!(one.name(), "sbpd 0.1, rst");
        assert_eq!(
            one.configuration(1000.0),
            "{ policy = \"sbpd\", p = 0.1, refuse = \"rst\", key = \"connection\", attempts = 1, \
             arrivals_per_s = 200000 }"
        );
        let rbd = shed("by = \"rbd\"\np = 0.5").unwrap().configuration(1000.0);
        assert_eq!(rbd, "{ policy = \"rbd\", p = 0.5, refuse = \"silence\" }");
        let auto = shed("p = \"auto\"\nat = \"router\"\nrate_over_capacity = 0.9").unwrap();
        assert_eq!(auto.name(), "slpd auto to 0.9×");
        assert!(auto.configuration(1000.0).contains("p = \"auto\", rate_per_s = 900, "));
        let client = shed("policy = \"slpd\"\nkey = \"client\"\np = \"auto\"").unwrap();
        assert_eq!((client.name().as_str(), client.rate_per_s(1e3)), ("slpd auto by client", 0));
    }

    /// Who is told does not come again. Else a curve's last fallback would be another than the one that ships.
    #[test]
    fn attempts_are_tidegates_own_where_nothing_is_said_of_them() {
        for (refuse, attempts) in [("silence", 5), ("rst", 1), ("cookie", 1)] {
            let open = format!("p = 0.1\nrefuse = \"{refuse}\"");
            let said = format!("{open}\nattempts = 7");
            let of = |text: &str| shed(text).unwrap().attempts();
            assert_eq!((of(&open), of(&said)), (attempts, 7), "{refuse}");
        }
    }

    #[test]
    fn what_cannot_be_is_told_so() {
        for (text, part) in [
            ("p = 0", "0.001 to 1"),
            ("p = \"much\"", "\"auto\""),
            ("by = \"red\"\np = 0.1", "`red` is unknown: write one of \"rbd\", \"slpd\", \"sbpd\""),
            ("key = \"ip\"\np = 0.1", "\"client\", \"connection\""),
            ("by = \"sbpd\"\nkey = \"client\"\np = 0.1", "sbpd draws for each connection"),
            ("by = \"rbd\"\nkey = \"client\"\np = 0.1", "rbd draws for every SYN"),
            ("p = 0.1\nrate_over_capacity = 1.0", "for p = \"auto\""),
            ("p = \"auto\"\nat = \"router\"", "rate_over_capacity"),
            ("p = 0.1\nin_series = 0", "in_series 0"),
            ("p = 0.1\nattempts = 0", "attempts 0"),
            ("policy = \"slpd\"", "0.001 to 1"),
        ] {
            let told = shed(text).unwrap_err();
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
