// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps what a run finds, in its folder.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{Point, ResultsError, Watcher, Writer};
use tidegate_scenarios::Scenario;

use crate::failure::Failure;
use crate::folder::{self, COMMANDS, LEFT_OUT};
use crate::left_out::LeftOut;
use crate::progress::{self, Bar};

/// The command that runs, as a shell takes it.
fn typed() -> String {
    let given = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = std::iter::once("tidelab".to_owned()).chain(given).collect();
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

/// Keeps what a run finds.
pub(crate) struct Keeper {
    pub bar: Bar,
    results: Writer,
    folder: PathBuf,
    scenario: String,
    /// Which run of several it is, in words.
    pub run: Option<String>,
    pub left_out: LeftOut,
    /// How quick its servers are, where a live run has no point yet.
    pub begins_with: Option<NonZeroU64>,
    /// Whether every curve of every scenario was run.
    pub complete: bool,
}

impl Keeper {
    pub(crate) fn open(
        folder: &Path,
        scenarios: &[Scenario],
        machine: Option<&str>,
    ) -> Result<Self, Failure> {
        let results = folder::open(folder)?;
        folder::keep(folder, scenarios, machine)?;
        Ok(Self {
            bar: progress::bar(),
            results,
            folder: folder.to_owned(),
            scenario: String::new(),
            run: None,
            left_out: LeftOut::default(),
            begins_with: None,
            complete: true,
        })
    }

    pub(crate) fn begin(&mut self, scenario: &Scenario) {
        self.scenario.clone_from(&scenario.name);
        self.left_out = LeftOut::read(self.note(LEFT_OUT));
        let file = OpenOptions::new().create(true).append(true).open(self.note(COMMANDS));
        // A folder that takes results but no notes is not worth an end; nor is it below.
        let _ = file.and_then(|mut file| writeln!(file, "{}", typed()));
    }

    fn note(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.scenario))
    }

    /// A curve cannot be run, or not from this load on.
    fn lacks(&mut self, curve: &str, offered: Option<f64>, reason: &dyn Error) {
        self.complete = false;
        if let Some(line) = self.left_out.note(curve, offered, reason) {
            self.bar.say(&line);
        }
    }
}

impl Watcher for Keeper {
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        let run = self.run.as_deref().unwrap_or_default();
        self.bar.step(index, steps, &format!("{run}{name}"), lasts);
    }

    fn progress(&mut self, index: usize, progress: &Progress) {
        self.bar.show(index, progress);
    }

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        self.results.append(point)?;
        // Notes are of points that are there.
        folder::note_host(&self.folder, point.world);
        if point.world == tidegate_report::World::Live
            && let Some(speed) = self.begins_with.take()
        {
            folder::note_speed(&self.folder, &point.scenario, point.seed, speed);
        }
        self.left_out.was_run(&point.curve, point.offered_over_capacity);
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        self.lacks(curve, None, reason);
    }

    fn left_out_from(&mut self, curve: &str, offered: f64, reason: &dyn Error) {
        self.lacks(curve, Some(offered), reason);
    }
}
