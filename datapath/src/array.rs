// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Elements of array maps.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::{Result, map_error};
use crate::plain::{Plain, bytes_of, from_bytes};
use crate::programs::Programs;

/// Reads an array map's element.
pub fn read_one<T: Plain>(programs: &Programs, map: &str, index: u32) -> Result<T> {
    let value = programs
        .map(map)
        .lookup(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(map_error(map))?
        .expect("every index below max_entries of an array has a value");
    Ok(from_bytes(&value))
}

/// Makes an element of `to`'s map be one of `from`'s: `at` are the places there and here.
pub(crate) fn copy(from: &Programs, to: &Programs, map: &str, at: (u32, u32)) -> Result<()> {
    let fail = || map_error(map);
    let value = from.map(map).lookup(&at.0.to_ne_bytes(), MapFlags::ANY).map_err(fail())?;
    let value = value.expect("every index below max_entries of an array has a value");
    to.map(map).update(&at.1.to_ne_bytes(), &value, MapFlags::ANY).map_err(fail())
}

/// Writes an array map's element.
pub fn write_one<T: Plain>(programs: &Programs, map: &str, index: u32, value: &T) -> Result<()> {
    programs
        .map(map)
        .update(&index.to_ne_bytes(), bytes_of(value), MapFlags::ANY)
        .map_err(map_error(map))
}
