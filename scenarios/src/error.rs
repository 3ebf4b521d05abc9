// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a scenario.

use std::fmt;

/// What is wrong with a scenario, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// The text is not what a scenario may be.
    #[error("{place}: {what}")]
    Text {
        /// File, and line where it is known.
        place: Place,
        /// What is wrong and how to mend it, in one line.
        what: String,
    },
    /// The file cannot be read.
    #[error("{file}: {reason}; name a scenario's TOML file")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's reason.
        reason: String,
    },
    /// It has no such part.
    #[error("{scenario}: {what}")]
    Part {
        /// The scenario's name.
        scenario: String,
        /// What is wrong with the part and what to ask for, in one line.
        what: String,
    },
    /// No scenario of that name is on the shelf.
    #[error("there is no figure {name}; {}`tidelab figure --list` has all", did_you_mean(.nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The name on the shelf that it is like.
        nearest: Option<String>,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("did you mean {name}? ")).unwrap_or_default()
}

/// A file and a line of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<usize>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}", self.file),
            None => f.write_str(&self.file),
        }
    }
}
