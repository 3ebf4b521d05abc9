// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `auto` has seen of a listening socket.

use crate::array::{read_one, write_one};
use crate::error::Result;
use crate::programs::Programs;
use tidegate_policy::raw::tg_overload;

const MAP: &str = "overload";

/// What the SYNs of a counter slot's socket have met.
pub fn read(programs: &Programs, slot: u32) -> Result<tg_overload> {
    read_one(programs, MAP, slot)
}

/// The slot is another socket's from now on.
pub(crate) fn clear(programs: &Programs, slot: u32) -> Result<()> {
    write_one(programs, MAP, slot, &tg_overload::default())
}
