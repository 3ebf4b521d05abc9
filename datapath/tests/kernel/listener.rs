// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which socket a SYN is for: the one that the kernel would choose.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::common::scene::*;
use crate::common::segment::*;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use libbpf_sys::bpf_map_create_opts;
use nix::sys::socket::{setsockopt, sockopt};
use tidegate_datapath::sockets;
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

/// They take more than one read(2), and behind them stand connections.
#[test]
fn each_of_hundreds_of_sockets_that_share_a_port_is_listed_once() {
    in_a_namespace("each_of_hundreds_of_sockets_that_share_a_port_is_listed_once", |_| {
        let to = at(V4, FULL);
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for connections in [0, 40] {
            let _connected = Server::new(at(V4, FULL + 1), 64, connections);
            let _servers: Vec<Server> = (0..500).map(|_| Server::bound(to, 0, true)).collect();
            let rows = sockets::listeners(&guards.programs).unwrap();
            let cookies: BTreeSet<u64> = rows
                .iter()
                .filter(|row| row.port == FULL.into())
                .map(|r| r.socket_cookie)
                .collect();
            assert_eq!((rows.len(), cookies.len()), (501, 500), "{connections}");
        }
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

/// A program of type SK_LOOKUP by which the clients of one port get the socket in this map.
fn chooser(of: u16, sockets: &MapHandle) -> OwnedFd {
    const MAP: u8 = libbpf_sys::BPF_PSEUDO_MAP_FD as u8;
    let one = |code, dst: u8, src: u8, off, imm| {
        let mut insn = libbpf_sys::bpf_insn { code, off, imm, ..Default::default() };
        insn.set_dst_reg(dst);
        insn.set_src_reg(src);
        insn
    };
    let call = |function: u32| one(0x85, 0, 0, 0, function as i32);
    let port = i32::from(of.to_be());
    let map = sockets.as_fd().as_raw_fd();
    let program = [
        one(0xbf, 6, 1, 0, 0),                      // r6 = ctx
        one(0x69, 2, 6, 36, 0),                     // r2 = ctx->remote_port
        one(0x55, 2, 0, 14, port),                  // another's: pass
        one(0x62, 10, 0, -4, 0),                    // key = 0
        one(0x18, 1, MAP, 0, map),                  // r1 = &sockets
        one(0x00, 0, 0, 0, 0),                      //
        one(0xbf, 2, 10, 0, 0),                     // r2 = &key
        one(0x07, 2, 0, 0, -4),                     //
        call(libbpf_sys::BPF_FUNC_map_lookup_elem), //
        one(0x15, 0, 0, 7, 0),                      // nothing there: pass
        one(0xbf, 7, 0, 0, 0),                      // r7 = the socket
        one(0xbf, 1, 6, 0, 0),                      //
        one(0xbf, 2, 7, 0, 0),                      //
        one(0xb7, 3, 0, 0, 0),                      //
        call(libbpf_sys::BPF_FUNC_sk_assign),       //
        one(0xbf, 1, 7, 0, 0),                      //
        call(libbpf_sys::BPF_FUNC_sk_release),      //
        one(0xb7, 0, 0, 0, 1),                      // pass: SK_PASS
        one(0x95, 0, 0, 0, 0),                      // exit
    ];
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as _,
        expected_attach_type: libbpf_sys::BPF_SK_LOOKUP,
        ..Default::default()
    };
    // SAFETY: the instructions and the options live until the kernel has read them; what it returns is a
    // descriptor that is nobody's yet.
    unsafe {
        let fd = libbpf_sys::bpf_prog_load(
            libbpf_sys::BPF_PROG_TYPE_SK_LOOKUP,
            c"chooser".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr(),
            program.len() as _,
            &raw mut options,
        );
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// It is in force in this thread's network namespace while what is returned stands.
fn attached(program: &OwnedFd) -> OwnedFd {
    let namespace = File::open("/proc/thread-self/ns/net").unwrap();
    // SAFETY: both descriptors are open; what it returns is one that is nobody's yet.
    unsafe {
        let (program, namespace) = (program.as_raw_fd(), namespace.as_raw_fd());
        let none = std::ptr::null();
        let attach = libbpf_sys::BPF_SK_LOOKUP;
        let fd = libbpf_sys::bpf_link_create(program, namespace, attach, none);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

/// A program of the network namespace's may choose by the client, too: whom it gives one to is nobody else's.
#[test]
fn where_a_program_chooses_the_listener_one_clients_is_not_anothers() {
    in_a_namespace("where_a_program_chooses_the_listener_one_clients_is", |namespace| {
        const CHOSEN: u16 = 700;
        namespace.ip("address add 10.9.0.2/32 dev lo").unwrap();
        let full = Server::full(at("10.9.0.2", FULL));
        let _roomy = Server::bound(at(V4, FULL), 128, false);
        let options =
            bpf_map_create_opts { sz: size_of::<bpf_map_create_opts>() as _, ..Default::default() };
        let sockets =
            MapHandle::create(MapType::Sockmap, Some("sockets"), 4, 8, 1, &options).unwrap();
        let socket = (full.listener.as_raw_fd() as u64).to_ne_bytes();
        sockets.update(&0u32.to_ne_bytes(), &socket, MapFlags::ANY).unwrap();
        let _link = attached(&chooser(CHOSEN, &sockets));

        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        let from = |port| Segment::syn(at("10.9.0.77", port), at(V4, FULL)).bytes();
        for hook in HOOKS {
            for _ in 0..5 {
                assert_eq!(one(&guards, hook, &from(CHOSEN)).0, Outcome::Answer, "{hook:?}");
                assert_eq!(one(&guards, hook, &from(CHOSEN + 1)).0, Outcome::Pass, "{hook:?}");
            }
        }
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
