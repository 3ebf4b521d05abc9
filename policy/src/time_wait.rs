// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT (Faber, Touch and Yue, 1999): TW-Negotiate, close_swap, and the table
//! of the pairs that are held here though the kernel has closed them.

use std::net::{IpAddr, SocketAddr};

use crate::raw::{self, tg_held, tg_held_block, tg_key, tg_tuple, tg_tw_rules, tg_tw_value};

/// Pairs that a host has room to hold, where none is said: at 500 connections a second to one server
/// they are all of its ports. Blocks do not fill alike: of 300 a second that are negotiated, for which
/// some cells stay free, one in 200 finds no room, and so of 400 under close_swap.
pub const ENTRIES: u32 = 32_768;
/// The most that can be said.
pub const ENTRIES_MOST: u32 = 1 << 24;

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The one that opened it.
    Client,
    /// The one that listened.
    Server,
}

impl End {
    /// As configurations have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What the client does with the server's answer (Faber, section 3, step 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is agreed: TCP as it is today.
    Today,
    /// The same value in the ACK.
    Agree,
    /// RST: the choice is not acceptable.
    Reset,
}

/// How one end closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The other end's FIN came first.
    Passive,
    /// Ours went first, or both at once.
    Active,
}

/// What an end does when its connection is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// TIME_WAIT after an active close, else CLOSED.
    Usual,
    /// The pair is blocked here for 2 MSL although this end closed second.
    Hold,
    /// CLOSED at once: the other end holds it.
    Leave,
    /// close_swap: RST to the server, and the pair is blocked here.
    Swap,
}

/// What became of a pair that was to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is not held: TIME-WAIT stays where TCP leaves it.
    NoRoom,
    /// It is held.
    Held,
    /// It is held, in the place of the one that had waited longest.
    Evicted,
}

/// What becomes of a segment with SYN or RST on a pair that may be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// Not held, or nothing against it.
    Pass,
    /// A SYN that may open the pair again.
    Reopen,
    /// It goes no further.
    Block,
}

/// The end that `enum tg_tw_holder` has for this number, if any.
#[must_use]
pub fn holder(number: u32) -> Option<End> {
    match number {
        raw::TG_TW_CLIENT => Some(End::Client),
        raw::TG_TW_SERVER => Some(End::Server),
        _ => None,
    }
}

fn number(end: Option<End>) -> u32 {
    match end {
        None => raw::TG_TW_NOBODY,
        Some(End::Client) => raw::TG_TW_CLIENT,
        Some(End::Server) => raw::TG_TW_SERVER,
    }
}

/// The value that carries an address; `None` is no option.
#[must_use]
pub fn value(address: Option<IpAddr>) -> tg_tw_value {
    let family = match address {
        None => 0,
        Some(IpAddr::V4(_)) => 4,
        Some(IpAddr::V6(_)) => 6,
    };
    let at = |ip| SocketAddr::new(ip, 0);
    let addr = address.map_or([0; 4], |ip| tg_tuple::between(at(ip), at(ip)).saddr);
    tg_tw_value { addr, family }
}

/// The option's bytes as a segment carries them; empty where the value is none.
#[must_use]
pub fn write(value: &tg_tw_value) -> Vec<u8> {
    let mut option = raw::tg_tw_option::default();
    // SAFETY: the function reads and writes only through these valid references.
    let bytes = unsafe { raw::tg_native_tw_write(value, &mut option) };
    option.bytes[..bytes as usize].to_vec()
}

/// What an option says; of more than 20 bytes the first are read.
#[must_use]
pub fn read(bytes: &[u8]) -> tg_tw_value {
    let (mut option, mut value) = (raw::tg_tw_option::default(), tg_tw_value::default());
    for (to, from) in option.bytes.iter_mut().zip(bytes) {
        *to = *from;
    }
    // SAFETY: the function reads and writes only through these valid references.
    unsafe { raw::tg_native_tw_read(&option, &mut value) };
    value
}

/// The end that a value names; `None` where it names neither, or both.
#[must_use]
pub fn named(tuple: &tg_tuple, value: &tg_tw_value) -> Option<End> {
    // SAFETY: the function reads only through these valid references.
    holder(unsafe { raw::tg_native_tw_named(tuple, value) })
}

/// The value that names an end of a connection.
#[must_use]
pub fn name(tuple: &tg_tuple, end: Option<End>) -> tg_tw_value {
    let mut value = tg_tw_value::default();
    // SAFETY: the function reads and writes only through these valid references.
    unsafe { raw::tg_native_tw_name(tuple, number(end), &mut value) };
    value
}

/// Rules that name `end`.
#[must_use]
pub fn negotiate(end: Option<End>) -> tg_tw_rules {
    tg_tw_rules { negotiate: number(end), insist: 0, close_swap: 0 }
}

/// Whom the client names in its SYN (step 1).
#[must_use]
pub fn offer(rules: &tg_tw_rules, can_hold: bool) -> Option<End> {
    // SAFETY: the function reads only through this valid reference.
    holder(unsafe { raw::tg_native_tw_offer(rules, can_hold.into()) })
}

/// Whom the server names in its SYN/ACK (step 2).
#[must_use]
pub fn answer(rules: &tg_tw_rules, offered: Option<End>, can_hold: bool) -> Option<End> {
    // SAFETY: the function reads only through this valid reference.
    holder(unsafe { raw::tg_native_tw_answer(rules, number(offered), can_hold.into()) })
}

/// Whom `us` takes for the holder where `named` is: itself only where its segments are met as its
/// socket has them.
#[must_use]
pub fn promise(us: End, named: Option<End>, is_met: bool) -> Option<End> {
    let us = number(Some(us));
    // SAFETY: the function takes numbers.
    holder(unsafe { raw::tg_native_tw_promise(us, number(named), is_met.into()) })
}

/// What the client does with the SYN/ACK (step 3).
#[must_use]
pub fn judge(
    rules: &tg_tw_rules,
    offered: Option<End>,
    answered: Option<End>,
    can_hold: bool,
) -> Verdict {
    // SAFETY: the function reads only through this valid reference.
    let verdict = unsafe {
        raw::tg_native_tw_judge(rules, number(offered), number(answered), can_hold.into())
    };
    match verdict {
        raw::TG_TW_AGREE => Verdict::Agree,
        raw::TG_TW_RESET => Verdict::Reset,
        _ => Verdict::Today,
    }
}

/// What `us` believes when the handshake is over: a server, or either end of a simultaneous
/// open, that named `answered` and heard `confirmed`.
#[must_use]
pub fn settle(us: End, answered: Option<End>, confirmed: Option<End>) -> Option<End> {
    let us = number(Some(us));
    // SAFETY: the function takes numbers.
    holder(unsafe { raw::tg_native_tw_settle(us, number(answered), number(confirmed)) })
}

/// The value that both ends of a simultaneous open go on with (Table 1).
#[must_use]
pub fn simultaneous(one: &tg_tw_value, other: &tg_tw_value) -> tg_tw_value {
    let mut used = tg_tw_value::default();
    // SAFETY: the function reads and writes only through these valid references.
    unsafe { raw::tg_native_tw_simultaneous(one, other, &mut used) };
    used
}

/// What `us` does when its connection is over, where `agreed` holds TIME-WAIT.
#[must_use]
pub fn end(agreed: Option<End>, us: End, close: Close, close_swap: bool) -> Ending {
    let close = match close {
        Close::Passive => raw::TG_TW_PASSIVE,
        Close::Active => raw::TG_TW_ACTIVE,
    };
    // SAFETY: the function takes numbers.
    let ending = unsafe {
        raw::tg_native_tw_end(number(agreed), number(Some(us)), close, close_swap.into())
    };
    match ending {
        raw::TG_TW_HOLD => Ending::Hold,
        raw::TG_TW_LEAVE => Ending::Leave,
        raw::TG_TW_SWAP => Ending::Swap,
        _ => Ending::Usual,
    }
}

impl tg_held {
    /// A pair as this host has it, to be looked for or, with its numbers, to be held.
    #[must_use]
    pub fn pair(own: SocketAddr, peer: SocketAddr) -> Self {
        let tuple = tg_tuple::between(own, peer);
        tg_held {
            own: tuple.saddr,
            peer: tuple.daddr,
            own_port: tuple.sport,
            peer_port: tuple.dport,
            flags: if own.is_ipv6() { raw::TG_HELD_IPV6 } else { 0 },
            ..Default::default()
        }
    }

    /// The two ends, this host's first.
    #[must_use]
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        let address = |words: [u32; 4]| -> IpAddr {
            let mut octets = [0; 16];
            for (to, word) in octets.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            match self.flags & raw::TG_HELD_IPV6 {
                0 => [octets[0], octets[1], octets[2], octets[3]].into(),
                _ => octets.into(),
            }
        };
        let end = |words, port| SocketAddr::new(address(words), u16::from_be(port));
        (end(self.own, self.own_port), end(self.peer, self.peer_port))
    }
}

/// A table of pairs that are held here.
#[derive(Debug, Clone)]
pub struct Table {
    blocks: Vec<tg_held_block>,
    key: tg_key,
}

impl Table {
    /// A table of at least so many entries.
    #[must_use]
    pub fn new(entries: usize, key: tg_key) -> Self {
        let blocks = entries.div_ceil(raw::TG_HELD_CELLS as usize).max(1);
        Table { blocks: vec![tg_held_block::default(); blocks], key }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.blocks.len()).expect("fewer blocks than addresses")
    }

    /// Holds a pair for 2 MSL. `must`: the other end counts on it, so that where there is no
    /// room the one that has waited longest goes.
    pub fn put(&mut self, pair: &tg_held, must: bool, now_ns: u64) -> Put {
        let (table, blocks) = (self.blocks.as_mut_ptr(), self.count());
        // SAFETY: as many blocks stand behind the pointer, and no one else has them.
        let put =
            unsafe { raw::tg_native_held_put(table, blocks, &self.key, pair, must.into(), now_ns) };
        match put {
            raw::TG_HELD_DONE => Put::Held,
            raw::TG_HELD_EVICTED => Put::Evicted,
            _ => Put::NoRoom,
        }
    }

    /// What becomes of a segment of this pair.
    pub fn judge(&mut self, pair: &tg_held, segment: &raw::tg_held_segment, now_ns: u64) -> Judged {
        let (table, blocks) = (self.blocks.as_mut_ptr(), self.count());
        // SAFETY: as many blocks stand behind the pointer, and no one else has them.
        let verdict =
            unsafe { raw::tg_native_held_judge(table, blocks, &self.key, pair, segment, now_ns) };
        match verdict {
            raw::TG_HELD_REOPEN => Judged::Reopen,
            raw::TG_HELD_BLOCK => Judged::Block,
            _ => Judged::Pass,
        }
    }

    /// Whether there is room enough to offer to hold a pair.
    #[must_use]
    pub fn can_hold(&self, pair: &tg_held, now_ns: u64) -> bool {
        let (table, blocks) = (self.blocks.as_ptr(), self.count());
        // SAFETY: as many blocks stand behind the pointer, which are only read.
        unsafe { raw::tg_native_held_can_hold(table, blocks, &self.key, pair, now_ns) != 0 }
    }

    /// Until when a pair is held, in ns, if it is.
    #[must_use]
    pub fn until_ns(&mut self, pair: &tg_held, now_ns: u64) -> Option<u64> {
        let (table, blocks) = (self.blocks.as_mut_ptr(), self.count());
        // SAFETY: as many blocks stand behind the pointer, and no one else has them.
        let until_ns = unsafe { raw::tg_native_held_until(table, blocks, &self.key, pair, now_ns) };
        (until_ns > 0).then_some(until_ns)
    }

    /// Pairs that are held at this time.
    #[must_use]
    pub fn held(&self, now_ns: u64) -> usize {
        self.blocks.iter().flat_map(|b| &b.cells).filter(|cell| cell.until_ns > now_ns).count()
    }
}

#[cfg(test)]
mod tests;
