// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An AF_PACKET socket, for where AF_XDP does not work (packet(7)).
//!
//! The kernel's TCP sees the same packets: this is only for addresses that are not this host's.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;

use crate::raw::Failure;
use crate::raw::ring::{option_at, set_option_at};
use crate::raw::xsk::FRAME_BYTES;

const BATCH: usize = 64;
/// Segments that the sender's device was to cut, or that were put together here, come whole.
const LONGEST_BYTES: usize = 14 + 65_536;
/// So that a burst finds room, in the kernel's own reckoning of bytes.
const BUFFER_BYTES: libc::c_int = 64 << 20;

/// The half that frames arrive at.
#[derive(Debug)]
pub(crate) struct Receiver {
    frames: Vec<u8>,
    socket: Rc<OwnedFd>,
}

/// The half that frames leave by.
#[derive(Debug)]
pub(crate) struct Transmitter {
    frames: Box<[[u8; FRAME_BYTES]; BATCH]>,
    lengths: Vec<usize>,
    socket: Rc<OwnedFd>,
    /// Frames that found no room.
    pub lost: u64,
}

/// Opens a socket on an interface.
///
/// # Errors
/// The step that failed.
pub(crate) fn open(interface: u32) -> Result<(Receiver, Transmitter), Failure> {
    let at = |step: &'static str| move |error| (step, error);
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is passed. Protocol 0 receives nothing until it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(("open an AF_PACKET socket", io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is fresh and nobody else owns it.
    let socket = Rc::new(unsafe { OwnedFd::from_raw_fd(fd) });
    let fd = socket.as_fd();
    let yes: libc::c_int = 1;
    set_option_at(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &yes)
        .map_err(at("leave out our own packets"))?;
    // Refused without CAP_NET_ADMIN or by older kernels, and then only slower.
    let _ = set_option_at(fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &yes);
    let _ = set_option_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &BUFFER_BYTES);
    let _ = set_option_at(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER_BYTES);
    bind(fd, interface).map_err(at("bind an AF_PACKET socket"))?;
    let frames = vec![[0; FRAME_BYTES]; BATCH].into_boxed_slice();
    Ok((
        Receiver { frames: vec![0; BATCH * LONGEST_BYTES], socket: socket.clone() },
        Transmitter {
            frames: frames.try_into().expect("as many as a batch"),
            lengths: Vec::with_capacity(BATCH),
            socket,
            lost: 0,
        },
    ))
}

impl Receiver {
    /// Shows frames that have arrived, at most a batch, and says how many.
    pub(crate) fn each(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let mut places: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.frames[index * LONGEST_BYTES..].as_mut_ptr().cast(),
            iov_len: LONGEST_BYTES,
        });
        let mut messages = messages(&mut places);
        // SAFETY: each message has one place, which is valid for as many bytes as it says.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        for (index, message) in messages[..count].iter().enumerate() {
            let start = index * LONGEST_BYTES;
            show(&self.frames[start..start + message.msg_len as usize]);
        }
        count
    }

    /// Frames that arrived and found no room, since it was last asked.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: two numbers.
        let told: io::Result<libc::tpacket_stats> =
            unsafe { option_at(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS) };
        told.map_or(0, |told| told.tp_drops.into())
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transmitter {
    /// Has a frame written, to be sent with the next flush; `write` says how long it has become.
    #[inline]
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut [u8; FRAME_BYTES]) -> usize) {
        if self.lengths.len() == BATCH {
            self.flush();
        }
        let bytes = write(&mut self.frames[self.lengths.len()]);
        self.lengths.push(bytes);
    }

    /// Sends what was written. What finds no room is lost, as in a full queue.
    pub(crate) fn flush(&mut self) {
        let whole = self.lengths.len();
        if whole == 0 {
            return;
        }
        let mut places: [libc::iovec; BATCH] = std::array::from_fn(|index| libc::iovec {
            iov_base: self.frames[index].as_mut_ptr().cast(),
            iov_len: self.lengths.get(index).copied().unwrap_or(0),
        });
        let mut messages = messages(&mut places);
        let mut sent = 0;
        while sent < whole {
            let left = &mut messages[sent..whole];
            // SAFETY: each message has one place, which is valid for as many bytes as it says.
            let count = unsafe {
                libc::sendmmsg(
                    self.socket.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            // The first of the rest was refused.
            let gone = usize::try_from(count).unwrap_or(0);
            self.lost += u64::from(gone == 0);
            sent += gone.max(1);
        }
        self.lengths.clear();
    }
}

fn messages(places: &mut [libc::iovec; BATCH]) -> [libc::mmsghdr; BATCH] {
    std::array::from_fn(|index| {
        // SAFETY: pointers and lengths, for which all zero means none.
        let mut message: libc::mmsghdr = unsafe { zeroed() };
        message.msg_hdr.msg_iov = &raw mut places[index];
        message.msg_hdr.msg_iovlen = 1;
        message
    })
}

fn bind(socket: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    // SAFETY: numbers and bytes, for which all zero is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface.cast_signed();
    // SAFETY: the kernel reads as many bytes as the address has, during the call.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
