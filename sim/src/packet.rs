// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What travels between clients and server.

use tidegate_client::segment::Timestamps;
use tidegate_client::{Flags, Options, Segment};
use tidegate_policy::time_wait::End;

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
    pub(crate) fn frame_bytes(&self) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
