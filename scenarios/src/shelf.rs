// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios that come with the program: a folder a paper, and one for today.

use include_dir::{Dir, include_dir};
use tidegate_policy::nearest::nearest;

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
    use crate::{Form, Part, Setting, Take};

    #[test]
    fn every_scenario_on_the_shelf_can_be_read() {
        for (name, _) in shelf() {
            if let Err(error) = named(&name) {
                panic!("{error}");
            }
        }
        assert_eq!(named("pariag-table-4.1").expect("a scenario").name, "pariag-4.1");
    }

    /// Of the other figures some draw what no experiment shows, such as the flow of segments.
    #[test]
    fn every_figure_of_the_papers_that_was_measured_is_on_the_shelf() {
        let measured = [
            ("shukla", "4.3 4.4 4.7 4.8 4.9 4.10 4.13 4.14 5.1 5.2 5.4 5.5 5.7 5.8"),
            ("shukla-table", "4.1 4.2 4.4 4.5"),
            ("pariag", "4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 4.10 4.11 4.12 4.13 4.14 4.15 4.16"),
            ("pariag", "4.17 4.18 4.19 4.20 4.21 4.22 5.1 5.2 5.3 5.4 5.5 5.6 5.7"),
            ("pariag-table", "4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 4.10 5.1 5.2"),
            ("jamjoom", "7-left 7-centre 7-right 8 table-3"),
            ("faber", "4 5 6 7 table-2 table-3"),
        ];
        for (paper, figures) in measured {
            for figure in figures.split(' ') {
                let name = format!("{paper}-{figure}");
                assert!(named(&name).is_ok(), "{name}");
            }
        }
    }

    /// A mean of loads, at most of which the server is not busy, would let one of several be far behind
    /// where they differ.
    #[test]
    fn who_is_held_against_the_best_of_several_is_so_where_it_does_worst() {
        for (name, _) in shelf() {
            for claim in named(&name).expect("a scenario").claims {
                let extreme = matches!(claim.take, Take::Min | Take::Max);
                assert!(claim.than.len() < 2 || extreme, "{name}: {}", claim.says);
            }
        }
    }

    /// Far behind at one load and far ahead at another has a mean of neither. (A paper's "around" is of its
    /// curves as a whole.)
    #[test]
    fn of_todays_who_is_as_good_as_another_is_so_at_every_load() {
        for (name, _) in shelf().iter().filter(|(name, _)| name.starts_with("today-")) {
            let scenario = named(name).expect("a scenario");
            let loads = scenario.load(Form::Full).offered;
            for claim in &scenario.claims {
                let (from, to) = claim.offered;
                let several = loads.iter().filter(|load| (from..=to).contains(load)).count() > 1;
                let is_both = claim.at_least.is_some() && claim.at_most.is_some();
                let is_asked = several && is_both && !claim.than.is_empty();
                assert!(!is_asked || claim.take != Take::Mean, "{name}: {}", claim.says);
            }
        }
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
