// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whose TCP the clients have: one operating system's, or a mixture.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate_client::Os;

/// Operating systems, by how often clients have them: a weight for each. There is one at least.
#[derive(Clone, Debug, PartialEq)]
pub struct Systems(Vec<(&'static Os, f64)>);

impl Systems {
    /// One for all.
    #[must_use]
    pub fn all(os: &'static Os) -> Self {
        Self(vec![(os, 1.0)])
    }

    /// Each with its weight.
    pub fn each(&self) -> impl Iterator<Item = (&'static Os, f64)> {
        self.0.iter().copied()
    }
}

/// The name alone where it is one, else `linux 2, windows 1`.
impl fmt::Display for Systems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(os, _)] = self.0[..] {
            return f.write_str(os.name);
        }
        let words: Vec<_> = self.each().map(|(os, share)| format!("{} {share}", os.name)).collect();
        f.write_str(&words.join(", "))
    }
}

impl Serialize for Systems {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0[..] {
            [(os, _)] => serializer.serialize_str(os.name),
            _ => serializer.collect_map(self.each().map(|(os, share)| (os.name, share))),
        }
    }
}

impl<'de> Deserialize<'de> for Systems {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Name(String),
            Weights(BTreeMap<String, f64>),
        }
        let weights = match Given::deserialize(deserializer) {
            Ok(Given::Name(name)) => BTreeMap::from([(name, 1.0)]),
            Ok(Given::Weights(weights)) if !weights.is_empty() => weights,
            _ => {
                return Err(D::Error::custom(
                    "os is the name of a system, or weights as in { linux = 2, windows = 1 }",
                ));
            }
        };
        let mut systems = Vec::new();
        for (name, weight) in weights {
            if !(weight > 0.0 && weight.is_finite()) {
                return Err(D::Error::custom(format_args!("{name} = {weight} is not above 0")));
            }
            systems.push((Os::named(&name).map_err(D::Error::custom)?, weight));
        }
        Ok(Self(systems))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, Serialize)]
    struct Line {
        os: Systems,
    }

    fn read(text: &str) -> Result<Systems, toml::de::Error> {
        toml::from_str::<Line>(text).map(|line| line.os)
    }

    #[test]
    fn one_system_is_a_name_and_several_are_weights() {
        let one = read("os = \"windows\"").unwrap();
        assert_eq!(one.to_string(), "windows");
        let mixed = read("os = { windows = 1, linux = 2 }").unwrap();
        assert_eq!(mixed.to_string(), "linux 2, windows 1");
        assert_eq!(mixed.each().map(|(os, _)| os.name).collect::<Vec<_>>(), ["linux", "windows"]);
        for systems in [one, mixed] {
            let text = toml::to_string(&Line { os: systems.clone() }).unwrap();
            assert_eq!(read(&text).unwrap(), systems);
        }
    }

    #[test]
    fn a_system_that_is_none_is_named() {
        for (text, says) in [
            ("os = \"lunix\"", "no operating system `lunix` is known"),
            ("os = { linux = 1, lunix = 1 }", "no operating system `lunix` is known"),
            ("os = { linux = 0 }", "linux = 0 is not above 0"),
            ("os = {}", "os is the name of a system"),
            ("os = 7", "os is the name of a system"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
