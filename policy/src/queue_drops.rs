// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queue drops by the rule that made them (Shukla, thesis, 2.1.1), refused explicitly or dropped alike;
//! ListenQOverflow split as in Table 4.1.

use crate::names::REASONS;
use crate::raw::*;

/// What a rule is called, and the reasons whose decisions it made.
type Rule = (&'static str, &'static [u32]);

const fn of(reason: &'static [u32; 1]) -> Rule {
    (REASONS[reason[0] as usize], reason)
}

const RULES: [Rule; 8] = [
    of(&[TG_SYNQ_FULL]),
    of(&[TG_SYNQ_3_4_FULL]),
    of(&[TG_LISTENQ_FULL_AT_SYN]),
    ("ListenQOverflow_syn_ack_acks", &[TG_OVERFLOW_SYNACK_ACK, TG_COOKIE_NO_ROOM]),
    ("ListenQOverflow_other_segments", &[TG_OVERFLOW_OTHER]),
    // reserv found no place to promise.
    of(&[TG_NO_RESERVATION]),
    // Beyond the logical limit: `places`, or auto let nobody more wait.
    of(&[TG_WAIT_LIMIT]),
    // auto kept the place for a client who had not waited.
    of(&[TG_NEW_FIRST]),
];

/// The rules' names, as status, results and scenarios write them.
pub const QUEUE_DROPS: [&str; RULES.len()] = {
    let mut names = [""; RULES.len()];
    let mut rule = 0;
    while rule < RULES.len() {
        names[rule] = RULES[rule].0;
        rule += 1;
    }
    names
};

/// Packets that were dropped or refused for a reason. An answer with a cookie is no drop: the decision comes with
/// the ACK.
pub fn dropped(counted: &tg_counters, reason: u32) -> u64 {
    let by_verdict = &counted.packets[reason as usize];
    by_verdict.iter().sum::<u64>() - by_verdict[TG_COOKIE as usize]
}

/// Packets that each rule dropped or refused, with its name.
pub fn queue_drops(counted: &tg_counters) -> [(&'static str, u64); RULES.len()] {
    let by_all = |reasons: &[u32]| reasons.iter().map(|reason| dropped(counted, *reason)).sum();
    RULES.map(|(name, reasons)| (name, by_all(reasons)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_no_drop_until_its_ack_finds_no_room() {
        let mut counted = tg_counters::default();
        let mut judge = |reason: u32, verdict: u32, packets| {
            counted.packets[reason as usize][verdict as usize] = packets;
        };
        judge(TG_LISTENQ_FULL_AT_SYN, TG_COOKIE, 100);
        judge(TG_LISTENQ_FULL_AT_SYN, TG_RESET, 7);
        judge(TG_COOKIE_NO_ROOM, TG_RESET, 20);
        judge(TG_OVERFLOW_SYNACK_ACK, TG_PASS, 3);
        judge(TG_ROOM, TG_PASS, 1000);
        let seen: Vec<_> = queue_drops(&counted).into_iter().filter(|(_, n)| *n > 0).collect();
        assert_eq!(seen, [("ListenQFullAtSyn", 7), ("ListenQOverflow_syn_ack_acks", 23)]);
    }

    #[test]
    fn no_reason_is_two_rules() {
        let mut all: Vec<u32> = RULES.iter().flat_map(|(_, reasons)| *reasons).copied().collect();
        let reasons = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), reasons);
    }
}
