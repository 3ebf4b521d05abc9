// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The networks that clients come from, where an experiment tells them apart.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use serde::{Deserialize, Serialize};
use tidegate_client::Part;

/// Where the server listens, live and simulated.
pub const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 87, 0, 1), 8080);
/// As many /24 as there are in the crowd's /16.
const NETWORKS: usize = 256;

/// The address of the network of this number, below 256; the rest of its /24 are its clients'. A crowd of
/// no networks comes from that of number 0 live.
#[must_use]
pub fn network(number: u16) -> Ipv4Addr {
    Ipv4Addr::from(0x0a00_0000 | 128 << 16 | u32::from(number) << 8)
}

/// What results have of each group, and what beside that of one of several networks.
const OF_EACH: [&str; 3] = ["attempts_per_s", "answered_per_s", "success"];
const OF_SEVERAL: [&str; 2] = ["success_least", "success_most"];

/// How many bits of such an address are the network's.
pub const NETWORK_BITS: u8 = 24;

/// Networks that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What results call it.
    pub name: String,
    /// How often clients come from it, all its networks together, in any unit: only the ratios to the other
    /// groups count.
    pub share: f64,
    /// How many networks it has, a /24 each.
    #[serde(default = "one")]
    pub networks: u16,
}

fn one() -> u16 {
    1
}

/// All groups; none: nobody tells networks apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Networks {
    groups: Vec<Group>,
}

impl Networks {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| usize::from(group.networks)).sum()
    }

    /// How often clients come from each network, by its number.
    pub fn shares(&self) -> impl Iterator<Item = f64> {
        self.groups.iter().flat_map(|group| {
            let each = group.share / f64::from(group.networks);
            std::iter::repeat_n(each, group.networks.into())
        })
    }

    /// The numbers of a group's networks, which follow each other.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<Range<u16>> {
        self.numbered().find(|(group, _)| group.name == name).map(|(_, numbers)| numbers)
    }

    fn numbered(&self) -> impl Iterator<Item = (&Group, Range<u16>)> {
        self.groups.iter().scan(0, |next, group| {
            let first = *next;
            *next += group.networks;
            Some((group, first..*next))
        })
    }

    /// What clients of each group saw, of networks by their numbers: `NAME.attempts_per_s`,
    /// `NAME.answered_per_s` (those with whole replies, by their start), and the share of the attempts that
    /// had them, of all its networks, `NAME.success`, and where they are several of the worst and the best,
    /// `NAME.success_least`, `NAME.success_most`.
    #[must_use]
    pub fn seen(&self, parts: &[Part], duration_s: f64) -> BTreeMap<String, f64> {
        let mut seen = BTreeMap::new();
        for (Group { name, .. }, numbers) in self.numbered() {
            let numbers = usize::from(numbers.start)..usize::from(numbers.end);
            let Some(parts) = parts.get(numbers) else { continue };
            let (attempts, replies) = parts.iter().fold((0, 0), |(attempts, replies), part| {
                (attempts + part.attempts, replies + part.replies)
            });
            let mut add = |what: &str, number: f64| seen.insert(format!("{name}.{what}"), number);
            add("attempts_per_s", attempts as f64 / duration_s);
            add("answered_per_s", replies as f64 / duration_s);
            // Of nobody it is unknown, and not 0.
            if attempts > 0 {
                add("success", Part { attempts, replies }.success());
            }
            let each = || parts.iter().filter(|part| part.attempts > 0).map(Part::success);
            if parts.len() > 1
                && let (Some(least), Some(most)) =
                    (each().min_by(f64::total_cmp), each().max_by(f64::total_cmp))
            {
                add("success_least", least);
                add("success_most", most);
            }
        }
        seen
    }

    /// What these numbers are called.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = String> {
        self.groups.iter().flat_map(|Group { name, networks, .. }| {
            let of_several = OF_SEVERAL.into_iter().filter(|_| *networks > 1);
            OF_EACH.into_iter().chain(of_several).map(move |what| format!("{name}.{what}"))
        })
    }

    /// In a few words, as results name them.
    pub(crate) fn summary(&self) -> String {
        self.groups.iter().fold(String::new(), |mut words, group| {
            let comma = if words.is_empty() { "" } else { ", " };
            let Group { name, share, networks } = group;
            let _ = write!(words, "{comma}{name} {share}");
            if *networks > 1 {
                let _ = write!(words, " of {networks} networks");
            }
            words
        })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        for (place, Group { name, share, networks }) in self.groups.iter().enumerate() {
            let is_word = !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
            if !is_word {
                return Err(format!(
                    "a network's name is of letters, digits, - and _, and not \"{name}\""
                ));
            }
            if self.groups[..place].iter().any(|other| other.name == *name) {
                return Err(format!("two networks are called \"{name}\": rename one"));
            }
            if !(*share > 0.0 && *share <= 1e9) {
                return Err(format!("share {share} of network \"{name}\" is not above 0"));
            }
            if *networks == 0 {
                return Err(format!("networks = 0 of \"{name}\": give 1 or more, or leave it out"));
            }
        }
        if self.len() > NETWORKS {
            return Err(format!("{} networks are more than {NETWORKS}", self.len()));
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use super::*;

    pub(crate) fn networks(text: &str) -> Networks {
        #[derive(Deserialize)]
        struct Keys {
            networks: Networks,
        }
        toml::from_str::<Keys>(&format!("networks = {text}")).unwrap().networks
    }

    #[test]
    fn clients_of_a_group_come_from_its_networks_alike() {
        let both = networks(
            r#"[{ name = "others", share = 3, networks = 4 }, { name = "large", share = 5 }]"#,
        );
        assert_eq!(both.len(), 5);
        assert_eq!(both.shares().collect::<Vec<_>>(), [0.75, 0.75, 0.75, 0.75, 5.0]);
        assert_eq!((both.of("others"), both.of("large")), (Some(0..4), Some(4..5)));
        assert_eq!(both.of("none"), None);
        assert_eq!(both.summary(), "others 3 of 4 networks, large 5");
        assert_eq!(network(4), Ipv4Addr::new(10, 128, 4, 0));
    }

    #[test]
    fn what_they_saw_is_told_of_each_group_and_of_its_best_and_worst_network() {
        let both = networks(
            r#"[{ name = "others", share = 1, networks = 3 }, { name = "large", share = 1 }]"#,
        );
        let parts = [(10, 5), (10, 10), (20, 10), (40, 4)]
            .map(|(attempts, replies)| Part { attempts, replies });
        let seen = both.seen(&parts, 2.0);
        let expected = [
            ("large.attempts_per_s", 20.0),
            ("large.answered_per_s", 2.0),
            ("large.success", 0.1),
            ("others.attempts_per_s", 20.0),
            ("others.answered_per_s", 12.5),
            ("others.success", 0.625),
            ("others.success_least", 0.5),
            ("others.success_most", 1.0),
        ];
        assert_eq!(seen, expected.map(|(name, number)| (name.to_owned(), number)).into());
        assert_eq!(seen.into_keys().collect::<BTreeSet<_>>(), both.numbers().collect());
        assert_eq!(both.seen(&[], 2.0), BTreeMap::new());
        let nobody = both.seen(&[Part::default(); 4], 2.0);
        assert!(!nobody.contains_key("large.success"), "{nobody:?}");
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (text, told) in [
            (r#"[{ name = "a.b", share = 1 }]"#, "not \"a.b\""),
            (r#"[{ name = "a", share = 0 }]"#, "share 0"),
            (r#"[{ name = "a", share = 1, networks = 0 }]"#, "networks = 0"),
            (r#"[{ name = "a", share = 1, networks = 257 }]"#, "257 networks"),
            (r#"[{ name = "a", share = 1 }, { name = "a", share = 2 }]"#, "two networks"),
        ] {
            let said = networks(text).check().unwrap_err();
            assert!(said.contains(told), "{said}");
        }
    }
}
