// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network between a client and the server, as far as the crowd itself makes it.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use rand_distr::{Distribution, Exp1, Pareto, StandardNormal, StandardUniform};
use tidegate_client::way::{DELAY_MAX_MS, REORDERED_LATER_NS};

use crate::error::CrowdError;

/// How long a packet takes, one way, in ms. It is drawn once for each connection and is the same
/// both ways, so that the round trip takes twice as long and packets keep their order.
///
/// A draw below 0 is 0, one above 60 s is 60 s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delay {
    /// As long as the real network takes, and no longer.
    #[default]
    None,
    /// The same for all.
    Constant {
        /// One way, in ms.
        ms: f64,
    },
    /// All between two limits alike.
    Uniform {
        /// The least, in ms.
        least_ms: f64,
        /// The most, in ms.
        most_ms: f64,
    },
    /// Around a mean.
    Normal {
        /// In ms.
        mean_ms: f64,
        /// The standard deviation, in ms.
        deviation_ms: f64,
    },
    /// Mostly short.
    Exponential {
        /// In ms.
        mean_ms: f64,
    },
    /// Mostly short, with a heavy tail.
    Pareto {
        /// The least, in ms.
        least_ms: f64,
        /// The tail's exponent: 1.2 has a very heavy one, 3 a light one.
        shape: f64,
    },
}

impl Delay {
    /// Whether it says something that can be drawn.
    pub(crate) fn check(self) -> Result<(), CrowdError> {
        let within = |ms: f64| (0.0..=DELAY_MAX_MS).contains(&ms);
        let sound = match self {
            Self::None => true,
            Self::Constant { ms } => within(ms),
            Self::Uniform { least_ms, most_ms } => {
                within(least_ms) && within(most_ms) && least_ms <= most_ms
            }
            Self::Normal { mean_ms, deviation_ms } => within(mean_ms) && within(deviation_ms),
            Self::Exponential { mean_ms } => within(mean_ms),
            Self::Pareto { least_ms, shape } => {
                within(least_ms) && least_ms > 0.0 && shape > 0.0 && shape.is_finite()
            }
        };
        if sound { Ok(()) } else { Err(CrowdError::Delay { given: format!("{self:?}") }) }
    }

    /// One connection's way.
    pub(crate) fn draw(self, chance: &mut ChaCha8Rng) -> Duration {
        let ms = match self {
            Self::None => return Duration::ZERO,
            Self::Constant { ms } => ms,
            Self::Uniform { least_ms, most_ms } => {
                let share: f64 = StandardUniform.sample(chance);
                least_ms + share * (most_ms - least_ms)
            }
            Self::Normal { mean_ms, deviation_ms } => {
                let deviations: f64 = StandardNormal.sample(chance);
                mean_ms + deviations * deviation_ms
            }
            Self::Exponential { mean_ms } => {
                let share: f64 = Exp1.sample(chance);
                mean_ms * share
            }
            Self::Pareto { least_ms, shape } => {
                Pareto::new(least_ms, shape).map_or(least_ms, |pareto| pareto.sample(chance))
            }
        };
        Duration::from_nanos((ms.clamp(0.0, DELAY_MAX_MS) * 1e6) as u64)
    }
}

/// What happens to packets between a client and the server, either way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Network {
    /// How long they take.
    pub delay: Delay,
    /// The share of packets that never arrive, from 0 to 1, each on its own.
    pub loss: f64,
    /// The share of packets that come late, from 0 to 1: after twice the delay, and at least 1 ms
    /// late, so that those behind them overtake.
    pub reorder: f64,
}

impl Network {
    pub(crate) fn check(self) -> Result<(), CrowdError> {
        for (what, share) in [("loss", self.loss), ("reorder", self.reorder)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(CrowdError::Share { what, share });
            }
        }
        self.delay.check()
    }

    /// Whether packets need not be held back or dropped at all.
    pub(crate) fn is_plain(self) -> bool {
        self == Self::default()
    }

    /// How long a packet is held back, in ns, on a way of this length; `None` when it is lost.
    #[inline]
    pub(crate) fn holds_ns(self, delay_ns: u64, chance: &mut ChaCha8Rng) -> Option<u64> {
        if happens(self.loss, chance) {
            return None;
        }
        if happens(self.reorder, chance) {
            return Some(delay_ns + delay_ns.max(REORDERED_LATER_NS));
        }
        Some(delay_ns)
    }
}

/// Nothing is drawn where there is nothing to decide.
fn happens(share: f64, chance: &mut ChaCha8Rng) -> bool {
    share > 0.0 && f64::from(chance.next_u32()) < share * 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    const DRAWS: usize = 200_000;

    fn drawn_ms(delay: Delay) -> Vec<f64> {
        let mut chance = ChaCha8Rng::seed_from_u64(5);
        let mut ms: Vec<f64> =
            (0..DRAWS).map(|_| delay.draw(&mut chance).as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        ms
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn delays_have_their_distributions() {
        let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.02;
        assert_eq!(drawn_ms(Delay::None)[DRAWS - 1], 0.0);
        assert_eq!(mean(&drawn_ms(Delay::Constant { ms: 25.0 })), 25.0);
        let uniform = drawn_ms(Delay::Uniform { least_ms: 10.0, most_ms: 30.0 });
        assert!(uniform[0] >= 10.0 && uniform[DRAWS - 1] <= 30.0 && near(mean(&uniform), 20.0));
        let normal = drawn_ms(Delay::Normal { mean_ms: 50.0, deviation_ms: 5.0 });
        assert!(near(mean(&normal), 50.0));
        // 84.13 % are below one deviation above the mean.
        assert!(near(normal[DRAWS * 8413 / 10000], 55.0));
        let exponential = drawn_ms(Delay::Exponential { mean_ms: 20.0 });
        assert!(near(mean(&exponential), 20.0));
        assert!(near(exponential[DRAWS / 2], 20.0 * std::f64::consts::LN_2));
        let pareto = drawn_ms(Delay::Pareto { least_ms: 4.0, shape: 2.0 });
        // The median is least * 2^(1/shape), the 99th percentile least * 100^(1/shape).
        assert!(pareto[0] >= 4.0 && near(pareto[DRAWS / 2], 4.0 * 2_f64.sqrt()));
        assert!((pareto[DRAWS * 99 / 100] / 40.0 - 1.0).abs() < 0.05);
    }

    #[test]
    fn shares_are_shares() {
        let mut chance = ChaCha8Rng::seed_from_u64(1);
        let network = Network { loss: 0.1, reorder: 0.2, ..Network::default() };
        let held: Vec<Option<u64>> =
            (0..DRAWS).map(|_| network.holds_ns(5_000_000, &mut chance)).collect();
        let share =
            |wanted| held.iter().filter(|held| **held == wanted).count() as f64 / DRAWS as f64;
        assert!((share(None) - 0.1).abs() < 0.005);
        assert!((share(Some(10_000_000)) - 0.18).abs() < 0.005);
        assert!((share(Some(5_000_000)) - 0.72).abs() < 0.005);
    }

    #[test]
    fn impossible_networks_are_refused() {
        let refused = |network: Network| network.check().unwrap_err().to_string();
        assert!(Network::default().check().is_ok());
        assert!(refused(Network { loss: 1.5, ..Network::default() }).contains("1.5"));
        assert!(refused(Network { reorder: f64::NAN, ..Network::default() }).contains("NaN"));
        let delay = Delay::Uniform { least_ms: 9.0, most_ms: 1.0 };
        assert!(refused(Network { delay, ..Network::default() }).contains("least_ms: 9"));
    }
}
