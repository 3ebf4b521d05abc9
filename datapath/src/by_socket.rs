// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What packets have left behind of a listening socket, by its counter slot.

use tidegate_policy::raw::{tg_accepts, tg_inside, tg_overload, tg_share};

use crate::array::{copy as copy_one, read_one, write_one};
use crate::error::Result;
use crate::plain::Plain;
use crate::programs::Programs;

/// One thing of it, in an array of its own.
pub trait BySocket: Plain + Default {
    /// The array.
    const MAP: &'static str;
}

/// How its application accepts.
impl BySocket for tg_accepts {
    const MAP: &'static str = "accepts";
}

/// What `auto` has seen of it.
impl BySocket for tg_overload {
    const MAP: &'static str = "overload";
}

/// Who waits inside its application, as the daemon has counted them.
impl BySocket for tg_inside {
    const MAP: &'static str = "inside";
}

/// The shares of networks of clients in the room before it.
impl BySocket for tg_share {
    const MAP: &'static str = "share";
}

/// What there is at a slot.
pub fn read<T: BySocket>(programs: &Programs, slot: u32) -> Result<T> {
    read_one(programs, T::MAP, slot)
}

/// What there is at a slot is this from now on.
pub fn write<T: BySocket>(programs: &Programs, slot: u32, value: &T) -> Result<()> {
    write_one(programs, T::MAP, slot, value)
}

/// Makes what there is at a slot be the same in `to`.
pub(crate) fn copy<T: BySocket>(from: &Programs, to: &Programs, slot: u32) -> Result<()> {
    copy_one(from, to, T::MAP, (slot, slot))
}

/// The slot is another socket's from now on.
pub(crate) fn clear(programs: &Programs, slot: u32) -> Result<()> {
    fn one<T: BySocket>(programs: &Programs, slot: u32) -> Result<()> {
        write(programs, slot, &T::default())
    }
    one::<tg_accepts>(programs, slot)?;
    one::<tg_inside>(programs, slot)?;
    one::<tg_overload>(programs, slot)?;
    one::<tg_share>(programs, slot)
}
