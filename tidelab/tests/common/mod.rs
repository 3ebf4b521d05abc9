// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tests of the command line share.

use std::path::Path;
use std::process::{Command, Output};

/// Runs `tidelab` in a folder with these arguments, none of which has a space.
pub fn tidelab(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelab"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.output().unwrap()
}

/// The same, which must succeed.
pub fn succeeds(folder: &Path, arguments: &str) -> Output {
    let output = tidelab(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}
