// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which name was meant by one that is none.

/// The name that was meant: the nearest, where it has half of the word's letters. Names are in lower
/// case.
pub fn nearest<N: AsRef<str>>(word: &str, names: impl IntoIterator<Item = N>) -> Option<N> {
    let word = word.to_lowercase();
    let far = |known: &N| strsim::damerau_levenshtein(known.as_ref(), &word);
    names.into_iter().min_by_key(far).filter(|known| 2 * far(known) <= word.len())
}
