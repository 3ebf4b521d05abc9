// SPDX-License-Identifier: Apache-2.0 OR MIT
//! reserv's claims: a SYN that was let through holds its place until TCP has seen it, or is lost. A
//! program that is run here hands nothing on, so its SYN is lost unless the TCP entry is run as well.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Runner;
use crate::common::scene::*;
use crate::common::segment::*;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::link::{self, Place};
use tidegate_datapath::raw::TG_HOOK_TCP;
use tidegate_lab::{pin_thread, say_skipped};
use tidegate_policy::raw::*;

const TCP: &str = "tidegate_tcp";
const PLACES: usize = 9;
/// `TG_CLAIM_LIFE_NS` in claims.h.
const LIFE: Duration = Duration::from_millis(20);
/// `TG_CLAIM_SEEN_NS`, and what the coarse clock may be late by: a tick, and where all processors were idle
/// nearly another, until the first that wakes has set it (seen: 4.7 ms).
const SEEN: Duration = Duration::from_millis(13);

fn reserving() -> Guards {
    let rules = tg_rules { room: TG_ROOM_RESERVE, ..Default::default() };
    let guards = Guards::new(vec![guarded(None, ROOMY, rules)]);
    guards.ready(&HOOKS.map(|hook| hook.program)).ready(&[TCP])
}

fn both_families() -> [SocketAddr; 2] {
    [at(V4, ROOMY), at(V6, ROOMY)]
}

fn server(to: SocketAddr) -> Server {
    Server::bound(to, PLACES as i32 - 1, false)
}

fn plain(to: SocketAddr) -> Segment {
    Segment::syn(client(to), to)
}

fn is_let_through(guards: &Guards, hook: Hook, frame: &[u8]) -> bool {
    let mut runner = Runner::new();
    let ran = runner.run(guards.program(hook.program), frame, &[]).unwrap();
    hook.outcome(ran.returned) == Outcome::Pass
}

/// `NF_DROP` and `NF_ACCEPT`.
const DROPS: u32 = 0;
const ACCEPTS: u32 = 1;

/// What netfilter's local-in says, one step before TCP: linux/netfilter.h, struct nf_hook_state.
fn said_before_tcp(guards: &Guards, segment: &Segment) -> u32 {
    const LOCAL_IN: u8 = 1;
    let family = if segment.to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let mut state = [0; 48];
    (state[0], state[1]) = (LOCAL_IN, family as u8);
    let mut runner = Runner::new();
    runner.run(guards.program(TCP), &segment.bytes(), &state).unwrap().returned
}

fn comes_to_tcp(guards: &Guards, segment: &Segment) {
    assert_eq!(said_before_tcp(guards, segment), ACCEPTS);
}

/// Until all claims are.
fn forgotten() {
    sleep(3 * LIFE);
}

/// As many as there are places, and not one more: none is counted twice, none is forgotten while it
/// may still be on its way.
fn assert_as_many_as_places(guards: &Guards, hook: Hook, frame: &[u8], why: &str) {
    assert_claims(guards, hook, &[frame], PLACES, why);
}

/// Of these frames in turn.
fn assert_claims(guards: &Guards, hook: Hook, frames: &[&[u8]], most: usize, why: &str) {
    eventually("a burst within the life of a claim", || {
        forgotten();
        let begun = Instant::now();
        let in_turn = frames.iter().cycle().take(3 * most);
        let let_through = in_turn.filter(|frame| is_let_through(guards, hook, frame)).count();
        if begun.elapsed() > LIFE / 2 {
            return false;
        }
        assert_eq!(let_through, most, "{why}, {hook:?}");
        true
    });
}

#[test]
fn a_batch_claims_as_many_places_as_there_are() {
    in_a_namespace("a_batch_claims_as_many_places_as_there_are", |_| {
        let _servers = both_families().map(server);
        let guards = reserving();
        pin_thread(processors().0).unwrap();
        for to in both_families() {
            for hook in HOOKS {
                assert_as_many_as_places(&guards, hook, &plain(to).bytes(), "a batch");
            }
        }
    });
}

/// Workers with sockets of their own, who serve one connection at a time: what a driver hands up at once
/// is for all of them, and a claim does not say for whom it is.
#[test]
fn a_batch_claims_as_many_places_as_lazy_has_ahead_for_all_workers() {
    const WORKERS: usize = 4;
    in_a_namespace("a_batch_claims_as_many_places_as_lazy_has_ahead", |_| {
        let workers =
            both_families().map(|to| [(); WORKERS].map(|()| Server::bound(to, 511, true)));
        let rules = tg_rules { room: TG_ROOM_RESERVE, ahead: 3, ..Default::default() };
        let guards = Guards::new(vec![guarded(None, ROOMY, rules)]);
        pin_thread(processors().0).unwrap();
        for to in both_families() {
            for hook in HOOKS {
                assert_claims(&guards, hook, &[&plain(to).bytes()], 3 * WORKERS, "a batch");
            }
        }
        drop(workers);
    });
}

/// A guard of one address and one of all the others, before one socket of every address: what a driver
/// hands up at once may be for both, and either settles what TCP has seen of the other's.
#[test]
fn guards_of_several_addresses_before_one_socket_promise_no_place_twice() {
    in_a_namespace("guards_of_several_addresses_before_one_socket", |_| {
        let _server = server(at("::", ROOMY));
        let rules = tg_rules { room: TG_ROOM_RESERVE, ..Default::default() };
        let guards =
            Guards::new(vec![guarded(Some(V4), ROOMY, rules), guarded(None, ROOMY, rules)]);
        let guards = guards.ready(&HOOKS.map(|hook| hook.program)).ready(&[TCP]);
        pin_thread(processors().0).unwrap();
        let segments = both_families().map(plain);
        let frames = segments.each_ref().map(Segment::bytes);
        for hook in HOOKS {
            forgotten();
            for number in 0..50 * PLACES {
                let (segment, frame) = (&segments[number % 2], &frames[number % 2]);
                assert!(is_let_through(&guards, hook, frame), "{number}: {segment:?}, {hook:?}");
                comes_to_tcp(&guards, segment);
            }
            let frames = frames.each_ref().map(Vec::as_slice);
            assert_claims(&guards, hook, &frames, PLACES, "to both in turn");
        }
    });
}

/// Also one behind extension headers: it is settled as any other.
#[test]
fn a_syn_that_tcp_has_seen_holds_no_place_by_its_claim() {
    in_a_namespace("a_syn_that_tcp_has_seen_holds_no_place_by_its_claim", |_| {
        let _servers = both_families().map(server);
        let guards = reserving();
        pin_thread(processors().0).unwrap();
        let hop_by_hop = (0, vec![0, 1, 4, 0, 0, 0, 0]);
        let destination = (60, vec![1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let routing = (43, vec![0, 4, 0, 0, 0, 0, 0]);
        let [v4, v6] = both_families();
        let behind = |extensions: &[&(u8, Vec<u8>)]| {
            plain(v6).with(|s| s.extensions = extensions.iter().copied().cloned().collect())
        };
        for segment in [
            plain(v4),
            plain(v4).with(|s| s.ip_options = vec![1; 40]),
            plain(v6),
            behind(&[&hop_by_hop]),
            behind(&[&destination]),
            behind(&[&hop_by_hop, &destination, &routing, &destination]),
        ] {
            for hook in HOOKS {
                let frame = segment.bytes();
                forgotten();
                for number in 0..50 * PLACES {
                    assert!(is_let_through(&guards, hook, &frame), "{number}: {segment:?}");
                    comes_to_tcp(&guards, &segment);
                }
                assert_as_many_as_places(&guards, hook, &frame, "after others");
            }
        }
    });
}

/// A firewall behind us takes them, say: they come steadily, and each would hold a place.
#[test]
fn syns_that_never_come_to_tcp_do_not_close_the_guard() {
    in_a_namespace("syns_that_never_come_to_tcp_do_not_close_the_guard", |_| {
        let _servers = both_families().map(server);
        let guards = reserving();
        for to in both_families() {
            for hook in HOOKS {
                let lost = plain(to).bytes();
                for number in 0..8 * PLACES {
                    assert!(is_let_through(&guards, hook, &lost), "the SYN {number}, {hook:?}");
                    sleep(LIFE / 2);
                }
            }
        }
    });
}

/// A flood of them takes every place, and those that are refused go on coming: the places are free
/// again after two periods.
#[test]
fn a_flood_that_never_comes_to_tcp_is_forgotten_while_it_lasts() {
    in_a_namespace("a_flood_that_never_comes_to_tcp_is_forgotten_while_it_lasts", |_| {
        let _servers = both_families().map(server);
        let guards = reserving();
        for to in both_families() {
            for hook in HOOKS {
                let (frame, begun) = (plain(to).bytes(), Instant::now());
                let (mut let_through, mut refused) = (0, 0);
                while begun.elapsed() < 30 * LIFE {
                    if is_let_through(&guards, hook, &frame) {
                        let_through += 1
                    } else {
                        refused += 1
                    }
                }
                assert!(refused > let_through, "{refused} refused: it is a flood");
                assert!(let_through >= 8 * PLACES, "{let_through} in 30 periods, {hook:?}");
                assert!(let_through <= 16 * PLACES, "{let_through} in 30 periods, {hook:?}");
            }
        }
    });
}

/// Where there are more processors than places each would else hold one, by the last SYN that it had. And
/// the next that it has finds nothing to settle.
#[test]
fn a_syn_that_tcp_has_seen_is_settled_once_from_whichever_processor() {
    let test = "a_syn_that_tcp_has_seen_is_settled_once";
    let (one, other) = processors();
    if one == other {
        return say_skipped(test, &"this process has one processor alone");
    }
    in_a_namespace(test, move |_| {
        let _servers = both_families().map(server);
        let guards = reserving();
        for to in both_families() {
            let segment = plain(to);
            let frame = segment.bytes();
            for hook in HOOKS {
                eventually("places that are taken within the life of a claim", || {
                    forgotten();
                    pin_thread(other).unwrap();
                    assert!(is_let_through(&guards, hook, &frame));
                    comes_to_tcp(&guards, &segment);
                    sleep(SEEN);
                    pin_thread(one).unwrap();
                    let begun = Instant::now();
                    let places = (0..3 * PLACES).filter(|_| is_let_through(&guards, hook, &frame));
                    let places = places.count();
                    pin_thread(other).unwrap();
                    let is_refused = !is_let_through(&guards, hook, &frame);
                    let is_in_time = begun.elapsed() < LIFE / 2;
                    let is_right = places == PLACES && is_refused;
                    assert!(is_right || !is_in_time, "{places} and {is_refused}, {hook:?}");
                    is_in_time
                });
            }
        }
    });
}

/// At the TCP entry as at the others.
#[test]
fn the_tcp_entry_judges_syns_behind_extension_headers() {
    in_a_namespace("the_tcp_entry_judges_syns_behind_extension_headers", |namespace| {
        let outside = Outside::of(namespace);
        let to = at(V6, FULL);
        let _full = Server::full(to);
        let guard = Guarded { hook: TG_HOOK_TCP, ..guarded(None, FULL, refusing(TG_SYN_DROP)) };
        let guards = Guards::new(vec![guard]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        let place = Place::LocalIn(libc::AF_INET6 as u8);
        let _local_in = link::create(guards.program(TCP), TCP, place).unwrap();
        let segment = Segment::syn(Outside::client(to, 700), to);
        let pad = (60, vec![0, 1, 4, 0, 0, 0, 0]);
        for extensions in [vec![], vec![pad.clone()], vec![pad; 4]] {
            let before = guards.counts();
            outside.sends(&segment.clone().with(|s| s.extensions = extensions));
            eventually("it is judged", || {
                guards.counts().since(&before) == [(0, "ListenQFullAtSyn", "drop", 1)]
            });
        }
    });
}

/// Which the IP entry has told it of, once: a SYN that is sent again may have its request by then, and
/// what comes by an interface that is not guarded is not told of.
#[test]
fn the_tcp_entry_judges_no_other_syns_than_it_was_told_of() {
    in_a_namespace("the_tcp_entry_judges_no_other_syns_than_it_was_told_of", |_| {
        for to in [at(V4, FULL), at(V6, FULL)] {
            let _full = Server::full(to);
            let guard = Guarded { hook: TG_HOOK_TCP, ..guarded(None, FULL, refusing(TG_SYN_DROP)) };
            let guards = Guards::new(vec![guard]).ready(&[TCP]);
            let [told, other] = [700, 701].map(|port| Segment::syn(Outside::client(to, port), to));
            assert!(is_let_through(&guards, IP, &told.bytes()));
            let before = guards.counts();
            let said = [&other, &told, &told].map(|syn| said_before_tcp(&guards, syn));
            assert_eq!(said, [ACCEPTS, DROPS, ACCEPTS], "{to}");
            assert_eq!(guards.counts().since(&before), [(0, "ListenQFullAtSyn", "drop", 1)]);
        }
    });
}
