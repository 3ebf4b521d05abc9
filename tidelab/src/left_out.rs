// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What could not be run of a scenario, as it is noted beside its results.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use tidegate_report::{World, one_line};

/// A note a curve and world, with the load from which on it could not be run, if it could below. It is kept
/// until the curve has a point there, by another command: a scenario may be run in parts, into one folder.
pub(crate) struct LeftOut {
    file: PathBuf,
    lines: Vec<String>,
    /// Of these what has been told: a curve is left out again in each run.
    told: Vec<String>,
    /// Where it is run now.
    pub(crate) world: World,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self { file: PathBuf::new(), lines: Vec::new(), told: Vec::new(), world: World::Live }
    }
}

impl LeftOut {
    /// What was noted before.
    pub(crate) fn read(file: PathBuf) -> Self {
        let text = fs::read_to_string(&file).unwrap_or_default();
        Self { lines: text.lines().map(str::to_owned).collect(), file, ..Self::default() }
    }

    fn of(&self, curve: &str, offered: Option<f64>) -> String {
        let world = self.world.name();
        let from = offered.map(|offered| format!(" from {offered} × capacity on"));
        let left_out = format!("\"{curve}\" is left out{}, {world}: ", from.unwrap_or_default());
        one_line(&left_out)
    }

    /// A curve has a point at this load now. What was told stays: another run of this command lacks it.
    pub(crate) fn was_run(&mut self, curve: &str, offered: f64) {
        let of = [self.of(curve, None), self.of(curve, Some(offered))];
        let told = &self.told;
        let before = self.lines.len();
        self.lines.retain(|line| {
            told.contains(line) || !of.iter().any(|begins| line.starts_with(begins))
        });
        if self.lines.len() != before {
            self.write();
        }
    }

    /// A curve cannot be run, or not from this load on. Returns what is to be told of it, once.
    pub(crate) fn note(
        &mut self,
        curve: &str,
        offered: Option<f64>,
        reason: &dyn Error,
    ) -> Option<String> {
        let line = self.of(curve, offered) + &one_line(&reason.to_string());
        if !self.lines.contains(&line) {
            self.lines.push(line.clone());
            self.write();
        }
        let is_new = !self.told.contains(&line);
        is_new.then(|| {
            self.told.push(line.clone());
            line
        })
    }

    /// A folder that takes results but no notes is not worth an end.
    fn write(&self) {
        let _ = if self.lines.is_empty() {
            fs::remove_file(&self.file)
        } else {
            fs::write(&self.file, self.lines.join("\n"))
        };
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn a_note_stays_until_its_curve_was_run_where_it_was_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.left-out.txt");
        let absent = io::Error::other("nginx is not here");
        let mut first = LeftOut::read(file.clone());
        assert!(first.note("nginx", None, &absent).is_some());
        assert!(first.note("nginx", None, &absent).is_none(), "said once");

        let mut others = LeftOut::read(file.clone());
        others.was_run("knot", 1.0);
        others.world = World::Sim;
        others.was_run("nginx", 1.0);
        let noted = fs::read_to_string(&file).unwrap();
        assert_eq!(noted, "\"nginx\" is left out, live: nginx is not here");

        LeftOut::read(file.clone()).was_run("nginx", 1.0);
        assert!(!file.exists());
        // Each is a line, whatever its curve is called.
        first.note("a\nb", None, &io::Error::other("c\nd"));
        let mut named = LeftOut::read(file.clone());
        assert_eq!(named.lines[1..], ["\"a b\" is left out, live: c d"]);
        named.was_run("a\nb", 1.0);
        assert_eq!(named.lines.len(), 1);
    }

    /// Of five runs the last may survive what the others died of.
    #[test]
    fn a_note_outlives_further_runs_of_its_command_and_points_at_other_loads() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.left-out.txt");
        let noted = || fs::read_to_string(&file).unwrap_or_default();
        let died = io::Error::other("it died");
        let mut command = LeftOut::read(file.clone());
        command.note("nginx", Some(3.0), &died);
        command.was_run("nginx", 0.5);
        command.was_run("nginx", 3.0);
        let line = "\"nginx\" is left out from 3 × capacity on, live: it died";
        assert_eq!(noted(), line);

        let mut next = LeftOut::read(file.clone());
        next.was_run("nginx", 0.5);
        assert_eq!(noted(), line);
        next.was_run("nginx", 3.0);
        assert_eq!(noted(), "");
        next.note("nginx", Some(3.0), &died);
        next.was_run("nginx", 3.0);
        assert_eq!(noted(), line, "one of its runs has died again");
    }
}
