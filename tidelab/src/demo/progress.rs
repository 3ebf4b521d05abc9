// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line on the terminal that says what is going on, and nothing where there is no terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const ERASE: &str = "\r\x1b[K";

/// The line. It is gone when dropped.
pub(crate) struct Progress {
    steps: usize,
    visible: bool,
}

impl Progress {
    pub(crate) fn new(steps: usize) -> Self {
        Self { steps, visible: io::stderr().is_terminal() }
    }

    /// Begins a step that is expected to take so long.
    pub(crate) fn step(&self, number: usize, doing: &str, expected: Duration) -> Step {
        let step = Step {
            label: format!("[{number}/{}] {doing}", self.steps),
            end: Instant::now() + expected,
            visible: self.visible,
        };
        step.tick();
        step
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.visible {
            show(ERASE);
        }
    }
}

/// One step of it.
pub(crate) struct Step {
    label: String,
    end: Instant,
    visible: bool,
}

impl Step {
    /// Shows how much is left.
    pub(crate) fn tick(&self) {
        if self.visible {
            let left_s = self.end.saturating_duration_since(Instant::now()).as_secs();
            show(&format!("{ERASE}{} … {left_s} s", self.label));
        }
    }
}

fn show(text: &str) {
    let mut err = io::stderr().lock();
    // A terminal that went away is told nothing.
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}
