// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Room by reservation: reserv, and lazy.

use super::*;

/// Shukla 4.1.2: "sends a SYN/ACK only if there is room for a new reservation".
#[test]
fn reserv_counts_syn_acks_in_flight_as_taken() {
    let reserv = tg_rules { room: TG_ROOM_RESERVE, ..Default::default() };
    assert_eq!(syn(&reserv, &queues(64, 64)), (TG_PASS, TG_ROOM));
    assert_eq!(syn(&reserv, &queues(64, 65)), (TG_DROP, TG_NO_RESERVATION));
    assert_eq!(syn(&reserv, &queues(129, 0)), (TG_DROP, TG_LISTENQ_FULL_AT_SYN));
    // Twice overbooked: each half-open connection takes half a place.
    let overbooked = tg_rules { overbook_x256: 512, ..reserv };
    assert_eq!(syn(&overbooked, &queues(66, 125)), (TG_PASS, TG_ROOM));
    assert_eq!(syn(&overbooked, &queues(66, 126)), (TG_DROP, TG_NO_RESERVATION));
}

/// Of places that are promised twice: its SYN queue is as long as the backlog, and the cookie that
/// it gives beyond holds no place.
#[test]
fn reserv_has_no_room_where_the_kernel_has_none() {
    let reserv = tg_rules { room: TG_ROOM_RESERVE, clean_after_ms: 100, ..Default::default() };
    let overbooked = tg_rules { overbook_x256: 512, ..reserv };
    for syncookies in [0, 1, 2] {
        let of = |syn_len| tg_queues { syncookies, ..queues(0, syn_len) };
        assert_eq!(syn(&overbooked, &of(128)), (TG_PASS, TG_ROOM));
        for (form, verdict) in
            [(TG_SYN_KERNEL, TG_DROP), (TG_SYN_RESET, TG_RESET), (TG_SYN_COOKIE, TG_COOKIE)]
        {
            let overbooked = tg_rules { syn: form, ..overbooked };
            assert_eq!(syn(&overbooked, &of(129)), (verdict, TG_SYNQ_FULL), "{syncookies}");
        }
        let exhausted = tg_rules { cookie_when_reserved: 1, ..overbooked };
        assert_eq!(syn(&exhausted, &of(129)), (TG_COOKIE, TG_SYNQ_FULL));
        assert!(reservation_stale(&overbooked, &of(97), 100));
        assert!(!reservation_stale(&overbooked, &of(96), 100));
    }
    let short = |syn_len, syncookies| tg_queues {
        listen_max: 4096,
        syn_max: 128,
        syncookies,
        ..queues(0, syn_len)
    };
    assert_eq!(syn(&reserv, &short(96, 0)), (TG_PASS, TG_ROOM));
    assert_eq!(syn(&reserv, &short(97, 0)), (TG_DROP, TG_SYNQ_3_4_FULL));
    assert!(reservation_stale(&reserv, &short(73, 0), 100));
    assert!(!reservation_stale(&reserv, &short(72, 0), 100));
    assert_eq!(syn(&reserv, &short(97, 1)), (TG_PASS, TG_ROOM));
}

/// Shukla 4.1.2: "does not send a SYN/ACK in response to a SYN until the server application issues
/// an accept()".
#[test]
fn lazy_answers_no_syn_before_those_ahead_are_taken() {
    for (form, verdict) in
        [(TG_SYN_KERNEL, TG_DROP), (TG_SYN_RESET, TG_RESET), (TG_SYN_COOKIE, TG_COOKIE)]
    {
        let lazy = tg_rules { room: TG_ROOM_RESERVE, syn: form, ahead: 1, ..Default::default() };
        assert_eq!(syn(&lazy, &queues(0, 0)), (TG_PASS, TG_ROOM));
        // One waits for accept(), or is about to.
        assert_eq!(syn(&lazy, &queues(1, 0)), (verdict, TG_NO_RESERVATION));
        assert_eq!(syn(&lazy, &queues(0, 1)), (verdict, TG_NO_RESERVATION));
        let claimed = tg_queues { claimed: 1, ..queues(0, 0) };
        assert_eq!(syn(&lazy, &claimed), (verdict, TG_NO_RESERVATION));
        let more = tg_rules { ahead: 8, ..lazy };
        assert_eq!(syn(&more, &queues(4, 3)), (TG_PASS, TG_ROOM));
        assert_eq!(syn(&more, &queues(4, 4)), (verdict, TG_NO_RESERVATION));
        // Never more than there are.
        let most = tg_rules { ahead: 1000, ..lazy };
        assert_eq!(syn(&most, &queues(128, 1)), (verdict, TG_NO_RESERVATION));
        // A SYN/ACK whose ACK does not come stalls it no longer than it may.
        let cleaned = tg_rules { clean_after_ms: 100, ..lazy };
        assert!(reservation_stale(&cleaned, &queues(0, 1), 100));
        assert!(!reservation_stale(&cleaned, &queues(0, 1), 99));
    }
}

/// A driver hands up a batch to eight workers, each with a socket of its own: none has more than its
/// part, but all might be for one, whose listen queue is promised to nobody twice.
#[test]
fn lazy_refuses_no_one_for_what_was_let_through_to_other_workers() {
    let lazy = tg_rules { room: TG_ROOM_RESERVE, ahead: 2, ..Default::default() };
    let of = |members, claimed| tg_queues { members, claimed, ..queues(0, 0) };
    for (members, claimed) in [(0, 2), (1, 2), (8, 16), (64, 128)] {
        assert_eq!(syn(&lazy, &of(members, claimed - 1)), (TG_PASS, TG_ROOM), "{members}");
        let more = syn(&lazy, &of(members, claimed));
        assert_eq!(more, (TG_DROP, TG_NO_RESERVATION), "{members}");
    }
    assert_eq!(syn(&lazy, &of(1024, 128)), (TG_PASS, TG_ROOM));
    for ahead in [0, 2, 1000] {
        let lazy = tg_rules { ahead, ..lazy };
        assert_eq!(syn(&lazy, &of(1024, 129)), (TG_DROP, TG_NO_RESERVATION), "{ahead}");
    }
}
