// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a number may be, and what is said of one that is something else.

use std::fmt::Display;
use std::ops::RangeInclusive;

/// A number that is within its range.
///
/// # Errors
/// What is wrong with one that is not, and the fix, each a part of a sentence.
pub fn within<T: PartialOrd + Display>(
    name: &str,
    number: T,
    range: RangeInclusive<T>,
) -> Result<T, (String, String)> {
    if range.contains(&number) {
        return Ok(number);
    }
    let (from, to) = range.into_inner();
    Err((
        format!("{name} = {number} is out of range"),
        format!("give a number from {from} to {to}"),
    ))
}
