// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several runs of the same point become one number with an interval.

use crate::point::{Point, World};

/// How far two offered loads may differ and still be the same, relatively. Each is what was asked for,
/// and not what came of it, so that only its way through a file may change it.
const SAME_LOAD: f64 = 1e-6;
/// How far two runs may differ in how long they were counted and still be runs of the same, relatively.
const SAME_LENGTH: f64 = 0.01;

/// Whether two offered loads are the same, but for what a file makes of them.
pub(crate) fn same_load(a: f64, b: f64) -> bool {
    is_near(a, b, SAME_LOAD)
}

/// Whether two runs were counted for the same time.
pub(crate) fn same_length(a_s: f64, b_s: f64) -> bool {
    is_near(a_s, b_s, SAME_LENGTH)
}

fn is_near(a: f64, b: f64, apart: f64) -> bool {
    (a - b).abs() <= apart * a.abs().max(b.abs())
}

/// The first seed from `first` on that is above those of all runs there are already of any of these
/// curves at any of these loads.
#[must_use]
pub fn next_seed<'a>(
    scenario: &str,
    world: World,
    curves: impl IntoIterator<Item = &'a str> + Clone,
    offered: &[f64],
    points: &[Point],
    first: u64,
) -> u64 {
    // Shorter runs, too, which count for nothing beside longer ones.
    let is_asked = |point: &&Point| {
        point.scenario == scenario
            && point.world == world
            && offered.iter().any(|load| same_load(*load, point.offered_over_capacity))
            && curves.clone().into_iter().any(|curve| curve == point.curve)
    };
    let spent = points.iter().filter(is_asked).map(|run| run.seed);
    spent.map(|seed| seed.saturating_add(1)).max().unwrap_or(0).max(first)
}

/// A number over all runs of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over runs.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval: over runs by Student's t, or what the only
    /// run knows of itself.
    pub half_width: Option<f64>,
    /// How many runs have the number.
    pub runs: usize,
}

/// All runs of one curve at one offered load in one world.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    /// Where they were run.
    pub world: World,
    /// The curve's name.
    pub curve: &'a str,
    /// Offered load of the first of them, in multiples of capacity.
    pub offered: f64,
    /// The runs.
    pub runs: Vec<&'a Point>,
    /// Shorter ones, which count for nothing beside these.
    pub set_aside: Vec<&'a Point>,
}

impl<'a> Cell<'a> {
    /// Gathers the points of a scenario: by world, by curve as they first appear, by rising load. The
    /// same line twice, of results that lie in two folders, is one run. Where some were counted for longer
    /// than others these are no runs of the same, and the longest count.
    #[must_use]
    pub fn gather(scenario: &str, points: &'a [Point]) -> Vec<Self> {
        let mut cells: Vec<Self> = Vec::new();
        let usable =
            |point: &&Point| point.scenario == scenario && point.offered_over_capacity.is_finite();
        for point in points.iter().filter(usable) {
            let offered = point.offered_over_capacity;
            let same = |cell: &&mut Self| {
                cell.world == point.world
                    && cell.curve == point.curve
                    && same_load(cell.offered, offered)
            };
            match cells.iter_mut().find(same) {
                Some(cell) => cell.add(point),
                None => cells.push(Self {
                    world: point.world,
                    curve: &point.curve,
                    offered,
                    runs: vec![point],
                    set_aside: Vec::new(),
                }),
            }
        }
        let mut curves: Vec<&str> = Vec::new();
        for cell in &cells {
            if !curves.contains(&cell.curve) {
                curves.push(cell.curve);
            }
        }
        let place = |curve: &str| curves.iter().position(|known| *known == curve);
        cells.sort_by(|a, b| {
            (a.world, place(a.curve))
                .cmp(&(b.world, place(b.curve)))
                .then(a.offered.total_cmp(&b.offered))
        });
        cells
    }

    fn add(&mut self, point: &'a Point) {
        let [longest, lasts] = [self.runs[0].duration_s, point.duration_s];
        if !same_length(longest, lasts) {
            if lasts < longest {
                add_once(&mut self.set_aside, point);
                return;
            }
            self.set_aside.append(&mut self.runs);
        }
        add_once(&mut self.runs, point);
    }

    /// A number over the runs that have it; `None` when none has.
    #[must_use]
    pub fn estimate(&self, measure: &str) -> Option<Estimate> {
        let finite = |point: &&Point| point.measure(measure).filter(|number| number.is_finite());
        let numbers: Vec<f64> = self.runs.iter().filter_map(finite).collect();
        let own = match &self.runs[..] {
            [only] => only.interval(measure),
            _ => None,
        };
        over_runs(&numbers, own)
    }

    /// The quotient of two numbers, run by run; `None` where none has both, or the divisor is 0.
    #[must_use]
    pub fn quotient(&self, measure: &str, over: &str) -> Option<Estimate> {
        let quotient = |point: &&Point| {
            let quotient = point.measure(measure)? / point.measure(over)?;
            quotient.is_finite().then_some(quotient)
        };
        over_runs(&self.runs.iter().filter_map(quotient).collect::<Vec<_>>(), None)
    }
}

/// The same line twice, of results that lie in two folders, is one run.
fn add_once<'a>(runs: &mut Vec<&'a Point>, point: &'a Point) {
    if !runs.contains(&point) {
        runs.push(point);
    }
}

fn over_runs(numbers: &[f64], own: Option<f64>) -> Option<Estimate> {
    let mean = mean(numbers)?;
    let runs = numbers.len();
    let half_width = if runs == 1 {
        own
    } else {
        let squares = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>();
        let deviation = (squares / (runs - 1) as f64).sqrt();
        let half = student_t(runs - 1) * deviation / (runs as f64).sqrt();
        half.is_finite().then_some(half)
    };
    Some(Estimate { mean, half_width, runs })
}

/// The mean; `None` of nothing. Of equal numbers it is that number, to the last bit: a claim's bound may be.
pub(crate) fn mean(numbers: &[f64]) -> Option<f64> {
    let least = numbers.iter().copied().min_by(f64::total_cmp)?;
    let greatest = numbers.iter().copied().max_by(f64::total_cmp)?;
    let count = numbers.len() as f64;
    let sum = numbers.iter().sum::<f64>();
    // The sum of huge numbers has no room: those are divided before they are added.
    let mean = match sum.is_finite() {
        true => sum / count,
        false => numbers.iter().map(|number| number / count).sum(),
    };
    Some(mean.max(least).min(greatest))
}

/// The 97.5 % quantile of Student's t: a two-sided 95 % interval is that many standard errors.
fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    if let Some(quantile) = freedom.checked_sub(1).and_then(|index| TABLE.get(index)) {
        return *quantile;
    }
    // The first terms of the expansion about the normal quantile: exact to three digits from here.
    let (normal, freedom) = (1.959_964_f64, freedom as f64);
    normal
        + (normal.powi(3) + normal) / (4.0 * freedom)
        + (5.0 * normal.powi(5) + 16.0 * normal.powi(3) + 3.0 * normal) / (96.0 * freedom.powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::point;

    #[test]
    fn runs_of_one_point_become_mean_and_interval() {
        let loads = [2.0, 2.0 + 1e-9, 2.0];
        let mut runs = loads.map(|load| point("default", load));
        for (run, replies) in runs.iter_mut().zip([90.0, 100.0, 110.0]) {
            run.replies_per_s = replies;
        }
        let cells = Cell::gather("s", &runs);
        let [cell] = &cells[..] else { panic!("{cells:?}") };
        let found = cell.estimate("replies_per_s").unwrap();
        assert_eq!((found.mean, found.runs), (100.0, 3));
        // 4.303 · 10 / √3.
        assert!((found.half_width.unwrap() - 24.84).abs() < 0.01, "{found:?}");
    }

    /// A claim may ask for just that.
    #[test]
    fn the_mean_of_equal_numbers_is_that_number() {
        for number in [1.0, 0.1, 0.7, 1e-9, 123.456, f64::MAX] {
            for count in 1..100 {
                assert_eq!(mean(&vec![number; count]), Some(number), "{count} of {number}");
            }
        }
        assert_eq!(mean(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0]), Some(4.5));
        let huge = mean(&[f64::MAX, f64::MAX / 2.0]).unwrap();
        assert!((huge / (f64::MAX * 0.75) - 1.0).abs() < 1e-12, "{huge}");
        assert_eq!(mean(&[]), None);
    }

    /// A part of a scenario may be offered loads that are close to those of another part.
    #[test]
    fn loads_that_differ_by_little_are_others() {
        let runs = [point("default", 2.0), point("default", 1.99), point("default", 2.001)];
        let cells = Cell::gather("s", &runs);
        let found: Vec<_> = cells.iter().map(|cell| (cell.offered, cell.runs.len())).collect();
        assert_eq!(found, [(1.99, 1), (2.0, 1), (2.001, 1)]);
        let curve = std::iter::once("default");
        assert_eq!(next_seed("s", World::Live, curve, &[2.01], &runs, 1), 1);
    }

    #[test]
    fn the_same_line_twice_is_one_run() {
        let run = point("default", 2.0);
        let other = Point { seed: run.seed + 1, ..run.clone() };
        let runs = [run.clone(), other, run];
        assert_eq!(Cell::gather("s", &runs)[0].estimate("replies_per_s").unwrap().runs, 2);
    }

    /// Not of all cells there are as many runs, nor had those the first seeds.
    /// A figure in minutes, and later the same at length, are in one folder.
    #[test]
    fn of_runs_of_unequal_length_the_longest_count() {
        let run = |seed, duration_s| Point { seed, duration_s, ..point("default", 2.0) };
        let runs = [run(1, 5.0), run(2, 120.0), run(3, 5.0), run(4, 120.5)];
        let cells = Cell::gather("s", &runs);
        let seeds = |runs: &[&Point]| runs.iter().map(|run| run.seed).collect::<Vec<_>>();
        assert_eq!((cells.len(), seeds(&cells[0].runs)), (1, vec![2, 4]));
        assert_eq!(seeds(&cells[0].set_aside), [1, 3]);
    }

    #[test]
    fn a_further_run_has_a_seed_that_no_asked_cell_has_had() {
        let run = |curve: &str, offered, seed| Point { seed, ..point(curve, offered) };
        let runs = [run("a", 1.0, 1), run("a", 1.0, 2), run("b", 1.0, 4), run("c", 2.0, 9)];
        let next = |curves: &[&str], offered: &[f64], first| {
            let curves = curves.iter().copied();
            next_seed("s", World::Live, curves, offered, &runs, first)
        };
        assert_eq!(next(&["a"], &[1.0], 1), 3);
        assert_eq!(next(&["b"], &[1.0], 1), 5, "one run, with the fourth seed");
        assert_eq!(next(&["a", "b", "c"], &[1.0], 1), 5, "the other is not asked for");
        assert_eq!(next(&["a"], &[3.0], 7), 7);
        assert_eq!(next(&["a"], &[1.0], 20), 20);
        let shorter = [run("a", 1.0, 1), Point { duration_s: 5.0, ..run("a", 1.0, 2) }];
        let curve = std::iter::once("a");
        assert_eq!(
            next_seed("s", World::Live, curve, &[1.0], &shorter, 1),
            3,
            "though it is set aside"
        );
    }

    #[test]
    fn a_single_run_keeps_the_interval_that_it_measured() {
        let mut runs = [point("default", 2.0)];
        runs[0].replies_per_s_ci95 = Some(7.0);
        let cells = Cell::gather("s", &runs);
        assert_eq!(cells[0].estimate("replies_per_s").unwrap().half_width, Some(7.0));
        assert_eq!(cells[0].estimate("attempts").unwrap().half_width, None);
        assert_eq!(cells[0].estimate("nothing"), None);
    }

    #[test]
    fn other_scenarios_worlds_curves_and_loads_stay_apart() {
        let mut runs = vec![point("b", 2.0), point("a", 3.0), point("b", 1.0), point("b", 1.0)];
        runs[3].world = World::Sim;
        runs.push(Point { scenario: "other".to_owned(), ..point("b", 1.0) });
        let cells = Cell::gather("s", &runs);
        let found: Vec<_> = cells.iter().map(|c| (c.world, c.curve, c.offered)).collect();
        assert_eq!(
            found,
            [
                (World::Live, "b", 1.0),
                (World::Live, "b", 2.0),
                (World::Live, "a", 3.0),
                (World::Sim, "b", 1.0)
            ]
        );
    }

    #[test]
    fn the_quantile_falls_towards_the_normal_one() {
        assert_eq!(student_t(1), 12.706);
        assert_eq!(student_t(30), 2.042);
        assert!((student_t(31) - 2.0395).abs() < 5e-4);
        assert!((student_t(120) - 1.9799).abs() < 5e-4);
    }
}
