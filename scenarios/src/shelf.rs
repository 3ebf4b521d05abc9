// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios that come with the program: a folder a paper, and one for today.

use include_dir::{Dir, include_dir};
use tidegate_policy::names::nearest;

use crate::error::ScenarioError;
use crate::scenario::Scenario;

static FABER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/faber");
static JAMJOOM: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/jamjoom");
static PARIAG: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/pariag");
static SHUKLA: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/shukla");
static TODAY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/today");

/// Names and texts of all, by name.
#[must_use]
pub fn shelf() -> Vec<(String, &'static str)> {
    let folders = [
        ("faber", &FABER),
        ("jamjoom", &JAMJOOM),
        ("pariag", &PARIAG),
        ("shukla", &SHUKLA),
        ("today", &TODAY),
    ];
    let mut all: Vec<_> = folders
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

/// The scenario of that name, `shukla-4.7`, or the one that shows what is called so besides: one
/// experiment fills several figures of a paper.
///
/// # Errors
/// [`ScenarioError::Unknown`], with the name that was meant, where one is near.
pub fn named(name: &str) -> Result<Scenario, ScenarioError> {
    let shelf = shelf();
    if let Some((_, text)) = shelf.iter().find(|(known, _)| known == name) {
        return Scenario::parse(name, name, text);
    }
    let mut names = Vec::new();
    for (known, text) in &shelf {
        let scenario = Scenario::parse(known, known, text)?;
        if scenario.also.iter().any(|other| other == name) {
            return Ok(scenario);
        }
        names.extend(std::iter::once(known.clone()).chain(scenario.also));
    }
    Err(ScenarioError::Unknown { name: name.to_owned(), nearest: nearest(name, names) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Form, Part, Setting};

    #[test]
    fn every_scenario_on_the_shelf_can_be_read() {
        for (name, _) in shelf() {
            if let Err(error) = named(&name) {
                panic!("{error}");
            }
        }
        assert_eq!(named("pariag-table-4.1").expect("a scenario").name, "pariag-4.1");
    }

    /// In one short line: there are a hundred names.
    #[test]
    fn a_name_that_is_none_is_answered_with_the_nearest() {
        let told = |name: &str| named(name).unwrap_err().to_string();
        let list = "`tidelab figure --list` has all";
        for meant in ["shukla-4.77", "shulka-4.7", "SHUKLA-4.7"] {
            let expected = format!("there is no figure {meant}; did you mean shukla-4.7? {list}");
            assert_eq!(told(meant), expected);
        }
        assert_eq!(told("nope"), format!("there is no figure nope; {list}"));
    }

    /// What a short form promises. Each point takes a moment to lay its ground; what the server can
    /// do is measured first.
    #[test]
    fn every_short_form_takes_ten_minutes_at_most() {
        const GROUND: Duration = Duration::from_secs(2);
        const CAPACITY: Duration = Duration::from_secs(8);
        for (name, _) in shelf() {
            let whole = named(&name).expect("a scenario");
            let (scenario, load) = whole.part(&Part::of(Form::Short)).expect("a short form");
            let point = |(setting, offered): (&Setting, f64)| {
                load.phases(&setting.clients, offered).whole() + GROUND
            };
            let settings = scenario.settings.iter();
            let points =
                settings.flat_map(|s| load.offered.iter().map(move |offered| (s, *offered)));
            let uses = scenario.server_uses(&scenario.settings).len();
            let whole = points.map(point).sum::<Duration>() + CAPACITY * uses as u32;
            assert!(whole <= Duration::from_secs(600), "{name}: {} s", whole.as_secs());
        }
    }
}
