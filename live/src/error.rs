// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends an experiment, in one sentence.

use std::io;
use std::path::PathBuf;

use tidegate_lab::LabError;

/// Why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// The testbed.
    #[error(transparent)]
    Lab(LabError),
    /// The crowd.
    #[error(transparent)]
    Crowd(#[from] tidegate_crowd::CrowdError),
    /// No `tidegate` beside this program.
    #[error(
        "there is no {}: build it with `cargo build --release -p tidegate`, or name another with TIDEGATE_BIN",
        path.display()
    )]
    NoTidegate {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// This program does not know its own file.
    #[error("cannot find this program's own file: {0}; run it by its full path")]
    NoSelf(io::Error),
    /// A server is not installed.
    #[error("{program} is not installed: install the package {package}, or name another server")]
    NoServer {
        /// The program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A server that cannot be made to hold so many.
    #[error(
        "the server holds {held} connections in TIME-WAIT, not {wanted}, after as long as one lasts: give fewer as time_waits"
    )]
    NotLoaded {
        /// How many it held in the end.
        held: u64,
        /// How many it was to hold.
        wanted: u64,
    },
    /// Persistent dropping by several hosts in a row, of which this world has one.
    #[error("there is one router, not {0} in series: leave the curve out, or simulate it")]
    InSeries(u32),
    /// A program that should serve or guard did not come up.
    #[error("{program} did not start: {reason}")]
    NotStarted {
        /// Which.
        program: String,
        /// What it said, or did not say.
        reason: String,
    },
    /// A program ended before it was asked to, or badly.
    #[error("{program} failed: {reason}")]
    Ended {
        /// Which.
        program: String,
        /// What it said.
        reason: String,
    },
    /// The server's capacity is not to be had.
    #[error(
        "the server answered nothing while its capacity was measured ({detail}): give it a lower cost_us, or \
         clients a longer timeout_s"
    )]
    NoCapacity {
        /// What came instead.
        detail: String,
    },
    /// A recorded trace that cannot be played.
    #[error(transparent)]
    Trace(#[from] tidegate_scenarios::ScenarioError),
    /// A profile of clients that nobody knows.
    #[error("{0}")]
    Clients(String),
    /// A capacity measured over another kind of cable than the points of the curve.
    #[error(
        "\"{curve}\" cannot be run live: with page = \"specweb99\" and loss or reorder its rates would be multiples of what the server can do over another cable; give page = \"one-packet\", or neither loss nor reorder"
    )]
    OtherCable {
        /// The curve.
        curve: String,
    },
    /// Whoever watches could not take a point.
    #[error(transparent)]
    Watcher(#[from] tidegate_report::ResultsError),
}

impl From<LabError> for LiveError {
    /// What does not start is that curve's affair, not the testbed's.
    fn from(error: LabError) -> Self {
        match error {
            LabError::NotReady { program, reason } => Self::NotStarted { program, reason },
            error => Self::Lab(error),
        }
    }
}
