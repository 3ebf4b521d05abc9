// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which socket a SYN is for: the one that the kernel would choose.

use crate::common::scene::*;
use crate::common::segment::*;
use nix::sys::socket::{setsockopt, sockopt};
use tidegate_policy::raw::*;

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
