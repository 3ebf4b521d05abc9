// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plot's numbers stand against: offered load, or time.

use super::study::View;
use crate::number::{Unit, load};
use crate::statistics::{Cell, Estimate, same_load};

/// The horizontal axis of a panel.
pub(super) struct Across {
    /// Every place that has numbers, rising: loads in multiples of capacity, or seconds.
    pub places: Vec<f64>,
    /// What the loads are multiples of, requests a second, if all points agree on it.
    pub capacity: Option<f64>,
    /// Against time: the one load that every curve is drawn at. Under several they would not be
    /// comparable.
    pub drawn_at: Option<f64>,
    is_time: bool,
}

impl Across {
    /// What this measure is drawn against.
    pub fn of(view: &View, measure: &str) -> Self {
        let Some(name) = measure.strip_prefix("seconds.") else {
            let (places, capacity) = (view.loads(), view.capacity());
            return Self { places, capacity, drawn_at: None, is_time: false };
        };
        let drawn_at = commonest(view, name);
        let at_it = |cell: &&Cell| drawn_at.is_some_and(|at| same_load(at, cell.offered));
        let runs = view.cells.iter().filter(at_it).flat_map(|cell| &cell.runs);
        let most = runs.filter_map(|run| run.seconds.get(name)).map(Vec::len).max().unwrap_or(0);
        let places = (0..most).map(|second| second as f64).collect();
        Self { places, capacity: None, drawn_at, is_time: true }
    }

    /// The numbers of one curve.
    pub fn dots<'a>(
        &'a self,
        series: &'a [&'a Cell<'a>],
        measure: &'a str,
    ) -> Box<dyn Iterator<Item = (f64, Option<Estimate>)> + 'a> {
        if !self.is_time {
            return Box::new(series.iter().map(|cell| (cell.offered, cell.estimate(measure))));
        }
        let drawn = series.iter().filter(|cell| self.is_drawn(cell));
        Box::new(drawn.flat_map(move |cell| {
            let at = move |second: &f64| (*second, cell.estimate(&format!("{measure}.{second}")));
            self.places.iter().map(at)
        }))
    }

    /// The loads of one curve that have numbers and are not drawn, rising.
    pub fn left_out(&self, series: &[&Cell], measure: &str) -> Vec<f64> {
        let has_numbers = |cell: &&&Cell| cell.estimate(measure).is_some();
        let left_out = series.iter().filter(|cell| !self.is_drawn(cell)).filter(has_numbers);
        left_out.map(|cell| cell.offered).collect()
    }

    /// Against load all of a curve's are.
    fn is_drawn(&self, cell: &Cell) -> bool {
        !self.is_time || self.drawn_at.is_some_and(|at| same_load(at, cell.offered))
    }

    /// The column that a number stands in.
    pub fn column(&self, at: f64) -> Option<usize> {
        self.places.iter().position(|place| self.is_same(*place, at))
    }

    /// Loads have come through a file, seconds are counted.
    pub fn is_same(&self, a: f64, b: f64) -> bool {
        if self.is_time { a == b } else { same_load(a, b) }
    }

    /// A place in words.
    pub fn show(&self, at: f64) -> String {
        if self.is_time { Unit::Seconds.round(at) } else { load(at) }
    }

    /// What a reader sees above the values at one place.
    pub fn head(&self, at: f64) -> String {
        if self.is_time {
            format!("from {} s to {} s", at, at + 1.0)
        } else {
            load_head(at, self.capacity)
        }
    }

    /// The unit of the numbers along the axis.
    pub fn unit(&self) -> Unit {
        if self.is_time { Unit::Seconds } else { Unit::Load }
    }

    /// What stands under the axis.
    pub fn title(&self) -> &'static str {
        if self.is_time {
            "each second, from its beginning, s"
        } else {
            "offered load, × capacity"
        }
    }

    /// In a sentence.
    pub fn name(&self) -> &'static str {
        if self.is_time { "time" } else { "offered load" }
    }
}

/// The load at which most curves have these counts by the second; of equals the highest.
fn commonest(view: &View, name: &str) -> Option<f64> {
    let has = |cell: &&Cell| cell.runs.iter().any(|run| run.seconds.contains_key(name));
    let curves_at = |at: f64| {
        let at_it = view.cells.iter().filter(|cell| same_load(cell.offered, at));
        at_it.filter(has).count()
    };
    let loads = view.loads().into_iter().filter(|at| curves_at(*at) > 0);
    loads.max_by_key(|at| curves_at(*at))
}

/// What a reader sees above the values at one load.
pub(super) fn load_head(at: f64, capacity: Option<f64>) -> String {
    match capacity {
        Some(capacity) => {
            format!("{} capacity, {} offered", load(at), Unit::PerSecond.show(at * capacity))
        }
        None => format!("{} capacity", load(at)),
    }
}
