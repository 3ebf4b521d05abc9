// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping at the driver and at the IP entry: a SYN goes in, a verdict comes out, and
//! it is the one that the native policy gives. On a listener, and on a path to one.

use std::net::{IpAddr, SocketAddr};
use std::thread::sleep;
use std::time::Duration;

use crate::common::Runner;
use crate::common::scene::*;
use crate::common::segment::*;
use fastrand::Rng;
use tidegate_datapath::array::write_one;
use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::{clock, control, shed};
use tidegate_lab::pin_thread;
use tidegate_policy::raw::*;
use tidegate_policy::shed::{blocks, hash, parts_x32};
use tidegate_policy::{agree, agree_shed};

const SECOND: u64 = 1_000_000_000;
const TURN: u64 = TG_SHED_TURN_NS;
/// The middle of a turn.
const CALM: u64 = 6_400_000 * TURN + TURN / 2;
/// Where a path leads: nobody of this host has it.
const BEYOND: &str = "198.51.100.7";
const BEYOND_V6: &str = "2001:db8::7";

fn rules(policy: u32, p: f64) -> tg_shed_rules {
    tg_shed_rules {
        blocks: blocks(1000, 1.2),
        ..tg_shed_rules::new(policy, TG_KEY_CONNECTION, p, 5)
    }
}

fn path(address: &str, shed: tg_shed_rules) -> Guarded {
    let address = Some(address.parse().unwrap());
    Guarded { address, is_path: true, ..shedding(FULL, shed) }
}

/// Those that decide what goes there.
fn hooks_to(to: SocketAddr) -> impl Iterator<Item = Hook> {
    let is_beyond = [BEYOND, BEYOND_V6].iter().any(|beyond| at(beyond, to.port()) == to);
    if is_beyond { PATH_HOOKS.to_vec() } else { HOOKS.to_vec() }.into_iter()
}

/// Sets the wall clock that the programs know.
fn set_clock(guards: &Guards, wall_ns: u64) {
    let mut control = control::read(&guards.programs).unwrap();
    control.clock_offset_ns = wall_ns.wrapping_sub(clock::monotonic_ns());
    write_one(&guards.programs, "control", 0, &control).unwrap();
}

fn guards_at(wall_ns: u64, guards: Vec<Guarded>) -> Guards {
    let guards = Guards::new(guards);
    set_clock(&guards, wall_ns);
    guards
}

/// A client among many.
fn someone(to: SocketAddr, number: u16) -> SocketAddr {
    at(if to.is_ipv4() { "10.9.0.77" } else { "fd09::77" }, 20_000 + number)
}

fn syn(from: SocketAddr, to: SocketAddr) -> Segment {
    Segment::syn(from, to).with(|s| {
        use Offer::*;
        s.seq = u32::from(from.port()).wrapping_mul(0x9e37_79b9);
        s.options = options(&[Mss(1440), Sack, Stamps(7), Nop, Scale(7)]);
    })
}

/// What became of it at a hook, and what left.
fn one(guards: &Guards, hook: Hook, frame: &[u8]) -> (Outcome, Vec<u8>) {
    let mut runner = Runner::new();
    let ran = runner.run(guards.program(hook.program), frame, &[]).unwrap();
    (hook.outcome(ran.returned), ran.packet.to_vec())
}

/// How persistent dropping of a guard does.
fn condition(guards: &Guards, guard: u32) -> shed::Condition {
    let all = configuration::read(&guards.programs).unwrap();
    let (_, guarded) = all.iter().find(|(index, _)| *index == guard).unwrap();
    shed::condition(&guards.programs, guard, &guarded.shed).unwrap()
}

fn below(tuple: &tg_tuple, question: u32, tail: u32, p: f64) -> bool {
    hash(&SHED_KEY, tuple, TG_KEY_CONNECTION, question, tail) >> 32 < parts_x32(p)
}

/// By the policy's own hash.
fn chosen(from: SocketAddr, to: SocketAddr, wall_ns: u64, p: f64) -> bool {
    below(&tg_tuple::between(from, to), TG_ASK_TURN, (wall_ns >> TG_SHED_TURN_SHIFT) as u32, p)
}

#[test]
fn slpd_drops_at_every_hook_whom_the_native_policy_drops() {
    in_a_namespace("slpd_drops_at_every_hook_whom_the_native_policy_drops", |_| {
        let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = listeners.map(|to| Server::bound(to, 128, false));
        let paths = [at(BEYOND, FULL), at(BEYOND_V6, FULL)];
        let guards = guards_at(
            CALM,
            vec![
                shedding(ROOMY, rules(TG_SLPD, 0.3)),
                path(BEYOND, rules(TG_SLPD, 0.3)),
                path(BEYOND_V6, rules(TG_SLPD, 0.3)),
            ],
        );
        for (guard, to) in [(0, listeners[0]), (0, listeners[1]), (1, paths[0]), (2, paths[1])] {
            let passes = if guard == 0 { "Room" } else { "Forwarded" };
            for hook in hooks_to(to) {
                let before = guards.counts();
                let mut dropped = 0;
                for number in 0..1000 {
                    let from = someone(to, number);
                    let frame = syn(from, to).bytes();
                    let (outcome, left) = one(&guards, hook, &frame);
                    let chosen = chosen(from, to, CALM, 0.3);
                    dropped += u64::from(chosen);
                    let expected = if chosen { Outcome::Drop } else { Outcome::Pass };
                    assert_eq!(outcome, expected, "{from} to {to}, {hook:?}");
                    assert_eq!(left, frame, "{from} to {to}, {hook:?}");
                }
                assert!((240..360).contains(&dropped), "{dropped} of 1000");
                let counted = guards.counts().since(&before);
                let expected = [
                    (guard, passes, "pass", 1000 - dropped),
                    (guard, "ShedStateless", "drop", dropped),
                ];
                for count in expected {
                    assert!(counted.contains(&count), "{counted:?}, {hook:?}");
                }
                assert_eq!(counted.len(), 2, "{counted:?}, {hook:?}");
            }
        }
    });
}

/// A path has no say over what goes elsewhere, nor over anything but SYNs.
#[test]
fn beside_the_path_nothing_is_judged() {
    in_a_namespace("beside_the_path_nothing_is_judged", |_| {
        let guards = guards_at(CALM, vec![path(BEYOND, rules(TG_SLPD, 1.0))]);
        let to = at(BEYOND, FULL);
        let from = someone(to, 1);
        let frames = [
            ("another port", syn(from, at(BEYOND, FULL + 1))),
            ("another address", syn(from, at("198.51.100.8", FULL))),
            ("the way back", syn(to, from)),
            ("a SYN/ACK", syn(from, to).with(|s| s.flags = SYN | ACK)),
            ("an ACK", syn(from, to).with(|s| s.flags = ACK)),
            ("data", syn(from, to).with(|s| s.flags = ACK | PSH)),
            ("a RST", syn(from, to).with(|s| s.flags = RST)),
            ("a fragment", syn(from, to).with(|s| s.fragment = 0x2000)),
            ("another host's frame", syn(from, to).with(|s| s.link_to = [2, 0, 0, 0, 0, 9])),
        ];
        for hook in PATH_HOOKS {
            for (what, segment) in &frames {
                let frame = segment.bytes();
                assert_eq!(one(&guards, hook, &frame), (Outcome::Pass, frame), "{what}, {hook:?}");
            }
            assert_eq!(one(&guards, hook, &syn(from, to).bytes()).0, Outcome::Drop, "{hook:?}");
        }
        let counted = guards.counts().since(&Counts::default());
        assert_eq!(counted, [(0, "ShedStateless", "drop", PATH_HOOKS.len() as u64)]);
    });
}

/// What is forwarded past a listener's own port is not this listener's, shed or not.
#[test]
fn a_listener_sheds_only_where_it_listens() {
    in_a_namespace("a_listener_sheds_only_where_it_listens", |_| {
        let guards = guards_at(CALM, vec![shedding(ROOMY, rules(TG_SLPD, 1.0))]);
        let frame = syn(someone(at(V4, ROOMY), 1), at(V4, ROOMY)).bytes();
        for hook in HOOKS {
            assert_eq!(one(&guards, hook, &frame).0, Outcome::Pass, "nobody listens, {hook:?}");
        }
        assert_eq!(guards.counts().since(&Counts::default()), []);
        let _server = Server::bound(at(V4, ROOMY), 128, false);
        for hook in HOOKS {
            assert_eq!(one(&guards, hook, &frame).0, Outcome::Drop, "{hook:?}");
        }
    });
}

/// One client that makes most of the connections, and is not chosen, has the hash given up: but not where its
/// connections go to another host, or to nobody.
#[test]
fn a_listener_measures_only_what_comes_to_it() {
    in_a_namespace("a_listener_measures_only_what_comes_to_it", |_| {
        // Each processor measures for itself.
        pin_thread(processors().0).unwrap();
        let (p, here, beyond) = (0.1, at(V4, ROOMY), at(BEYOND, ROOMY));
        let by_client = tg_shed_rules { key: TG_KEY_CLIENT, ..rules(TG_SLPD, p) };
        let is_chosen = |from: SocketAddr, to: SocketAddr| {
            let (turn, tuple) = (CALM >> TG_SHED_TURN_SHIFT, tg_tuple::between(from, to));
            let hash = hash(&SHED_KEY, &tuple, TG_KEY_CLIENT, TG_ASK_TURN, turn as u32);
            hash >> 32 < parts_x32(p)
        };
        let mut clients = (1..100).map(|n| at(&format!("10.9.0.{n}"), 0));
        let client = clients.find(|from| ![here, beyond].iter().any(|to| is_chosen(*from, *to)));
        let client = client.expect("a client that is not chosen").ip();
        let fallback_after = |guards: &Guards, hook: Hook, to: SocketAddr| {
            let mut runner = Runner::new();
            // As many as are judged at once, twice, and the time that is between two judgements.
            for _ in 0..2 {
                for port in 20_000..24_000 {
                    let frame = syn(SocketAddr::new(client, port), to).bytes();
                    let ran = runner.run(guards.program(hook.program), &frame, &[]).unwrap();
                    let outcome = hook.outcome(ran.returned);
                    assert!(to == here || outcome == Outcome::Pass, "{hook:?}");
                }
                sleep(Duration::from_millis(300));
            }
            condition(guards, 0).state.fallback
        };
        for hook in HOOKS {
            let guards = guards_at(CALM, vec![shedding(ROOMY, by_client)]);
            for to in [beyond, here] {
                let fallback = fallback_after(&guards, hook, to);
                assert_eq!(fallback, TG_FALLBACK_NONE, "nobody listens at {to}, {hook:?}");
            }
            let _server = Server::bound(here, 128, false);
            assert_eq!(fallback_after(&guards, hook, here), TG_FALLBACK_UNIFORM, "{hook:?}");
        }
    });
}

#[test]
fn refused_by_reset_is_answered_with_the_reset_of_rfc_9293() {
    in_a_namespace("refused_by_reset_is_answered_with_the_reset_of_rfc_9293", |_| {
        let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = listeners.map(|to| Server::bound(to, 128, false));
        let resetting = |policy| tg_shed_rules { refusal: TG_REFUSE_RESET, ..rules(policy, 1.0) };
        for policy in [TG_RBD, TG_SLPD, TG_SBPD] {
            let guards = guards_at(
                CALM,
                vec![
                    shedding(ROOMY, resetting(policy)),
                    path(BEYOND, resetting(policy)),
                    path(BEYOND_V6, resetting(policy)),
                ],
            );
            for to in [listeners[0], listeners[1], at(BEYOND, FULL), at(BEYOND_V6, FULL)] {
                let segment = syn(someone(to, 1), to).with(|s| s.vlans = vec![(0x8100, 5)]);
                for hook in hooks_to(to) {
                    let (outcome, reply) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                    assert_eq!(reply, segment.reset(), "{to}, {hook:?}");
                }
            }
        }
    });
}

/// Both come from one listener, in whose queue there is no room: who is shed might be let through with the next
/// connection, and a time would be heeded for that, too. docs/notices.md
#[test]
fn who_is_shed_is_told_why_and_who_finds_no_room_when_to_come_back_too() {
    const WHY: [u8; 8] = [0x33, 0xaa, 0, 10, 0, 0, 0, 0];
    const WHEN: [u8; 8] = [253, 6, 0x54, 0x42, 0, 250, 1, 1];
    in_a_namespace("who_is_shed_is_told_why_and_who_finds_no_room_when_to_come_back_too", |_| {
        let listeners = [at(V4, FULL), at(V6, FULL)];
        let _servers = listeners.map(Server::full);
        let shed = tg_shed_rules { refusal: TG_REFUSE_RESET, ..rules(TG_SLPD, 0.3) };
        let says = tg_rules { notice: 1, come_back_ticks: 250, ..refusing(TG_SYN_RESET) };
        let guards = guards_at(CALM, vec![Guarded { rules: says, ..shedding(FULL, shed) }]);
        for to in listeners {
            for hook in HOOKS {
                let mut are_shed = 0;
                for number in 0..50 {
                    let segment = syn(someone(to, number), to);
                    let is_shed = chosen(segment.from, to, CALM, 0.3);
                    are_shed += u32::from(is_shed);
                    let when = if is_shed { &[][..] } else { &WHEN[..] };
                    let (outcome, reply) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{}, {hook:?}", segment.from);
                    assert_eq!(reply, segment.reset_with(when, &WHY), "{}, {hook:?}", segment.from);
                }
                assert!((1..50).contains(&are_shed), "{are_shed} of 50 at {to}");
            }
        }
    });
}

/// There is room, and the next connection may be let in with it: no RST of these is of the whole server. docs/notices.md
#[test]
fn who_is_refused_by_lot_or_for_its_networks_sake_is_told_why_and_not_when() {
    const WHY: [u8; 8] = [0x33, 0xaa, 0, 10, 0, 0, 0, 0];
    const WHEN: [u8; 8] = [253, 6, 0x54, 0x42, 0, 250, 1, 1];
    in_a_namespace(
        "who_is_refused_by_lot_or_for_its_networks_sake_is_told_why_and_not_when",
        |_| {
            let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
            let _servers = listeners.map(|to| Server::new(to, 3, 1));
            let says = tg_rules { notice: 1, come_back_ticks: 250, ..refusing(TG_SYN_RESET) };
            let reserves = tg_rules { room: TG_ROOM_RESERVE, ..says };
            // Half of all, with one place of four taken, and one asked for.
            let by_lot = tg_rules { early_probability_x256: 256, ..reserves };
            let ahead = tg_rules { ahead: 1, ..reserves };
            // Nobody's, for 18 minutes.
            let limit = tg_limit { cost_ns: 1 << 40, ..Default::default() };
            let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
            let policed = Guarded { limits: everybody.to_vec(), ..guarded(None, ROOMY, says) };
            let guards = guards_at(CALM, Vec::new());
            for (guard, reason, when) in [
                (guarded(None, ROOMY, by_lot), "EarlyRandom", &[][..]),
                (policed, "Policed", &[][..]),
                (guarded(None, ROOMY, ahead), "NoReservation", &WHEN[..]),
            ] {
                guards.rewrite(vec![guard]);
                for to in listeners {
                    let segment = syn(someone(to, 1), to);
                    for hook in HOOKS {
                        eventually(reason, || {
                            let before = guards.counts();
                            let (outcome, reply) = one(&guards, hook, &segment.bytes());
                            if outcome != Outcome::Answer {
                                return false;
                            }
                            let why = format!("{to}, {hook:?}");
                            let counted = guards.counts().since(&before);
                            assert_eq!(counted, [(0, reason, "reset", 1)], "{why}");
                            assert_eq!(reply, segment.reset_with(when, &WHY), "{why}: {reason}");
                            true
                        });
                    }
                }
            }
        },
    );
}

/// It speaks at once, so that its segment has room for both. Where nobody is shed in this form, nor held back for its
/// network's sake, it was auto that found no room for it, and says when, too.
#[test]
fn who_answers_a_hollow_syn_ack_that_may_be_of_its_connection_alone_is_told_why_alone() {
    const WHY: [u8; 8] = [0x33, 0xaa, 0, 10, 0, 0, 0, 0];
    const WHEN: [u8; 8] = [253, 6, 0x54, 0x42, 0, 250, 1, 1];
    in_a_namespace(
        "who_answers_a_hollow_syn_ack_that_may_be_of_its_connection_alone_is_told_why_alone",
        |_| {
            let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
            let _servers = listeners.map(|to| Server::bound(to, 128, false));
            let shed = |refusal| tg_shed_rules { refusal, ..rules(TG_SLPD, 1.0) };
            let auto = tg_rules { is_auto: 1, ..refusing(TG_SYN_RESET) };
            let says = tg_rules { notice: 1, come_back_ticks: 250, ..auto };
            let shedding_by = |refusal| Guarded { rules: says, ..shedding(ROOMY, shed(refusal)) };
            let limit = tg_limit { cost_ns: 1, ..Default::default() };
            let limits = [("192.0.2.0/24".parse().unwrap(), limit)];
            let guards = guards_at(CALM, vec![shedding_by(TG_REFUSE_COOKIE)]);
            for (number, to) in (0..).zip(listeners) {
                for hook in HOOKS {
                    guards.rewrite(vec![shedding_by(TG_REFUSE_COOKIE)]);
                    let asks = syn(someone(to, number), to);
                    let (outcome, syn_ack) = one(&guards, hook, &asks.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                    let speaks = asks.acknowledging(&syn_ack).with(|s| s.payload = vec![b'a'; 16]);
                    let until_ns = clock::monotonic_ns() + 4 * SECOND;
                    write_one(&guards.programs, "hollow_until_ns", 0, &until_ns).unwrap();
                    let silently = shedding_by(TG_REFUSE_SILENTLY);
                    let limited = Guarded { limits: limits.to_vec(), ..silently.clone() };
                    let shares = tg_rules { share_ipv4_bits: 24, share_ipv6_bits: 64, ..says };
                    let sharing = Guarded { rules: shares, ..silently.clone() };
                    for (refusal, guard, when) in [
                        ("cookie", shedding_by(TG_REFUSE_COOKIE), &[][..]),
                        ("reset", shedding_by(TG_REFUSE_RESET), &WHEN[..]),
                        ("silence", silently, &WHEN[..]),
                        ("police", limited, &[][..]),
                        ("fair_share", sharing, &[][..]),
                    ] {
                        guards.rewrite(vec![guard]);
                        let expected = speaks.answer_with(&WHY, |tcp| {
                            tcp.set_options_raw(when).unwrap();
                            tcp.rst = true;
                            tcp.sequence_number = speaks.ack;
                        });
                        let (outcome, reset) = one(&guards, hook, &speaks.bytes());
                        assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}, {refusal}");
                        assert_eq!(reset, expected, "{to}, {hook:?}, {refusal}");
                    }
                }
            }
        },
    );
}

/// Whose SYN/ACK was lost sends its SYN again, and may be shed by then: its request stands, or with Fast Open
/// a connection that the application serves. Here it is a plain one.
#[test]
fn nobody_is_refused_of_whom_something_stands() {
    in_a_namespace("nobody_is_refused_of_whom_something_stands", |_| {
        let guards = guards_at(CALM, vec![shedding(ROOMY, rules(TG_SBPD, 1.0))]);
        for to in [at(V4, ROOMY), at(V6, ROOMY)] {
            let _server = Server::bound(to, 128, false);
            let stands = connect(to);
            let again = syn(stands.local_addr().unwrap(), to).bytes();
            let another = syn(someone(to, 1), to).bytes();
            for refusal in [TG_REFUSE_RESET, TG_REFUSE_COOKIE] {
                for policy in [TG_RBD, TG_SLPD, TG_SBPD] {
                    let refusing = tg_shed_rules { refusal, ..rules(policy, 1.0) };
                    guards.rewrite(vec![shedding(ROOMY, refusing)]);
                    for hook in HOOKS {
                        // Only once the listener is remembered is the request not found first.
                        for _ in 0..3 {
                            let (outcome, _) = one(&guards, hook, &another);
                            assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                            let (outcome, left) = one(&guards, hook, &again);
                            assert_eq!(outcome, Outcome::Pass, "{to}, {hook:?}");
                            assert_eq!(left, again, "{to}, {hook:?}");
                        }
                    }
                }
            }
        }
    });
}

/// TIME-WAIT would acknowledge what answers a hollow SYN/ACK, again and again, and no RST would come.
#[test]
fn who_stands_in_time_wait_is_refused_with_rst_in_either_form() {
    in_a_namespace("who_stands_in_time_wait_is_refused_with_rst_in_either_form", |_| {
        let guards = guards_at(CALM, vec![shedding(ROOMY, rules(TG_SLPD, 1.0))]);
        for to in [at(V4, ROOMY), at(V6, ROOMY)] {
            let server = Server::bound(to, 128, false);
            let asks = syn(in_time_wait(&server), to);
            for refusal in [TG_REFUSE_RESET, TG_REFUSE_COOKIE] {
                let refusing = tg_shed_rules { refusal, ..rules(TG_SLPD, 1.0) };
                guards.rewrite(vec![shedding(ROOMY, refusing)]);
                for hook in HOOKS {
                    // Until then the kernel has its answer.
                    eventually("TIME-WAIT", || {
                        one(&guards, hook, &asks.bytes()).0 == Outcome::Answer
                    });
                    let before = guards.counts();
                    let (outcome, reply) = one(&guards, hook, &asks.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                    assert_eq!(reply, asks.reset(), "{to}, {hook:?}");
                    let counted = guards.counts().since(&before);
                    assert_eq!(counted, [(0, "ShedStateless", "reset", 1)], "{to}, {hook:?}");
                }
            }
        }
    });
}

/// Refused by cookie: a SYN/ACK to nothing. The same SYN gets the same one, it is shorter than the
/// SYN, and neither we nor anyone who knows the cookie keys takes its ACK for a cookie.
#[test]
fn refused_by_cookie_is_answered_with_a_syn_ack_to_nothing() {
    in_a_namespace("refused_by_cookie_is_answered_with_a_syn_ack_to_nothing", |_| {
        let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = listeners.map(|to| Server::bound(to, 128, false));
        let cookies = tg_shed_rules { refusal: TG_REFUSE_COOKIE, ..rules(TG_SLPD, 1.0) };
        let guards = guards_at(
            CALM,
            vec![shedding(ROOMY, cookies), path(BEYOND, cookies), path(BEYOND_V6, cookies)],
        );
        for to in [listeners[0], listeners[1], at(BEYOND, FULL), at(BEYOND_V6, FULL)] {
            let mut given = Vec::new();
            for number in 0..50 {
                let segment = syn(someone(to, number), to);
                for hook in hooks_to(to) {
                    let before = guards.counts();
                    let (outcome, reply) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                    let ours = crate::common::strict::read(&reply).expect("a whole segment").seq;
                    let expected = segment.answer(|tcp| {
                        (tcp.syn, tcp.ack, tcp.window_size) = (true, true, 64240);
                        tcp.sequence_number = ours;
                        tcp.acknowledgment_number = segment.seq.wrapping_add(1);
                    });
                    assert_eq!(reply, expected, "{to}, {hook:?}");
                    given.push(ours);
                    let native = agree_shed(&tg_shed_case {
                        key: SHED_KEY,
                        tuple: tg_tuple::between(segment.from, to),
                        syn: tg_shed_syn { isn: segment.seq, ..Default::default() },
                        ..Default::default()
                    });
                    assert_eq!(ours, native.answer, "{to}, {hook:?}");
                    let counted = guards.counts().since(&before);
                    assert_eq!(counted.len(), 1, "{counted:?}");
                    let (_, reason, verdict, 1) = counted[0] else { panic!("{counted:?}") };
                    assert_eq!((reason, verdict), ("ShedStateless", "hollow"));
                    let opened =
                        agree(&crate::common::cookie::case(segment.from, to, segment.seq, ours));
                    assert_eq!(opened.opened_ok, 0, "no cookie of ours");
                }
                let same = &given[given.len() - hooks_to(to).count()..];
                assert!(same.iter().all(|isn| *isn == same[0]), "the same SYN, the same answer");
            }
            given.sort_unstable();
            given.dedup();
            assert_eq!(given.len(), 50, "another client, another number");
        }
    });
}

/// Where p* is controlled, whoever meets an empty queue is let through, and of those who meet one
/// that nobody takes from hardly anyone.
#[test]
fn p_follows_the_listen_queue() {
    in_a_namespace("p_follows_the_listen_queue", |_| {
        let auto = |policy| tg_shed_rules {
            blocks: blocks(1000, 1.2),
            ..tg_shed_rules::automatic(policy, TG_KEY_CONNECTION, 0, 5)
        };
        let _stalled = [V4, V6].map(|address| Server::new(at(address, FULL), 4, 5));
        let _roomy = [V4, V6].map(|address| Server::bound(at(address, ROOMY), 128, false));
        for (hook, address) in [(DRIVER, V4), (IP, V4), (IP, V6)] {
            let guards = guards_at(
                CALM,
                vec![shedding(FULL, auto(TG_SLPD)), shedding(ROOMY, auto(TG_SLPD))],
            );
            let mut number = 0;
            let mut crowd = |port: u16| {
                let to = at(address, port);
                let mut shed = 0;
                for _ in 0..20 {
                    number += 1;
                    let (outcome, _) = one(&guards, hook, &syn(someone(to, number), to).bytes());
                    shed += u32::from(outcome == Outcome::Drop);
                }
                shed
            };
            let (mut roomy, mut last) = (0, 0);
            for _ in 0..30 {
                last = crowd(FULL);
                roomy += crowd(ROOMY);
                sleep(Duration::from_millis(50));
            }
            assert_eq!(roomy, 0, "nobody is shed where there is room");
            assert!(last >= 18, "{last} of 20 are shed where there is none, {hook:?} {address}");
            let control = condition(&guards, 0).state.control;
            assert!(control.p() > 0.9, "{control:?}");
            assert_eq!(condition(&guards, 1).state.control.p(), 0.0);
        }
    });
}

/// On a path p* keeps to the rate that is set by hand.
#[test]
fn on_a_path_p_follows_a_rate() {
    in_a_namespace("on_a_path_p_follows_a_rate", |_| {
        let to = at(BEYOND, FULL);
        for (rate_per_s, sheds) in [(1, true), (1_000_000, false)] {
            let auto = tg_shed_rules::automatic(TG_SLPD, TG_KEY_CONNECTION, rate_per_s, 5);
            let guards = guards_at(CALM, vec![path(BEYOND, auto)]);
            for number in 0..600 {
                one(&guards, IP, &syn(someone(to, number), to).bytes());
                if number % 20 == 0 {
                    sleep(Duration::from_millis(50));
                }
            }
            let control = condition(&guards, 0).state.control;
            assert_eq!(control.p() > 0.0, sheds, "{rate_per_s}/s: {control:?}");
        }
    });
}

/// Two hosts that share a key and a clock: a retransmission that takes the other path meets the
/// same answer. With another key it does not.
#[test]
fn two_hosts_that_share_a_key_decide_alike() {
    in_a_namespace("two_hosts_that_share_a_key_decide_alike", |_| {
        let to = at(BEYOND, FULL);
        for policy in [TG_SLPD, TG_SBPD] {
            let host = || guards_at(CALM, vec![path(BEYOND, rules(policy, 0.3))]);
            let (one_host, other) = (host(), host());
            let stranger = host();
            let with_another_key = Configuration {
                guards: vec![path(BEYOND, rules(policy, 0.3))],
                shed_key: tg_key { k0: 7, k1: 8 },
                ..Default::default()
            };
            configuration::write(&stranger.programs, &with_another_key).unwrap();
            let mut differ = 0;
            for number in 0..2000 {
                let frame = syn(someone(to, number), to).bytes();
                let first = one(&one_host, DRIVER, &frame).0;
                assert_eq!(one(&other, IP, &frame).0, first, "policy {policy}, client {number}");
                differ += u32::from(one(&stranger, DRIVER, &frame).0 != first);
            }
            assert!((700..1000).contains(&differ), "another key, {differ} others of 2000");
        }
    });
}

#[test]
fn sbpd_draws_once_for_each_connection_and_remembers() {
    in_a_namespace("sbpd_draws_once_for_each_connection_and_remembers", |_| {
        let to = at(BEYOND, FULL);
        for hook in PATH_HOOKS {
            let sbpd = tg_shed_rules { blocks: blocks(100_000, 1.2), ..rules(TG_SBPD, 0.3) };
            let guards = guards_at(CALM, vec![path(BEYOND, sbpd)]);
            let mut dropped = 0;
            for number in 0..500 {
                let segment = syn(someone(to, number), to);
                let drawn =
                    below(&tg_tuple::between(segment.from, to), TG_ASK_DRAW, segment.seq, 0.3);
                for attempt in 0..3 {
                    let before = guards.counts();
                    let outcome = one(&guards, hook, &segment.bytes()).0;
                    assert_eq!(outcome == Outcome::Drop, drawn, "client {number}, {hook:?}");
                    let (reason, verdict) = match (drawn, attempt) {
                        (true, 0) => ("ShedNew", "drop"),
                        (true, _) => ("ShedAgain", "drop"),
                        (false, _) => ("Forwarded", "pass"),
                    };
                    let counted = guards.counts().since(&before);
                    assert_eq!(counted, [(0, reason, verdict, 1)], "attempt {attempt}");
                }
                // The next from there is another connection, whoever sent the first.
                let anew = segment.clone().with(|s| s.seq ^= 0x5555_5555);
                let tuple = tg_tuple::between(segment.from, to);
                let next_drawn = below(&tuple, TG_ASK_DRAW, anew.seq, 0.3);
                let next = one(&guards, hook, &anew.bytes()).0;
                assert_eq!(next == Outcome::Drop, next_drawn, "client {number}, {hook:?}");
                dropped += u64::from(drawn) + u64::from(next_drawn);
            }
            assert_eq!(condition(&guards, 0).standing, dropped, "a stamp for each, {hook:?}");
        }
    });
}

/// K(t) changes: what was being dropped goes on being dropped, others are chosen among the new.
#[test]
fn a_turn_lets_nothing_through_that_was_being_dropped() {
    in_a_namespace("a_turn_lets_nothing_through_that_was_being_dropped", |_| {
        let to = at(BEYOND, FULL);
        let (turn, p) = (CALM >> TG_SHED_TURN_SHIFT << TG_SHED_TURN_SHIFT, 0.3);
        for hook in PATH_HOOKS {
            let slpd = tg_shed_rules { blocks: blocks(100_000, 1.2), ..rules(TG_SLPD, p) };
            let guards = guards_at(turn - 10 * SECOND, vec![path(BEYOND, slpd)]);
            let all: Vec<Segment> = (0..1000).map(|n| syn(someone(to, n), to)).collect();
            let (being_dropped, others): (Vec<&Segment>, Vec<&Segment>) =
                all.iter().partition(|s| one(&guards, hook, &s.bytes()).0 == Outcome::Drop);
            set_clock(&guards, turn + 10 * SECOND);
            let before = guards.counts();
            for segment in &being_dropped {
                let outcome = one(&guards, hook, &segment.bytes()).0;
                assert_eq!(outcome, Outcome::Drop, "{}, {hook:?}", segment.from);
            }
            let counted = guards.counts().since(&before);
            let again = counted.iter().find(|c| c.1 == "ShedAgain").expect("by their stamps").3;
            assert!(again * 2 > being_dropped.len() as u64, "most by their stamps: {counted:?}");
            // And who comes now is chosen by the new turn alone.
            for segment in &others {
                let drops = one(&guards, hook, &segment.bytes()).0 == Outcome::Drop;
                let expected = chosen(segment.from, to, turn + 10 * SECOND, p);
                assert_eq!(drops, expected, "{}, {hook:?}", segment.from);
            }
            // Long after the turn nothing of the one before is left.
            set_clock(&guards, CALM);
            for segment in &being_dropped {
                let drops = one(&guards, hook, &segment.bytes()).0 == Outcome::Drop;
                assert_eq!(drops, chosen(segment.from, to, CALM, p), "{}", segment.from);
            }
        }
    });
}

/// A flood from random sources on a small table: it falls back to the hash alone and says so. The
/// other port's part of the table, and its measurement, are its own.
#[test]
fn a_flooded_table_falls_back_and_other_ports_are_untouched() {
    in_a_namespace("a_flooded_table_falls_back_and_other_ports_are_untouched", |_| {
        let (p, to) = (0.2, at(BEYOND, FULL));
        let sbpd = tg_shed_rules { blocks: blocks(20, 1.2), ..rules(TG_SBPD, p) };
        let other = tg_shed_rules { blocks: blocks(1000, 1.2), ..rules(TG_SBPD, p) };
        let other_port = Guarded { port: FULL + 1, ..path(BEYOND, other) };
        let guards = guards_at(CALM, vec![path(BEYOND, sbpd), other_port]);
        let mut rng = Rng::with_seed(4);
        let mut runner = Runner::new();
        let program = guards.program(DRIVER.program);
        let mut syns = 0;
        while condition(&guards, 0).state.fallback == TG_FALLBACK_NONE {
            for _ in 0..5000 {
                let from = SocketAddr::new(
                    IpAddr::from(rng.u32(0x0b00_0000..0x7e00_0000).to_be_bytes()),
                    rng.u16(1024..),
                );
                let frame = Segment::syn(from, to).with(|s| s.seq = rng.u32(..)).bytes();
                runner.run(program, &frame, &[]).unwrap();
                syns += 1;
            }
            assert!(syns < 2_000_000, "it falls back");
        }
        let flooded = condition(&guards, 0);
        assert_eq!(flooded.state.fallback, TG_FALLBACK_STATELESS);
        assert_eq!(flooded.state.changes, 1);
        assert!(flooded.standing * 10 > flooded.cells, "{flooded:?}");
        println!("fell back after {syns} SYNs at most: {flooded:?}");
        // The hash alone decides now.
        let mut drops = 0;
        for number in 0..1000 {
            let segment = syn(someone(to, number), to);
            let dropped = one(&guards, DRIVER, &segment.bytes()).0 == Outcome::Drop;
            assert_eq!(dropped, chosen(segment.from, to, CALM, p), "{}", segment.from);
            drops += u32::from(dropped);
        }
        assert!((140..260).contains(&drops), "{drops} of 1000");
        // On the other port each draws for itself, and finds an empty table.
        let beside = at(BEYOND, FULL + 1);
        for number in 0..300 {
            let segment = syn(someone(beside, number), beside);
            let drawn =
                below(&tg_tuple::between(segment.from, beside), TG_ASK_DRAW, segment.seq, p);
            let dropped = one(&guards, DRIVER, &segment.bytes()).0 == Outcome::Drop;
            assert_eq!(dropped, drawn, "{}", segment.from);
        }
        let untouched = condition(&guards, 1);
        assert_eq!((untouched.state.fallback, untouched.state.changes), (TG_FALLBACK_NONE, 0));
        assert!(untouched.standing < 100, "{untouched:?}");
    });
}

#[test]
fn preferred_proxies_are_let_through() {
    in_a_namespace("preferred_proxies_are_let_through", |_| {
        let listeners = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = listeners.map(|to| Server::bound(to, 128, false));
        let networks = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect();
        let guards = guards_at(
            CALM,
            vec![
                Guarded {
                    preferred: networks(&["10.9.0.64/26", "fd09::/64", "0.0.0.0/32"]),
                    ..shedding(ROOMY, rules(TG_SLPD, 1.0))
                },
                Guarded {
                    preferred: networks(&["192.0.2.0/24"]),
                    ..path(BEYOND, rules(TG_SLPD, 1.0))
                },
            ],
        );
        let go = |from: &str, to: SocketAddr| {
            let frame = syn(at(from, 999), to).bytes();
            let mut met: Vec<_> = hooks_to(to).map(|hook| one(&guards, hook, &frame).0).collect();
            met.dedup();
            met
        };
        for _ in 0..2 {
            assert_eq!(go("10.9.0.77", listeners[0]), [Outcome::Pass]);
            assert_eq!(go("10.9.0.128", listeners[0]), [Outcome::Drop]);
            assert_eq!(go("fd09::abcd", listeners[1]), [Outcome::Pass]);
            assert_eq!(go("fd09:0:0:1::abcd", listeners[1]), [Outcome::Drop]);
            assert_eq!(go("192.0.2.1", listeners[0]), [Outcome::Drop], "another guard's");
            assert_eq!(go("192.0.2.1", at(BEYOND, FULL)), [Outcome::Pass]);
            assert_eq!(go("10.9.0.77", at(BEYOND, FULL)), [Outcome::Drop]);
            // New cookie keys are another configuration, with the same listeners.
            configuration::write_keys(&guards.programs, KEYS).unwrap();
        }
        assert_eq!((condition(&guards, 0).spared, condition(&guards, 1).spared), (12, 10));
        let counted = guards.counts().since(&Counts::default());
        for expected in [(0, "Room", "pass", 12), (1, "Spared", "pass", 10)] {
            assert!(counted.contains(&expected), "{counted:?}");
        }
    });
}

/// A swap keeps what is known where nothing has changed, and forgets it where something has.
#[test]
fn a_swap_forgets_only_what_it_changes() {
    in_a_namespace("a_swap_forgets_only_what_it_changes", |_| {
        let sbpd = rules(TG_SBPD, 1.0);
        let guards = guards_at(CALM, vec![path(BEYOND, sbpd)]);
        let standing = || condition(&guards, 0).standing;
        let swap = |shed: tg_shed_rules| {
            let guards_now = vec![path(BEYOND, shed)];
            let swapped =
                Configuration { guards: guards_now, shed_key: SHED_KEY, ..Default::default() };
            configuration::write(&guards.programs, &swapped)
        };
        let to = at(BEYOND, FULL);
        for number in 0..50 {
            one(&guards, DRIVER, &syn(someone(to, number), to).bytes());
        }
        let before = standing();
        assert!(before > 45, "{before}");
        swap(sbpd).unwrap();
        assert_eq!(standing(), before, "the same again");
        swap(tg_shed_rules { p_x32: parts_x32(0.5), ..sbpd }).unwrap();
        assert_eq!(standing(), before, "another p, the same table");
        swap(tg_shed_rules { blocks: sbpd.blocks - 1, ..sbpd }).unwrap();
        assert_eq!(standing(), 0, "another table");
        let error = swap(tg_shed_rules { blocks: sbpd.blocks + 1, ..sbpd }).unwrap_err();
        assert!(error.to_string().contains("stop tidegate and start it again"), "{error}");
    });
}

/// Counts are a listener's, whatever is shed there: they go on, and only another listener's begin anew.
#[test]
fn a_swap_of_what_is_shed_costs_no_counts() {
    in_a_namespace("a_swap_of_what_is_shed_costs_no_counts", |_| {
        let to = at(BEYOND, FULL);
        let sparing = |port: u16, policy: u32, p: f64| Guarded {
            port,
            preferred: vec!["10.9.0.0/16".parse().unwrap()],
            ..path(BEYOND, rules(policy, p))
        };
        let guards = guards_at(CALM, vec![sparing(FULL, TG_SLPD, 1.0)]);
        for number in 0..5 {
            one(&guards, DRIVER, &syn(someone(to, number), to).bytes());
        }
        let fallen =
            tg_shed_state { fallback: TG_FALLBACK_UNIFORM, changes: 3, ..Default::default() };
        write_one(&guards.programs, "shed_state", 0, &fallen).unwrap();
        let after = |guarded: Guarded| {
            guards.rewrite(vec![guarded]);
            let now = condition(&guards, 0);
            (now.spared, now.state.changes, now.state.fallback)
        };
        for (guarded, counted, why) in [
            (sparing(FULL, TG_SLPD, 1.0), (5, 3, TG_FALLBACK_UNIFORM), "the same again"),
            (sparing(FULL, TG_SLPD, 0.5), (5, 3, TG_FALLBACK_NONE), "another p"),
            (sparing(FULL, TG_SBPD, 0.5), (5, 3, TG_FALLBACK_NONE), "another policy"),
            (path(BEYOND, tg_shed_rules::default()), (5, 3, TG_FALLBACK_NONE), "none"),
            (sparing(FULL, TG_SLPD, 0.5), (5, 3, TG_FALLBACK_NONE), "one again"),
            (sparing(FULL + 1, TG_SLPD, 0.5), (0, 0, TG_FALLBACK_NONE), "another listener"),
        ] {
            assert_eq!(after(guarded), counted, "{why}");
        }
    });
}

/// Every section has its own part of the table: what is known in it is forgotten where it would be taken for
/// what it is not, and there alone.
#[test]
fn a_swap_forgets_the_stamps_of_the_guard_that_it_changes() {
    in_a_namespace("a_swap_forgets_the_stamps_of_the_guard_that_it_changes", |_| {
        let (sbpd, slpd) = (rules(TG_SBPD, 1.0), rules(TG_SLPD, 1.0));
        let by_client = tg_shed_rules { key: TG_KEY_CLIENT, ..slpd };
        // Late in a turn, when slpd stamps, too.
        let late = CALM + TURN / 2 - 10 * SECOND;
        let guards = guards_at(late, vec![path(BEYOND, sbpd), path(BEYOND_V6, sbpd)]);
        let swap = |first: tg_shed_rules, second: tg_shed_rules, shed_key: tg_key| {
            let guards_now = vec![path(BEYOND, first), path(BEYOND_V6, second)];
            let swapped = Configuration { guards: guards_now, shed_key, ..Default::default() };
            configuration::write(&guards.programs, &swapped).unwrap();
        };
        let standing = || [0, 1].map(|guard| condition(&guards, guard).standing);
        let stamp = || {
            for to in [at(BEYOND, FULL), at(BEYOND_V6, FULL)] {
                for number in 0..50 {
                    one(&guards, DRIVER, &syn(someone(to, number), to).bytes());
                }
            }
            let stamped = standing();
            assert!(stamped.iter().all(|stamps| *stamps > 45), "{stamped:?}");
            stamped
        };
        let [_, second] = stamp();
        swap(slpd, sbpd, SHED_KEY);
        assert_eq!(standing(), [0, second], "slpd in place of sbpd");
        assert_eq!(stamp()[1], second);
        swap(by_client, sbpd, SHED_KEY);
        assert_eq!(standing(), [0, second], "clients in place of connections");
        swap(sbpd, sbpd, SHED_KEY);
        let [first, _] = stamp();
        swap(sbpd, tg_shed_rules { blocks: sbpd.blocks - 1, ..sbpd }, SHED_KEY);
        assert_eq!(standing(), [first, 0], "a smaller table of the second's");
        stamp();
        swap(sbpd, tg_shed_rules { blocks: sbpd.blocks - 1, ..sbpd }, tg_key { k0: 7, k1: 8 });
        assert_eq!(standing(), [0, 0], "another key");
    });
}

/// Where its part of the table begins is nobody's rule: what comes and goes before it costs a section nothing.
#[test]
fn a_swap_forgets_nothing_of_the_guards_behind_one_that_goes() {
    in_a_namespace("a_swap_forgets_nothing_of_the_guards_behind_one_that_goes", |_| {
        let stamped = rules(TG_SBPD, 1.0);
        let controlled = tg_shed_rules { is_auto: 1, blocks: 0, ..rules(TG_SLPD, 0.5) };
        let first = path(BEYOND, tg_shed_rules { blocks: 40, ..stamped });
        let second = path(BEYOND_V6, stamped);
        let third = Guarded { port: FULL + 1, ..path(BEYOND, controlled) };
        let all = vec![first.clone(), second.clone(), third.clone()];
        let guards = guards_at(CALM, all.clone());
        for to in [at(BEYOND, FULL), at(BEYOND_V6, FULL)] {
            for number in 0..50 {
                one(&guards, DRIVER, &syn(someone(to, number), to).bytes());
            }
        }
        let mut learnt = tg_shed_state { changes: 3, ..Default::default() };
        learnt.control.p_x32 = parts_x32(0.25);
        for guard in 1..=2 {
            write_one(&guards.programs, "shed_state", guard, &learnt).unwrap();
        }
        let stood = condition(&guards, 1).standing;
        assert!(stood > 45, "{stood}");
        let smaller = path(BEYOND, tg_shed_rules { blocks: 39, ..stamped });
        for (now, why) in [
            (vec![second.clone(), third.clone()], "the first goes"),
            (vec![third.clone(), second.clone(), first], "it comes back, behind the others"),
            (vec![smaller, second, third], "it is smaller"),
            (all, "and larger again"),
        ] {
            guards.rewrite(now);
            assert_eq!(condition(&guards, 1).standing, stood, "{why}");
            for guard in 1..=2 {
                assert_eq!(condition(&guards, guard).state, learnt, "{why}, guard {guard}");
            }
        }
    });
}
