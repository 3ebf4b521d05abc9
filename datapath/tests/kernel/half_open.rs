// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Old reservations are cleaned: the half-open requests that the iterator tells of, and what removes
//! them.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;

use crate::common::scene::*;
use crate::common::segment::*;
use crate::common::wire::Tap;
use nix::sys::socket::{setsockopt, sockopt};
use tidegate_datapath::raw::tg_request_row;
use tidegate_datapath::{sock_diag, sockets};
use tidegate_policy::raw::*;

/// reserv, where a request is old after a millisecond.
fn cleaning() -> tg_rules {
    tg_rules { room: TG_ROOM_RESERVE, clean_after_ms: 1, ..Default::default() }
}

/// Half-open connections of the one listening socket there is.
fn half_open(guards: &Guards) -> u32 {
    let rows = sockets::listeners(&guards.programs).unwrap();
    rows.iter().find(|row| row.port == u32::from(FULL)).expect("a listening socket").syn_len
}

/// A client's SYN, and its old request, which takes the only place.
fn asks(
    outside: &Outside,
    guards: &Guards,
    to: SocketAddr,
    port: u16,
) -> (Segment, tg_request_row) {
    let syn = Segment::syn(Outside::client(to, port), to);
    outside.sends(&syn);
    let mut old = Vec::new();
    eventually("the request is old", || {
        sockets::stale_requests(&guards.programs, |row| old.push(row)).unwrap();
        !old.is_empty()
    });
    assert_eq!(old.len(), 1);
    (syn, old.remove(0))
}

/// Also an IPv4 client's on a socket that takes both families, where it has mapped addresses.
#[test]
fn an_old_request_gives_its_place_back_under_its_own_guard() {
    in_a_namespace("an_old_request_gives_its_place_back_under_its_own_guard", |namespace| {
        let outside = Outside::of(namespace);
        let [v4, v6] = [at(V4, FULL), at(V6, FULL)];
        for (bound, to) in [(v4, v4), (v6, v6), (at("::", FULL), v4), (at("::", FULL), v6)] {
            let _server = Server::bound(bound, 0, false);
            let other = if to == v4 { V6 } else { V4 };
            let guards = vec![
                guarded(None, FULL, tg_rules::default()),
                guarded(Some(&to.ip().to_string()), FULL, cleaning()),
                guarded(Some(other), FULL, tg_rules::default()),
            ];
            let guards = Guards::new(guards);
            let (syn, row) = asks(&outside, &guards, to, 800);
            assert_eq!(row.guard, 1, "{to} of {bound}");
            assert_eq!(row.tuple, tg_tuple::between(syn.from, to), "{to} of {bound}");
            assert_eq!(half_open(&guards), 1);
            sock_diag::destroy_request(&row).unwrap();
            assert_eq!(half_open(&guards), 0, "{to} of {bound}");
        }
    });
}

/// As one is whose client has a link-local address.
#[test]
fn a_request_of_a_socket_that_is_bound_to_an_interface_gives_its_place_back() {
    in_a_namespace("a_request_of_a_socket_that_is_bound_to_an_interface", |namespace| {
        let outside = Outside::of(namespace);
        for to in [at(V4, FULL), at(V6, FULL)] {
            let server = Server::bound(to, 0, false);
            setsockopt(&server.listener, sockopt::BindToDevice, &"srv0".into()).unwrap();
            let guards = Guards::new(vec![guarded(None, FULL, cleaning())]);
            let (_, row) = asks(&outside, &guards, to, 803);
            assert_ne!(row.bound_ifindex, 0, "{to}");
            sock_diag::destroy_request(&row).unwrap();
            assert_eq!(half_open(&guards), 0, "{to}");
        }
    });
}

/// No request is left of a client that went away: where it stood the kernel finds the listening socket.
#[test]
fn a_request_that_is_gone_does_not_end_the_listening_socket() {
    in_a_namespace("a_request_that_is_gone_does_not_end_the_listening_socket", |namespace| {
        let outside = Outside::of(namespace);
        for to in [at(V4, FULL), at(V6, FULL)] {
            let server = Server::bound(to, 0, false);
            let guards = Guards::new(vec![guarded(None, FULL, cleaning())]);
            let (syn, row) = asks(&outside, &guards, to, 801);
            outside.sends(&syn.with(|s| {
                s.flags = RST;
                s.seq = s.seq.wrapping_add(1);
            }));
            eventually("the request is gone", || half_open(&guards) == 0);
            sock_diag::destroy_request(&row).unwrap_err();
            let _comes_in = connect(to);
            server.listener.accept().unwrap();
        }
    });
}

/// The connection that it has become has its cookie.
#[test]
fn a_request_that_has_completed_is_left_alone() {
    in_a_namespace("a_request_that_has_completed_is_left_alone", |namespace| {
        let outside = Outside::of(namespace);
        for to in [at(V4, FULL), at(V6, FULL)] {
            let server = Server::bound(to, 0, false);
            let guards = Guards::new(vec![guarded(None, FULL, cleaning())]);
            let tap = Tap::open("srv0");
            let (syn, row) = asks(&outside, &guards, to, 802);
            outside.sends(&syn.acknowledging(&tap.syn_ack()));
            eventually("the request is a connection", || half_open(&guards) == 0);
            let gone = sock_diag::destroy_request(&row).unwrap_err();
            assert_eq!(gone.kind(), ErrorKind::NotFound);
            let (mut connection, from) = server.listener.accept().unwrap();
            assert_eq!(from, syn.from);
            connection.write_all(b"it stands").unwrap();
        }
    });
}
