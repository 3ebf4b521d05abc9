// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When attempts start, decided before the first one does.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Exp1};

/// An endless schedule of starts, in ns since the beginning, never falling.
///
/// The same seed gives the same schedule on every machine.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gap_ns: f64,
    /// Fractions of a nanosecond are kept, so that a rate holds over days.
    now_ns: f64,
    chance: Option<ChaCha8Rng>,
}

impl Arrivals {
    /// One start every `1 / per_s` seconds, the first at once.
    #[must_use]
    pub fn constant(per_s: f64) -> Self {
        Self { gap_ns: 1e9 / per_s, now_ns: 0.0, chance: None }
    }

    /// Starts that know nothing of each other: gaps are exponential with a mean of `1 / per_s`.
    #[must_use]
    pub fn poisson(per_s: f64, seed: u64) -> Self {
        Self { chance: Some(ChaCha8Rng::seed_from_u64(seed)), ..Self::constant(per_s) }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let gap_ns = match &mut self.chance {
            None => self.gap_ns,
            Some(chance) => {
                let share: f64 = Exp1.sample(chance);
                share * self.gap_ns
            }
        };
        // A Poisson process has its first event after a gap, a metronome its first beat at once.
        let start_ns = if self.chance.is_some() { self.now_ns + gap_ns } else { self.now_ns };
        self.now_ns += gap_ns;
        Some(start_ns.round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::Arrivals;

    #[test]
    fn a_metronome_keeps_its_rate() {
        let starts: Vec<u64> = Arrivals::constant(3.0).take(7).collect();
        assert_eq!(starts[0], 0);
        assert_eq!(starts[3], 1_000_000_000);
        assert_eq!(starts[6], 2_000_000_000);
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let count = 200_000;
        let starts: Vec<u64> = Arrivals::poisson(1000.0, 1).take(count).collect();
        let gaps: Vec<f64> = starts.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02, "variance {variance}");
    }

    #[test]
    fn a_seed_is_a_schedule() {
        let of = |seed| Arrivals::poisson(5.0, seed).take(100).collect::<Vec<_>>();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
    }
}
