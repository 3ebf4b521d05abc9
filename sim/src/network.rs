// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way between clients and server, and what travels on it.

use rand_distr::{Distribution, StandardNormal};
use tidegate_client::segment::Timestamps;
use tidegate_client::{Flags, Options, Segment};
use tidegate_policy::time_wait::End;
use tidegate_scenarios::Delay;

use crate::chance::Chance;

/// What happens to packets between a client and the server, each way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Way {
    /// How long the cable takes, in ns; the same for all.
    pub wire_ns: u64,
    /// How much longer it takes from a client, drawn once for each connection, so that packets keep
    /// their order.
    pub delay: Delay,
    /// The share of packets that never arrive at the server, from 0 to 1.
    pub loss_in: f64,
    /// The same of those that never arrive at clients.
    pub loss_out: f64,
    /// The share of SYNs that never arrive at the server, by how many its connection has sent
    /// before: the drop probabilities p0, p1, … of Jamjoom's transmission classes (section 3.1). The
    /// last one is for all later SYNs; with none, SYNs are packets like others.
    pub loss_of_syns: Vec<f64>,
    /// The share of packets that come as late again, and at least 1 ms late, so that those behind
    /// them overtake; from 0 to 1.
    pub reorder: f64,
    /// Links in series that packets wait for on their way to the server.
    pub links_in: Vec<Link>,
    /// The same on their way to clients.
    pub links_out: Vec<Link>,
}

/// A link that all packets share, with a queue before it that drops what it has no room for. It
/// stands at the sender's end: packets come to it in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How fast it is, in bits per second; more than 0.
    pub bits_per_s: u64,
    /// What its queue has room for, in bytes of frames, the one that is being sent included.
    pub queue_bytes: u64,
}

/// How much later a reordered packet comes at least.
const REORDERED_LATER_NS: u64 = 1_000_000;
/// No way is longer: a minute.
const DELAY_MAX_MS: f64 = 60_000.0;

impl Way {
    /// How long one connection's packets take, in ns.
    pub(crate) fn draw_ns(&self, chance: &mut Chance) -> u64 {
        let Delay { mean_ms, spread_ms } = self.delay;
        let ms = if spread_ms > 0.0 {
            let deviations: f64 = StandardNormal.sample(chance);
            mean_ms + deviations * spread_ms
        } else {
            mean_ms
        };
        self.wire_ns + (ms.clamp(0.0, DELAY_MAX_MS) * 1e6) as u64
    }
}

/// A segment under way, with its connection for its addresses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packet {
    /// Whose: the place among the flows.
    pub flow: u32,
    pub seq: u32,
    pub ack: u32,
    clock: u32,
    echo: u32,
    /// Data in bytes.
    pub length: u16,
    pub window: u16,
    /// Of a SYN the MSS, of the server's data the page.
    mss: u16,
    pub flags: Flags,
    bits: u8,
    shift: u8,
}

const HAS_CLOCKS: u8 = 1;
const HAS_SHIFT: u8 = 2;
const HAS_SACK: u8 = 4;
const HAS_MSS: u8 = 8;
const BEGINS_PAGE: u8 = 16;
/// Whom TW-Negotiate names, where it is there.
const NAMES_CLIENT: u8 = 32;
const NAMES_SERVER: u8 = 64;

impl Packet {
    /// A segment as it goes out; of its data only the length is kept.
    pub(crate) fn of(flow: u32, segment: &Segment<'_>) -> Self {
        let Options { mss, window_scale, sack_permitted, timestamps, time_wait } = segment.options;
        let has = |there: bool, bit: u8| if there { bit } else { 0 };
        let clocks = timestamps.unwrap_or_default();
        Self {
            flow,
            seq: segment.seq,
            ack: segment.ack,
            clock: clocks.value,
            echo: clocks.echo,
            length: segment.payload.len() as u16,
            window: segment.window,
            mss: mss.unwrap_or(0),
            flags: segment.flags,
            bits: has(timestamps.is_some(), HAS_CLOCKS)
                | has(window_scale.is_some(), HAS_SHIFT)
                | has(sack_permitted, HAS_SACK)
                | has(mss.is_some(), HAS_MSS)
                | has(time_wait == Some(End::Client), NAMES_CLIENT)
                | has(time_wait == Some(End::Server), NAMES_SERVER),
            shift: window_scale.unwrap_or(0),
        }
    }

    /// The same with data of a page, from its beginning or not.
    pub(crate) fn of_page(mut self, page: u16, begins: bool) -> Self {
        self.mss = page;
        self.bits |= if begins { BEGINS_PAGE } else { 0 };
        self
    }

    /// Which page its data is of, and whether it begins it.
    pub(crate) fn page(&self) -> (u16, bool) {
        (self.mss, self.has(BEGINS_PAGE))
    }

    /// Its frame with everything that takes a link's time, in bytes: 38 of Ethernet, 20 of IP, 20
    /// of TCP, its options and its data.
    fn frame_bytes(&self) -> u64 {
        let clocks = if self.has(HAS_CLOCKS) { 12 } else { 0 };
        let others = if self.has(HAS_MSS) { 8 } else { 0 };
        let names = if self.named().is_some() { 8 } else { 0 };
        78 + clocks + others + names + u64::from(self.length)
    }

    /// Its TCP header, in bytes: 20 and its options, padded to whole words. TW-Negotiate is not
    /// counted.
    pub(crate) fn tcp_header_bytes(&self) -> u32 {
        let each = [(HAS_MSS, 4), (HAS_SHIFT, 3), (HAS_SACK, 2), (HAS_CLOCKS, 10)];
        let options: u32 = each.iter().filter(|(bit, _)| self.has(*bit)).map(|(_, n)| n).sum();
        20 + options.next_multiple_of(4)
    }

    /// The segment again, with this data.
    pub(crate) fn segment<'a>(&self, payload: &'a [u8]) -> Segment<'a> {
        Segment {
            flags: self.flags,
            seq: self.seq,
            ack: self.ack,
            window: self.window,
            options: self.options(),
            payload,
        }
    }

    pub(crate) fn options(&self) -> Options {
        Options {
            mss: self.has(HAS_MSS).then_some(self.mss),
            window_scale: self.has(HAS_SHIFT).then_some(self.shift),
            sack_permitted: self.has(HAS_SACK),
            timestamps: self.clocks(),
            time_wait: self.named(),
        }
    }

    pub(crate) fn clocks(&self) -> Option<Timestamps> {
        self.has(HAS_CLOCKS).then_some(Timestamps { value: self.clock, echo: self.echo })
    }

    /// Whom it names to hold TIME-WAIT.
    pub(crate) fn named(&self) -> Option<End> {
        match (self.has(NAMES_CLIENT), self.has(NAMES_SERVER)) {
            (true, _) => Some(End::Client),
            (_, true) => Some(End::Server),
            _ => None,
        }
    }

    fn has(&self, bit: u8) -> bool {
        self.bits & bit != 0
    }

    /// Whether it is an ACK, and no more: neither data nor FIN.
    pub(crate) fn is_bare(&self) -> bool {
        self.length == 0 && !self.flags.has(Flags::FIN)
    }

    /// Whether it asks for a connection.
    pub(crate) fn is_syn(&self) -> bool {
        self.flags.has(Flags::SYN) && !self.flags.has(Flags::ACK)
    }

    /// How many sequence numbers it takes.
    pub(crate) fn sequence_length(&self) -> u32 {
        let counted = |flag| u32::from(self.flags.has(flag));
        u32::from(self.length) + counted(Flags::SYN) + counted(Flags::FIN)
    }

    /// The sequence number after it.
    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.sequence_length())
    }
}

/// What became of packets of one direction. `sent` is always `arrived` plus `lost` plus those that
/// are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    pub sent: u64,
    pub lost: u64,
    pub arrived: u64,
}

/// One direction.
#[derive(Debug)]
pub(crate) struct Direction {
    pub carried: Carried,
    chance: Chance,
    loss: f64,
    loss_of_syns: Vec<f64>,
    reorder: f64,
    links: Vec<(Link, u64)>,
    /// Nothing happens to packets but their delay.
    is_plain: bool,
}

impl Direction {
    /// To the server.
    pub(crate) fn inward(way: &Way, chance: Chance) -> Self {
        Self::new(way.loss_in, &way.loss_of_syns, way.reorder, &way.links_in, chance)
    }

    /// To clients.
    pub(crate) fn outward(way: &Way, chance: Chance) -> Self {
        Self::new(way.loss_out, &[], way.reorder, &way.links_out, chance)
    }

    fn new(loss: f64, syns: &[f64], reorder: f64, links: &[Link], chance: Chance) -> Self {
        Self {
            carried: Carried::default(),
            chance,
            loss,
            loss_of_syns: syns.to_vec(),
            reorder,
            links: links.iter().map(|link| (*link, 0)).collect(),
            is_plain: loss <= 0.0 && syns.is_empty() && reorder <= 0.0 && links.is_empty(),
        }
    }

    /// Takes a packet in, and says when it arrives on a way of this length; `None` when it is
    /// lost. Before a SYN its connection has sent so many.
    #[inline]
    pub(crate) fn carry(
        &mut self,
        now_ns: u64,
        delay_ns: u64,
        packet: &Packet,
        syns_before: u8,
    ) -> Option<u64> {
        self.carried.sent += 1;
        if self.is_plain {
            return Some(now_ns + delay_ns);
        }
        self.carry_perhaps(now_ns, delay_ns, packet, syns_before)
    }

    fn carry_perhaps(
        &mut self,
        now_ns: u64,
        delay_ns: u64,
        packet: &Packet,
        syns_before: u8,
    ) -> Option<u64> {
        let loss = self.loss_for(packet, syns_before);
        if self.chance.happens(loss) {
            self.carried.lost += 1;
            return None;
        }
        let mut leaves_ns = now_ns;
        for (link, free_ns) in &mut self.links {
            let bytes = packet.frame_bytes();
            let Some(through_ns) = link.through_ns(leaves_ns, *free_ns, bytes) else {
                self.carried.lost += 1;
                return None;
            };
            (*free_ns, leaves_ns) = (through_ns, through_ns);
        }
        let late = self.chance.happens(self.reorder);
        let later_ns = if late { delay_ns.max(REORDERED_LATER_NS) } else { 0 };
        Some(leaves_ns + delay_ns + later_ns)
    }

    #[inline]
    fn loss_for(&self, packet: &Packet, syns_before: u8) -> f64 {
        match self.loss_of_syns.last() {
            Some(last) if packet.is_syn() => {
                *self.loss_of_syns.get(usize::from(syns_before)).unwrap_or(last)
            }
            _ => self.loss,
        }
    }
}

impl Link {
    /// When a packet that comes now is through, if the link is busy until `free_ns`; `None` when
    /// the queue has no room for it.
    fn through_ns(&self, now_ns: u64, free_ns: u64, bytes: u64) -> Option<u64> {
        let takes_ns = |bytes: u64| bytes * 8_000_000_000 / self.bits_per_s.max(1);
        let begins_ns = now_ns.max(free_ns);
        // What is ahead of it, by the time that it takes: rounding is below a byte.
        let has_room = begins_ns - now_ns <= takes_ns(self.queue_bytes.saturating_sub(bytes));
        (begins_ns == now_ns || (bytes <= self.queue_bytes && has_room))
            .then(|| begins_ns + takes_ns(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Entity;

    #[test]
    fn a_segment_comes_out_as_it_went_in() {
        let segment = Segment {
            flags: Flags::SYN | Flags::ACK,
            seq: u32::MAX,
            ack: 7,
            window: 5840,
            options: Options {
                mss: Some(1460),
                window_scale: Some(0),
                sack_permitted: true,
                timestamps: Some(Timestamps { value: 0, echo: 9 }),
                time_wait: Some(End::Server),
            },
            payload: b"",
        };
        let packet = Packet::of(3, &segment);
        assert_eq!((packet.flow, packet.segment(b"")), (3, segment));
        assert_eq!(packet.end(), 0);
        assert_eq!(packet.tcp_header_bytes(), 40);
        let bare = Segment { flags: Flags::RST, payload: b"abc", ..Segment::default() };
        assert_eq!(Packet::of(0, &bare).segment(b"abc"), bare);
    }

    #[test]
    fn what_is_lost_is_counted() {
        let way = Way { loss_out: 0.25, ..Way::default() };
        let mut direction = Direction::outward(&way, Chance::of(1, Entity::WayOut));
        let carried = (0..100_000)
            .filter_map(|_| direction.carry(7, 5, &Packet::default(), 0))
            .inspect(|ns| assert_eq!(*ns, 12));
        let arrives = carried.count() as u64;
        assert!((74_000..76_000).contains(&arrives), "{arrives}");
        assert_eq!(direction.carried.sent, direction.carried.lost + arrives);
    }

    #[test]
    fn syns_are_lost_by_their_class() {
        let way = Way { loss_of_syns: vec![0.0, 1.0], ..Way::default() };
        let mut direction = Direction::inward(&way, Chance::of(1, Entity::WayIn));
        let syn = Packet { flags: Flags::SYN, ..Packet::default() };
        let arrives = |direction: &mut Direction, packet, before| {
            direction.carry(0, 1, packet, before).is_some()
        };
        assert!(arrives(&mut direction, &syn, 0));
        assert!(!arrives(&mut direction, &syn, 1) && !arrives(&mut direction, &syn, 9));
        assert!(arrives(&mut direction, &Packet::default(), 1));
    }

    /// 1 Mbit/s and frames of 100 bytes: 800 µs each, and there is room for three.
    #[test]
    fn a_link_sends_one_after_the_other_and_drops_what_finds_no_room() {
        let link = Link { bits_per_s: 1_000_000, queue_bytes: 300 };
        let way = Way { links_in: vec![link], ..Way::default() };
        let mut direction = Direction::inward(&way, Chance::of(1, Entity::WayIn));
        let frame = Packet { length: 22, ..Packet::default() };
        let mut sends =
            |now_us: u64| direction.carry(now_us * 1000, 0, &frame, 0).map(|at_ns| at_ns / 1000);
        let burst: Vec<_> = (0..6).map(|_| sends(0)).collect();
        assert_eq!(burst, [Some(800), Some(1600), Some(2400), None, None, None]);
        assert_eq!(sends(799), None);
        assert_eq!(sends(800), Some(3200));
        assert_eq!(sends(9000), Some(9800));
    }

    #[test]
    fn links_in_series_are_as_fast_as_the_slowest() {
        let link = |bits_per_s| Link { bits_per_s, queue_bytes: 1000 };
        let links_in = vec![link(4_000_000), link(1_000_000), link(8_000_000)];
        let way = Way { links_in, ..Way::default() };
        let mut direction = Direction::inward(&way, Chance::of(1, Entity::WayIn));
        let frame = Packet { length: 22, ..Packet::default() };
        let through: Vec<_> =
            (0..3).map(|_| direction.carry(0, 50_000, &frame, 0).unwrap() / 1000).collect();
        assert_eq!(through, [200 + 800 + 100 + 50, 1950, 2750]);
    }
}
