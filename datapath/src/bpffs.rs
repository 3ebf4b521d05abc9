// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The file system that pins are in.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount, umount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::statfs::statfs;

use crate::error::{Error, Result};
use crate::pins::{names_in, pin_error};

pub(crate) const BPFFS: &str = "/sys/fs/bpf";
const BPFFS_MAGIC: i64 = 0xcafe_4a11;

pub(crate) fn is_bpffs() -> bool {
    statfs(BPFFS).is_ok_and(|s| s.filesystem_type().0 == BPFFS_MAGIC)
}

/// Only root may look into what we mount.
pub(crate) fn mount_bpffs() -> nix::Result<()> {
    mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), Some("mode=0700"))
}

/// Whether bpffs could be mounted: tried in a mount namespace of its own, which goes with its thread. Where that
/// cannot be tried nothing is held against the host.
pub(crate) fn try_mount() -> nix::Result<()> {
    const NOTHING: Option<&str> = None;
    let trial = || {
        if unshare(CloneFlags::CLONE_NEWNS).is_err() {
            return Ok(());
        }
        // Else it would be mounted for the host.
        match mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_SLAVE, NOTHING) {
            Ok(()) => mount_bpffs(),
            // The root is no mount, as in a chroot.
            Err(Errno::EINVAL) => Ok(()),
            Err(e) => Err(e),
        }
    };
    let Ok(thread) = std::thread::Builder::new().spawn(trial) else { return Ok(()) };
    thread.join().unwrap_or(Ok(()))
}

pub(crate) fn mount_error(errno: Errno) -> Error {
    Error::Mount { path: PathBuf::from(BPFFS), source: errno.into() }
}

/// Unmounts bpffs, unless somebody uses it or has unmounted it already.
pub(crate) fn unmount() -> Result<bool> {
    let bpffs = Path::new(BPFFS);
    if !names_in(bpffs)?.iter().all(|name| name.ends_with(".debug")) {
        return Ok(false);
    }
    match umount(bpffs) {
        Ok(()) | Err(Errno::EINVAL) => Ok(true),
        Err(Errno::EBUSY) => Ok(false),
        Err(e) => Err(pin_error(bpffs)(e.into())),
    }
}
