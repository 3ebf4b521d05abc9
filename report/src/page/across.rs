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
    is_time: bool,
}

impl Across {
    /// What this measure is drawn against.
    pub fn of(view: &View, measure: &str) -> Self {
        let Some(name) = measure.strip_prefix("seconds.") else {
            return Self { places: view.loads(), capacity: view.capacity(), is_time: false };
        };
        let counts = view.points.iter().filter_map(|point| point.seconds.get(name));
        let most = counts.map(Vec::len).max().unwrap_or(0);
        let places = (0..most).map(|second| second as f64).collect();
        Self { places, capacity: None, is_time: true }
    }

    /// The numbers of one curve. Against time it has those of its highest load; a scenario whose load
    /// changes by steps has only one.
    pub fn dots<'a>(
        &'a self,
        series: &'a [&'a Cell<'a>],
        measure: &'a str,
    ) -> Box<dyn Iterator<Item = (f64, Option<Estimate>)> + 'a> {
        if !self.is_time {
            return Box::new(series.iter().map(|cell| (cell.offered, cell.estimate(measure))));
        }
        let last = series.last().into_iter();
        Box::new(last.flat_map(move |cell| {
            let at = move |second: &f64| (*second, cell.estimate(&format!("{measure}.{second}")));
            self.places.iter().map(at)
        }))
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

/// What a reader sees above the values at one load.
pub(super) fn load_head(at: f64, capacity: Option<f64>) -> String {
    match capacity {
        Some(capacity) => {
            format!("{} capacity, {} offered", load(at), Unit::PerSecond.show(at * capacity))
        }
        None => format!("{} capacity", load(at)),
    }
}
