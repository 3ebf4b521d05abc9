// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the calling thread does to itself to be alone: a network namespace, and mounts that fit.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

use crate::error::LabError;

const NO_DATA: Option<&str> = None;

/// Moves the calling thread into new network and mount namespaces.
pub(crate) fn isolate(label: &str) -> Result<(), LabError> {
    let failed = |step| {
        move |errno: nix::Error| LabError::Setup {
            label: label.to_owned(),
            step,
            source: errno.into(),
        }
    };
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)
        .map_err(failed("unshare the network and mount namespaces"))?;
    // Without this, what is mounted below would appear on the host. What the host unmounts goes here, too:
    // it would else stay in use.
    mount(NO_DATA, "/", NO_DATA, MsFlags::MS_REC | MsFlags::MS_SLAVE, NO_DATA)
        .map_err(failed("keep its mounts from the host"))?;
    renew_sysfs();
    // What programs keep in /run then ends with the namespace.
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, NO_DATA)
        .map_err(failed("mount a tmpfs on /run"))?;
    mount(Some("bpf"), "/sys/fs/bpf", Some("bpf"), MsFlags::empty(), NO_DATA)
        .map_err(failed("mount a bpffs on /sys/fs/bpf"))
}

/// Mounts a sysfs that shows this network namespace's devices, and puts back what the old one
/// carried (cgroups above all). Where a container forbids it the old sysfs stays, and only
/// `/sys/class/net` is then the wrong one.
fn renew_sysfs() {
    let kept: Vec<(String, OwnedFd)> = mounts_on_sysfs()
        .into_iter()
        .filter_map(|path| Some((path.clone(), clone_tree(&path).ok()?)))
        .collect();
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if mount(Some("sysfs"), "/sys", Some("sysfs"), flags, NO_DATA).is_err() {
        return;
    }
    for (path, tree) in kept {
        // A mount point that the new sysfs lacks is no reason to have no testbed.
        let _ = attach_tree(&tree, &path);
    }
}

/// The outermost mounts below `/sys`, but for the bpffs, which is to be private.
fn mounts_on_sysfs() -> Vec<String> {
    // A mount point elsewhere may be no text.
    let table = fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    outermost_below_sys(&String::from_utf8_lossy(&table))
}

fn outermost_below_sys(mountinfo: &str) -> Vec<String> {
    let mut points: Vec<&str> = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .filter(|point| point.starts_with("/sys/") && *point != "/sys/fs/bpf")
        .collect();
    points.sort_unstable();
    let mut outermost: Vec<String> = Vec::new();
    for point in points {
        let inside = outermost.iter().any(|outer| {
            point == outer
                || point.strip_prefix(outer.as_str()).is_some_and(|rest| rest.starts_with('/'))
        });
        if !inside {
            outermost.push(point.to_owned());
        }
    }
    outermost
}

/// A detached copy of a mount with all that is mounted inside it.
fn clone_tree(path: &str) -> io::Result<OwnedFd> {
    let path = CString::new(path)?;
    let flags = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as u32;
    // SAFETY: the path is a valid C string for the duration of the call; nothing else is pointed to.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?) })
}

fn attach_tree(tree: &OwnedFd, path: &str) -> io::Result<()> {
    let path = CString::new(path)?;
    // SAFETY: both paths are valid C strings for the duration of the call, and the descriptor is open.
    let done = unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    use nix::mount::{MsFlags, mount};

    use super::{NO_DATA, mounts_on_sysfs, outermost_below_sys};
    use crate::namespace::Namespace;
    use crate::root::skip_without_root;

    #[test]
    fn a_mount_point_that_is_no_text_hides_none_of_sysfs() {
        if skip_without_root("a_mount_point_that_is_no_text_hides_none_of_sysfs") {
            return;
        }
        let namespace = Namespace::new("no-text").unwrap();
        let (before, after) = namespace.run(|| {
            let cover = |path: &Path| {
                mount(NO_DATA, path, Some("tmpfs"), MsFlags::empty(), NO_DATA).unwrap();
            };
            cover(Path::new("/sys/kernel"));
            let before = mounts_on_sysfs();
            let point = Path::new(OsStr::from_bytes(b"/run/caf\xe9"));
            fs::create_dir(point).unwrap();
            cover(point);
            (before, mounts_on_sysfs())
        });
        assert!(before.iter().any(|point| point == "/sys/kernel"), "{before:?}");
        assert_eq!(after, before);
    }

    #[test]
    fn only_the_outermost_mounts_are_carried_over() {
        let mountinfo = "\
            22 1 0:20 / /sys rw - sysfs sysfs rw\n\
            30 22 0:25 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
            31 30 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
            32 22 0:27 / /sys/fs/bpf rw - bpf bpf rw\n\
            33 22 0:28 / /sys/fs/cgroup2 rw - cgroup2 cgroup2 rw\n\
            34 1 0:29 / /system rw - tmpfs tmpfs rw\n";
        assert_eq!(outermost_below_sys(mountinfo), ["/sys/fs/cgroup", "/sys/fs/cgroup2"]);
    }
}
