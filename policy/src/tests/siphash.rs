// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SipHash, as others have it.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::*;

/// The test vector of the SipHash paper's appendix: key 00..0f, message 00..0e.
#[test]
fn siphash_matches_the_papers_vector() {
    let key = tg_key { k0: 0x0706050403020100, k1: 0x0f0e0d0c0b0a0908 };
    // The paper's 15-byte message cannot be whole words; its 8-byte sibling from the
    // reference implementation's vectors can.
    let word = [0x0706050403020100u64];
    // SAFETY: one word stands behind the pointer, as announced.
    let hash = unsafe { tg_native_siphash(&key, word.as_ptr(), 1) };
    assert_eq!(hash.to_le_bytes(), [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]);
}

/// SipHash-1-3 has no vectors of its authors': it is held against another implementation.
#[test]
fn siphash_with_fewer_rounds_is_what_others_take_for_it() {
    let mut word = 0x0123_4567_89ab_cdefu64;
    let mut next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        word ^ word >> 29
    };
    for count in 0..1000 {
        let key = tg_key { k0: next(), k1: next() };
        let words: Vec<u64> = (0..count % 6).map(|_| next()).collect();
        let mut theirs = SipHasher13::new_with_keys(key.k0, key.k1);
        words.iter().for_each(|word| theirs.write(&word.to_le_bytes()));
        // SAFETY: as many words stand behind the pointer as announced.
        let ours = unsafe { tg_native_siphash13(&key, words.as_ptr(), words.len() as u32) };
        assert_eq!(ours, theirs.finish(), "{words:?}");
    }
}
