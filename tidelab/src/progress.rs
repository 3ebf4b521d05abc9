// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line on the terminal that says how it goes, and nothing where there is no terminal.

use std::time::Duration;

use crate::quantity::rounded;
use indicatif::{ProgressBar, ProgressStyle};

/// The line. It is gone when dropped.
pub(crate) struct Bar(ProgressBar);

/// How a crowd fares, in either world.
pub(crate) struct Pace {
    at_s: f64,
    started_per_s: f64,
    replies_per_s: f64,
    errors_per_s: f64,
    in_flight: u64,
}

impl From<&tidegate_crowd::Progress> for Pace {
    fn from(progress: &tidegate_crowd::Progress) -> Self {
        Self {
            at_s: progress.at_s,
            started_per_s: progress.started_per_s,
            replies_per_s: progress.replies_per_s,
            errors_per_s: progress.errors_per_s,
            in_flight: progress.in_flight,
        }
    }
}

impl From<&tidegate_sim::Progress> for Pace {
    fn from(progress: &tidegate_sim::Progress) -> Self {
        Self {
            at_s: progress.at_s,
            started_per_s: progress.started_per_s,
            replies_per_s: progress.replies_per_s,
            errors_per_s: progress.errors_per_s,
            in_flight: progress.in_flight,
        }
    }
}

/// A line on the standard error.
pub(crate) fn bar() -> Bar {
    let style = ProgressStyle::with_template("{prefix} {bar:24} {elapsed}/{msg}")
        .expect("the template is a good one")
        .progress_chars("━╸─");
    Bar(ProgressBar::new(1).with_style(style))
}

impl Bar {
    /// Begins a step that is expected to take so long.
    pub(crate) fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.0.reset();
        self.0.set_length(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        self.0.set_prefix(format!("[{index}/{steps}] {name}"));
        self.0.set_message(format!("{} s", lasts.as_secs()));
    }

    /// Shows how the crowd fares.
    pub(crate) fn show(&mut self, progress: &Pace) {
        self.0.set_position((progress.at_s * 1000.0) as u64);
        self.0.set_message(format!(
            "{} s  {} starts/s, {} replies/s, {} errors/s, {} under way",
            self.0.length().unwrap_or_default() / 1000,
            rounded(progress.started_per_s),
            rounded(progress.replies_per_s),
            rounded(progress.errors_per_s),
            rounded(progress.in_flight as f64),
        ));
    }

    /// Prints a line that stays, above the bar.
    pub(crate) fn say(&self, line: &str) {
        if self.0.is_hidden() {
            eprintln!("{line}");
        } else {
            self.0.println(line);
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}
