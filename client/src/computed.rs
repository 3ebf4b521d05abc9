// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that a server computes for each request: how one is asked for, and how often among others.

use crate::specweb99::shuffle;

/// What our servers answer with: 16 digits of what the work came to, and the end of the line.
pub const BODY_BYTES: usize = 17;
/// Beside about so many requests for others a share comes out within a ten-thousandth.
const OTHERS: usize = 10_000;

/// What one of our servers is asked for to compute for so many µs.
#[must_use]
pub fn path(cost_us: u64) -> String {
    format!("/work/{cost_us}")
}

/// What requests ask for in turn, by place, where of all of them this share asks for this page, and
/// the rest for these others, as often as before, in an order that `chance` chooses, called for uniform
/// 64-bit numbers.
///
/// All the others are in it, whatever the share, which is below 1: the nearer to that, the longer the order.
#[must_use]
pub fn among(others: &[u16], page: u16, share: f64, mut chance: impl FnMut() -> u64) -> Vec<u16> {
    let times = (OTHERS / others.len().max(1)).max(1);
    let mut order = others.repeat(times);
    let computed = (order.len() as f64 * share / (1.0 - share)).round() as usize;
    order.extend(std::iter::repeat_n(page, computed));
    shuffle(&mut order, &mut chance);
    order
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::specweb99;

    const PAGE: u16 = 36;

    fn chance(seed: u64) -> impl FnMut() -> u64 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        move || rng.next_u64()
    }

    /// Of one other page as of many.
    #[test]
    fn a_computed_page_has_its_share_and_the_others_keep_theirs() {
        for others in [vec![0], specweb99::order(chance(1))] {
            for share in [0.001, 0.3, 0.9] {
                let order = among(&others, PAGE, share, chance(2));
                let of = |order: &[u16], page| {
                    order.iter().filter(|place| **place == page).count() as f64 / order.len() as f64
                };
                let found = of(&order, PAGE);
                assert!((found - share).abs() < 0.0001, "{found}, not {share}");
                for page in 0..PAGE {
                    let (left, before) = (of(&order, page) / (1.0 - found), of(&others, page));
                    assert!((left - before).abs() < 1e-9, "{page}: {left}, not {before}");
                }
            }
        }
    }

    /// Nor are all that are computed asked for at once.
    #[test]
    fn a_seed_is_an_order() {
        let of = |seed| among(&[0], 1, 0.3, chance(seed));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        for piece in of(1).chunks_exact(1000) {
            let computed: u16 = piece.iter().sum();
            assert!((230..370).contains(&computed), "{computed} of 1000");
        }
    }
}
