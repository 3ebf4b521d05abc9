// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT (Faber, Touch and Yue, 1999), with the kernel's own sockets at both ends.

use std::net::SocketAddr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::Namespace;
use tidegate_tests::{
    CLIENT_V4, CLIENT_V6, First, Guard, SERVER_V4, SERVER_V6, Stage, close_first, kernel_time_wait,
    serve_closers, skip_without_root,
};

const PORT: u16 = 80;
/// From here on the clients have ports, each its own.
const FIRST_PORT: u16 = 20_000;

fn families() -> [(&'static str, &'static str); 2] {
    [(CLIENT_V4, SERVER_V4), (CLIENT_V6, SERVER_V6)]
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

fn guard(namespace: &Namespace, config: &str) -> Guard {
    let path = format!("/run/{}.toml", namespace.label());
    namespace.place_file(&path, config).expect("a file");
    Guard::start(namespace, &["--config", &path])
}

/// Connections one after the other, closed first as `first` says of each.
fn visits(stage: &Stage, count: u16, first: impl Fn(u16) -> First + Send + 'static) {
    stage.client.run(move || {
        for i in 0..count {
            let (own, server) = families()[usize::from(i % 2)];
            let first = first(i / 2);
            close_first(at(own, FIRST_PORT + i), at(server, PORT), first)
                .unwrap_or_else(|e| panic!("connection {i}, {first:?}: {e}"));
        }
    });
}

fn time_wait(namespace: &Namespace) -> Value {
    tidegate_tests::status(namespace)["time_wait"].clone()
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of:#}"))
}

fn count(of: &Value, name: &str) -> u64 {
    of["counts"][name].as_u64().unwrap_or(0)
}

/// Pairs held in a namespace: by the kernel, by us.
fn held(namespace: &Namespace) -> (u64, u64) {
    let status = time_wait(namespace);
    (kernel_time_wait(namespace).len() as u64, number(&status, "held_by_us"))
}

/// The last segments of a connection are under way when its programs are done.
fn settled(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        if is() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    assert!(is(), "{what}");
}

/// Faber, section 4: "The <RST> packet removes the TCB in TIME-WAIT state from the server; the
/// explicit transition to a TIME-WAIT state in the client preserves correct TCP behavior."
#[test]
fn close_swap_moves_time_wait_to_a_client_that_closed_second() {
    if skip_without_root("close_swap_moves_time_wait_to_a_client_that_closed_second") {
        return;
    }
    let stage = Stage::new("close-swap");
    serve_closers(&stage.server, PORT);
    visits(&stage, 20, |_| First::Server);
    settled("today the server waits", || kernel_time_wait(&stage.server).len() == 20);

    let stage = Stage::new("close-swap");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
    visits(&stage, 200, |i| if i % 2 == 0 { First::Server } else { First::ServerHalf });
    settled("the server waits for nothing", || kernel_time_wait(&stage.server).is_empty());
    let status = time_wait(&stage.client);
    assert_eq!(number(&status, "held_by_us"), 200, "{status:#}");
    assert_eq!(count(&status, "swapped"), 200, "{status:#}");
    assert_eq!(kernel_time_wait(&stage.client).len(), 0);
    guard.stop();
}

/// "The behavior of an active close is unaffected."
#[test]
fn close_swap_leaves_an_active_close_as_it_is() {
    if skip_without_root("close_swap_leaves_an_active_close_as_it_is") {
        return;
    }
    let stage = Stage::new("swap-active");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
    visits(&stage, 40, |i| if i % 2 == 0 { First::Client } else { First::ClientHalf });
    settled("the client's kernel waits", || held(&stage.client) == (40, 0));
    assert!(kernel_time_wait(&stage.server).is_empty());
    guard.stop();
}

/// "If the client <RST> is lost, both server and client remain in TIME-WAIT state"; so they do
/// where the server ignores it, as RFC 1337 would have it.
#[test]
fn a_lost_rst_leaves_both_waiting() {
    if skip_without_root("a_lost_rst_leaves_both_waiting") {
        return;
    }
    for how in ["lost", "ignored"] {
        let stage = Stage::new("lost-rst");
        serve_closers(&stage.server, PORT);
        if how == "lost" {
            let table = "table inet t {\nchain c {\ntype filter hook prerouting priority -300\n\
                         tcp flags & rst == rst drop\n}\n}\n";
            stage.server.place_file("/run/drop.nft", table).expect("a file");
            let load = stage.server.command("nft -f /run/drop.nft");
            stage.server.output(load).expect("nft takes it");
        } else {
            stage.server.sysctl("net.ipv4.tcp_rfc1337", 1).expect("a sysctl");
        }
        let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\n");
        visits(&stage, 20, |_| First::Server);
        settled(&format!("{how}: both wait"), || {
            kernel_time_wait(&stage.server).len() == 20 && held(&stage.client) == (0, 20)
        });
        guard.stop();
    }
}

/// A table without room leaves TIME-WAIT where TCP has it.
#[test]
fn who_cannot_be_remembered_waits_at_the_usual_end() {
    if skip_without_root("who_cannot_be_remembered_waits_at_the_usual_end") {
        return;
    }
    let stage = Stage::new("swap-full");
    serve_closers(&stage.server, PORT);
    let guard = guard(&stage.client, "[time_wait]\nclose_swap = true\nentries = 8\n");
    visits(&stage, 20, |_| First::Server);
    settled("eight here, twelve there", || {
        kernel_time_wait(&stage.server).len() == 12 && held(&stage.client) == (0, 8)
    });
    let status = time_wait(&stage.client);
    assert_eq!((number(&status, "table_bytes"), count(&status, "no_room")), (512, 12));
    guard.stop();
}

/// Only where the destination says so: the longest network counts.
#[test]
fn a_destination_has_its_own_rules() {
    if skip_without_root("a_destination_has_its_own_rules") {
        return;
    }
    let stage = Stage::new("destination");
    serve_closers(&stage.server, PORT);
    let config = format!(
        "[time_wait]\nclose_swap = true\n[[destination]]\nnetwork = \"{SERVER_V4}/32\"\n\
         close_swap = false\n"
    );
    let guard = guard(&stage.client, &config);
    visits(&stage, 20, |_| First::Server);
    settled("IPv4 is left alone", || {
        kernel_time_wait(&stage.server).len() == 10 && held(&stage.client) == (0, 10)
    });
    guard.stop();
    let left = stage.client.output(stage.client.command("ls /sys/fs/bpf")).expect("ls");
    assert!(!left.contains("tidegate"), "nothing is left: {left}");
}

/// A stage whose server and client negotiate, each with these lines of its own.
fn negotiating(label: &str, server: &str, client: &str) -> (Stage, Vec<Guard>) {
    let stage = Stage::new(label);
    serve_closers(&stage.server, PORT);
    let mut guards = Vec::new();
    if !server.is_empty() {
        let config = format!("[[listener]]\nport = {PORT}\nmechanism = \"default\"\n{server}\n");
        guards.push(guard(&stage.server, &config));
    }
    if !client.is_empty() {
        guards.push(guard(&stage.client, &format!("[time_wait]\n{client}\n")));
    }
    // The listeners stood before: the daemon has them ask about their SYN/ACKs in a tick.
    sleep(Duration::from_millis(400));
    (stage, guards)
}

/// Five ways to close, in an order that no one knows.
fn any(seed: u64) -> impl Fn(u16) -> First + Send + 'static {
    move |i| {
        let drawn = (seed ^ u64::from(i)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        First::ALL[drawn as usize % First::ALL.len()]
    }
}

/// RSTs that a namespace's kernel sent.
fn resets_sent(namespace: &Namespace) -> u64 {
    let snmp = namespace.read_file("/proc/thread-self/net/snmp").expect("counters");
    let mut rows = snmp.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (rows.next().expect("names"), rows.next().expect("values"));
    let at = names.split(' ').position(|name| name == "OutRsts").expect("a counter");
    values.split(' ').nth(at).and_then(|v| v.parse().ok()).expect("a number")
}

/// All that wait, by end: the server's and the client's, kernel and table together.
fn waiting(stage: &Stage) -> (u64, u64) {
    let of = |namespace: &Namespace| {
        let (kernel, us) = held(namespace);
        kernel + us
    };
    (of(&stage.server), of(&stage.client))
}

/// "the TIME-WAIT holder will enter TIME-WAIT and the other endpoint will enter CLOSED,
/// regardless of which end closed actively and which (if either) passively."
fn the_agreed_end_waits(
    label: &str,
    connections: u16,
    client: &str,
    server: &str,
    at_server: bool,
) {
    let (stage, guards) = negotiating(
        label,
        &format!("time_wait = \"{server}\""),
        &format!("negotiate = \"{client}\""),
    );
    let seed = label.bytes().fold(7, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b));
    visits(&stage, connections, any(seed));
    let all = u64::from(connections);
    let agreed = if at_server { (all, 0) } else { (0, all) };
    let deadline = Instant::now() + Duration::from_secs(3);
    let mut found = waiting(&stage);
    while found != agreed && Instant::now() < deadline {
        sleep(Duration::from_millis(50));
        found = waiting(&stage);
    }
    let (there, here) = (time_wait(&stage.server), time_wait(&stage.client));
    assert_eq!(found, agreed, "{client} and {server} wait: {there:#} {here:#}");
    for (status, holds) in [(&there, at_server), (&here, !at_server)] {
        let [yes, no] = ["agreed_here", "agreed_there"].map(|name| count(status, name));
        let expected = if holds { (all, 0) } else { (0, all) };
        assert_eq!((yes, no), expected, "{status:#}");
    }
    // Not a packet more: what ends the kernel's TIME_WAIT stays on its host.
    assert_eq!((resets_sent(&stage.server), resets_sent(&stage.client)), (0, 0));
    guards.into_iter().for_each(Guard::stop);
}

#[test]
fn the_client_waits_where_both_name_it() {
    if skip_without_root("the_client_waits_where_both_name_it") {
        return;
    }
    the_agreed_end_waits("tw-client", 600, "client", "client", false);
}

#[test]
fn the_server_waits_where_both_name_it() {
    if skip_without_root("the_server_waits_where_both_name_it") {
        return;
    }
    the_agreed_end_waits("tw-server", 600, "server", "server", true);
}

/// Step 2: the server has the choice, and a client that does not insist takes it.
#[test]
fn the_servers_choice_counts() {
    if skip_without_root("the_servers_choice_counts") {
        return;
    }
    the_agreed_end_waits("tw-choice", 200, "client", "server", true);
    the_agreed_end_waits("tw-choice", 200, "server", "client", false);
}

/// "If the server returned no TW-Negotiate option, the connection will use current TCP semantics"
#[test]
fn with_a_peer_that_does_not_speak_it_tcp_is_as_it_is() {
    if skip_without_root("with_a_peer_that_does_not_speak_it_tcp_is_as_it_is") {
        return;
    }
    for (server, client) in [("", "negotiate = \"client\""), ("time_wait = \"client\"", "")] {
        let (stage, guards) = negotiating("tw-alone", server, client);
        visits(&stage, 40, |i| if i % 2 == 0 { First::Client } else { First::Server });
        settled("who closed first waits", || {
            let kernel = |n: &Namespace| kernel_time_wait(n).len();
            (kernel(&stage.server), kernel(&stage.client)) == (20, 20)
        });
        if !client.is_empty() {
            assert_eq!(count(&time_wait(&stage.client), "unspoken"), 40);
        }
        guards.into_iter().for_each(Guard::stop);
    }
}

/// "If not it aborts the connection with an <RST> packet … leaves no extra state at either
/// endpoint; the server returns to LISTEN, and the client closes the connection."
#[test]
fn a_choice_that_is_not_acceptable_is_reset() {
    if skip_without_root("a_choice_that_is_not_acceptable_is_reset") {
        return;
    }
    for (server, client) in [("server", "client"), ("client", "server")] {
        let (stage, guards) = negotiating(
            "tw-refused",
            &format!("time_wait = \"{server}\""),
            &format!("negotiate = \"{client}\"\ninsist = true"),
        );
        stage.client.run(|| {
            for i in 0..20 {
                let (own, to) = families()[usize::from(i % 2)];
                let refused = close_first(at(own, FIRST_PORT + i), at(to, PORT), First::Client);
                let refused = refused.expect_err("it is reset");
                assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
            }
        });
        assert_eq!(count(&time_wait(&stage.client), "refused"), 20);
        settled("no state is left", || {
            let sockets = stage.server.output(stage.server.command("ss -Htan state all"));
            !sockets.expect("ss").contains(&FIRST_PORT.to_string()[..3])
                && waiting(&stage) == (0, 0)
        });
        guards.into_iter().for_each(Guard::stop);
    }
}

/// Has a router's firewall take the option out of some segments, in the server's namespace:
/// what comes in, or what goes out.
fn strip(namespace: &Namespace, hook: &str, flags: &str) {
    let table = format!(
        "table inet strip {{\nchain c {{\ntype filter hook {hook} priority -300\n\
         tcp flags & (syn | ack) == {flags} reset tcp option 253\n}}\n}}\n"
    );
    namespace.place_file("/run/strip.nft", table).expect("a file");
    namespace.output(namespace.command("nft -f /run/strip.nft")).expect("nft takes it");
}

/// A middlebox that takes the option out of SYN, SYN/ACK or ACK: every connection works, and
/// one end waits at least, whatever each of the two believes.
#[test]
fn an_option_stripped_on_the_way_leaves_no_pair_unguarded() {
    if skip_without_root("an_option_stripped_on_the_way_leaves_no_pair_unguarded") {
        return;
    }
    for holder in ["client", "server"] {
        for (hook, flags) in
            [("prerouting", "syn"), ("output", "(syn | ack)"), ("prerouting", "ack")]
        {
            let (stage, guards) = negotiating(
                "tw-strip",
                &format!("time_wait = \"{holder}\""),
                &format!("negotiate = \"{holder}\""),
            );
            strip(&stage.server, hook, flags);
            visits(&stage, 100, any(9));
            sleep(Duration::from_millis(600));
            let (there, here) = waiting(&stage);
            assert!(there + here >= 100, "{holder}, {flags} at {hook}: {there} and {here} wait");
            let agreed = count(&time_wait(&stage.server), "agreed_there");
            assert_eq!(agreed, 0, "the server knows of no agreement that the client holds");
            guards.into_iter().for_each(Guard::stop);
        }
    }
}

/// The long form: 100,000 connections, and every one held by the agreed end. In parts, each of
/// which is over before the first block of it is.
#[test]
#[ignore = "half an hour: 100,000 connections"]
fn the_agreed_end_waits_in_100_percent() {
    if skip_without_root("the_agreed_end_waits_in_100_percent") {
        return;
    }
    for part in 0..20 {
        let label = format!("tw-long-{part}");
        the_agreed_end_waits(&label, 2500, "client", "client", false);
        the_agreed_end_waits(&label, 2500, "server", "server", true);
    }
}

/// A killed daemon leaves all of it standing; the next one finds the pairs that are held.
#[test]
fn who_waits_does_not_depend_on_the_daemon() {
    if skip_without_root("who_waits_does_not_depend_on_the_daemon") {
        return;
    }
    let (stage, mut guards) =
        negotiating("tw-killed", "time_wait = \"client\"", "negotiate = \"client\"");
    let client = guards.pop().expect("two guards");
    visits(&stage, 20, |_| First::Server);
    client.kill();
    stage.client.run(|| {
        for i in 20..40 {
            let (own, server) = families()[usize::from(i % 2)];
            close_first(at(own, FIRST_PORT + i), at(server, PORT), First::Server).expect("served");
        }
    });
    settled("held without a daemon", || waiting(&stage) == (0, 40));
    let client = guard(&stage.client, "[time_wait]\nnegotiate = \"client\"\n");
    assert_eq!(waiting(&stage), (0, 40));
    stage.client.run(|| {
        let to = at(SERVER_V4, PORT);
        close_first(at(CLIENT_V4, FIRST_PORT + 40), to, First::Server).expect("served");
        // Time stamps: nothing of the connection before can be taken for this one's.
        close_first(at(CLIENT_V4, FIRST_PORT), to, First::Server).expect("opened again");
    });
    settled("one more, and one again", || waiting(&stage) == (0, 41));
    assert_eq!(count(&time_wait(&stage.client), "reopened"), 2, "a SYN and a SYN/ACK");
    client.stop();
    guards.into_iter().for_each(Guard::stop);
}
