// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How results are shown: panels of curves, bars, tables.

use serde::{Deserialize, Serialize};

/// One plot of a measure against offered load, a curve for each [`crate::Setting`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    /// A number in a result, by its path: `replies_per_s`, `response_ms.mean`,
    /// `errors_per_s.timeout`; a group whose parts add up is their sum.
    pub measure: String,
    /// What the axis says; a known measure has its own words.
    pub title: Option<String>,
    /// Logarithmic.
    #[serde(default)]
    pub log: bool,
}

/// Stacked bars of a group's parts, one bar for each curve at each rate (Shukla Figure 4.9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bars {
    /// A group in a result whose parts add up: `syns_per_attempt`, `cpu`, `cpu_components`, `errors_per_s`.
    pub measure: String,
    /// The heading.
    pub title: String,
}

/// A table with a row for each curve at each rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// A number in a result, by its path.
    pub measure: String,
    /// Divided by another number of the same result.
    pub over: Option<String>,
}

pub(crate) fn default_panels() -> Vec<Panel> {
    [
        ("replies_per_s", false),
        ("response_ms.mean", true),
        ("errors_per_s", false),
        ("queue_drops_per_s", false),
    ]
    .map(|(measure, log)| Panel { measure: measure.to_owned(), title: None, log })
    .into()
}
