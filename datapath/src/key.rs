// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random keys of the programs' hashes.

use tidegate_policy::raw::tg_key;

/// A fresh random key. Panics where the kernel has no randomness, which Linux always has.
#[must_use]
pub fn random() -> tg_key {
    let word = || getrandom::u64().expect("Linux has randomness");
    tg_key { k0: word(), k1: word() }
}
