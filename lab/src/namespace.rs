// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An anonymous network namespace, held by a thread.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::unistd::Pid;

use crate::child::{Child, bind_to_parent};
use crate::error::LabError;
use crate::mounts;

type Job = Box<dyn FnOnce() + Send>;

/// A network namespace with a mount namespace of its own: `/sys` shows its devices, `/sys/fs/bpf`
/// and `/run` are private, the host's cgroup mounts stay reachable, `lo` is up.
///
/// It has no name in `/run/netns`; it is a thread. Cloning gives another handle to the same one.
/// It ends when the last handle, [`Child`] and [`crate::Link`] is gone, or when the process dies.
#[derive(Clone)]
pub struct Namespace {
    worker: Arc<Worker>,
}

struct Worker {
    label: String,
    tid: Pid,
    /// `None` only while dropping: closing the channel is what ends the thread.
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Namespace {
    /// Makes a namespace. The label appears in error messages and as the thread's name.
    ///
    /// # Errors
    /// [`LabError::Privilege`] without root, [`LabError::Setup`] naming the step that failed.
    pub fn new(label: &str) -> Result<Self, LabError> {
        crate::root::require_root()?;
        let (jobs, inbox) = mpsc::channel::<Job>();
        let (ready, made) = mpsc::channel();
        let name = label.to_owned();
        let thread = thread::Builder::new()
            .name(format!("ns-{label}"))
            .spawn(move || {
                let outcome = mounts::isolate(&name).map(|()| nix::unistd::gettid());
                let failed = outcome.is_err();
                if ready.send(outcome).is_err() || failed {
                    return;
                }
                for job in inbox {
                    job();
                }
            })
            .map_err(|source| LabError::Setup {
                label: label.to_owned(),
                step: "start its thread",
                source,
            })?;
        let tid = made.recv().unwrap_or_else(|_| {
            Err(LabError::Setup {
                label: label.to_owned(),
                step: "enter it",
                source: io::Error::other("its thread panicked"),
            })
        })?;
        let namespace = Self {
            worker: Arc::new(Worker {
                label: label.to_owned(),
                tid,
                jobs: Mutex::new(Some(jobs)),
                thread: Mutex::new(Some(thread)),
            }),
        };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The label given at its making.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.worker.label
    }

    /// The thread that holds it, for `ip link set … netns TID`.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.worker.tid.as_raw()
    }

    /// Executes a closure on the namespace's thread and waits for it.
    ///
    /// A socket made there belongs to the namespace and may be used from any thread. Only one
    /// closure runs at a time; for work that lasts, use [`Namespace::thread`].
    ///
    /// # Panics
    /// When the closure panics, with its panic.
    pub fn run<T, F>(&self, closure: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        if nix::unistd::gettid() == self.worker.tid {
            return closure();
        }
        let (reply, result) = mpsc::channel();
        let job: Job = Box::new(move || {
            // The receiver waits below, so it is there.
            let _ = reply.send(catch_unwind(AssertUnwindSafe(closure)));
        });
        let jobs = self.worker.jobs.lock().expect("no holder panics");
        jobs.as_ref()
            .expect("open until the last handle is dropped")
            .send(job)
            .expect("the thread serves until the channel closes");
        drop(jobs);
        match result.recv().expect("every job answers") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Starts a thread inside the namespace.
    ///
    /// # Errors
    /// When the system has no room for another thread.
    pub fn thread<T, F>(&self, closure: F) -> Result<JoinHandle<T>, LabError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let name = format!("in-{}", self.label());
        self.run(move || thread::Builder::new().name(name).spawn(closure)).map_err(|source| {
            LabError::Setup { label: self.label().to_owned(), step: "start a thread in it", source }
        })
    }

    /// A command from words separated by blanks (no quoting; add odd arguments with `.arg`).
    #[must_use]
    pub fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words);
        command
    }

    /// Starts a program inside the namespace. It dies with its [`Child`] and with this process.
    ///
    /// # Errors
    /// [`LabError::Start`] when it cannot be executed.
    pub fn spawn(&self, mut command: Command) -> Result<Child, LabError> {
        let line = shown(&command);
        bind_to_parent(&mut command);
        let child =
            self.run(move || command.spawn()).map_err(|source| self.not_started(line, source))?;
        Ok(Child::new(child, self.clone()))
    }

    /// Runs a program inside the namespace to its end and returns its standard output.
    ///
    /// # Errors
    /// [`LabError::Start`], or [`LabError::Command`] with what it wrote to its standard error, or
    /// that it has not ended after two minutes.
    pub fn output(&self, mut command: Command) -> Result<String, LabError> {
        let line = shown(&command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = self.spawn(command)?;
        let failed = |status: String, stderr: &str| LabError::Command {
            label: self.label().to_owned(),
            command: line,
            status,
            stderr: stderr.trim().to_owned(),
        };
        match child.wait_with_output() {
            Err(error) => Err(failed("killed".to_owned(), &error.to_string())),
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(Output { status, stderr, .. }) => {
                Err(failed(status.to_string(), &String::from_utf8_lossy(&stderr)))
            }
        }
    }

    /// Runs `ip` with these words inside the namespace and returns its standard output.
    ///
    /// # Errors
    /// As [`Namespace::output`].
    pub fn ip(&self, words: &str) -> Result<String, LabError> {
        self.output(self.command(&format!("ip {words}")))
    }

    /// Sets a sysctl of the namespace, named with dots (`net.ipv4.tcp_syncookies`) or, where an
    /// interface's name has a dot, with slashes.
    ///
    /// # Errors
    /// [`LabError::File`] naming the file under `/proc/sys`.
    pub fn sysctl(&self, key: &str, value: impl fmt::Display) -> Result<(), LabError> {
        let relative = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
        self.write_file(PathBuf::from("/proc/sys").join(relative), value.to_string())
    }

    /// Reads a file as the namespace sees it.
    ///
    /// Beware of `/proc/net`: it shows the process's namespace; `/proc/thread-self/net` this one.
    ///
    /// # Errors
    /// [`LabError::File`] naming the file.
    pub fn read_file(&self, path: impl Into<PathBuf>) -> Result<String, LabError> {
        let path = path.into();
        let opened = path.clone();
        self.run(move || fs::read_to_string(opened)).map_err(|source| LabError::File {
            label: self.label().to_owned(),
            action: "read".to_owned(),
            path,
            source,
        })
    }

    /// Writes a file as the namespace sees it, making its folder; below `/run`, it ends with the
    /// namespace.
    ///
    /// # Errors
    /// [`LabError::File`] naming the file.
    pub fn place_file(
        &self,
        path: impl Into<PathBuf>,
        content: impl Into<Vec<u8>>,
    ) -> Result<(), LabError> {
        let (path, content) = (path.into(), content.into());
        let opened = path.clone();
        self.run(move || {
            opened.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(opened, content)
        })
        .map_err(|source| LabError::File {
            label: self.label().to_owned(),
            action: "write".to_owned(),
            path,
            source,
        })
    }

    pub(crate) fn write_file(&self, path: PathBuf, value: String) -> Result<(), LabError> {
        let (opened, written) = (path.clone(), value.clone());
        self.run(move || fs::write(opened, written)).map_err(|source| LabError::File {
            label: self.label().to_owned(),
            action: format!("write `{value}` to"),
            path,
            source,
        })
    }

    fn not_started(&self, command: String, source: io::Error) -> LabError {
        LabError::Start { label: self.label().to_owned(), command, source }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("label", &self.worker.label)
            .field("tid", &self.worker.tid.as_raw())
            .finish()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Ok(jobs) = self.jobs.get_mut() {
            *jobs = None;
        }
        // The last handle may have been owned by a closure: a thread cannot join itself.
        if nix::unistd::gettid() == self.tid {
            return;
        }
        if let Ok(Some(thread)) = self.thread.get_mut().map(Option::take) {
            let _ = thread.join();
        }
    }
}

/// A command as a person would type it.
fn shown(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
