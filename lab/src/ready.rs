// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that says on its standard output when it is ready.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Child;
use crate::error::LabError;
use crate::namespace::Namespace;

enum Line {
    Output(String),
    Error(String),
}

impl Namespace {
    /// Starts a program inside the namespace, as [`Namespace::spawn`] does, and waits for the line
    /// that begins with `ready`. What it says afterwards nobody hears; `name` is for error messages.
    ///
    /// # Errors
    /// [`LabError::Start`] when it cannot be executed, [`LabError::NotReady`] when it does not say
    /// so within `patience`, with what it said instead.
    pub fn start(
        &self,
        name: &str,
        mut command: Command,
        ready: &str,
        patience: Duration,
    ) -> Result<Child, LabError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn(command)?;
        let (lines, said) = channel();
        if let Some(pipe) = child.take_stdout() {
            pass_on(pipe, lines.clone(), Line::Output);
        }
        if let Some(pipe) = child.take_stderr() {
            pass_on(pipe, lines, Line::Error);
        }
        let not_ready = |reason: String| LabError::NotReady { program: name.to_owned(), reason };
        let deadline = Instant::now() + patience;
        let mut complaint = None;
        loop {
            match said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Line::Output(line)) if line.starts_with(ready) => return Ok(child),
                Ok(Line::Output(_)) => {}
                Ok(Line::Error(line)) => {
                    // Its own name is in our sentence already.
                    let told = line.strip_prefix(&format!("{name}: ")).unwrap_or(&line);
                    complaint = Some(told.to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let silence = format!("it did not say `{}` within {patience:?}", ready.trim());
                    return Err(not_ready(complaint.unwrap_or(silence)));
                }
                // Both pipes are closed: it has ended.
                Err(RecvTimeoutError::Disconnected) => {
                    let end = match child.wait_for(Duration::from_secs(1)) {
                        Ok(Some(status)) => format!("it ended without a word ({status})"),
                        _ => "it closed its output".to_owned(),
                    };
                    return Err(not_ready(complaint.unwrap_or(end)));
                }
            }
        }
    }
}

/// Reads a pipe to its end, even when nobody listens any more: the program must never block on it.
fn pass_on(pipe: impl Read + Send + 'static, lines: Sender<Line>, kind: fn(String) -> Line) {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let _ = lines.send(kind(String::from_utf8_lossy(&line).into_owned()));
        }
    });
}
