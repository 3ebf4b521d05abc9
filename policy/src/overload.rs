// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `auto`: what the SYNs of a listening socket have met, and what follows for the next one.

use crate::raw::{
    self, TG_INSIDE_COUNTS, TG_INSIDE_OLD_NS, TG_MANNERS_BLOCKS, TG_WAITING_BLOCKS, tg_ack,
    tg_bucket, tg_crowd, tg_decision, tg_inside, tg_judged, tg_key, tg_manners_block, tg_overload,
    tg_queues, tg_rules, tg_speaks, tg_syn, tg_tuple, tg_waiting_block,
};

impl tg_overload {
    /// In what an overload is at that time, by the clock of the SYNs: one of `TG_CALM`, `TG_BURST`,
    /// `TG_PERSISTENT` and `TG_RECOVERING` (Shukla, thesis, 5.2).
    pub fn phase(&self, now_ns: u64) -> u32 {
        // SAFETY: the function reads only through this valid reference.
        unsafe { raw::tg_native_overload_phase(self, now_ns) }
    }

    /// The short queue's limit that is in force; `None` where the queue's own is, or the pace, since
    /// clients are away.
    pub fn places(&self, now_ns: u64) -> Option<u32> {
        // SAFETY: the function reads only through this valid reference.
        Some(unsafe { raw::tg_native_overload_places(self, now_ns) }).filter(|places| *places > 0)
    }

    /// Whether the server has been seen to work for clients who had gone: who waits inside the application counts
    /// from then on.
    pub fn is_behind(&self) -> bool {
        self.behind >= TG_INSIDE_COUNTS
    }

    /// New clients, a second.
    pub fn fresh_per_s(&self) -> f64 {
        self.fresh_x256 as f64 / 256.0
    }

    /// Clients left in silence that will come again soon.
    pub fn waiting(&self) -> u64 {
        self.silent_x256 >> 8
    }

    /// Connections that the server takes from its queues, a second.
    pub fn drain_per_s(&self) -> f64 {
        self.drain_x256 as f64 / 256.0
    }
}

impl tg_inside {
    /// Whether it was counted so lately that it tells how many wait now.
    pub fn is_of_now(&self, now_ns: u64) -> bool {
        self.at_ns != 0 && now_ns.saturating_sub(self.at_ns) < u64::from(TG_INSIDE_OLD_NS)
    }
}

/// At which of the daemon's looks at the host it counts who waits inside applications: for all of the host's connections
/// are walked, at each fourth where no server may be behind.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    rest: u32,
}

impl Counting {
    const AT_EASE: u32 = 4;

    /// Whether it counts at this look.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        is_due
    }

    /// What was counted, of every listening socket.
    pub fn counted<'a>(&mut self, sockets: impl IntoIterator<Item = (tg_inside, &'a tg_overload)>) {
        let matters = |(inside, overload): (tg_inside, &tg_overload)| {
            inside.unread + inside.gone > 0 || (inside.unanswered > 0 && overload.behind > 0)
        };
        self.rest = if sockets.into_iter().any(matters) { 0 } else { Self::AT_EASE - 1 };
    }
}

/// Whom a SYN is from, as it is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The connection, among those who wait.
    pub connection: u64,
    /// The clients at its address that look like it, among those whose manners are known.
    pub address: u64,
    /// The initial sequence number, by which the handshake's last segment is known.
    pub isn: u32,
}

impl Names {
    /// `isn` is the client's initial sequence number; `sends_again` says whether it looks like one
    /// that sends its SYN again on a RST ([`crate::system::sends_again`]).
    pub fn of(key: &tg_key, tuple: &tg_tuple, isn: u32, sends_again: bool) -> Self {
        // SAFETY: the functions read only through these valid references.
        unsafe {
            Self {
                connection: raw::tg_native_waiting_name(key, tuple, isn),
                address: raw::tg_native_manners_name(key, tuple, sends_again.into()),
                isn,
            }
        }
    }

    /// The block of the waiting clients' table in which the connection is looked for.
    pub fn waiting_block(&self) -> u32 {
        // SAFETY: a plain value.
        unsafe { raw::tg_native_waiting_block(self.connection) }
    }

    /// The block of the table of manners in which the address is looked for.
    pub fn manners_block(&self) -> u32 {
        // SAFETY: a plain value.
        unsafe { raw::tg_native_manners_block(self.address) }
    }
}

/// The watch over one listening socket, with the clients that wait for it.
#[derive(Clone, Debug)]
pub struct Watch {
    overload: tg_overload,
    speaks: tg_speaks,
    inside: tg_inside,
    waiting: Vec<tg_waiting_block>,
    manners: Vec<tg_manners_block>,
}

impl Default for Watch {
    fn default() -> Self {
        let waiting = vec![tg_waiting_block::default(); TG_WAITING_BLOCKS as usize];
        let manners = vec![tg_manners_block::default(); TG_MANNERS_BLOCKS as usize];
        Self {
            overload: tg_overload::default(),
            speaks: tg_speaks::default(),
            inside: tg_inside::default(),
            waiting,
            manners,
        }
    }
}

impl Watch {
    /// The decision at the SYN stage, which is remembered; it leaves its limits in `queues`.
    pub fn decide_syn(
        &mut self,
        rules: &tg_rules,
        queues: &mut tg_queues,
        syn: &tg_syn,
        refusals: &mut tg_bucket,
        names: Names,
    ) -> tg_judged {
        let crowd = tg_crowd {
            overload: &mut self.overload,
            block: &mut self.waiting[names.waiting_block() as usize],
            manners: &mut self.manners[names.manners_block() as usize],
            speaks: &self.speaks,
            inside: &self.inside,
            name: names.connection,
            address_name: names.address,
            isn: names.isn,
            padding: 0,
        };
        // SAFETY: the function reads and writes only through these valid references, those in
        // `crowd` among them.
        unsafe { raw::tg_native_judge(rules, queues, syn, refusals, &crowd) }
    }

    /// What is known of the overload.
    pub fn overload(&self) -> &tg_overload {
        &self.overload
    }

    /// After this ACK was judged, with this sequence number.
    pub fn meet_ack(&mut self, ack: &tg_ack, decision: tg_decision, seq: u32, now_ns: u64) {
        // SAFETY: the function reads and writes only through these valid references.
        unsafe { raw::tg_native_overload_meet_ack(&mut self.overload, ack, decision, seq, now_ns) }
    }

    /// Who waits inside the application, as the daemon has counted them.
    pub fn count_inside(&mut self, inside: tg_inside) {
        self.inside = inside;
    }

    /// A client's first data of a connection that stands: see [`tg_speaks::see`].
    pub fn hear(&mut self, answers: bool) {
        self.speaks.see(answers);
    }

    /// This ACK, with what becomes of it where it finds no room.
    #[must_use]
    pub fn ask_ack(&self, ack: &tg_ack, now_ns: u64) -> tg_ack {
        let silent = self.silences_ack(now_ns).into();
        tg_ack { silent, speaks_first: self.speaks.first().into(), ..*ack }
    }

    /// Whether an ACK that finds no room is left in silence, of whoever comes again.
    fn silences_ack(&self, now_ns: u64) -> bool {
        // SAFETY: the function reads only through this valid reference.
        unsafe { raw::tg_native_overload_silences_ack(&self.overload, now_ns) != 0 }
    }
}

#[cfg(test)]
mod tests;
