// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program started inside a namespace that cannot outlive whoever started it.

use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use std::{fs, io};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::namespace::Namespace;

/// Far beyond what any program takes whose output is waited for, a browser on a busy machine too.
const LONGEST: Duration = Duration::from_secs(120);

/// A running program. Dropping it kills it, and its process group, and waits for it.
///
/// The program leads a process group of its own, so what it starts dies with it on drop, and when
/// its end is seen. After a `SIGKILL` of this process only the program itself is killed (by
/// `PR_SET_PDEATHSIG`): run servers in the foreground, not as daemons. The kernel forgets that where a process
/// becomes another user (commit_creds()): give `setpriv` `--pdeathsig keep`.
#[derive(Debug)]
pub struct Child {
    inner: process::Child,
    /// From then on its number may belong to someone else.
    is_reaped: bool,
    /// PDEATHSIG fires when the spawning *thread* ends: holding the namespace keeps it alive.
    _namespace: Namespace,
}

impl Child {
    pub(crate) fn new(inner: process::Child, namespace: Namespace) -> Self {
        Self { inner, is_reaped: false, _namespace: namespace }
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Takes the pipe to its standard input, if the command asked for one.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.inner.stdin.take()
    }

    /// Takes the pipe from its standard output, if the command asked for one.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.inner.stdout.take()
    }

    /// Takes the pipe from its standard error, if the command asked for one.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.inner.stderr.take()
    }

    /// Sends a signal to the program alone.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.is_reaped {
            return Err(Errno::ESRCH.into());
        }
        Ok(kill(self.pid(), signal)?)
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// As [`process::Child::try_wait`].
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let has_ended = self.is_reaped || self.has_ended(WaitPidFlag::WNOHANG)?;
        has_ended.then(|| self.reap()).transpose()
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// As [`process::Child::wait`].
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        // It may wait for the end of it.
        drop(self.take_stdin());
        if !self.is_reaped {
            self.has_ended(WaitPidFlag::empty())?;
        }
        self.reap()
    }

    /// Waits for its end, at most for `patience`; `None` means it still runs.
    ///
    /// # Errors
    /// As [`process::Child::try_wait`].
    pub fn wait_for(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Reads its piped output to the end and waits for it.
    ///
    /// # Errors
    /// When a pipe cannot be read, or it has not ended after two minutes; then it is killed.
    pub fn wait_with_output(self) -> io::Result<Output> {
        self.output_within(LONGEST)
    }

    fn output_within(mut self, patience: Duration) -> io::Result<Output> {
        let deadline = Instant::now() + patience;
        let left = || deadline.saturating_duration_since(Instant::now());
        let stdout = self.take_stdout().map(read_aside);
        let stderr = self.take_stderr().map(read_aside);
        let stdout = stdout.map_or(Ok(Vec::new()), |pipe| read_within(&pipe, left()))?;
        let stderr = stderr.map_or(Ok(Vec::new()), |pipe| read_within(&pipe, left()))?;
        let status = self.wait_for(left())?.ok_or_else(overdue)?;
        Ok(Output { status, stdout, stderr })
    }

    /// Whether it has ended, its number still being its own.
    fn has_ended(&self, how: WaitPidFlag) -> io::Result<bool> {
        let seen = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | how;
        loop {
            match waitid(Id::Pid(self.pid()), seen) {
                Err(Errno::EINTR) => {}
                seen => return Ok(seen? != WaitStatus::StillAlive),
            }
        }
    }

    /// How it ended, when it has. What is left of its process group dies before its number may be
    /// given to another.
    fn reap(&mut self) -> io::Result<ExitStatus> {
        if !self.is_reaped {
            let _ = killpg(self.pid(), Signal::SIGKILL);
            self.is_reaped = true;
        }
        self.inner.wait()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.inner.id().cast_signed())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Also where it has ended: what it started may go on.
        if !self.is_reaped {
            let _ = self.inner.kill();
            let _ = self.reap();
        }
    }
}

/// Makes the program die with the thread that starts it, in a process group of its own.
pub(crate) fn bind_to_parent(command: &mut Command) {
    let parent = nix::unistd::getpid();
    command.process_group(0);
    // SAFETY: between fork and exec only async-signal-safe system calls are made, nothing is
    // allocated, and the closure owns what it uses.
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
            // The parent may have died before the line above took effect.
            if nix::unistd::getppid() != parent {
                return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
            }
            Ok(())
        });
    }
}

fn read_all(mut pipe: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_aside(pipe: impl io::Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, whole) = channel();
    std::thread::spawn(move || sender.send(read_all(pipe)));
    whole
}

fn read_within(pipe: &Receiver<io::Result<Vec<u8>>>, patience: Duration) -> io::Result<Vec<u8>> {
    pipe.recv_timeout(patience).unwrap_or_else(|_| Err(overdue()))
}

fn overdue() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it has not ended in time")
}

/// Whether a process has ended. One that nobody has waited for yet is a zombie (proc(5)), and dead
/// all the same: the first process of a container, to whom orphans come, may be slow to wait.
#[must_use]
pub fn is_dead(process_id: impl Display) -> bool {
    let stat = fs::read(format!("/proc/{process_id}/stat")).unwrap_or_default();
    // The name before the state is in brackets, and may hold anything, half a character, too.
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::root::skip_without_root;

    #[test]
    fn a_program_that_goes_on_is_not_waited_for_and_killed() {
        if skip_without_root("a_program_that_goes_on_is_not_waited_for_and_killed") {
            return;
        }
        let namespace = Namespace::new("endless").unwrap();
        for stdout in [Stdio::piped(), Stdio::null()] {
            let mut command = namespace.command("sleep 100");
            command.stdout(stdout);
            let child = namespace.spawn(command).unwrap();
            let process = child.id();
            let error = child.output_within(Duration::from_millis(50)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(is_dead(process));
        }
    }

    #[test]
    fn a_process_whose_name_ends_within_a_character_lives() {
        let named = std::thread::spawn(|| {
            nix::sys::prctl::set_name(c"aaaaaaaaaaaaaaé").unwrap();
            is_dead(nix::unistd::gettid())
        });
        assert!(!named.join().unwrap());
    }

    /// A shell that has ended by itself, and what it left running, which keeps its output open.
    fn ended_shell(namespace: &Namespace) -> (Child, String) {
        let mut shell = namespace.command("sh -c");
        shell.arg("sleep 100 2>&- & echo $! >&2").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = namespace.spawn(shell).unwrap();
        let said = read_all(child.take_stderr().unwrap()).unwrap();
        eventually_dead(child.id());
        (child, String::from_utf8(said).unwrap().trim().to_owned())
    }

    fn eventually_dead(process: impl Display) {
        let begun = Instant::now();
        while !is_dead(&process) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{process} goes on");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn what_a_program_left_running_dies_however_its_end_is_seen() {
        if skip_without_root("what_a_program_left_running_dies_however_its_end_is_seen") {
            return;
        }
        let namespace = Namespace::new("left").unwrap();
        let ways: [fn(Child); 4] = [
            drop,
            |mut child| {
                assert!(child.wait().unwrap().success());
                assert!(child.wait().unwrap().success(), "it is known");
                assert!(child.signal(Signal::SIGTERM).is_err(), "its number is another's");
            },
            |mut child| assert!(child.try_wait().unwrap().unwrap().success()),
            |child| drop(child.output_within(Duration::from_millis(50)).unwrap_err()),
        ];
        for end in ways {
            let (child, left) = ended_shell(&namespace);
            assert!(!is_dead(&left));
            end(child);
            eventually_dead(&left);
        }
    }
}
