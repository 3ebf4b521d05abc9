// SPDX-License-Identifier: Apache-2.0 OR MIT
//! close_swap, "TCP with Client Negotiation": the column of Faber's Table 4 that is about it, a test
//! a cell (Faber, Touch and Yue, "The TIME-WAIT state in TCP and Its Effect on Busy Servers",
//! sections 4.1 and 6). The kernel's own sockets are at both ends, and a router between them counts.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use tidegate_lab::{Counters, skip_without};
use tidegate_tests::waits::settled;
use tidegate_tests::{AsToday, First, Nginx, Passed, Routed, TODAY, Tally, skip_without_root};

const VISITS: u16 = 40;
const ALL: u64 = VISITS as u64;
const HTTP: u16 = 8080;
const NGINX: (&str, &str) = ("nginx", "nginx-light");

/// The hosts of all cells, since a guard takes its time to start; and how it was before. Nothing of
/// ours runs on the server's.
struct Column {
    routed: Routed,
    today: AsToday,
    /// Where there is one, with its reply.
    nginx: Option<(Nginx, Vec<String>)>,
}

static COLUMN: LazyLock<Mutex<Column>> = LazyLock::new(|| {
    let mut routed = Routed::new("close-swap-cells");
    let today = routed.as_today(VISITS);
    let nginx = (!skip_without("nginx", &[NGINX])).then(|| {
        let nginx = Nginx::start(routed.server(), &[&HTTP.to_string()]);
        (nginx, routed.reply(HTTP))
    });
    routed.guard_client("close_swap = true");
    routed.client_afar();
    Mutex::new(Column { routed, today, nginx })
});

fn column() -> MutexGuard<'static, Column> {
    COLUMN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// "Reduces TIME-WAIT Loading: Yes."
#[test]
fn it_reduces_time_wait_loading() {
    if skip_without_root("it_reduces_time_wait_loading") {
        return;
    }
    let Column { routed, today, .. } = &mut *column();
    assert_eq!(today.waits, (ALL, 0), "today the server waits");
    let client = Tally::of(routed.client());
    let visited = routed.visits(routed.at(TODAY), VISITS, |_| First::Server);
    settled("each is held", || client.since("swapped") == ALL);
    settled("no kernel waits", || routed.waits(&visited) == (0, 0));
}

/// "Compatible With Current Protocols: Yes." Whoever closes first, and how, no connection is reset
/// before it is over: the server's kernel counts none.
#[test]
fn it_is_compatible_with_current_protocols() {
    if skip_without_root("it_is_compatible_with_current_protocols") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let client = Tally::of(routed.client());
    let before = Counters::of(routed.server()).expect("counters");
    routed.visits(routed.at(TODAY), VISITS, |i| First::ALL[usize::from(i) % First::ALL.len()]);
    settled("where the server closed first, they swapped", || client.since("swapped") > 0);
    let counted = Counters::of(routed.server()).and_then(|now| now.since(&before));
    let counted = counted.expect("counters");
    assert_eq!(counted.get("TcpPassiveOpens").expect("a counter"), i64::from(VISITS));
    assert_eq!(counted.get("TcpEstabResets").expect("a counter"), 0);
}

/// "Changes Are Effective If Only The Client Is Modified: Yes." The server is nginx on a host where
/// nothing of ours runs.
#[test]
fn it_is_effective_if_only_the_client_is_modified() {
    if skip_without("it_is_effective_if_only_the_client_is_modified", &[NGINX]) {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let client = Tally::of(routed.client());
    (0..VISITS).for_each(|_| drop(routed.reply(HTTP)));
    settled("each is held", || client.since("swapped") == ALL);
    let at_nginx = || {
        let from = format!(":{HTTP} ");
        let rows = routed.server().output(routed.server().command("ss -Htn state time-wait"));
        rows.expect("ss").lines().filter(|row| row.contains(&from)).count()
    };
    // The reply of the time before.
    settled("nginx's host does not wait", || at_nginx() <= 1);
}

/// "Allows System To Prevent TIME-WAIT Assassination: No." A server that prevents it has nothing of
/// close_swap; "interactions … do not compromise TIME-WAIT guarantees": both wait.
#[test]
fn a_server_that_prevents_assassination_does_not_benefit() {
    if skip_without_root("a_server_that_prevents_assassination_does_not_benefit") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let (client, resets) = (Tally::of(routed.client()), routed.passed(Passed::Resets));
    routed.server().sysctl("net.ipv4.tcp_rfc1337", 1).expect("a sysctl");
    let visited = routed.visits(routed.at(TODAY), VISITS, |_| First::Server);
    settled("the client waits", || client.since("swapped") == ALL);
    settled("RSTs came there", || routed.passed(Passed::Resets) >= resets + ALL);
    assert_eq!(routed.waits(&visited), (ALL, 0), "the server waits as well");
    routed.server().sysctl("net.ipv4.tcp_rfc1337", 0).expect("a sysctl");
}

/// "No Changes To Transport Protocol: No." A RST where there was none.
#[test]
fn the_transport_protocol_is_changed() {
    if skip_without_root("the_transport_protocol_is_changed") {
        return;
    }
    let Column { routed, today, .. } = &mut *column();
    assert_eq!(today.resets, 0);
    let before = routed.passed(Passed::Resets);
    routed.visits(routed.at(TODAY), VISITS, |_| First::Server);
    settled("a RST each", || routed.passed(Passed::Resets) >= before + ALL);
}

/// "No Changes To Application Protocols: Yes." nginx, the requests and the replies are what they were.
#[test]
fn the_application_protocol_is_unchanged() {
    if skip_without("the_application_protocol_is_unchanged", &[NGINX]) {
        return;
    }
    let Column { routed, nginx, .. } = &mut *column();
    let (_, before) = nginx.as_ref().expect("it is there");
    assert!(before[0].starts_with("HTTP/1.1 200"), "{before:?}");
    let client = Tally::of(routed.client());
    assert_eq!(routed.reply(HTTP), *before);
    settled("it was swapped", || client.since("swapped") == 1);
}

/// "Adds No Packet Exchanges To Modified Protocol: No." One RST a connection.
#[test]
fn it_adds_a_reset() {
    if skip_without_root("it_adds_a_reset") {
        return;
    }
    let Column { routed, today, .. } = &mut *column();
    let length = routed.usual_length(routed.at(TODAY), First::Server);
    assert_eq!(length, today.length + 1, "segments a connection");
}

/// "TIME-WAIT Allocation Is A Requirement of Connection Establishment: No." Nothing of the handshake
/// is about it. (A client without room for what it would hold connects all the same:
/// `who_cannot_be_remembered_waits_at_the_usual_end`.)
#[test]
fn it_is_no_requirement_of_establishment() {
    if skip_without_root("it_is_no_requirement_of_establishment") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let client = Tally::of(routed.client());
    routed.visits(routed.at(TODAY), VISITS, |_| First::Server);
    assert_eq!(routed.named(), [0; 3], "SYNs, SYN/ACKs and ACKs that name an end");
    for name in ["agreed_here", "agreed_there", "unspoken", "refused"] {
        assert_eq!(client.since(name), 0, "{name}");
    }
    settled("each is held", || client.since("swapped") == ALL);
}
