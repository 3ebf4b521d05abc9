// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TW-Negotiate (Faber, Touch and Yue, 1999, section 3), with the kernel's own sockets at both
//! ends, which close in every order.

use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use tidegate_lab::{Counters, Namespace};
use tidegate_tests::waits::{
    FIRST_PORT, PORT, at, count, families, guard, held, negotiating, settled, time_wait, visit,
    visits, waiting, waiting_at_rest,
};
use tidegate_tests::{
    First, Guard, SERVER_V4, SERVER_V6, Stage, close_first, kernel_time_wait, serve_closers,
    skip_without_root,
};

/// Five ways to close, in an order that no one knows.
fn any(seed: u64) -> impl Fn(u16) -> First + Send + 'static {
    move |i| {
        let drawn = (seed ^ u64::from(i)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        First::ALL[drawn as usize % First::ALL.len()]
    }
}

/// RSTs that the kernels of both hosts sent, and segments that they sent again.
fn resets_and_repeats(stage: &Stage) -> (i64, i64) {
    let of_both = |name| {
        let of = |host| Counters::of(host).and_then(|of| of.get(name)).expect("a counter");
        of(&stage.server) + of(&stage.client)
    };
    (of_both("TcpOutRsts"), of_both("TcpRetransSegs"))
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
    let scene = negotiating(
        label,
        &format!("time_wait = \"{server}\""),
        &format!("negotiate = \"{client}\""),
    );
    the_agreed_end_waits_on(scene, label, connections, at_server);
}

/// The same, where the hosts are prepared.
fn the_agreed_end_waits_on(
    (stage, guards): (Stage, Vec<Guard>),
    label: &str,
    connections: u16,
    at_server: bool,
) {
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
    assert_eq!(found, agreed, "{label}: {there:#} {here:#}");
    for (status, holds) in [(&there, at_server), (&here, !at_server)] {
        let [yes, no] = ["agreed_here", "agreed_there"].map(|name| count(status, name));
        let expected = if holds { (all, 0) } else { (0, all) };
        assert_eq!((yes, no), expected, "{status:#}");
    }
    // Not a packet more: what ends the kernel's TIME_WAIT stays on its host. Only a segment that was
    // sent twice may find nobody where nobody waits.
    let (resets, repeats) = resets_and_repeats(&stage);
    assert!(resets <= repeats, "{label}: {resets} RSTs, {repeats} segments sent again");
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

/// Connections whose ends close by turns; as the kernel has it, who closed first waits.
fn forty_wait_as_today(stage: &Stage) {
    visits(stage, 40, First::by_turns);
    settled("who closed first waits", || {
        let kernel = |n: &Namespace| kernel_time_wait(n).len();
        (kernel(&stage.server), kernel(&stage.client)) == (20, 20)
    });
}

/// An end without room says nothing, and gives nobody's place up for what it did not say.
#[test]
fn who_finds_no_room_at_the_named_end_waits_as_today() {
    if skip_without_root("who_finds_no_room_at_the_named_end_waits_as_today") {
        return;
    }
    const VISITS: u16 = 20;
    let at_server = "time_wait = \"server\"\n[time_wait]\nentries = 8";
    let at_client = "negotiate = \"client\"\nentries = 8";
    for (server, client, first) in [
        (at_server, "negotiate = \"server\"", First::Client),
        ("time_wait = \"client\"", at_client, First::Server),
    ] {
        let (stage, guards) = negotiating("tw-full", server, client);
        let [named, other] = match first {
            First::Client => [&stage.server, &stage.client],
            _ => [&stage.client, &stage.server],
        };
        let counted = |host: &Namespace, event| count(&time_wait(host), event);
        for i in 0..VISITS {
            visit(&stage, Duration::ZERO, i..i + 1, move |_| first);
            // What is agreed for one has its cell before the next asks.
            settled("one end waits", || held(named).1 + held(other).0 == u64::from(i) + 1);
        }
        let agreed = counted(named, "agreed_here");
        assert!((1..=8).contains(&agreed), "{agreed} of {VISITS} agree, {first:?} closes first");
        let others = u64::from(VISITS) - agreed;
        assert_eq!((held(named), held(other)), ((0, agreed), (others, 0)));
        assert_eq!(counted(other, "agreed_there"), agreed, "{first:?} closes first");
        for (event, expected) in [("no_room", others), ("forgotten", 0), ("held", agreed)] {
            assert_eq!(counted(named, event), expected, "{event}, {first:?} closes first");
        }
        guards.into_iter().for_each(Guard::stop);
    }
}

/// A server that keeps nothing of a SYN, but gives a cookie for it, still names the client: the ACK
/// brings the name back. It does not name itself, since then a lost option would leave the pair
/// to a server that knows of nothing.
#[test]
fn a_cookie_names_the_client_and_never_the_server() {
    if skip_without_root("a_cookie_names_the_client_and_never_the_server") {
        return;
    }
    let cookies = |server: &Namespace| {
        let counters = Counters::of(server).expect("kernel counters");
        counters.get("TcpExtSyncookiesRecv").expect("a counter")
    };
    let scene_of = |choice: &str| {
        let scene = negotiating(
            "tw-cookie",
            &format!("time_wait = \"{choice}\""),
            "negotiate = \"client\"",
        );
        scene.0.server.sysctl("net.ipv4.tcp_syncookies", 2).expect("the sysctl");
        scene
    };
    let scene = scene_of("client");
    let server = scene.0.server.clone();
    the_agreed_end_waits_on(scene, "tw-cookie", 200, false);
    assert_eq!(cookies(&server), 200);

    let (stage, guards) = scene_of("server");
    forty_wait_as_today(&stage);
    assert_eq!(cookies(&stage.server), 40);
    assert_eq!(count(&time_wait(&stage.client), "unspoken"), 40);
    guards.into_iter().for_each(Guard::stop);
}

/// Both are to have this end wait; servers listen on `port`, and each host's configuration begins with
/// these lines, the server's first.
fn both_name(holder: &str, port: u16, before: [&str; 2]) -> (Stage, [Guard; 2]) {
    let stage = Stage::new("tw-unmet");
    stage.keep_order();
    for host in [&stage.server, &stage.client] {
        host.ip("link set lo up").expect("a loopback interface");
    }
    serve_closers(&stage.server, port);
    let listener = format!(
        "{}[[listener]]\nport = {port}\nmechanism = \"default\"\ntime_wait = \"{holder}\"\n",
        before[0]
    );
    let host = format!("{}[time_wait]\nnegotiate = \"{holder}\"\n", before[1]);
    let guards = [guard(&stage.server, &listener), guard(&stage.client, &host)];
    // As `negotiating` has it.
    sleep(Duration::from_millis(400));
    (stage, guards)
}

/// The end that is named could hold nothing back, and says that it will not.
fn nothing_is_promised((stage, guards): (Stage, [Guard; 2])) {
    forty_wait_as_today(&stage);
    for host in [&stage.server, &stage.client] {
        let status = time_wait(host);
        for name in ["agreed_here", "agreed_there", "held"] {
            assert_eq!(count(&status, name), 0, "{name}: {status:#}");
        }
    }
    assert_eq!(count(&time_wait(&stage.client), "unspoken"), 40);
    guards.into_iter().for_each(Guard::stop);
}

/// An interface that is none of Ethernet, or that the configuration leaves out.
#[test]
fn who_connects_where_no_program_stands_waits_as_today() {
    if skip_without_root("who_connects_where_no_program_stands_waits_as_today") {
        return;
    }
    const ELSEWHERE: &str = "interfaces = [\"lo\"]\n";
    nothing_is_promised(both_name("client", PORT, ["", ELSEWHERE]));
    nothing_is_promised(both_name("server", PORT, [ELSEWHERE, ""]));
}

/// Has a host's own firewall change the port of what comes in, or of what goes out.
fn translate(host: &Namespace, table: &str) {
    host.place_file("/run/nat.nft", table.to_owned()).expect("a file");
    host.output(host.command("nft -f /run/nat.nft")).expect("nft takes it");
}

/// What is held is told by addresses and ports of the socket, and a SYN by those on the wire.
#[test]
fn who_connects_through_nat_of_its_own_waits_as_today() {
    if skip_without_root("who_connects_through_nat_of_its_own_waits_as_today") {
        return;
    }
    const BEHIND: u16 = 8080;
    let chain = |hook: &str, rule: &str| {
        format!(
            "{{\nchain c {{\ntype nat hook {hook} priority -100\ntcp dport {PORT} {rule}\n}}\n}}\n"
        )
    };
    let scene = both_name("server", BEHIND, [""; 2]);
    let redirected = chain("prerouting", &format!("redirect to :{BEHIND}"));
    translate(&scene.0.server, &format!("table inet nat {redirected}"));
    nothing_is_promised(scene);

    let scene = both_name("client", BEHIND, [""; 2]);
    let [v4, v6] = [at(SERVER_V4, BEHIND), at(SERVER_V6, BEHIND)]
        .map(|to| chain("output", &format!("dnat to {to}")));
    translate(&scene.0.client, &format!("table ip nat {v4}table ip6 nat {v6}"));
    nothing_is_promised(scene);
}

/// "If the server returned no TW-Negotiate option, the connection will use current TCP semantics"
#[test]
fn with_a_peer_that_does_not_speak_it_tcp_is_as_it_is() {
    if skip_without_root("with_a_peer_that_does_not_speak_it_tcp_is_as_it_is") {
        return;
    }
    for (server, client) in [("", "negotiate = \"client\""), ("time_wait = \"client\"", "")] {
        let (stage, guards) = negotiating("tw-alone", server, client);
        forty_wait_as_today(&stage);
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
         tcp flags & (syn | ack) == {flags} tcp option 253 exists counter reset tcp option 253\n}}\n}}\n"
    );
    namespace.place_file("/run/strip.nft", table).expect("a file");
    namespace.output(namespace.command("nft -f /run/strip.nft")).expect("nft takes it");
}

/// The segments that the firewall has taken it out of.
fn stripped(namespace: &Namespace) -> u64 {
    let listed = namespace.output(namespace.command("nft list table inet strip")).expect("nft");
    let (_, behind) = listed.split_once("counter packets ").expect("a counter");
    behind.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// A middlebox that takes the option out of SYN, SYN/ACK or ACK: every connection works, and
/// one end waits at least, whatever each of the two believes.
#[test]
fn an_option_stripped_on_the_way_leaves_no_pair_unguarded() {
    if skip_without_root("an_option_stripped_on_the_way_leaves_no_pair_unguarded") {
        return;
    }
    thread::scope(|scope| {
        for holder in ["client", "server"] {
            scope.spawn(move || no_pair_is_unguarded(holder));
        }
    });
}

fn no_pair_is_unguarded(holder: &str) {
    for (hook, flags) in [("prerouting", "syn"), ("output", "(syn | ack)"), ("prerouting", "ack")] {
        let (stage, guards) = negotiating(
            &format!("tw-strip-{holder}"),
            &format!("time_wait = \"{holder}\""),
            &format!("negotiate = \"{holder}\""),
        );
        strip(&stage.server, hook, flags);
        for (first, from) in First::ALL.into_iter().zip((0..).step_by(20)) {
            let (there, here) = waiting_at_rest(&stage);
            visit(&stage, Duration::ZERO, from..from + 20, move |_| first);
            let who = format!("{holder}, {flags} at {hook}: {first:?} closes first");
            settled(&who, || {
                let (now_there, now_here) = waiting(&stage);
                let (there, here) = (now_there - there, now_here - here);
                // Where both close at once either end may, of each pair.
                if first == First::Both { there + here >= 20 } else { there == 20 || here == 20 }
            });
        }
        let taken = stripped(&stage.server);
        assert!(taken >= 100, "{holder}, {flags} at {hook}: {taken} options were taken out");
        let agreed = count(&time_wait(&stage.server), "agreed_there");
        assert_eq!(agreed, 0, "the server knows of no agreement that the client holds");
        // Only of an ACK that lost it the client does not learn.
        if flags != "ack" {
            let agreed = count(&time_wait(&stage.client), "agreed_there");
            assert_eq!(agreed, 0, "{holder}, {flags}: nor does the client, that the server holds");
        }
        guards.into_iter().for_each(Guard::stop);
    }
}

/// The long form: 100,000 connections, and every one held by the agreed end. In parts, each of
/// which is over before the first block of it is.
#[test]
#[ignore = "minutes: 100,000 connections"]
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
