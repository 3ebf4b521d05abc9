// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who speaks first.

use super::telling::of_windows;
use super::*;

/// What is known after so many connections whose clients spoke first, and so many of the others.
fn known_after(clients: u32, servers: u32) -> bool {
    let mut speaks = tg_speaks::default();
    (0..servers).for_each(|_| speaks.see(true));
    (0..clients).for_each(|_| speaks.see(false));
    speaks.first()
}

#[test]
fn clients_speak_first_where_hardly_any_waits_for_the_server() {
    assert!(!known_after(0, 0), "nothing is known");
    assert_eq!([known_after(7, 0), known_after(8, 0)], [false, true]);
    assert_eq!([known_after(63, 2), known_after(64, 2)], [false, true]);
    // Some of a mail server's clients do not wait for its greeting.
    assert!(!known_after(20, 1000));
}

/// A port may be another server's from one day to the next.
#[test]
fn what_was_seen_long_ago_counts_for_less() {
    let mut speaks = tg_speaks::default();
    (0..1_000_000).for_each(|_| speaks.see(false));
    assert!(speaks.first());
    (0..64).for_each(|_| speaks.see(true));
    assert!(!speaks.first());
    (0..10_000).for_each(|_| speaks.see(false));
    assert!(speaks.first());
}

/// It would wait for the server's greeting, and the server for its ACK.
#[test]
fn nobody_waits_connected_for_a_server_that_speaks_first() {
    let connected = |servers_first: bool, burst_ms, times| {
        let mut story = of_windows();
        story.watch.hear(servers_first);
        story.rules.syn_ns = if burst_ms > 1000 { 35_000 } else { SYN_NS };
        story.bursts(4, burst_ms, times * CAPACITY, 9000);
        (story.seen.connected, story.seen.served)
    };
    for (burst_ms, times) in [(1000, 30), (4000, 12)] {
        let ((some, _), (none, served)) =
            (connected(false, burst_ms, times), connected(true, burst_ms, times));
        assert!(some > CAPACITY / 2, "{burst_ms} ms: {some}");
        assert_eq!(none, 0, "{burst_ms} ms");
        assert!(served > 10 * CAPACITY, "{burst_ms} ms: {served}");
    }
}
