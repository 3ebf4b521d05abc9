// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks on the places of a ring, and the next place without one.

const BITS: usize = u64::BITS as usize;

/// A bit for each place, above it one for each word that is full, and so on up to one word: however
/// many are marked, the next that is not is found in a few steps.
#[derive(Debug)]
pub(crate) struct Marks {
    levels: Vec<Vec<u64>>,
    marked: usize,
}

impl Marks {
    /// None yet, on so many places, at least one.
    pub(crate) fn new(places: usize) -> Self {
        let (mut levels, mut bits) = (Vec::new(), places);
        loop {
            let mut level = vec![0; bits.div_ceil(BITS)];
            // Behind the last place there is none.
            if let (Some(last), used @ 1..) = (level.last_mut(), bits % BITS) {
                *last = !0 << used;
            }
            bits = level.len();
            levels.push(level);
            if bits <= 1 {
                return Self { levels, marked: 0 };
            }
        }
    }

    /// Marks a place.
    pub(crate) fn set(&mut self, place: usize) {
        if self.has(place) {
            return;
        }
        self.marked += 1;
        let mut bit = place;
        for level in &mut self.levels {
            let word = &mut level[bit / BITS];
            *word |= 1 << (bit % BITS);
            if *word != !0 {
                return;
            }
            bit /= BITS;
        }
    }

    /// Takes a place's mark away, if it has one.
    pub(crate) fn clear(&mut self, place: usize) {
        if !self.has(place) {
            return;
        }
        self.marked -= 1;
        let mut bit = place;
        for level in &mut self.levels {
            let word = &mut level[bit / BITS];
            let was_full = *word == !0;
            *word &= !(1 << (bit % BITS));
            if !was_full {
                return;
            }
            bit /= BITS;
        }
    }

    /// The first place without a mark from this one on.
    pub(crate) fn next_free(&self, from: usize) -> Option<usize> {
        let mut bit = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(bit / BITS)?;
            let free = !word & (!0 << (bit % BITS));
            if free != 0 {
                let mut found = bit / BITS * BITS + free.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * BITS + below[found].trailing_ones() as usize;
                }
                return Some(found);
            }
            // Behind this word.
            bit = bit / BITS + 1;
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.marked == 0
    }

    fn has(&self, place: usize) -> bool {
        self.levels[0][place / BITS] >> (place % BITS) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    /// Against a list, on rings of one word, of words that are full, and of three levels.
    #[test]
    fn the_next_free_place_is_that_of_a_list() {
        let mut chance = ChaCha8Rng::seed_from_u64(5);
        for places in [1, 2, 63, 64, 65, 128, 4095, 4096, 4097, 10_000] {
            // Full at first, so that free ones are far apart.
            let (mut marks, mut list) = (Marks::new(places), vec![true; places]);
            for place in 0..places {
                assert_eq!(marks.next_free(0), Some(place), "of {places}");
                marks.set(place);
            }
            assert_eq!(marks.next_free(0), None, "of {places}");
            for _ in 0..2000 {
                let place = chance.next_u32() as usize % places;
                list[place] = chance.next_u32().is_multiple_of(3);
                if list[place] {
                    marks.set(place)
                } else {
                    marks.clear(place)
                }
                let from = chance.next_u32() as usize % places;
                let expected = (from..places).find(|place| !list[*place]);
                assert_eq!(marks.next_free(from), expected, "of {places} from {from}");
                assert_eq!(marks.is_empty(), list.iter().all(|is_marked| !is_marked));
            }
        }
    }
}
