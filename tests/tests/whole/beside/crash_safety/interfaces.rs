// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interfaces come and go, and their addresses.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate_tests::{
    Answer, Guard, SERVER_V4, Stage, Stalled, bpf, bridge, fetch, fill, skip_without_root, until,
};

use super::{
    BACKLOG, Configuration, Full, PATIENCE, PLACES, arguments, nothing_is_left, objects, server,
};

#[test]
fn an_interface_that_comes_back_is_guarded_again() {
    if skip_without_root("an_interface_that_comes_back_is_guarded_again") {
        return;
    }
    for hook in ["ip", "driver"] {
        let stage = Stage::new("unplugged");
        let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
        let clients = fill(&stage.client, server(80), PLACES);
        let mut guard = Guard::start(&stage.server, &arguments("reserv rst-syn", hook));
        let mut all = objects(&guard, &stage);
        let attached = |of: &serde_json::Value| of["attached"].as_array().expect("links").len();
        let before = attached(&guard.status());

        stage.server.ip("link del srv0").expect("an interface to unplug");
        until("the links of the interface are given up", || {
            let now = guard.status();
            let links = now["attached"].as_array().expect("links").clone();
            // The loopback's and netfilter's.
            links.len() == before - if hook == "driver" { 2 } else { 1 }
                && now["daemon_pid"] == guard.pid()
        });
        let tid = stage.client.tid();
        let words = format!("link add name srv0 type veth peer name cli0 netns {tid}");
        stage.server.ip(&words).expect("a new veth");
        for (namespace, name, address) in
            [(&stage.server, "srv0", "10.77.0.1/24"), (&stage.client, "cli0", "10.77.0.2/24")]
        {
            namespace.ip(&format!("address add {address} dev {name}")).expect("an address");
            namespace.ip(&format!("link set {name} up")).expect("an interface that is up");
        }
        if hook == "driver" {
            stage.receive_offload();
        }
        let plugged = Instant::now();
        until("the new interface is guarded", || attached(&guard.status()) == before);
        // Rests of two seconds are allowed, and then it has to look, on a busy machine too.
        assert!(plugged.elapsed() < Duration::from_secs(4), "within a rest");
        let seen = fetch(&stage.client, server(80), PATIENCE);
        assert_eq!(seen.answer, Answer::Refused, "the guard stands on the new one, at {hook}");
        drop(clients);
        all.extend(objects(&guard, &stage));
        guard.terminate();
        assert!(guard.complaint().is_none_or(|line| line.is_empty()), "nothing to complain of");
        nothing_is_left(&stage, &all);
    }
}

/// No card is to begin anew because an application does.
#[test]
fn an_interface_is_let_alone_while_no_socket_is_bound_to_another() {
    if skip_without_root("an_interface_is_let_alone_while_no_socket") {
        return;
    }
    let stage = Stage::new("rebound");
    stage.receive_offload();
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let mut guard = Guard::start(&stage.server, &arguments("rst-syn", "driver"));
    let before = guard.status()["attached"].clone();
    drop(listener);
    // By then the daemon has looked.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(guard.status()["attached"], before, "it is guarded where it was");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.terminate();
    assert!(guard.complaint().is_none_or(|line| line.is_empty()), "nothing to complain of");
}

/// Of two instances, say, each at an address of its own, one starts anew.
#[test]
fn an_interface_is_let_alone_while_a_socket_is_bound_to_another() {
    if skip_without_root("an_interface_is_let_alone_while_a_socket") {
        return;
    }
    let stage = Stage::new("rebound-one");
    stage.receive_offload();
    bridge(&stage.server, "br0", "10.78.0.1/24");
    let listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let beside: SocketAddr = "10.78.0.1:80".parse().expect("an address");
    let _beside = Stalled::new(&stage.server, beside, BACKLOG);
    let guard = Guard::start(&stage.server, &arguments("rst-syn", "driver"));
    let before = bpf::pinned(&stage.server);
    drop(listener);
    // By then the daemon has looked.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(bpf::pinned(&stage.server), before, "it has the links that it had");
    let _listener = Stalled::new(&stage.server, server(80), BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
}

/// A card may lose its carrier when its driver takes a program or gives one up, and its address with that: it would
/// begin anew without end.
#[test]
fn an_interface_is_let_alone_while_no_other_has_its_address() {
    if skip_without_root("an_interface_is_let_alone_while_no_other") {
        return;
    }
    let stage = Stage::new("readdressed");
    stage.receive_offload();
    let host = &stage.server;
    let _listener = Stalled::new(host, server(80), BACKLOG);
    let words = [&arguments("rst-syn", "driver")[..], &["--address", SERVER_V4]].concat();
    let guard = Guard::start(host, &words);
    let stands = bpf::pinned(host);
    let with_address = |what: &str, interface: &str| {
        let words = format!("address {what} {SERVER_V4}/24 dev {interface}");
        host.ip(&words).unwrap_or_else(|e| panic!("{words}: {e}"));
    };
    for what in ["del", "add"] {
        with_address(what, "srv0");
        // By then the daemon has looked.
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(bpf::pinned(host), stands, "it has the links that it had: {what}");
    }
    let _clients = fill(&stage.client, server(80), PLACES);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);

    let before = guard.status()["attached"].clone();
    host.ip("link add other0 type veth peer name other1").expect("a veth");
    for name in ["other0", "other1"] {
        host.ip(&format!("link set {name} up")).expect("an interface that is up");
    }
    with_address("del", "srv0");
    with_address("add", "other0");
    until("it follows its address", || {
        let now = guard.status()["attached"].clone();
        let (now, before) = (now.as_array().expect("links"), before.as_array().expect("links"));
        now.len() == before.len() && now.iter().all(|link| !before.contains(link))
    });
    guard.stop();
}

#[test]
fn an_interface_that_is_not_there_yet_keeps_nobody_from_guarding_the_others() {
    if skip_without_root("an_interface_that_is_not_there_yet") {
        return;
    }
    let full = Full::new("late");
    let text = |mechanism: &str| {
        format!(
            "interfaces = [\"late0\", \"srv0\"]\n[[listener]]\nport = 80\nmechanism = \"{mechanism}\"\n"
        )
    };
    let file = Configuration::new(&full.stage, &text("rst-syn"));
    let mut guard = Guard::start(&full.stage.server, &["--config", Configuration::PATH]);
    let is_told = |guard: &mut Guard| {
        let told = guard.complaint().expect("it is told");
        assert!(told.contains("interface \"late0\" is not here or not up"), "{told}");
    };
    is_told(&mut guard);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused, "at the other");
    file.write(&text("abort rst-syn"));
    assert!(guard.reload().contains("abort rst-syn"), "and it is looked after");
    is_told(&mut guard);

    let host = &full.stage.server;
    // By its number, which a new interface has last.
    let attached = |guard: &Guard| guard.status()["attached"].clone();
    let without = attached(&guard);
    bridge(host, "late0", "10.78.0.1/24");
    until("it is guarded when it comes up", || attached(&guard) != without);
    host.ip("link set late0 down").expect("a bridge that is down");
    until("and not when it is down", || attached(&guard) == without);
    is_told(&mut guard);
    let seen = fetch(&full.stage.client, server(80), PATIENCE);
    assert_eq!(seen.answer, Answer::Refused, "at the other still");
    file.write(&text("rst-syn").replace("late0", "never0"));
    assert!(
        guard.reload().contains("with rst-syn at auto on srv0"),
        "a reload takes what a start does"
    );
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("interface \"never0\" is not here or not up"), "{told}");
    guard.stop();
}

/// What is wrong may stay so for as long as the host does: an interface that never comes, say.
#[test]
fn a_complaint_that_stands_hides_no_later_one() {
    if skip_without_root("a_complaint_that_stands_hides_no_later_one") {
        return;
    }
    let stage = Stage::new("complaints");
    let host = &stage.server;
    let text = "interfaces = [\"srv0\", \"never0\"]\n[[listener]]\nport = 80\n\
                [[path]]\nport = 81\naddress = \"10.78.0.9\"\nshed = { p = 0.1 }\n";
    let _file = Configuration::new(&stage, text);
    let mut guard = Guard::start(host, &["--config", Configuration::PATH]);
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("interface \"never0\" is not here or not up"), "{told}");
    for round in 0..2 {
        // As VRRP brings it.
        host.ip("address add 10.78.0.9/32 dev srv0").expect("an address");
        let told = guard.complaint().unwrap_or_else(|| panic!("round {round}: it is told"));
        assert!(told.contains("names 10.78.0.9, which is this host's own address"), "{told}");
        host.ip("address del 10.78.0.9/32 dev srv0").expect("it goes");
        // A look sees it gone: there is one every two seconds at least.
        std::thread::sleep(Duration::from_secs(3));
    }
    guard.terminate();
    assert!(guard.complaint().is_none_or(|line| line.is_empty()), "and each is told once");
}

/// A bridge's takes none. Nobody asked for it, and whoever named the driver meant that of the others.
#[test]
fn an_interface_that_comes_later_and_takes_no_program_keeps_nobody_from_guarding_the_others() {
    if skip_without_root("an_interface_that_comes_later_and_takes_no_program") {
        return;
    }
    let stage = Stage::new("refusing");
    stage.receive_offload();
    let host = &stage.server;
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 80));
    let _listener = Stalled::new(host, everywhere, BACKLOG);
    let _clients = fill(&stage.client, server(80), PLACES);
    let mut guard = Guard::on_port(host, 80, "rst-syn", "driver");
    let attached = |guard: &Guard| guard.status()["attached"].as_array().expect("links").len();
    let before = attached(&guard);
    bridge(host, "br0", "10.78.0.1/24");
    until("it is guarded at the IP entry", || attached(&guard) == before + 1);
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("the driver of br0 takes no XDP program"), "{told}");
    bridge(host, "br1", "10.79.0.1/24");
    until("so is the next", || attached(&guard) == before + 2);
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
    let mut guard = Guard::on_port(host, 80, "rst-syn", "driver");
    assert_eq!(attached(&guard), before + 2, "nor from starting");
    let told = guard.complaint().expect("it is told");
    assert!(told.contains("until then SYNs are judged at the IP entry of br0"), "{told}");
    assert_eq!(fetch(&stage.client, server(80), PATIENCE).answer, Answer::Refused);
    guard.stop();
}
