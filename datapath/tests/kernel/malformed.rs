// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random, truncated, bent and bit-flipped packets at every hook: none gets a verdict other than
//! pass, unless a strict parser that shares nothing with the programs says that it is a whole SYN
//! to a guarded listener that is full (or an ACK that brings back a cookie of ours).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::strict::{self, Strict};
use crate::common::wire::{Wire, hardware_address};
use crate::common::{Runner, cookie};
use fastrand::Rng;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::link::{self, Place};
use tidegate_datapath::raw::TG_HOOK_TCP;
use tidegate_lab::{Link, Namespace};
use tidegate_policy::agree;
use tidegate_policy::raw::*;

/// By BPF_PROG_TEST_RUN, at each hook.
const PACKETS: u32 = 1_000_000;
/// Over a cable, through the whole kernel.
const FRAMES: u32 = 300_000;

/// A port for each refusal, so that each way of answering meets each malformation.
const MECHANISMS: [(u16, u32); 3] =
    [(8080, TG_SYN_RESET), (8081, TG_SYN_COOKIE), (8082, TG_SYN_DROP)];

/// Ports where every SYN is shed: with RST, and silently on what is called a path.
const SHED: u16 = 8083;
const PATH: u16 = 8084;

fn ports() -> impl Iterator<Item = u16> {
    MECHANISMS.iter().map(|(port, _)| *port).chain([SHED, PATH])
}

fn listeners() -> Vec<SocketAddr> {
    ports().flat_map(|port| [at(V4, port), at(V6, port)]).collect()
}

fn guards() -> Vec<Guarded> {
    let refusing =
        MECHANISMS.iter().map(|(port, mechanism)| guarded(None, *port, refusing(*mechanism)));
    let all = |policy| tg_shed_rules {
        blocks: 16,
        ..tg_shed_rules::new(policy, TG_KEY_CONNECTION, 1.0, 5)
    };
    let resetting = tg_shed_rules { refusal: TG_REFUSE_RESET, ..all(TG_SBPD) };
    let paths = [V4, V6].map(|address| {
        let address = Some(address.parse().unwrap());
        Guarded { address, is_path: true, ..shedding(PATH, all(TG_SLPD)) }
    });
    refusing.chain([shedding(SHED, resetting)]).chain(paths).collect()
}

/// A SYN as it may well come, before anything happens to it.
fn whole(rng: &mut Rng, link_to: [u8; 6]) -> Segment {
    let all = listeners();
    let to = all[rng.usize(..all.len())];
    let from = SocketAddr::new(client(to).ip(), rng.u16(1024..));
    let syn = Segment::syn(from, to).with(|s| {
        s.link_to = link_to;
        s.seq = rng.u32(..);
        if rng.bool() {
            use Offer::*;
            s.options = options(&[Mss(1460), Sack, Stamps(rng.u32(..)), Nop, Scale(7)]);
        }
        if rng.u8(..4) == 0 {
            s.payload = vec![rng.u8(..); rng.usize(..40)];
        }
    });
    dressed(rng, syn)
}

/// A segment with all that may stand around it, and at times with other flags.
pub fn dressed(rng: &mut Rng, segment: Segment) -> Segment {
    segment.with(|s| {
        s.vlans = vec![(0x8100, rng.u16(..)); [0, 0, 0, 1, 2][rng.usize(..5)]];
        if rng.u8(..8) == 0 {
            s.flags = rng.u8(..);
        }
        if rng.u8(..4) == 0 && s.to.is_ipv4() {
            s.ip_options = vec![1; 4 * rng.usize(1..=10)];
        }
        if rng.u8(..4) == 0 && s.to.is_ipv6() {
            let count = rng.usize(1..=5);
            let kinds = [0, 43, 60, 60, 44, 51, 50];
            s.extensions = (0..count)
                .map(|_| {
                    let eights = rng.u8(..3);
                    let mut bytes = vec![0; 8 * usize::from(eights) + 7];
                    bytes[0] = eights;
                    (kinds[rng.usize(..kinds.len())], bytes)
                })
                .collect();
        }
    })
}

/// One of the bytes that say how long something is, or what stands behind it.
fn bend(rng: &mut Rng, frame: &mut [u8]) {
    // EtherType, IHL, lengths, fragment, protocol; data offset and flags of TCP lie further in.
    let telling = [12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 26, 46, 47, 50, 54, 55, 66, 67];
    let place = telling[rng.usize(..telling.len())];
    if let Some(byte) = frame.get_mut(place) {
        *byte =
            if rng.bool() { rng.u8(..) } else { byte.wrapping_add(rng.u8(..3)).wrapping_sub(1) };
    }
}

/// Such a SYN, and whatever happened to it on the way.
fn mangled(rng: &mut Rng, link_to: [u8; 6]) -> Vec<u8> {
    let frame = whole(rng, link_to).bytes();
    mangle(rng, frame)
}

/// What may happen to a frame on the way.
pub fn mangle(rng: &mut Rng, mut frame: Vec<u8>) -> Vec<u8> {
    match rng.u8(..10) {
        0 => {}
        1..4 => {
            for _ in 0..rng.u8(1..6) {
                let bit = rng.usize(..frame.len() * 8);
                frame[bit / 8] ^= 1 << (bit % 8);
            }
        }
        4..6 => frame.truncate(rng.usize(14..=frame.len())),
        6..8 => {
            for _ in 0..rng.u8(1..4) {
                bend(rng, &mut frame);
            }
        }
        8 => {
            // Noise behind a true beginning.
            let from = rng.usize(14..=frame.len());
            frame[from..].fill_with(|| rng.u8(..));
            let length = frame.len() + rng.usize(..200);
            frame.resize_with(length, || rng.u8(..));
        }
        _ => {
            let length = rng.usize(14..300);
            frame.resize(length, 0);
            frame[14..].fill_with(|| rng.u8(..));
        }
    }
    frame
}

/// The same at the TCP entry, which no path leads by and where nothing is shed.
fn guards_at_tcp() -> Vec<Guarded> {
    let at_tcp = |g| Guarded { hook: TG_HOOK_TCP, is_path: false, ..g };
    guards().into_iter().map(at_tcp).collect()
}

/// How the listener refuses, where it is one of ours.
fn is_listener(strict: &Strict) -> Option<u32> {
    if !listeners().contains(&strict.to) {
        return None;
    }
    let mechanism = MECHANISMS.iter().find(|(port, _)| *port == strict.to.port());
    Some(mechanism.map_or(TG_SYN_DROP, |(_, mechanism)| *mechanism))
}

/// May this frame be anything but passed?
fn may_be_judged(frame: &[u8], hook: Hook) -> bool {
    let Some(strict) = strict::read(frame) else {
        return false;
    };
    // At the IP entry the kernel has compared the frame's address with the interface's.
    let Some(mechanism) = is_listener(&strict).filter(|_| hook != IP || strict.link_to == HERE)
    else {
        return false;
    };
    if strict.flags & (SYN | ACK | RST | FIN) == SYN {
        return mechanism != TG_SYN_COOKIE || strict.options_whole;
    }
    // One forged cookie in 2^20 is taken for ours, and refused where there is no room.
    let from_client = strict.seq.wrapping_sub(1);
    let isn = strict.ack.wrapping_sub(1);
    hook == IP
        && strict.flags & (SYN | ACK | RST) == ACK
        && agree(&cookie::case(strict.from, strict.to, from_client, isn)).opened_ok == 1
}

/// What became of the packets, for the test's output.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, u32>);

impl Tally {
    fn add(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn get(&self, what: &str) -> u32 {
        self.0.get(what).copied().unwrap_or_default()
    }
}

#[test]
fn the_driver_and_the_ip_entry_pass_whatever_is_not_a_whole_syn() {
    in_a_namespace("the_driver_and_the_ip_entry_pass_whatever_is_not_a_whole_syn", |_| {
        let _servers: Vec<Server> = listeners().into_iter().map(Server::full).collect();
        let guards = Guards::new(guards());
        let mut runner = Runner::new();
        for (hook, seed) in [(DRIVER, 1), (IP, 2)] {
            let program = guards.program(hook.program);
            let mut rng = Rng::with_seed(seed);
            let mut tally = Tally::default();
            let begun = Instant::now();
            for number in 0..PACKETS {
                let frame = mangled(&mut rng, HERE);
                let Ok(ran) = runner.run(program, &frame, &[]) else {
                    tally.add("too short for the kernel to run anything");
                    continue;
                };
                let outcome = hook.outcome(ran.returned);
                let whole = may_be_judged(&frame, hook);
                let what = format!("seed {seed}, packet {number}: {frame:02x?}");
                match (outcome, whole) {
                    (Outcome::Pass, true) => tally.add("whole SYN, passed"),
                    (Outcome::Pass, false) => tally.add("malformed, passed"),
                    (_, true) => tally.add("whole SYN, refused"),
                    (_, false) => panic!("{hook:?} says {outcome:?} to {what}"),
                }
                match outcome {
                    Outcome::Pass => assert_eq!(ran.packet, frame, "{what} was changed"),
                    _ => assert!(ran.packet.len() <= frame.len(), "{what}: a longer answer"),
                }
            }
            let took = begun.elapsed().as_secs_f32();
            println!("{}: {PACKETS} packets in {took:.1} s: {:?}", hook.program, tally.0);
            assert!(tally.get("whole SYN, refused") > PACKETS / 20, "many are whole");
            assert!(tally.get("malformed, passed") > PACKETS / 3, "most are not");
        }
    });
}

/// The kernel's `struct nf_hook_state` for local-in; it fills the interface itself.
fn local_in(family: i32) -> [u8; 48] {
    let mut state = [0; 48];
    state[0] = 1;
    state[1] = family as u8;
    state
}

/// By BPF_PROG_TEST_RUN the program sees packets without a socket on them, so it never gets to
/// refuse: this is about its parser. The next test has the sockets.
#[test]
fn the_tcp_entry_reads_anything_and_passes_it() {
    in_a_namespace("the_tcp_entry_reads_anything_and_passes_it", |_| {
        let _servers: Vec<Server> = listeners().into_iter().map(Server::full).collect();
        let at_tcp = guards_at_tcp();
        let guards = Guards::new(at_tcp);
        let program = guards.program("tidegate_tcp");
        let mut runner = Runner::new();
        let mut rng = Rng::with_seed(3);
        let mut tally = Tally::default();
        let begun = Instant::now();
        for number in 0..PACKETS {
            let frame = mangled(&mut rng, HERE);
            let family = match frame[12..14] {
                [0x86, 0xdd] => libc::AF_INET6,
                _ => libc::AF_INET,
            };
            match runner.run(program, &frame, &local_in(family)) {
                Ok(ran) => {
                    assert_eq!(ran.returned, 1, "seed 3, packet {number}: {frame:02x?}");
                    tally.add("accepted");
                }
                // Tagged, short, or of neither family: no such packet gets to this hook.
                Err(_) => tally.add("refused by the kernel"),
            }
        }
        let took = begun.elapsed().as_secs_f32();
        println!("tidegate_tcp: {PACKETS} packets in {took:.1} s: {:?}", tally.0);
        assert!(tally.get("accepted") > PACKETS / 3);
        assert_eq!(guards.counts().since(&Counts::default()), [], "nothing was judged");
    });
}

/// The programs where they stand in production, with the sockets that the IP entry puts on the
/// packets: what the strict parser calls malformed is sent over a cable, and nothing is refused.
#[test]
fn on_a_cable_no_malformed_packet_is_refused_at_any_entry() {
    in_a_namespace("on_a_cable_no_malformed_packet_is_refused_at_any_entry", |namespace| {
        let clients = Namespace::new("clients").unwrap();
        let cable = Link::between(namespace, "srv0", &clients, "cli0").unwrap();
        cable.up().unwrap();
        cable.a().add_route("10.9.0.77/32", None).unwrap();
        cable.a().add_route("fd09::77/128", None).unwrap();
        for address in ["10.9.0.77", "fd09::77"] {
            let neighbor = format!("neighbor add {address} lladdr 02:00:00:00:00:77 dev srv0");
            namespace.ip(&neighbor).unwrap();
        }
        let _servers: Vec<Server> = listeners().into_iter().map(Server::full).collect();
        let link_to = hardware_address(namespace, "srv0");
        let index = nix::net::if_::if_nametoindex("srv0").unwrap();

        let at_tcp = guards_at_tcp();
        let ip_entry = ("tidegate_ip", Place::Ingress(index));
        let homes = [
            (
                "the driver",
                guards(),
                vec![
                    ("tidegate_driver_veth", Place::Driver(index)),
                    ("tidegate_ip_after_driver", Place::Ingress(index)),
                ],
            ),
            ("the IP entry", guards(), vec![ip_entry]),
            (
                "the TCP entry",
                at_tcp,
                vec![
                    ip_entry,
                    ("tidegate_tcp", Place::LocalIn(libc::AF_INET as u8)),
                    ("tidegate_tcp", Place::LocalIn(libc::AF_INET6 as u8)),
                ],
            ),
        ];
        for (home, guards, places) in homes {
            let guards = Guards::new(guards);
            let _links: Vec<OwnedFd> = places
                .into_iter()
                .map(|(name, place)| link::create(guards.program(name), name, place).unwrap())
                .collect();

            let before = guards.counts();
            let begun = Instant::now();
            let sent = clients.run(move || send_malformed(link_to, 4));
            let took = begun.elapsed().as_secs_f32();
            let counted = guards.counts().since(&before);
            println!("{home}: {sent} malformed frames in {took:.1} s: {counted:?}");
            let refused = counted.iter().filter(|(_, _, verdict, _)| *verdict != "pass");
            assert_eq!(refused.count(), 0, "{home}: {counted:?}");
            assert!(sent > FRAMES / 2, "the kernel took {sent}");

            // And the programs do stand there: whole SYNs to the same listeners are refused.
            let before = guards.counts();
            clients.run(move || send_whole(link_to));
            // At the TCP entry a program can only drop: the other mechanisms pass there.
            eventually("whole SYNs are refused", || {
                let counted = guards.counts().since(&before);
                let judged: u64 = counted.iter().map(|(_, _, _, packets)| packets).sum();
                judged == listeners().len() as u64
                    && counted.iter().any(|(_, _, verdict, _)| *verdict != "pass")
            });
        }
    });
}

fn send_malformed(link_to: [u8; 6], seed: u64) -> u32 {
    let wire = Wire::open("cli0");
    let mut rng = Rng::with_seed(seed);
    let mut sent = 0;
    for _ in 0..FRAMES {
        let frame = mangled(&mut rng, link_to);
        // A SYN alone is a whole one, and any ACK may bring a cookie.
        let whole = strict::read(&frame).is_some_and(|s| {
            let judged = [SYN, ACK, ACK | FIN].contains(&(s.flags & (SYN | ACK | RST | FIN)));
            is_listener(&s).is_some() && judged
        });
        if !whole {
            sent += u32::from(wire.send(&frame));
        }
    }
    sent
}

fn send_whole(link_to: [u8; 6]) {
    let wire = Wire::open("cli0");
    for to in listeners() {
        wire.send(&Segment::syn(client(to), to).with(|s| s.link_to = link_to).bytes());
    }
}
