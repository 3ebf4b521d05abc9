// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's end of a connection.

use tidegate_client::segment::{Timestamps, is_before};
use tidegate_client::{Flags, Options, Segment};
use tidegate_policy::shed::Stands;
use tidegate_policy::time_wait::End;

use super::Profile;
use crate::engine::Ticket;
use crate::packet::Packet;
use crate::wire::{Event, Wire};

pub(super) const NEVER: u64 = u64::MAX;
/// The MSS that we name, and that of a client that names none (RFC 9293, section 3.7.1).
const MSS: u16 = 1460;
const MSS_DEFAULT: u16 = 536;
const CLOCKS_BYTES: u16 = 12;

/// Where a connection stands at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    None,
    /// SYN-RECEIVED, in the SYN queue.
    HalfOpen,
    /// Established, in the listen queue.
    Queued,
    /// The application's.
    Accepted,
    /// The application has closed: FIN-WAIT, CLOSING or LAST-ACK.
    Closing,
    /// TIME-WAIT.
    TimeWait,
}

/// Who gave a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Giver {
    Guard,
    Kernel,
}

/// The server's end of a connection.
#[derive(Debug, Default)]
pub(crate) struct Conn {
    pub state: State,
    /// The initial sequence number, also of a cookie.
    pub(super) isn: u32,
    /// The next sequence number expected.
    pub(super) expected: u32,
    /// The next to send; behind `sent_max` after a loss.
    pub(super) next: u32,
    pub(super) sent_max: u32,
    pub(super) unacked: u32,
    /// The end of what the application has handed over, which is where the FIN stands.
    pub(super) data_end: u32,
    /// Where the reply begins and ends.
    pub(super) reply_begins: u32,
    pub(super) reply_end: u32,
    /// What the application has not handed over of it, in bytes.
    pub left: u32,
    /// The client's window, in bytes.
    pub(super) window: u32,
    /// The client's clock as last seen.
    pub(super) peer_clock: u32,
    /// The round trip of the handshake, in µs; 0 while unknown.
    pub(super) round_trip_us: u32,
    pub(super) timer: Option<(u64, Ticket)>,
    /// When something is sent again; when FIN-WAIT-2 and TIME-WAIT end.
    pub(super) again_at_ns: u64,
    pub(super) ack_at_ns: u64,
    /// When the application has waited long enough.
    pub patience_at_ns: u64,
    pub(super) sent_at_ns: u64,
    /// When the client last asked, or closed.
    pub(super) heard_at_ns: u64,
    /// Congestion window and slow start threshold, in segments.
    pub(super) flight: u16,
    pub(super) flight_slow: u16,
    pub(super) acks: u16,
    /// The most data in a segment.
    pub(super) mss: u16,
    pub page: u16,
    /// Whose it is, of a server's threads.
    pub thread: u32,
    /// Whom our SYN/ACK names to hold TIME-WAIT, and who will.
    pub(super) named: Option<End>,
    pub(super) agreed: Option<End>,
    /// Whole requests that nobody has read.
    pub requests: u16,
    /// Requests read.
    pub served: u16,
    pub(super) shift: u8,
    /// Times that something was sent again, in a row.
    pub(super) again: u8,
    pub(super) same_acks: u8,
    /// A cookie is out, and whose: it is in no queue.
    pub(super) cookie: Option<Giver>,
    /// When what brought it was last left in silence, in ns.
    pub(super) left_at_ns: Option<u64>,
    /// The bare ACK that brought it has met a RST, and nothing came since.
    pub(super) was_told: bool,
    pub(super) has_clocks: bool,
    pub(super) has_shift: bool,
    pub(super) has_sack: bool,
    /// An ACK came, and the listen queue was full.
    pub(super) was_acked: bool,
    /// A reply went out, so acknowledgements can wait for the next.
    pub(super) alternates: bool,
    pub(super) wants_fin: bool,
    pub(super) closed_first: bool,
    pub fin_seen: bool,
    pub was_reset: bool,
    /// A request was read, and its reply is not handed over.
    pub replies: bool,
    /// The application has waited for its client for too long.
    pub is_overdue: bool,
    /// The application is told, or being told, of something to do.
    pub is_ready: bool,
}

impl Conn {
    /// What a SYN says, and a number of our own.
    pub(super) fn of_syn(packet: &Packet, isn: u32) -> Self {
        let options = packet.options();
        let clocks = options.timestamps;
        let first = isn.wrapping_add(1);
        let mss = options.mss.unwrap_or(MSS_DEFAULT).clamp(MSS_DEFAULT, MSS);
        Self {
            isn,
            expected: packet.end(),
            next: first,
            sent_max: first,
            unacked: first,
            data_end: first,
            reply_begins: first,
            reply_end: first,
            peer_clock: clocks.map_or(0, |clocks| clocks.value),
            again_at_ns: NEVER,
            ack_at_ns: NEVER,
            patience_at_ns: NEVER,
            mss: if clocks.is_some() { mss - CLOCKS_BYTES } else { mss },
            shift: options.window_scale.unwrap_or(0).min(14),
            has_clocks: clocks.is_some(),
            has_shift: options.window_scale.is_some(),
            has_sack: options.sack_permitted,
            ..Self::default()
        }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.state == State::None
    }

    /// Whether there is a whole socket of it, not a request or a block.
    pub(crate) fn is_socket(&self) -> bool {
        matches!(self.state, State::Queued | State::Accepted | State::Closing)
    }

    /// How long ago its first SYN/ACK was sent, of one that is half-open.
    pub(super) fn half_open_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.sent_at_ns)
    }

    /// Whether it is half-open and its SYN/ACK was sent once.
    pub(crate) fn is_young(&self) -> bool {
        self.state == State::HalfOpen && self.again == 0
    }

    /// Whether a reply was handed over whole.
    pub(crate) fn was_answered(&self) -> bool {
        self.served > u16::from(self.replies)
    }

    /// Whether the application has something to do for it.
    pub(crate) fn wants_turn(&self, profile: Profile) -> bool {
        if self.was_reset || self.is_overdue {
            return true;
        }
        if self.replies { self.is_writable(profile) } else { self.requests > 0 || self.fin_seen }
    }

    /// Whether a third of the send buffer is free.
    fn is_writable(&self, profile: Profile) -> bool {
        self.room(profile) * 3 >= profile.send_buffer()
    }

    /// How much the application may hand over, in bytes.
    pub(crate) fn room(&self, profile: Profile) -> u32 {
        profile.send_buffer().saturating_sub(self.data_end.wrapping_sub(self.unacked))
    }

    /// The next sequence number that was never sent.
    pub(crate) fn sent_max(&self) -> u32 {
        self.sent_max
    }

    pub(super) fn takes_window(&mut self, packet: &Packet) {
        let shift = if self.has_shift { self.shift } else { 0 };
        self.window = u32::from(packet.window) << shift;
    }

    pub(super) fn fin_is_acked(&self) -> bool {
        self.wants_fin && self.unacked == self.data_end.wrapping_add(1)
    }

    fn options(&self, profile: Profile, now_ns: u64) -> Options {
        let value = profile.clock(now_ns);
        let clocks = Timestamps { value, echo: self.peer_clock };
        Options { timestamps: self.has_clocks.then_some(clocks), ..Options::default() }
    }

    /// A segment with an acknowledgement.
    pub(super) fn segment<'a>(
        &mut self,
        profile: Profile,
        now_ns: u64,
        flags: Flags,
        seq: u32,
        payload: &'a [u8],
    ) -> Segment<'a> {
        self.ack_at_ns = NEVER;
        let shift = if self.has_shift { profile.window_shift() } else { 0 };
        Segment {
            flags: flags | Flags::ACK,
            seq,
            ack: self.expected,
            window: (profile.window() >> shift).min(0xffff) as u16,
            options: self.options(profile, now_ns),
            payload,
        }
    }

    pub(super) fn syn_ack(&self, profile: Profile, now_ns: u64) -> Segment<'static> {
        Segment {
            flags: Flags::SYN | Flags::ACK,
            seq: self.isn,
            ack: self.expected,
            window: profile.window().min(0xffff) as u16,
            options: Options {
                mss: Some(MSS),
                window_scale: self.has_shift.then(|| profile.window_shift()),
                sack_permitted: self.has_sack,
                time_wait: self.named,
                ..self.options(profile, now_ns)
            },
            payload: b"",
        }
    }

    /// Has the timer come at that time or earlier.
    pub(crate) fn wake_at(&mut self, place: u32, at_ns: u64, wire: &mut Wire) {
        match self.timer {
            Some((set_ns, _)) if set_ns <= at_ns => return,
            Some((_, ticket)) => wire.queue.take_back(ticket),
            None => {}
        }
        self.timer = Some((at_ns, wire.queue.add(at_ns, Event::Conn(place))));
    }

    /// Whether a hook before TCP finds the listening socket or its request for a SYN: behind
    /// TIME-WAIT, too, where TCP may take the SYN for an old one. Where a connection stands it finds
    /// that, and lets the SYN by.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::None | State::HalfOpen | State::TimeWait)
    }

    /// What stands for whoever sheds a SYN of this client's.
    pub(super) fn stands(&self) -> Stands {
        match self.state {
            State::None => Stands::Nothing,
            State::TimeWait => Stands::TimeWait,
            _ => Stands::Answered,
        }
    }

    /// Whether a SYN in TIME-WAIT is certainly of a new connection: by its clock (RFC 6191), or by
    /// its number (RFC 9293, section 3.6.1); Linux' `tcp_timewait_state_process()`.
    pub(super) fn is_begun_anew_by(&self, packet: &Packet) -> bool {
        let clock = packet.clocks().filter(|_| self.has_clocks).map(|clocks| clocks.value);
        let is_old = clock.is_some_and(|clock| is_before(clock, self.peer_clock));
        let is_new = clock.is_some_and(|clock| is_before(self.peer_clock, clock));
        !is_old && (is_new || is_before(self.expected, packet.seq))
    }

    /// Nothing is left of it.
    pub(super) fn forget(&mut self, wire: &mut Wire) {
        if let Some((_, ticket)) = self.timer {
            wire.queue.take_back(ticket);
        }
        *self = Self::default();
    }
}
