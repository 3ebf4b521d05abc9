// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a decision is to a client: a refusal, room, or neither.

use super::*;

#[test]
fn nobody_is_refused_and_let_in() {
    for (reason, verdict) in (0..TG_REASONS).flat_map(|r| (0..TG_VERDICTS).map(move |v| (r, v))) {
        let decision = tg_decision { verdict, reason };
        assert!(!(lets_in(decision) && is_refusal(decision)), "reason {reason}: {verdict}");
    }
    let is = |verdict, reason| lets_in(tg_decision { verdict, reason });
    assert!(is(TG_PASS, TG_ROOM) && is(TG_PASS, TG_KERNEL_COOKIE) && is(TG_ADMIT, TG_COOKIE_VALID));
    assert!(!is(TG_COOKIE, TG_KERNEL_COOKIE), "its ACK will be counted");
    assert!(!is(TG_PASS, TG_HANDSHAKE), "its SYN was counted");
}

#[test]
fn a_refusal_is_whatever_leaves_a_client_with_nothing() {
    let is = |verdict, reason| is_refusal(tg_decision { verdict, reason });
    assert!(is(TG_RESET, TG_LISTENQ_FULL_AT_SYN) && is(TG_DROP, TG_NEW_FIRST));
    assert!(is(TG_PASS, TG_SYNQ_FULL) && is(TG_PASS, TG_OVERFLOW_OTHER));
    assert!(is(TG_HOLLOW, TG_SHED_NEW) && !is(TG_COOKIE, TG_LISTENQ_FULL_AT_SYN));
    for reason in [TG_ROOM, TG_KERNEL_COOKIE, TG_HALF_OPEN, TG_HANDSHAKE, TG_FORWARDED] {
        assert!(!is(TG_PASS, reason), "reason {reason}");
    }
    assert!(!is(TG_ADMIT, TG_COOKIE_VALID) && !is(TG_PASS, TG_COOKIE_FOREIGN));
}
