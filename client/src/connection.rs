// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One TCP connection from the client's side (RFC 9293), as its [`Os`] would hold it.
//!
//! What it leaves out: segments that come out of order are dropped and answered with a duplicate
//! acknowledgement, so no SACK blocks are ever sent, and those that come are not read; lost data is
//! sent again from the first byte missing; at most ten segments are under way, without a
//! congestion window; the window offered stays as it is, since the reader keeps up; simultaneous
//! open is ignored; TIME-WAIT is the driver's, whoever is to hold it ([`Wait`]).

mod acks;
mod agreement;
mod receive;
mod round_trip;
mod send;
#[cfg(test)]
mod tests;

use rand_core::Rng;
use tidegate_policy::raw::tg_tw_rules;

use crate::os::Os;
use crate::segment::{Flags, Options, Out, Segment, Timestamps, is_before};
use acks::Acks;
use agreement::Agreement;
use round_trip::RoundTrip;

pub use agreement::Wait;
pub use receive::Received;

/// No time at all.
pub(crate) const NEVER: u64 = u64::MAX;
pub(crate) const MS_NS: u64 = 1_000_000;
/// The clock of initial sequence numbers (RFC 9293, section 3.4.1).
const NUMBER_TICK_NS: u64 = 4000;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Both sides closed. The one who closed first holds TIME-WAIT, where nothing else is agreed:
    /// see [`Connection::wait`].
    Closed {
        /// Whether that is the client.
        client_first: bool,
    },
    /// A RST answered the SYN.
    Refused,
    /// A RST came later.
    Reset,
    /// The client sent a RST, or left before it was connected.
    Aborted,
    /// The operating system gave up: connecting, sending data again, or waiting for a FIN.
    TimedOut,
}

/// A connection. Times are in ns, on any clock that does not go back.
///
/// `data`, where a call asks for it, is what the last [`Connection::send`] sent: the connection
/// keeps no copy.
#[derive(Debug)]
pub struct Connection {
    os: &'static Os,
    /// When to send a SYN, data or a FIN again.
    again_at_ns: u64,
    /// When the system gives up: connecting, or waiting for the server's FIN.
    quits_at_ns: u64,
    /// While connecting, when the first SYN went; later, when the segment went whose round trip is
    /// measured, if any.
    timed_at_ns: u64,
    acks: Acks,
    agreement: Agreement,
    round_trip: RoundTrip,
    /// The end of the segment whose round trip is measured.
    timed_end: u32,
    /// The first sequence number that is not acknowledged.
    unacked: u32,
    /// The next to send; behind `sent_max` after a loss.
    next: u32,
    /// The end of all that was ever sent.
    sent_max: u32,
    /// The end of the data handed over, which is where the FIN stands.
    data_end: u32,
    /// The server's window, in bytes.
    room: u32,
    /// The next sequence number expected from the server.
    expected: u32,
    /// The server's clock, as last seen (TS.Recent).
    server_clock: u32,
    /// The most data in a segment.
    segment_max: u16,
    server_shift: u8,
    backoff: u8,
    times_again: u8,
    syns: u8,
    refusals: u8,
    ended: Option<Ended>,
    is_connected: bool,
    /// Negotiated.
    has_sack: bool,
    has_clocks: bool,
    has_shift: bool,
    /// A SYN is due to a RST, not to silence.
    was_refused: bool,
    wants_fin: bool,
    fin_received: bool,
    /// The application is still there.
    is_open: bool,
    closed_first: bool,
    /// What is due next is a tail loss probe.
    probes_next: bool,
    has_probed: bool,
}

impl Connection {
    /// Sends the first SYN. `mss` is the most that a packet can carry on this path, in bytes: 1460
    /// on Ethernet over IPv4, 1440 over IPv6. Its initial sequence number is drawn from `rng`, or
    /// goes on with its pair's. `time_wait` is what the client wants of TIME-WAIT.
    pub fn start(
        os: &'static Os,
        mss: u16,
        time_wait: &tg_tw_rules,
        now_ns: u64,
        rng: &mut impl Rng,
        out: &mut impl Out,
    ) -> Self {
        let drawn = rng.next_u32();
        let first = goes_on(os, now_ns, out).unwrap_or(drawn);
        let mut connection = Self {
            os,
            again_at_ns: NEVER,
            quits_at_ns: now_ns + u64::from(os.connect_gives_up_ms) * MS_NS,
            timed_at_ns: now_ns,
            acks: Acks::default(),
            agreement: Agreement::offer(time_wait, out),
            round_trip: RoundTrip::default(),
            timed_end: 0,
            unacked: first,
            next: first.wrapping_add(1),
            sent_max: first.wrapping_add(1),
            data_end: first.wrapping_add(1),
            room: 0,
            expected: 0,
            server_clock: 0,
            segment_max: mss.min(os.mss),
            server_shift: 0,
            backoff: 0,
            times_again: 0,
            syns: 0,
            refusals: 0,
            ended: None,
            is_connected: false,
            has_sack: false,
            has_clocks: false,
            has_shift: false,
            was_refused: false,
            wants_fin: false,
            fin_received: false,
            is_open: true,
            closed_first: false,
            probes_next: false,
            has_probed: false,
        };
        connection.send_syn(now_ns, out);
        connection
    }

    /// Sends data. Everything sent before must be acknowledged: see [`Connection::is_drained`].
    pub fn send(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        debug_assert!(self.is_drained() && !self.wants_fin);
        self.data_end = self.data_end.wrapping_add(data.len() as u32);
        self.push(now_ns, data, out);
    }

    /// Whether all data sent was acknowledged.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_connected && !is_before(self.unacked, self.data_end)
    }

    /// Ends the client's side after the data sent, and goes on reading (shutdown()).
    pub fn shut(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        if self.is_connected && !self.wants_fin && self.ended.is_none() {
            self.wants_fin = true;
            self.closed_first = !self.fin_received;
            self.push(now_ns, data, out);
        }
    }

    /// The application leaves (close()): data that comes after this is answered with a RST. What
    /// it left `unread` makes some systems reset at once. Before the SYN/ACK, nothing is sent.
    pub fn close(&mut self, now_ns: u64, unread: bool, data: &[u8], out: &mut impl Out) {
        if !self.is_open || self.ended.is_some() {
            return;
        }
        self.is_open = false;
        if !self.is_connected {
            self.ended = Some(Ended::Aborted);
        } else if unread && self.os.resets_unread {
            self.reset(now_ns, out);
        } else {
            self.shut(now_ns, data, out);
            self.wait_for_fin(now_ns);
        }
    }

    /// The application leaves with a RST (`SO_LINGER` of zero). Before the SYN/ACK, nothing is
    /// sent.
    pub fn abort(&mut self, now_ns: u64, out: &mut impl Out) {
        if self.ended.is_some() {
            return;
        }
        self.is_open = false;
        if self.is_connected {
            self.reset(now_ns, out);
        } else {
            self.ended = Some(Ended::Aborted);
        }
    }

    /// Does what is due; nothing when nothing is.
    pub fn timer(&mut self, now_ns: u64, data: &[u8], out: &mut impl Out) {
        if self.ended.is_some() {
            return;
        }
        if now_ns >= self.quits_at_ns {
            self.ended = Some(Ended::TimedOut);
            return;
        }
        if now_ns >= self.acks.at_ns {
            self.acks.waited();
            self.acknowledge(now_ns, out);
        }
        if now_ns < self.again_at_ns {
            return;
        }
        if self.is_connected {
            self.send_again(now_ns, data, out);
        } else {
            self.send_syn(now_ns, out);
        }
    }

    /// When [`Connection::timer`] has something to do.
    #[inline]
    #[must_use]
    pub fn next_timer_ns(&self) -> Option<u64> {
        let next_ns = self.again_at_ns.min(self.quits_at_ns).min(self.acks.at_ns);
        (self.ended.is_none() && next_ns != NEVER).then_some(next_ns)
    }

    /// How it ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// Whether the SYN/ACK has come.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// How many SYNs were sent.
    #[must_use]
    pub fn syns(&self) -> u32 {
        u32::from(self.syns)
    }

    /// A segment with an acknowledgement, as every one is after the SYN.
    fn segment<'a>(
        &mut self,
        now_ns: u64,
        flags: Flags,
        seq: u32,
        payload: &'a [u8],
    ) -> Segment<'a> {
        self.acks.sent(self.expected);
        let timestamps = self.has_clocks.then(|| self.clocks(now_ns));
        let shift = if self.has_shift { self.os.window_scale.unwrap_or(0) } else { 0 };
        Segment {
            flags: flags | Flags::ACK,
            seq,
            ack: self.expected,
            window: (self.os.window >> shift).min(0xffff) as u16,
            options: Options { timestamps, time_wait: self.agreement.said(), ..Options::default() },
            payload,
        }
    }

    fn acknowledge(&mut self, now_ns: u64, out: &mut impl Out) {
        let segment = self.segment(now_ns, Flags::ACK, self.sent_max, b"");
        out.send(segment);
    }

    fn reset(&mut self, now_ns: u64, out: &mut impl Out) {
        let segment = self.segment(now_ns, Flags::RST, self.sent_max, b"");
        out.send(segment);
        self.ended = Some(Ended::Aborted);
    }

    fn clocks(&self, now_ns: u64) -> Timestamps {
        Timestamps { value: self.clock(now_ns), echo: self.server_clock }
    }

    /// Its system's clock, the same for all its connections: a server that still holds the last one
    /// from a port in TIME-WAIT sees that the next is new (RFC 6191).
    fn clock(&self, now_ns: u64) -> u32 {
        let tick_ns = u64::from(self.os.timestamp_tick_us.unwrap_or(1000)) * 1000;
        (now_ns / tick_ns) as u32
    }

    fn fin_is_sent(&self) -> bool {
        self.wants_fin && is_before(self.data_end, self.sent_max)
    }

    fn fin_is_acked(&self) -> bool {
        self.wants_fin && is_before(self.data_end, self.unacked)
    }

    /// After close(), a server that keeps its side open is waited for only so long.
    fn wait_for_fin(&mut self, now_ns: u64) {
        if !self.is_open && self.fin_is_acked() && !self.fin_received && self.quits_at_ns == NEVER {
            self.quits_at_ns = now_ns + u64::from(self.os.fin_wait_2_ms) * MS_NS;
        }
    }
}

/// Where a pair's numbers go on, of a system without time stamps: a server that still holds the last
/// connection in TIME-WAIT knows by the number alone that the next is new (RFC 9293, section 3.4.1).
fn goes_on(os: &Os, now_ns: u64, out: &mut impl Out) -> Option<u32> {
    if os.timestamp_tick_us.is_some() {
        return None;
    }
    let first = out.pair_first()?;
    Some(first.wrapping_add((now_ns / NUMBER_TICK_NS) as u32))
}
