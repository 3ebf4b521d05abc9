// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attempts under way, found by token.

use crate::attempt::Attempt;

/// Attempts by token. A token is never used twice, so a late event finds nobody.
#[derive(Default)]
pub(super) struct Attempts {
    places: Vec<(u32, Option<Attempt>)>,
    free: Vec<u32>,
    pub(super) under_way: usize,
    /// Those under way that count.
    pub(super) counting: usize,
}

impl Attempts {
    pub(super) fn insert(&mut self, attempt: Attempt) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            u32::try_from(self.places.len() - 1).expect("fewer descriptors than 2^32")
        });
        self.under_way += 1;
        self.counting += usize::from(attempt.new.counts);
        let place = &mut self.places[index as usize];
        place.0 = place.0.wrapping_add(1);
        place.1 = Some(attempt);
        u64::from(place.0) << 32 | u64::from(index)
    }

    pub(super) fn get(&mut self, token: u64) -> Option<&mut Attempt> {
        let (generation, index) = ((token >> 32) as u32, token as u32 as usize);
        match self.places.get_mut(index) {
            Some((current, attempt)) if *current == generation => attempt.as_mut(),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, token: u64) -> Option<Attempt> {
        let counts = self.get(token)?.new.counts;
        let index = token as u32;
        self.free.push(index);
        self.under_way -= 1;
        self.counting -= usize::from(counts);
        self.places[index as usize].1.take()
    }
}
