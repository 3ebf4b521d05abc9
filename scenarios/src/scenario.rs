// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario: an experiment as one file.

mod file;
mod part;
mod source;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::Spanned;

use self::source::Source;
use crate::arrivals::Arrivals;
use crate::claim::Claim;
use crate::curve::Setting;
use crate::error::ScenarioError;
use crate::factor::{Combination, FactorKeys, combinations};
use crate::load::{Form, Load, LoadKeys};
use crate::trace;
use crate::view::{Bars, Panel, Table, default_panels};

pub use part::Part;

/// An experiment: its curves, its load, how it is shown, and what it should show.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What results call it: `shukla-4.7`.
    pub name: String,
    /// What else it may be called: other figures of its paper that the same runs fill.
    pub also: Vec<String>,
    /// The heading.
    pub title: String,
    /// Where it comes from: a paper and its section or figure.
    pub source: String,
    /// What it is about, in a few sentences.
    pub about: String,
    /// Its curves, in the legend's order; each once for every combination of levels.
    pub settings: Vec<Setting>,
    /// What all of it is varied by, if anything.
    pub factors: Vec<String>,
    /// Every combination of their levels, at least one.
    pub combinations: Vec<Combination>,
    /// Plots against offered load.
    pub panels: Vec<Panel>,
    /// Stacked bars.
    pub bars: Vec<Bars>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What it should show.
    pub claims: Vec<Claim>,
    /// What lies between clients and server.
    pub network: Network,
    /// Whether the server's processor is sampled by component (Shukla Table 4.4).
    pub profile: bool,
    /// The curve whose server's capacity every rate is a multiple of; else each its own server's.
    pub capacity_of: Option<String>,
    /// The text it was read from, so that results can carry it.
    pub text: String,
    load: LoadKeys,
    curves: Vec<String>,
}

/// What lies between clients and server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// A cable.
    #[default]
    Direct,
    /// A router.
    Routed,
}

impl Scenario {
    /// Whether the same is run, but for how much is offered, for how long, and by which seed; results of
    /// both are then runs of one, where their traces say the same ([`Scenario::recorded`]).
    #[must_use]
    pub fn runs_what(&self, other: &Self) -> bool {
        self.settings_anywhere() == other.settings_anywhere()
            && self.network == other.network
            && self.capacity_of == other.capacity_of
            && self.profile == other.profile
            && self.warm_ups_s() == other.warm_ups_s()
    }

    /// What the recorded traces say that its curves play, one after the other, each once; nothing where
    /// they play none.
    ///
    /// # Errors
    /// [`ScenarioError::Text`] for one that cannot be read.
    pub fn recorded(&self) -> Result<String, ScenarioError> {
        let texts = self.traces().into_iter().enumerate().map(|(place, file)| {
            Ok(format!("# trace {}\n{}\n", place + 1, trace::read_text(file)?))
        });
        texts.collect()
    }

    /// The files of these traces.
    fn traces(&self) -> Vec<&Path> {
        let mut traces: Vec<&Path> = Vec::new();
        for setting in &self.settings {
            if let Arrivals::Trace(file) = &setting.clients.arrivals
                && !traces.contains(&file.as_path())
            {
                traces.push(file);
            }
        }
        traces
    }

    /// Its curves, each trace by its place among all in place of where it lies: a copy of the scenario
    /// lies elsewhere.
    fn settings_anywhere(&self) -> Vec<Setting> {
        let traces = self.traces();
        let mut settings = self.settings.clone();
        for setting in &mut settings {
            if let Arrivals::Trace(file) = &mut setting.clients.arrivals {
                let place = traces.iter().position(|trace| *trace == file.as_path());
                *file = PathBuf::from(place.unwrap_or_default().to_string());
            }
        }
        settings
    }

    /// Load before attempts count, in either form.
    fn warm_ups_s(&self) -> [Option<f64>; 2] {
        [Form::Full, Form::Short].map(|form| self.load(form).warm_up_s)
    }

    /// Reads a file; its stem is the scenario's name.
    ///
    /// # Errors
    /// [`ScenarioError::Unreadable`], or what [`Scenario::parse`] finds.
    pub fn read(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError::Unreadable {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        let name =
            path.file_stem().map_or_else(|| file.clone(), |stem| stem.to_string_lossy().into());
        Self::parse(&name, &file, &text)
    }

    /// Reads a text; `file` is what complaints call it.
    ///
    /// # Errors
    /// [`ScenarioError::Text`], with the line.
    pub fn parse(name: &str, file: &str, text: &str) -> Result<Self, ScenarioError> {
        let source = Source { file, text };
        let read = source.read()?;
        let (server, clients) = (read.server(&source)?, read.clients(&source)?);
        read.check_load(&source)?;
        read.check_factors(&source)?;
        let factors: Vec<&FactorKeys> = read.factor.iter().map(Spanned::get_ref).collect();
        let combinations = combinations(&factors, &server, &clients);
        let (settings, curves) = read.settings(&combinations, &source)?;
        read.check_capacity_of(&settings, &source)?;
        read.check_claims(&settings, &curves, &source)?;
        read.check_numbers(&settings, &source)?;
        Ok(Self {
            name: name.to_owned(),
            also: read.also,
            title: read.title,
            source: read.source,
            about: read.about.trim().to_owned(),
            panels: read.panel.unwrap_or_else(default_panels),
            bars: read.bars,
            tables: read.table.into_iter().map(Spanned::into_inner).collect(),
            claims: read.claim.into_iter().map(Spanned::into_inner).collect(),
            network: read.network,
            profile: read.profile,
            capacity_of: read.capacity_of.map(Spanned::into_inner),
            text: text.to_owned(),
            load: read.load.into_inner(),
            factors: factors.iter().map(|factor| factor.name.clone()).collect(),
            combinations: combinations.into_iter().map(|(combination, ..)| combination).collect(),
            settings,
            curves,
        })
    }

    /// Its curves as the file has them, which are those of every combination.
    pub fn base_curves(&self) -> impl Iterator<Item = &str> {
        self.curves.iter().map(String::as_str)
    }

    /// The levels of each of its factors, in the file's order.
    fn levels(&self) -> Vec<Vec<&str>> {
        let levels = |factor: usize| {
            let mut levels: Vec<&str> = Vec::new();
            for combination in &self.combinations {
                let level = combination.levels[factor].as_str();
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
            levels
        };
        (0..self.factors.len()).map(levels).collect()
    }

    /// The curve whose server's capacity a curve's rates are multiples of: its own, or the one that
    /// all share.
    #[must_use]
    pub fn measured_by<'a>(&'a self, setting: &'a Setting) -> &'a Setting {
        let shared = self.capacity_of.as_ref();
        shared
            .and_then(|curve| self.settings.iter().find(|other| other.curve == *curve))
            .unwrap_or(setting)
    }

    /// The load, as the paper had it or in minutes.
    #[must_use]
    pub fn load(&self, form: Form) -> Load {
        self.load.resolve(form)
    }
}

#[cfg(test)]
mod tests;
