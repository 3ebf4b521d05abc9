// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What only a frame that comes in by a device shows: programs where they stand in production, one behind
//! the other, and clients at the other end of a cable.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use crate::common::scene::*;
use crate::common::segment::*;
use nix::errno::Errno;
use tidegate_datapath::Error;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::link::{self, Place};
use tidegate_policy::raw::*;

/// By the driver, and by the entry of IP.
const HOMES: [&[Hook]; 2] = [&[DRIVER_VETH, AFTER_DRIVER], &[IP]];
/// By the driver, where every guard is a path.
const PATHS: &[Hook] = &[PATH_VETH, AFTER_DRIVER];

/// A home's programs, where the cable ends.
fn stand(guards: &Guards, home: &[Hook]) -> Vec<OwnedFd> {
    let index = nix::net::if_::if_nametoindex("srv0").unwrap();
    let place = |hook: &Hook| match hook {
        &DRIVER_VETH | &PATH_VETH => Place::Driver(index),
        _ => Place::Ingress(index),
    };
    home.iter().map(|hook| attached(guards, hook, place(hook))).collect()
}

/// A driver has one place. A program that the test beside this one starts holds a link of the one before
/// until it is executed.
fn attached(guards: &Guards, hook: &Hook, place: Place) -> OwnedFd {
    let mut link = None;
    eventually("the place is free", || {
        match link::create(guards.program(hook.program), hook.program, place) {
            Err(Error::Attach { source, .. })
                if source.raw_os_error() == Some(Errno::EBUSY as i32) => {}
            created => link = Some(created.unwrap()),
        }
        link.is_some()
    });
    link.expect("it is attached")
}

/// SYNs of one buffer and of several are refused by RST, each once.
fn assert_all_refused(guards: &Guards, outside: &Outside, to: &[SocketAddr], reason: &'static str) {
    for to in to {
        for bytes in [0, 1400, 6000, 8000] {
            let syn = Segment::syn(Outside::client(*to, 700), *to);
            let before = guards.counts();
            outside.sends(&syn.with(|s| s.payload = vec![7; bytes]));
            let refused = [(0, reason, "reset", 1)];
            let why = format!("{to}, {bytes} bytes");
            eventually(&why, || guards.counts().since(&before) == refused);
        }
    }
}

/// A driver may hand up a frame in several buffers, of which its program reads the first alone: data in a
/// SYN reaches beyond that here, and some cards put nothing into it.
#[test]
fn a_syn_that_the_drivers_program_cannot_read_is_judged_at_the_entry_of_ip() {
    in_a_namespace(
        "a_syn_that_the_drivers_program_cannot_read_is_judged_at_the_entry_of_ip",
        |namespace| {
            let outside = Outside::of(namespace).with_mtu(namespace, 9000);
            let servers = [at(V4, FULL), at(V6, FULL)];
            let _servers = servers.map(Server::full);
            let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
            let links = stand(&guards, HOMES[0]);
            assert_all_refused(&guards, &outside, &servers, "ListenQFullAtSyn");
            drop(links);

            let everybody = tg_shed_rules {
                refusal: TG_REFUSE_RESET,
                ..tg_shed_rules::new(TG_RBD, TG_KEY_CONNECTION, 1.0, 5)
            };
            let address = Some(V4.parse().unwrap());
            let path = Guarded { address, is_path: true, ..shedding(FULL, everybody) };
            let guards = Guards::new(vec![path]);
            let _links = stand(&guards, PATHS);
            assert_all_refused(&guards, &outside, &servers[..1], "ShedUniform");
        },
    );
}

/// 127.0.0.0/8 and ::1 are of the loopback interface alone: what comes by another is a martian, whoever
/// listens there, and the kernel answers none.
#[test]
fn nobody_outside_is_answered_for_the_hosts_loopback() {
    in_a_namespace("nobody_outside_is_answered_for_the_hosts_loopback", |namespace| {
        let outside = Outside::of(namespace);
        let (v4, v6) = (at(V4, FULL), at(V6, FULL));
        let loopback = [at("127.0.0.1", FULL), at("127.255.0.7", FULL), at("::1", FULL)];
        let _servers: Vec<Server> =
            [v4, v6].into_iter().chain(loopback).map(Server::full).collect();
        let guards = Guards::new(vec![guarded(None, FULL, refusing(TG_SYN_RESET))]);
        for home in HOMES {
            let _links = stand(&guards, home);
            let strange = [(at("127.0.0.1", 700), v4), (at("::1", 700), v6)];
            let to_loopback = loopback.map(|to| (Outside::client(to, 700), to));
            let before = guards.counts();
            for (from, to) in strange.into_iter().chain(to_loopback) {
                outside.sends(&Segment::syn(from, to));
            }
            // What comes behind them is counted when they are through.
            for to in [v4, v6] {
                outside.sends(&Segment::syn(Outside::client(to, 701), to));
            }
            eventually("the others are refused", || !guards.counts().since(&before).is_empty());
            std::thread::sleep(Duration::from_millis(50));
            let refused = [(0, "ListenQFullAtSyn", "reset", 2)];
            assert_eq!(guards.counts().since(&before), refused, "{home:?}");
        }
    });
}
