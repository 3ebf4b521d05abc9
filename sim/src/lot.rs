// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which of several, by how often each comes.

use crate::chance::{Chance, Entity};

/// A stream of choices.
#[derive(Debug)]
pub(crate) struct Lot {
    /// Where each one's part of all ends.
    ends: Vec<f64>,
    chance: Chance,
}

impl Lot {
    /// Of so many, with these weights.
    pub(crate) fn new(weights: impl Iterator<Item = f64>, seed: u64, entity: Entity) -> Self {
        let mut sum = 0.0;
        let ends = weights.map(|weight| {
            sum += weight;
            sum
        });
        Self { ends: ends.collect(), chance: Chance::of(seed, entity) }
    }

    /// The number of the next; `None` where there is none to choose from.
    #[inline]
    pub(crate) fn draw(&mut self) -> Option<usize> {
        let whole = *self.ends.last()?;
        let share = (self.chance.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let at = self.ends.partition_point(|end| *end <= share * whole);
        Some(at.min(self.ends.len() - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_drawn_by_its_weight() {
        let weights = [50.0, 1.0, 0.0, 1.0].into_iter();
        let mut lot = Lot::new(weights, 7, Entity::Sources);
        let mut drawn = [0; 4];
        for _ in 0..52_000 {
            drawn[lot.draw().unwrap()] += 1;
        }
        assert_eq!(drawn[2], 0);
        assert!(
            (49_700..50_300).contains(&drawn[0]) && (850..1150).contains(&drawn[1]),
            "{drawn:?}"
        );
        assert_eq!(Lot::new([].into_iter(), 7, Entity::Sources).draw(), None);
    }
}
