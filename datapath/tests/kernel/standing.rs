// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SYNs of those who stand already: in a request, in TIME-WAIT, in a connection.

use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use crate::common::scene::*;
use crate::common::segment::*;
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::raw::*;

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

/// The same for one that listens with MPTCP.
fn multipath(to: SocketAddr) -> Server {
    let mut server = Server::of_protocol(to, 0, libc::IPPROTO_MPTCP);
    server.waiting.push(connect(to));
    server
}

/// SYNs that look like that, and of which the kernel makes ordinary connections: an MP_JOIN of another length is
/// passed over, and one beside MP_CAPABLE, too; and the kernel reads all options, however many there are.
fn as_if_they_joined() -> Vec<(&'static str, Vec<u8>)> {
    use Offer::{Capable, Joins, Nop};
    let of_length = |bytes: u8| {
        let mut option = vec![30, bytes, 0x10, 2];
        option.resize(usize::from(bytes).next_multiple_of(4), 0);
        option
    };
    let joins_far_from_capable: Vec<Offer> =
        [Joins].into_iter().chain([Nop; 24]).chain([Capable]).collect();
    vec![
        ("of 2 bytes, and behind it what would be a join's", of_length(2)),
        ("of 3 bytes", of_length(3)),
        ("of 4 bytes", of_length(4)),
        ("of a SYN/ACK's 16 bytes", of_length(16)),
        ("of an ACK's 24 bytes", of_length(24)),
        ("which begins a connection, too", options(&[Joins, Capable])),
        ("which begins a connection first", options(&[Capable, Joins])),
        ("which begins a connection far behind", options(&joins_far_from_capable)),
    ]
}

/// A phone that goes from one network to another adds a subflow, by a SYN of its own, to a connection that the
/// application has: the kernel takes no place in the listen queue for it, and asks for its token.
#[test]
fn a_syn_that_adds_a_subflow_is_left_to_the_kernel() {
    in_a_namespace("a_syn_that_adds_a_subflow_is_left_to_the_kernel", |_| {
        let few = tg_rules { places: 1, ..refusing(TG_SYN_RESET) };
        let lazy = tg_rules { room: TG_ROOM_RESERVE, ahead: 1, ..refusing(TG_SYN_RESET) };
        let shed = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
        // Nobody's, for 18 minutes.
        let limit = tg_limit { cost_ns: 1 << 40, ..Default::default() };
        let everybody = ["0.0.0.0/0", "::/0"].map(|network| (network.parse().unwrap(), limit));
        let rst = guarded(None, FULL, refusing(TG_SYN_RESET));
        let policed = Guarded { limits: everybody.to_vec(), ..rst.clone() };
        for to in both_families() {
            let _server = multipath(to);
            let guards = Guards::new(Vec::new());
            let [joins, begins] = [Offer::Joins, Offer::Capable]
                .map(|offer| syn(to).with(|s| s.options = options(&[offer])).bytes());
            for guard in [
                rst.clone(),
                guarded(None, FULL, few),
                guarded(None, FULL, lazy),
                shedding(FULL, shed),
            ] {
                let why = format!("{to}, {guard:?}");
                guards.rewrite(vec![guard]);
                for hook in HOOKS {
                    let (outcome, left, _) = one(&guards, hook, &joins);
                    assert_eq!((outcome, left), (Outcome::Pass, joins.clone()), "{why}, {hook:?}");
                    let (refused, ..) = one(&guards, hook, &begins);
                    assert_ne!(refused, Outcome::Pass, "{why}, {hook:?}");
                    for (what, options) in as_if_they_joined() {
                        let seems = syn(to).with(|s| s.options = options).bytes();
                        let (outcome, ..) = one(&guards, hook, &seems);
                        assert_eq!(outcome, refused, "{what}: {why}, {hook:?}");
                    }
                }
            }
            // Its network's rate holds for it as for all.
            guards.rewrite(vec![policed.clone()]);
            for hook in HOOKS {
                eventually("the one token is gone", || {
                    one(&guards, hook, &joins).2 == [(0, "Policed", "reset", 1)]
                });
            }
        }
        // To one that does not speak it the option says nothing.
        for (to, _server) in both_families().into_iter().zip(both_full()) {
            let guards = Guards::new(vec![rst.clone()]);
            let joins = syn(to).with(|s| s.options = options(&[Offer::Joins])).bytes();
            for hook in HOOKS {
                assert_eq!(one(&guards, hook, &joins).0, Outcome::Answer, "{to}, {hook:?}");
            }
        }
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
        let mechanisms = [(TG_SYN_KERNEL, "pass"), (TG_SYN_RESET, "reset"), (TG_SYN_DROP, "drop")];
        let guards = Guards::new(Vec::new());
        for to in both_families() {
            let server = Server::bound(to, 1, false);
            let from = in_time_wait(&server);
            outside.sends(&Segment::syn(Outside::client(to, 570), to));
            let _waits = connect(to);
            outside.sends(&Segment::syn(Outside::client(to, 571), to));
            eventually("two are half-open, one more than the backlog", || {
                let rows = tidegate_datapath::sockets::listeners(&guards.programs).unwrap();
                rows.iter().any(|row| row.port == u32::from(FULL) && row.syn_len == 2)
            });
            let again = Segment::syn(from, to).bytes();
            let another = syn(to).bytes();
            for (mechanism, verdict) in mechanisms {
                guards.rewrite(vec![guarded(None, FULL, refusing(mechanism))]);
                for hook in HOOKS {
                    let what = format!("{to}, {hook:?}, {verdict}");
                    // Until then the kernel has its answer.
                    eventually("TIME-WAIT", || {
                        one(&guards, hook, &again).2 == [(0, "Room", "pass", 1)]
                    });
                    let (.., counted) = one(&guards, hook, &another);
                    assert_eq!(counted, [(0, "SynQFull", verdict, 1)], "{what}");
                    let (outcome, left, counted) = one(&guards, hook, &again);
                    assert_eq!((outcome, left), (Outcome::Pass, again.clone()), "{what}");
                    assert_eq!(counted, [(0, "Room", "pass", 1)], "{what}");
                }
            }
            server.set_backlog(0);
            for (mechanism, verdict) in mechanisms {
                guards.rewrite(vec![guarded(None, FULL, refusing(mechanism))]);
                for hook in HOOKS {
                    let (.., counted) = one(&guards, hook, &again);
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
