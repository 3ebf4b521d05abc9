// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who speaks first behind a guard's handshakes, as its connections have shown `auto`
//! (policy/include/speaks.h).

use tidegate_policy::raw::tg_speaks;

use crate::array::{copy as copy_one, read_one, write_one};
use crate::error::Result;
use crate::programs::Programs;

const MAP: &str = "speaks";

/// What a guard's connections have shown.
pub fn read(programs: &Programs, guard: u32) -> Result<tg_speaks> {
    read_one(programs, MAP, guard)
}

/// Nothing yet.
pub(crate) fn clear(programs: &Programs, guard: u32) -> Result<()> {
    write_one(programs, MAP, guard, &tg_speaks::default())
}

/// Makes it be the same in `to`.
pub(crate) fn copy(from: &Programs, to: &Programs, guard: u32) -> Result<()> {
    copy_one(from, to, MAP, (guard, guard))
}
