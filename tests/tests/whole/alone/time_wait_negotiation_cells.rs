// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TW-Negotiate: the column of Faber's Table 4 that is about it, a test a cell (Faber, Touch and
//! Yue, "The TIME-WAIT state in TCP and Its Effect on Busy Servers", sections 3 and 6). The kernel's
//! own sockets are at both ends, and a router between them counts.

use std::io::ErrorKind;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use tidegate_lab::{LabError, Namespace, skip_without};
use tidegate_tests::waits::settled;
use tidegate_tests::{
    AsToday, First, NAMES_CLIENT, NAMES_CLIENT_HTTP, NAMES_SERVER, Nginx, Passed, Routed, TODAY,
    Tally, skip_without_root,
};

const VISITS: u16 = 40;
const ALL: u64 = VISITS as u64;

/// The hosts of all cells, since a guard takes its time to start; and how it was before.
struct Column {
    routed: Routed,
    today: AsToday,
}

static COLUMN: LazyLock<Mutex<Column>> = LazyLock::new(|| {
    let mut routed = Routed::new("negotiation-cells");
    let today = routed.as_today(VISITS);
    routed.negotiate(false);
    Mutex::new(Column { routed, today })
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
    let Column { routed, today } = &mut *column();
    assert_eq!(today.waits, (ALL, 0), "today the server waits");
    let [server, client] = [Tally::of(routed.server()), Tally::of(routed.client())];
    let visited = routed.visits(routed.at(NAMES_CLIENT), VISITS, |_| First::Server);
    settled("each is held", || client.since("held") == ALL);
    settled("no kernel holds any", || routed.waits(&visited) == (0, 0));
    settled("each was left", || server.since("left") + server.since("left_late") == ALL);
}

/// "Compatible With Current Protocols: Yes." An end that speaks it and one that does not, either way
/// round: TCP is as it is, and no connection is reset.
#[test]
fn it_is_compatible_with_current_protocols() {
    if skip_without_root("it_is_compatible_with_current_protocols") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let [server, client] = [Tally::of(routed.server()), Tally::of(routed.client())];
    let resets = routed.passed(Passed::Resets);
    let spoken_to = routed.visits(routed.at(TODAY), VISITS, First::by_turns);
    let strangers = routed.strangers(NAMES_CLIENT, VISITS, First::by_turns);
    for visited in [&spoken_to, &strangers] {
        settled("who closed first waits", || routed.waits(visited) == (ALL / 2, ALL / 2));
    }
    assert_eq!((client.since("unspoken"), client.since("held")), (ALL, 0));
    assert_eq!(["agreed_here", "agreed_there"].map(|name| server.since(name)), [0, 0]);
    assert_eq!(routed.passed(Passed::Resets), resets);
}

/// "Changes Are Effective If Only The Client Is Modified: No."
#[test]
fn it_is_not_effective_if_only_the_client_is_modified() {
    if skip_without_root("it_is_not_effective_if_only_the_client_is_modified") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let (client, asked) = (Tally::of(routed.client()), routed.passed(Passed::NamedSyn));
    let visited = routed.visits(routed.at(TODAY), VISITS, |_| First::Server);
    settled("the server waits", || routed.waits(&visited) == (ALL, 0));
    assert_eq!((client.since("unspoken"), client.since("held")), (ALL, 0));
    assert!(routed.passed(Passed::NamedSyn) >= asked + ALL, "it was asked");
}

/// Hosts that ignore RSTs in TIME_WAIT. As long as this lives: the other cells' are the same.
struct Preventing([Namespace; 2]);

impl Preventing {
    fn on(routed: &Routed) -> Self {
        let hosts = Preventing([routed.server(), routed.client()].map(Clone::clone));
        hosts.set(1).expect("a sysctl");
        // The daemons look four times a second.
        sleep(Duration::from_millis(600));
        hosts
    }

    fn set(&self, rfc1337: u8) -> Result<(), LabError> {
        self.0.iter().try_for_each(|host| host.sysctl("net.ipv4.tcp_rfc1337", rfc1337))
    }
}

impl Drop for Preventing {
    fn drop(&mut self) {
        // A cell that fails says why.
        let _ = self.set(0);
    }
}

/// "Allows System To Prevent TIME-WAIT Assassination: Yes." Both hosts ignore RSTs in TIME_WAIT (RFC
/// 1337, section 3, fix F1), and still the end that was not agreed on does not wait: nothing of it
/// depends on a RST that the network could bring.
#[test]
fn both_ends_may_prevent_time_wait_assassination() {
    if skip_without_root("both_ends_may_prevent_time_wait_assassination") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let _preventing = Preventing::on(routed);
    let [server, client] = [Tally::of(routed.server()), Tally::of(routed.client())];
    let resets = routed.passed(Passed::Resets);
    let visited = routed.visits(routed.at(NAMES_CLIENT), VISITS, |_| First::Server);
    settled("each is held", || client.since("held") == ALL);
    settled("no kernel holds any", || routed.waits(&visited) == (0, 0));
    settled("each was left", || server.since("left") + server.since("left_late") == ALL);
    assert_eq!(routed.passed(Passed::Resets), resets);
}

/// "No Changes To Transport Protocol: No." An option in SYN, SYN/ACK and ACK.
#[test]
fn the_transport_protocol_is_changed() {
    if skip_without_root("the_transport_protocol_is_changed") {
        return;
    }
    let Column { routed, today } = &mut *column();
    assert_eq!(today.named, [0; 3]);
    let before = routed.named();
    routed.visits(routed.at(NAMES_CLIENT), VISITS, First::by_turns);
    // A segment may be sent again on a busy machine; the ACK's value is said until it was heard.
    for (now, before) in routed.named().into_iter().zip(before) {
        assert!(now >= before + ALL, "{now} after {before}");
    }
}

/// "No Changes To Application Protocols: Yes." nginx, the requests and the replies are what they were.
#[test]
fn the_application_protocol_is_unchanged() {
    if skip_without("the_application_protocol_is_unchanged", &[("nginx", "nginx-light")]) {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let client = Tally::of(routed.client());
    let _nginx = Nginx::start(routed.server(), &["8080", &NAMES_CLIENT_HTTP.to_string()]);
    let today = routed.reply(8080);
    assert!(today[0].starts_with("HTTP/1.1 200"), "{today:?}");
    assert_eq!((client.since("unspoken"), client.since("held")), (1, 0));
    assert_eq!(routed.reply(NAMES_CLIENT_HTTP), today);
    settled("the client waits", || client.since("held") == 1);
}

/// "Adds No Packet Exchanges To Modified Protocol: Yes." What ends the server's TIME_WAIT stays on
/// its host.
#[test]
fn it_adds_no_packet_exchange() {
    if skip_without_root("it_adds_no_packet_exchange") {
        return;
    }
    let Column { routed, today } = &mut *column();
    let (client, resets) = (Tally::of(routed.client()), routed.passed(Passed::Resets));
    let length = routed.usual_length(routed.at(NAMES_CLIENT), First::Server);
    assert_eq!(length, today.length, "segments a connection");
    assert_eq!(routed.passed(Passed::Resets), resets);
    assert_eq!(client.since("agreed_here"), 20, "it was negotiated");
}

/// "TIME-WAIT Allocation Is A Requirement of Connection Establishment: Yes." A client that insists
/// connects where its choice is the server's, and not where it is not. (A client that does not insist
/// takes the server's choice: that is ours, and is not in the paper's algorithm.)
#[test]
fn it_is_a_requirement_of_establishment() {
    if skip_without_root("it_is_a_requirement_of_establishment") {
        return;
    }
    let Column { routed, .. } = &mut *column();
    let client = Tally::of(routed.client());
    for _ in 0..VISITS {
        let refused = routed.visit(routed.insisted(NAMES_CLIENT), First::Client);
        assert_eq!(refused.expect_err("no agreement").kind(), ErrorKind::ConnectionRefused);
    }
    assert_eq!(client.since("refused"), ALL);
    routed.visits(routed.insisted(NAMES_SERVER), VISITS, First::by_turns);
    assert_eq!((client.since("refused"), client.since("agreed_there")), (ALL, ALL));
}
