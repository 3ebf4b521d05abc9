// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stages' decisions, each in a file of its own.

use super::*;
use crate::raw::*;

mod ack;
mod cookie;
mod fin;
mod reserv;
mod siphash;
mod syn;
mod verdict;

fn queues(listen_len: u32, syn_len: u32) -> tg_queues {
    tg_queues {
        listen_len,
        listen_max: 128,
        syn_len,
        syn_max: 4096,
        syncookies: 1,
        ..Default::default()
    }
}

/// A SYN that was judged by what stood against it alone.
pub(crate) fn judged(reason: u32) -> tg_judged {
    tg_judged { decision: tg_decision { reason, ..Default::default() }, reason }
}

fn syn(rules: &tg_rules, queues: &tg_queues) -> (u32, u32) {
    let asked = tg_syn { cookie_usable: 1, ..Default::default() };
    let d = decide_syn(rules, queues, &asked, &mut tg_bucket::default()).decision;
    (d.verdict, d.reason)
}
