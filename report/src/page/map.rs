// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Maps, where a scenario has factors: what a claim divides, a row for each combination of levels and a
//! column for each load, coloured by whether it is within the claim's bounds.

use maud::{Markup, html};
use tidegate_scenarios::{Claim, Combination};

use super::study::View;
use super::words;
use crate::claims::{bounds, shown};
use crate::judge::quotients;
use crate::number::load;
use crate::point::World;

/// So far beyond its bound a number has the last shade, in multiples of it.
const SHADES_BEYOND: [f64; 3] = [0.02, 0.1, 0.3];

/// Every map of a scenario.
pub(super) fn maps(view: &View) -> Markup {
    html! {
        div.maps {
            @for claim in &view.scenario.claims {
                @for world in &view.worlds { (map(view, claim, *world)) }
            }
        }
    }
}

fn map(view: &View, claim: &Claim, world: World) -> Markup {
    let rows = quotients(view.scenario, claim, world, &view.study.points);
    let mut loads: Vec<f64> =
        rows.iter().flat_map(|(_, series)| series.iter().map(|n| n.0)).collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup();
    let columns = view.scenario.factors.len();
    html! {
        @if !loads.is_empty() {
            div.table-block {
                div.scroll tabindex="0" role="group" aria-label=(claim.says) {
                    table.map {
                        caption { (title(view, claim, world)) }
                        thead {
                            tr {
                                @for factor in &view.scenario.factors { th scope="col" { (factor) } }
                                @for at in &loads { th.number scope="col" { (load(*at)) } }
                            }
                        }
                        @for group in rows.chunk_by(|a, b| outer(a.0, columns) == outer(b.0, columns)) {
                            tbody {
                                @for (index, (combination, series)) in group.iter().enumerate() {
                                    tr {
                                        @for (place, level) in combination.levels.iter().enumerate() {
                                            @if place + 1 == columns {
                                                th scope="row" { (level) }
                                            } @else if index == 0 {
                                                th scope="rowgroup" rowspan=(group.len()) { (level) }
                                            }
                                        }
                                        @for at in &loads { (field(claim, series, *at)) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// All levels but the last factor's: what rows of a group share.
fn outer(combination: &Combination, columns: usize) -> &[String] {
    &combination.levels[..columns - 1]
}

fn title(view: &View, claim: &Claim, world: World) -> String {
    let over = claim.over.as_ref().map(|over| format!(" ÷ {}", words::name(over)));
    let mut title = format!(
        "{}{}: {} as a multiple of {}",
        words::name(&claim.measure),
        over.unwrap_or_default(),
        claim.curve,
        match &claim.than[..] {
            [one] => one.clone(),
            several => format!("the best of {}", several.join(", ")),
        }
    );
    if let Some(bounds) = bounds(claim) {
        title.push_str(&format!("; {bounds}"));
    }
    if view.worlds.len() > 1 {
        title.push_str(&format!(" ({})", world.name()));
    }
    title
}

fn field(claim: &Claim, series: &[(f64, f64)], at: f64) -> Markup {
    let found = series.iter().find(|(load, _)| *load == at).map(|(_, found)| *found);
    html! {
        @match found {
            Some(found) => td class={ "number " (shade(claim, found)) } {
                (shown(claim, found))
            },
            None => td.number { "–" },
        }
    }
}

/// The class of a number's colour: `good`, or how far it is beyond a bound.
fn shade(claim: &Claim, found: f64) -> &'static str {
    let below = claim.at_least.map_or(0.0, |least| 1.0 - found / least);
    let above = claim.at_most.map_or(0.0, |most| found / most - 1.0);
    let beyond = below.max(above);
    match SHADES_BEYOND.iter().filter(|step| beyond > **step).count() {
        _ if beyond <= 0.0 => "good",
        0 => "bad-0",
        1 => "bad-1",
        2 => "bad-2",
        _ => "bad-3",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::scenario;

    #[test]
    fn a_number_that_is_coloured_as_beyond_its_bound_does_not_read_as_the_bound() {
        let claims = "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"\noffered = [1, 3]\nat_least = 1";
        let scenario = scenario(claims);
        let of = |found| field(&scenario.claims[0], &[(2.0, found)], 2.0).into_string();
        assert_eq!(of(0.997), r#"<td class="number bad-0">1.00 (0.9970)</td>"#);
        assert_eq!(of(1.0), r#"<td class="number good">1.00</td>"#);
    }

    #[test]
    fn a_number_is_coloured_by_how_far_it_is_beyond_a_bound() {
        let claims = "[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"\noffered = [1, 3]\nat_least = 0.97\nat_most = 1.5";
        let scenario = scenario(claims);
        let of = |found| shade(&scenario.claims[0], found);
        assert_eq!([0.97, 1.5].map(of), ["good"; 2]);
        assert_eq!([0.96, 1.52].map(of), ["bad-0"; 2]);
        assert_eq!([0.9, 0.8, 0.5].map(of), ["bad-1", "bad-2", "bad-3"]);
        assert_eq!([1.6, 1.9, 3.0].map(of), ["bad-1", "bad-2", "bad-3"]);
    }
}
