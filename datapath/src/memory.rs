// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What maps take of the kernel's memory.

use std::fs;
use std::os::fd::{AsFd, AsRawFd};

use crate::error::{Error, Result};
use crate::programs::Programs;

/// The memory of a map, in bytes, as the kernel charges it (Linux 6.4: what it really takes).
pub fn map_bytes(programs: &Programs, name: &str) -> Result<u64> {
    let file = format!("/proc/self/fdinfo/{}", programs.map(name).as_fd().as_raw_fd());
    let read = |source| Error::Read { what: file.clone(), source };
    charged(&fs::read_to_string(&file).map_err(read)?)
        .ok_or_else(|| read(std::io::Error::other("it names no memory")))
}

/// The line `memlock:` of a map's entry in /proc.
fn charged(entry: &str) -> Option<u64> {
    entry.lines().find_map(|line| line.strip_prefix("memlock:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_charge_is_read_from_its_line() {
        let entry = "pos:\t0\nmap_type:\t2\nmax_entries:\t8\nmemlock:\t4096\nmap_id:\t7\n";
        assert_eq!(charged(entry), Some(4096));
        assert_eq!(charged("pos:\t0\n"), None);
    }
}
