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

/// A number with so many decimals, or as many more as it takes to be on its own side of a target.
pub fn shown(number: f64, places: usize, meets: impl Fn(f64) -> bool) -> String {
    let is_true = |text: &String| text.parse().is_ok_and(|read| meets(read) == meets(number));
    let mut longer = (places..places + 14).map(|places| format!("{number:.places$}"));
    longer.find(is_true).unwrap_or_else(|| number.to_string())
}

/// `met` or `MISSED`, in the width of a table's last column.
pub fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_misses_its_target_does_not_read_as_the_target() {
        let of = |number| shown(number, 1, |number| number >= 3.0);
        assert_eq!([3.24, 3.0, 2.94].map(of), ["3.2", "3.0", "2.9"]);
        assert_eq!([2.96, 2.996].map(of), ["2.96", "2.996"]);
        assert_eq!(shown(1.004, 2, |late_ms| late_ms <= 1.0), "1.004");
        assert_eq!(shown(399_999.6, 0, |per_s| per_s >= 400_000.0), "399999.6");
        assert_eq!(shown(f64::NAN, 1, |number| number >= 3.0), "NaN");
    }
}
