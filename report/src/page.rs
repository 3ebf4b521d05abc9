// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One HTML file that shows results: no network, no file beside it, no script needed to read it.

mod across;
mod axis;
mod bars;
mod claims;
mod conditions;
mod cover;
mod legend;
mod map;
mod panel;
mod study;
mod table;
mod words;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use tidegate_scenarios::Scenario;

pub use conditions::Host;

use crate::point::Point;
use study::View;

/// A scenario and what came of it.
#[derive(Clone, Debug)]
pub struct Study {
    /// The experiment.
    pub scenario: Scenario,
    /// Its points; those of other scenarios are left out.
    pub points: Vec<Point>,
    /// The machine that simulated points are of, by its name or its file, if that is known.
    pub machine: Option<String>,
    /// The machines of the live points; where there are none, those on which the simulator ran.
    pub hosts: Vec<Host>,
    /// The commands that repeat it.
    pub commands: Vec<String>,
    /// Curves that could not be run, each with its reason, in one sentence.
    pub left_out: Vec<String>,
}

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");
/// The page asks nobody for anything; the browser holds it to that.
const NO_NETWORK: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// The page of any number of studies.
#[must_use]
pub fn page(studies: &[Study]) -> String {
    let views: Vec<View> =
        studies.iter().enumerate().map(|(index, study)| View::new(index, study)).collect();
    let title = match studies {
        [only] => format!("{} · Tidegate results", only.scenario.title),
        _ => "Tidegate results".to_owned(),
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(NO_NETWORK);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (patterns())
                (cover::cover(&views))
                main { @for view in &views { (study::study(view)) } }
                div #tip role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    visible(&page.into_string())
}

/// What figures share by name.
fn patterns() -> Markup {
    html! {
        svg .patterns width="0" height="0" aria-hidden="true" {
            defs {
                pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse"
                    patternTransform="rotate(45)" {
                    line class="stripe" x1="1" y1="0" x2="1" y2="5" {}
                }
            }
        }
    }
}

/// HTML has no place for control characters, and a name may hold any; a scenario's lines may end as
/// Windows ends them.
fn visible(page: &str) -> String {
    let shown = |sign: char| match sign {
        '\n' | '\t' => sign,
        _ if sign.is_control() || is_noncharacter(sign) => '\u{fffd}',
        _ => sign,
    };
    page.replace("\r\n", "\n").chars().map(shown).collect()
}

fn is_noncharacter(sign: char) -> bool {
    let code = u32::from(sign);
    (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(scenario: Scenario) -> String {
        page(&[Study {
            scenario,
            points: Vec::new(),
            machine: None,
            hosts: Vec::new(),
            commands: Vec::new(),
            left_out: Vec::new(),
        }])
    }

    #[test]
    fn lines_that_end_as_windows_ends_them_look_like_others() {
        let text = crate::example::scenario("").text.replace('\n', "\r\n");
        let page = page_of(Scenario::parse("s", "s.toml", &text).unwrap());
        assert!(page.contains("mechanism = ") && !page.contains('\u{fffd}'));
    }
}
