// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tails of distributions, exact far out, where it matters here.

use std::f64::consts::PI;

/// The density of the normal distribution.
fn density(z: f64) -> f64 {
    (-z * z / 2.0).exp() / (2.0 * PI).sqrt()
}

/// Beyond this the continued fraction has fifteen digits; up to it the series has.
const FAR: f64 = 2.5;
const TERMS: u32 = 120;

/// Mills's ratio, the tail over the density, for z from 0 on. Far out by Laplace's continued fraction,
/// 1 / (z + 1 / (z + 2 / (z + 3 / …))).
fn mills(z: f64) -> f64 {
    if z > FAR {
        let below = (1..=TERMS).rev().fold(z, |below, k| z + f64::from(k) / below);
        return 1.0 / below;
    }
    // Φ(z) = 1/2 + φ(z) (z + z³/3 + z⁵/(3·5) + …).
    let (mut term, mut sum) = (z, z);
    for k in 1..TERMS {
        term *= z * z / f64::from(2 * k + 1);
        sum += term;
    }
    0.5 / density(z) - sum
}

/// The chance of more than z.
fn tail(z: f64) -> f64 {
    if z < 0.0 { 1.0 - tail(-z) } else { density(z) * mills(z) }
}

/// Brownian motion, held from below at 0 where it began.
pub(super) struct Motion {
    pub drift: f64,
    /// A second; above 0.
    pub variance: f64,
    /// In s, above 0.
    pub time: f64,
}

impl Motion {
    /// The chance to be above x at the end, which is that to have been above x without the bound.
    fn above(&self, x: f64) -> f64 {
        let spread = (self.variance * self.time).sqrt();
        let past = (x - self.drift * self.time) / spread;
        let back = (x + self.drift * self.time) / spread;
        let reflected = if self.drift > 0.0 {
            // e^(2θx/σ²) Φ̄(back), whose exponent is that of φ(past) / φ(back).
            density(past) * mills(back)
        } else {
            (2.0 * self.drift * x / self.variance).exp() * tail(back)
        };
        tail(past) + reflected
    }

    /// What it is above with that chance.
    pub(super) fn highest(&self, chance: f64) -> f64 {
        smallest(|x| self.above(x) <= chance)
    }
}

/// The smallest number from 0 on of which `holds` is true, and of all larger ones: within a
/// thousandth.
fn smallest(holds: impl Fn(f64) -> bool) -> f64 {
    if holds(0.0) {
        return 0.0;
    }
    let mut high = 1.0;
    while !holds(high) {
        high *= 2.0;
    }
    let mut low = high / 2.0;
    if high == 1.0 {
        low = 0.0;
    }
    while high - low > 1e-3 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// A Poisson variable of this mean is that or more with no more than this chance: Chernoff's bound,
/// P(N ≥ n) ≤ exp(n − m − n ln(n/m)) above the mean. A whole number.
pub(super) fn poisson_highest(mean: f64, chance: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    let is_rare = |n: f64| n > mean && n - mean - n * (n / mean).ln() <= chance.ln();
    smallest(is_rare).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found}, expected {expected}");
    }

    /// From tables of the normal distribution.
    #[test]
    fn tails_are_those_of_the_tables() {
        near(tail(0.0), 0.5);
        near(tail(1.0), 0.158_655_253_931_457);
        near(tail(-1.0), 0.841_344_746_068_543);
        near(tail(2.4), 0.008_197_535_924_596_13);
        near(tail(2.6), 0.004_661_188_023_718_73);
        near(tail(5.0), 2.866_515_718_791_94e-7);
    }

    #[test]
    fn both_forms_meet_where_one_takes_over() {
        let step = mills(FAR) - mills(FAR + 1e-12);
        assert!(step.abs() < 1e-9, "{step}");
    }

    /// Far above 0, at it, and far below: the three cases that the formula joins.
    #[test]
    fn the_motion_is_a_normal_one_half_of_one_or_an_exponential() {
        let motion = |drift| Motion { drift, variance: 100.0, time: 1.0 };
        // 1.6449 and 1.96 standard deviations are one in twenty and one in forty.
        assert!((motion(1e5).highest(0.05) - 100_016.449).abs() < 0.01);
        assert!((motion(0.0).highest(0.05) - 19.600).abs() < 0.01);
        let falling = Motion { time: 1000.0, ..motion(-10.0) };
        assert!((falling.highest(0.05) - 20f64.ln() * 100.0 / 20.0).abs() < 0.01);
    }

    #[test]
    fn a_poisson_tail_is_bounded_from_above() {
        // Exact: P(N ≥ 21) = 0.0016 and P(N ≥ 23) = 0.0003 for a mean of 10.
        let most = poisson_highest(10.0, 0.001);
        assert!((22.0..=26.0).contains(&most), "{most}");
        assert_eq!(poisson_highest(0.0, 0.001), 0.0);
        let many = poisson_highest(10_000.0, 0.001);
        assert!((10_300.0..10_400.0).contains(&many), "{many}");
    }
}
