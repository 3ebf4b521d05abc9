// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line on the terminal that says how it goes, and nothing where there is no terminal.

use std::time::Duration;

use crate::quantity::rounded;
use indicatif::{ProgressBar, ProgressStyle};
use tidegate_client::Progress;
use tidegate_report::one_line;

/// The line. It is gone when dropped.
pub(crate) struct Bar {
    line: ProgressBar,
    /// The latest step.
    step: usize,
}

/// A line on the standard error.
pub(crate) fn bar() -> Bar {
    let style = ProgressStyle::with_template("{prefix} {bar:24} {elapsed}/{msg}")
        .expect("the template is a good one")
        .progress_chars("━╸─");
    Bar { line: ProgressBar::new(1).with_style(style), step: 0 }
}

impl Bar {
    /// Begins a step that is expected to take so long.
    pub(crate) fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.step = index;
        self.line.reset();
        self.line.set_length(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
        self.line.set_prefix(format!("[{index}/{steps}] {}", one_line(name)));
        self.line.set_message(format!("{} s", lasts.as_secs()));
    }

    /// Shows how a step's crowd fares. Several may be under way, and there is one line: it is the
    /// latest's.
    pub(crate) fn show(&mut self, index: usize, progress: &Progress) {
        if index != self.step {
            return;
        }
        self.line.set_position((progress.at_s * 1000.0) as u64);
        self.line.set_message(format!(
            "{} s  {} starts/s, {} replies/s, {} errors/s, {} under way",
            self.line.length().unwrap_or_default() / 1000,
            rounded(progress.started_per_s),
            rounded(progress.replies_per_s),
            rounded(progress.errors_per_s),
            rounded(progress.in_flight as f64),
        ));
    }

    /// Prints a line that stays, above the bar.
    pub(crate) fn say(&self, line: &str) {
        let line = one_line(line);
        if self.line.is_hidden() {
            crate::tell(format_args!("{line}\n"));
        } else {
            self.line.println(line);
        }
    }

    /// Takes the line away.
    pub(crate) fn finish(&self) {
        self.line.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_step_cannot_write_to_the_terminal() {
        let mut bar = bar();
        bar.step(1, 2, "a\u{1b}[2J\nb", Duration::ZERO);
        assert_eq!(bar.line.prefix(), "[1/2] a [2J b");
    }
}
