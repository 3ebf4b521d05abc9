// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A router that takes the option of TW-Negotiate out of what it forwards (Faber, Touch and Yue,
//! 1999, section 3: "or will fall back to TCP semantics if either side does not support negotiation").
//! Nothing is refused, not even where the client insists, and both ends count what they know.

use std::net::SocketAddr;

use tidegate_tests::waits::settled;
use tidegate_tests::{First, NAMES_CLIENT, NAMES_SERVER, Passed, Routed, Tally, skip_without_root};

const VISITS: u16 = 40;
const ALL: u64 = VISITS as u64;
const HALF: u64 = ALL / 2;

const SYN: &str = "syn";
const SYN_ACK: &str = "(syn | ack)";

/// Connections of which each end closes half first, while the router strips these segments:
/// `at_server` is what the server agreed to hold, as it believes, and holds though it closed second.
fn stripped(routed: &mut Routed, flags: &str, to: SocketAddr, at_server: (u64, u64)) {
    let what = format!("{flags} to {to}");
    routed.strip(flags);
    let [server, client] = [Tally::of(routed.server()), Tally::of(routed.client())];
    let before = routed.named();
    let visited = routed.visits(to, VISITS, First::by_turns);
    // The kernels', as today: who closed first waits.
    settled(&what, || routed.waits(&visited) == (HALF, HALF));
    let (agreed, held) = at_server;
    settled(&what, || server.since("held") == held);
    assert_eq!(server.since("agreed_here"), agreed, "{what}");
    assert_eq!(client.since("unspoken"), ALL, "{what}");
    for name in ["agreed_here", "held", "swapped"] {
        assert_eq!(client.since(name), 0, "{what}: {name} at the client");
    }
    for (end, tally) in [("server", &server), ("client", &client)] {
        for name in ["agreed_there", "refused", "left", "left_late", "forgotten"] {
            assert_eq!(tally.since(name), 0, "{what}: {name} at the {end}");
        }
    }
    let now = routed.named();
    // A SYN may be sent again on a busy machine.
    assert_eq!(now[0] >= before[0] + ALL, flags != SYN, "{what}: SYNs that name an end");
    assert_eq!(now[1..], before[1..], "{what}: nothing was answered, and nothing agreed");
    assert_eq!(routed.passed(Passed::Resets), 0, "{what}: nothing is refused");
}

#[test]
fn a_router_that_strips_the_option_leaves_todays_tcp() {
    if skip_without_root("a_router_that_strips_the_option_leaves_todays_tcp") {
        return;
    }
    let mut routed = Routed::new("stripped");
    routed.negotiate(true);
    let (client, server) = (routed.at(NAMES_CLIENT), routed.insisted(NAMES_SERVER));
    // The server was not asked, and does not answer.
    stripped(&mut routed, SYN, client, (0, 0));
    stripped(&mut routed, SYN, server, (0, 0));
    // The client has no answer, and does not confirm what the server chose.
    stripped(&mut routed, SYN_ACK, client, (0, 0));
    // Not today's TCP to the letter: a server that said it would hold cannot know that nobody heard
    // it, for it may be the ACK's option that was taken out. It holds what it closed second as well.
    stripped(&mut routed, SYN_ACK, server, (ALL, HALF));
    routed.stop();
}
