// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab report`: from results to a page.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidegate_report::{Host, Point, Results, Study, page};

use crate::failure::Failure;
use crate::folder::{self, COLUMNS, COMMANDS, HOST, LEFT_OUT, RESULTS};

/// Draw the results in folders as one page that needs nothing else.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folders that `tidelab run` or `tidelab figure` wrote, or the result.jsonl in them, here or on
    /// other machines; their points are drawn as those of one sweep.
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,
    /// The page; by default report.html in the first folder.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Draws the page and says where it is.
pub(crate) fn report(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let folders: Vec<PathBuf> =
        arguments.folders.iter().map(|given| folder_of(given)).collect::<Result<_, _>>()?;
    let out = arguments.out.clone().unwrap_or_else(|| folders[0].join("report.html"));
    let page = draw(&folders, &out)?;
    crate::say(&format!("The report is {}", page.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The folder of results that is meant: itself, or where the file lies that was named.
fn folder_of(given: &Path) -> Result<PathBuf, Failure> {
    let is_results = given.ends_with(RESULTS) || given.ends_with(COLUMNS);
    let folder = match given.parent() {
        Some(parent) if is_results && given.is_file() => parent,
        _ => given,
    };
    if results_in(folder).is_file() {
        return Ok(folder.to_owned());
    }
    Err(Failure::NoResults { path: given.to_owned() })
}

/// Draws the results in folders.
pub(crate) fn draw(folders: &[PathBuf], out: &Path) -> Result<PathBuf, Failure> {
    let results = Results::read(folders.iter().map(|folder| results_in(folder)))?;
    for torn in &results.torn {
        eprintln!("tidelab: {torn}");
    }
    let mut names: Vec<&str> = Vec::new();
    for point in &results.points {
        if !names.contains(&point.scenario.as_str()) {
            names.push(&point.scenario);
        }
    }
    folder::require_one_machine(folders)?;
    let mut studies = Vec::new();
    for name in names {
        let scenario = folder::scenario(folders, name)?;
        let points: Vec<Point> =
            results.points.iter().filter(|point| point.scenario == name).cloned().collect();
        let host = folders.iter().find_map(|folder| host(folder));
        let commands = lines(folders, name, COMMANDS);
        let left_out = lines(folders, name, LEFT_OUT);
        studies.push(Study { scenario, points, host, commands, left_out });
    }
    let unwritable = |source| Failure::Folder { path: out.to_owned(), source };
    fs::write(out, page(&studies)).map_err(unwritable)?;
    Ok(out.to_owned())
}

/// A folder's lines; where only a Parquet file was brought along, that.
fn results_in(folder: &Path) -> PathBuf {
    let (lines, columns) = (folder.join(RESULTS), folder.join(COLUMNS));
    if !lines.exists() && columns.exists() { columns } else { lines }
}

/// The machine that the results are from.
fn host(folder: &Path) -> Option<Host> {
    serde_json::from_slice(&fs::read(folder.join(HOST)).ok()?).ok()
}

/// What the folders note of a scenario in the files that end like this, each line once.
fn lines(folders: &[PathBuf], name: &str, ending: &str) -> Vec<String> {
    let files = folders.iter().map(|folder| folder.join(format!("{name}.{ending}")));
    let mut lines: Vec<String> = Vec::new();
    for text in files.filter_map(|file| fs::read_to_string(file).ok()) {
        for line in text.lines() {
            if !lines.iter().any(|known| known == line) {
                lines.push(line.to_owned());
            }
        }
    }
    lines
}
