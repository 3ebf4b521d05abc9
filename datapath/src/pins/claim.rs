// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who looks after the guard in a folder.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{Pins, pin_error};
use crate::bpffs::BPFFS;
use crate::error::{Error, Result};

/// Who ends may have its claim for a moment longer.
const CLAIM_TRIES: u32 = 20;
const CLAIM_AGAIN: Duration = Duration::from_millis(5);

/// That this process, and no other, looks after the guard in a folder; given up when it ends, however
/// it ends. The daemon's file in /run does not say so to one of another container, whose /run is
/// another. (While it is there bpffs cannot be unmounted.)
pub struct Claim {
    lock: Flock<File>,
    /// bpffs was mounted by us, which nothing in it says any more once the mark has been taken away.
    on_our_mount: bool,
}

impl Claim {
    /// Whether its folder is, or was, in the bpffs that is mounted now: while it is open no other has its number.
    pub(super) fn is_on_our_mount(&self) -> bool {
        let device = |found: fs::Metadata| found.dev();
        let ours = self.lock.metadata().map(device);
        self.on_our_mount
            && fs::metadata(BPFFS).is_ok_and(|found| ours.is_ok_and(|ours| ours == device(found)))
    }
}

impl Pins {
    /// The folder, where there is one.
    fn open_folder(&self) -> Result<Option<File>> {
        let folder = self.folder();
        match File::open(&folder) {
            Ok(open) => Ok(Some(open)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(pin_error(&folder)(e)),
        }
    }

    /// Whether a process has claimed the folder. Who asks has a share in it for a moment, and keeps nobody else from
    /// asking.
    pub fn are_held(&self) -> Result<bool> {
        let Some(open) = self.open_folder()? else { return Ok(false) };
        match Flock::lock(open, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(false),
            Err((_, Errno::EWOULDBLOCK)) => Ok(true),
            Err((_, e)) => Err(pin_error(&self.folder())(e.into())),
        }
    }

    /// Claims the folder, where there is one.
    ///
    /// # Errors
    /// [`Error::Held`]: another process has. [`Error::NotOurs`]: it is another user's, whoever has it.
    pub fn claim(&self) -> Result<Option<Claim>> {
        let folder = self.folder();
        let Some(mut open) = self.open_folder()? else { return Ok(None) };
        self.require_own_folders()?;
        for _ in 0..CLAIM_TRIES {
            match Flock::lock(open, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => {
                    let on_our_mount = self.are_on_our_mount();
                    return Ok(Some(Claim { lock, on_our_mount }));
                }
                Err((back, Errno::EWOULDBLOCK)) => open = back,
                Err((_, e)) => return Err(pin_error(&folder)(e.into())),
            }
            std::thread::sleep(CLAIM_AGAIN);
        }
        Err(Error::Held { path: folder })
    }

    /// Whether it is this folder that is claimed, and no other that was in its place.
    pub fn are_claimed(&self, claim: &Claim) -> bool {
        let inode = |found: fs::Metadata| (found.dev(), found.ino());
        let ours = claim.lock.metadata().map(inode);
        fs::metadata(self.folder()).is_ok_and(|found| ours.is_ok_and(|o| o == inode(found)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::path::Path;

    use super::super::tests::pins;
    use super::*;

    #[test]
    fn a_folder_is_its_claimants_and_not_that_in_its_place() {
        let (root, pins) = pins("claimed");
        assert!(pins.claim().unwrap().is_none(), "there is none");
        assert!(!pins.are_held().unwrap());
        pins.make_folders(false).unwrap();
        assert!(!pins.are_held().unwrap(), "nobody has it");
        let claim = pins.claim().unwrap().unwrap();
        assert!(matches!(pins.claim(), Err(Error::Held { .. })) && pins.are_held().unwrap());
        assert!(pins.are_claimed(&claim));
        fs::remove_dir_all(&root).unwrap();
        assert!(!pins.are_claimed(&claim));
        pins.make_folders(false).unwrap();
        assert!(!pins.are_claimed(&claim));
        let other = pins.claim().unwrap();
        assert!(other.is_some());
        pins.remove(other).unwrap();
        assert!(!root.exists());
    }

    /// Only root may give a folder away.
    #[test]
    fn no_folder_of_another_users_is_claimed_and_nothing_is_made_in_it() {
        if !nix::unistd::Uid::effective().is_root() {
            return;
        }
        let (root, pins) = pins("anothers");
        let to_nobody = |folder: &Path| lchown(folder, Some(65_534), Some(65_534)).unwrap();
        let is_refused = |folder: &Path| {
            let is_it = |done: Result<()>| match done {
                Err(Error::NotOurs { path, owner }) => path == folder && owner == 65_534,
                _ => false,
            };
            is_it(pins.make_folders(false)) && is_it(pins.claim().map(drop))
        };
        for folder in pins.folders() {
            pins.make_folders(false).unwrap();
            to_nobody(&folder);
            assert!(is_refused(&folder), "{}", folder.display());
            fs::remove_dir_all(&root).unwrap();
        }
        // Nobody's alone, and a way to root's.
        fs::create_dir(&root).unwrap();
        symlink(std::env::temp_dir(), pins.folder()).unwrap();
        to_nobody(&pins.folder());
        assert!(is_refused(&pins.folder()));
        fs::remove_file(pins.folder()).unwrap();
        fs::create_dir(pins.folder()).unwrap();
        to_nobody(&pins.folder());
        assert!(is_refused(&pins.folder()));
        assert_eq!(fs::read_dir(pins.folder()).unwrap().count(), 0, "nothing is made in it");
        fs::remove_dir_all(&root).unwrap();
    }
}
