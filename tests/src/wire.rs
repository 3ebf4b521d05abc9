// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A client that writes its own packets, from an address that no kernel owns: nobody answers
//! for it, and it sees every packet that comes back as it is.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tidegate_lab::Namespace;

use crate::option::set_option;
use crate::stage::Stage;

/// The raw client's addresses, on the client's side of the veth.
pub const WIRE_V4: &str = "10.77.0.99";
/// The raw client's addresses.
pub const WIRE_V6: &str = "fd77::99";

/// TCP flags.
pub const FIN: u8 = 0x01;
/// TCP flags.
pub const SYN: u8 = 0x02;
/// TCP flags.
pub const RST: u8 = 0x04;
/// TCP flags.
pub const PSH: u8 = 0x08;
/// TCP flags.
pub const ACK: u8 = 0x10;

/// The options of a SYN of Windows': MSS, window scale and SACK, and no timestamps, so that a SYN/ACK with the
/// kernel's cookie has no place for a window scale.
pub const WINDOWS_OPTIONS: [u8; 12] = [2, 4, 5, 0xb4, 1, 3, 3, 8, 1, 1, 4, 2];

/// MSS 1460, SACK permitted, timestamps, window scale 7: as Linux opens a connection.
pub fn usual_options(tsval: u32) -> Vec<u8> {
    let mut options = vec![2, 4, 5, 0xb4, 4, 2, 8, 10];
    options.extend(tsval.to_be_bytes());
    options.extend([0, 0, 0, 0, 1, 3, 3, 7]);
    options
}

/// The timestamps option of a later segment.
pub fn timestamps(tsval: u32, tsecr: u32) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10];
    options.extend(tsval.to_be_bytes());
    options.extend(tsecr.to_be_bytes());
    options
}

/// IPv6 extension headers of eight bytes each, by their numbers.
pub const HOP_BY_HOP: u8 = 0;
/// IPv6 extension headers.
pub const ROUTING: u8 = 43;
/// IPv6 extension headers.
pub const DESTINATION: u8 = 60;

/// A TCP segment, as it lies on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// VLAN tags, outermost first: protocol and tag control information.
    pub tags: Vec<(u16, u16)>,
    /// IPv6 extension headers, in order.
    pub extensions: Vec<u8>,
    /// The sender.
    pub from: SocketAddr,
    /// The receiver.
    pub to: SocketAddr,
    /// The time to live, or hop limit.
    pub hops: u8,
    /// Its sequence number.
    pub seq: u32,
    /// What it acknowledges.
    pub ack: u32,
    /// TCP flags.
    pub flags: u8,
    /// The window, unscaled.
    pub window: u16,
    /// TCP options.
    pub options: Vec<u8>,
    /// What it carries.
    pub payload: Vec<u8>,
}

fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn pseudo_sum(from: IpAddr, to: IpAddr, tcp_bytes: usize) -> u32 {
    sum(&octets(from)) + sum(&octets(to)) + 6 + tcp_bytes as u32
}

impl Segment {
    /// A segment of nothing but its flags.
    pub fn new(from: SocketAddr, to: SocketAddr, flags: u8, seq: u32, ack: u32) -> Self {
        Segment {
            tags: Vec::new(),
            extensions: Vec::new(),
            from,
            to,
            hops: 64,
            seq,
            ack,
            flags,
            window: 64240,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    fn tcp(&self) -> Vec<u8> {
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        let mut tcp = Vec::new();
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.extend([((20 + options.len()) << 2) as u8, self.flags]);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(&self.payload);
        let check = !fold(sum(&tcp) + pseudo_sum(self.from.ip(), self.to.ip(), tcp.len()));
        tcp[16..18].copy_from_slice(&check.to_be_bytes());
        tcp
    }

    fn ipv4(&self, tcp: &[u8]) -> Vec<u8> {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + tcp.len() as u16).to_be_bytes());
        ip.extend([0, 0, 0x40, 0, self.hops, 6, 0, 0]);
        ip.extend(octets(self.from.ip()));
        ip.extend(octets(self.to.ip()));
        let check = !fold(sum(&ip));
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        ip
    }

    fn ipv6(&self, tcp: &[u8]) -> Vec<u8> {
        let next = |i: usize| self.extensions.get(i).copied().unwrap_or(6);
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend(((self.extensions.len() * 8 + tcp.len()) as u16).to_be_bytes());
        ip.extend([next(0), self.hops]);
        ip.extend(octets(self.from.ip()));
        ip.extend(octets(self.to.ip()));
        for (i, kind) in self.extensions.iter().enumerate() {
            ip.extend([next(i + 1), 0]);
            // A PadN option that fills it; or an experimental routing type with no segment left.
            ip.extend(if *kind == ROUTING { [253, 0, 0, 0, 0, 0] } else { [1, 4, 0, 0, 0, 0] });
        }
        ip
    }

    fn frame(&self, from: [u8; 6], to: [u8; 6]) -> Vec<u8> {
        let mut frame: Vec<u8> = to.into_iter().chain(from).collect();
        for (protocol, tci) in &self.tags {
            frame.extend(protocol.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        let tcp = self.tcp();
        if self.to.is_ipv6() {
            frame.extend(0x86ddu16.to_be_bytes());
            frame.extend(self.ipv6(&tcp));
        } else {
            frame.extend(0x0800u16.to_be_bytes());
            frame.extend(self.ipv4(&tcp));
        }
        frame.extend(tcp);
        frame
    }

    /// Reads a frame; `outer` is a tag that the kernel took off, `checked` says that the
    /// checksum is whole, and is then verified.
    pub fn read(frame: &[u8], outer: Option<(u16, u16)>, checked: bool) -> Option<Self> {
        let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
        let mut tags: Vec<(u16, u16)> = outer.into_iter().collect();
        let mut at = 12;
        while let 0x8100 | 0x88a8 = half(at)? {
            tags.push((half(at)?, half(at + 2)?));
            at += 4;
        }
        let ip = frame.get(at + 2..)?;
        let (from, to, hops, tcp): (IpAddr, IpAddr, u8, &[u8]) = match half(at)? {
            0x0800 if ip.get(9) == Some(&6) => {
                let whole = ip.get(..usize::from(u16::from_be_bytes([ip[2], ip[3]])))?;
                assert_eq!(fold(sum(&ip[..20])), 0xffff, "an IPv4 header's checksum");
                let address = |at: usize| <[u8; 4]>::try_from(&ip[at..at + 4]).expect("four");
                (address(12).into(), address(16).into(), ip[8], &whole[20..])
            }
            0x86dd if ip.get(6) == Some(&6) => {
                let bytes = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
                let address = |at: usize| <[u8; 16]>::try_from(&ip[at..at + 16]).expect("sixteen");
                (address(8).into(), address(24).into(), ip[7], ip.get(40..40 + bytes)?)
            }
            _ => return None,
        };
        if checked {
            let total = fold(sum(tcp) + pseudo_sum(from, to, tcp.len()));
            assert_eq!(total, 0xffff, "the TCP checksum of {frame:02x?}");
        }
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().expect("four"));
        let header_bytes = usize::from(tcp[12] >> 4) * 4;
        Some(Segment {
            tags,
            extensions: Vec::new(),
            from: SocketAddr::new(from, u16::from_be_bytes([tcp[0], tcp[1]])),
            to: SocketAddr::new(to, u16::from_be_bytes([tcp[2], tcp[3]])),
            hops,
            seq: word(4),
            ack: word(8),
            flags: tcp[13],
            window: u16::from_be_bytes([tcp[14], tcp[15]]),
            options: tcp[20..header_bytes].to_vec(),
            payload: tcp[header_bytes..].to_vec(),
        })
    }

    /// The value that its timestamps option tells, where it has one.
    pub fn tsval(&self) -> Option<u32> {
        let mut rest = &self.options[..];
        while let [kind, tail @ ..] = rest {
            match kind {
                0 => return None,
                1 => rest = tail,
                8 => return Some(u32::from_be_bytes(rest.get(2..6)?.try_into().ok()?)),
                _ => rest = rest.get(usize::from(*rest.get(1)?).max(2)..)?,
            }
        }
        None
    }
}

/// The raw client's end of the veth.
pub struct Wire {
    socket: OwnedFd,
    client: [u8; 6],
    server: [u8; 6],
}

fn hardware_address(namespace: &Namespace, name: &str) -> [u8; 6] {
    let text = namespace.read_file(format!("/sys/class/net/{name}/address")).expect("an address");
    let bytes: Vec<u8> =
        text.trim().split(':').map(|b| u8::from_str_radix(b, 16).expect("hexadecimal")).collect();
    bytes.try_into().expect("six bytes")
}

fn packet_socket() -> io::Result<OwnedFd> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    let protocol = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_PACKET, flags, i32::from(protocol)) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // It sees everybody's packets, and is read only now and then.
    for (level, option, value) in [
        (libc::SOL_PACKET, libc::PACKET_AUXDATA, 1i32),
        (libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, 8 << 20),
    ] {
        set_option(&socket, level, option, value)?;
    }
    // SAFETY: all zero is a valid value of this plain C structure.
    let mut at: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_protocol = protocol;
    at.sll_ifindex = nix::net::if_::if_nametoindex("cli0").map_err(io::Error::from)? as i32;
    let bytes = size_of_val(&at) as libc::socklen_t;
    // SAFETY: an address of the length that is told.
    if unsafe { libc::bind(fd, (&raw const at).cast(), bytes) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

const TP_STATUS_CSUMNOTREADY: u32 = 1 << 3;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

impl Wire {
    /// Takes the client's end of the stage's veth.
    pub fn of(stage: &Stage) -> Self {
        stage.client.sysctl("net.ipv4.ip_forward", 0).expect("a client that does not route");
        let client = hardware_address(&stage.client, "cli0");
        let server = hardware_address(&stage.server, "srv0");
        let text: Vec<String> = client.iter().map(|b| format!("{b:02x}")).collect();
        for address in [WIRE_V4, WIRE_V6] {
            let words = format!("neigh replace {address} lladdr {} dev srv0", text.join(":"));
            stage.server.ip(&words).expect("a neighbour that nobody need ask for");
        }
        let socket = stage.client.run(packet_socket).expect("a packet socket");
        Wire { socket, client, server }
    }

    /// Sends a segment.
    pub fn send(&self, segment: &Segment) {
        self.send_frame(&self.frame(segment));
    }

    /// The frame of a segment, to be sent many times.
    pub fn frame(&self, segment: &Segment) -> Vec<u8> {
        segment.frame(self.client, self.server)
    }

    /// Sends a frame.
    pub fn send_frame(&self, frame: &[u8]) {
        // SAFETY: a buffer of the length that is told.
        let sent =
            unsafe { libc::send(self.socket.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        assert_eq!(sent, frame.len() as isize, "{}", io::Error::last_os_error());
    }

    /// The next TCP segment to one of the raw client's addresses, or nothing by `until`.
    pub fn receive(&self, until: Instant) -> Option<Segment> {
        let addresses: [IpAddr; 2] =
            [WIRE_V4.parse().expect("an address"), WIRE_V6.parse().expect("an address")];
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut one = [PollFd::new(std::os::fd::AsFd::as_fd(&self.socket), PollFlags::POLLIN)];
            let patience = PollTimeout::try_from(left).expect("a short wait");
            if !poll(&mut one, patience).is_ok_and(|ready| ready > 0) {
                return None;
            }
            if let Some(segment) = self.read().filter(|s| addresses.contains(&s.to.ip())) {
                return Some(segment);
            }
        }
    }

    /// Every segment to one of its sockets that comes within `patience`.
    pub fn collect(&self, to: SocketAddr, patience: Duration) -> Vec<Segment> {
        let until = Instant::now() + patience;
        std::iter::from_fn(|| self.receive(until)).filter(|s| s.to == to).collect()
    }

    /// One frame, where it is TCP.
    fn read(&self) -> Option<Segment> {
        let mut frame = [0u8; 65536];
        let mut control = [0u64; 16];
        let mut io = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        // SAFETY: all zero is a valid value of this plain C structure.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut io;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: the buffers outlive the call and their lengths are told.
        let bytes = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        let frame = frame.get(..usize::try_from(bytes).ok()?)?;
        // SAFETY: the kernel has filled the control buffer that the message names.
        let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
        if header.is_null() {
            return Segment::read(frame, None, false);
        }
        // SAFETY: PACKET_AUXDATA is the only control message that was asked for.
        let aux: libc::tpacket_auxdata =
            unsafe { std::ptr::read_unaligned(libc::CMSG_DATA(header).cast()) };
        let tagged = aux.tp_status & TP_STATUS_VLAN_VALID != 0;
        let protocol =
            if aux.tp_status & TP_STATUS_VLAN_TPID_VALID != 0 { aux.tp_vlan_tpid } else { 0x8100 };
        let outer = tagged.then_some((protocol, aux.tp_vlan_tci));
        Segment::read(frame, outer, aux.tp_status & TP_STATUS_CSUMNOTREADY == 0)
    }
}

/// A connection of the raw client, half open: its SYN was answered, its ACK is not sent yet.
pub struct HalfOpen {
    wire: Wire,
    /// The client's side.
    pub from: SocketAddr,
    /// The server's side.
    pub to: SocketAddr,
    /// The server's SYN/ACK.
    pub syn_ack: Segment,
}

/// The raw client's initial sequence number and its timestamp's value.
pub const ISN: u32 = 0x7ffffff0;
/// The raw client's timestamp.
pub const TSVAL: u32 = 1_000_000;

impl HalfOpen {
    /// Sends a SYN with these options from local port `port`, and waits for the SYN/ACK.
    pub fn open(stage: &Stage, port: u16, to: SocketAddr, options: Vec<u8>) -> Self {
        let wire = Wire::of(stage);
        let address = if to.is_ipv6() { WIRE_V6 } else { WIRE_V4 };
        let from = SocketAddr::new(address.parse().expect("an address"), port);
        wire.send(&Segment { options, ..Segment::new(from, to, SYN, ISN, 0) });
        let until = Instant::now() + Duration::from_secs(2);
        let syn_ack = std::iter::from_fn(|| wire.receive(until))
            .find(|s| s.to == from)
            .unwrap_or_else(|| panic!("{to} answers a SYN while it has room"));
        assert_eq!((syn_ack.flags & (SYN | ACK), syn_ack.ack), (SYN | ACK, ISN.wrapping_add(1)));
        HalfOpen { wire, from, to, syn_ack }
    }

    /// A segment of this connection: `offset` bytes behind the client's SYN.
    pub fn segment(&self, flags: u8, offset: u32, payload: &[u8]) -> Segment {
        let seq = ISN.wrapping_add(1).wrapping_add(offset);
        let ack = self.syn_ack.seq.wrapping_add(1);
        let options = self.syn_ack.tsval().map_or(Vec::new(), |tsecr| timestamps(TSVAL + 1, tsecr));
        Segment {
            options,
            payload: payload.to_vec(),
            ..Segment::new(self.from, self.to, flags, seq, ack)
        }
    }

    /// Sends a segment.
    pub fn send(&self, segment: &Segment) {
        self.wire.send(segment);
    }

    /// Every segment that comes back within `patience`.
    pub fn collect(&self, patience: Duration) -> Vec<Segment> {
        self.wire.collect(self.from, patience)
    }
}
