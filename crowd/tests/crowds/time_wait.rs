// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients that take the wait over, against a real kernel's TIME-WAIT.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Stage, all_of, answer_once, raw};
use tidegate_crowd::{Class, Close, Delay, Network, Plan};
use tidegate_lab::{Sockets, skip_without_root};
use tidegate_policy::raw::tg_tw_rules;

/// TIME-WAIT blocks of the server's namespace, of both families.
fn time_waits(stage: &Stage) -> u64 {
    Sockets::of(&stage.server).unwrap().time_waits
}

/// The last RSTs are on their way when the crowd is done.
fn none_is_left(stage: &Stage) -> bool {
    let deadline = Instant::now() + Duration::from_secs(2);
    while time_waits(stage) > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(5));
    }
    time_waits(stage) == 0
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
    // A client next door has its RST there while the server is still in close(), where the kernel
    // drops it; one that is a little away comes later.
    let network = Network { delay: Delay::Constant { ms: 5.0 }, ..Network::default() };
    let class = || Class { close: Close::Server, time_wait, network, ..Class::default() };
    for host in ["10.0.0.1", "[fd00::1]"] {
        stage.serve(format!("{host}:81").parse().unwrap(), answer_once);
        let outcome = stage.send(all_of(&format!("{host}:81"), 300, class()));
        assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
        // One each, and one more for a FIN that was sent again on a busy machine.
        assert!(outcome.segments.rst_sent >= 300, "{host}: {outcome:?}");
        assert!(none_is_left(&stage), "{host}: {}", time_waits(&stage));
        let clients = outcome.time_waits.unwrap();
        assert_eq!(clients.at_end, 300, "{host}: {clients:?}");
    }
    let sources = vec!["10.128.0.1/32".parse().unwrap()];
    let plan = Plan { sources, ports: Some(100), ..raw("10.0.0.1:81", 300.0, class()) };
    let outcome = stage.send(plan);
    assert_eq!((outcome.attempts, outcome.replies), (300, 300), "{outcome:?}");
    assert_eq!(outcome.time_waits.unwrap().most, 100, "a pair is held once: {outcome:?}");
    assert!(none_is_left(&stage), "{}", time_waits(&stage));
}
