// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An ACK: the last of a handshake, one that brings a cookie, and what comes behind one that was answered.

use super::*;

/// As one that has a request: it was let in when its SYN came.
#[test]
fn autos_cookie_comes_back_to_a_place_wherever_the_queue_has_one() {
    let auto = tg_rules { places: 16, ..mechanism::parse("auto").unwrap() };
    let ours = tg_ack { cookie: TG_ACK_COOKIE, bare: 1, ..Default::default() };
    let told = |listen_len, ack: &tg_ack| {
        let decision = decide_ack(&auto, &queues(listen_len, 129), ack);
        (decision.verdict, decision.reason)
    };
    assert_eq!(told(128, &ours), (TG_ADMIT, TG_COOKIE_VALID));
    assert_eq!(told(129, &ours), (TG_RESET, TG_OVERFLOW_SYNACK_ACK));
    let data = tg_ack { bare: 0, ..ours };
    assert_eq!(told(129, &data), (TG_RESET, TG_OVERFLOW_OTHER));
    // The kernel, which knows no such cookie, would reset it.
    let speaks = tg_ack { silent: 1, speaks_first: 1, ..ours };
    assert_eq!(told(129, &speaks), (TG_DROP, TG_OVERFLOW_SYNACK_ACK));
}

/// It comes again with what it has to say, or the kernel asks it again; else it waits for ever.
#[test]
fn auto_leaves_an_ack_in_silence_only_where_something_comes_behind_it() {
    let auto = mechanism::parse("auto").unwrap();
    let refused = |cookie, bare, speaks_first| {
        let ack = tg_ack {
            is_request: u32::from(cookie == TG_ACK_NO_COOKIE),
            acceptable: 1,
            silent: 1,
            bare,
            cookie,
            speaks_first,
            ..Default::default()
        };
        decide_ack(&auto, &queues(129, 129), &ack).verdict == TG_RESET
    };
    for cookie in [TG_ACK_COOKIE, TG_ACK_KERNEL_COOKIE] {
        assert!(refused(cookie, 1, 0), "who waits for a greeting");
        assert!(!refused(cookie, 1, 1) && !refused(cookie, 0, 0), "who speaks");
    }
    assert!(!refused(TG_ACK_NO_COOKIE, 1, 0), "the kernel sends its SYN/ACK again");
}

/// Of either cookie, where it was left in silence: the kernel would reset what comes behind it.
#[test]
fn auto_drops_what_comes_behind_a_cookie_that_it_left_in_silence() {
    let full = queues(129, 129);
    let leaves = |mechanism: &str, cookie, silent, exempt| {
        let rules = mechanism::parse(mechanism).unwrap();
        let ack = tg_ack { cookie, silent, exempt, bare: 0, ..Default::default() };
        let decision = decide_ack(&rules, &full, &ack);
        ack_leaves(&rules, &ack, decision)
    };
    for cookie in [TG_ACK_COOKIE, TG_ACK_KERNEL_COOKIE] {
        assert!(leaves("auto", cookie, 1, 0));
        assert!(!leaves("auto", cookie, 0, 0), "it is told");
        assert!(!leaves("default", cookie, 1, 0), "that is the kernel's own way");
    }
    assert!(!leaves("auto", TG_ACK_KERNEL_COOKIE, 1, 1), "the kernel alone decides");
    assert!(!leaves("auto", TG_ACK_BEHIND, 1, 0), "it is known by what was before it");
    let auto = mechanism::parse("auto").unwrap();
    let behind = tg_ack { cookie: TG_ACK_BEHIND, ..Default::default() };
    assert_eq!(decide_ack(&auto, &full, &behind).verdict, TG_DROP);
}

/// Who half-closes does so behind the request, at once; its host goes on asking. So does the host of one who closes
/// because it has waited for too long, unless a RST ends that.
#[test]
fn a_fin_long_behind_is_of_one_who_has_left() {
    let gave_up_ns = u64::from(TG_GAVE_UP_NS);
    assert!(ack_is_behind(gave_up_ns - 1, true));
    assert!(!ack_is_behind(gave_up_ns, true));
    assert!(ack_is_behind(gave_up_ns, false), "more of a request");
    assert!(!ack_is_behind(TG_LEFT_NS, false), "nobody goes on asking for so long");
}

/// One RST for the ACK and what was said behind it; and another for what is said again.
#[test]
fn who_answers_a_hollow_syn_ack_is_told_once() {
    let auto = mechanism::parse("auto").unwrap();
    let told = |bare, was_told| {
        let ack = tg_ack { cookie: TG_ACK_HOLLOW, bare, was_told, ..Default::default() };
        let decision = decide_ack(&auto, &queues(0, 0), &ack);
        assert_eq!(decision.reason, TG_HOLLOW_ANSWERED);
        assert!(!is_refusal(decision), "it was refused when its SYN came");
        decision.verdict
    };
    assert_eq!([told(0, 0), told(0, 1)], [TG_RESET, TG_DROP]);
    // An ACK that comes twice has not heard the RST.
    assert_eq!([told(1, 0), told(1, 1)], [TG_RESET; 2]);
}

/// What it has said behind its ACK was on its way; what it says again it says because it has not heard.
#[test]
fn who_was_told_with_its_ack_is_let_in_by_nothing_that_it_has_said_before_it_heard() {
    for (mechanism, cookie, lets_in) in [
        ("no-syn-drop", TG_ACK_COOKIE, TG_ADMIT),
        ("abort", TG_ACK_KERNEL_COOKIE, TG_PASS),
        ("auto", TG_ACK_COOKIE, TG_ADMIT),
        ("auto", TG_ACK_KERNEL_COOKIE, TG_PASS),
    ] {
        let rules = mechanism::parse(mechanism).unwrap();
        let judged = |listen_len, bare, was_told| {
            let ack = tg_ack { cookie, bare, was_told, ..Default::default() };
            let decision = decide_ack(&rules, &queues(listen_len, 0), &ack);
            (decision, ack_tells(&ack, decision))
        };
        let told = |listen_len, bare, was_told| {
            let (decision, is_told) = judged(listen_len, bare, was_told);
            (decision.verdict, is_told)
        };
        assert_eq!(told(129, 1, 0), (TG_RESET, true), "{mechanism}");
        for listen_len in [0, 129] {
            let (behind, is_told_again) = judged(listen_len, 0, 1);
            assert_eq!((behind.verdict, behind.reason), (TG_DROP, TG_HOLLOW_ANSWERED));
            assert!(!is_told_again && !is_refusal(behind), "it was refused with its ACK");
        }
        // An ACK that comes twice has not heard the RST.
        assert_eq!(told(129, 1, 1), (TG_RESET, true), "{mechanism}");
        assert_eq!(told(0, 1, 1), (lets_in, false), "{mechanism}");
        // Nor has who was told with what it says, where its ACK was lost, and says it again.
        assert_eq!(told(129, 0, 0), (TG_RESET, false), "{mechanism}");
    }
    // Of a request the kernel has nothing more.
    let request = tg_ack { is_request: 1, acceptable: 1, bare: 1, ..Default::default() };
    let abort = mechanism::parse("abort").unwrap();
    let decision = decide_ack(&abort, &queues(129, 0), &request);
    assert!(decision.verdict == TG_RESET && !ack_tells(&request, decision));
}

/// lazy's queue is short, however its clients come; forged SYNs may hold every reservation.
#[test]
fn a_cookie_finds_no_more_places_than_lazy_has_ahead() {
    let lazy = tg_rules { ahead: 16, room: TG_ROOM_RESERVE, ..Default::default() };
    let cookie = tg_ack { cookie: TG_ACK_COOKIE, ..Default::default() };
    let verdict = |queues: &tg_queues| decide_ack(&lazy, queues, &cookie).verdict;
    assert_eq!(verdict(&queues(15, 100)), TG_ADMIT);
    assert_eq!(verdict(&queues(16, 0)), TG_RESET);
    let reserv = tg_rules { ahead: 0, ..lazy };
    assert_eq!(decide_ack(&reserv, &queues(128, 100), &cookie).verdict, TG_ADMIT);
}
