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

/// Writes an array map's element.
pub fn write_one<T: Plain>(programs: &Programs, map: &str, index: u32, value: &T) -> Result<()> {
    programs
        .map(map)
        .update(&index.to_ne_bytes(), bytes_of(value), MapFlags::ANY)
        .map_err(map_error(map))
}
