// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Factors: what the whole of a scenario is varied by, each of its levels with each of all others.

use serde::Deserialize;

use crate::clients::{ClientKeys, Clients};
use crate::load::Form;
use crate::server::{Server, ServerKeys};

/// A level of each factor, under which every curve is run. A scenario without factors has one
/// combination, of none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Combination {
    /// Names of the levels, in the order of the factors.
    pub levels: Vec<String>,
    /// Of each, whether [`Form::Short`] has it.
    short: Vec<bool>,
}

impl Combination {
    /// What this curve is called in it.
    #[must_use]
    pub fn curve(&self, curve: &str) -> String {
        let names = std::iter::once(curve).chain(self.levels.iter().map(String::as_str));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Whether a scenario has it in this form.
    #[must_use]
    pub fn is_of(&self, form: Form) -> bool {
        self.levels(form).all(|(_, is_of_form)| is_of_form)
    }

    /// Each level's name, and whether a form has it.
    pub(crate) fn levels(&self, form: Form) -> impl Iterator<Item = (&str, bool)> {
        let short = self.short.iter().map(move |short| form == Form::Full || *short);
        self.levels.iter().map(String::as_str).zip(short)
    }
}

/// What a file says of a factor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FactorKeys {
    pub name: String,
    levels: Vec<LevelKeys>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LevelKeys {
    name: String,
    /// Whether the short form has it; it has all levels where this is said of none.
    #[serde(default)]
    short: bool,
    #[serde(default)]
    server: ServerKeys,
    #[serde(default)]
    clients: ClientKeys,
}

impl FactorKeys {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.levels.is_empty() {
            return Err(format!("the factor \"{}\" has no levels: give one or more", self.name));
        }
        let names: Vec<&str> = self.levels.iter().map(|level| level.name.as_str()).collect();
        match names.iter().enumerate().find(|(place, name)| names[..*place].contains(name)) {
            Some((_, name)) => Err(format!(
                "two levels of \"{}\" are called \"{name}\": give one another name",
                self.name
            )),
            None => Ok(()),
        }
    }
}

/// Every combination, the last factor's levels first, each with its server and clients.
pub(crate) fn combinations(
    factors: &[&FactorKeys],
    server: &Server,
    clients: &Clients,
) -> Vec<(Combination, Server, Clients)> {
    let none = Combination { levels: Vec::new(), short: Vec::new() };
    let mut all = vec![(none, server.clone(), clients.clone())];
    for factor in factors {
        let names_short = factor.levels.iter().any(|level| level.short);
        let with = |(before, server, clients): &(Combination, Server, Clients)| {
            let one = |level: &LevelKeys| {
                let mut combination = before.clone();
                combination.levels.push(level.name.clone());
                combination.short.push(level.short || !names_short);
                (combination, level.server.over(server), level.clients.over(clients))
            };
            factor.levels.iter().map(one).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}
