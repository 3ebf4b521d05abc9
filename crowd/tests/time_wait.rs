// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that take the wait over, against a real kernel's TIME-WAIT.

mod common;

use common::{Stage, answer_once, raw};
use tidegate_crowd::{Class, Close, Plan};
use tidegate_lab::{Sockets, skip_without_root};
use tidegate_policy::raw::tg_tw_rules;

/// TIME-WAIT blocks of the server's namespace, of both families.
fn time_waits(stage: &Stage) -> u64 {
    Sockets::of(&stage.server).unwrap().time_waits
}

/// Faber, section 4.1: after a passive close the client's RST removes the server's block, and the
/// client waits: the ports can be used again where the SYN is newer by its clock.
#[test]
fn close_swap_takes_the_servers_time_wait() {
    if skip_without_root("close_swap_takes_the_servers_time_wait") {
        return;
    }
    let stage = Stage::new();
    let time_wait = tg_tw_rules { close_swap: 1, ..tg_tw_rules::default() };
    let class = || Class { close: Close::Server, time_wait, ..Class::default() };
    for host in ["10.0.0.1", "[fd00::1]"] {
        stage.serve(format!("{host}:81").parse().unwrap(), answer_once);
        let outcome = stage.send(raw(&format!("{host}:81"), 300.0, class()));
        assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
        // One each, and one more for a FIN that was sent again on a busy machine.
        assert!(outcome.segments.rst_sent >= 300, "{host}: {outcome:?}");
        assert_eq!(time_waits(&stage), 0, "{host}");
        let clients = outcome.time_waits.unwrap();
        assert!((280..=300).contains(&clients.at_end), "{host}: {clients:?}");
    }
    let sources = vec!["10.128.0.1/32".parse().unwrap()];
    let plan = Plan { sources, ports: Some(100), ..raw("10.0.0.1:81", 300.0, class()) };
    let outcome = stage.send(plan);
    assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
    assert_eq!(outcome.time_waits.unwrap().most, 100, "a pair is held once: {outcome:?}");
    assert_eq!(time_waits(&stage), 0);
}
