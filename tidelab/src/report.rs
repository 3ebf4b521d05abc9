// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab report`: from results to a page.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tidegate_report::{Host, Point, ResultsError, Study, World, page};

use crate::failure::Failure;
use crate::folder::{self, COLUMNS, COMMANDS, Kept, LEFT_OUT, RESULTS};

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
    // That of a file's name alone is "", which cannot be listed.
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match fs::metadata(folder::results_in(folder)) {
        Ok(there) if there.is_file() => Ok(folder.to_owned()),
        Err(source) if !matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            let file = given.display().to_string();
            Err(ResultsError::Unreadable { file, source }.into())
        }
        _ => Err(Failure::NoResults { path: given.to_owned() }),
    }
}

/// Draws the results in folders.
pub(crate) fn draw(folders: &[PathBuf], out: &Path) -> Result<PathBuf, Failure> {
    let all: Vec<Kept> =
        folders.iter().map(|folder| Kept::read(folder)).collect::<Result<_, _>>()?;
    for torn in all.iter().flat_map(|kept| &kept.results.torn) {
        crate::tell(format_args!("tidelab: {torn}\n"));
    }
    let mut names: Vec<String> = Vec::new();
    // Also those of which nothing could be run, behind the others: the page says why.
    let left_out = folders.iter().flat_map(|folder| folder::all_left_out(folder));
    for name in points(&all).map(|point| point.scenario.clone()).chain(left_out) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let studies: Vec<Study> =
        names.iter().map(|name| study(&all, name)).collect::<Result<_, _>>()?;
    fs::write(out, page(&studies)).map_err(Failure::unwritable(out))?;
    Ok(out.to_owned())
}

/// All points, in the order of the folders.
fn points<'a>(all: &'a [Kept<'_>]) -> impl Iterator<Item = &'a Point> {
    all.iter().flat_map(|kept| &kept.results.points)
}

/// A scenario, what came of it in the folders, and what all of them note of it.
fn study(all: &[Kept<'_>], name: &str) -> Result<Study, Failure> {
    let machine = folder::one_machine(&folder::holding(all, name, Some(World::Sim)))?;
    let mut holding = folder::holding(all, name, None);
    if holding.is_empty() {
        // Of the first that was run in vain: where nothing came of them they may differ.
        holding.extend(
            all.iter().map(|kept| kept.folder).find(|folder| folder::has_left_out(folder, name)),
        );
    }
    let scenario = folder::scenario(&holding, name)?;
    Ok(Study {
        scenario,
        points: points(all).filter(|point| point.scenario == name).cloned().collect(),
        machine,
        hosts: hosts(all, name),
        commands: lines(all, name, COMMANDS),
        left_out: lines(all, name, LEFT_OUT),
    })
}

/// The machines that a scenario's points are from, each once: where there are live ones those that these
/// are from, since simulated ones are the same on any.
fn hosts(all: &[Kept<'_>], name: &str) -> Vec<Host> {
    let live = folder::holding(all, name, Some(World::Live));
    let folders = if live.is_empty() { folder::holding(all, name, None) } else { live };
    let mut hosts: Vec<Host> = Vec::new();
    for noted in folders.into_iter().map(folder::noted_host) {
        match noted {
            Ok(Some(host)) if !hosts.contains(&host) => hosts.push(host),
            Ok(_) => {}
            Err(failure) => crate::tell(format_args!("tidelab: {failure}\n")),
        }
    }
    hosts
}

/// What the folders note of a scenario in the files that end like this, each line once.
fn lines(all: &[Kept<'_>], name: &str, ending: &str) -> Vec<String> {
    let files = all.iter().map(|kept| kept.folder.join(format!("{name}.{ending}")));
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Of one that may not be entered, say, nobody knows what is in it. A link to itself is so for root, too.
    #[test]
    fn a_folder_that_cannot_be_looked_into_is_not_told_as_one_without_results() {
        let folder = tempfile::tempdir().unwrap();
        let circle = folder.path().join("circle");
        symlink(&circle, &circle).unwrap();
        for given in [circle.clone(), circle.join(RESULTS)] {
            let told = folder_of(&given).unwrap_err().to_string();
            let begins = format!("{}: ", given.display());
            assert!(told.starts_with(&begins) && !told.contains("no results"), "{told}");
        }
        fs::write(folder.path().join("file"), "").unwrap();
        for given in ["", "nowhere", "file"].map(|name| folder.path().join(name)) {
            let told = folder_of(&given).unwrap_err().to_string();
            assert!(told.contains(": there are no results; "), "{told}");
        }
    }
}
