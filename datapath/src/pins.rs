// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the guard stands when no daemon does: its maps and links, pinned in bpffs,
//! a folder for each network namespace.

mod claim;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use libbpf_rs::{ErrorKind, MapCore, MapHandle};
use nix::unistd::{AccessFlags, Uid, eaccess};

use crate::again;
use crate::bpffs::{BPFFS, is_bpffs, mount_bpffs, mount_error, try_mount, unmount};
use crate::error::{Error, Result, map_error};
use crate::{link, resized};

pub use claim::Claim;

/// Says that bpffs was mounted by us, so that the last guard to stop unmounts it.
const MOUNTED_BY_US: &str = "mounted-by-tidegate";
/// The map by which a guard is known: pinned last and removed first, so that where it is all others are.
const CONTROL: &str = "control";

/// Whoever may open a folder may lock it (flock(2)), and keep it from its daemon: nobody else may, in a bpffs that
/// everybody may look into.
const FOLDER_MODE: u32 = 0o700;

/// The folder of one network namespace's guard.
#[derive(Debug, Clone)]
pub struct Pins {
    root: PathBuf,
    namespace: String,
}

pub(crate) fn pin_error(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
    move |source| Error::Pin { path: path.to_owned(), source }
}

/// The name of the calling thread's network namespace: `net-` and its inode number.
pub fn namespace_name() -> Result<String> {
    let path = Path::new("/proc/thread-self/ns/net");
    let inode = fs::metadata(path).map_err(pin_error(path))?.ino();
    Ok(format!("net-{inode}"))
}

/// Fails where a folder is another user's, who may have made it before us in a bpffs that everybody may write to (as a
/// plain `mount -t bpf` makes it), and could remove what is pinned in it, or put something else there. Root's are as
/// good as our own.
fn require_own(folder: &Path) -> Result<()> {
    // Of a link: who has made that, wherever it leads.
    let owner = fs::symlink_metadata(folder).map_err(pin_error(folder))?.uid();
    if owner == 0 || owner == Uid::effective().as_raw() {
        return Ok(());
    }
    Err(Error::NotOurs { path: folder.to_owned(), owner })
}

impl Pins {
    /// The folder of the calling thread's network namespace, which need not exist yet.
    pub fn here() -> Result<Self> {
        Ok(Pins { root: Path::new(BPFFS).join("tidegate"), namespace: namespace_name()? })
    }

    fn folder(&self) -> PathBuf {
        self.root.join(&self.namespace)
    }

    fn maps_folder(&self) -> PathBuf {
        self.folder().join("maps")
    }

    fn links_folder(&self) -> PathBuf {
        self.folder().join("links")
    }

    /// All of them, each behind that which it is in.
    fn folders(&self) -> [PathBuf; 4] {
        [self.root.clone(), self.folder(), self.maps_folder(), self.links_folder()]
    }

    /// Fails where one of them that is there belongs to another user.
    fn require_own_folders(&self) -> Result<()> {
        for folder in self.folders() {
            match require_own(&folder) {
                Err(Error::Pin { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Whether a guard stands in this namespace. One may where that cannot be seen, for want of a
    /// permission: whoever opens it then is told why not.
    pub fn exist(&self) -> bool {
        self.maps_folder().join(CONTROL).try_exists().unwrap_or(true)
    }

    /// Whether anything of a guard is left in this namespace: one that stands, or what remained when its
    /// end was cut short.
    pub fn are_left(&self) -> Result<bool> {
        let folder = self.folder();
        folder.try_exists().map_err(pin_error(&folder))
    }

    /// Whether that process sees the guard of this namespace, in its mount namespace; as far as may be looked there.
    pub fn exist_for(&self, process: i32) -> bool {
        let control = self.maps_folder().join(CONTROL);
        let below = control.strip_prefix("/").unwrap_or(&control);
        Path::new(&format!("/proc/{process}/root")).join(below).exists()
    }

    /// Whether they are in a bpffs that we have mounted.
    pub fn are_on_our_mount(&self) -> bool {
        self.root.join(MOUNTED_BY_US).exists()
    }

    /// What is told where a map of a guard's is not pinned.
    pub(crate) fn missing(&self, map: &str) -> Error {
        pin_error(&self.maps_folder().join(map))(io::ErrorKind::NotFound.into())
    }

    /// Fails where no guard could be pinned. Nothing is made by asking.
    pub fn require_place(&self) -> Result<()> {
        if !is_bpffs() {
            return try_mount().map_err(mount_error);
        }
        self.require_own_folders()?;
        // The innermost that is there.
        let (folder, bpffs) = (self.folder(), Path::new(BPFFS));
        let places = [folder.as_path(), &self.root];
        let there = places.into_iter().find(|place| place.try_exists().unwrap_or(true));
        let there = there.unwrap_or(bpffs);
        eaccess(there, AccessFlags::W_OK).map_err(|e| pin_error(there)(e.into()))
    }

    /// Makes the folders, and mounts bpffs where the host has not; `before` is the claim of the folder that was there
    /// before. Another network namespace's guard that ends right now removes the root, and its mount.
    pub fn prepare(&self, before: Option<&Claim>) -> Result<()> {
        let mut is_ours = before.is_some_and(Claim::is_on_our_mount);
        while_others_end(|| {
            if !is_bpffs() {
                mount_bpffs().map_err(mount_error)?;
                is_ours = true;
            }
            self.make_folders(is_ours)
        })
    }

    fn mark_mount(&self) -> Result<()> {
        let marker = self.root.join(MOUNTED_BY_US);
        make_folder(&marker).map_err(pin_error(&marker))
    }

    /// The mark comes first: who is killed right behind the mount leaves it to the next.
    fn make_folders(&self, on_our_mount: bool) -> Result<()> {
        self.require_own_folders()?;
        if on_our_mount {
            self.mark_mount()?;
        }
        for folder in self.folders() {
            make_folder(&folder).map_err(pin_error(&folder))?;
            // It may have come since; nothing is made in it before.
            require_own(&folder)?;
        }
        // It may stand from before.
        close_to_others(&self.folder()).map_err(pin_error(&self.folder()))
    }

    /// Opens one pinned map.
    pub(crate) fn open_map(&self, name: &str) -> Result<MapHandle> {
        MapHandle::from_pinned_path(self.maps_folder().join(name)).map_err(map_error(name))
    }

    /// The same, where there is one.
    pub(crate) fn open_map_if_there(&self, name: &str) -> Result<Option<MapHandle>> {
        match self.open_map(name) {
            Ok(map) => Ok(Some(map)),
            Err(Error::Map { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens every pinned map by name.
    pub fn open_maps(&self) -> Result<BTreeMap<String, MapHandle>> {
        let mut maps = BTreeMap::new();
        for name in names_in(&self.maps_folder())? {
            let map = self.open_map(&name)?;
            maps.insert(name, map);
        }
        Ok(maps)
    }

    /// Whether it is this map that is pinned under `name`, and no other.
    fn has(&self, name: &str, map: &MapHandle) -> bool {
        let id = |map: &MapHandle| map.info().map(|info| info.info.id).ok();
        self.open_map(name).is_ok_and(|pinned| id(&pinned) == id(map))
    }

    /// Whether the guard stands that these maps are of: neither taken down nor another since.
    pub fn are_of(&self, maps: &BTreeMap<String, MapHandle>) -> bool {
        maps.get(CONTROL).is_some_and(|control| self.has(CONTROL, control))
    }

    /// Whether something is pinned under the name of each of these maps.
    pub(crate) fn have_all(&self, maps: &BTreeMap<String, MapHandle>) -> bool {
        let pinned = names_in(&self.maps_folder()).unwrap_or_default();
        maps.keys().all(|name| pinned.contains(name))
    }

    /// Pins the maps that are not pinned yet, and those in whose place another map is.
    pub fn pin_maps(&self, maps: &BTreeMap<String, MapHandle>) -> Result<()> {
        use std::os::fd::AsFd;
        let mut in_turn: Vec<_> = maps.iter().collect();
        // What is known of backlogs is of use alone, too.
        in_turn.sort_by_key(|(name, _)| (*name == CONTROL, *name != resized::MAP));
        for (name, map) in in_turn {
            if self.has(name, map) {
                continue;
            }
            let path = self.maps_folder().join(name);
            let _ = fs::remove_file(&path);
            pin(map.as_fd(), &path)?;
        }
        Ok(())
    }

    /// Pins a link under `name`.
    pub fn pin_link(&self, name: &str, link: BorrowedFd<'_>) -> Result<()> {
        pin(link, &self.links_folder().join(name))
    }

    /// Puts a link in the place of the one that is pinned under `name`.
    pub fn replace_link(&self, name: &str, link: BorrowedFd<'_>) -> Result<()> {
        let (path, new) = (self.links_folder().join(name), format!("{name}-new"));
        let aside = self.links_folder().join(&new);
        // What a daemon left that was killed right here.
        let _ = fs::remove_file(&aside);
        self.pin_link(&new, link)?;
        fs::rename(&aside, &path).map_err(pin_error(&path))
    }

    /// The names of the pinned links.
    pub fn link_names(&self) -> Result<Vec<String>> {
        names_in(&self.links_folder())
    }

    /// Those of them that are attached to anything.
    pub fn attached_links(&self) -> Result<Vec<String>> {
        let names = self.link_names()?;
        Ok(names.into_iter().filter(|name| self.is_attached(name)).collect())
    }

    /// A link to an interface that has gone stands on index 0, one that was detached from a cgroup on none.
    pub(crate) fn is_attached(&self, name: &str) -> bool {
        let Ok(link) = self.open_link(name) else {
            return false;
        };
        let link = link.as_fd();
        match interface_in(name) {
            Some(index) => link::ifindex(link).is_ok_and(|found| index == found.to_string()),
            None => link::stands(link).unwrap_or(false),
        }
    }

    /// Opens a pinned link.
    pub fn open_link(&self, name: &str) -> Result<OwnedFd> {
        let path = self.links_folder().join(name);
        let c_path = c_string(&path);
        // SAFETY: the path is a valid C string.
        let fd = unsafe { libbpf_sys::bpf_obj_get(c_path.as_ptr()) };
        if fd < 0 {
            return Err(pin_error(&path)(io::Error::from_raw_os_error(-fd)));
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Removes a pinned link, and its program from its place. Without asking that would come a
    /// moment after the last descriptor is gone (bpf_link_put() of Linux 6.18).
    pub fn remove_link(&self, name: &str) -> Result<()> {
        if let Ok(link) = self.open_link(name) {
            let _ = link::detach(link.as_fd());
        }
        let path = self.links_folder().join(name);
        fs::remove_file(&path).map_err(pin_error(&path))
    }

    /// Removes every link and every map of this namespace, but for those of `kept`: links first.
    pub(crate) fn unpin_all_but(&self, kept: &BTreeMap<String, MapHandle>) -> Result<()> {
        for name in self.link_names()? {
            self.remove_link(&name)?;
        }
        let mut maps = names_in(&self.maps_folder())?;
        maps.sort_by_key(|name| (name != CONTROL, name == resized::MAP));
        for name in maps {
            if kept.get(&name).is_some_and(|map| self.has(&name, map)) {
                continue;
            }
            let path = self.maps_folder().join(name);
            fs::remove_file(&path).map_err(pin_error(&path))?;
        }
        Ok(())
    }

    /// Removes everything of this namespace, links first, and bpffs's mount where it is
    /// ours and no other guard stands. The claim keeps others away until there is nothing to take; for
    /// longer it would keep bpffs mounted.
    pub fn remove(&self, claim: Option<Claim>) -> Result<()> {
        self.unpin_all_but(&BTreeMap::new())?;
        for folder in [self.links_folder(), self.maps_folder(), self.folder()] {
            if folder.exists() {
                fs::remove_dir(&folder).map_err(pin_error(&folder))?;
            }
        }
        // It may have been taken away since.
        if claim.as_ref().is_some_and(Claim::is_on_our_mount) {
            self.mark_mount()?;
        }
        drop(claim);
        if self.remove_root()? && !unmount()? {
            self.leave_mount();
        }
        Ok(())
    }

    /// Whoever has begun in the root meanwhile has found bpffs mounted, and is to unmount it.
    fn leave_mount(&self) {
        let _ = fs::create_dir(self.root.join(MOUNTED_BY_US));
    }

    /// Whether bpffs is to be unmounted, too. Guards of several network namespaces may end, and begin, at once: what
    /// another has removed is gone, and what another has begun to use is its to remove.
    fn remove_root(&self) -> Result<bool> {
        if names_in(&self.root)?.iter().any(|name| name != MOUNTED_BY_US) {
            return Ok(false);
        }
        // Of several one takes it away.
        let marker = self.root.join(MOUNTED_BY_US);
        let ours = match fs::remove_dir(&marker) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => false,
            Err(e) => return Err(pin_error(&marker)(e)),
        };
        match fs::remove_dir(&self.root) {
            Ok(()) => Ok(ours),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(ours),
            Err(e) if e.kind() == io::ErrorKind::DirectoryNotEmpty => {
                if ours {
                    self.leave_mount();
                }
                Ok(false)
            }
            Err(e) => Err(pin_error(&self.root)(e)),
        }
    }
}

/// Makes a folder, and those that it is in.
fn make_folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)
}

/// To set a mode takes the owner, even where it is set already.
fn close_to_others(folder: &Path) -> io::Result<()> {
    match fs::metadata(folder)?.permissions().mode() & 0o777 {
        FOLDER_MODE => Ok(()),
        _ => fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE)),
    }
}

/// Does what fails where another removes the root, or its mount, meanwhile: until it is done.
fn while_others_end(how: impl FnMut() -> Result<()>) -> Result<()> {
    let is_gone = |done: &Result<()>| {
        use io::ErrorKind::{AlreadyExists, NotFound, PermissionDenied};
        let Err(Error::Pin { source, .. }) = done else { return false };
        match source.kind() {
            NotFound | AlreadyExists => true,
            // Below its mount sysfs takes no folder.
            PermissionDenied => !is_bpffs(),
            _ => false,
        }
    };
    again::while_in_the_way(is_gone, how)
}

/// The index in the name of a link's pin, where it is to stand at an interface.
fn interface_in(name: &str) -> Option<&str> {
    match name.rsplit_once('-')? {
        ("ingress" | "driver" | "ends_in" | "ends_out", index) => Some(index),
        _ => None,
    }
}

fn c_string(path: &Path) -> std::ffi::CString {
    std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("our paths hold no NUL")
}

fn pin(fd: BorrowedFd<'_>, path: &Path) -> Result<()> {
    let c_path = c_string(path);
    // SAFETY: the descriptor is open and the path is a valid C string.
    let answer = unsafe { libbpf_sys::bpf_obj_pin(fd.as_raw_fd(), c_path.as_ptr()) };
    if answer < 0 {
        return Err(pin_error(path)(io::Error::from_raw_os_error(-answer)));
    }
    Ok(())
}

pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(pin_error(folder)(e)),
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use nix::errno::Errno;

    use super::*;

    pub(super) fn pins(label: &str) -> (PathBuf, Pins) {
        let name = format!("tidegate-pins-{label}-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        (root.clone(), Pins { root, namespace: "net-1".to_owned() })
    }

    /// Where the end is cut short, nobody takes what is left for a guard.
    #[test]
    fn the_map_by_which_a_guard_is_known_goes_before_the_others() {
        let (root, pins) = pins("order");
        fs::create_dir_all(pins.maps_folder()).unwrap();
        fs::write(pins.maps_folder().join(CONTROL), "").unwrap();
        // What cannot be removed like a pin.
        fs::create_dir(pins.maps_folder().join("accepts")).unwrap();
        assert!(pins.exist());
        assert!(pins.remove(None).is_err() && !pins.exist() && pins.are_left().unwrap());
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn what_stands_at_an_interface_has_its_index_in_its_name() {
        for (name, index) in [
            ("ingress-2", Some("2")),
            ("driver-17", Some("17")),
            ("ends_out-3", Some("3")),
            ("tcp-ipv4", None),
            ("tcp-ipv6-new", None),
            ("socket-set", None),
            ("sockets", None),
        ] {
            assert_eq!(interface_in(name), index, "{name}");
        }
    }

    /// Does it so often while another makes and removes a folder again and again; what failed.
    fn beside(folder: &Path, times: u32, mut how: impl FnMut() -> Result<()>) -> Vec<Error> {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    let _ = fs::create_dir(folder);
                    // As a guard that ends looks for others. (Else it would wait for the parent's lock all the time.)
                    let _ = names_in(folder);
                    let _ = fs::remove_dir(folder);
                }
            });
            let failures = (0..times).filter_map(|_| how().err()).collect();
            ended.store(true, Ordering::Relaxed);
            failures
        })
    }

    #[test]
    fn what_another_removes_is_made_again_and_any_other_failure_is_told() {
        let tries = |fails: u32, kind: io::ErrorKind| {
            let mut tries = 0;
            let done = while_others_end(|| {
                tries += 1;
                if tries > fails { Ok(()) } else { Err(pin_error(Path::new("/"))(kind.into())) }
            });
            (tries, done.is_ok())
        };
        assert_eq!(tries(20, io::ErrorKind::NotFound), (21, true));
        assert_eq!(tries(20, io::ErrorKind::AlreadyExists), (21, true));
        assert_eq!(tries(20, io::ErrorKind::StorageFull), (1, false));
        let (most, done) = tries(u32::MAX, io::ErrorKind::NotFound);
        assert!(most < 10_000 && !done, "but not for ever");
    }

    /// A security module tells each time.
    #[test]
    fn a_mount_that_is_refused_is_not_tried_again() {
        for errno in [Errno::EACCES, Errno::EPERM, Errno::ENOENT] {
            let mut tries = 0;
            let done = while_others_end(|| {
                tries += 1;
                Err(mount_error(errno))
            });
            assert!(matches!(done, Err(Error::Mount { .. })));
            assert_eq!(tries, 1, "{errno}");
        }
    }

    /// Another network namespace's guard ends while this one's begins and ends.
    #[test]
    fn a_root_that_goes_at_any_moment_keeps_no_guard_from_beginning_and_ending() {
        let (root, pins) = pins("going");
        let failures = beside(&root, 500, || {
            while_others_end(|| pins.make_folders(false))?;
            pins.remove(None)
        });
        assert!(failures.is_empty(), "{} such as {}", failures.len(), failures[0]);
        let _ = fs::remove_dir(&root);
    }

    #[test]
    fn who_begins_in_the_root_that_another_removes_is_left_the_mount_to_remove() {
        let (root, pins) = pins("begun");
        let (marker, begun) = (root.join(MOUNTED_BY_US), root.join("net-2"));
        let failures = beside(&begun, 3_000, || {
            fs::create_dir_all(&marker).map_err(pin_error(&marker))?;
            let unmounts = pins.remove_root()?;
            // The mount is to be removed now or by the marker, or else never.
            match unmounts == marker.exists() {
                true => Err(pin_error(&marker)(io::Error::other("neither or both"))),
                false => Ok(()),
            }
        });
        assert!(failures.is_empty(), "{} such as {}", failures.len(), failures[0]);
        let _ = fs::remove_dir_all(&root);
    }

    #[test]
    fn what_cannot_be_looked_at_is_not_taken_for_nothing() {
        let (root, pins) = pins("hidden");
        assert!(!pins.exist() && !pins.are_left().unwrap());
        // Whoever is root may look everywhere, but not into what is no folder.
        fs::write(&root, "").unwrap();
        assert!(pins.exist() && pins.are_left().is_err());
        assert!(matches!(pins.open_maps(), Err(Error::Pin { .. })));
        fs::remove_file(&root).unwrap();
    }
}
