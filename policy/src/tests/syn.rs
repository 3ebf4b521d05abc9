// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A SYN: whether it finds room, and what it is told where it does not.

use super::*;

/// "The listen queue is full" is Linux's sk_acceptq_is_full(): above the backlog.
#[test]
fn a_listen_queue_at_its_backlog_has_one_place_left() {
    let watch = tg_rules::default();
    assert_eq!(syn(&watch, &queues(128, 0)), (TG_PASS, TG_ROOM));
    assert_eq!(syn(&watch, &queues(129, 0)), (TG_PASS, TG_LISTENQ_FULL_AT_SYN));
}

#[test]
fn the_kernel_is_predicted_with_and_without_its_cookies() {
    let watch = tg_rules::default();
    let mut q = queues(0, 129);
    assert_eq!(syn(&watch, &q), (TG_PASS, TG_KERNEL_COOKIE));
    q.syncookies = 0;
    assert_eq!(syn(&watch, &q), (TG_PASS, TG_SYNQ_FULL));
    let mut three_quarters = tg_queues { listen_max: 4096, syn_max: 128, ..queues(0, 97) };
    three_quarters.syncookies = 0;
    assert_eq!(syn(&watch, &three_quarters), (TG_PASS, TG_SYNQ_3_4_FULL));
    three_quarters.syn_len = 96;
    assert_eq!(syn(&watch, &three_quarters), (TG_PASS, TG_ROOM));
}

/// "TW buckets are converted to open requests without limitations" (`tcp_conn_request()`): but for the listen
/// queue, and limits of ours.
#[test]
fn who_takes_over_a_time_wait_needs_no_room_in_the_syn_queue() {
    let refuse = tg_rules { refusal_cost_ns: 0, ..mechanism::parse("rst-syn").unwrap() };
    let limited = tg_rules { places: 64, ..refuse };
    let exempt = TG_SOURCE_EXEMPT as u16;
    let no_cookies = |queues| tg_queues { syncookies: 0, ..queues };
    let three_quarters = tg_queues { listen_max: 4096, syn_max: 128, ..queues(0, 97) };
    for (rules, found, source, verdict, reason) in [
        (refuse, queues(0, 129), 0, TG_PASS, TG_ROOM),
        (tg_rules::default(), queues(0, 129), 0, TG_PASS, TG_ROOM),
        (refuse, three_quarters, 0, TG_PASS, TG_ROOM),
        (refuse, queues(0, 129), exempt, TG_PASS, TG_EXEMPT),
        (limited, queues(63, 129), 0, TG_PASS, TG_ROOM),
        (limited, queues(64, 129), 0, TG_RESET, TG_SYNQ_FULL),
        (refuse, queues(129, 129), 0, TG_RESET, TG_SYNQ_FULL),
        (refuse, queues(129, 0), 0, TG_RESET, TG_LISTENQ_FULL_AT_SYN),
    ] {
        let asked = tg_syn { taken: 1, source, ..Default::default() };
        let d = decide_syn(&rules, &no_cookies(found), &asked, &mut tg_bucket::default()).decision;
        assert_eq!((d.verdict, d.reason), (verdict, reason), "{found:?}");
    }
    // Whose connection stands there has the kernel's answer, and nobody else has any.
    for (half_open, taken, verdict, reason) in
        [(1, 1, TG_PASS, TG_HALF_OPEN), (0, 0, TG_RESET, TG_SYNQ_FULL)]
    {
        let asked = tg_syn { half_open, taken, ..Default::default() };
        let full = no_cookies(queues(0, 129));
        let d = decide_syn(&refuse, &full, &asked, &mut tg_bucket::default()).decision;
        assert_eq!((d.verdict, d.reason), (verdict, reason));
    }
}

/// Which stand above a full SYN queue, and where every SYN has one.
#[test]
fn a_limit_of_ours_holds_for_the_kernels_cookies() {
    for rules in [tg_rules::default(), mechanism::parse("auto").unwrap()] {
        let rules = tg_rules { syn: TG_SYN_RESET, refusal_cost_ns: 0, places: 16, ..rules };
        for q in [queues(16, 129), tg_queues { syncookies: 2, ..queues(16, 0) }] {
            assert_eq!(syn(&rules, &q), (TG_RESET, TG_WAIT_LIMIT));
            assert_eq!(syn(&rules, &tg_queues { listen_len: 15, ..q }).1, TG_KERNEL_COOKIE);
            // auto's own is of who waits for accept(), and gives a cookie all the same.
            let few = tg_queues { places: 8, listen_len: 15, ..q };
            assert_eq!(syn(&rules, &few).1, TG_KERNEL_COOKIE);
        }
    }
}

/// auto says when: see overload.h.
#[test]
fn auto_gives_a_cookie_where_the_kernel_would_unless_it_is_no_room() {
    let auto = tg_rules { refusal_cost_ns: 0, ..mechanism::parse("auto").unwrap() };
    assert_eq!(syn(&auto, &queues(63, 129)), (TG_COOKIE, TG_KERNEL_COOKIE));
    // One whose options we cannot keep, or whose request stands already, is the kernel's.
    for (cookie_usable, half_open) in [(0, 0), (1, 1)] {
        let asked = tg_syn { cookie_usable, half_open, ..Default::default() };
        let told = decide_syn(&auto, &queues(63, 129), &asked, &mut tg_bucket::default()).decision;
        assert_eq!((told.verdict, told.reason), (TG_PASS, TG_KERNEL_COOKIE));
    }
    let barred = tg_queues { shut: TG_SHUT_TO_COOKIES as u16, ..queues(64, 129) };
    assert_eq!(syn(&auto, &barred), (TG_RESET, TG_SYNQ_FULL));
    let shut = |syn_len| tg_queues { shut: TG_SHUT as u16, ..queues(63, syn_len) };
    assert_eq!(syn(&auto, &shut(129)), (TG_RESET, TG_WAIT_LIMIT));
    assert_eq!(syn(&auto, &shut(0)), (TG_RESET, TG_WAIT_LIMIT));
    assert_eq!(syn(&tg_rules::default(), &queues(64, 129)), (TG_PASS, TG_KERNEL_COOKIE));
}

#[test]
fn each_refusal_is_its_own_verdict() {
    let full = queues(129, 0);
    for (form, verdict) in [
        (TG_SYN_KERNEL, TG_PASS),
        (TG_SYN_DROP, TG_DROP),
        (TG_SYN_RESET, TG_RESET),
        (TG_SYN_COOKIE, TG_COOKIE),
    ] {
        let rules = tg_rules { syn: form, ..Default::default() };
        assert_eq!(syn(&rules, &full), (verdict, TG_LISTENQ_FULL_AT_SYN));
        assert_eq!(syn(&rules, &queues(0, 0)), (TG_PASS, TG_ROOM));
    }
}

/// TIME-WAIT would acknowledge what answers a hollow SYN/ACK, and no RST would come.
#[test]
fn who_stands_in_time_wait_is_told_by_rst_whatever_fits_its_address() {
    let auto = tg_rules { refusal_cost_ns: 0, ..mechanism::parse("auto").unwrap() };
    for (taken, verdict) in [(0, TG_HOLLOW), (1, TG_RESET)] {
        let asked = tg_syn { answer: TG_ANSWER_HOLLOW as u16, taken, ..Default::default() };
        let d = decide_syn(&auto, &queues(129, 0), &asked, &mut tg_bucket::default()).decision;
        assert_eq!((d.verdict, d.reason), (verdict, TG_LISTENQ_FULL_AT_SYN));
    }
}

/// When a cookie comes back nobody asks any more whether its network has had its share.
#[test]
fn who_is_beyond_its_share_has_no_cookie() {
    for usable in [0, 1] {
        let asked =
            tg_syn { source: TG_SOURCE_BEYOND as u16, cookie_usable: usable, ..Default::default() };
        let cookies = tg_rules { syn: TG_SYN_COOKIE, ..Default::default() };
        let d = decide_syn(&cookies, &queues(129, 0), &asked, &mut tg_bucket::default()).decision;
        assert_eq!((d.verdict, d.reason), (TG_DROP, TG_BEYOND_SHARE));
    }
}

/// What comes behind a decision goes by it (tg_syn_lack(), tg_syn_of_room()).
#[test]
fn what_stood_against_a_syn_is_told_whatever_it_is_counted_under() {
    for (form, counted) in [(TG_SYN_RESET, TG_REFUSAL_LIMIT), (TG_SYN_COOKIE, TG_NO_COOKIE)] {
        let rules = tg_rules { syn: form, refusal_cost_ns: 1, ..Default::default() };
        for (source, against) in
            [(TG_SOURCE_OVER, TG_POLICED), (TG_SOURCE_ANY, TG_LISTENQ_FULL_AT_SYN)]
        {
            let asked = tg_syn { source: source as u16, ..Default::default() };
            let told = decide_syn(&rules, &queues(129, 0), &asked, &mut tg_bucket::default());
            assert_eq!((told.reason, told.decision.reason), (against, counted));
        }
    }
}

/// Passed is let in, but where the kernel's own rule says no.
#[test]
fn who_fits_no_cookie_passes_only_where_the_kernel_has_no_room() {
    let told = |rules: &tg_rules, queues: &tg_queues, source: u32| {
        let asked = tg_syn { source: source as u16, ..Default::default() };
        let d = decide_syn(rules, queues, &asked, &mut tg_bucket::default()).decision;
        assert_eq!(d.reason, TG_NO_COOKIE);
        d.verdict
    };
    let cookies = tg_rules { syn: TG_SYN_COOKIE, ..Default::default() };
    let no_kernel_cookies =
        tg_queues { syncookies: 0, syn_max: 128, listen_max: 4096, ..queues(0, 97) };
    for full in [queues(129, 0), queues(0, 129), no_kernel_cookies] {
        assert_eq!(told(&cookies, &full, TG_SOURCE_ANY), TG_PASS);
        assert_eq!(told(&cookies, &full, TG_SOURCE_OVER), TG_DROP);
    }
    let few_places = tg_rules { places: 16, ..cookies };
    assert_eq!(told(&few_places, &queues(16, 0), TG_SOURCE_ANY), TG_DROP);
    let shut = tg_queues { shut: TG_SHUT as u16, ..queues(0, 0) };
    assert_eq!(told(&cookies, &shut, TG_SOURCE_ANY), TG_DROP);
    let reserv = tg_rules { room: TG_ROOM_RESERVE, ..cookies };
    let early = tg_rules { early_from_x256: 1, early_probability_x256: 256, ..reserv };
    let exhausted = tg_rules { syn: TG_SYN_RESET, cookie_when_reserved: 1, ..reserv };
    for (rules, queues) in
        [(reserv, queues(64, 65)), (early, queues(0, 128)), (exhausted, queues(64, 65))]
    {
        assert_eq!(told(&rules, &queues, TG_SOURCE_ANY), TG_DROP);
    }
}

/// Jamjoom 2.1.3, Grow: the kernel's limit stands above the logical one.
#[test]
fn places_are_for_new_syns_and_the_rest_for_who_has_its_syn_ack() {
    let ack = tg_ack { is_request: 1, acceptable: 1, ..Default::default() };
    let cookie = tg_ack { cookie: TG_ACK_COOKIE, ..Default::default() };
    for (form, verdict) in [
        // The kernel would answer it: what is silent must be so here.
        (TG_SYN_KERNEL, TG_DROP),
        (TG_SYN_DROP, TG_DROP),
        (TG_SYN_RESET, TG_RESET),
        (TG_SYN_COOKIE, TG_COOKIE),
    ] {
        let rules = tg_rules { syn: form, places: 16, ..Default::default() };
        assert_eq!(syn(&rules, &queues(15, 100)), (TG_PASS, TG_ROOM));
        assert_eq!(syn(&rules, &queues(16, 0)), (verdict, TG_WAIT_LIMIT));
        assert_eq!(decide_ack(&rules, &queues(128, 1), &ack).reason, TG_HANDSHAKE);
        // Beyond the kernel's limit the reason is the kernel's own.
        assert_eq!(syn(&rules, &queues(129, 0)).1, TG_LISTENQ_FULL_AT_SYN);
        // A cookie that comes back takes its place only now.
        assert_eq!(decide_ack(&rules, &queues(15, 0), &cookie).verdict, TG_ADMIT);
        assert_eq!(decide_ack(&rules, &queues(16, 0), &cookie).verdict, TG_RESET);
    }
}

/// What the kernel does with an exempt client is all that happens.
#[test]
fn an_exempt_client_is_the_kernels_alone() {
    let auto = mechanism::parse("auto").unwrap();
    let exempt =
        |source: u32| tg_syn { source: source as u16, cookie_usable: 1, ..Default::default() };
    let cookies = tg_queues { syncookies: 1, ..queues(0, 129) };
    for (source, verdict) in [(TG_SOURCE_ANY, TG_COOKIE), (TG_SOURCE_EXEMPT, TG_PASS)] {
        let bucket = &mut tg_bucket::default();
        let decision = decide_syn(&auto, &cookies, &exempt(source), bucket).decision;
        assert_eq!((decision.verdict, decision.reason), (verdict, TG_KERNEL_COOKIE));
    }
    for mechanism in ["early-syn-drop", "rst-syn", "no-syn-drop", "auto"] {
        let rules = mechanism::parse(mechanism).unwrap();
        let (full, bucket) = (queues(129, 0), &mut tg_bucket::default());
        let decision = decide_syn(&rules, &full, &exempt(TG_SOURCE_EXEMPT), bucket).decision;
        let left = (TG_PASS, TG_LISTENQ_FULL_AT_SYN);
        assert_eq!((decision.verdict, decision.reason), left, "{mechanism}");
    }
    let abort = mechanism::parse("abort").unwrap();
    let ack = tg_ack { is_request: 1, acceptable: 1, bare: 1, ..Default::default() };
    for (exempt, verdict) in [(0, TG_RESET), (1, TG_PASS)] {
        let decision = decide_ack(&abort, &queues(129, 1), &tg_ack { exempt, ..ack });
        assert_eq!((decision.verdict, decision.reason), (verdict, TG_OVERFLOW_SYNACK_ACK));
    }
}

/// Who waits for accept(), who has a SYN/ACK, who is about to have one, and what one poll hands up at once: 64 of them,
/// before a backlog of 128.
#[test]
fn an_ack_can_overflow_once_all_that_may_be_under_way_fill_the_backlog() {
    for (listen_len, syn_len, claimed, is_possible) in [
        (63, 0, 0, 0),
        (64, 0, 0, 1),
        (0, 63, 0, 0),
        (0, 64, 0, 1),
        (0, 0, 63, 0),
        (0, 0, 64, 1),
        (40, 20, 3, 0),
        (40, 20, 4, 1),
    ] {
        let queues = tg_queues { claimed, ..queues(listen_len, syn_len) };
        let asked = tg_case { queues, ..Default::default() };
        assert_eq!(agree(&asked).overflow_possible, is_possible, "{queues:?}");
    }
}

#[test]
fn refusals_beyond_the_limit_are_silent() {
    let rules = tg_rules { syn: TG_SYN_RESET, refusal_cost_ns: 1_000_000, ..Default::default() };
    let mut bucket = tg_bucket::default();
    let refused = (0..1000u64)
        .filter(|i| {
            // A SYN every 100 µs for 100 ms, with room for one refusal a millisecond.
            let asked = tg_syn { now_ns: i * 100_000, ..Default::default() };
            decide_syn(&rules, &queues(129, 0), &asked, &mut bucket).decision.verdict == TG_RESET
        })
        .count();
    assert_eq!(refused, 99);
}

/// For as long as the ACK may come. What is passed may have one of the kernel's own, or find its queue full.
#[test]
fn acks_are_looked_at_for_as_long_as_that_of_a_syn_may_matter() {
    let roomy = queues(0, 0);
    let (full, half_open) = (queues(129, 0), queues(0, 129));
    let cookies = mechanism::parse("no-syn-drop").unwrap();
    let auto = mechanism::parse("auto").unwrap();
    let hollow = tg_syn { answer: TG_ANSWER_HOLLOW as u16, ..Default::default() };
    let usable = tg_syn { cookie_usable: 1, ..Default::default() };
    for (rules, queues, syn, verdict, watch_ns) in [
        (tg_rules::default(), roomy, usable, TG_PASS, 0),
        (tg_rules::default(), half_open, usable, TG_PASS, TG_REQUEST_LIFE_NS),
        (
            tg_rules::default(),
            tg_queues { syncookies: 2, ..roomy },
            usable,
            TG_PASS,
            TG_REQUEST_LIFE_NS,
        ),
        (mechanism::parse("rst-syn").unwrap(), full, usable, TG_RESET, TG_REQUEST_LIFE_NS),
        (tg_rules { places: 1, ..cookies }, queues(1, 0), usable, TG_COOKIE, TG_COOKIE_LIFE_NS),
        (cookies, full, usable, TG_COOKIE, TG_COOKIE_LIFE_NS),
        (auto, full, hollow, TG_HOLLOW, TG_HOLLOW_LIFE_NS.into()),
        (tg_rules { places: 1, ..auto }, queues(1, 0), hollow, TG_HOLLOW, TG_HOLLOW_LIFE_NS.into()),
    ] {
        let rules = tg_rules { refusal_cost_ns: 0, ..rules };
        let decision = decide_syn(&rules, &queues, &syn, &mut tg_bucket::default()).decision;
        assert_eq!(decision.verdict, verdict, "{rules:?}, {queues:?}");
        assert_eq!(watch_ns_of(decision, &queues, TG_CALM), watch_ns, "{rules:?}, {queues:?}");
    }
    let passed = tg_decision { verdict: TG_PASS, reason: TG_ROOM };
    for phase in [TG_BURST, TG_PERSISTENT, TG_RECOVERING] {
        assert_eq!(watch_ns_of(passed, &roomy, phase), TG_REQUEST_LIFE_NS, "auto asks how far");
    }
}

fn watch_ns_of(decision: tg_decision, queues: &tg_queues, phase: u32) -> u64 {
    // SAFETY: the function reads only through this valid reference.
    unsafe { raw::tg_native_syn_watch_ns(decision, queues, phase) }
}
