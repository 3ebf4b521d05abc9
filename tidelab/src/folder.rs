// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that results go to, and what is in it.

use std::fs;
use std::path::Path;

use tidegate_report::{Results, Writer};

use crate::failure::Failure;

/// A copy of each scenario that the results are from.
pub(crate) const SCENARIOS: &str = "scenarios";
/// The results.
pub(crate) const RESULTS: &str = "result.jsonl";
/// The same as Parquet.
pub(crate) const COLUMNS: &str = "result.parquet";
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
