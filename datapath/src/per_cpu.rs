// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Elements of arrays of which every processor has its own.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::{MapCore, MapFlags};
use libbpf_sys::bpf_map_batch_opts;

use crate::error::{Error, Result, map_error};
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
    change_share(first, add);
    update(programs, map, index, &shares)
}

/// Makes `to`'s element be `from`'s, on every processor.
pub(crate) fn copy(from: &Programs, to: &Programs, map: &str, index: u32) -> Result<()> {
    update(to, map, index, &look_up(from, map, index)?)
}

/// A batch operation of libbpf: what it says of a map's whole content.
fn batch(
    programs: &Programs,
    map: &str,
    values: &mut [u64],
    operate: impl FnOnce(i32, &mut [u32], &mut [u64], &mut u32, &bpf_map_batch_opts) -> i32,
) -> Result<()> {
    let of = programs.map(map);
    let mut count = of.max_entries();
    let mut keys: Vec<u32> = (0..count).collect();
    let options =
        bpf_map_batch_opts { sz: size_of::<bpf_map_batch_opts>() as _, ..Default::default() };
    let answer = operate(of.as_fd().as_raw_fd(), &mut keys, values, &mut count, &options);
    // Whatever was the last element was told of as well.
    if answer < 0 && answer != -libc::ENOENT {
        let source = io::Error::from_raw_os_error(-answer);
        return Err(Error::Read { what: format!("the BPF map {map}"), source });
    }
    Ok(())
}

/// Makes all of `to`'s elements be `from`'s, on every processor.
pub(crate) fn copy_all(from: &Programs, to: &Programs, map: &str) -> Result<()> {
    let of = from.map(map);
    assert_eq!(
        (of.max_entries(), of.value_size()),
        (to.map(map).max_entries(), to.map(map).value_size())
    );
    let processors = libbpf_rs::num_possible_cpus().map_err(map_error(map))?;
    let words = of.max_entries() as usize * processors * of.value_size().div_ceil(8) as usize;
    let mut values = vec![0; words];
    batch(from, map, &mut values, |fd, keys, values, count, options| {
        let mut next = 0u32;
        // SAFETY: room for a key and, on each processor, a value of every element.
        unsafe {
            libbpf_sys::bpf_map_lookup_batch(
                fd,
                std::ptr::null_mut(),
                (&raw mut next).cast(),
                keys.as_mut_ptr().cast(),
                values.as_mut_ptr().cast(),
                count,
                options,
            )
        }
    })?;
    batch(to, map, &mut values, |fd, keys, values, count, options| {
        // SAFETY: a key and, on each processor, a value of every element.
        unsafe {
            libbpf_sys::bpf_map_update_batch(
                fd,
                keys.as_ptr().cast(),
                values.as_ptr().cast(),
                count,
                options,
            )
        }
    })
}

/// Changes an element on every processor.
pub(crate) fn change<T: Plain>(
    programs: &Programs,
    map: &str,
    index: u32,
    change: impl Fn(&mut T),
) -> Result<()> {
    let mut shares = look_up(programs, map, index)?;
    for share in &mut shares {
        change_share(share, &change);
    }
    update(programs, map, index, &shares)
}

/// One processor's share, in as many bytes as the kernel rounds it up to.
fn change_share<T: Plain>(bytes: &mut [u8], change: impl FnOnce(&mut T)) {
    let mut share: T = from_bytes(bytes);
    change(&mut share);
    bytes[..size_of::<T>()].copy_from_slice(bytes_of(&share));
}

/// Sets an element to zero on every processor.
pub fn clear(programs: &Programs, map: &str, index: u32) -> Result<()> {
    let mut shares = look_up(programs, map, index)?;
    for bytes in &mut shares {
        bytes.fill(0);
    }
    update(programs, map, index, &shares)
}
