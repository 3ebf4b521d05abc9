// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a curve says of networks of clients: who goes first.

use std::fmt::Write;

use serde::{Deserialize, Serialize};
use tidegate_policy::police::{SYNS_PER_S_MOST, burst};

use crate::curve::Treatment;
use crate::networks::{NETWORK_BITS, Networks, network};

/// A group of networks of which each may send so much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policed {
    /// The group.
    pub network: String,
    /// SYNs a second of each of its networks, in multiples of the connections that the server can take.
    pub over_capacity: f64,
}

/// What holds for a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No rule of the guard's.
    Exempt,
    /// A token bucket.
    Rate {
        /// SYNs a second.
        syns_per_s: u32,
        /// SYNs that may come at once.
        burst: u32,
    },
}

/// Who goes first. By default nobody does.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Precedence {
    /// While there is not room for all, networks have equal shares.
    pub fair_share: bool,
    /// Networks that may send no more.
    pub police: Vec<Policed>,
    /// Groups of which the kernel alone decides.
    pub exempt: Vec<String>,
}

impl Precedence {
    pub(crate) fn check(&self, treatment: &Treatment, networks: &Networks) -> Result<(), String> {
        if *self == Self::default() {
            return Ok(());
        }
        if matches!(treatment, Treatment::Peer(_)) {
            return Err("fair_share, police and exempt are Tidegate's: give a mechanism".to_owned());
        }
        if networks.is_empty() {
            return Err(
                "fair_share, police and exempt are of networks: give clients some".to_owned()
            );
        }
        let policed = self.police.iter().map(|policed| &policed.network);
        let named: Vec<&String> = policed.chain(&self.exempt).collect();
        for (place, name) in named.iter().enumerate() {
            if networks.of(name).is_none() {
                return Err(format!("no network of the clients is called \"{name}\""));
            }
            if named[..place].contains(name) {
                return Err(format!("network \"{name}\" is in police and exempt twice"));
            }
        }
        for Policed { network, over_capacity } in &self.police {
            if !(*over_capacity > 0.0 && *over_capacity <= 1000.0) {
                return Err(format!(
                    "over_capacity {over_capacity} of \"{network}\" is not above 0 and up to 1000"
                ));
            }
        }
        Ok(())
    }

    /// What holds for each network of which something is said, by its number, where the server takes so many
    /// connections a second. A burst is `tidegate`'s where none is said.
    #[must_use]
    pub fn limits(&self, networks: &Networks, capacity_per_s: f64) -> Vec<(u16, Limit)> {
        let policed = self.police.iter().map(|policed| {
            let per_s = (policed.over_capacity * capacity_per_s).floor();
            let syns_per_s = per_s.clamp(1.0, SYNS_PER_S_MOST.into()) as u32;
            (&policed.network, Limit::Rate { syns_per_s, burst: burst(syns_per_s) })
        });
        let exempt = self.exempt.iter().map(|name| (name, Limit::Exempt));
        let each = policed.chain(exempt).flat_map(|(name, limit)| {
            networks.of(name).into_iter().flatten().map(move |number| (number, limit))
        });
        each.collect()
    }

    /// The same as lines of a listener's section, tables at the end.
    #[must_use]
    pub fn configuration(&self, networks: &Networks, capacity_per_s: f64) -> String {
        let limits = self.limits(networks, capacity_per_s);
        let prefix = |number| format!("\"{}/{NETWORK_BITS}\"", network(number));
        let exempt: Vec<String> = limits
            .iter()
            .filter(|(_, limit)| *limit == Limit::Exempt)
            .map(|(number, _)| prefix(*number))
            .collect();
        let mut lines = String::new();
        if self.fair_share {
            lines.push_str("fair_share = true\n");
        }
        if !exempt.is_empty() {
            let _ = writeln!(lines, "exempt = [{}]", exempt.join(", "));
        }
        for (number, limit) in limits {
            let Limit::Rate { syns_per_s, burst } = limit else { continue };
            let network = prefix(number);
            let _ = writeln!(
                lines,
                "[[listener.police]]\nnetwork = {network}\nsyns_per_s = {syns_per_s}\nburst = {burst}"
            );
        }
        lines
    }

    /// As results name it: none, where nothing is said.
    pub(crate) fn name(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.fair_share {
            words.push("fair share".to_owned());
        }
        words.extend(self.police.iter().map(|policed| {
            format!("{} at {} of the capacity", policed.network, policed.over_capacity)
        }));
        words.extend(self.exempt.iter().map(|name| format!("{name} exempt")));
        (!words.is_empty()).then(|| words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks() -> Networks {
        crate::networks::tests::networks(
            r#"[{ name = "others", share = 3, networks = 2 }, { name = "own", share = 1 },
                { name = "large", share = 5 }]"#,
        )
    }

    fn policed(name: &str, over_capacity: f64) -> Policed {
        Policed { network: name.to_owned(), over_capacity }
    }

    fn precedence() -> Precedence {
        Precedence {
            fair_share: true,
            police: vec![policed("large", 0.25), policed("others", 1e-9)],
            exempt: vec!["own".to_owned()],
        }
    }

    #[test]
    fn both_worlds_are_told_the_same_of_each_network() {
        let rate = |syns_per_s, burst| Limit::Rate { syns_per_s, burst };
        let limits = precedence().limits(&networks(), 1000.0);
        let expected = [(3, rate(250, 25)), (0, rate(1, 1)), (1, rate(1, 1)), (2, Limit::Exempt)];
        assert_eq!(limits, expected);
        let written = precedence().configuration(&networks(), 1000.0);
        let first = "fair_share = true\nexempt = [\"10.128.2.0/24\"]\n[[listener.police]]\n\
             network = \"10.128.3.0/24\"\nsyns_per_s = 250\nburst = 25\n";
        assert!(written.starts_with(first), "{written}");
        assert_eq!(written.matches("[[listener.police]]").count(), 3);
    }

    #[test]
    fn where_nothing_is_said_nothing_is_changed() {
        let nothing = Precedence::default();
        assert_eq!(nothing.configuration(&networks(), 1000.0), "");
        assert_eq!(nothing.name(), None);
        assert_eq!(
            nothing.check(&Treatment::Peer(crate::Peer::Kernel), &Networks::default()),
            Ok(())
        );
        let named = precedence().name().unwrap();
        assert!(
            named.starts_with("fair share, large at 0.25 of the capacity, others at"),
            "{named}"
        );
    }

    #[test]
    fn what_cannot_be_is_told() {
        let auto = Treatment::Mechanism("auto".to_owned());
        assert_eq!(precedence().check(&auto, &networks()), Ok(()));
        let none = Networks::default();
        assert!(precedence().check(&auto, &none).unwrap_err().contains("give clients some"));
        let kernel = Treatment::Peer(crate::Peer::Kernel);
        assert!(precedence().check(&kernel, &networks()).unwrap_err().contains("Tidegate's"));
        let with = |police: Vec<Policed>| {
            Precedence { police, ..precedence() }.check(&auto, &networks()).unwrap_err()
        };
        assert!(with(vec![policed("none", 1.0)]).contains("\"none\""));
        assert!(with(vec![policed("own", 1.0)]).contains("twice"));
        assert!(with(vec![policed("large", 0.0)]).contains("over_capacity 0"));
    }
}
