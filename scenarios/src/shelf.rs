// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios that come with the program: a folder a paper, and one for today.

use include_dir::{Dir, include_dir};

use crate::error::ScenarioError;
use crate::scenario::Scenario;

static SHUKLA: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/shukla");
static TODAY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/today");

/// Names and texts of all, by name.
#[must_use]
pub fn shelf() -> Vec<(String, &'static str)> {
    let mut all: Vec<_> = [("shukla", &SHUKLA), ("today", &TODAY)]
        .into_iter()
        .flat_map(|(folder, dir)| {
            dir.files().filter_map(move |file| {
                let stem = file.path().file_stem()?.to_str()?;
                Some((format!("{folder}-{stem}"), file.contents_utf8()?))
            })
        })
        .collect();
    all.sort();
    all
}

/// The scenario of that name: `shukla-4.7`.
///
/// # Errors
/// [`ScenarioError::Unknown`], with the names that there are.
pub fn named(name: &str) -> Result<Scenario, ScenarioError> {
    let shelf = shelf();
    let Some((_, text)) = shelf.iter().find(|(known, _)| known == name) else {
        let names: Vec<&str> = shelf.iter().map(|(known, _)| known.as_str()).collect();
        return Err(ScenarioError::Unknown { name: name.to_owned(), there_are: names.join(", ") });
    };
    Scenario::parse(name, name, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_on_the_shelf_can_be_read() {
        for (name, _) in shelf() {
            if let Err(error) = named(&name) {
                panic!("{error}");
            }
        }
        let error = named("shukla-9.9").unwrap_err().to_string();
        assert!(error.contains("shukla-9.9"), "{error}");
    }
}
