// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs: made as Linux sends them, or read from a capture, classic pcap or pcapng.

use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpOptionElement, TransportSlice};
use tidegate_datapath::key;
use tidegate_datapath::rehearsal::Syn;

use crate::failure::{Failure, Result};

/// A SYN and its Ethernet frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Who, whom, and its number.
    pub syn: Syn,
    frame: Vec<u8>,
}

/// Where frames that we make come from: an address of local administration.
const ELSEWHERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ETHERNET_BYTES: usize = 14;

/// What Linux offers on Ethernet. Its time stamps begin anywhere, for each pair of hosts.
fn options(now: u32) -> [TcpOptionElement; 5] {
    [
        TcpOptionElement::MaximumSegmentSize(1460),
        TcpOptionElement::SelectiveAcknowledgementPermitted,
        TcpOptionElement::Timestamp(now, 0),
        TcpOptionElement::Noop,
        TcpOptionElement::WindowScale(7),
    ]
}

/// tcp[] is of IPv4 alone (pcap-filter(7)); the flags of IPv6's first header are at byte 53.
const SYNS_ONLY: &str = "capture with `tcpdump -s 0 \
    '(tcp[13] & 0x17 == 2) or (ip6[6] == 6 and ip6[53] & 0x17 == 2)'`, less than 64 MB";
/// Links whose headers are known here.
const READ_LINKS: &str = "capture on an Ethernet interface, or with -i any";
/// So much of a capture is looked through for its first SYNs.
const READ_MOST_BYTES: u64 = 64 << 20;
const WINDOW: u16 = 64240;
const HOPS: u8 = 64;

impl Packet {
    /// A SYN as Linux sends it, with a fresh initial sequence number. Both addresses are of one
    /// family.
    pub fn of_linux(from: SocketAddr, to: SocketAddr) -> Self {
        let random = key::random();
        let isn = random.k0 as u32;
        let frame = PacketBuilder::ethernet2(ELSEWHERE, [0; 6]);
        let frame = match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => frame.ipv4(from.octets(), to.octets(), HOPS),
            (IpAddr::V6(from), IpAddr::V6(to)) => frame.ipv6(from.octets(), to.octets(), HOPS),
            _ => unreachable!("the caller has seen to it that both are of one family"),
        };
        let tcp = frame.tcp(from.port(), to.port(), isn, WINDOW).syn();
        let tcp = tcp.options(&options(random.k1 as u32)).expect("twenty bytes of options");
        let mut bytes = Vec::with_capacity(tcp.size(0));
        tcp.write(&mut bytes, &[]).expect("memory takes what is written");
        Packet { syn: Syn { from, to, isn }, frame: bytes }
    }

    /// The frame as it comes in at an interface with this address.
    pub fn at(&self, hardware: [u8; 6]) -> Vec<u8> {
        let mut frame = self.frame.clone();
        frame[..6].copy_from_slice(&hardware);
        frame
    }

    /// A captured frame that is a SYN; its link as the capture's header names it.
    fn captured(link: u16, bytes: &[u8]) -> Option<Self> {
        let frame = match header_bytes(link)? {
            None => bytes.to_vec(),
            Some(skip) => on_ethernet(bytes.get(skip..)?)?,
        };
        Some(Packet { syn: syn_of(&frame)?, frame })
    }
}

/// The SYN in an Ethernet frame, where it is one and whole.
fn syn_of(frame: &[u8]) -> Option<Syn> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else { return None };
    if !tcp.syn() || tcp.ack() || tcp.rst() || tcp.fin() {
        return None;
    }
    let (from, to): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        NetSlice::Ipv6(ip) => {
            (ip.header().source_addr().into(), ip.header().destination_addr().into())
        }
        NetSlice::Arp(_) => return None,
    };
    Some(Syn {
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        isn: tcp.sequence_number(),
    })
}

/// What stands before IP on a link of this type (the tcpdump group's list); none where all of it is
/// Ethernet's.
fn header_bytes(link: u16) -> Option<Option<usize>> {
    match link {
        1 => Some(None),
        // BSD loopback; raw IP by its several names; Linux' "any" of both versions.
        0 | 108 => Some(Some(4)),
        12 | 14 | 101 | 228 | 229 => Some(Some(0)),
        113 => Some(Some(16)),
        276 => Some(Some(20)),
        _ => None,
    }
}

fn on_ethernet(ip: &[u8]) -> Option<Vec<u8>> {
    let kind: u16 = match ip.first()? >> 4 {
        4 => 0x0800,
        6 => 0x86dd,
        _ => return None,
    };
    let mut frame = vec![0; ETHERNET_BYTES];
    frame[6..12].copy_from_slice(&ELSEWHERE);
    frame[12..].copy_from_slice(&kind.to_be_bytes());
    frame.extend(ip);
    Some(frame)
}

/// The first SYNs of a capture, at most so many.
///
/// # Errors
/// Where the file cannot be read, is no capture, or has no SYN in it that can be read.
pub fn syns(path: &Path, most: usize) -> Result<Vec<Packet>> {
    let bytes = read(path).map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
        fix: "name a capture that can be read with --pcap".to_owned(),
    })?;
    syns_in(&bytes, path, most)
}

/// Those in the bytes of that file.
fn syns_in(bytes: &[u8], path: &Path, most: usize) -> Result<Vec<Packet>> {
    let wrong =
        |what: &str, fix: &str| Failure::argument(format!("{}: {what}", path.display()), fix);
    let frames = frames(bytes).ok_or_else(|| {
        wrong("this is no capture", "write one with `tcpdump -w FILE`, as pcap or pcapng")
    })?;
    let syns: Vec<Packet> = frames
        .iter()
        .filter_map(|(link, frame)| Packet::captured(*link, frame))
        .take(most)
        .collect();
    if !syns.is_empty() {
        return Ok(syns);
    }
    Err(match unread_link(&frames) {
        Some(link) => wrong(&format!("its link type {link} is none that is read"), READ_LINKS),
        None => wrong("there is no whole SYN in it", SYNS_ONLY),
    })
}

/// The type of a link, where of no frame's the header is known: what is in them nobody has seen.
fn unread_link(frames: &[(u16, &[u8])]) -> Option<u16> {
    let is_unread = |(link, _): &(u16, &[u8])| header_bytes(*link).is_none();
    let (link, _) = frames.first().filter(|_| frames.iter().all(is_unread))?;
    Some(*link)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(READ_MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Frames of a capture, each with its link's type. A last one that was cut off is left out.
fn frames(bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    match bytes.get(..4)? {
        [0xa1, 0xb2, 0xc3, 0xd4] | [0xa1, 0xb2, 0x3c, 0x4d] => classic(bytes, Order::Big),
        [0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1] => classic(bytes, Order::Little),
        [0x0a, 0x0d, 0x0d, 0x0a] => next_generation(bytes),
        _ => None,
    }
}

/// The order of bytes in the host that wrote a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Big,
    Little,
}

impl Order {
    fn half(self, bytes: &[u8], at: usize) -> Option<u16> {
        let pair = bytes.get(at..at + 2)?.try_into().ok()?;
        Some(if self == Order::Big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
    }

    fn word(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(if self == Order::Big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) })
    }

    fn length(self, bytes: &[u8], at: usize) -> Option<usize> {
        self.word(bytes, at).map(|length| length as usize)
    }
}

/// draft-ietf-opsawg-pcap: a header of 24 bytes, and one of 16 before each frame.
fn classic(bytes: &[u8], order: Order) -> Option<Vec<(u16, &[u8])>> {
    let link = order.word(bytes, 20)? as u16;
    let mut rest = &bytes[24..];
    let mut found = Vec::new();
    while let Some(length) = order.length(rest, 8) {
        let Some(frame) = rest.get(16..).and_then(|behind| behind.get(..length)) else { break };
        found.push((link, frame));
        rest = &rest[16 + length..];
    }
    Some(found)
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// draft-ietf-opsawg-pcapng: blocks of a kind, a length, a body, and the length again.
fn next_generation(bytes: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    let mut order = byte_order(bytes)?;
    let (mut links, mut found, mut rest) = (Vec::new(), Vec::new(), bytes);
    // A section's kind reads alike from both ends.
    while let Some(kind) = order.word(rest, 0) {
        if kind == SECTION {
            order = byte_order(rest)?;
            links.clear();
        }
        let length = order.length(rest, 4).filter(|length| *length >= 12 && length % 4 == 0);
        let Some(length) = length else { break };
        // One that was cut off in the length behind its body is cut off, too.
        let Some(block) = rest.get(..length) else { break };
        let body = &block[8..length - 4];
        if kind == INTERFACE {
            links.push(order.half(body, 0)?);
        }
        if let Some((interface, frame)) = frame_in(kind, body, order)
            && let Some(link) = links.get(interface)
        {
            found.push((*link, frame));
        }
        rest = &rest[length..];
    }
    Some(found)
}

/// The frame in a block's body, and the number of its interface.
fn frame_in(kind: u32, body: &[u8], order: Order) -> Option<(usize, &[u8])> {
    let (interface, length, frame) = match kind {
        ENHANCED => (order.length(body, 0)?, order.length(body, 12)?, body.get(20..)?),
        SIMPLE => (0, order.length(body, 0)?, body.get(4..)?),
        _ => return None,
    };
    Some((interface, &frame[..length.min(frame.len())]))
}

/// By the magic number of a section's header.
fn byte_order(section: &[u8]) -> Option<Order> {
    match section.get(8..12)? {
        [0x1a, 0x2b, 0x3c, 0x4d] => Some(Order::Big),
        [0x4d, 0x3c, 0x2b, 0x1a] => Some(Order::Little),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(from: &str, to: &str) -> Packet {
        Packet::of_linux(from.parse().unwrap(), to.parse().unwrap())
    }

    fn packets() -> [Packet; 2] {
        [
            packet("192.0.2.9:40000", "198.51.100.1:443"),
            packet("[2001:db8::9]:40000", "[2001:db8::1]:443"),
        ]
    }

    fn put(bytes: &mut Vec<u8>, order: Order, words: &[u32]) {
        for word in words {
            bytes.extend(match order {
                Order::Big => word.to_be_bytes(),
                Order::Little => word.to_le_bytes(),
            });
        }
    }

    fn classic_file(order: Order, link: u32, frames: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, order, &[0xa1b2_c3d4, 0x0002_0004, 0, 0, 65535, link]);
        for frame in frames {
            let length = frame.len() as u32;
            put(&mut bytes, order, &[1, 2, length, length]);
            bytes.extend(*frame);
        }
        bytes
    }

    fn found(bytes: &[u8]) -> Vec<Packet> {
        let frames = frames(bytes).expect("a capture");
        frames.iter().filter_map(|(link, frame)| Packet::captured(*link, frame)).collect()
    }

    #[test]
    fn a_syn_is_read_from_captures_of_either_order() {
        let packets = packets();
        let frames: Vec<&[u8]> = packets.iter().map(|p| &p.frame[..]).collect();
        for order in [Order::Big, Order::Little] {
            assert_eq!(found(&classic_file(order, 1, &frames)), packets);
        }
        // What was cut off in the middle of a frame.
        let whole = classic_file(Order::Little, 1, &frames);
        assert_eq!(found(&whole[..whole.len() - 1]), packets[..1]);
    }

    #[test]
    fn links_that_are_no_ethernet_have_their_headers_taken_off() {
        for (link, skip) in [(0, 4), (101, 0), (113, 16), (276, 20)] {
            for packet in packets() {
                let frame = [&vec![0; skip][..], &packet.frame[ETHERNET_BYTES..]].concat();
                let read = found(&classic_file(Order::Little, link, &[&frame]));
                assert_eq!(read, [packet], "link type {link}");
            }
        }
    }

    /// 802.11: the SYN in it is there, but who reads the capture cannot tell.
    #[test]
    fn a_link_that_is_not_read_is_told_and_not_that_it_carries_no_syn() {
        let frame = packets()[0].frame.clone();
        let of = |link| classic_file(Order::Little, link, &[&frame, &frame]);
        assert_eq!(found(&of(105)), []);
        let told = |bytes: &[u8]| syns_in(bytes, Path::new("x.pcap"), 1).map_err(|e| e.to_string());
        assert_eq!(
            told(&of(105)),
            Err("x.pcap: its link type 105 is none that is read; \
                 capture on an Ethernet interface, or with -i any"
                .to_owned())
        );
        assert!(told(&of(1)).is_ok());
        // Nothing came, by whatever link.
        for link in [1, 105] {
            let told = told(&classic_file(Order::Little, link, &[])).unwrap_err();
            assert!(told.starts_with("x.pcap: there is no whole SYN in it; "), "{told}");
        }
    }

    #[test]
    fn a_syn_is_read_from_the_next_generation_of_captures() {
        let packets = packets();
        for order in [Order::Big, Order::Little] {
            let mut bytes = Vec::new();
            put(&mut bytes, order, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
            let link = if order == Order::Big { 1 << 16 } else { 1 };
            put(&mut bytes, order, &[1, 20, link, 65535, 20]);
            // A block of statistics, which says nothing here.
            put(&mut bytes, order, &[5, 16, 0, 16]);
            for packet in &packets {
                let length = packet.frame.len();
                let padded = length.next_multiple_of(4);
                let block = padded as u32 + 32;
                put(&mut bytes, order, &[6, block, 0, 0, 0, length as u32, length as u32]);
                bytes.extend(&packet.frame);
                bytes.resize(bytes.len() + padded - length, 0);
                put(&mut bytes, order, &[block]);
            }
            assert_eq!(found(&bytes), packets, "{order:?}");
            // Wherever it was cut off, in the length behind a block's body, too.
            for end in 12..bytes.len() {
                let found = found(&bytes[..end]);
                assert!(found.len() < 2 && found[..] == packets[..found.len()], "{order:?}, {end}");
            }
        }
    }

    #[test]
    fn what_is_no_syn_is_left_out() {
        let mut answer = packets()[0].frame.clone();
        answer[ETHERNET_BYTES + 20 + 13] |= 0x10;
        let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
        assert_eq!(found(&classic_file(Order::Little, 1, &[&answer, &arp, b"short"])), []);
    }

    #[test]
    fn what_is_no_capture_is_told() {
        for bytes in [&b""[..], b"abc", b"\x7fELF....", b"\x0a\x0d\x0d\x0a----????"] {
            assert_eq!(frames(bytes), None, "{bytes:?}");
        }
        let told = syns(Path::new("/nonexistent/x.pcap"), 1).unwrap_err().to_string();
        assert!(told.starts_with("/nonexistent/x.pcap: No such file"), "{told}");
    }

    #[test]
    fn a_frame_has_the_interfaces_own_address() {
        let packet = &packets()[0];
        assert_eq!(packet.at([9; 6])[..6], [9; 6]);
        assert_eq!(packet.at([9; 6])[6..], packet.frame[6..]);
    }
}
