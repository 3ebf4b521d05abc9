// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a TCP segment says, without addresses, ports and checksum, which are the driver's.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

use tidegate_policy::time_wait::End;

use crate::pairs::LastNumbers;

/// The flags of a segment, at their places in the header's 14th byte (RFC 9293, section 3.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from the sender.
    pub const FIN: Self = Self(0x01);
    /// Sequence numbers begin.
    pub const SYN: Self = Self(0x02);
    /// The connection is reset.
    pub const RST: Self = Self(0x04);
    /// The data is to be handed to the reader.
    pub const PSH: Self = Self(0x08);
    /// The acknowledgement number means something.
    pub const ACK: Self = Self(0x10);

    /// Whether all of `others` are set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SYN, "SYN"),
            (Self::FIN, "FIN"),
            (Self::RST, "RST"),
            (Self::PSH, "PSH"),
            (Self::ACK, "ACK"),
        ];
        let set: Vec<&str> =
            names.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, name)| *name).collect();
        f.write_str(&set.join(" "))
    }
}

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the other side's clock, as last seen.
    pub echo: u32,
}

/// The options that this client understands; the others are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The largest payload that the sender takes, in bytes (SYN only).
    pub mss: Option<u16>,
    /// By how many bits the sender's windows are to be shifted (SYN only).
    pub window_scale: Option<u8>,
    /// Selective acknowledgements are understood (SYN only).
    pub sack_permitted: bool,
    /// Both clocks.
    pub timestamps: Option<Timestamps>,
    /// Whom TW-Negotiate names to hold TIME-WAIT (Faber, section 3). On the wire it is an address,
    /// which the driver writes and reads.
    pub time_wait: Option<End>,
}

/// An option's place in a SYN, padding included: systems are known by their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// End of the list (kind 0).
    End,
    /// Padding (kind 1).
    Nop,
    /// Maximum segment size (kind 2).
    Mss,
    /// Window scale (kind 3).
    WindowScale,
    /// SACK permitted (kind 4).
    SackPermitted,
    /// Timestamps (kind 8).
    Timestamps,
}

/// The order of options in any segment but a SYN: all systems here align the timestamps so.
pub const DATA_ORDER: &[OptionKind] = &[OptionKind::Nop, OptionKind::Nop, OptionKind::Timestamps];

/// The most bytes that options can take.
pub const OPTIONS_MAX_BYTES: usize = 40;

impl Options {
    /// Writes the options in this order and says how many bytes they take, a multiple of four.
    /// What is `None` is left out together with the padding right before it.
    #[must_use]
    pub fn encode(&self, order: &[OptionKind], into: &mut [u8; OPTIONS_MAX_BYTES]) -> usize {
        let mut at = 0;
        let mut padding = 0;
        for kind in order {
            let mut option = [0; 10];
            let length = match (kind, self.mss, self.window_scale, self.timestamps) {
                (OptionKind::Nop, ..) => {
                    padding += 1;
                    continue;
                }
                (OptionKind::End, ..) => 0,
                (OptionKind::Mss, Some(mss), ..) => {
                    option[..2].copy_from_slice(&[2, 4]);
                    option[2..4].copy_from_slice(&mss.to_be_bytes());
                    4
                }
                (OptionKind::WindowScale, _, Some(shift), _) => {
                    option[..3].copy_from_slice(&[3, 3, shift]);
                    3
                }
                (OptionKind::SackPermitted, ..) if self.sack_permitted => {
                    option[..2].copy_from_slice(&[4, 2]);
                    2
                }
                (OptionKind::Timestamps, _, _, Some(timestamps)) => {
                    option[..2].copy_from_slice(&[8, 10]);
                    option[2..6].copy_from_slice(&timestamps.value.to_be_bytes());
                    option[6..10].copy_from_slice(&timestamps.echo.to_be_bytes());
                    10
                }
                _ => {
                    padding = 0;
                    continue;
                }
            };
            if at + padding + length > OPTIONS_MAX_BYTES {
                break;
            }
            into[at..at + padding].fill(1);
            at += padding;
            into[at..at + length].copy_from_slice(&option[..length]);
            at += length;
            padding = 0;
        }
        let whole = at.next_multiple_of(4);
        into[at..whole].fill(0);
        whole
    }

    /// Reads options as they came. What is malformed ends the list, as in Linux.
    #[must_use]
    pub fn decode(mut bytes: &[u8]) -> Self {
        let mut options = Self::default();
        loop {
            match *bytes {
                [1, ..] => bytes = &bytes[1..],
                [] | [0, ..] | [_] => return options,
                [kind, length, ..] => {
                    let Some((option, rest)) = bytes.split_at_checked(usize::from(length)) else {
                        return options;
                    };
                    if length < 2 {
                        return options;
                    }
                    options.note(kind, &option[2..]);
                    bytes = rest;
                }
            }
        }
    }

    fn note(&mut self, kind: u8, value: &[u8]) {
        match (kind, value) {
            (2, &[high, low]) => self.mss = Some(u16::from_be_bytes([high, low])),
            (3, &[shift]) => self.window_scale = Some(shift),
            (4, []) => self.sack_permitted = true,
            (8, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    value: u32::from_be_bytes([a, b, c, d]),
                    echo: u32::from_be_bytes([e, f, g, h]),
                });
            }
            _ => {}
        }
    }
}

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Its flags.
    pub flags: Flags,
    /// The sequence number of its first byte, or of its SYN.
    pub seq: u32,
    /// The next sequence number expected, where [`Flags::ACK`] is set.
    pub ack: u32,
    /// The window as it stands in the header, not yet scaled.
    pub window: u16,
    /// Its options.
    pub options: Options,
    /// Its data.
    pub payload: &'a [u8],
}

impl Segment<'_> {
    /// How many sequence numbers it takes: its data, and one each for SYN and FIN.
    #[must_use]
    pub fn sequence_length(&self) -> u32 {
        self.payload.len() as u32
            + u32::from(self.flags.has(Flags::SYN))
            + u32::from(self.flags.has(Flags::FIN))
    }

    /// The RST that a host answers with when the segment belongs to no connection of its own
    /// (RFC 9293, section 3.10.7.1); none for a RST.
    #[must_use]
    pub fn refusal(&self) -> Option<Segment<'static>> {
        if self.flags.has(Flags::RST) {
            return None;
        }
        if self.flags.has(Flags::ACK) {
            return Some(Segment { flags: Flags::RST, seq: self.ack, ..Segment::default() });
        }
        Some(Segment {
            flags: Flags::RST | Flags::ACK,
            ack: self.seq.wrapping_add(self.sequence_length()),
            ..Segment::default()
        })
    }

    /// What a client's host answers when the segment belongs to no attempt. In TIME-WAIT it is an ACK to
    /// whatever has a sequence number, as to a FIN, since the last ACK must have been lost, and nothing
    /// to what has none (RFC 9293, section 3.10.7.4): an old one of those would get an ACK, too, but which
    /// are old is not known any more. Elsewhere it is [`Segment::refusal`], also of a pair that is held: TCP
    /// knows nothing of that, and its host's [`Pairs`](crate::Pairs) keep the RST.
    #[must_use]
    pub fn answer_to_stray(&self, in_time_wait: bool) -> Option<Segment<'static>> {
        if !in_time_wait {
            return self.refusal();
        }
        let length = self.sequence_length();
        let is_acknowledged =
            length > 0 && self.flags.has(Flags::ACK) && !self.flags.has(Flags::RST);
        is_acknowledged.then(|| Segment {
            flags: Flags::ACK,
            seq: self.ack,
            ack: self.seq.wrapping_add(length),
            ..Segment::default()
        })
    }
}

/// Where segments go. The driver fills in addresses, ports and checksum.
pub trait Out {
    /// Takes one segment. It is sent or lost; the client will know by itself.
    fn send(&mut self, segment: Segment<'_>);

    /// Whether the client's host has room to hold this connection's addresses and ports blocked
    /// after their end. A driver that keeps no [`Pairs`](crate::Pairs) has none.
    fn can_hold(&mut self) -> bool {
        false
    }

    /// Holds them blocked from now on, for 2 MSL, and says whether it does.
    fn hold(&mut self, last: &LastNumbers) -> bool {
        let _ = last;
        false
    }

    /// Where this pair's sequence numbers begin when the clock is at 0, the same each time that its
    /// addresses and ports are used (F of RFC 6528). `None`: nobody uses them twice, and chance is as
    /// good.
    fn pair_first(&mut self) -> Option<u32> {
        None
    }
}

/// Whether `a` comes before `b`, in sequence numbers that wrap around.
#[must_use]
pub fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_as_they_went() {
        let options = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { value: 0x0102_0304, echo: 9 }),
            time_wait: None,
        };
        use OptionKind::{Mss, Nop, SackPermitted, Timestamps as Clocks, WindowScale};
        let mut bytes = [0; OPTIONS_MAX_BYTES];
        let order = [Mss, SackPermitted, Clocks, Nop, WindowScale];
        let length = options.encode(&order, &mut bytes);
        let expected = [2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 9, 1, 3, 3, 7];
        assert_eq!(bytes[..length], expected);
        assert_eq!(Options::decode(&bytes[..length]), options);
    }

    #[test]
    fn what_is_not_there_takes_its_padding_with_it() {
        let clocks = Options { timestamps: Some(Timestamps::default()), ..Options::default() };
        let mut bytes = [0; OPTIONS_MAX_BYTES];
        assert_eq!(clocks.encode(DATA_ORDER, &mut bytes), 12);
        assert_eq!(Options::default().encode(DATA_ORDER, &mut bytes), 0);
    }

    #[test]
    fn malformed_options_end_the_list() {
        for bytes in [&[2, 4, 5][..], &[2, 0], &[2, 1], &[8], &[8, 10, 0]] {
            assert_eq!(Options::decode(bytes), Options::default(), "{bytes:?}");
        }
        let unknown = [254, 4, 1, 2, 3, 3, 7];
        assert_eq!(Options::decode(&unknown).window_scale, Some(7));
    }

    #[test]
    fn what_belongs_nowhere_is_refused_by_the_rules() {
        let syn = Segment { flags: Flags::SYN, seq: 7, payload: b"ab", ..Segment::default() };
        let rst = syn.refusal().unwrap();
        assert_eq!((rst.flags, rst.seq, rst.ack), (Flags::RST | Flags::ACK, 0, 10));
        let ack = Segment { flags: Flags::ACK, seq: 7, ack: 90, ..Segment::default() };
        let rst = ack.refusal().unwrap();
        assert_eq!((rst.flags, rst.seq), (Flags::RST, 90));
        assert!(rst.refusal().is_none());
    }

    #[test]
    fn what_belongs_to_no_attempt_is_refused_unless_its_host_holds_time_wait() {
        let fin = Flags::FIN | Flags::ACK;
        let segment =
            |flags, payload| Segment { flags, seq: 7, ack: 90, payload, ..Segment::default() };
        for (flags, payload) in
            [(fin, &b"ab"[..]), (fin, b""), (Flags::ACK, b"ab"), (Flags::ACK, b"")]
        {
            let stray = segment(flags, payload);
            let rst = stray.answer_to_stray(false).unwrap();
            assert_eq!((rst.flags, rst.seq), (Flags::RST, 90), "{stray:?}");
            let end = 7 + stray.sequence_length();
            let answer = stray.answer_to_stray(true).map(|ack| (ack.flags, ack.seq, ack.ack));
            assert_eq!(answer, (end > 7).then_some((Flags::ACK, 90, end)), "{stray:?}");
        }
        for flags in [Flags::RST, fin | Flags::RST] {
            for in_time_wait in [false, true] {
                assert_eq!(segment(flags, b"").answer_to_stray(in_time_wait), None, "{flags:?}");
            }
        }
    }
}
