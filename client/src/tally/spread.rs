// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times of one kind: how they are spread, and how sure their mean is.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::outcome::Times;

/// The time that counts is cut into so many.
pub(super) const SLICES: usize = 10;
/// Two of the longest patience a plan may have.
const LONGEST_US: u64 = 2 * 86_400 * 1_000_000;
/// Student's t for an interval of 95 % with 9 degrees of freedom.
const STUDENT_T: f64 = 2.262;

/// Times of one kind.
#[derive(Debug)]
pub(super) struct Spread {
    us: Histogram<u64>,
    slices_ms: [Mean; SLICES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self { us: histogram(), slices_ms: Default::default() }
    }

    /// A time, of an attempt or visit that was to start in this slice.
    pub(super) fn add(&mut self, us: u64, slice: usize) {
        self.us.saturating_record(us);
        self.slices_ms[slice].sum += us as f64 / 1000.0;
        self.slices_ms[slice].count += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.us.len()
    }

    /// How many were no longer than each of these, in ms.
    pub(super) fn within<const N: usize>(&self, each_ms: [u32; N]) -> BTreeMap<u32, u64> {
        let count = |ms: u32| (ms, self.us.count_between(0, u64::from(ms) * 1000));
        each_ms.map(count).into()
    }

    pub(super) fn times(&self) -> Times {
        if self.us.is_empty() {
            return Times::default();
        }
        let at = |quantile| self.us.value_at_quantile(quantile) as f64 / 1000.0;
        let covered = self.slices_ms.iter().all(|slice| slice.count > 0);
        let means = self.slices_ms.map(|slice| slice.sum / slice.count as f64);
        Times {
            mean: self.us.mean() / 1000.0,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.us.max() as f64 / 1000.0,
            deviation: self.us.stdev() / 1000.0,
            ci95: covered.then(|| half_width(&means)),
        }
    }
}

/// Three significant digits: 1 ‰ of error, far below the noise of a network.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_US, 3).expect("bounds and precision are valid")
}

/// Half the width of the 95 % interval of the slices' mean.
pub(super) fn half_width(slices: &[f64; SLICES]) -> f64 {
    let count = SLICES as f64;
    let mean = slices.iter().sum::<f64>() / count;
    let squares: f64 = slices.iter().map(|value| (value - mean).powi(2)).sum();
    STUDENT_T * (squares / (count - 1.0) / count).sqrt()
}
