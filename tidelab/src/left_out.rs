// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What could not be run of a scenario, as it is noted beside its results.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use tidegate_report::World;

/// A note a curve and world, kept until the curve has been run there: a scenario may be run in parts, into
/// one folder.
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

    fn of(&self, curve: &str) -> String {
        let world = match self.world {
            World::Live => "live",
            World::Sim => "simulated",
        };
        format!("\"{curve}\" is left out, {world}: ")
    }

    /// A curve has a point now.
    pub(crate) fn was_run(&mut self, curve: &str) {
        let of = self.of(curve);
        let before = self.lines.len();
        self.lines.retain(|line| !line.starts_with(&of));
        if self.lines.len() != before {
            self.write();
        }
    }

    /// A curve cannot be run. Returns what is to be told of it, once.
    pub(crate) fn note(&mut self, curve: &str, reason: &dyn Error) -> Option<String> {
        let line = format!("{}{reason}", self.of(curve));
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
        assert!(first.note("nginx", &absent).is_some());
        assert!(first.note("nginx", &absent).is_none(), "said once");

        let mut others = LeftOut::read(file.clone());
        others.was_run("knot");
        others.world = World::Sim;
        others.was_run("nginx");
        let noted = fs::read_to_string(&file).unwrap();
        assert_eq!(noted, "\"nginx\" is left out, live: nginx is not here");

        LeftOut::read(file.clone()).was_run("nginx");
        assert!(!file.exists());
    }
}
