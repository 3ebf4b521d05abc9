// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet goes in; a verdict and a packet come out. Every program runs in the kernel, against
//! listening sockets whose queues are really full.

use crate::common::scene::*;
use crate::common::segment::*;
use tidegate_datapath::array::{read_one, write_one};
use tidegate_datapath::clock;
use tidegate_datapath::configuration::Guarded;
use tidegate_lab::pin_thread;
use tidegate_policy::raw::*;

#[test]
fn rst_syn_refuses_with_the_reset_of_rfc_9293() {
    in_a_namespace("rst_syn_refuses_with_the_reset_of_rfc_9293", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for to in both_families() {
            for (dress, segment) in dressed(&syn(to)) {
                for hook in HOOKS {
                    let frame = segment.bytes();
                    let (outcome, reply, counted) = one(&guards, hook, &frame);
                    assert_eq!(outcome, Outcome::Answer, "{dress}, {to}, {hook:?}");
                    assert_eq!(reply, segment.reset(), "{dress}, {to}, {hook:?}");
                    assert!(reply.len() <= frame.len(), "{dress}: longer than the SYN");
                    assert_eq!(counted, [(0, "ListenQFullAtSyn", "reset", 1)], "{dress}");
                }
            }
        }
    });
}

/// The payload of draft-ietf-tcpm-rst-diagnostic-payload-02, section 4.1, and an option by RFC 6994
/// that asks for 2.5 s: docs/notices.md. Neither makes the answer longer than the SYN.
#[test]
fn a_refusal_says_why_and_when_to_come_back_where_it_has_room() {
    const WHY: [u8; 8] = [0x33, 0xaa, 0, 10, 0, 0, 0, 0];
    const WHEN: [u8; 8] = [253, 6, 0x54, 0x42, 0, 250, 1, 1];
    in_a_namespace("a_refusal_says_why_and_when_to_come_back_where_it_has_room", |_| {
        let _servers = both_full();
        let rules = tg_rules { notice: 1, come_back_ticks: 250, ..refusing(TG_SYN_RESET) };
        let guards = Guards::new(vec![guarded(None, FULL, rules)]);
        let mut said = [0; 3];
        for to in both_families() {
            let sack_and_scale =
                [Offer::Mss(1460), Offer::Sack, Offer::Nop, Offer::Nop, Offer::Scale(8)];
            let mut dressed = dressed(&syn(to));
            dressed.push(("no clock", syn(to).with(|s| s.options = options(&sack_and_scale))));
            for (dress, segment) in dressed {
                let frame = segment.bytes();
                let spare_bytes = frame.len() - segment.reset().len();
                let (what, expected) = match spare_bytes {
                    ..8 => (0, segment.reset()),
                    8..16 => (1, segment.reset_with(&[], &WHY)),
                    _ => (2, segment.reset_with(&WHEN, &WHY)),
                };
                said[what] += 1;
                for hook in HOOKS {
                    let (outcome, reply, counted) = one(&guards, hook, &frame);
                    assert_eq!(outcome, Outcome::Answer, "{dress}, {to}, {hook:?}");
                    assert_eq!(reply, expected, "{dress}, {to}, {hook:?}");
                    assert!(reply.len() <= frame.len(), "{dress}: longer than the SYN");
                    assert_eq!(counted, [(0, "ListenQFullAtSyn", "reset", 1)], "{dress}");
                }
            }
        }
        assert!(said.iter().all(|times| *times > 0), "nothing, one part and both: {said:?}");
    });
}

/// Ethernet's least frame is 60 bytes: what stands behind the IP packet is not data.
#[test]
fn padding_of_the_frame_is_not_acknowledged() {
    in_a_namespace("padding_of_the_frame_is_not_acknowledged", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let segment = Segment::syn(client(at(V4, FULL)), at(V4, FULL));
        let mut frame = segment.bytes();
        frame.resize(60, 0xee);
        for hook in HOOKS {
            assert_eq!(one(&guards, hook, &frame).1, segment.reset(), "{hook:?}");
        }
    });
}

#[test]
fn early_syn_drop_drops_and_default_only_counts() {
    in_a_namespace("early_syn_drop_drops_and_default_only_counts", |_| {
        let _servers = both_full();
        let drop = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_DROP))]);
        let watch = Guards::new(vec![guarded(None, FULL, tg_rules::default())]);
        for to in both_families() {
            for (dress, segment) in dressed(&syn(to)) {
                for hook in HOOKS {
                    let (outcome, _, counted) = one(&drop, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Drop, "{dress}, {to}, {hook:?}");
                    assert_eq!(counted, [(0, "ListenQFullAtSyn", "drop", 1)], "{dress}");
                }
                assert_passed(&watch, &segment.bytes(), "ListenQFullAtSyn");
            }
        }
    });
}

#[test]
fn a_syn_that_finds_room_passes_whatever_the_mechanism() {
    in_a_namespace("a_syn_that_finds_room_passes_whatever_the_mechanism", |_| {
        let to = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = to.map(|to| Server::new(to, 128, 1));
        let guards = Guards::new(Vec::new());
        for mechanism in [TG_SYN_KERNEL, TG_SYN_DROP, TG_SYN_RESET, TG_SYN_COOKIE] {
            guards.rewrite(vec![guarded(None, ROOMY, refusing(mechanism))]);
            for to in to {
                assert_passed(&guards, &syn(to).bytes(), "Room");
            }
        }
    });
}

/// A queue is full when it holds one connection more than its backlog, and not before.
#[test]
fn the_queue_is_read_live() {
    in_a_namespace("the_queue_is_read_live", |_| {
        for (hook, port) in HOOKS.into_iter().zip(FULL..) {
            let to = at(V4, port);
            let server = Server::new(to, 2, 2);
            let guards = Guards::new(vec![guarded(None, port, refusing(TG_SYN_DROP))]);
            let frame = syn(to).bytes();
            assert_eq!(one(&guards, hook, &frame).0, Outcome::Pass, "two of three wait");
            let _third = connect(to);
            eventually("three of three wait", || one(&guards, hook, &frame).0 == Outcome::Drop);
            let _accepted = server.listener.accept().unwrap();
            assert_eq!(one(&guards, hook, &frame).0, Outcome::Pass, "one was accepted");
        }
    });
}

#[test]
fn what_is_not_guarded_passes_uncounted() {
    in_a_namespace("what_is_not_guarded_passes_uncounted", |_| {
        let _servers = both_full();
        let rules = refusing(TG_SYN_RESET);
        let guards = Guards::new(vec![guarded(None, FULL + 1, rules)]);
        for to in both_families() {
            assert_not_judged(&guards, &syn(to).bytes(), "another port is guarded");
        }
        let others = ["10.9.0.2", "fd09::2"].map(|other| guarded(Some(other), FULL, rules));
        guards.rewrite(others.into());
        for to in both_families() {
            assert_not_judged(&guards, &syn(to).bytes(), "another address is guarded");
        }
        guards.rewrite(vec![guarded(None, 9, rules)]);
        for address in [V4, V6] {
            assert_not_judged(&guards, &syn(at(address, 9)).bytes(), "nobody listens");
        }
    });
}

/// A bridge port or a promiscuous interface shows frames that are for others.
#[test]
fn a_frame_for_another_host_passes_uncounted() {
    in_a_namespace("a_frame_for_another_host_passes_uncounted", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for to in both_families() {
            let mut frame = syn(to).bytes();
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
            assert_not_judged(&guards, &frame, "another host's hardware address");
        }
    });
}

#[test]
fn an_address_goes_before_the_wildcard_on_one_port() {
    in_a_namespace("an_address_goes_before_the_wildcard_on_one_port", |namespace| {
        namespace.ip("address add 10.9.0.2/32 dev lo").unwrap();
        let _servers = [V4, "10.9.0.2", V6].map(|a| Server::full(at(a, FULL)));
        let guards = Guards::new(vec![
            guarded(None, FULL, refusing(TG_SYN_DROP)),
            guarded(Some("10.9.0.2"), FULL, refusing(TG_SYN_RESET)),
            guarded(Some(V6), FULL, tg_rules::default()),
        ]);
        for hook in HOOKS {
            for (address, outcome, guard, verdict) in [
                (V4, Outcome::Drop, 0, "drop"),
                ("10.9.0.2", Outcome::Answer, 1, "reset"),
                (V6, Outcome::Pass, 2, "pass"),
            ] {
                let (was, _, counted) = one(&guards, hook, &syn(at(address, FULL)).bytes());
                assert_eq!(was, outcome, "{address}, {hook:?}");
                assert_eq!(counted, [(guard, "ListenQFullAtSyn", verdict, 1)], "{address}");
            }
        }
    });
}

#[test]
fn what_we_cannot_parse_we_do_not_judge() {
    in_a_namespace("what_we_cannot_parse_we_do_not_judge", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let [v4, v6] = both_families();
        for (why, segment) in [
            ("a first fragment", syn(v4).with(|s| s.fragment = 0x2000)),
            ("a later fragment", syn(v4).with(|s| s.fragment = 0x0004)),
            ("a fragment header", syn(v6).with(|s| s.extensions = vec![(44, vec![0; 7])])),
            (
                "an authentication header",
                syn(v6).with(|s| {
                    s.extensions = vec![(51, [vec![4], vec![0; 22]].concat())];
                }),
            ),
            ("an unknown extension", syn(v6).with(|s| s.extensions = vec![(253, vec![0; 7])])),
            (
                "five extensions",
                syn(v6).with(|s| {
                    s.extensions = vec![(60, vec![0; 7]); 5];
                }),
            ),
            ("three tags", syn(v4).with(|s| s.vlans = vec![VLAN; 3])),
            ("a tag of another kind", syn(v4).with(|s| s.vlans = vec![(0x9100, 5)])),
            ("a multicast frame", syn(v4).with(|s| s.link_to = [1, 0, 0x5e, 0, 0, 1])),
            ("a broadcast frame", syn(v4).with(|s| s.link_to = [0xff; 6])),
        ] {
            assert_not_judged(&guards, &segment.bytes(), why);
        }
    });
}

#[test]
fn only_a_syn_alone_opens_a_connection() {
    in_a_namespace("only_a_syn_alone_opens_a_connection", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        // No ACK is watched, so that none is judged at the ACK stage either.
        calm(&guards);
        for to in both_families() {
            for flags in 0..=u8::MAX {
                let frame = syn(to).with(|s| s.flags = flags).bytes();
                if flags & (SYN | FIN | RST | ACK) == SYN {
                    assert_eq!(one(&guards, IP, &frame).0, Outcome::Answer, "flags {flags:#x}");
                    calm(&guards);
                } else {
                    assert_not_judged(&guards, &frame, &format!("flags {flags:#x}"));
                }
            }
        }
    });
}

#[test]
fn a_length_that_the_frame_does_not_have_is_not_believed() {
    in_a_namespace("a_length_that_the_frame_does_not_have_is_not_believed", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for to in both_families() {
            let whole = syn(to).with(|s| s.payload = vec![7; 10]).bytes();
            // The kernel runs nothing on a frame without a whole IP header.
            let shortest = if to.is_ipv4() { 14 + 20 } else { 14 + 40 };
            for length in shortest..whole.len() {
                assert_not_judged(&guards, &whole[..length], &format!("cut to {length} bytes"));
            }
        }
    });
}

#[test]
fn refusals_beyond_the_limit_are_silent() {
    in_a_namespace("refusals_beyond_the_limit_are_silent", |_| {
        let _servers = both_full();
        for hook in HOOKS {
            // One refusal empties the bucket, which then needs ten times its depth to fill.
            let rules = tg_rules { refusal_cost_ns: 100_000_000, ..refusing(TG_SYN_RESET) };
            let guards = Guards::new(vec![guarded(None, FULL, rules)]);
            let frame = syn(at(V4, FULL)).bytes();
            // Each processor has a bucket of its own.
            pin_thread(processors().0).unwrap();
            assert_eq!(one(&guards, hook, &frame).2, [(0, "ListenQFullAtSyn", "reset", 1)]);
            let (outcome, _, counted) = one(&guards, hook, &frame);
            assert_eq!(counted, [(0, "RefusalLimit", "drop", 1)], "{hook:?}");
            assert_eq!(outcome, Outcome::Drop, "{hook:?}");
        }
    });
}

/// `hook = "ip"` is for tc alone, `hook = "driver"` decides at tc only where no driver does.
#[test]
fn each_hook_decides_for_its_own_guards() {
    in_a_namespace("each_hook_decides_for_its_own_guards", |_| {
        use tidegate_datapath::raw::{TG_HOOK_AUTO, TG_HOOK_DRIVER, TG_HOOK_IP, TG_HOOK_TCP};
        let _servers = both_full();
        let guards = Guards::new(Vec::new());
        for (home, deciding) in [
            (TG_HOOK_AUTO, vec![DRIVER, DRIVER_VETH, IP]),
            (TG_HOOK_DRIVER, vec![DRIVER, DRIVER_VETH, IP]),
            (TG_HOOK_IP, vec![IP, AFTER_DRIVER]),
            (TG_HOOK_TCP, vec![]),
        ] {
            let guard = Guarded { hook: home, ..guarded(None, FULL, refusing(TG_SYN_DROP)) };
            guards.rewrite(vec![guard]);
            for hook in [DRIVER, DRIVER_VETH, IP, AFTER_DRIVER] {
                let (outcome, _, counted) = one(&guards, hook, &syn(at(V4, FULL)).bytes());
                let decides = deciding.contains(&hook);
                assert_eq!(outcome == Outcome::Drop, decides, "home {home}, {hook:?}");
                assert_eq!(counted.len(), usize::from(decides), "home {home}, {hook:?}");
            }
        }
    });
}

/// A new configuration is in force with the next packet, whole.
#[test]
fn a_swapped_configuration_decides_the_next_packet() {
    in_a_namespace("a_swapped_configuration_decides_the_next_packet", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let frame = syn(at(V4, FULL)).bytes();
        for hook in HOOKS {
            for (mechanism, outcome) in
                [(TG_SYN_DROP, Outcome::Drop), (TG_SYN_RESET, Outcome::Answer)]
            {
                guards.rewrite(vec![guarded(None, FULL, refusing(mechanism))]);
                assert_eq!(one(&guards, hook, &frame).0, outcome, "{hook:?}");
            }
        }
    });
}

/// By their ACKs `auto` learns how far its clients are, also where its own limit on the queue is far
/// below the application's, and the kernel's can never overflow.
#[test]
fn while_auto_finds_clients_too_many_their_acks_are_timed() {
    in_a_namespace("while_auto_finds_clients_too_many_their_acks_are_timed", |_| {
        let to = at(V4, ROOMY);
        let _server = Server::new(to, 4096, 1);
        let auto = tg_rules { is_auto: 1, ..refusing(TG_SYN_RESET) };
        for hook in HOOKS {
            let guards = Guards::new(vec![guarded(None, ROOMY, auto)]);
            calm(&guards);
            let until_ns = || read_one::<u64>(&guards.programs, "watch_until_ns", 0).unwrap();
            one(&guards, hook, &syn(to).bytes());
            assert_eq!(until_ns(), 0, "at ease no ACK is looked at, {hook:?}");
            let now_ns = clock::monotonic_ns();
            let refused = tg_overload { dropped_ns: now_ns, ..Default::default() };
            write_one(&guards.programs, "overload", 0, &refused).unwrap();
            let (outcome, _, _) = one(&guards, hook, &syn(to).bytes());
            assert_eq!(outcome, Outcome::Pass, "there is room, {hook:?}");
            assert!(until_ns() > now_ns, "{hook:?}");
        }
    });
}

/// Also where the queues are far from full; and for as long as the ACK may come: a cookie comes back later than a
/// request is finished.
#[test]
fn the_ack_of_who_has_a_cookie_is_looked_at() {
    in_a_namespace("the_ack_of_who_has_a_cookie_is_looked_at", |namespace| {
        let to = at(V4, ROOMY);
        let _server = Server::new(to, 4096, 1);
        let one_place = tg_rules { places: 1, ..refusing(TG_SYN_COOKIE) };
        let guards = Guards::new(Vec::new());
        for (syncookies, rules, counted, life_ns) in [
            (1, tg_rules::default(), (0, "Room", "pass", 1), 0),
            (2, tg_rules::default(), (0, "KernelCookie", "pass", 1), TG_REQUEST_LIFE_NS),
            (1, one_place, (0, "WaitLimit", "cookie", 1), TG_COOKIE_LIFE_NS),
        ] {
            namespace.sysctl("net.ipv4.tcp_syncookies", syncookies).unwrap();
            guards.rewrite(vec![guarded(None, ROOMY, rules)]);
            for hook in HOOKS {
                calm(&guards);
                let now_ns = clock::monotonic_ns();
                assert_eq!(one(&guards, hook, &syn(to).bytes()).2, [counted], "{hook:?}");
                let until_ns = read_one::<u64>(&guards.programs, "watch_until_ns", 0).unwrap();
                // The programs know the time to within a tick or two.
                let is_watched = until_ns > (now_ns + life_ns).saturating_sub(1_000_000_000);
                assert_eq!(is_watched, life_ns > 0, "{counted:?}, {hook:?}");
            }
        }
    });
}

/// 240/4 is reserved, and nobody's; the kernel answers it all the same, and so do we.
#[test]
fn a_source_that_the_kernel_would_answer_is_judged() {
    in_a_namespace("a_source_that_the_kernel_would_answer_is_judged", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let to = at(V4, FULL);
        for hook in HOOKS {
            for source in ["240.0.0.1", "255.255.255.254", "223.255.255.255", "1.0.0.0"] {
                let (outcome, _, _) =
                    one(&guards, hook, &Segment::syn(at(source, 700), to).bytes());
                assert_eq!(outcome, Outcome::Answer, "{source}, {hook:?}");
            }
            for source in ["0.0.0.1", "224.0.0.1", "239.255.255.255", "255.255.255.255"] {
                let frame = Segment::syn(at(source, 700), to).bytes();
                let (outcome, _, counted) = one(&guards, hook, &frame);
                assert_eq!((outcome, counted), (Outcome::Pass, vec![]), "{source}, {hook:?}");
            }
        }
    });
}

/// A hollow SYN/ACK is a refusal after the handshake: what answers it meets a RST wherever SYNs are judged,
/// also at the driver, and what follows that at once is dropped. Other segments go their way. Where TIME-WAIT
/// would get the answer, which acknowledges it, there is a RST in its place.
#[test]
fn what_answers_a_hollow_syn_ack_is_reset_where_the_syn_was_judged() {
    in_a_namespace("what_answers_a_hollow_syn_ack_is_reset_where_the_syn_was_judged", |_| {
        let servers = [at(V4, ROOMY), at(V6, ROOMY)].map(|to| Server::new(to, 128, 1));
        // One SYN, and no other for 18 minutes: who looks like Windows is told so by a hollow SYN/ACK.
        let limit = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let auto = tg_rules { is_auto: 1, ..refusing(TG_SYN_RESET) };
        let guard = Guarded { limits: everybody.to_vec(), ..guarded(None, ROOMY, auto) };
        let guards = Guards::new(vec![guard]);
        for (to, server) in [at(V4, ROOMY), at(V6, ROOMY)].into_iter().zip(&servers) {
            let asks = Segment::syn(client(to), to).with(|s| {
                s.hops = 128;
                s.options = options(&[Offer::Mss(1440), Offer::Nop, Offer::Scale(8), Offer::Sack]);
            });
            one(&guards, IP, &asks.bytes());
            for hook in HOOKS {
                calm(&guards);
                let (outcome, reply, counted) = one(&guards, hook, &asks.bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                assert_eq!(counted, [(0, "Policed", "hollow", 1)], "{to}, {hook:?}");
                let ack = asks.acknowledging(&reply);
                let expected = ack.answer(|tcp| {
                    tcp.rst = true;
                    tcp.sequence_number = ack.ack;
                });
                let (outcome, reset, counted) = one(&guards, hook, &ack.bytes());
                assert_eq!((outcome, counted), (Outcome::Answer, vec![HOLLOW_RESET]), "{hook:?}");
                assert_eq!(reset, expected, "{to}, {hook:?}");
                let speaks = ack.clone().with(|s| s.payload = b"GET /".to_vec());
                let (outcome, _, counted) = one(&guards, hook, &speaks.bytes());
                assert!(
                    matches!(
                        (outcome, counted.as_slice()),
                        (Outcome::Drop, [(0, "HollowAnswered", "drop", 1)])
                            | (Outcome::Answer, [HOLLOW_RESET])
                    ),
                    "a moment later, or on another processor: {hook:?}, {counted:?}"
                );
                let another = ack.with(|s| s.ack = s.ack.wrapping_add(1));
                let (outcome, left, counted) = one(&guards, hook, &another.bytes());
                assert_eq!((outcome, left), (Outcome::Pass, another.bytes()), "{hook:?}");
                assert!(counted.iter().all(|(_, reason, ..)| *reason == "CookieForeign"));
            }
            let comes_again = asks.with(|s| s.from = in_time_wait(server));
            for hook in HOOKS {
                let frame = comes_again.bytes();
                eventually("TIME-WAIT", || one(&guards, hook, &frame).0 == Outcome::Answer);
                let (_, reply, counted) = one(&guards, hook, &frame);
                assert_eq!(counted, [(0, "Policed", "reset", 1)], "{to}, {hook:?}");
                assert_eq!(reply, comes_again.reset(), "{to}, {hook:?}");
            }
        }
    });
}

const HOLLOW_RESET: Counted = (0, "HollowAnswered", "reset", 1);
