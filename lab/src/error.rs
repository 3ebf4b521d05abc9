// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a testbed, each in one sentence that says what, where and what to do.

use std::io;
use std::path::PathBuf;

/// Why the testbed could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The process lacks privileges.
    #[error("the testbed needs root, and this process lacks {missing}: run it with sudo")]
    Privilege {
        /// What is missing, for a person.
        missing: String,
    },
    /// A program that the testbed drives is not installed.
    #[error("`{program}` is not in PATH: install it ({package})")]
    MissingProgram {
        /// The program looked for.
        program: String,
        /// The Debian package that has it.
        package: String,
    },
    /// One of the steps that make a namespace failed.
    #[error("namespace {label}: cannot {step}: {source}")]
    Setup {
        /// The namespace's label.
        label: String,
        /// The step, as a verb phrase.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("namespace {label}: cannot start `{command}`: {source}")]
    Start {
        /// The namespace's label.
        label: String,
        /// The command line.
        command: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program did not come so far as to say that it is ready.
    #[error("{program} did not start: {reason}")]
    NotReady {
        /// Which.
        program: String,
        /// What it said, or did not say.
        reason: String,
    },
    /// A program ran and failed.
    #[error("namespace {label}: `{command}` failed ({status}): {stderr}")]
    Command {
        /// The namespace's label.
        label: String,
        /// The command line.
        command: String,
        /// How it ended.
        status: String,
        /// What it wrote to its standard error, trimmed.
        stderr: String,
    },
    /// A file of the kernel could not be read or written.
    #[error("namespace {label}: cannot {action} {}: {source}", path.display())]
    File {
        /// The namespace's label.
        label: String,
        /// "read" or "write …".
        action: String,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel has no counter of this name.
    #[error(
        "this kernel counts no `{name}`: names are as `nstat -az` prints them, such as TcpExtListenDrops"
    )]
    MissingCounter {
        /// The name asked for.
        name: String,
    },
    /// `/proc/net/netstat` or `/proc/net/snmp` did not look as expected.
    #[error(
        "cannot understand `{line}` in {file}: expected a line of names and a line of as many numbers"
    )]
    CounterFormat {
        /// The file.
        file: &'static str,
        /// The line that was not understood.
        line: String,
    },
    /// Nothing polls an end of a cable.
    #[error(
        "no thread of the kernel polls {end}: attach an XDP program, or `ethtool -K {end} gro on`"
    )]
    Polling {
        /// The interface.
        end: String,
    },
    /// A processor set could not be read or applied.
    #[error("cannot place work on processor {cpu}: {source}")]
    Placement {
        /// The processor's number.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel does not say what a processor does.
    #[error("/proc/stat says nothing of processor {cpu}: is it online?")]
    ProcessorTime {
        /// The processor's number.
        cpu: usize,
    },
    /// A processor cannot be sampled.
    #[error("cannot sample processor {cpu}: {source}; {remedy}, or leave `profile` out")]
    Profile {
        /// The processor's number.
        cpu: usize,
        /// What the kernel said.
        source: io::Error,
        /// What to do about it.
        remedy: &'static str,
    },
}
