// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that results go to, and what is in it.

use std::fs;
use std::path::Path;

use tidegate_report::Writer;

use crate::failure::Failure;

/// A copy of each scenario that the results are from.
pub(crate) const SCENARIOS: &str = "scenarios";
/// The results.
pub(crate) const RESULTS: &str = "result.jsonl";
/// The machine that they are from.
pub(crate) const HOST: &str = "host.json";
/// How the files end that tell, for each scenario, what could not be run of it.
pub(crate) const LEFT_OUT: &str = "left-out.txt";

/// Makes the folder where there is none, and opens its results for more of them.
pub(crate) fn open(folder: &Path) -> Result<Writer, Failure> {
    let unwritable = |source| Failure::Folder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(unwritable)?;
    Ok(Writer::open(&folder.join(RESULTS))?)
}
