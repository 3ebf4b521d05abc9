// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who the clients are: people with one operating system, or with several.

use tidegate_client::Person;

use crate::chance::Entity;
use crate::lot::Lot;
use crate::setup::Crowd;

/// People of each system, by how often they come.
#[derive(Debug)]
pub(crate) struct People {
    kinds: Vec<Person>,
    lot: Lot,
}

impl People {
    pub(crate) fn of(crowd: &Crowd, seed: u64) -> Self {
        let systems = &crowd.systems;
        let kinds = systems.iter().map(|(os, _)| Person { os, ..crowd.person.clone() });
        let mut kinds: Vec<_> = kinds.collect();
        if kinds.is_empty() {
            kinds.push(crowd.person.clone());
        }
        // Nothing is drawn where there is nothing to choose.
        let weights = systems.iter().map(|(_, weight)| *weight).filter(|_| systems.len() > 1);
        Self { kinds, lot: Lot::new(weights, seed, Entity::People) }
    }

    /// Of which kind the next is.
    pub(crate) fn draw(&mut self) -> u8 {
        self.lot.draw().map_or(0, |kind| kind as u8)
    }

    #[inline]
    pub(crate) fn get(&self, kind: u8) -> &Person {
        &self.kinds[usize::from(kind)]
    }
}
