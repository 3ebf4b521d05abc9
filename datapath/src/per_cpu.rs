// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Elements of arrays of which every processor has its own.

use libbpf_rs::{MapCore, MapFlags};

use crate::error::{Result, map_error};
use crate::plain::{Plain, bytes_of, from_bytes};
use crate::programs::Programs;

/// The bytes of an element, a processor after the other; each has room up to the next multiple of
/// eight.
fn look_up(programs: &Programs, map: &str, index: u32) -> Result<Vec<Vec<u8>>> {
    let value = programs
        .map(map)
        .lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY)
        .map_err(map_error(map))?;
    Ok(value.unwrap_or_default())
}

fn update(programs: &Programs, map: &str, index: u32, shares: &[Vec<u8>]) -> Result<()> {
    programs
        .map(map)
        .update_percpu(&index.to_ne_bytes(), shares, MapFlags::ANY)
        .map_err(map_error(map))
}

/// Reads an element: every processor's share, to be added up.
pub fn read<T: Plain>(programs: &Programs, map: &str, index: u32) -> Result<Vec<T>> {
    Ok(look_up(programs, map, index)?.iter().map(|bytes| from_bytes(bytes)).collect())
}

/// Adds to an element, on one processor's share.
pub fn add<T: Plain>(
    programs: &Programs,
    map: &str,
    index: u32,
    add: impl FnOnce(&mut T),
) -> Result<()> {
    let mut shares = look_up(programs, map, index)?;
    let Some(first) = shares.first_mut() else {
        return Ok(());
    };
    let mut share: T = from_bytes(first);
    add(&mut share);
    first[..size_of::<T>()].copy_from_slice(bytes_of(&share));
    update(programs, map, index, &shares)
}

/// Sets an element to zero on every processor.
pub fn clear(programs: &Programs, map: &str, index: u32) -> Result<()> {
    let mut shares = look_up(programs, map, index)?;
    for bytes in &mut shares {
        bytes.fill(0);
    }
    update(programs, map, index, &shares)
}
