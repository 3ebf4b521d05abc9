// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP segments as the wire has them, with everything that can stand around one.
//!
//! The questions are written by hand here, the answers are expected from `etherparse`: neither
//! shares a line with the programs.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpNumber, Ipv4Header, Ipv6Header, SlicedPacket, TcpHeader, TcpOptionElement, TransportSlice,
};

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;

/// Loopback's own address, for the kernel to say that a frame is for this host.
pub const HERE: [u8; 6] = [0; 6];
pub const THERE: [u8; 6] = [0x02, 0, 0, 0, 0, 0x77];

/// A frame with one TCP segment in it.
#[derive(Debug, Clone)]
pub struct Segment {
    pub from: SocketAddr,
    pub to: SocketAddr,
    pub link_to: [u8; 6],
    /// EtherType and tag control information of each VLAN tag, outermost first.
    pub vlans: Vec<(u16, u16)>,
    /// A multiple of four bytes.
    pub ip_options: Vec<u8>,
    /// Extension headers: their number and their bytes, which begin at the second (the length
    /// in units of eight, less one); the first is filled in.
    pub extensions: Vec<(u8, Vec<u8>)>,
    /// The traffic class, where ECN's codepoint is.
    pub traffic_class: u8,
    /// IPv4's flags and fragment offset.
    pub fragment: u16,
    /// The time to live, or hop limit.
    pub hops: u8,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    /// The four bits before the flags; the last is AccECN's (RFC 9768).
    pub reserved: u8,
    pub window: u16,
    /// A multiple of four bytes.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

/// The Internet checksum (RFC 1071) of an even number of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 =
        bytes.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Segment {
    /// A bare SYN.
    pub fn syn(from: SocketAddr, to: SocketAddr) -> Self {
        Segment {
            from,
            to,
            link_to: HERE,
            vlans: Vec::new(),
            ip_options: Vec::new(),
            extensions: Vec::new(),
            traffic_class: 0,
            fragment: 0x4000,
            hops: 63,
            seq: 0x8765_4321,
            ack: 0,
            flags: SYN,
            reserved: 0,
            window: 64240,
            options: Vec::new(),
            payload: Vec::new(),
        }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn tcp(&self) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(self.from.port().to_be_bytes());
        tcp.extend(self.to.port().to_be_bytes());
        tcp.extend(self.seq.to_be_bytes());
        tcp.extend(self.ack.to_be_bytes());
        tcp.push((((20 + self.options.len()) / 4) << 4) as u8 | self.reserved);
        tcp.push(self.flags);
        tcp.extend(self.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&self.options);
        tcp.extend(&self.payload);
        let mut covered = Vec::new();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                covered.extend(from.octets());
                covered.extend(to.octets());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                covered.extend(from.octets());
                covered.extend(to.octets());
            }
            _ => unreachable!("a segment stays in its family"),
        }
        covered.extend((tcp.len() as u32).to_be_bytes());
        covered.extend([0, 6]);
        covered.extend(&tcp);
        covered.resize(covered.len().next_multiple_of(2), 0);
        tcp[16..18].copy_from_slice(&checksum(&covered).to_be_bytes());
        tcp
    }

    fn ip(&self) -> Vec<u8> {
        let tcp = self.tcp();
        let mut ip = Vec::new();
        match (self.from.ip(), self.to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let header = 20 + self.ip_options.len();
                ip.extend([0x40 | (header / 4) as u8, self.traffic_class]);
                ip.extend(((header + tcp.len()) as u16).to_be_bytes());
                ip.extend([0x12, 0x34]);
                ip.extend(self.fragment.to_be_bytes());
                ip.extend([self.hops, 6, 0, 0]);
                ip.extend(from.octets());
                ip.extend(to.octets());
                ip.extend(&self.ip_options);
                let sum = checksum(&ip);
                ip[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let behind: usize = self.extensions.iter().map(|(_, bytes)| bytes.len() + 1).sum();
                let numbers: Vec<u8> =
                    self.extensions.iter().map(|(kind, _)| *kind).chain([6]).collect();
                ip.extend((0x6000_0000 | u32::from(self.traffic_class) << 20).to_be_bytes());
                ip.extend(((behind + tcp.len()) as u16).to_be_bytes());
                ip.extend([numbers[0], self.hops]);
                ip.extend(from.octets());
                ip.extend(to.octets());
                for ((_, bytes), next) in self.extensions.iter().zip(&numbers[1..]) {
                    ip.push(*next);
                    ip.extend(bytes);
                }
            }
            _ => unreachable!("a segment stays in its family"),
        }
        ip.extend(tcp);
        ip
    }

    /// The frame.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend(self.link_to);
        frame.extend(THERE);
        for (kind, tci) in &self.vlans {
            frame.extend(kind.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        frame.extend(if self.to.is_ipv4() { [0x08, 0x00] } else { [0x86, 0xdd] });
        frame.extend(self.ip());
        frame
    }

    /// The frame that answers this one: link and IP addresses and ports turned round, tags kept,
    /// options and extension headers of IP gone, checksums right.
    pub fn answer(&self, change: impl FnOnce(&mut TcpHeader)) -> Vec<u8> {
        self.answer_with(&[], change)
    }

    /// The same with a payload.
    pub fn answer_with(&self, payload: &[u8], change: impl FnOnce(&mut TcpHeader)) -> Vec<u8> {
        let mut tcp = TcpHeader::new(self.to.port(), self.from.port(), 0, 0);
        change(&mut tcp);
        let mut frame = Vec::new();
        frame.extend(THERE);
        frame.extend(self.link_to);
        for (kind, tci) in &self.vlans {
            frame.extend(kind.to_be_bytes());
            frame.extend(tci.to_be_bytes());
        }
        match (self.to.ip(), self.from.ip()) {
            (IpAddr::V4(us), IpAddr::V4(client)) => {
                let length = tcp.header_len_u16() + payload.len() as u16;
                let mut ip =
                    Ipv4Header::new(length, 64, IpNumber::TCP, us.octets(), client.octets())
                        .unwrap();
                ip.dont_fragment = true;
                ip.header_checksum = ip.calc_header_checksum();
                tcp.checksum = tcp.calc_checksum_ipv4(&ip, payload).unwrap();
                frame.extend([0x08, 0x00]);
                frame.extend(ip.to_bytes());
            }
            (IpAddr::V6(us), IpAddr::V6(client)) => {
                let ip = Ipv6Header {
                    payload_length: tcp.header_len_u16() + payload.len() as u16,
                    next_header: IpNumber::TCP,
                    hop_limit: 64,
                    source: us.octets(),
                    destination: client.octets(),
                    ..Default::default()
                };
                tcp.checksum = tcp.calc_checksum_ipv6(&ip, payload).unwrap();
                frame.extend([0x86, 0xdd]);
                frame.extend(ip.to_bytes());
            }
            _ => unreachable!("a segment stays in its family"),
        }
        frame.extend(tcp.to_bytes());
        frame.extend(payload);
        frame
    }

    /// The bare ACK of the SYN/ACK that this SYN was answered with.
    pub fn acknowledging(&self, syn_ack: &[u8]) -> Self {
        let isn = read_syn_ack(syn_ack).tcp.sequence_number;
        self.clone().with(|s| {
            s.flags = ACK;
            s.seq = s.seq.wrapping_add(1);
            s.ack = isn.wrapping_add(1);
            s.options.clear();
        })
    }

    /// The RST that refuses this SYN (RFC 9293, section 3.10.7.1).
    pub fn reset(&self) -> Vec<u8> {
        self.reset_with(&[], &[])
    }

    /// The same with options, a multiple of four bytes, and a payload.
    pub fn reset_with(&self, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let length = self.payload.len() as u32;
        self.answer_with(payload, |tcp| {
            tcp.set_options_raw(options).unwrap();
            tcp.rst = true;
            tcp.ack = true;
            tcp.acknowledgment_number = self.seq.wrapping_add(1).wrapping_add(length);
        })
    }
}

/// A SYN/ACK as the client's TCP would read it.
pub struct SynAck {
    pub tcp: TcpHeader,
    pub tsval: Option<u32>,
}

pub fn read_syn_ack(frame: &[u8]) -> SynAck {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = &sliced.transport else {
        panic!("no TCP segment: {sliced:?}");
    };
    let tcp = tcp.to_header();
    let tsval = tcp.options_iterator().flatten().find_map(|option| match option {
        TcpOptionElement::Timestamp(now, _) => Some(now),
        _ => None,
    });
    SynAck { tcp, tsval }
}

/// One or more TCP options, as clients write them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    End,
    Nop,
    Mss(u16),
    Scale(u8),
    Sack,
    Stamps(u32),
    /// TCP Fast Open, asking for a cookie.
    FastOpen,
    /// MPTCP's MP_CAPABLE, in a SYN (RFC 8684, section 3.1).
    Capable,
    /// And MP_JOIN (section 3.2).
    Joins,
}

/// The options' bytes, in this order, padded to a whole word with zeros.
pub fn options(offers: &[Offer]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for offer in offers {
        match offer {
            Offer::End => bytes.push(0),
            Offer::Nop => bytes.push(1),
            Offer::Mss(mss) => {
                bytes.extend([2, 4]);
                bytes.extend(mss.to_be_bytes());
            }
            Offer::Scale(shift) => bytes.extend([3, 3, *shift]),
            Offer::Sack => bytes.extend([4, 2]),
            Offer::Stamps(now) => {
                bytes.extend([8, 10]);
                bytes.extend(now.to_be_bytes());
                bytes.extend([0; 4]);
            }
            Offer::FastOpen => bytes.extend([34, 2]),
            Offer::Capable => bytes.extend([30, 4, 0x01, 0x01]),
            Offer::Joins => bytes.extend([30, 12, 0x10, 2, 1, 2, 3, 4, 5, 6, 7, 8]),
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

pub const VLAN: (u16, u16) = (0x8100, 0x2005);
pub const SERVICE_VLAN: (u16, u16) = (0x88a8, 0x0007);

/// Everything that may stand around a SYN and leaves it one.
pub fn dressed(plain: &Segment) -> Vec<(&'static str, Segment)> {
    let with = |change: &dyn Fn(&mut Segment)| plain.clone().with(|s| change(s));
    let mut all = vec![
        ("bare", with(&|s| s.options.clear())),
        ("Linux's options", plain.clone()),
        ("one tag", with(&|s| s.vlans = vec![VLAN])),
        ("a service tag and a tag", with(&|s| s.vlans = vec![SERVICE_VLAN, VLAN])),
        ("the last sequence number", with(&|s| s.seq = u32::MAX)),
        ("data", with(&|s| s.payload = b"GET / HTTP/1.1\r\n\r\n!".to_vec())),
        ("an odd byte of data", with(&|s| s.payload = b"x".to_vec())),
        ("PSH, URG, ECE and CWR", with(&|s| s.flags |= PSH | URG | ECE | CWR)),
        ("an ECN codepoint", with(&|s| s.traffic_class = 2)),
        ("forty bytes of options", with(&|s| s.options = vec![1; 40])),
    ];
    if plain.to.is_ipv4() {
        all.push(("IP options", with(&|s| s.ip_options = vec![1, 1, 1, 0])));
        all.push(("forty bytes of IP options", with(&|s| s.ip_options = vec![1; 40])));
        all.push(("no don't-fragment bit", with(&|s| s.fragment = 0)));
        all.push((
            "tags and IP options",
            with(&|s| {
                s.vlans = vec![VLAN, VLAN];
                s.ip_options = vec![1; 8];
            }),
        ));
    } else {
        let hop_by_hop = (0, vec![0, 1, 4, 0, 0, 0, 0]);
        let destination = (60, vec![1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let routing = (43, vec![0, 4, 0, 0, 0, 0, 0]);
        all.push(("hop-by-hop", with(&|s| s.extensions = vec![hop_by_hop.clone()])));
        all.push(("destination", with(&|s| s.extensions = vec![destination.clone()])));
        all.push(("routing", with(&|s| s.extensions = vec![routing.clone()])));
        all.push((
            "every extension of RFC 8200 in its order, and a tag",
            with(&|s| {
                s.vlans = vec![VLAN];
                s.extensions = vec![
                    hop_by_hop.clone(),
                    destination.clone(),
                    routing.clone(),
                    destination.clone(),
                ];
            }),
        ));
    }
    all
}
