// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator is told when something does not work: one sentence, with the fix.

use std::io::Write;
use std::path::PathBuf;

/// A command's failure.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is wrong.
    #[error("{}:{line}: {what}; {fix}", file.display())]
    Configuration {
        /// The file, or `command line`.
        file: PathBuf,
        /// The line, from 1; 0 on the command line.
        line: usize,
        /// What is wrong.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// An argument is wrong.
    #[error("{what}; {fix}")]
    Argument {
        /// What is wrong, and where.
        what: String,
        /// What to do about it.
        fix: String,
    },
    /// The process may not do what it must.
    #[error(
        "missing {missing}; run as root, or grant it (setcap; in a unit CapabilityBoundingSet= and AmbientCapabilities=)"
    )]
    Privilege {
        /// The capabilities' names.
        missing: String,
    },
    /// A file could not be read or written.
    #[error("{}: {source}; {fix}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
        /// What to do about it.
        fix: String,
    },
    /// No queue length can be recommended.
    #[error(transparent)]
    Size {
        /// Why, with the fix.
        #[from]
        source: tidegate_policy::size::NoSize,
    },
    /// The kernel or BPF said no.
    #[error("{source}; `tidegate check` tells what this host can do")]
    Datapath {
        /// What it said.
        #[from]
        source: tidegate_datapath::Error,
    },
}

impl Failure {
    /// A wrong argument.
    pub fn argument(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Failure::Argument { what: what.into(), fix: fix.into() }
    }

    /// What is wrong, without the fix where that may name what there is instead, and so become another
    /// while the wrong stays the same.
    pub fn what(&self) -> String {
        match self {
            Failure::Argument { what, .. } => what.clone(),
            other => other.to_string(),
        }
    }
}

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// One line on standard error, where someone still reads it.
pub fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "tidegate: {text}");
}
