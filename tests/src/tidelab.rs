// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidelab's servers, run as anyone runs them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tidegate_lab::{Child, Namespace, pin_command};

use crate::tidegate::tidegate_program;

const PATIENCE: Duration = Duration::from_secs(10);

/// The program that the workspace built.
pub fn tidelab_program() -> PathBuf {
    tidegate_program().with_file_name("tidelab")
}

/// `tidelab serve` with these arguments, on this processor where one is named; returns when it
/// listens.
pub fn serve(namespace: &Namespace, arguments: &[&str], cpu: Option<usize>) -> Child {
    let mut command = Command::new(tidelab_program());
    command.arg("serve").args(arguments);
    if let Some(cpu) = cpu {
        pin_command(&mut command, cpu).expect("a processor");
    }
    namespace
        .start("tidelab", command, "listening on ", PATIENCE)
        .unwrap_or_else(|error| panic!("tidelab serve {arguments:?}: {error}"))
}
