// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping (Jamjoom and Shin, SIGCOMM 2003, section 3.4), natively: rules from what
//! people say, and a listener's whole state for the simulator and the tests.

mod words;

pub use words::{
    ARRIVALS_PER_S, ARRIVALS_PER_S_MOST, ATTEMPTS, ATTEMPTS_MOST, Key, OVERSIZE, P_RANGE, Policy,
    Refusal, Word,
};

use crate::raw::*;

/// `TG_SHED_ONE`.
const ONE_X32: f64 = 4_294_967_296.0;

/// A probability in parts of 2^32.
pub fn parts_x32(p: f64) -> u64 {
    (p.clamp(0.0, 1.0) * ONE_X32).round() as u64
}

impl tg_shed_rules {
    /// A policy (`TG_RBD`, `TG_SLPD` or `TG_SBPD`) with a key (`TG_KEY_*`). `p` is p*, the
    /// probability that a connection fails; with RBD it is that of each SYN, as in the paper.
    /// `attempts` is n + 1, the SYNs that a client sends before it gives up: the last
    /// fallback drops each with p*^(1/(n+1)).
    pub fn new(policy: u32, key: u32, p: f64, attempts: u32) -> Self {
        tg_shed_rules {
            policy,
            key,
            p_x32: parts_x32(p),
            uniform_x32: parts_x32(p.powf(1.0 / f64::from(attempts.max(1)))),
            attempts,
            ..Default::default()
        }
    }

    /// The same with p* controlled (`shed_auto.h`): by what the listener drains, or, where
    /// `rate_per_s` is not 0, such that so many connections a second are admitted.
    pub fn automatic(policy: u32, key: u32, rate_per_s: u32, attempts: u32) -> Self {
        tg_shed_rules { policy, key, is_auto: 1, rate_per_s, attempts, ..Default::default() }
    }

    /// The same with a table for this many new connections a second, as [`blocks`] sizes it: RBD
    /// needs none.
    #[must_use]
    pub fn with_table(self, arrivals_per_s: u32, sigma: f64) -> Self {
        let blocks = if self.policy == TG_RBD { 0 } else { blocks(arrivals_per_s, sigma) };
        tg_shed_rules { blocks, ..self }
    }

    /// The probability asked for; 0 where it is controlled.
    pub fn p(&self) -> f64 {
        self.p_x32 as f64 / ONE_X32
    }
}

impl tg_auto_queue {
    /// These queues as the control of p* sees them, where a SYN meets `reason` (`TG_ROOM` or
    /// another that the SYN stage gives) by these rules.
    pub fn of(rules: &tg_rules, queues: &tg_queues, reason: u32) -> Self {
        // SAFETY: the function reads only through these valid references.
        unsafe { tg_native_auto_view(rules, queues, reason) }
    }
}

impl tg_auto {
    /// As the next SYN would find it: what was known long ago is forgotten.
    #[must_use]
    pub fn at(&self, now_ns: u64) -> Self {
        match now_ns.saturating_sub(self.stepped_ns) > u64::from(TG_AUTO_STALE_NS) {
            true => Self::default(),
            false => *self,
        }
    }

    /// p* in force.
    pub fn p(&self) -> f64 {
        self.p_x32 as f64 / ONE_X32
    }

    /// New connections that come, a second, as estimated.
    pub fn fresh_per_s(&self) -> f64 {
        self.fresh_x256 as f64 / 256.0
    }

    /// Connections that the server takes, a second, as estimated; or the rate set by hand.
    pub fn drain_per_s(&self) -> f64 {
        self.drain_x256 as f64 / 256.0
    }
}

/// The blocks of a table for this many new connections a second, by Eq. 9:
/// M = λ₀ᵐᵃˣ × T_abortᵐᵃˣ × σ entries, where T_abortᵐᵃˣ is 75 s.
pub fn blocks(arrivals_per_s: u32, sigma: f64) -> u32 {
    let entries = f64::from(arrivals_per_s) * TG_SHED_WINDOW_NS as f64 / 1e9 * sigma.max(1.0);
    (entries / f64::from(TG_SHED_CELLS)).ceil().max(1.0) as u32
}

/// What stands on a listener's host of who sends a SYN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stands {
    /// Nothing.
    #[default]
    Nothing,
    /// TIME-WAIT.
    TimeWait,
    /// A request or a connection, to whose SYN TCP has its own answer.
    Answered,
}

/// Persistent dropping of one listener, on one processor: its table, and what it measures.
#[derive(Debug, Clone)]
pub struct Shedder {
    rules: tg_shed_rules,
    key: tg_key,
    table: Vec<tg_shed_block>,
    state: tg_shed_state,
    monitor: tg_shed_monitor,
    refusals: tg_bucket,
    /// What a RST takes from the bucket of refusals, nanoseconds; 0 is no limit.
    pub refusal_cost_ns: u32,
}

impl Shedder {
    /// Nothing dropped yet; the table has `rules.blocks`.
    pub fn new(rules: tg_shed_rules, key: tg_key) -> Self {
        let rules = tg_shed_rules { first_block: 0, ..rules };
        Shedder {
            rules,
            key,
            table: vec![tg_shed_block::default(); rules.blocks as usize],
            state: tg_shed_state::default(),
            monitor: tg_shed_monitor::default(),
            refusals: tg_bucket::default(),
            refusal_cost_ns: 0,
        }
    }

    /// Whether a SYN from this source, one of `TG_SOURCE_*`, may be shed.
    pub fn concerns(&self, source: u32) -> bool {
        // SAFETY: the function reads only through this valid reference.
        unsafe { tg_native_shed_concerns(&self.rules, source) != 0 }
    }

    /// What becomes of a SYN. `TG_PASS` leaves it to what comes next; its reason is then
    /// `TG_FORWARDED` or `TG_SPARED`.
    pub fn decide(&mut self, tuple: &tg_tuple, syn: &tg_shed_syn) -> tg_decision {
        self.decide_at(tuple, syn, &tg_auto_queue::default(), Stands::Nothing)
    }

    /// The same, where p* is controlled by the listen queue that the SYN meets. Who is answered by
    /// what stands is not shed by an answer, which would end that; who is in TIME-WAIT by RST alone.
    pub fn decide_at(
        &mut self,
        tuple: &tg_tuple,
        syn: &tg_shed_syn,
        queue: &tg_auto_queue,
        stands: Stands,
    ) -> tg_decision {
        let table = match self.table.first_mut() {
            Some(first) => std::ptr::from_mut(first),
            None => std::ptr::null_mut(),
        };
        // SAFETY: the table has as many blocks as the rules name, or is NULL; all else is
        // read and written through these valid references alone.
        unsafe {
            tg_native_shed(
                &self.rules,
                &self.key,
                tuple,
                syn,
                queue,
                table,
                &mut self.state,
                &mut self.monitor,
                &mut self.refusals,
                self.refusal_cost_ns,
                (stands == Stands::Answered).into(),
                (stands != Stands::Nothing).into(),
            )
        }
    }

    /// How far it has fallen back, and whether preferred proxies are exempt no longer.
    pub fn state(&self) -> &tg_shed_state {
        &self.state
    }

    /// What is measured at present.
    pub fn monitor(&self) -> &tg_shed_monitor {
        &self.monitor
    }
}

/// Stamps of a table's blocks that stand at a monotonic time in nanoseconds.
pub fn standing(blocks: &[tg_shed_block], now_ns: u64) -> u64 {
    // SAFETY: the function reads only these blocks.
    unsafe { tg_native_shed_count(blocks.as_ptr(), blocks.len() as u64, now_ns) }
}

/// The block of the table in which the stamp of a connection with this initial sequence number stands,
/// where its policy asks for one.
pub fn block_of(rules: &tg_shed_rules, key: &tg_key, tuple: &tg_tuple, isn: u32) -> u32 {
    // SAFETY: the function reads only through these valid references.
    unsafe { tg_native_shed_block(rules, key, tuple, isn) }
}

/// Whether a decision is counted: who is let through to a listener is counted with what comes next.
pub fn counts(decision: tg_decision, is_path: bool) -> bool {
    // SAFETY: plain values.
    unsafe { tg_native_shed_counts(decision, is_path.into()) != 0 }
}

/// The policy in force (`TG_SHED_OFF`, `TG_RBD`, `TG_SLPD` or `TG_SBPD`), fallen back as far as it has.
pub fn policy_now(rules: &tg_shed_rules, state: &tg_shed_state) -> u32 {
    // SAFETY: the function reads only through these valid references.
    unsafe { tg_native_shed_policy_now(rules, state) }
}

/// The keyed hash itself (H1 or H2): what is asked of it, and 24 bits of the number that goes
/// with the question.
pub fn hash(key: &tg_key, tuple: &tg_tuple, kind: u32, question: u32, number: u32) -> u64 {
    // SAFETY: the function reads only through these valid references.
    unsafe { tg_native_shed_hash(key, tuple, kind, question, number) }
}

#[cfg(test)]
mod tests;
