// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate's decisions, callable from Rust.
//!
//! The decisions are C (`include/*.h`), compiled into BPF for the kernel and, here,
//! natively for the simulator and the tests: what is simulated is what is deployed.

pub mod accepts;
mod agree;
pub mod bounds;
pub mod mechanism;
pub mod names;
pub mod nearest;
pub mod notice;
pub mod overload;
pub mod police;
pub mod queue_drops;
pub mod reserv;
mod rules;
pub mod share;
pub mod shed;
pub mod size;
mod speaks;
pub mod system;
pub mod time_wait;
mod tuple;

/// The headers' own types and functions, as bindgen reads them.
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
pub mod raw {
    include!(concat!(env!("OUT_DIR"), "/policy.rs"));
}

pub use agree::{agree, agree_accepts, agree_notice, agree_share, agree_shed, agree_time_wait};
pub use rules::syn_ns_of_host;

use raw::{tg_ack, tg_bucket, tg_decision, tg_fin, tg_judged, tg_queues, tg_rules, tg_syn};

/// Whether there is room for a SYN: `TG_ROOM`, `TG_KERNEL_COOKIE`, or the reason why there is none.
/// reserv's early drop is by lot: it takes those whose `random` is below its probability.
pub fn syn_room(rules: &tg_rules, queues: &tg_queues, random: u32) -> u32 {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_syn_room(rules, queues, random) }
}

/// The decision at the SYN stage by rules that remember nothing but refusals (Shukla, thesis,
/// 4.1.5): takes a refusal's cost from `refusals` where an explicit refusal is made. For the rules
/// of `auto` see [`overload::Watch`].
pub fn decide_syn(
    rules: &tg_rules,
    queues: &tg_queues,
    syn: &tg_syn,
    refusals: &mut tg_bucket,
) -> tg_judged {
    // SAFETY: the function reads and writes only through these valid references.
    unsafe { raw::tg_native_syn(rules, queues, syn, refusals) }
}

/// The decision at the ACK stage (Shukla, thesis, 4.1.2).
pub fn decide_ack(rules: &tg_rules, queues: &tg_queues, ack: &tg_ack) -> tg_decision {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_ack(rules, queues, ack) }
}

/// Whether one who brings a cookie is left in silence by `auto`, and known from then on
/// ([`ack_is_behind`]).
pub fn ack_leaves(rules: &tg_rules, ack: &tg_ack, decision: tg_decision) -> bool {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_ack_leaves(rules, ack, decision) != 0 }
}

/// Whether what a client says, with a FIN or without, is [`TG_ACK_BEHIND`](raw::TG_ACK_BEHIND) what was left in
/// silence so many ns ago.
pub fn ack_is_behind(since_ns: u64, has_fin: bool) -> bool {
    // SAFETY: the function reads no memory.
    unsafe { raw::tg_native_ack_is_behind(since_ns, has_fin.into()) != 0 }
}

/// Whether one who brings a cookie is told so with its bare ACK: what it says next is behind a RST
/// (`tg_ack::was_told`).
pub fn ack_tells(ack: &tg_ack, decision: tg_decision) -> bool {
    // SAFETY: the function reads only through this valid reference.
    unsafe { raw::tg_native_ack_tells(ack, decision) != 0 }
}

/// The decision at the FIN stage (Shukla, thesis, 4.2.1), by one of `TG_HALF_CLOSE`,
/// `TG_RST_FIN` and `TG_RST_FIN_STRICT`: `TG_RESET` ends the connection.
pub fn decide_fin(rule: u32, fin: &tg_fin) -> tg_decision {
    // SAFETY: the function reads only through this valid reference.
    unsafe { raw::tg_native_fin(rule, fin) }
}

/// Whether a client gets nothing by this decision: refused or dropped, by whomever.
pub fn is_refusal(decision: tg_decision) -> bool {
    // SAFETY: plain values.
    unsafe { raw::tg_native_is_refusal(decision) != 0 }
}

/// Whether this SYN is answered by who has a place for its client, or this ACK brought a cookie of ours back
/// and is let in. A cookie of the kernel's counts with its SYN: its ACK is one like others.
pub fn lets_in(decision: tg_decision) -> bool {
    // SAFETY: plain values.
    unsafe { raw::tg_native_lets_in(decision) != 0 }
}

/// Whether a half-open request of this age, in milliseconds, should give its place back
/// (Shukla, thesis, 4.1.7).
pub fn reservation_stale(rules: &tg_rules, queues: &tg_queues, age_ms: u64) -> bool {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_reservation_stale(rules, queues, age_ms) != 0 }
}

#[cfg(test)]
mod tests;
