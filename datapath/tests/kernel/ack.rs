// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of the ACK that brings a cookie, or belongs to a request.

use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::Tap;
use tidegate_policy::raw::*;

/// The ACK that brings a cookie back, at the IP entry.
fn cookie_ack(guards: &Guards, segment: &Segment) -> Segment {
    let (_, reply, _) = one(guards, IP, &segment.bytes());
    segment.acknowledging(&reply)
}

#[test]
fn a_cookie_that_comes_back_is_let_in_where_there_is_room() {
    in_a_namespace("a_cookie_that_comes_back_is_let_in_where_there_is_room", |_| {
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            let server = Server::full(to);
            calm(&guards);
            let ack = cookie_ack(&guards, &syn(to));
            let (outcome, reply, counted) = one(&guards, IP, &ack.bytes());
            assert_eq!(counted, [(0, "CookieNoRoom", "reset", 1)]);
            assert_eq!(outcome, Outcome::Answer);
            let expected = ack.answer(|tcp| {
                tcp.rst = true;
                tcp.sequence_number = ack.ack;
            });
            assert_eq!(reply, expected, "the RST that answers an ACK");

            let stranger = ack.clone().with(|s| s.ack ^= 4);
            assert_eq!(one(&guards, IP, &stranger.bytes()).2, [(0, "CookieForeign", "pass", 1)]);

            let _accepted = server.listener.accept().unwrap();
            let (outcome, left, counted) = one(&guards, IP, &ack.bytes());
            assert_eq!(counted, [(0, "CookieValid", "admit", 1)]);
            assert_eq!((outcome, left), (Outcome::Pass, ack.bytes()));
        }
    });
}

/// Its request is on its way when the RST goes out, with the same numbers as its ACK; a place may have come
/// free when it is here. What it says again, it says because it has not heard.
#[test]
fn who_was_refused_at_its_ack_is_not_let_in_by_what_it_says_behind_it() {
    let test = "who_was_refused_at_its_ack_is_not_let_in_by_what_it_says_behind_it";
    in_a_namespace(test, |_| {
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            let server = Server::full(to);
            let ack_of = |port| cookie_ack(&guards, &syn(to).with(|s| s.from.set_port(port)));
            let [asks, ends, whose_ack_was_lost] = [40_001, 40_002, 40_003].map(ack_of);
            for ack in [&asks, &ends] {
                assert_eq!(one(&guards, IP, &ack.bytes()).2, [(0, "CookieNoRoom", "reset", 1)]);
            }
            let asks = asks.with(|s| s.payload = b"GET /".to_vec());
            let ends = ends.with(|s| s.flags |= FIN);
            let whose_ack_was_lost = whose_ack_was_lost.with(|s| s.payload = b"GET /".to_vec());
            let (.., counted) = one(&guards, IP, &whose_ack_was_lost.bytes());
            assert_eq!(counted, [(0, "CookieNoRoom", "reset", 1)], "{to}");

            let _accepted = server.listener.accept().unwrap();
            for behind in [&asks, &ends] {
                let (outcome, _, counted) = one(&guards, IP, &behind.bytes());
                assert_eq!((outcome, counted), (Outcome::Drop, vec![BEHIND_RST]), "{to}");
            }
            for again in [&asks, &whose_ack_was_lost] {
                let (outcome, _, counted) = one(&guards, IP, &again.bytes());
                assert_eq!(counted, [(0, "CookieValid", "admit", 1)], "{to}");
                assert_eq!(outcome, Outcome::Pass, "{to}");
            }
        }
    });
}

const BEHIND_RST: Counted = (0, "HollowAnswered", "drop", 1);

/// The kernel, too, makes a connection of whatever brings its cookie, if there is a place by then.
#[test]
fn so_it_is_with_the_kernels_cookies_where_abort_refuses_them() {
    in_a_namespace("so_it_is_with_the_kernels_cookies_where_abort_refuses_them", |namespace| {
        let outside = Outside::of(namespace);
        namespace.sysctl("net.ipv4.tcp_syncookies", 2).unwrap();
        let abort = tg_rules { ack: TG_ACK_RESET, ..Default::default() };
        let guards = Guards::new(vec![guarded(None, FULL, abort)]);
        for to in both_families() {
            let server = Server::bound(to, 0, false);
            let tap = Tap::open("srv0");
            let asks = Segment::syn(Outside::client(to, 620), to);
            outside.sends(&asks);
            let ack = asks.acknowledging(&tap.syn_ack());
            let _waits = connect(to);
            calm(&guards);
            let (.., counted) = one(&guards, IP, &syn(to).bytes());
            assert_eq!(counted, [(0, "ListenQFullAtSyn", "pass", 1)], "{to}: ACKs are looked at");
            let (outcome, _, counted) = one(&guards, IP, &ack.bytes());
            assert_eq!(counted, [(0, "ListenQOverflow SYN/ACK ACK", "reset", 1)], "{to}");
            assert_eq!(outcome, Outcome::Answer, "{to}");

            let _accepted = server.listener.accept().unwrap();
            let speaks = ack.with(|s| s.payload = b"GET /".to_vec());
            let (outcome, _, counted) = one(&guards, IP, &speaks.bytes());
            assert_eq!((outcome, counted), (Outcome::Drop, vec![BEHIND_RST]), "{to}");
            assert_eq!(one(&guards, IP, &speaks.bytes()).2, [(0, "Handshake", "pass", 1)], "{to}");
        }
    });
}

/// `abort` has the kernel refuse by a change to the client's ACK, which a signed one does not outlast: TCP would drop
/// it, and no RST would be sent.
#[test]
fn abort_leaves_a_signed_segment_as_it_is() {
    in_a_namespace("abort_leaves_a_signed_segment_as_it_is", |namespace| {
        let outside = Outside::of(namespace);
        let abort = tg_rules { ack: TG_ACK_RESET, ..Default::default() };
        let guards = Guards::new(vec![guarded(None, FULL, abort)]);
        for to in both_families() {
            let _server = Server::bound(to, 0, false);
            let tap = Tap::open("srv0");
            let asks = Segment::syn(Outside::client(to, 640), to);
            outside.sends(&asks);
            let plain = asks.acknowledging(&tap.syn_ack());
            let _waits = connect(to);
            calm(&guards);
            let (.., counted) = one(&guards, IP, &syn(to).bytes());
            assert_eq!(counted, [(0, "ListenQFullAtSyn", "pass", 1)], "{to}: ACKs are looked at");
            for (kind, length) in [(19, 18), (29, 16)] {
                let mut option = vec![0; 20];
                option[..4].copy_from_slice(&[1, 1, kind, length]);
                let signed = plain.clone().with(|s| s.options = option).bytes();
                let (outcome, left, counted) = one(&guards, IP, &signed);
                let overflow = (0, "ListenQOverflow SYN/ACK ACK", "pass", 1);
                assert_eq!((outcome, counted), (Outcome::Pass, vec![overflow]), "{to}, {kind}");
                assert_eq!(left, signed, "{to}, option {kind}");
            }
            let (outcome, left, counted) = one(&guards, IP, &plain.bytes());
            let refused = (0, "ListenQOverflow SYN/ACK ACK", "reset", 1);
            assert_eq!((outcome, counted), (Outcome::Pass, vec![refused]), "{to}");
            assert_eq!(left[left.len() - 7], SYN | ACK, "{to}: the kernel answers it with RST");
        }
    });
}

/// Of a listener with MPTCP no request is known to a program (bpf_skc_to_tcp_request_sock(), Linux 5.9 to 6.18), and
/// so the third segment of a subflow's handshake, which takes no place (RFC 8684, section 3.2), is refused by nobody
/// but the kernel.
#[test]
fn the_requests_of_a_listener_with_mptcp_are_the_kernels_alone() {
    in_a_namespace("the_requests_of_a_listener_with_mptcp_are_the_kernels_alone", |namespace| {
        let outside = Outside::of(namespace);
        let abort = tg_rules { ack: TG_ACK_RESET, ..Default::default() };
        let guards = Guards::new(vec![guarded(None, FULL, abort)]);
        for (protocol, port) in [(libc::IPPROTO_MPTCP, 650), (libc::IPPROTO_TCP, 651)] {
            for to in both_families() {
                let _server = Server::of_protocol(to, 0, protocol);
                let tap = Tap::open("srv0");
                let asks = Segment::syn(Outside::client(to, port), to);
                outside.sends(&asks);
                let mut mac = vec![0; 24];
                mac[..3].copy_from_slice(&[30, 24, 0x10]);
                let plain = asks.acknowledging(&tap.syn_ack());
                let joins = plain.clone().with(|s| s.options = mac);
                let _waits = connect(to);
                calm(&guards);
                let (.., counted) = one(&guards, IP, &syn(to).bytes());
                assert_eq!(
                    counted,
                    [(0, "ListenQFullAtSyn", "pass", 1)],
                    "{to}: ACKs are looked at"
                );
                for ack in [plain, joins] {
                    let (_, left, counted) = one(&guards, IP, &ack.bytes());
                    let what = format!("{to}, protocol {protocol}");
                    if protocol == libc::IPPROTO_MPTCP {
                        assert_eq!((left, counted), (ack.bytes(), vec![]), "{what}");
                    } else {
                        let overflow = (0, "ListenQOverflow SYN/ACK ACK", "reset", 1);
                        assert_eq!(counted, [overflow], "{what}");
                    }
                }
            }
        }
    });
}

/// One of a million forged ACKs is taken for a cookie of ours: no price for those who give none. Cookies that
/// are out when the rules change come back all the same.
#[test]
fn who_gives_no_cookies_takes_none_but_those_that_are_out() {
    in_a_namespace("who_gives_no_cookies_takes_none_but_those_that_are_out", |_| {
        let to = at(V4, FULL);
        let server = Server::full(to);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let ack = cookie_ack(&guards, &syn(to));
        let _accepted = server.listener.accept().unwrap();
        let judged_after_a_swap = || {
            guards.rewrite(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
            let (outcome, _, counted) = one(&guards, IP, &ack.bytes());
            assert_eq!(outcome, Outcome::Pass, "{counted:?}");
            counted
        };
        for swap in ["a first", "and a second"] {
            assert_eq!(judged_after_a_swap(), [(0, "CookieValid", "admit", 1)], "{swap}");
        }
        // All that were out have come back, or never will.
        calm(&guards);
        assert_eq!(judged_after_a_swap(), [(0, "CookieForeign", "pass", 1)]);
    });
}
