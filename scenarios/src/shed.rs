// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping of a curve (Jamjoom and Shin, SIGCOMM 2003), in the words of `tidegate`'s
//! configuration.

use serde::{Deserialize, Serialize};

/// Who is dropped at every attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShedPolicy {
    /// Whom a keyed hash chooses (3.4.1).
    #[default]
    Slpd,
    /// Who is drawn, as a table remembers (3.4.2).
    Sbpd,
    /// Nobody: every SYN is drawn for, the paper's baseline.
    Rbd,
}

/// What is dropped as one (3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShedKey {
    /// All connections of an address: H1.
    Client,
    /// Each connection by itself: H2.
    #[default]
    Connection,
}

/// The form of refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShedRefusal {
    /// None, the paper's.
    #[default]
    Silence,
    /// RST.
    Rst,
    /// SYN/ACK, and RST for who answers it.
    Cookie,
}

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
    #[serde(alias = "by", default)]
    pub policy: ShedPolicy,
    /// What is dropped as one.
    #[serde(default)]
    pub key: ShedKey,
    /// p*; with `rbd` that of each SYN.
    pub p: ShedShare,
    /// With `p = "auto"`, connections to admit in multiples of the capacity; none is what the
    /// listener drains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_over_capacity: Option<f64>,
    /// The form of refusal.
    #[serde(default)]
    pub refuse: ShedRefusal,
    /// SYNs of a client before it gives up.
    #[serde(default = "attempts")]
    pub attempts: u32,
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

/// As `tidegate` has it: Windows of today sends five SYNs.
fn attempts() -> u32 {
    5
}

/// Twice what anything here offers.
fn arrivals_per_s() -> u32 {
    200_000
}

fn one() -> u32 {
    1
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
            Ok(Given::Number(p)) if (0.001..=1.0).contains(&p) => Ok(Self::Of(p)),
            Ok(Given::Word(word)) if word == "auto" => Ok(Self::Auto),
            _ => Err(serde::de::Error::custom("p is a number from 0.001 to 1, or \"auto\"")),
        }
    }
}

impl ShedPolicy {
    /// As `tidegate` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Slpd => "slpd",
            Self::Sbpd => "sbpd",
            Self::Rbd => "rbd",
        }
    }
}

impl Shed {
    /// In a few words, as curves and results name it.
    #[must_use]
    pub fn name(&self) -> String {
        let share = match (self.p, self.rate_over_capacity) {
            (ShedShare::Of(p), _) => p.to_string(),
            (ShedShare::Auto, None) => "auto".to_owned(),
            (ShedShare::Auto, Some(rate)) => format!("auto to {rate}×"),
        };
        let mut words = format!("{} {share}", self.policy.name());
        words.push_str(if self.key == ShedKey::Client { " by client" } else { "" });
        words.push_str(match self.refuse {
            ShedRefusal::Silence => "",
            ShedRefusal::Rst => ", rst",
            ShedRefusal::Cookie => ", cookie",
        });
        if self.in_series > 1 {
            words.push_str(&format!(", {} in series", self.in_series));
        }
        words
    }

    /// As `tidegate`'s configuration has it, for a server of this capacity.
    #[must_use]
    pub fn configuration(&self, capacity_per_s: f64) -> String {
        let key = if self.key == ShedKey::Client { "client" } else { "connection" };
        let refuse = match self.refuse {
            ShedRefusal::Silence => "silence",
            ShedRefusal::Rst => "rst",
            ShedRefusal::Cookie => "cookie",
        };
        let p = match self.p {
            ShedShare::Of(p) => p.to_string(),
            ShedShare::Auto => "\"auto\"".to_owned(),
        };
        let rate = match self.rate_per_s(capacity_per_s) {
            0 => String::new(),
            rate_per_s => format!(", rate_per_s = {rate_per_s}"),
        };
        format!(
            "{{ policy = \"{}\", key = \"{key}\", p = {p}{rate}, refuse = \"{refuse}\", \
             attempts = {}, arrivals_per_s = {} }}",
            self.policy.name(),
            self.attempts,
            self.arrivals_per_s,
        )
    }

    /// Connections a second to admit at a server of this capacity; 0 is what its listener drains.
    #[must_use]
    pub fn rate_per_s(&self, capacity_per_s: f64) -> u32 {
        self.rate_over_capacity.map_or(0, |rate| (rate * capacity_per_s).round().max(1.0) as u32)
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.policy == ShedPolicy::Sbpd && self.key == ShedKey::Client {
            return Err("sbpd draws for each connection: with key = \"client\" give slpd".into());
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
            ("attempts", self.attempts, 100),
            ("arrivals_per_s", self.arrivals_per_s, 1_000_000),
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
            "{ policy = \"sbpd\", key = \"connection\", p = 0.1, refuse = \"rst\", attempts = 5, \
             arrivals_per_s = 200000 }"
        );
        let auto = shed("p = \"auto\"\nat = \"router\"\nrate_over_capacity = 0.9").unwrap();
        assert_eq!(auto.name(), "slpd auto to 0.9×");
        assert!(auto.configuration(1000.0).contains("p = \"auto\", rate_per_s = 900, "));
        let client = shed("policy = \"slpd\"\nkey = \"client\"\np = \"auto\"").unwrap();
        assert_eq!((client.name().as_str(), client.rate_per_s(1e3)), ("slpd auto by client", 0));
    }

    #[test]
    fn what_cannot_be_is_told_so() {
        for (text, part) in [
            ("p = 0", "0.001 to 1"),
            ("p = \"much\"", "\"auto\""),
            ("by = \"red\"\np = 0.1", "red"),
            ("by = \"sbpd\"\nkey = \"client\"\np = 0.1", "give slpd"),
            ("p = 0.1\nrate_over_capacity = 1.0", "for p = \"auto\""),
            ("p = \"auto\"\nat = \"router\"", "rate_over_capacity"),
            ("p = 0.1\nin_series = 0", "in_series 0"),
            ("policy = \"slpd\"", "0.001 to 1"),
        ] {
            let told = shed(text).unwrap_err();
            assert!(told.contains(part), "{text}: {told}");
        }
    }
}
