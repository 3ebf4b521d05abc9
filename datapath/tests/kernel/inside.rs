// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits inside an application, as the iterator of connections tells it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use crate::common::scene::*;
use tidegate_datapath::sockets;
use tidegate_policy::mechanism;
use tidegate_policy::raw::*;

/// Accepted, by guard; and of them those who are not read, and who have gone.
fn counted(guards: &Guards) -> BTreeMap<u32, (u32, u32, u32)> {
    let inside = sockets::waiting_inside(&guards.programs).unwrap();
    inside
        .into_iter()
        .map(|(guard, count)| (guard, (count.unanswered, count.unread, count.gone)))
        .collect()
}

/// From the client's first word until the first of the application's, by the families that a socket takes.
#[test]
fn who_was_accepted_and_has_asked_waits_until_it_is_answered() {
    in_a_namespace("who_was_accepted_and_has_asked_waits_until_it_is_answered", |_| {
        let auto = mechanism::parse("auto").unwrap();
        for (bound, to) in [
            (at(V4, FULL), at(V4, FULL)),
            (at(V6, FULL), at(V6, FULL)),
            (at("::", FULL), at(V4, FULL)),
        ] {
            let other = if to == at(V4, FULL) { V6 } else { V4 };
            let guards = Guards::new(vec![
                guarded(Some(other), FULL, auto),
                guarded(Some(&to.ip().to_string()), FULL, auto),
            ]);
            let server = Server::bound(bound, 8, false);
            let none = BTreeMap::new();
            let mut client = connect(to);
            client.write_all(b"?").unwrap();
            assert_eq!(counted(&guards), none, "in the queue, {to} of {bound}");
            let (mut served, _) = server.listener.accept().unwrap();
            let one = BTreeMap::from([(1, (1, 0, 0))]);
            eventually("it waits inside", || counted(&guards) == one);
            let _silent = connect(to);
            let (_accepted, _) = server.listener.accept().unwrap();
            assert_eq!(counted(&guards), one, "who says nothing waits for nothing");
            served.write_all(b"!").unwrap();
            eventually("it is answered", || counted(&guards) == none);
        }
    });
}

/// An application that has time reads what its clients say, and closes behind them.
#[test]
fn who_has_asked_or_closed_is_not_heeded_until_the_application_notices() {
    in_a_namespace("who_has_asked_or_closed_is_not_heeded_until_the_application_notices", |_| {
        let to = at(V4, FULL);
        let guards = Guards::new(vec![guarded(None, FULL, mechanism::parse("auto").unwrap())]);
        let server = Server::bound(to, 8, false);
        let waits = |unread, gone| BTreeMap::from([(0, (1, unread, gone))]);
        let is_for_a_second = |then| {
            let asked = Instant::now();
            assert_eq!(counted(&guards), waits(0, 0), "it has just asked or closed");
            eventually("a second is over", || counted(&guards) == then);
            assert!(asked.elapsed() > Duration::from_millis(900), "{then:?}");
        };
        let mut client = connect(to);
        client.write_all(b"?").unwrap();
        let (mut served, _) = server.listener.accept().unwrap();
        is_for_a_second(waits(1, 0));
        served.read_exact(&mut [0]).unwrap();
        assert_eq!(counted(&guards), waits(0, 0), "it was read");
        client.shutdown(Shutdown::Write).unwrap();
        is_for_a_second(waits(0, 1));
        drop(served);
        eventually("the application has noticed", || counted(&guards).is_empty());
    });
}

/// Of other mechanisms nobody asks.
#[test]
fn who_waits_is_counted_for_auto_alone() {
    in_a_namespace("who_waits_is_counted_for_auto_alone", |_| {
        let to = at(V4, FULL);
        let guards = Guards::new(vec![guarded(None, FULL, tg_rules::default())]);
        let server = Server::bound(to, 8, false);
        let mut client = connect(to);
        client.write_all(b"?").unwrap();
        let _served = server.listener.accept().unwrap();
        assert_eq!(counted(&guards), BTreeMap::new());
    });
}
