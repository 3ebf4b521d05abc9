// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Segments to Ethernet frames and back: RFC 9293 section 3.1, RFC 791, RFC 8200, RFC 1071.

use std::net::{IpAddr, SocketAddr};

use tidegate_client::segment::{OPTIONS_MAX_BYTES, OptionKind};
use tidegate_client::{Flags, Options, Segment};

use crate::raw::named;
use crate::raw::xsk::FRAME_BYTES;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const TCP_BYTES: usize = 20;
const TCP: u8 = 6;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const DONT_FRAGMENT: [u8; 2] = [0x40, 0x00];

/// An Ethernet address.
pub(crate) type Mac = [u8; 6];

/// The way to a target: what all frames to it have in common.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub target: SocketAddr,
    /// The link and network headers, but for the addresses and lengths.
    headers: [u8; ETHERNET_BYTES + IPV6_BYTES],
}

impl Way {
    pub(crate) fn new(target: SocketAddr, next_hop: Mac, own: Mac) -> Self {
        let mut headers = [0; ETHERNET_BYTES + IPV6_BYTES];
        headers[..6].copy_from_slice(&next_hop);
        headers[6..12].copy_from_slice(&own);
        let ip = &mut headers[ETHERNET_BYTES..];
        match target.ip() {
            IpAddr::V4(address) => {
                ip[0] = 0x45;
                ip[6..8].copy_from_slice(&DONT_FRAGMENT);
                ip[9] = TCP;
                ip[16..20].copy_from_slice(&address.octets());
                headers[12..14].copy_from_slice(&ETHERTYPE_IPV4);
            }
            IpAddr::V6(address) => {
                ip[0] = 0x60;
                ip[6] = TCP;
                ip[24..40].copy_from_slice(&address.octets());
                headers[12..14].copy_from_slice(&ETHERTYPE_IPV6);
            }
        }
        Self { target, headers }
    }

    /// Writes the frame of a segment from an address and port of ours, and says how long it is.
    /// `id` goes into IPv4's identification field.
    #[inline]
    pub(crate) fn write(
        &self,
        from: (IpAddr, u16),
        ttl: u8,
        id: u16,
        segment: &Segment<'_>,
        order: &[OptionKind],
        frame: &mut [u8; FRAME_BYTES],
    ) -> usize {
        let mut options = [0; OPTIONS_MAX_BYTES];
        let option_bytes = segment.options.encode(order, &mut options);
        let (named, ends) = (segment.options.time_wait, (from.0, self.target.ip()));
        let option_bytes = named::append(named, ends, &mut options, option_bytes);
        let header_bytes = TCP_BYTES + option_bytes;
        let tcp_bytes = header_bytes + segment.payload.len();
        let tcp_at = ETHERNET_BYTES + self.write_ip(from.0, ttl, id, tcp_bytes, frame);
        let tcp = &mut frame[tcp_at..tcp_at + tcp_bytes];
        tcp[..2].copy_from_slice(&from.1.to_be_bytes());
        tcp[2..4].copy_from_slice(&self.target.port().to_be_bytes());
        tcp[4..8].copy_from_slice(&segment.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&segment.ack.to_be_bytes());
        tcp[12] = ((header_bytes / 4) << 4) as u8;
        tcp[13] = segment.flags.0;
        tcp[14..16].copy_from_slice(&segment.window.to_be_bytes());
        tcp[16..20].fill(0);
        tcp[TCP_BYTES..header_bytes].copy_from_slice(&options[..option_bytes]);
        tcp[header_bytes..].copy_from_slice(segment.payload);
        let whole = sum(tcp, pseudo_header(from.0, self.target.ip(), tcp_bytes));
        tcp[16..18].copy_from_slice(&folded(whole).to_ne_bytes());
        tcp_at + tcp_bytes
    }

    /// Writes what is before TCP and says how long the IP header is.
    #[inline]
    fn write_ip(
        &self,
        from: IpAddr,
        ttl: u8,
        id: u16,
        tcp_bytes: usize,
        frame: &mut [u8; FRAME_BYTES],
    ) -> usize {
        frame[..self.headers.len()].copy_from_slice(&self.headers);
        let ip = &mut frame[ETHERNET_BYTES..ETHERNET_BYTES + IPV6_BYTES];
        match from {
            IpAddr::V4(from) => {
                ip[2..4].copy_from_slice(&((IPV4_BYTES + tcp_bytes) as u16).to_be_bytes());
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[8] = ttl;
                ip[12..16].copy_from_slice(&from.octets());
                let checksum = folded(sum(&ip[..IPV4_BYTES], 0));
                ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
                IPV4_BYTES
            }
            IpAddr::V6(from) => {
                ip[4..6].copy_from_slice(&(tcp_bytes as u16).to_be_bytes());
                ip[7] = ttl;
                ip[8..24].copy_from_slice(&from.octets());
                IPV6_BYTES
            }
        }
    }
}

/// A segment that arrived, and between whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub segment: Segment<'a>,
}

/// Reads a frame; `None` when it is not a whole TCP segment. Checksums are not verified: on a
/// veth they are partial, since nothing can be corrupted there.
#[inline]
pub(crate) fn read(frame: &[u8]) -> Option<Arrived<'_>> {
    let (ethernet, rest) = frame.split_at_checked(ETHERNET_BYTES)?;
    let (from, to, tcp): (IpAddr, IpAddr, &[u8]) = match [ethernet[12], ethernet[13]] {
        ETHERTYPE_IPV4 => {
            let header_bytes = usize::from(rest.first()? & 0x0f) * 4;
            // The frame may be padded to Ethernet's least length.
            let whole = rest.get(..usize::from(number(rest, 2)?))?;
            if header_bytes < IPV4_BYTES || whole.len() < header_bytes || whole[9] != TCP {
                return None;
            }
            let from: [u8; 4] = whole.get(12..16)?.try_into().ok()?;
            let to: [u8; 4] = whole.get(16..20)?.try_into().ok()?;
            (from.into(), to.into(), whole.get(header_bytes..)?)
        }
        ETHERTYPE_IPV6 => {
            let whole = rest.get(..IPV6_BYTES + usize::from(number(rest, 4)?))?;
            if whole[6] != TCP {
                return None;
            }
            let from: [u8; 16] = whole.get(8..24)?.try_into().ok()?;
            let to: [u8; 16] = whole.get(24..40)?.try_into().ok()?;
            (from.into(), to.into(), &whole[IPV6_BYTES..])
        }
        _ => return None,
    };
    let header: &[u8; TCP_BYTES] = tcp.first_chunk()?;
    let header_bytes = usize::from(header[12] >> 4) * 4;
    let options = tcp.get(TCP_BYTES..header_bytes)?;
    let flags = Flags(header[13]);
    // The server's answer is in its SYN/ACK.
    let time_wait = if flags.has(Flags::SYN) { named::find(options, to, from) } else { None };
    Some(Arrived {
        from: SocketAddr::new(from, number(header, 0)?),
        to: SocketAddr::new(to, number(header, 2)?),
        segment: Segment {
            flags,
            seq: long_number(header, 4),
            ack: long_number(header, 8),
            window: number(header, 14)?,
            options: Options { time_wait, ..Options::decode(options) },
            payload: &tcp[header_bytes..],
        },
    })
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let two: [u8; 2] = bytes.get(at..at + 2)?.try_into().ok()?;
    Some(u16::from_be_bytes(two))
}

fn long_number(header: &[u8; TCP_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

/// Adds up 16-bit words in the machine's byte order, which the sum's meaning does not depend on
/// (RFC 1071, section 2B). In a u64, 2^32 words cannot overflow.
#[inline]
fn sum(bytes: &[u8], before: u64) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut sum = before;
    for word in words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_ne_bytes(last))
}

fn folded(sum: u64) -> u16 {
    let mut sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 32) + (sum & 0xffff_ffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    sum = (sum >> 16) + (sum & 0xffff);
    !(sum as u16)
}

#[inline]
fn pseudo_header(from: IpAddr, to: IpAddr, tcp_bytes: usize) -> u64 {
    // As the wire has it: zero, protocol, and the length in 16 bits or, for IPv6, 32.
    let length = (tcp_bytes as u16).to_be_bytes();
    let tail = u64::from(u32::from_ne_bytes([0, TCP, length[0], length[1]]));
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => sum(&from.octets(), sum(&to.octets(), tail)),
        (from, to) => {
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                IpAddr::V6(address) => address.octets(),
            };
            sum(&octets(from), sum(&octets(to), tail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_client::segment::Timestamps;

    const ORDER: &[OptionKind] = &[
        OptionKind::Mss,
        OptionKind::SackPermitted,
        OptionKind::Timestamps,
        OptionKind::Nop,
        OptionKind::WindowScale,
    ];

    fn segment(payload: &[u8]) -> Segment<'_> {
        Segment {
            flags: Flags::SYN | Flags::ACK,
            seq: 0xdead_beef,
            ack: 0x0102_0304,
            window: 64240,
            options: Options {
                mss: Some(1460),
                window_scale: Some(7),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: u32::MAX, echo: 1 }),
                time_wait: None,
            },
            payload,
        }
    }

    fn frame_of(from: &str, to: &str, segment: &Segment<'_>) -> Vec<u8> {
        let from: SocketAddr = from.parse().unwrap();
        let way = Way::new(to.parse().unwrap(), [2; 6], [4; 6]);
        let mut frame = [0xaa; FRAME_BYTES];
        let length = way.write((from.ip(), from.port()), 64, 7, segment, ORDER, &mut frame);
        frame[..length].to_vec()
    }

    #[test]
    fn a_frame_reads_as_it_was_written() {
        for (from, to) in
            [("10.128.255.7:1024", "10.0.0.1:80"), ("[fd00::7]:65535", "[fd00::1]:80")]
        {
            for payload in [&b""[..], b"x", b"GET / HTTP/1.1\r\n\r\n"] {
                let segment = segment(payload);
                let mut frame = frame_of(from, to, &segment);
                // As a short frame arrives: padded.
                frame.extend_from_slice(&[0; 9]);
                let arrived = read(&frame).unwrap();
                assert_eq!(arrived.from, from.parse().unwrap());
                assert_eq!(arrived.to, to.parse().unwrap());
                assert_eq!(arrived.segment, segment);
            }
        }
    }

    /// Another implementation adds up what was written.
    #[test]
    fn checksums_are_as_etherparse_computes_them() {
        for (from, to) in
            [("10.128.255.7:1024", "10.0.0.1:80"), ("[fd00::7]:65535", "[fd00::1]:80")]
        {
            for payload in [&b""[..], b"odd", b"GET / HTTP/1.1\r\n\r\n"] {
                let frame = frame_of(from, to, &segment(payload));
                let read = etherparse::SlicedPacket::from_ethernet(&frame).unwrap();
                let Some(etherparse::TransportSlice::Tcp(tcp)) = read.transport else {
                    panic!("not TCP")
                };
                let header = tcp.to_header();
                let expected = match read.net.unwrap() {
                    etherparse::NetSlice::Ipv4(ip) => {
                        let ip = ip.header().to_header();
                        assert_eq!(ip.header_checksum, ip.calc_header_checksum());
                        header.calc_checksum_ipv4(&ip, payload).unwrap()
                    }
                    etherparse::NetSlice::Ipv6(ip) => {
                        header.calc_checksum_ipv6(&ip.header().to_header(), payload).unwrap()
                    }
                    other => panic!("{other:?}"),
                };
                assert_eq!(header.checksum, expected, "{from} {payload:?}");
            }
        }
    }

    /// As tidegate refuses (docs/notices.md), written by another implementation.
    #[test]
    fn a_rst_may_say_why_and_when_to_come_back() {
        const WHY: [u8; 8] = [0x33, 0xaa, 0, 10, 0, 0, 0, 0];
        let ports = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 128, 255, 7], 64)
            .tcp(80, 1024, 0, 0);
        let rst = ports.rst().ack(8).options_raw(&[253, 6, 0x54, 0x42, 0, 200, 1, 1]).unwrap();
        let mut frame = Vec::new();
        rst.write(&mut frame, &WHY).unwrap();
        let arrived = read(&frame).unwrap();
        assert_eq!(arrived.to, "10.128.255.7:1024".parse().unwrap());
        let segment = arrived.segment;
        assert_eq!((segment.flags, segment.ack), (Flags::RST | Flags::ACK, 8));
        assert_eq!((segment.options, segment.payload), (Options::default(), &WHY[..]));
    }

    #[test]
    fn cut_frames_are_no_segments() {
        let mut frame = frame_of("10.0.0.2:1024", "10.0.0.1:80", &segment(b"data"));
        for length in 0..frame.len() {
            assert!(read(&frame[..length]).is_none(), "{length}");
        }
        // The length that IPv4 tells: less than a header, or none, as of more than 64 KB (BIG TCP).
        for length in 0..=IPV4_BYTES as u16 {
            frame[16..18].copy_from_slice(&length.to_be_bytes());
            assert!(read(&frame).is_none(), "{length}");
        }
    }
}
