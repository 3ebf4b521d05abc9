// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An AF_XDP socket on one queue of an interface: frames in, frames out.

use std::io;
use std::mem::size_of_val;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::rc::Rc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::raw::Failure;
use crate::raw::ring::{Consumer, Kind, Mapping, Producer, option_at, set_option, set_option_at};

/// Room for a frame. More than an Ethernet of 1500 bytes needs, and the kernel's smallest chunk.
pub(crate) const FRAME_BYTES: usize = 2048;
/// Frames taken at one time.
const BATCH: u32 = 256;
/// A processor that is taken away for some ms must not cost frames.
const RECEIVE_FRAMES: u32 = 8192;
/// Where a packet may take a dozen of them. Memory is there from the start, and takes its time to
/// come: no more of it than needed.
const RECEIVE_FRAMES_IN_PIECES: u32 = 32_768;
const TRANSMIT_FRAMES: u32 = 8192;
/// What may be under way in the kernel, in its own reckoning of bytes: never the bottleneck.
const SEND_BUFFER_BYTES: libc::c_int = 256 << 20;
/// Frames that the kernel sends for one call (Linux 6.17; 32 before).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const SENT_PER_CALL: u32 = 256;
/// The kernel gives a closed socket's queue back a moment later.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_STEP: Duration = Duration::from_millis(2);
/// How long a full device is waited for before a frame is lost, as in a full queue.
const FULL_MAX: Duration = Duration::from_millis(20);

/// A packet goes on in the next entry (`linux/if_xdp.h`).
const XDP_PKT_CONTD: u32 = 1;
/// Packets may come in several frames (`linux/if_xdp.h`, Linux 6.6).
const XDP_USE_SG: u16 = 1 << 4;

/// The half that frames arrive at.
#[derive(Debug)]
pub(crate) struct Receiver {
    fill: Producer<u64>,
    ring: Consumer<libc::xdp_desc>,
    memory: Rc<Mapping>,
    socket: Rc<OwnedFd>,
    /// What has come of a packet in several frames.
    begun: Vec<u8>,
}

/// The half that frames leave by.
#[derive(Debug)]
pub(crate) struct Transmitter {
    ring: Producer<libc::xdp_desc>,
    completion: Consumer<u64>,
    /// Addresses of frames that nobody uses.
    free: Vec<u64>,
    unsent: u32,
    memory: Rc<Mapping>,
    socket: Rc<OwnedFd>,
    /// Frames that found no room, here or at the device, or, at a veth, right behind it.
    pub lost: u64,
}

/// Opens a socket on a queue of an interface. Zero-copy where the driver can, else copying.
/// `in_pieces`: a packet may come in several frames, which needs Linux 6.6.
///
/// # Errors
/// The step that failed.
pub(crate) fn open(
    interface: u32,
    queue: u32,
    in_pieces: bool,
) -> Result<(Receiver, Transmitter), Failure> {
    let at = |step: &'static str| move |error| (step, error);
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(("open an AF_XDP socket", io::Error::last_os_error()));
    }
    // SAFETY: the descriptor is fresh and nobody else owns it.
    let socket = Rc::new(unsafe { OwnedFd::from_raw_fd(fd) });
    let fd = socket.as_fd();
    let arriving = if in_pieces { RECEIVE_FRAMES_IN_PIECES } else { RECEIVE_FRAMES };
    let frames = arriving + TRANSMIT_FRAMES;
    let memory = Mapping::anonymous(frames as usize * FRAME_BYTES).map_err(at("reserve memory"))?;
    let memory = Rc::new(memory);
    register(fd, &memory).map_err(at("share memory with an AF_XDP socket"))?;
    let ring = "make an AF_XDP socket's rings";
    let mut fill = Producer::new(fd, Kind::Fill, arriving).map_err(at(ring))?;
    let completion = Consumer::new(fd, Kind::Completion, TRANSMIT_FRAMES).map_err(at(ring))?;
    let receive = Consumer::new(fd, Kind::Receive, arriving).map_err(at(ring))?;
    let transmit = Producer::new(fd, Kind::Transmit, TRANSMIT_FRAMES).map_err(at(ring))?;
    let address = |frame: u32| u64::from(frame) * FRAME_BYTES as u64;
    for frame in 0..arriving {
        fill.push(address(frame));
    }
    fill.publish();
    // Refused without CAP_NET_ADMIN or by older kernels, and then only slower.
    let _ = set_option_at(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &SEND_BUFFER_BYTES);
    let _ = set_option(fd, XDP_MAX_TX_SKB_BUDGET, &SENT_PER_CALL);
    let flags = libc::XDP_USE_NEED_WAKEUP | if in_pieces { XDP_USE_SG } else { 0 };
    bind(fd, interface, queue, flags).map_err(at("bind an AF_XDP socket"))?;
    let free = (arriving..frames).rev().map(address).collect();
    Ok((
        Receiver {
            fill,
            ring: receive,
            memory: memory.clone(),
            socket: socket.clone(),
            begun: Vec::new(),
        },
        Transmitter { ring: transmit, completion, free, unsent: 0, memory, socket, lost: 0 },
    ))
}

impl Receiver {
    /// Shows packets that have arrived, of at most a batch of frames, and says how many frames. What
    /// arrives meanwhile did so later than its caller's clock has it, and is left to the next time.
    pub(crate) fn each(&mut self, mut show: impl FnMut(&[u8])) -> usize {
        let Self { fill, ring, memory, socket, begun } = self;
        let count = ring.waiting().min(BATCH);
        for entry in (0..count).map_while(|_| ring.pop()) {
            let bytes = frame(memory, &entry);
            let goes_on = entry.options & XDP_PKT_CONTD != 0;
            if begun.is_empty() && !goes_on {
                show(bytes);
            } else {
                begun.extend_from_slice(bytes);
                if !goes_on {
                    show(begun);
                    begun.clear();
                }
            }
            // To be filled anew. The kernel asks for the frame, wherever in it the packet began.
            fill.push(entry.addr & !(FRAME_BYTES as u64 - 1));
        }
        if count > 0 {
            ring.release();
            fill.publish();
            if fill.needs_wakeup() {
                wake_to_receive(socket.as_fd());
            }
        }
        count as usize
    }

    /// Frames that arrived and found no room.
    pub(crate) fn lost(&self) -> u64 {
        // SAFETY: six numbers.
        let told: io::Result<libc::xdp_statistics> =
            unsafe { option_at(self.socket.as_fd(), libc::SOL_XDP, libc::XDP_STATISTICS) };
        told.map_or(0, |told| told.rx_dropped + told.rx_ring_full)
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Transmitter {
    /// Has a frame written and puts it in the ring; `write` says how long it has become.
    ///
    /// A device that stays full loses the frame.
    #[inline]
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut [u8; FRAME_BYTES]) -> usize) {
        let Some(address) = self.free.pop().or_else(|| self.wait_for_room()) else {
            self.lost += 1;
            return;
        };
        let start = usize::try_from(address).expect("addresses are within memory");
        // SAFETY: a frame of ours that is in no ring, inside the shared memory; frames do not
        // overlap, and the reference ends before the kernel hears of it.
        let frame = unsafe { &mut *self.memory.start().as_ptr().add(start).cast() };
        let bytes = write(frame);
        let pushed =
            self.ring.push(libc::xdp_desc { addr: address, len: bytes as u32, options: 0 });
        // There are as many entries as frames.
        debug_assert!(pushed);
        self.unsent += 1;
    }

    /// Has the kernel send what is in the ring.
    pub(crate) fn flush(&mut self) {
        if self.unsent == 0 && !self.ring.is_pending() {
            return;
        }
        self.ring.publish();
        self.unsent = 0;
        while self.ring.needs_wakeup() && self.ring.is_pending() {
            // SAFETY: no memory is passed.
            let answer = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            if answer < 0 {
                match io::Error::last_os_error().raw_os_error() {
                    // Its budget for one call is spent, or memory is.
                    Some(libc::EAGAIN) => {}
                    // The device dropped one, as a full queue does. A veth's own queue is the backlog of
                    // whoever is at its other end, and the error does not tell the two apart.
                    Some(libc::EBUSY) => self.lost += 1,
                    _ => break,
                }
            }
            self.reap();
        }
    }

    fn reap(&mut self) {
        while let Some(address) = self.completion.pop() {
            self.free.push(address);
        }
        self.completion.release();
    }

    #[cold]
    fn wait_for_room(&mut self) -> Option<u64> {
        self.reap();
        let begun = Instant::now();
        while self.free.is_empty() && begun.elapsed() < FULL_MAX {
            self.flush();
            self.reap();
        }
        self.free.pop()
    }
}

/// A frame that has arrived.
#[inline]
fn frame<'a>(memory: &'a Mapping, entry: &libc::xdp_desc) -> &'a [u8] {
    let (start, bytes) = (entry.addr as usize, entry.len as usize);
    assert!(start + bytes <= memory.len(), "the kernel's addresses are inside");
    // SAFETY: inside the shared memory, and the kernel leaves this frame alone until it is
    // published in the fill ring, after it was shown.
    unsafe { std::slice::from_raw_parts(memory.start().as_ptr().add(start).cast_const(), bytes) }
}

fn register(socket: BorrowedFd<'_>, memory: &Mapping) -> io::Result<()> {
    let region = libc::xdp_umem_reg {
        addr: memory.start().as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: FRAME_BYTES as u32,
        headroom: 0,
        flags: 0,
        tx_metadata_len: 0,
    };
    set_option(socket, libc::XDP_UMEM_REG, &region)
}

fn bind(socket: BorrowedFd<'_>, interface: u32, queue: u32, flags: u16) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: flags,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let begun = Instant::now();
    loop {
        // SAFETY: the kernel reads as many bytes as the address has, during the call.
        let answer = unsafe {
            libc::bind(
                socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of_val(&address) as libc::socklen_t,
            )
        };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EBUSY) || begun.elapsed() > BUSY_MAX {
            return Err(error);
        }
        sleep(BUSY_STEP);
    }
}

/// A driver that copies nothing has to be told that there are frames to fill.
fn wake_to_receive(socket: BorrowedFd<'_>) {
    // SAFETY: no memory is passed: nothing is received by this call.
    unsafe {
        libc::recvfrom(
            socket.as_raw_fd(),
            std::ptr::null_mut(),
            0,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )
    };
}
