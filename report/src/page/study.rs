// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One scenario on the page: its figures, tables, claims and conditions.

use maud::{Markup, html};
use tidegate_scenarios::{Claim, Scenario};

use super::{Study, bars, claims, conditions, legend, map, panel, table};
use crate::judge::{Judgement, judge_all};
use crate::point::{Point, World};
use crate::statistics::{Cell, same_load};

/// A study made ready to be shown.
pub(super) struct View<'a> {
    /// What anchors in the page are called after.
    pub id: String,
    pub study: &'a Study,
    pub scenario: &'a Scenario,
    /// Those that count: the runs of the cells.
    pub points: Vec<&'a Point>,
    pub cells: Vec<Cell<'a>>,
    /// Names of the curves: the scenario's, then any that only the points know.
    pub curves: Vec<&'a str>,
    pub worlds: Vec<World>,
    pub judged: Vec<(&'a Claim, Judgement)>,
}

impl<'a> View<'a> {
    pub fn new(index: usize, study: &'a Study) -> Self {
        let scenario = &study.scenario;
        let cells = Cell::gather(&scenario.name, &study.points);
        let points = cells.iter().flat_map(|cell| cell.runs.iter().copied()).collect();
        let asked = scenario.settings.iter().map(|setting| setting.curve.as_str());
        let mut curves: Vec<&str> = Vec::new();
        for curve in asked.chain(cells.iter().map(|cell| cell.curve)) {
            if !curves.contains(&curve) {
                curves.push(curve);
            }
        }
        let has = |world: &World| cells.iter().any(|cell| cell.world == *world);
        let worlds = [World::Live, World::Sim].into_iter().filter(has).collect();
        let judged = judge_all(scenario, &study.points);
        let id = format!("study-{}", index + 1);
        Self { id, study, scenario, points, cells, curves, worlds, judged }
    }

    /// The curve's place in the legend, which is its colour and marker too.
    pub fn place(&self, curve: &str) -> usize {
        self.curves.iter().position(|known| *known == curve).unwrap_or(0)
    }

    /// The cells of one curve in one world, by rising load.
    pub fn series(&self, curve: &str, world: World) -> Vec<&Cell<'a>> {
        self.cells.iter().filter(|cell| cell.curve == curve && cell.world == world).collect()
    }

    /// Every curve with points, in the legend's order, live before simulated.
    pub fn drawn(&self) -> Vec<(&'a str, World)> {
        let pairs = self.curves.iter().flat_map(|curve| {
            [World::Live, World::Sim].into_iter().map(move |world| (*curve, world))
        });
        pairs.filter(|(curve, world)| !self.series(curve, *world).is_empty()).collect()
    }

    /// The curve's name, with its world where there are two.
    pub fn name(&self, curve: &str, world: World) -> String {
        match (self.worlds.len(), world) {
            (2, World::Sim) => format!("{curve} (simulated)"),
            _ => curve.to_owned(),
        }
    }

    /// Every offered load, rising.
    pub fn loads(&self) -> Vec<f64> {
        let mut loads: Vec<f64> = Vec::new();
        for cell in &self.cells {
            if !loads.iter().any(|load| same_load(*load, cell.offered)) {
                loads.push(cell.offered);
            }
        }
        loads.sort_by(f64::total_cmp);
        loads
    }

    /// The capacity, if all points agree on it to 2 %, those of both worlds: a figure has one scale.
    pub fn capacity(&self) -> Option<f64> {
        agreed(self.points.iter().copied())
    }

    /// The capacity, if all points of a world agree on it.
    pub fn capacity_in(&self, world: World) -> Option<f64> {
        agreed(self.points.iter().copied().filter(|point| point.world == world))
    }
}

fn agreed<'a>(points: impl Iterator<Item = &'a Point>) -> Option<f64> {
    let capacities: Vec<f64> = points.map(|point| point.capacity_per_s).collect();
    let capacity = *capacities.first()?;
    let agrees = |other: &f64| (other - capacity).abs() <= 0.02 * capacity;
    (capacity.is_finite() && capacity > 0.0 && capacities.iter().all(agrees)).then_some(capacity)
}

/// The section of one scenario.
pub(super) fn study(view: &View) -> Markup {
    let scenario = view.scenario;
    html! {
        section id=(view.id) aria-labelledby={ (view.id) "-title" } {
            header {
                h2 id={ (view.id) "-title" } { (scenario.title) }
                p.source {
                    (scenario.source)
                    @if view.worlds == [World::Sim] { " · simulated" }
                }
                @if !scenario.about.is_empty() { p.about { (scenario.about) } }
            }
            (conditions::warnings(view))
            @if view.cells.is_empty() {
                p.note { "There are no points of " code { (scenario.name) } " yet." }
            } @else {
                @if scenario.factors.is_empty() { (figures(view)) } @else { (map::maps(view)) }
                @for one in &scenario.tables { (table::table(view, one)) }
            }
            (claims::claims(view))
            (conditions::conditions(view))
            @if !view.cells.is_empty() { (table::numbers(view)) }
            details {
                summary { "The scenario, as a file" }
                pre { code { (scenario.text) } }
            }
        }
    }
}

/// All curves, with what they are called.
fn figures(view: &View) -> Markup {
    html! {
        (legend::legend(view))
        div.plots {
            div.panels {
                @for (index, one) in view.scenario.panels.iter().enumerate() {
                    (panel::panel(view, index, one))
                }
            }
            @for (index, one) in view.scenario.bars.iter().enumerate() {
                (bars::bars(view, index, one))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn study_of(points: Vec<Point>) -> Study {
        Study {
            scenario: example::scenario(""),
            points,
            machine: None,
            hosts: Vec::new(),
            commands: Vec::new(),
            left_out: Vec::new(),
        }
    }

    /// They would warn of numbers that nobody sees.
    #[test]
    fn runs_that_are_set_aside_say_nothing_but_how_many_they_are() {
        let short = Point {
            capacity_per_s: 1000.0,
            warnings: vec!["the generator was late".to_owned()],
            ..example::point("abort", 2.0)
        };
        let again = Point { seed: 2, ..short.clone() };
        let long =
            Point { duration_s: 60.0, capacity_per_s: 1100.0, ..example::point("abort", 2.0) };
        let shown = |points: Vec<Point>| {
            let study = study_of(points);
            let view = View::new(0, &study);
            (view.capacity(), super::study(&view).into_string())
        };
        let (capacity, page) = shown(vec![short.clone(), long.clone()]);
        assert_eq!(capacity, Some(1100.0));
        assert!(!page.contains("the generator was late") && !page.contains("1,000/s"), "{page}");
        assert!(page.contains("<div>60 s a point</div><div>1 shorter run is set aside</div>"));
        let (_, page) = shown(vec![short.clone(), long, again]);
        assert!(page.contains("2 shorter runs are set aside"), "{page}");
        let (_, page) = shown(vec![short]);
        assert!(page.contains("the generator was late") && !page.contains("set aside"), "{page}");
    }

    /// The simulated curves would stand beside requests a second of the other machine.
    #[test]
    fn a_figure_of_two_worlds_has_a_capacity_where_both_have_the_same() {
        let found = |simulated: f64| {
            let live = example::point("abort", 2.0);
            let sim = Point { world: World::Sim, capacity_per_s: simulated, ..live.clone() };
            let study = study_of(vec![live, sim]);
            let view = View::new(0, &study);
            [view.capacity(), view.capacity_in(World::Live), view.capacity_in(World::Sim)]
        };
        assert_eq!(found(1010.0), [Some(1000.0), Some(1000.0), Some(1010.0)]);
        assert_eq!(found(8000.0), [None, Some(1000.0), Some(8000.0)]);
    }
}
