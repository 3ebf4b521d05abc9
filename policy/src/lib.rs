// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tidegate's decisions, callable from Rust.
//!
//! The decisions are C (`include/*.h`), compiled into BPF for the kernel and, here,
//! natively for the simulator and the tests: what is simulated is what is deployed.

pub mod accepts;
pub mod mechanism;
pub mod names;
pub mod notice;
pub mod overload;
pub mod police;
pub mod queue_drops;
pub mod share;
pub mod shed;
pub mod size;
pub mod system;
pub mod time_wait;

/// The headers' own types and functions, as bindgen reads them.
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::all)]
#[allow(clippy::undocumented_unsafe_blocks)]
pub mod raw {
    include!(concat!(env!("OUT_DIR"), "/policy.rs"));
}

use std::net::{IpAddr, SocketAddr};

use raw::{tg_ack, tg_bucket, tg_decision, tg_fin, tg_judged, tg_queues, tg_rules, tg_syn};

impl raw::tg_tuple {
    /// A connection's addresses and ports as a packet from the client carries them.
    #[inline]
    #[must_use]
    pub fn between(from: SocketAddr, to: SocketAddr) -> Self {
        let words = |address: IpAddr| match address {
            IpAddr::V4(address) => [u32::from_ne_bytes(address.octets()), 0, 0, 0],
            IpAddr::V6(address) => {
                let octets = address.octets();
                let word = |at: usize| {
                    u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
                };
                [word(0), word(4), word(8), word(12)]
            }
        };
        Self {
            saddr: words(from.ip()),
            daddr: words(to.ip()),
            sport: from.port().to_be(),
            dport: to.port().to_be(),
            is_ipv6: from.is_ipv6().into(),
        }
    }
}

impl raw::tg_rules {
    /// Whether it needs cookies of ours.
    pub fn needs_cookies(&self) -> bool {
        self.syn == raw::TG_SYN_COOKIE || self.cookie_when_reserved != 0
    }

    /// Whether its mechanism has a SYN that finds no room answered: just before TCP it could only be dropped.
    pub fn answers_syns(&self) -> bool {
        [raw::TG_SYN_RESET, raw::TG_SYN_COOKIE].contains(&self.syn)
    }

    /// Whether a cookie of ours may be the answer to a SYN: where auto gives none the kernel does.
    pub fn may_give_cookies(&self) -> bool {
        self.needs_cookies() || self.is_auto != 0
    }

    /// Whether it goes by what a SYN costs here, and nobody has said it.
    pub fn asks_syn_ns(&self) -> bool {
        self.is_auto != 0 && self.syn_ns == 0
    }

    /// The same, where it asks, with what a SYN costs here: at least 1 ns, for 0 leaves it open.
    #[must_use]
    pub fn or_syn_ns(self, syn_ns: u64) -> Self {
        if self.asks_syn_ns() { Self { syn_ns: syn_ns.max(1), ..self } } else { self }
    }
}

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
    match decision.verdict {
        raw::TG_ADMIT => true,
        raw::TG_PASS => matches!(
            decision.reason,
            raw::TG_ROOM
                | raw::TG_EXEMPT
                | raw::TG_KERNEL_COOKIE
                | raw::TG_FORWARDED
                | raw::TG_SPARED
        ),
        _ => false,
    }
}

/// Whether a half-open request of this age, in milliseconds, should give its place back
/// (Shukla, thesis, 4.1.7).
pub fn reservation_stale(rules: &tg_rules, queues: &tg_queues, age_ms: u64) -> bool {
    // SAFETY: the function reads only through these valid references.
    unsafe { raw::tg_native_reservation_stale(rules, queues, age_ms) != 0 }
}

/// The policy on one set of inputs, to be held against its BPF build (`include/agree*.h`).
macro_rules! agree {
    ($($what:literal $name:ident by $native:ident: $case:ident -> $answers:ident;)+) => {$(
        #[doc = $what]
        pub fn $name(case: &raw::$case) -> raw::$answers {
            let mut answers = raw::$answers::default();
            // SAFETY: the function reads and writes only through these valid references.
            unsafe { raw::$native(case, &mut answers) };
            answers
        }
    )+};
}

agree! {
    "Every decision on one set of inputs."
    agree by tg_native_agree: tg_case -> tg_answers;
    "One step of persistent dropping on one set of inputs."
    agree_shed by tg_native_agree_shed: tg_shed_case -> tg_shed_answers;
    "Every decision about who holds TIME-WAIT on one set of inputs."
    agree_time_wait by tg_native_agree_time_wait: tg_tw_case -> tg_tw_answers;
    "Every decision about notices on one set of inputs."
    agree_notice by tg_native_agree_notice: tg_notice_case -> tg_notice_answers;
    "One SYN before a network's fair share, on one set of inputs."
    agree_share by tg_native_agree_share: tg_share_case -> tg_share_answers;
    "One look at how an application accepts, on one set of inputs."
    agree_accepts by tg_native_agree_accepts: tg_accepts_case -> tg_accepts_answers;
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;
    use raw::*;

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
            let d =
                decide_syn(&rules, &no_cookies(found), &asked, &mut tg_bucket::default()).decision;
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
            let told =
                decide_syn(&auto, &queues(63, 129), &asked, &mut tg_bucket::default()).decision;
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
    fn auto_goes_by_what_a_syn_costs_here_unless_it_was_said() {
        let auto = mechanism::parse("auto").unwrap();
        assert_eq!(auto.or_syn_ns(2950), tg_rules { syn_ns: 2950, ..auto });
        assert_eq!(auto.or_syn_ns(0).syn_ns, 1);
        let said = tg_rules { syn_ns: 9000, ..auto };
        assert_eq!(said.or_syn_ns(2950), said);
        let other = mechanism::parse("abort").unwrap();
        assert_eq!(other.or_syn_ns(2950), other);
    }

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
            // SAFETY: the function reads only through these valid references.
            unsafe { raw::tg_native_ack_leaves(&rules, &ack, decision) != 0 }
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
            let asked = tg_syn {
                source: TG_SOURCE_BEYOND as u16,
                cookie_usable: usable,
                ..Default::default()
            };
            let cookies = tg_rules { syn: TG_SYN_COOKIE, ..Default::default() };
            let d =
                decide_syn(&cookies, &queues(129, 0), &asked, &mut tg_bucket::default()).decision;
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
        let abort = mechanism::parse("abort").unwrap();
        let ack = tg_ack { is_request: 1, acceptable: 1, bare: 1, ..Default::default() };
        for (exempt, verdict) in [(0, TG_RESET), (1, TG_PASS)] {
            let decision = decide_ack(&abort, &queues(129, 1), &tg_ack { exempt, ..ack });
            assert_eq!((decision.verdict, decision.reason), (verdict, TG_OVERFLOW_SYNACK_ACK));
        }
    }

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
            assert!(!reservation_stale(&overbooked, &of(128), 100));
            for (form, verdict) in
                [(TG_SYN_KERNEL, TG_DROP), (TG_SYN_RESET, TG_RESET), (TG_SYN_COOKIE, TG_COOKIE)]
            {
                let overbooked = tg_rules { syn: form, ..overbooked };
                assert_eq!(syn(&overbooked, &of(129)), (verdict, TG_SYNQ_FULL), "{syncookies}");
            }
            let exhausted = tg_rules { cookie_when_reserved: 1, ..overbooked };
            assert_eq!(syn(&exhausted, &of(129)), (TG_COOKIE, TG_SYNQ_FULL));
            assert!(reservation_stale(&overbooked, &of(129), 100));
        }
        let short = |syn_len, syncookies| tg_queues {
            listen_max: 4096,
            syn_max: 128,
            syncookies,
            ..queues(0, syn_len)
        };
        assert_eq!(syn(&reserv, &short(96, 0)), (TG_PASS, TG_ROOM));
        assert_eq!(syn(&reserv, &short(97, 0)), (TG_DROP, TG_SYNQ_3_4_FULL));
        assert!(reservation_stale(&reserv, &short(97, 0), 100));
        assert_eq!(syn(&reserv, &short(97, 1)), (TG_PASS, TG_ROOM));
    }

    /// Shukla 4.1.2: "does not send a SYN/ACK in response to a SYN until the server application issues
    /// an accept()".
    #[test]
    fn lazy_answers_no_syn_before_those_ahead_are_taken() {
        for (form, verdict) in
            [(TG_SYN_KERNEL, TG_DROP), (TG_SYN_RESET, TG_RESET), (TG_SYN_COOKIE, TG_COOKIE)]
        {
            let lazy =
                tg_rules { room: TG_ROOM_RESERVE, syn: form, ahead: 1, ..Default::default() };
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

    /// A bare FIN in its place, to a connection with nothing left to read or to acknowledge.
    fn bare_fin() -> tg_fin {
        tg_fin {
            connection: TG_CONNECTION_OPEN,
            seq: 1000,
            rcv_nxt: 1000,
            rcv_end: 1500,
            copied_seq: 1000,
            ack: 77,
            snd_una: 70,
            snd_nxt: 77,
            write_seq: 77,
            ..Default::default()
        }
    }

    /// Shukla 4.2.1: a FIN is the end, one with data is not; and only the very next segment is.
    #[test]
    fn a_fin_ends_the_connection_in_its_place_alone() {
        let left = |change: &dyn Fn(&mut tg_fin)| {
            let mut fin = bare_fin();
            change(&mut fin);
            let d = decide_fin(TG_RST_FIN, &fin);
            assert_eq!(d.verdict == TG_RESET, d.reason == TG_FIN_ENDS, "{fin:?}");
            d.reason
        };
        assert_eq!(left(&|_| ()), TG_FIN_ENDS);
        assert_eq!(left(&|f| f.payload_bytes = 1), TG_FIN_WITH_DATA);
        assert_eq!(left(&|f| f.is_signed = 1), TG_FIN_SIGNED);
        assert_eq!(left(&|f| f.connection = TG_CONNECTION_NONE), TG_FIN_NO_CONNECTION);
        assert_eq!(left(&|f| f.connection = TG_CONNECTION_CLOSING), TG_FIN_CLOSING);
        for (seq, reason) in [
            (999, TG_FIN_OUTSIDE),
            (1001, TG_FIN_OUT_OF_ORDER),
            (1500, TG_FIN_OUT_OF_ORDER),
            (1501, TG_FIN_OUTSIDE),
            (1000 + 0x8000_0000, TG_FIN_OUTSIDE),
        ] {
            assert_eq!(left(&|f| f.seq = seq), reason, "sequence number {seq}");
        }
        for (ack, reason) in
            [(69, TG_FIN_BAD_ACK), (70, TG_FIN_ENDS), (77, TG_FIN_ENDS), (78, TG_FIN_BAD_ACK)]
        {
            assert_eq!(left(&|f| f.ack = ack), reason, "acknowledges {ack}");
        }
        // A window that is closed still takes a FIN.
        assert_eq!(left(&|f| f.rcv_end = f.rcv_nxt), TG_FIN_ENDS);
        assert_eq!(decide_fin(TG_HALF_CLOSE, &bare_fin()).reason, TG_FIN_HALF_CLOSE);
    }

    #[test]
    fn strictly_nothing_may_be_unread_or_on_its_way() {
        let reason = |rule, fin: &tg_fin| decide_fin(rule, fin).reason;
        let unread = tg_fin { copied_seq: 999, ..bare_fin() };
        let unacked = tg_fin { ack: 76, ..bare_fin() };
        let unsent = tg_fin { write_seq: 78, ..bare_fin() };
        for (fin, strict) in
            [(unread, TG_FIN_UNREAD), (unacked, TG_FIN_UNACKED), (unsent, TG_FIN_UNACKED)]
        {
            assert_eq!(reason(TG_RST_FIN, &fin), TG_FIN_ENDS);
            assert_eq!(reason(TG_RST_FIN_STRICT, &fin), strict);
        }
        assert_eq!(reason(TG_RST_FIN_STRICT, &bare_fin()), TG_FIN_ENDS);
    }

    /// What an application says of its own socket goes before the configuration.
    #[test]
    fn the_application_has_the_last_word() {
        let mut case = tg_case { fin: bare_fin(), ..Default::default() };
        for (configured, said, verdict) in [
            (TG_HALF_CLOSE, 0, TG_PASS),
            (TG_RST_FIN, 0, TG_RESET),
            (TG_RST_FIN, TG_HALF_CLOSE + 1, TG_PASS),
            (TG_HALF_CLOSE, TG_RST_FIN + 1, TG_RESET),
            (TG_HALF_CLOSE, TG_RST_FIN_STRICT + 1, TG_RESET),
        ] {
            (case.rules.fin, case.fin_said) = (configured, said);
            assert_eq!(agree(&case).fin.verdict, verdict, "{configured}, said {said}");
        }
    }

    #[test]
    fn nobody_is_refused_and_let_in() {
        for (reason, verdict) in (0..TG_REASONS).flat_map(|r| (0..TG_VERDICTS).map(move |v| (r, v)))
        {
            let decision = tg_decision { verdict, reason };
            assert!(!(lets_in(decision) && is_refusal(decision)), "reason {reason}: {verdict}");
        }
        let is = |verdict, reason| lets_in(tg_decision { verdict, reason });
        assert!(
            is(TG_PASS, TG_ROOM) && is(TG_PASS, TG_KERNEL_COOKIE) && is(TG_ADMIT, TG_COOKIE_VALID)
        );
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

    #[test]
    fn refusals_beyond_the_limit_are_silent() {
        let rules =
            tg_rules { syn: TG_SYN_RESET, refusal_cost_ns: 1_000_000, ..Default::default() };
        let mut bucket = tg_bucket::default();
        let refused = (0..1000u64)
            .filter(|i| {
                // A SYN every 100 µs for 100 ms, with room for one refusal a millisecond.
                let asked = tg_syn { now_ns: i * 100_000, ..Default::default() };
                decide_syn(&rules, &queues(129, 0), &asked, &mut bucket).decision.verdict
                    == TG_RESET
            })
            .count();
        assert_eq!(refused, 99);
    }

    /// The test vector of the SipHash paper's appendix: key 00..0f, message 00..0e.
    #[test]
    fn siphash_matches_the_papers_vector() {
        let key = tg_key { k0: 0x0706050403020100, k1: 0x0f0e0d0c0b0a0908 };
        // The paper's 15-byte message cannot be whole words; its 8-byte sibling from the
        // reference implementation's vectors can.
        let word = [0x0706050403020100u64];
        // SAFETY: one word stands behind the pointer, as announced.
        let hash = unsafe { tg_native_siphash(&key, word.as_ptr(), 1) };
        assert_eq!(hash.to_le_bytes(), [0x62, 0x24, 0x93, 0x9a, 0x79, 0xf5, 0xf5, 0x93]);
    }

    /// SipHash-1-3 has no vectors of its authors': it is held against another implementation.
    #[test]
    fn siphash_with_fewer_rounds_is_what_others_take_for_it() {
        let mut word = 0x0123_4567_89ab_cdefu64;
        let mut next = || {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            word ^ word >> 29
        };
        for count in 0..1000 {
            let key = tg_key { k0: next(), k1: next() };
            let words: Vec<u64> = (0..count % 6).map(|_| next()).collect();
            let mut theirs = SipHasher13::new_with_keys(key.k0, key.k1);
            words.iter().for_each(|word| theirs.write(&word.to_le_bytes()));
            // SAFETY: as many words stand behind the pointer as announced.
            let ours = unsafe { tg_native_siphash13(&key, words.as_ptr(), words.len() as u32) };
            assert_eq!(ours, theirs.finish(), "{words:?}");
        }
    }

    #[test]
    fn a_cookie_keeps_its_options_and_ages() {
        let mut case = tg_case { epoch: 1000, client_isn: 7, ..Default::default() };
        case.options = tg_cookie_options { mss: 1460, wscale: 7, sack: 1, ecn: 0, padding: [0; 3] };
        case.keys.current = tg_key { k0: 1, k1: 2 };
        let made = agree(&case).made.isn;
        case.cookie = made;
        for (later, good) in [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0), (u32::MAX, 1)] {
            case.epoch = 1000u32.wrapping_add(later);
            let answers = agree(&case);
            assert_eq!(answers.opened_ok, good, "after {later} epochs");
            if good == 1 {
                assert_eq!(answers.opened, case.options);
            }
        }
        // A rotation: the key that made it is now the previous one.
        case.epoch = 1000;
        case.keys.previous = case.keys.current;
        case.keys.current = tg_key { k0: 3, k1: 4 };
        assert_eq!(agree(&case).opened_ok, 1);
        case.keys.previous = tg_key { k0: 5, k1: 6 };
        assert_eq!(agree(&case).opened_ok, 0);
    }
}
