// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is on the wire, and a peer that does as it is told.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};

/// A segment as it was captured.
#[derive(Clone, Debug)]
pub struct Captured {
    pub at: Duration,
    pub from: IpAddr,
    pub to: IpAddr,
    pub ports: (u16, u16),
    pub seq: u32,
    pub ack: u32,
    /// The header's 14th byte.
    pub flags: u8,
    pub window: u16,
    pub ttl: u8,
    /// The options' bytes.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

impl Captured {
    /// The kinds of its options, in order.
    pub fn option_kinds(&self) -> Vec<u8> {
        let (mut kinds, mut at) = (Vec::new(), 0);
        while at < self.options.len() {
            let kind = self.options[at];
            kinds.push(kind);
            at += if kind < 2 { 1 } else { usize::from(self.options[at + 1]) };
        }
        kinds
    }

    /// Its timestamps option: value and echo.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let at = self.options.windows(2).position(|two| two == [8, 10])?;
        let number = |at: usize| u32::from_be_bytes(self.options[at..at + 4].try_into().unwrap());
        Some((number(at + 2), number(at + 6)))
    }
}

/// Takes down what arrives, as it arrives.
pub struct Capture {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Captured>>,
}

impl Capture {
    pub fn on(wire: Wire) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = std::thread::spawn(move || {
            let mut captured = Vec::new();
            loop {
                // Asked before, so that nothing of the run is left behind.
                let was_over = is_over.load(Ordering::Acquire);
                match wire.next(Duration::from_millis(100)) {
                    Some(segment) => captured.push(segment),
                    None if was_over => return captured,
                    None => {}
                }
            }
        });
        Self { over, thread }
    }

    /// All that has arrived, in order.
    pub fn end(self) -> Vec<Captured> {
        self.over.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

/// The kernel begins to stamp what arrives a moment after the first socket asks for it, from a work
/// queue (`net_enable_timestamp()`); until then a packet has the time at which it is read. Waits
/// until a datagram that lay unread for a while has the time at which it came.
fn wait_for_stamps() {
    const UNREAD: Duration = Duration::from_millis(20);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    setsockopt(&socket, ReceiveTimestampns, &true).unwrap();
    for _ in 0..250 {
        socket.send_to(b"now", socket.local_addr().unwrap()).unwrap();
        let sent = SystemTime::now();
        std::thread::sleep(UNREAD);
        let mut control = nix::cmsg_space!(libc::timespec);
        let mut bytes = [0; 8];
        let mut places = [io::IoSliceMut::new(&mut bytes)];
        let fd = socket.as_raw_fd();
        let received =
            recvmsg::<()>(fd, &mut places, Some(&mut control), MsgFlags::empty()).unwrap();
        let stamp = received.cmsgs().unwrap().next();
        let Some(ControlMessageOwned::ScmTimestampns(at)) = stamp else { panic!("{stamp:?}") };
        if SystemTime::UNIX_EPOCH + Duration::from(at) < sent + UNREAD / 2 {
            return;
        }
    }
    panic!("the kernel does not stamp packets as they arrive");
}

/// A packet socket on an interface of the calling thread's network namespace.
pub struct Wire {
    socket: OwnedFd,
}

impl Wire {
    pub fn on(interface: &str) -> Self {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let protocol = i32::from((libc::ETH_P_ALL as u16).to_be());
        // SAFETY: no memory is passed, and the descriptor is fresh.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, kind, protocol);
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        // SAFETY: all zero is a valid address of this kind.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = nix::net::if_::if_nametoindex(interface).unwrap() as i32;
        let bytes = size_of_val(&address) as u32;
        let (one, room): (i32, i32) = (1, 64 << 20);
        // SAFETY: each call reads as many bytes as the value passed has.
        unsafe {
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes), 0);
            for (level, option, value) in [
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &one),
                (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &room),
                (libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &one),
            ] {
                let value: *const i32 = value;
                let fd = socket.as_raw_fd();
                assert_eq!(libc::setsockopt(fd, level, option, value.cast(), 4), 0);
            }
        }
        wait_for_stamps();
        Self { socket }
    }

    /// The next TCP segment that arrives, within this time.
    pub fn next(&self, within: Duration) -> Option<Captured> {
        let begun = std::time::Instant::now();
        loop {
            let left = within.checked_sub(begun.elapsed())?;
            let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: 1, revents: 0 };
            // SAFETY: one entry is passed, and one is announced.
            let ready = unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as i32 + 1) };
            if ready <= 0 {
                return None;
            }
            if let Some(captured) = self.receive() {
                return Some(captured);
            }
        }
    }

    fn receive(&self) -> Option<Captured> {
        let mut frame = vec![0_u8; 70_000];
        let mut control = [0_u64; 16];
        let mut place = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: all zero is an empty header; what is put into it outlives the calls.
        let (count, at) = unsafe {
            let mut header: libc::msghdr = std::mem::zeroed();
            header.msg_iov = &raw mut place;
            header.msg_iovlen = 1;
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control);
            let count = libc::recvmsg(self.socket.as_raw_fd(), &raw mut header, 0);
            assert!(count >= 0, "{}", io::Error::last_os_error());
            let stamp = libc::CMSG_FIRSTHDR(&raw const header);
            assert!(!stamp.is_null(), "the kernel stamps what arrives");
            let at: libc::timespec = libc::CMSG_DATA(stamp).cast::<libc::timespec>().read();
            (count as usize, Duration::new(at.tv_sec as u64, at.tv_nsec as u32))
        };
        let packet = SlicedPacket::from_ethernet(&frame[..count]).ok()?;
        let (from, to, ttl): (IpAddr, IpAddr, u8) = match packet.net? {
            NetSlice::Ipv4(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into(), header.ttl())
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into(), header.hop_limit())
            }
            _ => return None,
        };
        let Some(TransportSlice::Tcp(tcp)) = packet.transport else { return None };
        Some(Captured {
            at,
            from,
            to,
            ports: (tcp.source_port(), tcp.destination_port()),
            seq: tcp.sequence_number(),
            ack: tcp.acknowledgment_number(),
            flags: tcp.slice()[13],
            window: tcp.window_size(),
            ttl,
            options: tcp.options().to_vec(),
            payload: tcp.payload().to_vec(),
        })
    }

    /// Answers a segment: over IPv4, with sequence numbers of the peer's own.
    pub fn answer(
        &self,
        to: &Captured,
        macs: ([u8; 6], [u8; 6]),
        flags: u8,
        (seq, ack): (u32, u32),
        payload: &[u8],
    ) {
        let (IpAddr::V4(client), IpAddr::V4(server)) = (to.from, to.to) else {
            panic!("the peer speaks IPv4")
        };
        let echo = to.timestamps().map_or(0, |(value, _)| value);
        let mut options = vec![
            TcpOptionElement::Noop,
            TcpOptionElement::Noop,
            TcpOptionElement::Timestamp(7_000_000, echo),
        ];
        if flags & SYN != 0 {
            options = vec![
                TcpOptionElement::MaximumSegmentSize(1460),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
                TcpOptionElement::Timestamp(7_000_000, echo),
                TcpOptionElement::Noop,
                TcpOptionElement::WindowScale(7),
            ];
        }
        let mut builder = PacketBuilder::ethernet2(macs.0, macs.1)
            .ipv4(server.octets(), client.octets(), 64)
            .tcp(to.ports.1, to.ports.0, seq, 65_160);
        for (bit, set) in [FIN, SYN, RST, PSH, ACK].map(|bit| (bit, flags & bit != 0)) {
            builder = match (bit, set) {
                (FIN, true) => builder.fin(),
                (SYN, true) => builder.syn(),
                (RST, true) => builder.rst(),
                (PSH, true) => builder.psh(),
                (ACK, true) => builder.ack(ack),
                _ => builder,
            };
        }
        let mut frame = Vec::new();
        builder.options(&options).unwrap().write(&mut frame, payload).unwrap();
        // SAFETY: the kernel reads as many bytes as the frame has.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }
}
