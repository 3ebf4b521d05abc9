// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links: programs attached to hooks, through the one system call that serves
//! tcx, XDP, netfilter and cgroups alike.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::cgroup;
use crate::error::{Error, Result};

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// tc ingress of an interface, before other programs (tcx, Linux 6.6).
    Ingress(u32),
    /// The driver of an interface, native mode only.
    Driver(u32),
    /// tc egress of an interface (tcx, Linux 6.6).
    Egress(u32),
    /// Every socket of the host: the root of the cgroups.
    Sockets,
    /// netfilter's local-in, `AF_INET` or `AF_INET6` (Linux 6.4).
    LocalIn(u8),
    /// setsockopt() of every process, at the root of the cgroups.
    SetSocketOption,
    /// getsockopt() likewise.
    GetSocketOption,
    /// What comes to any socket, at the root of the cgroups.
    Received,
    /// connect() of every process by IPv4, at the root of the cgroups.
    Connect4,
    /// And by IPv6.
    Connect6,
}

impl Place {
    /// The interface that it is at, by index.
    pub(crate) fn interface(self) -> Option<u32> {
        match self {
            Place::Ingress(index) | Place::Driver(index) | Place::Egress(index) => Some(index),
            _ => None,
        }
    }
}

/// Behind the host's filter and security tables (priorities 0 and 50): its
/// firewall decides before us. No two BPF programs of a hook share a priority, and a
/// link keeps its own for a moment after it is gone: then the next one is taken.
const LOCAL_IN_PRIORITIES: std::ops::Range<i32> = 200..216;
const NF_INET_LOCAL_IN: u32 = 1;

fn check(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: a non-negative answer of these calls is a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches `program` at `place`.
pub fn create(program: BorrowedFd<'_>, name: &str, place: Place) -> Result<OwnedFd> {
    create_behind(program, name, place, None)
}

/// The same; at tc ingress right behind the link `first`, where there is one.
pub(crate) fn create_behind(
    program: BorrowedFd<'_>,
    name: &str,
    place: Place,
    first: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd> {
    let mut priorities = LOCAL_IN_PRIORITIES;
    loop {
        let priority = priorities.next().expect("the loop ends with the last");
        let answer = create_at(program, place, first, priority);
        let taken = matches!(&answer, Err(e) if e.raw_os_error() == Some(libc::EBUSY));
        if taken && matches!(place, Place::LocalIn(_)) && !priorities.is_empty() {
            continue;
        }
        return answer.map_err(|source| Error::Attach {
            program: name.to_owned(),
            place: format!("{place:?}"),
            source,
        });
    }
}

/// `first` is of tc ingress, `priority` local-in's.
fn create_at(
    program: BorrowedFd<'_>,
    place: Place,
    first: Option<BorrowedFd<'_>>,
    priority: i32,
) -> io::Result<OwnedFd> {
    // SAFETY: all zero is the documented "no options" of this plain C structure.
    let mut opts: libbpf_sys::bpf_link_create_opts = unsafe { zeroed() };
    opts.sz = size_of::<libbpf_sys::bpf_link_create_opts>() as _;
    // Open until the link is made; the link itself keeps no descriptor.
    let mut root = None;
    let mut at_root = |kind| io::Result::Ok((root.insert(cgroup::root()?).as_raw_fd(), kind));
    let (target, kind) = match place {
        Place::Ingress(ifindex) => {
            opts.flags = libbpf_sys::BPF_F_BEFORE;
            if let Some(first) = first {
                opts.flags = libbpf_sys::BPF_F_AFTER | libbpf_sys::BPF_F_LINK;
                opts.__bindgen_anon_1.tcx.relative_fd = first.as_raw_fd() as u32;
            }
            (ifindex as i32, libbpf_sys::BPF_TCX_INGRESS)
        }
        Place::Egress(ifindex) => (ifindex as i32, libbpf_sys::BPF_TCX_EGRESS),
        Place::Driver(ifindex) => {
            opts.flags = libbpf_sys::XDP_FLAGS_DRV_MODE;
            (ifindex as i32, libbpf_sys::BPF_XDP)
        }
        Place::LocalIn(family) => {
            opts.__bindgen_anon_1.netfilter.pf = family.into();
            opts.__bindgen_anon_1.netfilter.hooknum = NF_INET_LOCAL_IN;
            opts.__bindgen_anon_1.netfilter.priority = priority;
            (0, libbpf_sys::BPF_NETFILTER)
        }
        Place::Sockets => at_root(libbpf_sys::BPF_CGROUP_SOCK_OPS)?,
        Place::SetSocketOption => at_root(libbpf_sys::BPF_CGROUP_SETSOCKOPT)?,
        Place::GetSocketOption => at_root(libbpf_sys::BPF_CGROUP_GETSOCKOPT)?,
        Place::Received => at_root(libbpf_sys::BPF_CGROUP_INET_INGRESS)?,
        Place::Connect4 => at_root(libbpf_sys::BPF_CGROUP_INET4_CONNECT)?,
        Place::Connect6 => at_root(libbpf_sys::BPF_CGROUP_INET6_CONNECT)?,
    };
    // SAFETY: the descriptor is open and opts outlives the call.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), target, kind, &opts) };
    check(fd)
}

/// Puts `program` in the place of the link's present one, without a gap.
pub fn update(link: BorrowedFd<'_>, program: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; no options are passed.
    let answer = unsafe {
        libbpf_sys::bpf_link_update(link.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
    };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

/// Takes the link's program from its place, now; the link stays, and does nothing.
///
/// # Errors
/// `EOPNOTSUPP`, where the kernel can do it only with the last descriptor: netfilter.
pub fn detach(link: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open.
    let answer = unsafe { libbpf_sys::bpf_link_detach(link.as_raw_fd()) };
    if answer < 0 { Err(io::Error::from_raw_os_error(-answer)) } else { Ok(()) }
}

fn info(link: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_link_info> {
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut info: libbpf_sys::bpf_link_info = unsafe { zeroed() };
    let mut bytes = size_of::<libbpf_sys::bpf_link_info>() as u32;
    // SAFETY: info is writable for as many bytes as are announced.
    let answer = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(link.as_raw_fd(), (&raw mut info).cast(), &mut bytes)
    };
    if answer < 0 {
        return Err(io::Error::from_raw_os_error(-answer));
    }
    Ok(info)
}

/// The number by which the kernel knows the program that runs there.
pub fn program_id(link: BorrowedFd<'_>) -> io::Result<u32> {
    Ok(info(link)?.prog_id)
}

/// The interface that a tcx or XDP link is attached to; 0 once the interface is gone.
pub fn ifindex(link: BorrowedFd<'_>) -> io::Result<u32> {
    let info = info(link)?;
    // SAFETY: the kernel filled the member that belongs to the link's type; both begin with ifindex.
    Ok(unsafe {
        match info.type_ {
            libbpf_sys::BPF_LINK_TYPE_XDP => info.__bindgen_anon_1.xdp.ifindex,
            libbpf_sys::BPF_LINK_TYPE_TCX => info.__bindgen_anon_1.tcx.ifindex,
            _ => 0,
        }
    })
}

/// Whether a link stands where it was made. One of a cgroup may be detached by hand, or have lost it. Of tcx and XDP
/// [`ifindex`] says more, and one of netfilter goes with its last descriptor alone.
pub fn stands(link: BorrowedFd<'_>) -> io::Result<bool> {
    let info = info(link)?;
    // SAFETY: the kernel filled the member that belongs to the link's type.
    let cgroup = unsafe { info.__bindgen_anon_1.cgroup.cgroup_id };
    Ok(info.type_ != libbpf_sys::BPF_LINK_TYPE_CGROUP || cgroup != 0)
}

/// What the kernel tells of a program.
pub fn program_info(program: BorrowedFd<'_>) -> Result<libbpf_sys::bpf_prog_info> {
    // SAFETY: all zero asks for the fixed part alone.
    let mut info: libbpf_sys::bpf_prog_info = unsafe { zeroed() };
    let mut bytes = size_of::<libbpf_sys::bpf_prog_info>() as u32;
    // SAFETY: info is writable for as many bytes as are announced.
    let answer = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(program.as_raw_fd(), (&raw mut info).cast(), &mut bytes)
    };
    if answer < 0 {
        return Err(Error::Read {
            what: "a program's information".to_owned(),
            source: io::Error::from_raw_os_error(-answer),
        });
    }
    Ok(info)
}
