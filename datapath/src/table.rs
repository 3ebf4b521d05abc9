// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that userspace counts in: arrays, as the kernel itself has them.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use libbpf_rs::MapCore;

use crate::error::{Error, Result};
use crate::plain::Plain;
use crate::programs::Programs;

/// An array map of blocks, mapped.
pub(crate) struct Table<T> {
    blocks: NonNull<T>,
    count: usize,
}

impl<T: Plain> Table<T> {
    /// Maps the array of this name, which must be declared with BPF_F_MMAPABLE and blocks whose
    /// size is a multiple of eight; `what` is for what is told of it.
    pub(crate) fn map(programs: &Programs, name: &str, what: &str) -> Result<Self> {
        let map = programs.map(name);
        assert_eq!(map.value_size() as usize, size_of::<T>(), "{name} has these blocks");
        let count = map.max_entries() as usize;
        // SAFETY: a BPF_F_MMAPABLE array of as many elements, mapped at an address of the
        // kernel's choosing.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * size_of::<T>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            let source = io::Error::last_os_error();
            return Err(Error::Read { what: what.to_owned(), source });
        }
        let blocks = NonNull::new(address.cast()).expect("a mapping is not at address 0");
        Ok(Table { blocks, count })
    }

    /// Copies of some blocks, one at a time; those behind the end are left out.
    pub(crate) fn copies(&self, first: u32, count: u32) -> impl Iterator<Item = T> {
        let end = self.count.min(first as usize + count as usize);
        (first as usize..end)
            // SAFETY: inside of the mapping; the programs may write meanwhile, and every
            // bit pattern is a value.
            .map(|at| unsafe { self.blocks.add(at).as_ptr().read_volatile() })
    }

    /// Copies of all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = T> {
        self.copies(0, u32::MAX)
    }
}

impl<T: Plain> Table<T> {
    /// Makes the first blocks be these; those beyond the end are left out.
    pub(crate) fn fill(&self, blocks: impl Iterator<Item = T>) {
        for (at, block) in (0..self.count).zip(blocks) {
            // SAFETY: as above.
            unsafe { self.blocks.add(at).as_ptr().write_volatile(block) }
        }
    }
}

impl<T: Plain + Default> Table<T> {
    /// Makes some blocks empty; those behind the end are left out.
    pub(crate) fn clear(&self, first: u32, count: u32) {
        let end = self.count.min(first as usize + count as usize);
        for at in first as usize..end {
            // SAFETY: as above.
            unsafe { self.blocks.add(at).as_ptr().write_volatile(T::default()) }
        }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made with this length, and nothing refers to it.
        unsafe { libc::munmap(self.blocks.as_ptr().cast(), self.count * size_of::<T>()) };
    }
}
