// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second opinion on frames, by a parser that shares nothing with the programs and forgives
//! nothing: `etherparse`, and what RFC 9293 says of the SYN.
//!
//! Checksums are not asked for. The programs do not verify them either: a frame that the network
//! card passed on is whole, and what a wrong refusal would hit is the sender of the wrong sum.

use std::net::{IpAddr, SocketAddr};

use etherparse::{IpNumber, LinkExtSlice, LinkSlice, NetSlice, SlicedPacket, TcpSlice};

/// A whole TCP segment for one host, without doubt.
pub struct Strict {
    pub link_to: [u8; 6],
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub seq: u32,
    pub ack: u32,
    /// As in the header's fourteenth byte.
    pub flags: u8,
    /// Every option could be read to its end.
    pub options_whole: bool,
}

/// Options of known kinds have their length, and all of them fill the header or end before it.
fn options_whole(mut options: &[u8]) -> bool {
    while let Some(&kind) = options.first() {
        let length = match kind {
            0 => return true,
            1 => 1,
            _ => usize::from(options.get(1).copied().unwrap_or(0)),
        };
        if length < if kind == 1 { 1 } else { 2 } || length > options.len() {
            return false;
        }
        options = &options[length..];
    }
    true
}

/// The TCP segment behind IPv6's extension headers. `etherparse` knows one order of them; RFC
/// 8200, section 4.1, has a host take them in any, but for hop-by-hop options, which come first.
fn behind_extensions(mut kind: u8, mut bytes: &[u8]) -> Option<&[u8]> {
    for place in 0.. {
        match kind {
            6 => return Some(bytes),
            0 if place == 0 => {}
            // With segments left to visit the packet is not for this host.
            43 if bytes.get(3) == Some(&0) => {}
            60 => {}
            _ => return None,
        }
        let length = (usize::from(*bytes.get(1)?) + 1) * 8;
        kind = bytes[0];
        bytes = bytes.get(length..)?;
    }
    None
}

/// Reads a frame; `None` where anything at all is wrong with it or out of the ordinary.
pub fn read(frame: &[u8]) -> Option<Strict> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let Some(LinkSlice::Ethernet2(link)) = &sliced.link else {
        return None;
    };
    let link_to = link.destination();
    if link_to[0] & 1 != 0 || sliced.link_exts.len() > 2 {
        return None;
    }
    if !sliced.link_exts.iter().all(|tag| matches!(tag, LinkExtSlice::Vlan(_))) {
        return None;
    }
    let tcp: &[u8];
    let (from, to): (IpAddr, IpAddr) = match sliced.net.as_ref()? {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            let payload = ip.payload();
            if payload.fragmented || payload.ip_number != IpNumber::TCP {
                return None;
            }
            tcp = payload.payload;
            (header.source_addr().into(), header.destination_addr().into())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            // A payload of no length is a jumbogram's, which no SYN is.
            if header.payload_length() == 0 {
                return None;
            }
            let start = header.slice().as_ptr_range().end as usize - frame.as_ptr() as usize;
            let behind = &frame[start..start + usize::from(header.payload_length())];
            tcp = behind_extensions(header.next_header().0, behind)?;
            (header.source_addr().into(), header.destination_addr().into())
        }
        NetSlice::Arp(_) => return None,
    };
    let tcp = TcpSlice::from_slice(tcp).ok()?;
    Some(Strict {
        link_to,
        from: SocketAddr::new(from, tcp.source_port()),
        to: SocketAddr::new(to, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: tcp.slice()[13],
        options_whole: options_whole(tcp.options()),
    })
}
