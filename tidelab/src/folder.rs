// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that results go to, and what is in it.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate_report::{Results, Writer};
use tidegate_scenarios::Scenario;
use tidegate_sim::Machine;

use crate::failure::Failure;

/// A copy of each scenario that the results are from.
pub(crate) const SCENARIOS: &str = "scenarios";
/// The results.
pub(crate) const RESULTS: &str = "result.jsonl";
/// The same as Parquet.
pub(crate) const COLUMNS: &str = "result.parquet";
/// The machine that was simulated, if one was.
const SIMULATED: &str = "simulated.toml";
/// The machine that they are from.
pub(crate) const HOST: &str = "host.json";
/// How the files end that tell, for each scenario, by which commands it was run, a line each.
pub(crate) const COMMANDS: &str = "commands.txt";
/// How the files end that tell, for each scenario, what could not be run of it.
pub(crate) const LEFT_OUT: &str = "left-out.txt";

/// Makes the folder where there is none, and opens its results for more of them.
pub(crate) fn open(folder: &Path) -> Result<Writer, Failure> {
    let unwritable = |source| Failure::Folder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    // A folder that came without its lines gets them back: a run adds to what is there.
    let (lines, columns) = (folder.join(RESULTS), folder.join(COLUMNS));
    let earlier = if !lines.exists() && columns.exists() {
        Results::read([columns])?.points
    } else {
        Vec::new()
    };
    let mut results = Writer::open(&lines)?;
    earlier.iter().try_for_each(|point| results.append(point))?;
    Ok(results)
}

/// The copy of a scenario in a folder.
fn copy_of(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(SCENARIOS).join(format!("{scenario}.toml"))
}

/// Keeps a scenario beside its results. Those of another of this name are no further runs of it.
pub(crate) fn keep_scenario(folder: &Path, scenario: &Scenario) -> Result<(), Failure> {
    let copy = copy_of(folder, &scenario.name);
    let is_other =
        copy.is_file() && !Scenario::read(&copy).is_ok_and(|known| known.runs_what(scenario));
    keep(folder, &copy, &scenario.text, is_other, &format!("scenario {}", scenario.name))
}

/// Keeps the machine that is simulated beside the results. Those of another are no further runs.
pub(crate) fn keep_machine(folder: &Path, machine: &Machine) -> Result<(), Failure> {
    let (copy, text) = (folder.join(SIMULATED), machine.to_toml()?);
    let is_other = fs::read_to_string(&copy).is_ok_and(|known| known != text);
    keep(folder, &copy, &text, is_other, "simulated machine")
}

fn keep(folder: &Path, copy: &Path, text: &str, is_other: bool, what: &str) -> Result<(), Failure> {
    let folder = folder.to_owned();
    if is_other {
        return Err(Failure::OtherResults { folder, what: what.to_owned() });
    }
    fs::write(copy, text).map_err(|source| Failure::Folder { path: folder, source })
}

/// The copy of a scenario that lies with its results, or the one that comes with this program.
pub(crate) fn scenario(folders: &[PathBuf], name: &str) -> Result<Scenario, Failure> {
    let mut copies = folders.iter().filter(|folder| copy_of(folder, name).is_file());
    let Some(first) = copies.next() else { return Ok(tidegate_scenarios::named(name)?) };
    let scenario = Scenario::read(&copy_of(first, name))?;
    for folder in copies {
        if !Scenario::read(&copy_of(folder, name))?.runs_what(&scenario) {
            return Err(other_folder(first, folder, &format!("scenario {name}")));
        }
    }
    Ok(scenario)
}

/// That results which are drawn together are of one simulated machine.
pub(crate) fn require_one_machine(folders: &[PathBuf]) -> Result<(), Failure> {
    let machine = |folder: &PathBuf| fs::read_to_string(folder.join(SIMULATED)).ok();
    let mut simulated = folders.iter().filter_map(|folder| Some((folder, machine(folder)?)));
    let Some((first, known)) = simulated.next() else { return Ok(()) };
    match simulated.find(|(_, other)| *other != known) {
        None => Ok(()),
        Some((other, _)) => Err(other_folder(first, other, "simulated machine")),
    }
}

fn other_folder(first: &Path, other: &Path, what: &str) -> Failure {
    Failure::OtherFolder {
        folder: other.to_owned(),
        what: what.to_owned(),
        first: first.to_owned(),
    }
}
