// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a client's segments to frames under way.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use rand_chacha::ChaCha8Rng;
use tidegate_client::pairs::Concerned;
use tidegate_client::segment::DATA_ORDER;
use tidegate_client::{Flags, LastNumbers, Os, Out, Pairs, Segment, Segments};
use tidegate_policy::time_wait::Judged;

use crate::network::Network;
use crate::raw::delayed::{Delayed, Direction};
use crate::raw::device::Transmitter;
use crate::raw::frame::Way;
use crate::raw::xsk::FRAME_BYTES;

/// What every client's segments pass through.
#[derive(Debug)]
pub(crate) struct Office {
    pub transmitter: Transmitter,
    pub delayed: Delayed,
    /// Decides what the network does.
    pub weather: ChaCha8Rng,
    pub segments: Segments,
    /// What the clients' hosts hold blocked, where they are to hold anything.
    pub pairs: Option<Pairs>,
}

impl Office {
    /// Whether a segment goes no further at the client's host.
    #[inline]
    pub(crate) fn block(
        &mut self,
        (own, peer): (SocketAddr, SocketAddr),
        segment: &Segment<'_>,
        outgoing: bool,
        now_ns: u64,
    ) -> bool {
        let Some(pairs) = &mut self.pairs else { return false };
        let (flags, seq, clocks) = (segment.flags, segment.seq, segment.options.timestamps);
        let concerned = Concerned { flags, seq, clocks, outgoing };
        pairs.judge(own, peer, &concerned, now_ns) == Judged::Block
    }
}

/// One client's way out, for as long as it acts.
pub(crate) struct Post<'a> {
    pub office: &'a mut Office,
    pub way: &'a Way,
    pub from: (IpAddr, u16),
    pub os: &'static Os,
    pub network: Network,
    pub delay_ns: u64,
    pub now_ns: u64,
    /// How many packets it has sent, for IPv4's identification.
    pub packets: u16,
    /// What its own host answers to a SYN on a pair that it holds.
    pub refusal: Option<Segment<'static>>,
}

impl Post<'_> {
    fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.from.into(), self.way.target)
    }
}

impl Out for Post<'_> {
    #[inline]
    fn send(&mut self, segment: Segment<'_>) {
        if self.office.block(self.ends(), &segment, true, self.now_ns) {
            self.refusal = segment.refusal().filter(|_| segment.flags.has(Flags::SYN));
            return;
        }
        self.office.segments.sends(&segment);
        self.packets = self.packets.wrapping_add(1);
        let is_syn = segment.flags.has(Flags::SYN);
        let order = if is_syn { self.os.syn_order } else { DATA_ORDER };
        let (way, from, id) = (self.way, self.from, self.packets);
        let write = |frame: &mut [u8; FRAME_BYTES]| {
            way.write(from, self.os.ttl, id, &segment, order, frame)
        };
        if self.network.is_plain() {
            self.office.transmitter.send(write);
            return;
        }
        match self.network.holds_ns(self.delay_ns, &mut self.office.weather) {
            None => {}
            Some(0) => self.office.transmitter.send(write),
            Some(hold_ns) => {
                let mut frame = [0; FRAME_BYTES];
                let bytes = write(&mut frame);
                let until_ns = self.now_ns + hold_ns;
                self.office.delayed.keep(Direction::ToServer, &frame[..bytes], until_ns);
            }
        }
    }

    fn can_hold(&mut self) -> bool {
        let (own, peer) = self.ends();
        self.office.pairs.as_ref().is_some_and(|pairs| pairs.can_hold(own, peer, self.now_ns))
    }

    fn hold(&mut self, last: &LastNumbers) -> bool {
        let (own, peer) = self.ends();
        let pairs = self.office.pairs.as_mut();
        pairs.is_some_and(|pairs| pairs.hold(own, peer, last, self.now_ns))
    }

    /// The same in every run, as the clock goes on over all: a server may still hold the last one's.
    fn pair_first(&mut self) -> Option<u32> {
        let mut hash = DefaultHasher::new();
        self.ends().hash(&mut hash);
        Some(hash.finish() as u32)
    }
}
