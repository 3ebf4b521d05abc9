// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends a command, in one sentence.

use std::io;
use std::path::PathBuf;

/// What ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Lab(#[from] tidegate_lab::LabError),
    #[error(transparent)]
    Server(#[from] tidegate_servers::ServerError),
    #[error(transparent)]
    Crowd(#[from] tidegate_crowd::CrowdError),
    #[error(
        "there is no {}: build it with `cargo build --release -p tidegate-daemon`, or name another with TIDEGATE_BIN",
        path.display()
    )]
    NoTidegate { path: PathBuf },
    #[error("cannot find this program's own file: {0}; run it by its full path")]
    NoSelf(io::Error),
    #[error("{program} did not start: {reason}")]
    NotStarted { program: String, reason: String },
    #[error("{program} failed: {reason}")]
    Ended { program: String, reason: String },
    #[error("cannot write to standard output: {0}; is its reader gone?")]
    Output(io::Error),
    #[error("cannot wait for signals: {0}; run it outside the tool that forbids it")]
    Signals(io::Error),
    #[error(
        "the server answered nothing while its capacity was measured ({detail}): give it a lower --cost-us"
    )]
    NoCapacity { detail: String },
    #[error("--times {given} is no overload: give more than 0 and at most 100")]
    Times { given: f64 },
}
