// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pairs of addresses and ports that a host holds blocked although its TCP is CLOSED: by
//! agreement with the other end, or by close_swap (Faber, sections 3 and 4.1).

use std::net::SocketAddr;

use tidegate_policy::raw::{TG_HELD_SWAPPED, TG_HELD_TIMESTAMPS, tg_held, tg_held_segment, tg_key};
use tidegate_policy::time_wait::{Judged, Put, Table};

use crate::segment::{Flags, Timestamps};
use crate::time_wait::{TIME_WAIT_NS, TimeWaits};

/// A minute's pairs at 60,000 connections a second: a table of them takes 256 MB.
pub const PAIRS_OF_A_MINUTE: u32 = 1 << 22;

/// What a host remembers of a connection that it holds blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastNumbers {
    /// The sequence number behind all that it sent.
    pub sent: u32,
    /// The sequence number behind all that came.
    pub expected: u32,
    /// Its clock and the other end's, as last seen, where they were exchanged.
    pub clocks: Option<(u32, u32)>,
    /// By close_swap, else by agreement: who agreed to hold must, and whoever swaps may leave it.
    pub swapped: bool,
}

/// A segment with SYN or RST of a pair that may be held.
#[derive(Clone, Copy, Debug)]
pub struct Concerned {
    /// Its flags.
    pub flags: Flags,
    /// Its sequence number.
    pub seq: u32,
    /// Its clocks, where it has them.
    pub clocks: Option<Timestamps>,
    /// From this host, not to it.
    pub outgoing: bool,
}

/// The pairs of a host. Times are in ns, on a clock that begins with 0, and do not go back.
#[derive(Clone, Debug)]
pub struct Pairs {
    table: Table,
    waits: TimeWaits,
    renewed_ns: Option<u64>,
}

impl Pairs {
    /// Room for at least so many pairs. The key makes their places in the table.
    #[must_use]
    pub fn new(entries: u32, key: tg_key) -> Self {
        let table = Table::new(entries as usize, key);
        Self { table, waits: TimeWaits::default(), renewed_ns: None }
    }

    /// Whether there is room enough to offer to hold this one.
    #[must_use]
    pub fn can_hold(&self, own: SocketAddr, peer: SocketAddr, now_ns: u64) -> bool {
        self.table.can_hold(&tg_held::pair(own, peer), now_ns)
    }

    /// Holds a pair for 2 MSL, and says whether it does.
    pub fn hold(
        &mut self,
        own: SocketAddr,
        peer: SocketAddr,
        last: &LastNumbers,
        now_ns: u64,
    ) -> bool {
        let pair = tg_held::pair(own, peer);
        let (own_ts, peer_ts) = last.clocks.unwrap_or_default();
        let clocks = if last.clocks.is_some() { TG_HELD_TIMESTAMPS } else { 0 };
        let swapped = if last.swapped { TG_HELD_SWAPPED } else { 0 };
        let pair = tg_held {
            snd_nxt: last.sent,
            rcv_nxt: last.expected,
            own_ts,
            peer_ts,
            flags: pair.flags | clocks | swapped,
            ..pair
        };
        let until_ns = self.table.until_ns(&pair, now_ns);
        if self.table.put(&pair, !last.swapped, now_ns) == Put::NoRoom {
            return false;
        }
        self.renewed_ns = until_ns.map(|until_ns| until_ns.saturating_sub(TIME_WAIT_NS));
        if let Some(begun_ns) = self.renewed_ns {
            self.waits.ends(begun_ns, now_ns);
        }
        self.waits.begins(now_ns);
        true
    }

    /// Since when the pair that was held last had been held already, in ns. It is told once.
    pub fn take_renewed_ns(&mut self) -> Option<u64> {
        self.renewed_ns.take()
    }

    /// What becomes of a segment; of one without SYN and RST always [`Judged::Pass`].
    pub fn judge(
        &mut self,
        own: SocketAddr,
        peer: SocketAddr,
        segment: &Concerned,
        now_ns: u64,
    ) -> Judged {
        let [syn, ack, rst] =
            [Flags::SYN, Flags::ACK, Flags::RST].map(|flag| segment.flags.has(flag));
        if !syn && !rst {
            return Judged::Pass;
        }
        let segment = tg_held_segment {
            seq: segment.seq,
            ts: segment.clocks.map_or(0, |clocks| clocks.value),
            has_ts: segment.clocks.is_some().into(),
            outgoing: segment.outgoing.into(),
            syn: syn.into(),
            ack: ack.into(),
            rst: rst.into(),
        };
        self.table.judge(&tg_held::pair(own, peer), &segment, now_ns)
    }

    /// How many are held now, and the most that were, counted to the second.
    pub fn held(&mut self, now_ns: u64) -> (u64, u64) {
        (self.waits.held(now_ns), self.waits.held_max())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn syn(seq: u32, clock: Option<u32>) -> Concerned {
        let clocks = clock.map(|value| Timestamps { value, echo: 0 });
        Concerned { flags: Flags::SYN, seq, clocks, outgoing: true }
    }

    fn ends() -> (SocketAddr, SocketAddr) {
        ("10.0.0.2:40000".parse().unwrap(), "10.0.0.1:80".parse().unwrap())
    }

    fn last(clocks: Option<(u32, u32)>) -> LastNumbers {
        LastNumbers { sent: 1000, expected: 5000, clocks, swapped: false }
    }

    #[test]
    fn a_pair_is_blocked_for_a_minute_unless_a_syn_is_certainly_new() {
        let (own, peer) = ends();
        let mut pairs = Pairs::new(64, tg_key::default());
        assert!(pairs.can_hold(own, peer, 1));
        assert!(pairs.hold(own, peer, &last(None), 1));
        assert_eq!(pairs.judge(own, peer, &syn(1000, None), 2), Judged::Block);
        assert_eq!(pairs.judge(own, peer, &syn(1001, None), 2), Judged::Reopen);
        assert_eq!(pairs.judge(own, peer, &syn(1000, None), TIME_WAIT_NS + 1), Judged::Pass);
        assert!(pairs.hold(own, peer, &last(Some((70, 7))), 2 * TIME_WAIT_NS));
        let later_ns = 2 * TIME_WAIT_NS + 1;
        assert_eq!(pairs.judge(own, peer, &syn(900_000, Some(69)), later_ns), Judged::Block);
        assert_eq!(pairs.judge(own, peer, &syn(0, Some(71)), later_ns), Judged::Reopen);
    }

    #[test]
    fn a_pair_that_is_held_again_is_one_pair() {
        let (own, peer) = ends();
        let mut pairs = Pairs::new(64, tg_key::default());
        for second in 1..=5 {
            assert!(pairs.hold(own, peer, &last(None), second * SECOND_NS));
            let renewed_ns = (second > 1).then_some((second - 1) * SECOND_NS);
            assert_eq!((pairs.take_renewed_ns(), pairs.take_renewed_ns()), (renewed_ns, None));
            assert_eq!(pairs.held(second * SECOND_NS), (1, 1));
        }
        assert_eq!(pairs.held(64 * SECOND_NS).0, 1);
        assert_eq!(pairs.held(66 * SECOND_NS).0, 0);
    }

    #[test]
    fn who_may_leave_it_does_where_there_is_no_room() {
        let (_, peer) = ends();
        let own = |port| SocketAddr::new("10.0.0.2".parse().unwrap(), port);
        let mut pairs = Pairs::new(8, tg_key::default());
        let swapped = LastNumbers { swapped: true, ..last(None) };
        for port in 0..8 {
            assert!(pairs.hold(own(port), peer, &swapped, 1));
        }
        assert!(!pairs.can_hold(own(8), peer, 1));
        assert!(!pairs.hold(own(8), peer, &swapped, 1));
        assert!(pairs.hold(own(8), peer, &last(None), 1), "it was agreed");
    }
}
