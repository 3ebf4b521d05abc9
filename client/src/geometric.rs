// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many there are of what goes on each time by the same chance.

use rand_core::Rng;
use rand_distr::{Distribution, OpenClosed01};

/// How many requests a connection makes when they are `mean` on average: after each reply the
/// client goes on with the same chance (a geometric distribution from 1).
pub fn geometric(mean: f64, rng: &mut impl Rng) -> u16 {
    if mean <= 1.0 {
        return 1;
    }
    let share: f64 = OpenClosed01.sample(rng);
    let more = (share.ln() / (1.0 - 1.0 / mean).ln()).floor();
    (1.0 + more).min(f64::from(u16::MAX)) as u16
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    use super::*;

    const DRAWS: usize = 200_000;

    #[test]
    fn requests_have_their_mean() {
        let mut chance = ChaCha8Rng::seed_from_u64(1);
        let counts: Vec<f64> = (0..DRAWS).map(|_| f64::from(geometric(4.0, &mut chance))).collect();
        let mean = counts.iter().sum::<f64>() / DRAWS as f64;
        assert!((mean / 4.0 - 1.0).abs() < 0.02);
        let ones = counts.iter().filter(|count| **count == 1.0).count() as f64 / DRAWS as f64;
        assert!((ones - 0.25).abs() < 0.005, "one in four stops after the first");
        assert_eq!(geometric(1.0, &mut chance), 1);
    }
}
