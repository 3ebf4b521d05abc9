// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ends a command, in one sentence.

use std::io;
use std::path::{Path, PathBuf};

/// What ends a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Lab(#[from] tidegate_lab::LabError),
    #[error(transparent)]
    Server(#[from] tidegate_servers::ServerError),
    #[error(transparent)]
    Crowd(#[from] tidegate_crowd::CrowdError),
    #[error(transparent)]
    Live(#[from] tidegate_live::LiveError),
    #[error(transparent)]
    Sim(#[from] tidegate_sim::SimError),
    #[error(transparent)]
    Scenario(#[from] tidegate_scenarios::ScenarioError),
    #[error(transparent)]
    Results(#[from] tidegate_report::ResultsError),
    #[error("cannot write {}: {source}; name another place with --out", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("cannot write statistics to {}: {source}; name a file in a writable folder", path.display())]
    Statistics { path: PathBuf, source: io::Error },
    #[error(
        "{}: there are no results; name a folder that `tidelab run` wrote, or its result.jsonl",
        path.display()
    )]
    NoResults { path: PathBuf },
    #[error("two scenarios are called {name}: rename one of the files")]
    SameName { name: String },
    #[error(
        "{} holds results of another {what}, and numbers of both would be taken for one: name another folder by --out, or remove this one",
        .folder.display()
    )]
    OtherResults { folder: PathBuf, what: String },
    #[error(
        "{} holds results already, and what is measured would be fitted with them: name another folder by --keep, or remove this one",
        .folder.display()
    )]
    HasResults { folder: PathBuf },
    #[error(
        "{} holds results of another {what} than {}: draw a page of each",
        .folder.display(), .first.display()
    )]
    OtherFolder { folder: PathBuf, what: String, first: PathBuf },
    #[error("cannot write to standard output: {0}; is its reader gone?")]
    Output(io::Error),
    #[error("cannot wait for signals: {0}; run it outside the tool that forbids it")]
    Signals(io::Error),
    #[error("cannot start the thread that waits for signals: {0}; raise `ulimit -u`")]
    Thread(io::Error),
    #[error(
        "{} says which machine live results are from, and cannot be read: {source}; mend it, or remove it where they are this one's",
        path.display()
    )]
    Host { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Os(#[from] tidegate_client::UnknownOs),
    #[error("{what}")]
    Option { what: String },
    #[error("--p {given} is no share of connections to drop: give more than 0 and less than 1")]
    Share { given: f64 },
    #[error("--arrivals {given} is no rate: give more than 0 a second")]
    Arrivals { given: f64 },
    #[error("--times {given} is no overload: give more than 0 and at most 100")]
    Times { given: f64 },
}

impl Failure {
    /// A file or a folder that cannot be written, and why.
    pub(crate) fn unwritable(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Folder { path: path.to_owned(), source }
    }
}
