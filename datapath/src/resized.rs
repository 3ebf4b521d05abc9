// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listening sockets whose backlog we changed, and what it was before: pinned, so that it
//! outlives whoever changed it.

use std::collections::BTreeMap;

use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::error::{Result, map_error};
use crate::plain::{bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::tg_resized;

pub(crate) const MAP: &str = "resized";

/// Whether a map of that name, of whichever version, has the types of this one.
pub(crate) fn is_ours(map: &MapHandle) -> bool {
    let sizes = [map.key_size(), map.value_size()];
    map.map_type() == MapType::Hash
        && sizes.map(|bytes| bytes as usize) == [size_of::<u64>(), size_of::<tg_resized>()]
}

/// All of them, by socket cookie.
pub fn all(programs: &Programs) -> BTreeMap<u64, tg_resized> {
    let map = programs.map(MAP);
    map.keys()
        .filter_map(|cookie| {
            let value = map.lookup(&cookie, MapFlags::ANY).ok()??;
            Some((from_bytes(&cookie), from_bytes(&value)))
        })
        .collect()
}

/// Remembers one.
pub fn keep(programs: &Programs, socket_cookie: u64, resized: &tg_resized) -> Result<()> {
    programs
        .map(MAP)
        .update(bytes_of(&socket_cookie), bytes_of(resized), MapFlags::ANY)
        .map_err(map_error(MAP))
}

/// Forgets one.
pub fn forget(programs: &Programs, socket_cookie: u64) -> Result<()> {
    programs.map(MAP).delete(bytes_of(&socket_cookie)).map_err(map_error(MAP))
}
