// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where programs about sockets stand, the root of the host's cgroups (v2), at which they see every
//! socket, and the network namespace that they speak for.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};

use crate::error::{Error, Result};

/// The kernel's name for the calling thread's network namespace, as BPF programs know it.
/// Linux 5.14.
///
/// # Errors
/// [`Error::Read`], where the kernel tells none.
pub fn netns_cookie() -> Result<u64> {
    let fail = |source| Error::Read { what: "the network namespace's cookie".to_owned(), source };
    let any = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)
        .map_err(|e| fail(e.into()))?;
    let mut cookie = 0_u64;
    let mut bytes = size_of::<u64>() as libc::socklen_t;
    // SAFETY: an open socket, and a value that is writable for as many bytes as are announced.
    let answer = unsafe {
        libc::getsockopt(
            any.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    };
    if answer < 0 { Err(fail(io::Error::last_os_error())) } else { Ok(cookie) }
}

/// A space, a tab, a line's end and a backslash of a mount point are written in octal (show_mountinfo()).
fn unescaped(point: &str) -> String {
    let octal = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    octal.iter().fold(point.to_owned(), |point, (from, to)| point.replace(from, to))
}

/// The mount points of the cgroup2 hierarchy that show its root: not always /sys/fs/cgroup, for
/// the hierarchies of v1 may be beside it.
fn roots_of(mountinfo: &str) -> impl Iterator<Item = PathBuf> {
    mountinfo.lines().filter_map(|line| {
        // proc(5): root and mount point are the fourth and fifth field; the type follows " - ".
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (file_system.split(' ').next()? == "cgroup2" && root == "/")
            .then(|| unescaped(point).into())
    })
}

/// Whether what is mounted there is what is seen: another mount may hide it.
fn is_seen(point: &Path) -> bool {
    statfs(point).is_ok_and(|seen| seen.filesystem_type() == CGROUP2_SUPER_MAGIC)
}

/// Where that is, if anywhere.
pub fn root_path() -> Option<PathBuf> {
    // A mount point is any bytes: one that is no text keeps none that is from being found.
    let mountinfo = fs::read("/proc/thread-self/mountinfo").ok()?;
    roots_of(&String::from_utf8_lossy(&mountinfo)).find(|point| is_seen(point))
}

/// Whether what is seen at this root are the sockets of a part of the host alone: it is that of a cgroup namespace,
/// as in a container. Every cgroup but the host's own root says whether it has processes.
fn is_of_a_part(root: &Path) -> bool {
    root.join("cgroup.events").exists()
}

/// The same of the root that is found here.
pub fn shows_a_part() -> bool {
    root_path().is_some_and(|root| is_of_a_part(&root))
}

/// Opens the root of the host's cgroups.
///
/// # Errors
/// [`io::ErrorKind::NotFound`], where no cgroup2 hierarchy is mounted here.
pub fn root() -> io::Result<OwnedFd> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, "no cgroup2 hierarchy is mounted");
    Ok(File::open(root_path().ok_or_else(missing)?)?.into())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use nix::mount::{MsFlags, mount};
    use tidegate_lab::{Namespace, skip_without_root};

    use super::*;

    const NONE: Option<&str> = None;

    #[test]
    fn the_root_is_found_beside_hierarchies_of_v1() {
        let mountinfo = "\
            31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            36 31 0:33 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices\n\
            40 23 0:38 /user.slice /run/part rw shared:5 - cgroup2 cgroup2 rw\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 master:2 - cgroup2 cgroup2 rw\n";
        let roots = |mountinfo: &str| roots_of(mountinfo).collect::<Vec<_>>();
        assert_eq!(roots(mountinfo), [Path::new("/sys/fs/cgroup/unified")]);
        assert!(roots(&mountinfo.replace("cgroup2", "cgroup")).is_empty());
        assert!(roots("").is_empty());
        let elsewhere = mountinfo.replace("/sys/fs/cgroup/unified", r"/run/a\040b\134040");
        assert_eq!(roots(&elsewhere), [Path::new(r"/run/a b\040")]);
    }

    #[test]
    fn a_mount_point_that_is_no_text_hides_no_root() {
        if skip_without_root("a_mount_point_that_is_no_text_hides_no_root") {
            return;
        }
        let namespace = Namespace::new("no-text").unwrap();
        let (before, is_text, after) = namespace.run(|| {
            let before = root_path();
            let point = Path::new(OsStr::from_bytes(b"/run/caf\xe9"));
            fs::create_dir(point).unwrap();
            mount(NONE, point, Some("tmpfs"), MsFlags::empty(), NONE).unwrap();
            let is_text = fs::read_to_string("/proc/thread-self/mountinfo").is_ok();
            (before, is_text, root_path())
        });
        assert_eq!((is_text, after), (false, before));
    }

    #[test]
    fn the_hosts_root_alone_says_nothing_of_its_own_processes() {
        let root = std::env::temp_dir().join(format!("tidegate-cgroup-{}", std::process::id()));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("cgroup.procs"), "").unwrap();
        assert!(!is_of_a_part(&root));
        fs::write(root.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        assert!(is_of_a_part(&root));
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_namespace_has_one_cookie() {
        assert_ne!(netns_cookie().unwrap(), 0);
        assert_eq!(netns_cookie().unwrap(), netns_cookie().unwrap());
    }
}
