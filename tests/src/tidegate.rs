// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate, run as an operator runs it.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde_json::Value;
use tidegate_lab::{Child, Namespace};

/// Far beyond what a daemon takes to say that it stands, or why not, on a busy machine too.
const START: Duration = Duration::from_secs(60);
/// What it takes to say anything else.
const SOON: Duration = Duration::from_secs(5);
/// By then the daemon has looked at the listeners and the interfaces at least once: it rests for two seconds
/// at most.
pub const LOOKS_BY: Duration = Duration::from_millis(2500);

/// The program that the workspace built: `make test` builds it first.
pub fn tidegate_program() -> PathBuf {
    let here = std::env::current_exe().expect("a test has a path");
    let folder = here.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    let program = folder.join("tidegate");
    assert!(program.is_file(), "{} is missing: build the workspace first", program.display());
    program
}

/// Puts a copy of a program where whoever may run it: the workspace may lie where nobody else may look. A
/// program copies it. A file that this process writes is open in all that other stories are starting, until
/// their exec(), and the kernel executes none that anybody may write (ETXTBSY).
pub fn copy_for_all(namespace: &Namespace, program: &Path, to: &str) {
    let mut install = namespace.command("install -m 755");
    install.arg(program).arg(to);
    namespace.output(install).expect("a copy of a program");
}

/// A running `tidegate run`, or `tidegate agent`.
pub struct Guard {
    child: Child,
    namespace: Namespace,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    /// The lines that it printed when it stood.
    pub announced: String,
}

/// What `tidegate run` says when it cannot.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: Option<i32>,
    /// Standard error.
    pub stderr: String,
}

/// Runs `tidegate` with these arguments in a namespace, to its end.
pub fn run_to_end(namespace: &Namespace, arguments: &[&str]) -> Output {
    let mut command = Command::new(tidegate_program());
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = namespace.spawn(command).expect("tidegate starts");
    child.wait_with_output().expect("tidegate ends")
}

impl Guard {
    /// `tidegate run` with these arguments; returns when it stands.
    pub fn start(namespace: &Namespace, arguments: &[&str]) -> Self {
        Self::try_start(namespace, arguments)
            .unwrap_or_else(|refused| panic!("tidegate run {arguments:?}: {}", refused.stderr))
    }

    /// The same, where it may refuse.
    pub fn try_start(namespace: &Namespace, arguments: &[&str]) -> Result<Self, Refused> {
        Self::launch(namespace, Self::command("run", arguments), "guarding ")
    }

    /// `tidegate agent` with these arguments; returns when it heeds.
    pub fn agent(namespace: &Namespace, arguments: &[&str]) -> Self {
        Self::launch(namespace, Self::command("agent", arguments), "heeding ")
            .unwrap_or_else(|refused| panic!("tidegate agent {arguments:?}: {}", refused.stderr))
    }

    /// `tidegate metrics --listen` there; returns when it serves.
    pub fn metrics(namespace: &Namespace, at: &str) -> Self {
        let sign = format!("serving http://{at}/metrics");
        Self::launch(namespace, Self::command("metrics", &["--listen", at]), &sign)
            .unwrap_or_else(|refused| panic!("tidegate metrics at {at}: {}", refused.stderr))
    }

    fn command(name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(tidegate_program());
        command.arg(name).args(arguments);
        command
    }

    /// By a command whose first line begins so when it stands; if it does not, it must end.
    pub fn launch(
        namespace: &Namespace,
        mut command: Command,
        sign: &str,
    ) -> Result<Self, Refused> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = namespace.spawn(command).expect("tidegate starts");
        let mut stdout = BufReader::new(child.take_stdout().expect("a piped stdout"));
        let mut stderr = BufReader::new(child.take_stderr().expect("a piped stderr"));
        let announced = line(&mut stdout, START).unwrap_or_default();
        if announced.starts_with(sign) {
            return Ok(Guard { child, namespace: namespace.clone(), stdout, stderr, announced });
        }
        let ended = child.wait_for(START).expect("a process");
        let ended = ended.unwrap_or_else(|| panic!("it goes on, and said {announced:?}"));
        let mut told = String::new();
        stderr.read_to_string(&mut told).expect("a readable stderr");
        Err(Refused { code: ended.code(), stderr: told })
    }

    /// A listener on `port` with `mechanism`, at `hook`.
    pub fn on_port(namespace: &Namespace, port: u16, mechanism: &str, hook: &str) -> Self {
        let port = port.to_string();
        Self::start(namespace, &["--port", &port, "--mechanism", mechanism, "--hook", hook])
    }

    /// `tidegate status --json`.
    pub fn status(&self) -> Value {
        status(&self.namespace)
    }

    /// The daemon's process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the daemon a signal.
    pub fn signal(&self, signal: Signal) {
        self.child.signal(signal).expect("a running daemon");
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(mut self) {
        self.signal(Signal::SIGKILL);
        self.child.wait().expect("an ended process");
    }

    /// Has it read its configuration again; returns what it announces then.
    pub fn reload(&mut self) -> String {
        self.signal(Signal::SIGHUP);
        line(&mut self.stdout, SOON).unwrap_or_else(|| {
            panic!("no announcement within five seconds, but: {:?}", self.complaint())
        })
    }

    /// The next line that it prints, within five seconds.
    pub fn told(&mut self) -> Option<String> {
        line(&mut self.stdout, SOON)
    }

    /// The next line that it complains, within five seconds.
    pub fn complaint(&mut self) -> Option<String> {
        line(&mut self.stderr, SOON)
    }

    /// Waits for its end, at most ten seconds.
    pub fn wait(&mut self) -> Option<std::process::ExitStatus> {
        self.child.wait_for(Duration::from_secs(10)).expect("a process")
    }

    /// Waits for its end, which must be a good one.
    #[track_caller]
    pub fn ends(&mut self, why: &str) {
        let ended = self.wait();
        assert!(ended.is_some_and(|status| status.success()), "it ends well {why}: {ended:?}");
    }

    /// SIGTERM: asserts that it ends cleanly.
    #[track_caller]
    pub fn terminate(&mut self) {
        self.signal(Signal::SIGTERM);
        self.ends("at SIGTERM");
    }

    /// `tidegate stop`: asserts that it ends cleanly.
    pub fn stop(mut self) {
        let output = run_to_end(&self.namespace, &["stop"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ended = self.child.wait_for(Duration::from_secs(10)).expect("an ended process");
        assert!(ended.is_some_and(|status| status.success()), "the daemon ended with {ended:?}");
    }
}

/// The next line of a pipe, within this time.
fn line<P: Read + AsFd>(pipe: &mut BufReader<P>, patience: Duration) -> Option<String> {
    let mut text = String::new();
    if pipe.buffer().is_empty() {
        let patience = PollTimeout::try_from(patience).expect("a short wait");
        let mut one = [PollFd::new(pipe.get_ref().as_fd(), PollFlags::POLLIN)];
        poll(&mut one, patience).ok().filter(|ready| *ready > 0)?;
    }
    pipe.read_line(&mut text).ok()?;
    Some(text)
}

/// `tidegate status --json` of a namespace.
pub fn status(namespace: &Namespace) -> Value {
    let output = run_to_end(namespace, &["status", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("status prints JSON")
}
