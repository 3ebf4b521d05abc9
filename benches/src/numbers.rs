// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rounds, and what is said of them.

/// The results of several rounds of one measurement.
#[derive(Debug, Clone, Default)]
pub struct Rounds(pub Vec<f64>);

impl Rounds {
    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    /// The least and the most.
    pub fn range(&self) -> (f64, f64) {
        let sorted = self.sorted();
        (sorted[0], sorted[sorted.len() - 1])
    }
}

/// `met` or `MISSED`, in the width of a table's last column.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
