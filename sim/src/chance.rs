// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Streams of chance, one for each entity, so that what one draws changes nothing for another.

use std::convert::Infallible;

use rand_core::TryRng;

/// Whose stream it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entity {
    /// An attempt, by its number.
    Attempt(u64),
    /// What happens to packets on their way to the server.
    WayIn,
    /// What happens to packets on their way to clients.
    WayOut,
    /// The server's TCP.
    Stack,
    /// Which pages are asked for.
    Pages,
    /// Whom persistent dropping chooses.
    Shed,
    /// The keys of the guard.
    Guard,
    /// Which networks clients come from.
    Sources,
    /// Which systems they have.
    People,
    /// How fast the program is.
    Pace,
}

/// SplitMix64 (Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA
/// 2014): a stream begins at the cost of two multiplications, and there is one for every attempt.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Chance {
    pub(crate) fn of(seed: u64, entity: Entity) -> Self {
        let (kind, number): (u64, u64) = match entity {
            Entity::Attempt(number) => (1, number),
            Entity::WayIn => (2, 0),
            Entity::WayOut => (3, 0),
            Entity::Stack => (4, 0),
            Entity::Pages => (5, 0),
            Entity::Shed => (6, 0),
            Entity::Guard => (7, 0),
            Entity::Sources => (8, 0),
            Entity::People => (9, 0),
            Entity::Pace => (10, 0),
        };
        // Beginnings are hashes, so that streams do not overlap as neighbouring counters would.
        Self(mix(mix(seed.wrapping_add(kind.wrapping_mul(GOLDEN))) ^ number.wrapping_mul(GOLDEN)))
    }

    #[inline]
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Whether something of this share, from 0 to 1, happens. Nothing is drawn where there is
    /// nothing to decide.
    #[inline]
    pub(crate) fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && ((self.draw() >> 11) as f64) < share * 9_007_199_254_740_992.0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.draw() >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.draw())
    }

    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        for piece in into.chunks_mut(8) {
            let bytes = self.draw().to_le_bytes();
            piece.copy_from_slice(&bytes[..piece.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation from state 1234567.
    #[test]
    fn it_is_splitmix64() {
        let mut chance = Chance(1_234_567);
        let drawn: Vec<u64> = (0..3).map(|_| chance.draw()).collect();
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shares_come_out_and_streams_differ() {
        let mut chance = Chance::of(1, Entity::WayIn);
        let happened = (0..100_000).filter(|_| chance.happens(0.3)).count();
        assert!((29_000..31_000).contains(&happened), "{happened}");
        assert!(!(0..1000).any(|_| chance.happens(0.0)));
        assert!((0..1000).all(|_| chance.happens(1.0)));
        let first = |entity| Chance::of(1, entity).draw();
        assert_ne!(first(Entity::Attempt(0)), first(Entity::Attempt(1)));
        assert_ne!(first(Entity::WayIn), first(Entity::WayOut));
    }
}
