// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interfaces that stand on others, or are another's slaves. Not every kernel has these kinds; those that
//! tests/kernels boots do, and there (TIDEGATE_ALL_KINDS=1) none of these stories is left out.

use std::fs;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tidegate_lab::Namespace;
use tidegate_tests::{
    Answer, CLIENT_V4, Counted, Fate, Guard, SERVER_V4, Stage, Stalled, dial, fetch, run_to_end,
    skip_without_root, until,
};

/// That of an interface of the host's own, above the card.
const SHIM: &str = "10.77.0.7";

/// A server with an interface by `ip link add WORDS`, unless this kernel has none of the kind.
fn stage_with(test: &str, label: &str, words: &str) -> Option<Stage> {
    if skip_without_root(test) {
        return None;
    }
    let stage = Stage::new(label);
    let Err(refused) = stage.server.ip(&format!("link add {words}")) else { return Some(stage) };
    assert!(refused.to_string().contains("Unknown device type"), "{refused}");
    let has_all = std::env::var("TIDEGATE_ALL_KINDS").as_deref() == Ok("1");
    assert!(!has_all, "{test}: this kernel should have such an interface as {words}");
    // eprintln! would be heard of a test that fails, and of no other.
    let _ = writeln!(io::stderr(), "{test} left out: this kernel has no such interface as {words}");
    None
}

fn configured(namespace: &Namespace, text: String) -> Guard {
    let file = "/run/tidegate.toml";
    namespace.run(move || fs::write(file, text).expect("a configuration"));
    Guard::start(namespace, &["--config", file])
}

/// What a command that ends well prints has this in it.
#[track_caller]
fn tells(stage: &Stage, arguments: &[&str], what: &str) {
    let output = run_to_end(&stage.server, arguments);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains(what), "{what:?} in:\n{told}");
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// A SYN to the host's own interface `name`, by `ip link add WORDS`. It comes in at the card first, by that's
/// hardware address. Judged again it would take two tokens, and stand twice in the counts.
fn is_judged_once(test: &str, name: &str, words: &str) {
    let Some(stage) = stage_with(test, name, words) else { return };
    stage.server.ip(&format!("address add {SHIM}/24 dev {name}")).expect("an address");
    stage.server.ip(&format!("link set {name} up")).expect("an interface that is up");
    stage.receive_offload();
    let _listener = Stalled::new(&stage.server, at("::", 80), 16);
    for (hook, first_port) in [("ip", 20_000), ("driver", 20_100)] {
        let guard = configured(
            &stage.server,
            format!(
                "[[listener]]\nport = 80\nmechanism = \"rst-syn\"\nhook = \"{hook}\"\n\
                 police = [{{ network = \"{CLIENT_V4}\", syns_per_s = 1, burst = 2 }}]\n"
            ),
        );
        let client: IpAddr = CLIENT_V4.parse().expect("an address");
        let from = (first_port..first_port + 2).map(|port| SocketAddr::new(client, port));
        let mut dialed = dial(&stage.client, from.collect(), at(SHIM, 80));
        until("both are let in", || dialed.iter_mut().all(|one| one.fate() == Fate::Connected));
        let counted = Counted::of(&stage.server);
        let judged = (counted.packets("Room", "pass"), counted.reason("Policed"));
        assert_eq!(judged, (2, 0), "at {hook}");
        guard.stop();
    }
}

#[test]
fn a_syn_to_the_hosts_own_ipvlan_is_judged_once() {
    const TEST: &str = "a_syn_to_the_hosts_own_ipvlan_is_judged_once";
    is_judged_once(TEST, "ipvl0", "ipvl0 link srv0 type ipvlan mode l2");
}

#[test]
fn a_syn_to_a_macvlan_in_passthru_mode_is_judged_once() {
    const TEST: &str = "a_syn_to_a_macvlan_in_passthru_mode_is_judged_once";
    is_judged_once(TEST, "mv0", "mv0 link srv0 type macvlan mode passthru");
}

/// A listener that is bound to the interface `name`, by `ip link add WORDS`, which is judged at the card below it where
/// it is not named. The look-up there goes by the card.
fn is_told_where_it_is_not_found(test: &str, name: &'static str, words: &str) {
    let Some(stage) = stage_with(test, "bound", words) else { return };
    for words in [format!("address add 10.77.5.1/24 dev {name}"), format!("link set {name} up")] {
        stage.server.ip(&words).expect("an interface with an address");
    }
    let _listener = Stalled::with(&stage.server, at("0.0.0.0", 80), 16, move |socket| {
        socket.bind_device(Some(name.as_bytes())).expect("SO_BINDTODEVICE");
    });
    let asked = ["explain", "--from", "10.77.5.2:40000", "--to", "10.77.5.1:80"];
    let guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
    let why = format!(
        "passed to the kernel, which alone decides: what listens on 10.77.5.1:80 is bound to {name}, \
         which no guard at srv0 finds; name {name} in its place in `interfaces`\n"
    );
    tells(&stage, &asked, &why);
    guard.stop();

    let named =
        format!("interfaces = [\"{name}\"]\n[[listener]]\nport = 80\nmechanism = \"rst-syn\"\n");
    let guard = configured(&stage.server, named);
    tells(&stage, &asked, "the queues have room (Room)");
    guard.stop();
}

#[test]
fn a_listener_that_is_bound_to_a_vlan_is_told_of_where_no_guard_finds_it() {
    const TEST: &str = "a_listener_that_is_bound_to_a_vlan_is_told_of_where_no_guard_finds_it";
    is_told_where_it_is_not_found(TEST, "srv0.5", "link srv0 name srv0.5 type vlan id 5");
}

#[test]
fn a_listener_that_is_bound_to_a_macvlan_is_told_of_where_no_guard_finds_it() {
    const TEST: &str = "a_listener_that_is_bound_to_a_macvlan_is_told_of_where_no_guard_finds_it";
    is_told_where_it_is_not_found(TEST, "mv0", "mv0 link srv0 type macvlan mode passthru");
}

#[test]
fn a_listener_in_a_vrf_is_told_of_and_left_to_the_kernel() {
    const TEST: &str = "a_listener_in_a_vrf_is_told_of_and_left_to_the_kernel";
    let Some(stage) = stage_with(TEST, "vrf", "blue type vrf table 10") else {
        return;
    };
    for words in ["link set blue up", "link set srv0 master blue"] {
        stage.server.ip(words).expect("a VRF and its slave");
    }
    let to = at(SERVER_V4, 80);
    let tells = |arguments: &[&str], what: &str| tells(&stage, arguments, what);
    let asked =
        ["explain", "--from", "10.77.0.2:40000", "--to", "10.77.0.1:80", "--interface", "srv0"];
    let comes = || fetch(&stage.client, to, Duration::from_millis(500)).answer;

    let inside = Stalled::with(&stage.server, to, 16, |socket| {
        socket.bind_device(Some(b"blue")).expect("SO_BINDTODEVICE");
    });
    let warning =
        "no guard finds what listens in a VRF: 10.77.0.1:80 in blue; bind it to an interface";
    tells(&["check", "--port", "80"], warning);
    let mut guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
    let complaint = guard.complaint().expect("what is not found");
    assert!(complaint.contains(warning), "{complaint}");
    tells(&asked, "what listens on 10.77.0.1:80 is bound to the VRF blue, where no guard finds it");
    assert_eq!((comes(), Counted::of(&stage.server).all()), (Answer::Unanswered, 0));
    drop(inside);

    // One that is bound to no interface takes nothing there, unless it shall.
    let _outside = Stalled::new(&stage.server, at("0.0.0.0", 80), 16);
    tells(&asked, "nothing listens on 10.77.0.1:80 at srv0, and the answer is RST");
    assert_eq!((comes(), Counted::of(&stage.server).all()), (Answer::Refused, 0));
    stage.server.sysctl("net.ipv4.tcp_l3mdev_accept", 1).expect("a sysctl of the VRF's");
    tells(&asked, "the queues have room (Room)");
    assert_eq!(comes(), Answer::Unanswered);
    assert_eq!(Counted::of(&stage.server).packets("Room", "pass"), 1);
    guard.stop();
}
