// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever hangs up on a run: it goes on, and what it finds is kept and drawn.

use std::fs;
use std::io::{PipeWriter, pipe};
use std::path::Path;
use std::process::{Command, Stdio};

/// The simulator has no nginx of then, and that is told.
const SCENARIO: &str = r#"
title = "Nobody listens"
source = "us"
[load]
offered = [2]
duration_s = 0.2
warm_up_s = 0.1
[[curve]]
name = "theirs"
peer = "kernel"
server = { kind = "nginx" }
[[curve]]
mechanism = "default"
server = { cost_us = 2000 }
"#;

/// A run of it in a folder.
fn run(folder: &Path) -> Command {
    fs::write(folder.join("s.toml"), SCENARIO).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelab"));
    command.current_dir(folder);
    command.args(["run", "s.toml", "--world", "sim", "--machine", "xeon", "--out", "it"]);
    command
}

/// What nobody reads from any more.
fn hung_up() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

/// Its point is kept, and its page drawn.
fn is_whole(folder: &Path) -> bool {
    let lines = fs::read_to_string(folder.join("it/result.jsonl")).unwrap_or_default();
    lines.lines().count() == 1 && folder.join("it/report.html").is_file()
}

#[test]
fn a_run_goes_on_though_nobody_reads_the_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run(folder.path());
    let status = run.stdout(Stdio::null()).stderr(hung_up()).status().unwrap();
    assert_eq!(status.code(), Some(1), "a curve is left out, and that is all");
    assert!(is_whole(folder.path()));
}

#[test]
fn a_page_is_drawn_though_nobody_reads_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = run(folder.path());
    let output = run.stdout(hung_up()).stderr(Stdio::piped()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("standard output"), "{told}");
    assert!(is_whole(folder.path()));
}
