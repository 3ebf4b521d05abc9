// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way between clients and server.

use rand_distr::{Distribution, StandardNormal};
use tidegate_client::way::{DELAY_MAX_MS, REORDERED_LATER_NS};
use tidegate_scenarios::Delay;

use crate::chance::Chance;
use crate::packet::Packet;

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
    use tidegate_client::{Flags, Segment};

    use super::*;
    use crate::chance::Entity;

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
        let syn = Packet::of(0, &Segment { flags: Flags::SYN, ..Segment::default() });
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
        let frame = Packet::of(0, &Segment { payload: &[0; 22], ..Segment::default() });
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
        let frame = Packet::of(0, &Segment { payload: &[0; 22], ..Segment::default() });
        let through: Vec<_> =
            (0..3).map(|_| direction.carry(0, 50_000, &frame, 0).unwrap() / 1000).collect();
        assert_eq!(through, [200 + 800 + 100 + 50, 1950, 2750]);
    }
}
