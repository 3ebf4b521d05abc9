// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TW-Negotiate where TIME_WAIT ignores RST (net.ipv4.tcp_rfc1337 = 1; RFC 1337, section 3, fix F1).
//! Where no program has the connection any more when its last FIN comes, no TIME_WAIT is made. Where
//! one is to read the end yet it is, and what else ends that comes to nothing; the daemon ends it
//! instead, and while it does not run both ends wait.

use std::thread::sleep;
use std::time::Duration;

use tidegate_tests::waits::{number, settled, time_wait};
use tidegate_tests::{First, NAMES_CLIENT, NAMES_SERVER, Routed, Tally, skip_without_root};

const VISITS: u16 = 40;
const ALL: u64 = VISITS as u64;
const HALF: u64 = ALL / 2;

/// The ends by turns, each of which goes on reading to the end.
fn half_by_turns(i: u16) -> First {
    if i.is_multiple_of(2) { First::ServerHalf } else { First::ClientHalf }
}

#[test]
fn the_agreed_end_waits_where_time_wait_ignores_resets() {
    if skip_without_root("the_agreed_end_waits_where_time_wait_ignores_resets") {
        return;
    }
    let mut routed = Routed::new("rfc1337");
    routed.negotiate(true);
    for host in [routed.server(), routed.client()] {
        host.sysctl("net.ipv4.tcp_rfc1337", 1).expect("a sysctl");
    }
    // Daemons look at it four times a second, as long as they run.
    sleep(Duration::from_secs(2));
    let (to_client, to_server) = (routed.at(NAMES_CLIENT), routed.insisted(NAMES_SERVER));
    // Of the holder's half its kernel has what it closed first, and our table the rest; the other
    // has nothing, and every one that it closed first was ended by its daemon.
    for (to, kernels) in [(to_client, (0, HALF)), (to_server, (HALF, 0))] {
        let mut tallies = [Tally::of(routed.client()), Tally::of(routed.server())];
        if to == to_server {
            tallies.reverse();
        }
        let [holder, other] = tallies;
        let visited = routed.visits(to, VISITS, half_by_turns);
        settled("the agreed end waits", || routed.waits(&visited) == kernels);
        assert_eq!(holder.since("held"), HALF, "{to}");
        settled("ended by the daemon", || other.since("left_late") == HALF);
        assert_eq!((other.since("left"), other.since("held")), (0, 0), "{to}");
    }

    // Agreed, and not yet so: both wait, and status says who really does.
    routed.kill_server();
    let elsewhere = number(&time_wait(routed.server()), "held_elsewhere");
    let [server, client] = [Tally::of(routed.server()), Tally::of(routed.client())];
    let visited = routed.visits(to_client, VISITS, |_| First::ServerHalf);
    settled("the client waits", || client.since("held") == ALL);
    assert_eq!(routed.waits(&visited), (ALL, 0), "the server waits as well");
    assert_eq!(server.since("agreed_there"), ALL);
    assert_eq!(number(&time_wait(routed.server()), "held_elsewhere"), elsewhere);

    // Nobody has them any more: no daemon is needed.
    routed.client_afar();
    let client = Tally::of(routed.client());
    let closed = routed.visits(to_client, VISITS, |_| First::Server);
    settled("the client holds them", || client.since("held") == ALL);
    settled("the server left them", || server.since("left") == ALL);
    assert_eq!(routed.waits(&closed), (0, 0));
    routed.guard_server();
    settled("the next daemon ends them", || routed.waits(&visited) == (0, 0));
    settled("and says so", || server.since("left_late") == ALL);
    routed.stop();
}
