// SPDX-License-Identifier: Apache-2.0 OR MIT
//! rst-fin by packet: FINs to real connections of a real kernel, at the IP entry, where the only
//! thing that varies is the segment.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

use crate::common::Runner;
use crate::common::pair::{Pair, from_here};
use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::Tap;
use libbpf_rs::{MapCore, MapFlags};
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::raw::*;

fn rules(fin: u32) -> tg_rules {
    tg_rules { fin, ..Default::default() }
}

/// A guard over the port, with no ACK watched: FINs are judged at the FIN stage alone.
fn guards(fin: u32) -> Guards {
    let guards = Guards::new(vec![guarded(None, ROOMY, rules(fin))]).ready(&[IP.program]);
    let map = guards.programs.map("watch_until_ns");
    map.update(&0u32.to_ne_bytes(), &[0; 8], MapFlags::ANY).unwrap();
    guards
}

fn server(address: &str) -> Server {
    Server::bound(at(address, ROOMY), 128, false)
}

/// What was made of a frame: the frame that goes up, what left by loopback meanwhile from the
/// guarded port, and what was counted. It always passes.
struct Judged {
    up: Vec<u8>,
    left: Vec<Vec<u8>>,
    counted: Vec<Counted>,
}

fn judge(guards: &Guards, frame: &[u8]) -> Judged {
    let tap = Tap::open("lo");
    let before = guards.counts();
    let mut runner = Runner::new();
    let ran = runner.run(guards.program(IP.program), frame, &[]).unwrap();
    assert_eq!(IP.outcome(ran.returned), Outcome::Pass, "every FIN goes up, as it is or changed");
    let up = ran.packet.to_vec();
    // What is sent is sent before the run is over. The client of a connection that was judged
    // before may be late with its own RST, to this port.
    let left = std::iter::from_fn(|| tap.next(Duration::ZERO));
    let left = left.filter(|frame| resets_from_here(frame)).collect();
    Judged { up, left, counted: guards.counts().since(&before) }
}

fn resets_from_here(frame: &[u8]) -> bool {
    crate::common::strict::read(frame)
        .is_some_and(|segment| segment.flags & RST != 0 && segment.from.port() == ROOMY)
}

/// It goes up as it came, nobody is answered, and it was counted so.
#[track_caller]
fn assert_left_alone(guards: &Guards, segment: &Segment, reason: &'static str) {
    let frame = segment.bytes();
    let judged = judge(guards, &frame);
    assert_eq!(judged.counted, [(0, reason, "pass", 1)]);
    assert_eq!(judged.up, frame, "{reason}");
    assert_eq!(judged.left, Vec::<Vec<u8>>::new(), "{reason}");
}

#[track_caller]
fn assert_not_judged(guards: &Guards, segment: &Segment) {
    let frame = segment.bytes();
    let judged = judge(guards, &frame);
    assert_eq!((judged.up, judged.left, judged.counted), (frame, vec![], vec![]));
}

#[track_caller]
fn assert_ends(guards: &Guards, pair: &Pair, segment: &Segment, why: &str) {
    let judged = judge(guards, &segment.bytes());
    assert_eq!(judged.counted, [(0, "FinEnds", "reset", 1)], "{why}");
    let reset = segment.clone().with(|s| s.flags = RST | ACK);
    assert_eq!(judged.up, reset.bytes(), "{why}: what the kernel gets");
    assert_eq!(judged.left, [pair.answer(segment)], "{why}: what the client gets");
}

/// Everything that may stand around a FIN and leaves it a bare one.
fn dressed(fin: &Segment) -> Vec<(&'static str, Segment)> {
    let with = |change: &dyn Fn(&mut Segment)| fin.clone().with(|s| change(s));
    let stamps = options(&[Offer::Nop, Offer::Nop, Offer::Stamps(7)]);
    // What the client has of what came out of order: three blocks (RFC 2018).
    let sack = [[1, 1, 5, 26].as_slice(), &[7; 24]].concat();
    let mut all = vec![
        ("bare", fin.clone()),
        ("timestamps", with(&|s| s.options = stamps.clone())),
        ("forty bytes of options", with(&|s| s.options = [&stamps[..], &sack].concat())),
        ("PSH, URG, ECE and CWR", with(&|s| s.flags |= PSH | URG | ECE | CWR)),
        ("an ECN codepoint", with(&|s| s.traffic_class = 2)),
        ("a long way behind it", with(&|s| s.hops = 1)),
        ("the most hops", with(&|s| s.hops = 255)),
        ("one tag", with(&|s| s.vlans = vec![(0x8100, 0x2005)])),
        ("two tags", with(&|s| s.vlans = vec![(0x88a8, 7), (0x8100, 0x2005)])),
    ];
    if fin.to.is_ipv4() {
        all.push(("IP options", with(&|s| s.ip_options = vec![1; 8])));
    } else {
        let destination = (60, vec![0, 1, 4, 0, 0, 0, 0]);
        all.push((
            "extension headers, a tag and timestamps",
            with(&|s| {
                s.extensions = vec![destination.clone(), destination.clone()];
                s.vlans = vec![(0x8100, 5)];
                s.options = stamps.clone();
            }),
        ));
    }
    all
}

#[test]
fn a_bare_fin_in_its_place_becomes_a_reset_for_both_sides() {
    in_a_namespace("a_bare_fin_in_its_place_becomes_a_reset_for_both_sides", |_| {
        for rule in [TG_RST_FIN, TG_RST_FIN_STRICT] {
            let guards = guards(rule);
            for address in [V4, V6] {
                let server = server(address);
                let pair = Pair::at(&server.listener);
                for (dress, fin) in dressed(&pair.fin()) {
                    assert_ends(&guards, &pair, &fin, &format!("{dress}, {address}"));
                }
            }
        }
    });
}

/// The client's own kernel believes the RST, whatever the server has on its way.
#[test]
fn the_client_is_told() {
    in_a_namespace("the_client_is_told", |namespace| {
        // A frame that no socket of this host sent comes in with an address of this host.
        namespace.sysctl("net.ipv4.conf.lo.accept_local", 1).unwrap();
        let guards = guards(TG_RST_FIN);
        for address in [V4, V6] {
            let server = server(address);
            for said in [&b""[..], b"reply"] {
                let mut pair = Pair::at(&server.listener);
                pair.server.write_all(said).unwrap();
                pair.look();
                // The client has taken everything in, as its FIN says.
                pair.client.read_exact(&mut vec![0; said.len()]).unwrap();
                let answer = to_here(pair.answer(&pair.fin()));
                let judged = judge(&guards, &from_here(pair.fin().bytes()));
                assert_eq!(judged.counted, [(0, "FinEnds", "reset", 1)]);
                assert_eq!(judged.left, [answer]);
                pair.client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let error = pair.client.read(&mut [0]).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{address}");
            }
        }
    });
}

fn to_here(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&HERE);
    frame
}

#[test]
fn a_fin_that_is_not_in_its_place_ends_nothing() {
    in_a_namespace("a_fin_that_is_not_in_its_place_ends_nothing", |_| {
        for rule in [TG_RST_FIN, TG_RST_FIN_STRICT] {
            let guards = guards(rule);
            for address in [V4, V6] {
                let server = server(address);
                let pair = Pair::at(&server.listener);
                let with = |change: &dyn Fn(&mut Segment)| pair.fin().with(|s| change(s));
                let seq = |by: u32| with(&|s| s.seq = s.seq.wrapping_add(by));
                let ack = |by: u32| with(&|s| s.ack = s.ack.wrapping_add(by));
                let signed = [[19, 18].as_slice(), &[7; 16], &[1, 1]].concat();
                for (segment, reason) in [
                    (with(&|s| s.payload = b"x".to_vec()), "FinWithData"),
                    (with(&|s| s.payload = vec![7; 1000]), "FinWithData"),
                    // One byte is missing, or a thousand; or it is there twice, or forged.
                    (seq(1), "FinOutOfOrder"),
                    (seq(1000), "FinOutOfOrder"),
                    (seq(u32::MAX), "FinOutsideWindow"),
                    (seq(1 << 30), "FinOutsideWindow"),
                    (seq(1 << 31), "FinOutsideWindow"),
                    (ack(1), "FinBadAck"),
                    (ack(u32::MAX), "FinBadAck"),
                    (ack(1 << 31), "FinBadAck"),
                    (with(&|s| s.options = signed.clone()), "FinSigned"),
                    // An option that runs out of the header.
                    (with(&|s| s.options = vec![8, 10, 0, 0]), "FinSigned"),
                    (with(&|s| s.from.set_port(9)), "FinNoConnection"),
                ] {
                    assert_left_alone(&guards, &segment, reason);
                }
                // It was none of them that made the connection immune.
                assert_ends(&guards, &pair, &pair.fin(), "in its place");
            }
        }
    });
}

/// Forged segments that know the connection's ports, and guess its numbers.
#[test]
fn a_forged_fin_must_guess_both_numbers() {
    in_a_namespace("a_forged_fin_must_guess_both_numbers", |_| {
        let guards = guards(TG_RST_FIN);
        let server = server(V4);
        let pair = Pair::at(&server.listener);
        let mut rng = fastrand::Rng::with_seed(0x666f_7267_6564);
        let before = guards.counts();
        let mut runner = Runner::new();
        let forged = 20_000;
        for i in 0..forged {
            let segment = pair.fin().with(|s| match i % 3 {
                0 => (s.seq, s.ack) = (rng.u32(..), rng.u32(..)),
                1 => s.ack = s.ack.wrapping_add(1 + rng.u32(..u32::MAX)),
                _ => s.seq = s.seq.wrapping_add(1 + rng.u32(..u32::MAX)),
            });
            let frame = segment.bytes();
            let ran = runner.run(guards.program(IP.program), &frame, &[]).unwrap();
            assert_eq!(ran.packet, frame, "{segment:?}");
        }
        let counted = guards.counts().since(&before);
        assert!(counted.iter().all(|(_, _, verdict, _)| *verdict == "pass"), "{counted:?}");
        assert_eq!(counted.iter().map(|(.., packets)| packets).sum::<u64>(), forged);
    });
}

/// What is no FIN of an established connection is not looked at.
#[test]
fn other_flags_are_none_of_its_business() {
    in_a_namespace("other_flags_are_none_of_its_business", |_| {
        let guards = guards(TG_RST_FIN);
        let server = server(V4);
        let pair = Pair::at(&server.listener);
        for flags in 0..=u8::MAX {
            // A SYN alone is the SYN stage's.
            if [SYN, ACK | FIN].contains(&(flags & (SYN | ACK | RST | FIN))) {
                continue;
            }
            assert_not_judged(&guards, &pair.fin().with(|s| s.flags = flags));
        }
    });
}

/// "Never a RST to a connection that the application holds, except by a rst-fin that was asked for."
#[test]
fn without_rst_fin_nothing_is_touched_or_counted() {
    in_a_namespace("without_rst_fin_nothing_is_touched_or_counted", |_| {
        let server = server(V4);
        let pair = Pair::at(&server.listener);
        assert_not_judged(&guards(TG_HALF_CLOSE), &pair.fin());
        let elsewhere = Guards::new(vec![
            guarded(None, ROOMY + 1, rules(TG_RST_FIN)),
            guarded(Some("10.9.0.2"), ROOMY, rules(TG_RST_FIN)),
        ]);
        assert_not_judged(&elsewhere, &pair.fin());
        let path = Guarded { is_path: true, ..guarded(Some(V4), ROOMY, rules(TG_RST_FIN)) };
        assert_not_judged(&Guards::new(vec![path]), &pair.fin());
    });
}

/// Only who closes first is meant (Shukla 4.2.1: "from ESTABLISHED to CLOSED").
#[test]
fn a_connection_that_is_being_closed_is_left_alone() {
    in_a_namespace("a_connection_that_is_being_closed_is_left_alone", |_| {
        let guards = guards(TG_RST_FIN);
        let server = server(V4);
        let tap = Tap::open("lo");
        let closed = |by: SocketAddr| {
            eventually("a FIN on its way", || {
                std::iter::from_fn(|| tap.next(Duration::ZERO)).any(|frame| {
                    crate::common::strict::read(&frame)
                        .is_some_and(|s| s.from == by && s.flags & FIN != 0)
                })
            });
            // And taken in: loopback's queue is worked off at once.
            forget();
        };
        // The server closed first: FIN-WAIT-2, the client has acknowledged.
        let pair = Pair::at(&server.listener);
        pair.server.shutdown(Shutdown::Write).unwrap();
        closed(pair.client.peer_addr().unwrap());
        let answered = pair.fin().with(|s| s.ack = s.ack.wrapping_add(1));
        assert_left_alone(&guards, &answered, "FinClosing");
        // Then the client does: TIME-WAIT.
        let (from, fin) = (pair.client.local_addr().unwrap(), answered);
        drop(pair.server);
        drop(pair.client);
        closed(from);
        assert_left_alone(&guards, &fin, "FinNoConnection");

        // The client's FIN came before: CLOSE-WAIT. This one was duplicated, or sent again.
        let pair = Pair::at(&server.listener);
        pair.client.shutdown(Shutdown::Write).unwrap();
        closed(pair.client.local_addr().unwrap());
        assert_left_alone(&guards, &pair.fin(), "FinClosing");
    });
}

#[test]
fn strictly_everything_must_be_read() {
    in_a_namespace("strictly_everything_must_be_read", |_| {
        let (strict, plain) = (guards(TG_RST_FIN_STRICT), guards(TG_RST_FIN));
        for address in [V4, V6] {
            let server = server(address);
            let mut pair = Pair::at(&server.listener);
            pair.client.write_all(b"request").unwrap();
            pair.server.peek(&mut [0; 16]).unwrap();
            pair.look();
            assert_left_alone(&strict, &pair.fin(), "FinUnread");
            pair.server.read_exact(&mut [0; 6]).unwrap();
            assert_left_alone(&strict, &pair.fin(), "FinUnread");
            assert_ends(&plain, &pair, &pair.fin(), "what is unread is no matter");
            pair.server.read_exact(&mut [0; 1]).unwrap();
            assert_ends(&strict, &pair, &pair.fin(), "all is read");
        }
    });
}

#[test]
fn strictly_everything_that_was_written_must_be_acknowledged() {
    in_a_namespace("strictly_everything_that_was_written_must_be_acknowledged", |_| {
        let (strict, plain) = (guards(TG_RST_FIN_STRICT), guards(TG_RST_FIN));
        let server = server(V4);
        let mut pair = Pair::at(&server.listener);
        let fin = pair.fin();
        // Written and not sent: the client can have acknowledged none of it.
        let cork = |on: i32| {
            // SAFETY: an open socket, and an integer of the length that is told.
            let done = unsafe {
                let on = (&raw const on).cast();
                libc::setsockopt(pair.server.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_CORK, on, 4)
            };
            assert_eq!(done, 0);
        };
        cork(1);
        (&pair.server).write_all(b"reply").unwrap();
        assert_left_alone(&strict, &fin, "FinUnacked");
        assert_ends(&plain, &pair, &fin, "what is unsent is no matter");
        cork(0);
        pair.client.read_exact(&mut [0; 5]).unwrap();
        pair.look();
        assert_ends(&strict, &pair, &pair.fin(), "all is acknowledged");
    });
}

/// What a parser that forgives nothing does not take for this very FIN is not changed by a bit.
#[test]
fn a_mangled_fin_ends_nothing() {
    in_a_namespace("a_mangled_fin_ends_nothing", |_| {
        const FRAMES: u32 = 100_000;
        let guards = guards(TG_RST_FIN);
        let mut rng = fastrand::Rng::with_seed(0x6d61_6e67_6c65);
        let mut runner = Runner::new();
        let mut ended = 0;
        for address in [V4, V6] {
            let server = server(address);
            let pair = Pair::at(&server.listener);
            let whole = pair.fin();
            let dressed: Vec<Vec<u8>> =
                dressed(&whole).iter().map(|(_, segment)| segment.bytes()).collect();
            for _ in 0..FRAMES / 2 {
                let mut frame = dressed[rng.usize(..dressed.len())].clone();
                for _ in 0..rng.u8(..3) {
                    let at = rng.usize(..frame.len());
                    frame[at] ^= 1 << rng.u8(..8);
                }
                if rng.u8(..8) == 0 {
                    frame.truncate(14 + rng.usize(..frame.len() - 14));
                }
                let Ok(ran) = runner.run(guards.program(IP.program), &frame, &[]) else {
                    continue;
                };
                if ran.packet == frame {
                    continue;
                }
                ended += 1;
                let seen = crate::common::strict::read(&frame)
                    .unwrap_or_else(|| panic!("no whole segment: {frame:02x?}"));
                assert_eq!((seen.from, seen.to, seen.link_to), (whole.from, whole.to, HERE));
                assert_eq!((seen.seq, seen.ack), (whole.seq, whole.ack), "{frame:02x?}");
                assert_eq!(seen.flags & (SYN | RST | ACK | FIN), ACK | FIN, "{frame:02x?}");
                assert!(seen.options_whole, "{frame:02x?}");
                assert_eq!(ran.packet.len(), frame.len());
            }
        }
        assert!((FRAMES / 5..FRAMES).contains(&ended), "{ended} of {FRAMES} were still whole");
    });
}
