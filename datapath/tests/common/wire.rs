// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames put on a cable as they are.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use tidegate_lab::Namespace;

/// An interface to send from.
pub struct Wire(OwnedFd);

impl Wire {
    /// Opens the interface `name` of the calling thread's namespace.
    pub fn open(name: &str) -> Self {
        let index = nix::net::if_::if_nametoindex(name).unwrap();
        // SAFETY: plain system call; the answer is checked below.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: a fresh descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zero is a valid value of this plain C structure.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        // SAFETY: the address is as long as announced.
        let answer = unsafe {
            libc::bind(
                fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as u32,
            )
        };
        assert_eq!(answer, 0, "{}", io::Error::last_os_error());
        Wire(fd)
    }

    /// Sends one frame; false where the kernel itself refuses it.
    pub fn send(&self, frame: &[u8]) -> bool {
        // SAFETY: the buffer is as long as announced.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        sent == frame.len() as isize
    }
}

/// The address of an interface's frames.
pub fn hardware_address(namespace: &Namespace, name: &str) -> [u8; 6] {
    let text = namespace.read_file(format!("/sys/class/net/{name}/address")).unwrap();
    let mut address = [0; 6];
    for (byte, digits) in address.iter_mut().zip(text.trim().split(':')) {
        *byte = u8::from_str_radix(digits, 16).unwrap();
    }
    address
}
