// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames put on a cable as they are.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use etherparse::{SlicedPacket, TransportSlice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tidegate_lab::Namespace;

/// A socket for the frames of an interface; it hears those of `protocol`, in network order.
fn packet_socket(name: &str, protocol: u16) -> OwnedFd {
    let index = nix::net::if_::if_nametoindex(name).unwrap();
    // SAFETY: plain system call; the answer is checked below.
    let fd = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol))
    };
    assert!(fd >= 0, "{}", io::Error::last_os_error());
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol;
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
    fd
}

/// An interface to send from.
pub struct Wire(OwnedFd);

impl Wire {
    /// Opens the interface `name` of the calling thread's namespace.
    pub fn open(name: &str) -> Self {
        Wire(packet_socket(name, 0))
    }

    /// Sends one frame; false where the kernel itself refuses it.
    pub fn send(&self, frame: &[u8]) -> bool {
        // SAFETY: the buffer is as long as announced.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        sent == frame.len() as isize
    }
}

/// Hears what leaves by an interface.
pub struct Tap(OwnedFd);

impl Tap {
    /// Listens on the interface `name` of the calling thread's namespace.
    pub fn open(name: &str) -> Self {
        let everything = (libc::ETH_P_ALL as u16).to_be();
        Tap(packet_socket(name, everything))
    }

    /// The next frame that leaves, within `patience`.
    pub fn next(&self, patience: Duration) -> Option<Vec<u8>> {
        let until = Instant::now() + patience;
        let mut frame = [0u8; 2048];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let wait = PollTimeout::try_from(left).unwrap();
            if poll(&mut [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)], wait) != Ok(1) {
                return None;
            }
            // SAFETY: all zero is a valid value of this plain C structure.
            let mut from: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
            let mut bytes = size_of::<libc::sockaddr_ll>() as u32;
            // SAFETY: the buffer and the address are as long as announced.
            let length = unsafe {
                libc::recvfrom(
                    self.0.as_raw_fd(),
                    frame.as_mut_ptr().cast(),
                    frame.len(),
                    0,
                    (&raw mut from).cast(),
                    &raw mut bytes,
                )
            };
            // On loopback the same frame comes in as well.
            if length > 0 && from.sll_pkttype == libc::PACKET_OUTGOING {
                return Some(frame[..length as usize].to_vec());
            }
        }
    }

    /// The next SYN/ACK that leaves.
    pub fn syn_ack(&self) -> Vec<u8> {
        let mut heard = std::iter::from_fn(|| self.next(Duration::from_secs(5)));
        heard.find(|frame| is_syn_ack(frame)).expect("a SYN/ACK")
    }
}

/// Neighbours and routers are spoken to as well.
fn is_syn_ack(frame: &[u8]) -> bool {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    matches!(sliced.transport, Some(TransportSlice::Tcp(tcp)) if tcp.syn() && tcp.ack())
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
