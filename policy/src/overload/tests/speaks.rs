// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who speaks first.

use super::telling::of_windows;
use super::*;

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
