// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Chance for the tests, the same in each run.

use std::f64::consts::LN_2;

/// xorshift64* (Vigna 2016). The seed is not 0.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Exponential, of mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -((self.next() >> 11) as f64 + 1.0).log2() * LN_2 + 53.0 * LN_2
    }
}
