// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A packet goes in; a verdict and a packet come out. Every program runs in the kernel, against
//! listening sockets whose queues are really full.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use crate::common::Runner;
use crate::common::cookie;
use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::Tap;
use libbpf_rs::{MapCore, MapFlags};
use nix::sys::socket::{getsockopt, setsockopt, sockopt};
use tidegate_datapath::array::{read_one, write_one};
use tidegate_datapath::clock;
use tidegate_datapath::configuration::{self, Configuration, Guarded};
use tidegate_datapath::control;
use tidegate_datapath::local_routes;
use tidegate_lab::{Link, Namespace, pin_thread};
use tidegate_policy::agree;
use tidegate_policy::raw::*;

const VLAN: (u16, u16) = (0x8100, 0x2005);
const SERVICE_VLAN: (u16, u16) = (0x88a8, 0x0007);

fn both_families() -> [SocketAddr; 2] {
    [at(V4, FULL), at(V6, FULL)]
}

fn both_full() -> [Server; 2] {
    both_families().map(Server::full)
}

/// A SYN as Linux sends it.
fn syn(to: SocketAddr) -> Segment {
    Segment::syn(client(to), to).with(|s| {
        s.options = options(&[
            Offer::Mss(if to.is_ipv4() { 1460 } else { 1440 }),
            Offer::Sack,
            Offer::Stamps(0x0102_0304),
            Offer::Nop,
            Offer::Scale(7),
        ]);
    })
}

/// Runs one frame and tells what was decided, what left, and what was counted.
fn one(guards: &Guards, hook: Hook, frame: &[u8]) -> (Outcome, Vec<u8>, Vec<Counted>) {
    let before = guards.counts();
    let mut runner = Runner::new();
    let ran = runner.run(guards.program(hook.program), frame, &[]).unwrap();
    (hook.outcome(ran.returned), ran.packet.to_vec(), guards.counts().since(&before))
}

/// It passes as it came, and no guard has judged it.
#[track_caller]
fn assert_not_judged(guards: &Guards, frame: &[u8], why: &str) {
    for hook in HOOKS {
        let (outcome, left, counted) = one(guards, hook, frame);
        assert_eq!(outcome, Outcome::Pass, "{why}, {hook:?}");
        assert_eq!(left, frame, "{why}, {hook:?}");
        assert_eq!(counted, [], "{why}, {hook:?}");
    }
}

/// It passes as it came, for this reason.
#[track_caller]
fn assert_passed(guards: &Guards, frame: &[u8], reason: &'static str) {
    for hook in HOOKS {
        let (outcome, left, counted) = one(guards, hook, frame);
        assert_eq!(counted, [(0, reason, "pass", 1)], "{hook:?}");
        assert_eq!(outcome, Outcome::Pass, "{reason}, {hook:?}");
        assert_eq!(left, frame, "{reason}, {hook:?}");
    }
}

/// Everything that may stand around a SYN and leaves it one.
fn dressed(plain: &Segment) -> Vec<(&'static str, Segment)> {
    let with = |change: &dyn Fn(&mut Segment)| plain.clone().with(|s| change(s));
    let mut all = vec![
        ("bare", with(&|s| s.options.clear())),
        ("Linux's options", plain.clone()),
        ("one tag", with(&|s| s.vlans = vec![VLAN])),
        ("a service tag and a tag", with(&|s| s.vlans = vec![SERVICE_VLAN, VLAN])),
        ("the last sequence number", with(&|s| s.seq = u32::MAX)),
        ("data", with(&|s| s.payload = b"GET / HTTP/1.1\r\n\r\n!".to_vec())),
        ("an odd byte of data", with(&|s| s.payload = b"x".to_vec())),
        ("PSH, URG, ECE and CWR", with(&|s| s.flags |= PSH | URG | ECE | CWR)),
        ("an ECN codepoint", with(&|s| s.traffic_class = 2)),
        ("forty bytes of options", with(&|s| s.options = vec![1; 40])),
    ];
    if plain.to.is_ipv4() {
        all.push(("IP options", with(&|s| s.ip_options = vec![1, 1, 1, 0])));
        all.push(("forty bytes of IP options", with(&|s| s.ip_options = vec![1; 40])));
        all.push(("no don't-fragment bit", with(&|s| s.fragment = 0)));
        all.push((
            "tags and IP options",
            with(&|s| {
                s.vlans = vec![VLAN, VLAN];
                s.ip_options = vec![1; 8];
            }),
        ));
    } else {
        let hop_by_hop = (0, vec![0, 1, 4, 0, 0, 0, 0]);
        let destination = (60, vec![1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let routing = (43, vec![0, 4, 0, 0, 0, 0, 0]);
        all.push(("hop-by-hop", with(&|s| s.extensions = vec![hop_by_hop.clone()])));
        all.push(("destination", with(&|s| s.extensions = vec![destination.clone()])));
        all.push(("routing", with(&|s| s.extensions = vec![routing.clone()])));
        all.push((
            "every extension of RFC 8200 in its order, and a tag",
            with(&|s| {
                s.vlans = vec![VLAN];
                s.extensions = vec![
                    hop_by_hop.clone(),
                    destination.clone(),
                    routing.clone(),
                    destination.clone(),
                ];
            }),
        ));
    }
    all
}

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
        for mechanism in [TG_SYN_KERNEL, TG_SYN_DROP, TG_SYN_RESET, TG_SYN_COOKIE] {
            let guards = Guards::new(vec![guarded(None, ROOMY, refusing(mechanism))]);
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

/// Of a listener that is gone nothing is remembered, though the next may come at once.
#[test]
fn a_closed_listener_is_noticed_at_once() {
    in_a_namespace("a_closed_listener_is_noticed_at_once", |_| {
        let to = at(V4, FULL);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let frame = syn(to).bytes();
        for hook in HOOKS {
            let server = Server::full(to);
            assert_eq!(one(&guards, hook, &frame).0, Outcome::Answer, "{hook:?}");
            drop(server);
            let (outcome, _, counted) = one(&guards, hook, &frame);
            assert_eq!((outcome, counted), (Outcome::Pass, vec![]), "{hook:?}");
        }
    });
}

#[test]
fn what_is_not_guarded_passes_uncounted() {
    in_a_namespace("what_is_not_guarded_passes_uncounted", |_| {
        let _servers = both_full();
        let rules = refusing(TG_SYN_RESET);
        let other_port = Guards::new(vec![guarded(None, FULL + 1, rules)]);
        let other_address = Guards::new(vec![
            guarded(Some("10.9.0.2"), FULL, rules),
            guarded(Some("fd09::2"), FULL, rules),
        ]);
        for to in both_families() {
            assert_not_judged(&other_port, &syn(to).bytes(), "another port is guarded");
            assert_not_judged(&other_address, &syn(to).bytes(), "another address is guarded");
        }
        let nobody = Guards::new(vec![guarded(None, 9, rules)]);
        for address in [V4, V6] {
            assert_not_judged(&nobody, &syn(at(address, 9)).bytes(), "nobody listens");
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

/// A wildcard socket and one bound to an address on one port: each SYN is judged by the queue
/// of the socket that the kernel would give it to.
#[test]
fn the_socket_is_the_one_that_the_kernel_would_choose() {
    in_a_namespace("the_socket_is_the_one_that_the_kernel_would_choose", |namespace| {
        namespace.ip("address add 10.9.0.2/32 dev lo").unwrap();
        let _roomy = Server::bound(at("0.0.0.0", FULL), 128, true);
        let full = Server::bound(at("10.9.0.2", FULL), 0, true);
        let _waits = connect(full.listener.local_addr().unwrap());
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for hook in HOOKS {
            assert_eq!(one(&guards, hook, &syn(at(V4, FULL)).bytes()).0, Outcome::Pass);
            let specific = syn(at("10.9.0.2", FULL)).bytes();
            assert_eq!(one(&guards, hook, &specific).0, Outcome::Answer);
        }
    });
}

/// Which member of a SO_REUSEPORT group gets a connection depends on the client, so the answer
/// of one client is never another's.
#[test]
fn each_member_of_a_reuseport_group_is_judged_by_its_own_queue() {
    in_a_namespace("each_member_of_a_reuseport_group_is_judged_by_its_own_queue", |_| {
        let to = at(V4, FULL);
        let full = Server::bound(to, 0, true);
        let _waits = connect(to);
        let _roomy = Server::bound(to, 128, true);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let answers = HOOKS.map(|hook| -> Vec<Outcome> {
            let clients = (20_000..20_200).map(|port| at("10.9.0.77", port));
            clients.map(|from| one(&guards, hook, &Segment::syn(from, to).bytes()).0).collect()
        });
        let refused = answers[0].iter().filter(|a| **a == Outcome::Answer).count();
        assert!((50..150).contains(&refused), "{refused} of 200 go to the full one");
        assert_eq!(answers[0], answers[1]);
        assert_eq!(answers[0], answers[2]);
        drop(full);
    });
}

/// What a program of the application's makes of a packet is not known before the kernel asks it.
#[test]
fn a_group_from_which_a_program_chooses_is_left_to_the_kernel() {
    in_a_namespace("a_group_from_which_a_program_chooses_is_left_to_the_kernel", |_| {
        let to = at(V4, FULL);
        let full = Server::bound(to, 0, true);
        let _waits = connect(to);
        let roomy = Server::bound(to, 128, true);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let refused = || {
            let clients = (20_000..20_050).map(|port| at("10.9.0.77", port));
            let ask =
                |from| HOOKS.map(|hook| one(&guards, hook, &Segment::syn(from, to).bytes()).0);
            let answers: Vec<Outcome> = clients.flat_map(ask).collect();
            answers.iter().filter(|outcome| **outcome == Outcome::Answer).count()
        };
        let as_before = 30..120;
        assert!(as_before.contains(&refused()));
        // ld #1; ret a: the second of them.
        let mut filter =
            [(0x00, 1), (0x16, 0)].map(|(code, k)| libc::sock_filter { code, jt: 0, jf: 0, k });
        let program = libc::sock_fprog { len: 2, filter: filter.as_mut_ptr() };
        set(&roomy.listener, libc::SO_ATTACH_REUSEPORT_CBPF, &program);
        assert_eq!(refused(), 0);
        set(&roomy.listener, libc::SO_DETACH_REUSEPORT_BPF, &0);
        assert!(as_before.contains(&refused()));
        drop(full);
    });
}

fn set<T>(listener: &impl AsRawFd, option: i32, value: &T) {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel reads that many bytes of a value that lives until it returns.
    let done = unsafe {
        let value = std::ptr::from_ref(value).cast();
        libc::setsockopt(listener.as_raw_fd(), libc::SOL_SOCKET, option, value, length)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_dual_stack_socket_is_one_queue_for_both_families() {
    in_a_namespace("a_dual_stack_socket_is_one_queue_for_both_families", |_| {
        let _server = Server::bound(at("::", FULL), 0, false);
        let _waits = connect(at(V4, FULL));
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for to in both_families() {
            for hook in HOOKS {
                let segment = syn(to);
                let (outcome, reply, _) = one(&guards, hook, &segment.bytes());
                assert_eq!((outcome, reply), (Outcome::Answer, segment.reset()), "{to}, {hook:?}");
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

/// As if no listener had been in trouble for long.
fn calm(guards: &Guards) {
    let map = guards.programs.map("watch_until_ns");
    let nothing = [0; size_of::<u64>()];
    map.update(&0u32.to_ne_bytes(), &nothing, MapFlags::ANY).unwrap();
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

fn forwards(namespace: &Namespace, value: u64) {
    for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        namespace.sysctl(name, value).unwrap();
    }
}

/// A way out, to 10.8.0.0/24 and fd08::/64.
fn way_out(namespace: &Namespace) -> (Namespace, Link) {
    let beyond = Namespace::new("beyond").unwrap();
    let link = Link::between(namespace, "out0", &beyond, "in0").unwrap();
    link.a().add_address("10.8.0.1/24").unwrap();
    link.a().add_address("fd08::1/64").unwrap();
    link.up().unwrap();
    (beyond, link)
}

/// What a host forwards is not its own, though its wildcard listener matches every address.
#[test]
fn what_the_host_forwards_passes() {
    in_a_namespace("what_the_host_forwards_passes", |namespace| {
        let _way_out = way_out(namespace);
        forwards(namespace, 1);
        let _server = Server::bound(at("::", FULL), 0, false);
        let _waits = connect(at(V4, FULL));
        // Their network may send three SYNs, and no other for 18 minutes: these take none of them.
        let limit = tg_limit { cost_ns: 1 << 40, burst_ns: 2 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let refusing = guarded(None, FULL, refusing(TG_SYN_RESET));
        let guards = Guards::new(vec![Guarded { limits: everybody.to_vec(), ..refusing }]);
        for address in ["10.8.0.5", "fd08::5"] {
            for _ in 0..3 {
                assert_not_judged(&guards, &syn(at(address, FULL)).bytes(), "it is forwarded");
            }
        }
        for to in both_families() {
            for hook in HOOKS {
                let (outcome, _, counted) = one(&guards, hook, &syn(to).bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}");
                assert_eq!(counted, [(0, "ListenQFullAtSyn", "reset", 1)], "{to}, {hook:?}");
            }
        }
    });
}

/// Of no route, of broadcast and anycast, and of all where it forwards nothing, bpf_fib_lookup() says what it says of
/// the host's own.
#[test]
fn what_is_neither_the_hosts_nor_forwarded_passes_where_the_host_is_known() {
    const TEST: &str = "what_is_neither_the_hosts_nor_forwarded_passes_where_the_host_is_known";
    in_a_namespace(TEST, |namespace| {
        let _way_out = way_out(namespace);
        namespace.ip("route add local 10.66.1.0/24 dev lo").unwrap();
        let _server = Server::bound(at("::", FULL), 0, false);
        let _waits = connect(at(V4, FULL));
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let own = [V4, V6, "10.66.1.7", "10.8.0.1", "fd08::1"];
        let others: [(u64, &[&str]); 2] = [
            (0, &["10.66.0.5", "fd66::5", "10.8.0.9", "fd08::9"]),
            (1, &["10.66.0.5", "fd66::5", "10.8.0.255", "fd08::"]),
        ];
        let assert_judged = |address: &str, why: &str| {
            for hook in HOOKS {
                let (outcome, _, counted) = one(&guards, hook, &syn(at(address, FULL)).bytes());
                let expected = (Outcome::Answer, vec![(0, "ListenQFullAtSyn", "reset", 1)]);
                assert_eq!((outcome, counted), expected, "{address} {why}, {hook:?}");
            }
        };
        for (does_forward, others) in others {
            forwards(namespace, does_forward);
            local_routes::write(&guards.programs, &local_routes::all().unwrap()).unwrap();
            forget();
            for address in others {
                let frame = syn(at(address, FULL)).bytes();
                assert_not_judged(&guards, &frame, &format!("{address} is nobody's here"));
            }
            own.iter().for_each(|address| assert_judged(address, "is the host's"));
            local_routes::forget(&guards.programs).unwrap();
            own.iter()
                .chain(others)
                .for_each(|address| assert_judged(address, "may be the host's"));
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
        for (home, deciding) in [
            (TG_HOOK_AUTO, vec![DRIVER, DRIVER_VETH, IP]),
            (TG_HOOK_DRIVER, vec![DRIVER, DRIVER_VETH, IP]),
            (TG_HOOK_IP, vec![IP, AFTER_DRIVER]),
            (TG_HOOK_TCP, vec![]),
        ] {
            let guard = Guarded { hook: home, ..guarded(None, FULL, refusing(TG_SYN_DROP)) };
            let guards = Guards::new(vec![guard]);
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
                let swapped = vec![guarded(None, FULL, refusing(mechanism))];
                let swapped = Configuration { guards: swapped, keys: KEYS, ..Default::default() };
                configuration::write(&guards.programs, &swapped).unwrap();
                assert_eq!(one(&guards, hook, &frame).0, outcome, "{hook:?}");
            }
        }
    });
}

/// What a client has that names none (RFC 9293, section 3.7.1), and the least that the kernel takes
/// of a cookie.
fn least_mss(to: SocketAddr) -> u16 {
    if to.is_ipv4() { 536 } else { 1220 }
}

/// The options of every combination, and of the systems that clients run.
fn offers() -> Vec<(String, Vec<Offer>)> {
    use Offer::*;
    let mut all = Vec::new();
    for combination in 0..16 {
        let offered: Vec<Offer> = [Mss(1300), Scale(8), Sack, Stamps(0xaabb_ccdd)]
            .into_iter()
            .enumerate()
            .filter(|(bit, _)| combination & 1 << bit != 0)
            .map(|(_, offer)| offer)
            .collect();
        // Every order of them.
        for order in permutations(&offered) {
            all.push((format!("{order:?}"), order));
        }
    }
    let linux = vec![Mss(1460), Sack, Stamps(77), Nop, Scale(7)];
    let windows = vec![Mss(1460), Nop, Scale(8), Nop, Nop, Sack];
    let mac = vec![Mss(1460), Nop, Scale(6), Nop, Nop, Stamps(77), Sack, End];
    let fast_open = vec![Mss(1460), Sack, Stamps(77), Nop, Scale(7), FastOpen, Nop, Nop];
    for (name, offered) in
        [("Linux", linux), ("Windows", windows), ("macOS", mac), ("Fast Open", fast_open)]
    {
        all.push((name.to_owned(), offered));
    }
    all
}

fn permutations(of: &[Offer]) -> Vec<Vec<Offer>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, first) in of.iter().enumerate() {
        let mut others = of.to_vec();
        others.remove(index);
        for mut rest in permutations(&others) {
            rest.insert(0, *first);
            all.push(rest);
        }
    }
    all
}

/// The SYN/ACK that a cookie rides on, byte for byte: exactly the options that were offered, no
/// longer than the SYN, and everything that was agreed is in the number itself.
#[track_caller]
fn assert_cookie(segment: &Segment, offered: &[Offer], reply: &[u8], why: &str) {
    let offers = |kind: fn(&Offer) -> bool| offered.iter().any(kind);
    let mss = offered.iter().find_map(|o| if let Offer::Mss(mss) = o { Some(*mss) } else { None });
    let scale =
        offered.iter().find_map(|o| if let Offer::Scale(by) = o { Some(*by) } else { None });
    let stamp =
        offered.iter().find_map(|o| if let Offer::Stamps(at) = o { Some(*at) } else { None });
    let sack = offers(|o| *o == Offer::Sack);
    let ecn = segment.flags & (ECE | CWR) == ECE | CWR && segment.traffic_class & 3 == 0;

    let seen = read_syn_ack(reply);
    let isn = seen.tcp.sequence_number;
    let mut case = cookie::case(segment.from, segment.to, segment.seq, isn);
    let mut answers = agree(&case);
    assert_eq!(answers.opened_ok, 1, "{why}: the policy opens what the program made");
    let opened = answers.opened;
    let kept = [65475, 8940, 1460, 1440, 1380, 1300, 1220, 536];
    let at_most = mss.unwrap_or(least_mss(segment.to));
    assert_eq!(opened.mss, kept.into_iter().find(|m| *m <= at_most).unwrap(), "{why}: MSS");
    assert_eq!(opened.wscale, scale.map_or(15, |by| by.min(14)), "{why}: window scale");
    assert_eq!((opened.sack, opened.ecn), (sack.into(), ecn.into()), "{why}: SACK, ECN");

    // Made natively from the same, the cookie is the same, and names the timestamps' start.
    case.options = opened;
    answers = agree(&case);
    assert_eq!(answers.made.isn, isn, "{why}: the number");
    if let Some(tsval) = seen.tsval {
        let age = (clock::monotonic_ns() >> 20) as u32;
        let elapsed = age.wrapping_sub(tsval.wrapping_sub(answers.made.ts_offset));
        assert!(elapsed < 100, "{why}: timestamps start {elapsed} ticks ago");
    }

    let mut words: Vec<u8> = Vec::new();
    if mss.is_some() {
        let headers = if segment.to.is_ipv4() { 40 } else { 60 };
        words.extend([2, 4]);
        words.extend((1500u16 - headers).to_be_bytes());
    }
    if let Some(stamp) = stamp {
        words.extend(if sack { [4, 2] } else { [1, 1] });
        words.extend([8, 10]);
        words.extend(seen.tsval.expect("timestamps were offered").to_be_bytes());
        words.extend(stamp.to_be_bytes());
    } else if sack {
        words.extend([1, 1, 4, 2]);
    }
    if scale.is_some() {
        words.extend([1, 3, 3, 7]);
    }
    let expected = segment.answer(|tcp| {
        tcp.syn = true;
        tcp.ack = true;
        tcp.ece = ecn;
        tcp.sequence_number = isn;
        tcp.acknowledgment_number = segment.seq.wrapping_add(1);
        tcp.window_size = 64240;
        tcp.set_options_raw(&words).unwrap();
    });
    assert_eq!(reply, expected, "{why}");
    assert!(reply.len() <= segment.bytes().len(), "{why}: longer than the SYN");
}

#[test]
fn no_syn_drop_answers_with_a_cookie_that_keeps_every_option() {
    in_a_namespace("no_syn_drop_answers_with_a_cookie_that_keeps_every_option", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for (why, offered) in offers() {
                let segment = syn(to).with(|s| s.options = options(&offered));
                for hook in HOOKS {
                    let (outcome, reply, counted) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Answer, "{why}, {to}, {hook:?}");
                    assert_cookie(&segment, &offered, &reply, &format!("{why}, {to}, {hook:?}"));
                    assert_eq!(counted, [(0, "ListenQFullAtSyn", "cookie", 1)], "{why}");
                }
            }
        }
    });
}

#[test]
fn a_cookie_answers_a_syn_in_any_dress() {
    in_a_namespace("a_cookie_answers_a_syn_in_any_dress", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let windows =
            [Offer::Mss(1400), Offer::Nop, Offer::Scale(8), Offer::Nop, Offer::Nop, Offer::Sack];
        for to in both_families() {
            for (dress, segment) in dressed(&syn(to)) {
                let segment = segment.with(|s| s.options = options(&windows));
                for hook in HOOKS {
                    let (_, reply, counted) = one(&guards, hook, &segment.bytes());
                    let why = format!("{dress}, {to}, {hook:?}");
                    if segment.vlans.len() > tags_that_a_cookie_bears(hook) {
                        assert_eq!(counted, [(0, "NoCookie", "pass", 1)], "{why}");
                    } else {
                        assert_cookie(&segment, &windows, &reply, &why);
                    }
                }
            }
        }
    });
}

/// bpf_sk_assign_tcp_reqsk() finds no TCP behind a tag: the ACK that brings the cookie back would be let
/// in, and then be nobody's. One tag is taken out behind the driver, and before the IP entry.
fn tags_that_a_cookie_bears(hook: Hook) -> usize {
    usize::from(hook != IP)
}

#[test]
fn ecn_is_agreed_on_an_ecn_setup_syn_alone() {
    in_a_namespace("ecn_is_agreed_on_an_ecn_setup_syn_alone", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for flags in [0, ECE, CWR, ECE | CWR] {
                for traffic_class in 0..4 {
                    let segment = syn(to).with(|s| {
                        s.options.clear();
                        s.flags |= flags;
                        s.traffic_class = traffic_class;
                    });
                    for hook in HOOKS {
                        let (_, reply, _) = one(&guards, hook, &segment.bytes());
                        let why = format!("flags {flags:#x}, codepoint {traffic_class}");
                        assert_cookie(&segment, &[], &reply, &why);
                    }
                }
            }
        }
    });
}

/// A SYN whose options a cookie would lose goes to the kernel, which may still have an answer.
#[test]
fn options_that_fit_no_cookie_are_left_to_the_kernel() {
    in_a_namespace("options_that_fit_no_cookie_are_left_to_the_kernel", |_| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        for to in both_families() {
            for (why, bytes) in [
                ("an MSS below the least", options(&[Offer::Mss(least_mss(to) - 1)])),
                ("an option without a length", vec![1, 1, 1, 3]),
                ("an option of length 1", vec![3, 1, 0, 0]),
                ("an option that runs out of the header", vec![8, 10, 0, 0]),
            ] {
                let segment = syn(to).with(|s| s.options = bytes);
                for hook in HOOKS {
                    let (outcome, left, counted) = one(&guards, hook, &segment.bytes());
                    assert_eq!(outcome, Outcome::Pass, "{why}, {hook:?}");
                    assert_eq!(left, segment.bytes(), "{why}, {hook:?}");
                    assert_eq!(counted, [(0, "NoCookie", "pass", 1)], "{why}, {hook:?}");
                }
            }
        }
        control::write_clock(&guards.programs, false).unwrap();
        assert_passed(&guards, &syn(at(V4, FULL)).bytes(), "NoCookie");
    });
}

/// Without the sysctl cookie_v4_check() lets nobody in, whoever made the cookie.
#[test]
fn where_the_kernel_takes_no_cookies_none_is_given() {
    in_a_namespace("where_the_kernel_takes_no_cookies_none_is_given", |namespace| {
        let _servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        namespace.sysctl("net.ipv4.tcp_syncookies", 0).unwrap();
        for to in both_families() {
            assert_passed(&guards, &syn(to).bytes(), "NoCookie");
        }
    });
}

/// Where the kernel has room, and only a rule of ours stands against a SYN, the kernel would let it in:
/// options that fit no cookie would be the way round every limit.
#[test]
fn options_that_fit_no_cookie_are_no_way_round_a_limit_of_ours() {
    in_a_namespace("options_that_fit_no_cookie_are_no_way_round_a_limit_of_ours", |_| {
        let to = [at(V4, ROOMY), at(V6, ROOMY)];
        let _servers = to.map(|to| Server::new(to, 128, 1));
        let cookies = refusing(TG_SYN_COOKIE);
        // One, and no other for 18 minutes.
        let limit = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let policed = Guarded { limits: everybody.to_vec(), ..guarded(None, ROOMY, cookies) };
        let few_places = tg_rules { places: 1, ..cookies };
        let lazy = tg_rules { room: TG_ROOM_RESERVE, ahead: 1, ..cookies };
        let exhausted = tg_rules { cookie_when_reserved: 1, ..lazy };
        for (guard, reason) in [
            (policed, "Policed"),
            (guarded(None, ROOMY, few_places), "WaitLimit"),
            (guarded(None, ROOMY, lazy), "NoReservation"),
            (guarded(None, ROOMY, tg_rules { syn: TG_SYN_RESET, ..exhausted }), "NoReservation"),
        ] {
            let guards = Guards::new(vec![guard]);
            for to in to {
                let fits = syn(to).bytes();
                if reason == "Policed" {
                    assert_eq!(one(&guards, IP, &fits).2, [(0, "Room", "pass", 1)], "its first");
                }
                for hook in HOOKS {
                    assert_eq!(one(&guards, hook, &fits).2, [(0, reason, "cookie", 1)], "{hook:?}");
                    for bytes in [options(&[Offer::Mss(535)]), vec![3, 1, 0, 0]] {
                        let fits_none = syn(to).with(|s| s.options = bytes);
                        let (outcome, _, counted) = one(&guards, hook, &fits_none.bytes());
                        assert_eq!(outcome, Outcome::Drop, "{reason}, {hook:?}");
                        assert_eq!(counted, [(0, "NoCookie", "drop", 1)], "{reason}, {hook:?}");
                    }
                }
            }
        }
    });
}

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
            let swapped = vec![guarded(None, FULL, refusing(TG_SYN_RESET))];
            let swapped = Configuration { guards: swapped, keys: KEYS, ..Default::default() };
            configuration::write(&guards.programs, &swapped).unwrap();
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

/// bpf_sk_assign_tcp_reqsk() refuses an MSS below 536 by IPv4 and below 1220 by IPv6: a cookie that
/// keeps less would be answered with RST when it comes back.
#[test]
fn whoever_has_a_cookie_is_let_in_with_it_however_small_its_mss() {
    in_a_namespace("whoever_has_a_cookie_is_let_in_with_it_however_small_its_mss", |namespace| {
        let outside = Outside::of(namespace);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        for to in both_families() {
            let server = Server::bound(to, 0, false);
            server.listener.set_nonblocking(true).unwrap();
            let (least, usual) = (least_mss(to), if to.is_ipv4() { 1460 } else { 1440 });
            for (port, mss, kept) in [
                (600, None, least),
                (601, Some(least), least),
                (602, Some(least + 1), least),
                (603, Some(usual), usual),
            ] {
                let _waits = connect(to);
                let offered: Vec<Offer> = mss.map(Offer::Mss).into_iter().collect();
                let asks = Segment::syn(Outside::client(to, port), to)
                    .with(|s| s.options = options(&offered));
                let (outcome, reply, _) = one(&guards, IP, &asks.bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}, {mss:?}");
                assert_cookie(&asks, &offered, &reply, &format!("{to}, {mss:?}"));
                accept(&server);

                outside.sends(&asks.acknowledging(&reply));
                let (came_in, from) = accept(&server);
                assert_eq!(from, asks.from, "{mss:?}");
                let carried = getsockopt(&came_in, sockopt::TcpMaxSeg).unwrap();
                assert_eq!(carried, u32::from(kept), "{to}, {mss:?}");
            }
        }
    });
}

/// An application that knows of a narrow way asks for short segments (TCP_MAXSEG), in both directions.
#[test]
fn a_cookie_asks_for_no_more_than_the_application_does() {
    in_a_namespace("a_cookie_asks_for_no_more_than_the_application_does", |namespace| {
        const NARROW: u16 = 1300;
        let outside = Outside::of(namespace);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_COOKIE))]);
        let _at_the_cable = guards.at_the_cable(IP.program);
        for (to, port) in both_families().into_iter().zip(610..) {
            let server = Server::bound(to, 0, false);
            server.listener.set_nonblocking(true).unwrap();
            setsockopt(&server.listener, sockopt::TcpMaxSeg, &NARROW.into()).unwrap();
            let _waits = connect(to);
            let asks = Segment::syn(Outside::client(to, port), to)
                .with(|s| s.options = options(&[Offer::Mss(1440)]));
            for hook in HOOKS {
                let (outcome, reply, _) = one(&guards, hook, &asks.bytes());
                assert_eq!(outcome, Outcome::Answer, "{to}, {hook:?}");
                let [high, low] = NARROW.to_be_bytes();
                let options = reply.len() - 4;
                assert_eq!(reply[options..], [2, 4, high, low], "{to}, {hook:?}");
            }
            let (_, reply, _) = one(&guards, IP, &asks.bytes());
            accept(&server);
            outside.sends(&asks.acknowledging(&reply));
            let (came_in, _) = accept(&server);
            let carried = getsockopt(&came_in, sockopt::TcpMaxSeg).unwrap();
            assert_eq!(carried, u32::from(NARROW), "{to}");
            // Of one who asks for less than any cookie keeps nothing is promised.
            setsockopt(&server.listener, sockopt::TcpMaxSeg, &500).unwrap();
            let _waits = connect(to);
            let another = asks.clone().with(|s| s.from.set_port(port + 100));
            let (outcome, _, counted) = one(&guards, IP, &another.bytes());
            assert_eq!((outcome, counted[0].1), (Outcome::Pass, "NoCookie"), "{to}");
        }
    });
}

/// The connection that comes in next.
fn accept(server: &Server) -> (TcpStream, SocketAddr) {
    let mut accepted = None;
    eventually("a connection comes in", || {
        accepted = server.listener.accept().ok();
        accepted.is_some()
    });
    accepted.expect("it came in")
}

/// A retransmitted SYN whose request holds its place is the kernel's to answer.
#[test]
fn a_syn_whose_request_stands_passes() {
    in_a_namespace("a_syn_whose_request_stands_passes", |namespace| {
        let outside = Outside::of(namespace);
        let to = at(V4, FULL);
        let server = Server::bound(to, 0, false);
        let half_open = Segment::syn(Outside::client(to, 555), to);
        outside.sends(&half_open);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        eventually("the request stands", || {
            let rows = tidegate_datapath::sockets::listeners(&guards.programs).unwrap();
            rows.iter().any(|row| row.port == u32::from(FULL) && row.syn_len == 1)
        });
        let _waits = connect(to);
        let another = half_open.clone().with(|s| s.from.set_port(556));
        for hook in HOOKS {
            // The kernel's look-up finds the request itself, and there is nothing to judge.
            let (outcome, _, counted) = one(&guards, hook, &half_open.bytes());
            assert_eq!((outcome, counted), (Outcome::Pass, vec![]), "{hook:?}");
            // Then the listener is remembered, for 4 ms on this processor, and the request asked
            // for: a busy machine may need more than one try.
            eventually("the listener is remembered", || {
                assert_eq!(one(&guards, hook, &another.bytes()).0, Outcome::Answer, "{hook:?}");
                let (outcome, left, counted) = one(&guards, hook, &half_open.bytes());
                assert_eq!((outcome, left), (Outcome::Pass, half_open.bytes()), "{hook:?}");
                assert!(counted.is_empty() || counted == [(0, "HalfOpen", "pass", 1)]);
                !counted.is_empty()
            });
            forget();
        }
        drop(server);
    });
}

/// The kernel makes a request of TIME-WAIT whatever its SYN queue holds ("TW buckets are converted to open
/// requests without limitations"): a proxy whose ports are few comes in while a flood keeps others out. The listen
/// queue is another matter.
#[test]
fn a_syn_that_takes_over_a_time_wait_needs_no_room_in_the_syn_queue() {
    in_a_namespace("a_syn_that_takes_over_a_time_wait_needs_no_room", |namespace| {
        let outside = Outside::of(namespace);
        namespace.sysctl("net.ipv4.tcp_syncookies", 0).unwrap();
        let rules = [tg_rules::default(), refusing(TG_SYN_RESET), refusing(TG_SYN_DROP)];
        let guards = rules.map(|rules| Guards::new(vec![guarded(None, FULL, rules)]));
        for to in both_families() {
            let server = Server::bound(to, 1, false);
            let from = in_time_wait(&server);
            outside.sends(&Segment::syn(Outside::client(to, 570), to));
            let _waits = connect(to);
            outside.sends(&Segment::syn(Outside::client(to, 571), to));
            eventually("two are half-open, one more than the backlog", || {
                let rows = tidegate_datapath::sockets::listeners(&guards[0].programs).unwrap();
                rows.iter().any(|row| row.port == u32::from(FULL) && row.syn_len == 2)
            });
            let again = Segment::syn(from, to).bytes();
            let another = syn(to).bytes();
            for (guards, verdict) in guards.iter().zip(["pass", "reset", "drop"]) {
                for hook in HOOKS {
                    let what = format!("{to}, {hook:?}, {verdict}");
                    // Until then the kernel has its answer.
                    eventually("TIME-WAIT", || {
                        one(guards, hook, &again).2 == [(0, "Room", "pass", 1)]
                    });
                    let (.., counted) = one(guards, hook, &another);
                    assert_eq!(counted, [(0, "SynQFull", verdict, 1)], "{what}");
                    let (outcome, left, counted) = one(guards, hook, &again);
                    assert_eq!((outcome, left), (Outcome::Pass, again.clone()), "{what}");
                    assert_eq!(counted, [(0, "Room", "pass", 1)], "{what}");
                }
            }
            server.set_backlog(0);
            for (guards, verdict) in guards.iter().zip(["pass", "reset", "drop"]) {
                for hook in HOOKS {
                    let (.., counted) = one(guards, hook, &again);
                    assert_eq!(counted, [(0, "SynQFull", verdict, 1)], "{to}, {hook:?}");
                }
            }
        }
    });
}

/// A connection by TCP Fast Open is in no queue of half-open ones, and the application may be serving it
/// while its SYN/ACK is on its way: the SYN that comes again is the kernel's. Here the listener is made
/// for Fast Open, and what stands are plain connections.
#[test]
fn a_syn_of_a_connection_that_stands_is_not_refused_where_fast_open_is_at_hand() {
    in_a_namespace("a_syn_of_a_connection_that_stands_is_not_refused", |_| {
        let to = at(V4, FULL);
        let server = Server::bound(to, 0, false);
        let places: nix::libc::c_int = 16;
        // SAFETY: the option's value is an int that outlives the call.
        let set = unsafe {
            nix::libc::setsockopt(
                server.listener.as_raw_fd(),
                nix::libc::IPPROTO_TCP,
                nix::libc::TCP_FASTOPEN,
                (&raw const places).cast(),
                size_of_val(&places) as u32,
            )
        };
        assert_eq!(set, 0, "Fast Open");
        let stands = connect(to);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let again = Segment::syn(stands.local_addr().unwrap(), to);
        let another = syn(to);
        for hook in HOOKS {
            eventually("the listener is remembered", || {
                assert_eq!(one(&guards, hook, &another.bytes()).0, Outcome::Answer, "{hook:?}");
                let (outcome, _, counted) = one(&guards, hook, &again.bytes());
                assert_eq!(outcome, Outcome::Pass, "{hook:?}");
                counted == [(0, "HalfOpen", "pass", 1)]
            });
            forget();
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

/// A VLAN's frames are seen at the interface below it as well. A socket that is bound to that one is not
/// whom the kernel will find, once it has taken the tag out: neither its queue counts, nor does it get a connection.
#[test]
fn a_listener_bound_to_an_interface_has_nothing_to_do_with_the_vlans_above_it() {
    let test = "a_listener_bound_to_an_interface_has_nothing_to_do_with_the_vlans_above_it";
    in_a_namespace(test, |_| {
        let servers = both_full();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let tagged = |to| syn(to).with(|s| s.vlans = vec![VLAN]).bytes();
        for (to, server) in both_families().into_iter().zip(&servers) {
            for hook in HOOKS {
                assert_eq!(one(&guards, hook, &tagged(to)).0, Outcome::Answer, "{to}, {hook:?}");
            }
            setsockopt(&server.listener, sockopt::BindToDevice, &"lo".into()).unwrap();
            assert_not_judged(&guards, &tagged(to), "a VLAN's");
            // A priority is no VLAN: the kernel takes it out, and gives the SYN to this socket.
            let urgent = syn(to).with(|s| s.vlans = vec![(0x8100, 0x6000)]).bytes();
            for hook in [DRIVER, DRIVER_VETH] {
                assert_eq!(one(&guards, hook, &urgent).0, Outcome::Answer, "{to}, {hook:?}");
            }
            for hook in HOOKS {
                assert_eq!(
                    one(&guards, hook, &syn(to).bytes()).0,
                    Outcome::Answer,
                    "{to}, {hook:?}"
                );
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
