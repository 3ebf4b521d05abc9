// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The backlog of listening sockets that other processes have: changed from outside, by listen() on
//! a duplicate of their descriptor. Linux only stores the new limit (`__inet_listen_sk()`): what waits
//! in the queue stays there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use nix::sys::socket::{getsockopt, sockopt};
use nix::sys::stat::fstat;

/// A duplicate of another process's descriptor of a listening socket.
#[derive(Debug)]
pub struct Listening(OwnedFd);

impl Listening {
    /// The socket's backlog now: TCP_INFO has it where acknowledged segments are counted in other states
    /// (`tcp_get_info()`, since Linux 2.6.24).
    pub fn backlog(&self) -> io::Result<u32> {
        // SAFETY: all zero is a tcp_info, of integers alone.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut bytes = size_of_val(&info) as libc::socklen_t;
        // SAFETY: an open socket, and room for as many bytes as are told.
        let done = unsafe {
            let info = (&raw mut info).cast();
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info,
                &mut bytes,
            )
        };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(info.tcpi_sacked) }
    }

    /// Gives the socket another backlog, and tells which it has then: the kernel grants `net.core.somaxconn`
    /// at most, which may be another by now than whoever asks has read.
    pub fn set_backlog(&self, backlog: u32) -> io::Result<u32> {
        let asked = i32::try_from(backlog).unwrap_or(i32::MAX);
        // SAFETY: an open socket; listen() takes no pointer.
        match unsafe { libc::listen(self.0.as_raw_fd(), asked) } {
            0 => Ok(self.backlog().unwrap_or(backlog)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The descriptor that a call has made, or its error.
fn made(answer: libc::c_long) -> io::Result<OwnedFd> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns; descriptors fit an int.
    Ok(unsafe { OwnedFd::from_raw_fd(answer as i32) })
}

/// pidfd_open(2), Linux 5.3, and pidfd_getfd(2), 5.6: needs CAP_SYS_PTRACE.
fn duplicate_of(process: i32, descriptor: i32) -> io::Result<OwnedFd> {
    // SAFETY: two integers; no pointer.
    let process = made(unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) })?;
    let process = process.as_raw_fd();
    // SAFETY: an open descriptor and two integers; no pointer.
    made(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process, descriptor, 0) })
}

/// Takes a descriptor, if it is still this socket's, and that still listens: another one may have its
/// number by now, and listen() would make a socket listen that has stopped to.
fn take_one(process: i32, descriptor: i32, inode: u64) -> io::Result<Listening> {
    let duplicate = duplicate_of(process, descriptor)?;
    let listens = getsockopt(&duplicate, sockopt::AcceptConn)?;
    if fstat(&duplicate)?.st_ino != inode || !listens {
        return Err(io::Error::from(io::ErrorKind::NotFound));
    }
    Ok(Listening(duplicate))
}

/// The numbers among a folder's names: processes of /proc, descriptors of a process.
fn numbers_in(folder: &str) -> Vec<i32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The inode of the socket behind a link in /proc: `socket:[4026]`.
fn inode_of(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// Looks for the processes that have these sockets, takes each from one of them, and hands it to `each`, one at a
/// time: there may be more than this process may have descriptors, and while we have a socket an application that
/// closes it cannot bind again.
/// Of those that were not taken it tells what that met with the last owner; one that is in neither no process here has.
pub fn take(
    inodes: &BTreeSet<u64>,
    mut each: impl FnMut(u64, Listening),
) -> BTreeMap<u64, io::Error> {
    let mut left = inodes.clone();
    let mut refused = BTreeMap::new();
    for process in numbers_in("/proc") {
        let folder = format!("/proc/{process}/fd");
        for descriptor in numbers_in(&folder) {
            if left.is_empty() {
                return refused;
            }
            let link = fs::read_link(PathBuf::from(&folder).join(descriptor.to_string()));
            let inode = link.ok().and_then(|link| inode_of(link.to_str()?));
            let Some(inode) = inode.filter(|inode| left.contains(inode)) else { continue };
            match take_one(process, descriptor, inode) {
                Ok(socket) => {
                    left.remove(&inode);
                    refused.remove(&inode);
                    each(inode, socket);
                }
                Err(error) => {
                    refused.insert(inode, error);
                }
            }
        }
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn links_of_sockets_have_inodes() {
        assert_eq!(inode_of("socket:[4026]"), Some(4026));
        assert_eq!(inode_of("pipe:[4026]"), None);
        assert_eq!(inode_of("/dev/null"), None);
    }

    /// One of our own, which takes no privilege; and none that does not listen.
    #[test]
    fn a_listening_socket_is_found_and_taken_and_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let inode = |fd: &dyn std::os::fd::AsFd| fstat(fd.as_fd()).unwrap().st_ino;
        let (listens, connected) = (inode(&listener), inode(&client));
        let mut found = Vec::new();
        let refused = take(&BTreeSet::from([listens, connected]), |inode, taken| {
            found.push(inode);
            assert_eq!(taken.set_backlog(7).unwrap(), 7);
            assert_eq!(taken.backlog().unwrap(), 7);
            let most = fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
            assert_eq!(taken.set_backlog(u32::MAX).unwrap(), most.trim().parse::<u32>().unwrap());
        });
        assert_eq!(found, [listens]);
        let refused: Vec<_> = refused.iter().map(|(inode, error)| (*inode, error.kind())).collect();
        assert_eq!(refused, [(connected, io::ErrorKind::NotFound)]);
    }

    /// Any user may open as many sockets as this process may have descriptors.
    #[test]
    fn however_many_are_taken_one_is_held_at_a_time() {
        let listeners: Vec<_> =
            (0..32).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let inodes = listeners.iter().map(|listener| fstat(listener).unwrap().st_ino);
        let inodes: BTreeSet<u64> = inodes.collect();
        let mut found = BTreeSet::new();
        let refused = take(&inodes, |inode, taken| {
            found.insert(inode);
            // Of each there are two here: the application's, and the duplicate.
            let links = numbers_in("/proc/self/fd").into_iter().filter_map(|descriptor| {
                inode_of(fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?.to_str()?)
            });
            let ours = links.filter(|inode| inodes.contains(inode)).count();
            assert_eq!(ours, inodes.len() + 1);
            drop(taken);
        });
        assert_eq!(found, inodes);
        assert!(refused.is_empty(), "{refused:?}");
    }
}
