// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate itself, run as anyone would run it.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use tidegate_lab::Child;

use super::program;
use super::stage::{PORT, Stage};
use crate::failure::Failure;

const ATTACH_PATIENCE: Duration = Duration::from_secs(10);
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// The `tidegate` program.
pub(crate) struct Tidegate {
    path: PathBuf,
}

impl Tidegate {
    /// Looks for it beside this program, or where `TIDEGATE_BIN` says.
    pub(crate) fn find() -> Result<Self, Failure> {
        let path = match std::env::var_os("TIDEGATE_BIN") {
            Some(path) => PathBuf::from(path),
            None => std::env::current_exe().map_err(Failure::NoSelf)?.with_file_name("tidegate"),
        };
        if path.is_file() { Ok(Self { path }) } else { Err(Failure::NoTidegate { path }) }
    }

    /// Guards the stage's server.
    pub(crate) fn guard(&self, stage: &Stage, mechanism: &str) -> Result<Guard, Failure> {
        let mut command = Command::new(&self.path);
        command.args(["run", "--port", &PORT.to_string(), "--mechanism", mechanism]);
        let child =
            program::start(stage.server_side(), "tidegate", command, "guarding ", ATTACH_PATIENCE)?;
        Ok(Guard { child })
    }
}

/// A guard at work. Dropped without [`Guard::remove`], it is killed; its programs then end with
/// the stage's namespace.
pub(crate) struct Guard {
    child: Child,
}

impl Guard {
    /// Asks it to go, and sees that it does: a guard that died under load has guarded nothing.
    pub(crate) fn remove(mut self) -> Result<(), Failure> {
        let failed = |reason: String| Failure::Ended { program: "tidegate".to_owned(), reason };
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(failed(format!("it ended during the run ({status})")));
        }
        let _ = self.child.signal(Signal::SIGTERM);
        match self.child.wait_for(REMOVE_PATIENCE) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(failed(format!("it did not end cleanly ({status})"))),
            _ => Err(failed(format!("it did not end within {REMOVE_PATIENCE:?} of SIGTERM"))),
        }
    }
}
