// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The BPF objects that a guard holds in the kernel, by their numbers.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::libc;
use tidegate_lab::Namespace;

/// Where tidegate pins.
pub const PINS: &str = "/sys/fs/bpf/tidegate";

/// A program, map or link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Object {
    /// A program's number.
    Program(u32),
    /// A map's number.
    Map(u32),
    /// A link's number.
    Link(u32),
}

// linux/bpf.h, enum bpf_cmd.
const MAP_LOOKUP_ELEM: i64 = 1;
const MAP_UPDATE_ELEM: i64 = 2;
const OBJ_GET: i64 = 7;
const PROG_GET_FD_BY_ID: i64 = 13;
const MAP_GET_FD_BY_ID: i64 = 14;
const LINK_GET_FD_BY_ID: i64 = 30;
const LINK_DETACH: i64 = 34;

/// union bpf_attr, as far as these commands read it.
fn bpf(command: i64, attributes: &[u64; 16]) -> Option<OwnedFd> {
    // SAFETY: the attributes are readable for the size that is told, and what they point to
    // outlives the call.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), size_of_val(attributes))
    };
    // SAFETY: a non-negative answer of these commands is a fresh descriptor.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// What a guard of this namespace has pinned there, below its folder.
fn open_pin(pin: &str) -> OwnedFd {
    let folders = fs::read_dir(PINS).expect("a guard stands").flatten();
    let path = folders.map(|folder| folder.path().join(pin)).find(|path| path.exists());
    let path = path.expect("it is pinned").into_os_string().into_encoded_bytes();
    let path = CString::new(path).expect("no zero in it");
    let mut attributes = [0; 16];
    attributes[0] = path.as_ptr() as u64;
    bpf(OBJ_GET, &attributes).expect("a pinned object")
}

/// Takes a link that a guard has pinned in this namespace from its place, as `bpftool link detach` would: its pin
/// stays.
pub fn detach(namespace: &Namespace, link: &str) {
    let pin = format!("links/{link}");
    namespace.run(move || {
        let link = open_pin(&pin);
        let mut attributes = [0_u64; 16];
        attributes[0] = link.as_raw_fd() as u64;
        // SAFETY: the attributes are readable for the size that is told.
        let answer = unsafe {
            libc::syscall(libc::SYS_bpf, LINK_DETACH, attributes.as_ptr(), size_of_val(&attributes))
        };
        assert_eq!(answer, 0, "{pin}: {}", std::io::Error::last_os_error());
    });
}

/// Changes the first word of the first element of a map that a guard has pinned in this namespace.
pub fn write_first_word(namespace: &Namespace, map: &str, word: u32) {
    let map = format!("maps/{map}");
    namespace.run(move || {
        let map = open_pin(&map);
        let (key, mut value) = (0_u32, [0_u32; 1024]);
        let first = value.as_mut_ptr();
        // map_fd, key, value, flags.
        let mut attributes = [0; 16];
        attributes[0] = map.as_raw_fd() as u64;
        attributes[1] = (&raw const key) as u64;
        attributes[2] = first as u64;
        let mut ask = |command: i64| {
            // SAFETY: key and value outlive the call, and no element of a guard's has 4 kB.
            let answer = unsafe {
                libc::syscall(
                    libc::SYS_bpf,
                    command,
                    attributes.as_mut_ptr(),
                    size_of_val(&attributes),
                )
            };
            let error = std::io::Error::last_os_error();
            assert_eq!(answer, 0, "an element that can be read and written: {error}");
        };
        ask(MAP_LOOKUP_ELEM);
        // SAFETY: it points into the value, which only the calls read and write beside.
        unsafe { *first = word };
        ask(MAP_UPDATE_ELEM);
    });
}

impl Object {
    /// Whether the kernel still has it.
    pub fn exists(self) -> bool {
        let (command, id) = match self {
            Object::Program(id) => (PROG_GET_FD_BY_ID, id),
            Object::Map(id) => (MAP_GET_FD_BY_ID, id),
            Object::Link(id) => (LINK_GET_FD_BY_ID, id),
        };
        let mut attributes = [0; 16];
        attributes[0] = u64::from(id);
        bpf(command, &attributes).is_some()
    }
}

/// What a descriptor's entry in /proc tells: a link's names its program, too.
fn in_fdinfo(text: &str) -> Vec<Object> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let id = value.trim().parse().ok()?;
            match key {
                "prog_id" => Some(Object::Program(id)),
                "map_id" => Some(Object::Map(id)),
                "link_id" => Some(Object::Link(id)),
                _ => None,
            }
        })
        .collect()
}

/// The objects that a process has open; none when it has ended.
pub fn held_by(process: u32) -> BTreeSet<Object> {
    let entries = fs::read_dir(format!("/proc/{process}/fdinfo"));
    entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .flat_map(|text| in_fdinfo(&text))
        .collect()
}

fn pinned_below(folder: &Path, found: &mut BTreeSet<Object>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pinned_below(&path, found);
            continue;
        }
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("a path without NUL");
        let mut attributes = [0; 16];
        attributes[0] = name.as_ptr() as u64;
        let Some(fd) = bpf(OBJ_GET, &attributes) else { continue };
        let text = fs::read_to_string(format!("/proc/thread-self/fdinfo/{}", fd.as_raw_fd()));
        found.extend(in_fdinfo(&text.unwrap_or_default()));
    }
}

/// The objects that are pinned in a namespace, and the programs of its pinned links.
pub fn pinned(namespace: &Namespace) -> BTreeSet<Object> {
    namespace.run(|| {
        let mut found = BTreeSet::new();
        pinned_below(Path::new(PINS), &mut found);
        found
    })
}

/// The same of the namespace that a process is in.
pub fn pinned_around(process: u32) -> BTreeSet<Object> {
    let mut found = BTreeSet::new();
    pinned_below(Path::new(&format!("/proc/{process}/root{PINS}")), &mut found);
    found
}
