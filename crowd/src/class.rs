// SPDX-License-Identifier: Apache-2.0 OR MIT
//! People of one kind.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tidegate_client::{Close, Os};

use crate::error::CrowdError;
use crate::network::Network;
use crate::plan::Plan;

const TIMEOUT_MAX: Duration = Duration::from_secs(86_400);
const REQUESTS_MAX: f64 = 10_000.0;

/// People of one kind: their system, their patience, their manners, their network.
#[derive(Clone, Debug)]
pub struct Class {
    /// Their part of all attempts, in any unit: only the ratios of the classes' shares count.
    pub share: f64,
    /// Whose TCP they use. Kernel sockets can only be the kernel's own, [`Os::linux`].
    pub os: &'static Os,
    /// How long they wait for their whole reply, from the actual start.
    pub timeout: Duration,
    /// How they end their side of a connection.
    pub close: Close,
    /// Requests over one connection, on average. Numbers are drawn from a geometric distribution:
    /// after each reply the client goes on with the same chance. 1 is always exactly one.
    pub requests: f64,
    /// What is asked for, in turn.
    pub paths: Vec<String>,
    /// What the crowd does to their packets (raw packets only).
    pub network: Network,
}

impl Default for Class {
    fn default() -> Self {
        Self {
            share: 1.0,
            os: Os::linux(),
            timeout: Duration::from_secs(10),
            close: Close::Fin,
            requests: 1.0,
            paths: vec!["/".to_owned()],
            network: Network::default(),
        }
    }
}

impl Class {
    pub(crate) fn check(&self) -> Result<(), CrowdError> {
        if !(self.share > 0.0 && self.share.is_finite()) {
            return Err(CrowdError::Share { what: "a class", share: self.share });
        }
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            let given_s = self.timeout.as_secs_f64();
            return Err(CrowdError::Duration { what: "a timeout", given_s });
        }
        if !(1.0..=REQUESTS_MAX).contains(&self.requests) {
            return Err(CrowdError::Requests { given: self.requests });
        }
        if self.paths.is_empty() {
            return Err(CrowdError::Path { path: String::new() });
        }
        for path in &self.paths {
            let fits_a_line = path.bytes().all(|byte| byte.is_ascii_graphic());
            if !path.starts_with('/') || !fits_a_line {
                return Err(CrowdError::Path { path: path.clone() });
            }
        }
        self.network.check()
    }
}

/// Draws a class for each attempt, by their shares.
#[derive(Debug)]
pub(crate) struct Classes {
    /// Up to which number each class reaches, of 2^32.
    upper: Vec<u64>,
}

impl Classes {
    pub(crate) fn of(plan: &Plan) -> Self {
        let whole: f64 = plan.classes.iter().map(|class| class.share).sum();
        let mut reached = 0.0;
        let upper = plan.classes.iter().map(|class| {
            reached += class.share;
            (reached / whole * 4_294_967_296.0).round() as u64
        });
        Self { upper: upper.collect() }
    }

    /// The place of the class in the plan.
    #[inline]
    pub(crate) fn draw(&self, chance: &mut ChaCha8Rng) -> usize {
        if self.upper.len() == 1 {
            return 0;
        }
        let number = u64::from(chance.next_u32());
        self.upper.partition_point(|upper| *upper <= number).min(self.upper.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::rand_core::SeedableRng;

    #[test]
    fn classes_come_by_their_shares() {
        let class = |share| Class { share, ..Class::default() };
        let plan = Plan { classes: vec![class(1.0), class(5.0), class(2.0)], ..Plan::default() };
        let classes = Classes::of(&plan);
        let mut chance = ChaCha8Rng::seed_from_u64(1);
        let mut counts = [0.0; 3];
        for _ in 0..80_000 {
            counts[classes.draw(&mut chance)] += 1.0;
        }
        for (count, expected) in counts.into_iter().zip([10_000.0, 50_000.0, 20_000.0]) {
            assert!((count / expected - 1.0_f64).abs() < 0.03, "{counts:?}");
        }
    }
}
