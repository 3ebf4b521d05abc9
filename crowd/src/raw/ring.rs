// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rings that an AF_XDP socket shares with the kernel (Linux, Documentation/networking/af_xdp).
//!
//! Each has one producer and one consumer, one of which is the kernel. Counters run freely and
//! wrap; an entry's place is its counter modulo the ring's size, a power of two.

use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of the kernel's making or of ours, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    /// Fresh memory, all zero, in pages that are there from the start, and this process's alone: a
    /// child would get a copy of each page that the kernel holds on to, when it is forked.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let mapping = Self::new(bytes, flags, -1, 0)?;
        // SAFETY: the whole of a mapping that is ours, and no child of ours uses it.
        let answer = unsafe {
            libc::madvise(mapping.start.as_ptr().cast(), mapping.bytes, libc::MADV_DONTFORK)
        };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(mapping) }
    }

    fn of(socket: BorrowedFd<'_>, bytes: usize, offset: i64) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::new(bytes, flags, socket.as_raw_fd(), offset)
    }

    fn new(bytes: usize, flags: i32, fd: i32, offset: i64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place, so nothing that is in use is mapped over.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, fd, offset) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("mmap never answers with address 0");
        Ok(Self { start, bytes })
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// A pointer into it.
    fn at<T>(&self, offset: u64) -> NonNull<T> {
        let offset = usize::try_from(offset).expect("offsets are within a mapping");
        assert!(offset + size_of::<T>() <= self.bytes, "the kernel's offsets are inside");
        // SAFETY: the sum is inside the mapping, as was just checked.
        unsafe { self.start.add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this object alone owns the mapping, and nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// Which of a socket's four rings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Receive,
    Transmit,
    Fill,
    Completion,
}

impl Kind {
    /// The socket option that sizes it, and where to map it.
    fn option_and_offset(self) -> (i32, i64) {
        match self {
            Self::Receive => (libc::XDP_RX_RING, libc::XDP_PGOFF_RX_RING),
            Self::Transmit => (libc::XDP_TX_RING, libc::XDP_PGOFF_TX_RING),
            Self::Fill => (libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_PGOFF_FILL_RING as i64),
            Self::Completion => {
                (libc::XDP_UMEM_COMPLETION_RING, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64)
            }
        }
    }
}

/// What both ends of a ring have in common. `T` is the entry: an address or a descriptor.
#[derive(Debug)]
struct Shared<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    mask: u32,
    _mapping: Mapping,
    _entry: PhantomData<T>,
}

impl<T: Copy> Shared<T> {
    fn new(socket: BorrowedFd<'_>, kind: Kind, size: u32) -> io::Result<Self> {
        assert!(size.is_power_of_two(), "the kernel takes only powers of two");
        let (option, offset) = kind.option_and_offset();
        set_option(socket, option, &size)?;
        let offsets = offsets(socket)?;
        let places = match kind {
            Kind::Receive => offsets.rx,
            Kind::Transmit => offsets.tx,
            Kind::Fill => offsets.fr,
            Kind::Completion => offsets.cr,
        };
        let bytes = places.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::of(socket, bytes, offset)?;
        Ok(Self {
            producer: mapping.at(places.producer),
            consumer: mapping.at(places.consumer),
            flags: mapping.at(places.flags),
            entries: mapping.at(places.desc),
            mask: size - 1,
            _mapping: mapping,
            _entry: PhantomData,
        })
    }

    fn producer(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and touched only as an atomic by either side.
        unsafe { self.producer.as_ref() }
    }

    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as for the producer.
        unsafe { self.consumer.as_ref() }
    }

    fn needs_wakeup(&self) -> bool {
        // SAFETY: as for the producer.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    fn entry(&self, counter: u32) -> *mut T {
        // SAFETY: the mask keeps the index below the ring's size.
        unsafe { self.entries.as_ptr().add((counter & self.mask) as usize) }
    }
}

/// The end that puts entries in: of the fill and the transmit ring.
#[derive(Debug)]
pub(crate) struct Producer<T> {
    ring: Shared<T>,
    /// Entries written, published or not.
    written: u32,
    /// How far the kernel was when we last looked.
    taken: u32,
}

impl<T: Copy> Producer<T> {
    pub(crate) fn new(socket: BorrowedFd<'_>, kind: Kind, size: u32) -> io::Result<Self> {
        Ok(Self { ring: Shared::new(socket, kind, size)?, written: 0, taken: 0 })
    }

    /// Writes one entry; false when the ring is full. The kernel sees it after
    /// [`Producer::publish`].
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.written.wrapping_sub(self.taken) > self.ring.mask {
            self.taken = self.ring.consumer().load(Ordering::Acquire);
            if self.written.wrapping_sub(self.taken) > self.ring.mask {
                return false;
            }
        }
        // SAFETY: the kernel has taken whatever stood here, and looks here again only after
        // publish().
        unsafe { self.ring.entry(self.written).write(entry) };
        self.written = self.written.wrapping_add(1);
        true
    }

    #[inline]
    pub(crate) fn publish(&mut self) {
        self.ring.producer().store(self.written, Ordering::Release);
    }

    /// Whether the kernel waits for a system call before it looks.
    #[inline]
    pub(crate) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// Whether the kernel has not taken everything published.
    #[inline]
    pub(crate) fn is_pending(&mut self) -> bool {
        self.taken = self.ring.consumer().load(Ordering::Acquire);
        self.taken != self.ring.producer().load(Ordering::Relaxed)
    }
}

/// The end that takes entries out: of the receive and the completion ring.
#[derive(Debug)]
pub(crate) struct Consumer<T> {
    ring: Shared<T>,
    taken: u32,
    /// How far the kernel was when we last looked.
    written: u32,
}

impl<T: Copy> Consumer<T> {
    pub(crate) fn new(socket: BorrowedFd<'_>, kind: Kind, size: u32) -> io::Result<Self> {
        Ok(Self { ring: Shared::new(socket, kind, size)?, taken: 0, written: 0 })
    }

    /// Looks how far the kernel is, and says how many entries there are to take.
    #[inline]
    pub(crate) fn waiting(&mut self) -> u32 {
        self.written = self.ring.producer().load(Ordering::Acquire);
        self.written.wrapping_sub(self.taken)
    }

    /// Takes one entry. Its place goes back to the kernel with [`Consumer::release`].
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.taken == self.written && self.waiting() == 0 {
            return None;
        }
        // SAFETY: the kernel published this entry and does not write it again before release().
        let entry = unsafe { self.ring.entry(self.taken).read() };
        self.taken = self.taken.wrapping_add(1);
        Some(entry)
    }

    #[inline]
    pub(crate) fn release(&mut self) {
        self.ring.consumer().store(self.taken, Ordering::Release);
    }
}

/// Sets an option of level `SOL_XDP`.
pub(crate) fn set_option<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    set_option_at(socket, libc::SOL_XDP, option, value)
}

/// Sets an option of any level.
pub(crate) fn set_option_at<T>(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: &T,
) -> io::Result<()> {
    let bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads as many bytes as the value has, during the call.
    let answer = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, ptr::from_ref(value).cast(), bytes)
    };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// What an option of any level says.
///
/// # Safety
/// `T` is the option's own type, and made of numbers: all zero, and whatever the kernel writes, is
/// valid.
pub(crate) unsafe fn option_at<T>(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
) -> io::Result<T> {
    // SAFETY: the caller's.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut bytes = size_of::<T>() as libc::socklen_t;
    let place = (&raw mut value).cast();
    // SAFETY: the kernel writes at most as many bytes as are announced.
    let answer =
        unsafe { libc::getsockopt(socket.as_raw_fd(), level, option, place, &raw mut bytes) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: four groups of numbers.
    unsafe { option_at(socket, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS) }
}
