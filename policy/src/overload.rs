// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `auto`: what the SYNs of a listening socket have met, and what follows for the next one.

use crate::raw::{
    self, TG_WAITING_BLOCKS, tg_bucket, tg_crowd, tg_decision, tg_key, tg_overload, tg_queues,
    tg_rules, tg_syn, tg_tuple, tg_waiting_block,
};

impl tg_overload {
    /// In what an overload is at that time, by the clock of the SYNs: one of `TG_CALM`, `TG_BURST`,
    /// `TG_PERSISTENT` and `TG_RECOVERING` (Shukla, thesis, 5.2).
    pub fn phase(&self, now_ns: u64) -> u32 {
        // SAFETY: the function reads only through this valid reference.
        unsafe { raw::tg_native_overload_phase(self, now_ns) }
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

/// A connection's name among those who wait; `isn` is the client's initial sequence number.
pub fn name(key: &tg_key, tuple: &tg_tuple, isn: u32) -> u64 {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_waiting_name(key, tuple, isn) }
}

/// The block of the waiting clients' table in which that name is looked for.
pub fn block(name: u64) -> u32 {
    name as u32 % TG_WAITING_BLOCKS
}

/// The watch over one listening socket, with the clients that wait for it.
#[derive(Clone, Debug)]
pub struct Watch {
    overload: tg_overload,
    blocks: Vec<tg_waiting_block>,
}

impl Default for Watch {
    fn default() -> Self {
        let blocks = vec![tg_waiting_block::default(); TG_WAITING_BLOCKS as usize];
        Self { overload: tg_overload::default(), blocks }
    }
}

impl Watch {
    /// The decision at the SYN stage, which is remembered. `name` is [`name`]'s.
    pub fn decide_syn(
        &mut self,
        rules: &tg_rules,
        queues: &tg_queues,
        syn: &tg_syn,
        refusals: &mut tg_bucket,
        name: u64,
    ) -> tg_decision {
        let block = &mut self.blocks[block(name) as usize];
        let crowd = tg_crowd { overload: &mut self.overload, block, name };
        // SAFETY: the function reads and writes only through these valid references, those in
        // `crowd` among them.
        unsafe { raw::tg_native_judge(rules, queues, syn, refusals, &crowd) }
    }

    /// What is known of the overload.
    pub fn overload(&self) -> &tg_overload {
        &self.overload
    }

    /// Whether an ACK that finds no room is left in silence.
    pub fn silences_ack(&self, now_ns: u64) -> bool {
        // SAFETY: the function reads only through this valid reference.
        unsafe { raw::tg_native_overload_silences_ack(&self.overload, now_ns) != 0 }
    }
}

#[cfg(test)]
mod tests;
