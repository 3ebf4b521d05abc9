// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The SPECweb99-like file set: 36 files in 4 classes, about 15 KB in the mean (Shukla, thesis,
//! 3.2.2; Pariag, thesis, 3.3.1).
//!
//! One directory of the benchmark: nine files a class, 0.1 to 0.9 KB, 1 to 9 KB, 10 to 90 KB,
//! 100 to 900 KB. A class is chosen by its share, a file of it by Zipf's law; the files in the
//! middle of a class are the popular ones.

/// Share of each class in all requests.
const CLASS_SHARES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
/// The smallest file of each class, in bytes; the others are multiples.
const CLASS_UNITS_BYTES: [f64; 4] = [102.4, 1024.0, 10_240.0, 102_400.0];
/// Rank in popularity of the nine files of a class, from the smallest to the largest.
const RANKS: [u32; 9] = [9, 6, 4, 2, 1, 3, 5, 7, 8];

/// A file of the set.
#[derive(Clone, Debug, PartialEq)]
pub struct File {
    /// What is asked for: `/class2_4`.
    pub path: String,
    /// Its length.
    pub bytes: usize,
    /// Its share in all requests; all shares sum to 1.
    pub share: f64,
}

/// All 36, class by class.
#[must_use]
pub fn files() -> Vec<File> {
    let harmonic: f64 = RANKS.iter().map(|rank| 1.0 / f64::from(*rank)).sum();
    let classes = CLASS_SHARES.into_iter().zip(CLASS_UNITS_BYTES).enumerate();
    classes
        .flat_map(|(class, (share, unit_bytes))| {
            RANKS.iter().enumerate().map(move |(index, rank)| File {
                path: format!("/class{class}_{index}"),
                bytes: (unit_bytes * (index + 1) as f64) as usize,
                share: share / f64::from(*rank) / harmonic,
            })
        })
        .collect()
}

/// So many draws of a file stand for its share within a per mille.
const DRAWS: usize = 10_000;

/// Which of [`files`] requests ask for, by place, in turn: each as often as its share has it, in an
/// order that `chance` chooses, called for uniform 64-bit numbers.
#[must_use]
pub fn order(mut chance: impl FnMut() -> u64) -> Vec<u16> {
    let mut order = Vec::with_capacity(DRAWS);
    for (place, file) in (0..).zip(files()) {
        let times = (file.share * DRAWS as f64).round() as usize;
        order.extend(std::iter::repeat_n(place, times.max(1)));
    }
    shuffle(&mut order, &mut chance);
    order
}

/// Fisher and Yates.
pub(crate) fn shuffle(order: &mut [u16], chance: &mut impl FnMut() -> u64) {
    for last in (1..order.len()).rev() {
        order.swap(last, (chance() % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn files_are_asked_for_by_their_shares() {
        let of = |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            order(move || rng.next_u64())
        };
        let files = files();
        let order = of(1);
        let bytes: usize = order.iter().map(|place| files[usize::from(*place)].bytes).sum();
        let mean = bytes as f64 / order.len() as f64;
        assert!((14_000.0..16_000.0).contains(&mean), "{mean} bytes");
        assert_eq!(order, of(1));
        assert_ne!(order, of(2));
    }

    /// The figures that both theses give.
    #[test]
    fn its_moments_are_those_of_the_theses() {
        let files = files();
        assert_eq!(files.len(), 36);
        let whole: usize = files.iter().map(|file| file.bytes).sum();
        assert!((4.8..5.2).contains(&(whole as f64 / 1_048_576.0)), "{whole} bytes");
        let mean: f64 = files.iter().map(|file| file.share * file.bytes as f64).sum();
        assert!((14_000.0..16_000.0).contains(&mean), "{mean} bytes");
        let shares: f64 = files.iter().map(|file| file.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
    }
}
