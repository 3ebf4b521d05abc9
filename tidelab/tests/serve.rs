// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whoever hangs up on `tidelab serve`: it hears signals and keeps its word.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A program that is being started has every pipe of this process until its exec(), and who hangs up
/// meanwhile has not hung up yet: one of the two at a time.
static STARTING: Mutex<()> = Mutex::new(());

fn start(mut command: Command) -> Child {
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

/// From here on nobody reads it.
fn hang_up<P>(pipe: P) {
    let _one = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    drop(pipe);
}

/// A server, killed when dropped.
struct Server(Child);

impl Server {
    /// One that listens, and what it prints once it has said so.
    fn start(statistics: &Path) -> (Self, BufReader<ChildStdout>) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidelab"));
        command.args(["serve", "--address", "127.0.0.1", "--port", "0", "--steps-per-us", "1"]);
        command.arg("--statistics").arg(statistics);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut server = Self(start(command));
        let mut output = BufReader::new(server.0.stdout.take().unwrap());
        let line = next_line(&mut output);
        assert!(line.starts_with("listening on "), "{line}");
        (server, output)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    /// How it ended, which must be soon.
    fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn next_line(output: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line
}

#[test]
fn signals_are_heard_though_nobody_reads_the_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, mut output) = Server::start(&folder.path().join("statistics.json"));
    hang_up(server.0.stderr.take());
    // Where both wait, the kernel gives the lower number first.
    server.signal(Signal::SIGUSR1);
    server.signal(Signal::SIGTERM);
    assert!(server.ended().success());
    let printed: Value = serde_json::from_str(&next_line(&mut output)).unwrap();
    assert_eq!(printed["accepted"], 0, "{printed}");
}

#[test]
fn the_file_is_written_though_nobody_reads_the_output() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("statistics.json");
    let (mut server, output) = Server::start(&file);
    hang_up(output);
    server.signal(Signal::SIGTERM);
    assert!(!server.ended().success(), "the output could not be written");
    let written: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(written["accepted"], 0, "{written}");
}

/// As root a device's name would be a file's, and the device gone until the host starts anew.
#[test]
fn the_statistics_take_the_place_of_a_file_and_not_of_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("statistics.json"), folder.path().join("link"));
    symlink(&file, &link).unwrap();
    for name in [&file, &link] {
        fs::write(&file, "older").unwrap();
        let (mut server, _output) = Server::start(name);
        server.signal(Signal::SIGTERM);
        assert!(server.ended().success());
        let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(written["accepted"], 0, "{written}");
    }
    assert!(link.is_symlink());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn the_statistics_are_printed_though_the_file_cannot_be_written() {
    let (mut server, mut output) = Server::start(Path::new("/no/such/folder/statistics.json"));
    server.signal(Signal::SIGTERM);
    assert!(!server.ended().success(), "the file could not be written");
    let printed: Value = serde_json::from_str(&next_line(&mut output)).unwrap();
    assert_eq!(printed["accepted"], 0, "{printed}");
}

#[test]
fn a_patience_that_cannot_be_had_is_told_in_a_sentence() {
    for given in ["0", "10000000000000000000"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidelab"));
        // It would not start anyway.
        command.args(["serve", "--root", "/no/such/folder", "--patience", given]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = start(command).wait_with_output().unwrap();
        assert!(!output.status.success());
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("--patience") && told.contains("from 1ms to 1440m"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }
}
