// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How clients arrive.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::steps::{self, Step};

/// How starts are spaced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At random.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
    /// Overload for so long, then silence, at the same mean rate (Shukla 5.2).
    Bursts {
        /// Length of a burst, in s.
        burst_s: f64,
        /// Length of the silence after it, in s.
        silence_s: f64,
    },
    /// At random, at a rate that changes by steps, which are the time that counts.
    Steps(Vec<Step>),
    /// As in a recorded trace, a text file of seconds, one a line; pressed or stretched to the
    /// offered rate, and played again from its beginning when it ends.
    Trace(PathBuf),
}

impl Arrivals {
    /// In a few words, where it is not the usual.
    pub(crate) fn summary(&self) -> Option<String> {
        match self {
            Self::Poisson => None,
            Self::Constant => Some("arrivals evenly spaced".to_owned()),
            Self::Bursts { burst_s, silence_s } => {
                Some(format!("bursts of {burst_s} s, {silence_s} s apart"))
            }
            Self::Steps(steps) => Some(steps::summary(steps)),
            Self::Trace(file) => {
                let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
                Some(format!("arrivals as in {name}"))
            }
        }
    }

    // Ranges are written so that NaN is refused too.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::Bursts { burst_s, silence_s }
                if !(*burst_s > 0.0 && *silence_s >= 0.0 && burst_s + silence_s <= 86_400.0) =>
            {
                Err(format!(
                    "bursts of {burst_s} s with {silence_s} s of silence are impossible: give a burst above 0 s, and both no longer than a day"
                ))
            }
            Self::Steps(steps) => steps::check(steps),
            Self::Trace(file) if file.as_os_str().is_empty() => {
                Err("trace names no file: give a text file of seconds, one a line".to_owned())
            }
            _ => Ok(()),
        }
    }
}
