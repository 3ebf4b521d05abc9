// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every mechanism in every home: at each hook that can express it, over IPv4 and IPv6, for
//! each way in which a server listens, for packets that come tagged or behind extension
//! headers, and for clients on the host itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::Namespace;
use tidegate_tests::wire::{
    ACK, DESTINATION, HOP_BY_HOP, HalfOpen, ISN, ROUTING, RST, SYN, Segment, WIRE_V4, WIRE_V6,
    Wire, usual_options,
};
use tidegate_tests::{
    Answer, Counted, Guard, LOOKS_BY, Plain, SERVER_V4, SERVER_V6, Seen, Stage, Stalled, fetch,
    fill, guard_of, packets, skip_without_root, until,
};

const BACKLOG: i32 = 2;
/// Linux lets a queue hold one more than its backlog.
const PLACES: usize = 3;
const PATIENCE: Duration = Duration::from_millis(500);
const AT_ONCE: Duration = Duration::from_millis(200);
/// How long a raw client waits for packets that should not come.
const QUIET: Duration = Duration::from_millis(60);
const FULL: &str = "ListenQFullAtSyn";

/// A mechanism, what a SYN to a full queue gets, and whether an ACK to one is reset.
type Preset = (&'static str, Answer, bool);

const PRESETS: [Preset; 11] = [
    ("default", Answer::Silence, false),
    ("abort", Answer::Silence, true),
    ("reserv", Answer::Silence, false),
    ("early-syn-drop", Answer::Silence, false),
    ("abort early-syn-drop", Answer::Silence, true),
    // From here on they answer, which the TCP entry cannot.
    ("rst-syn", Answer::Refused, false),
    ("abort rst-syn", Answer::Refused, true),
    ("reserv rst-syn", Answer::Refused, false),
    ("abort reserv rst-syn", Answer::Refused, true),
    ("no-syn-drop", Answer::Reset, true),
    ("reserv no-syn-drop", Answer::Reset, true),
];
const SILENT_PRESETS: usize = 5;

/// The verdict with which a SYN to a full queue is counted.
fn verdict(mechanism: &str) -> &'static str {
    match mechanism {
        m if m.contains("no-syn-drop") => "cookie",
        m if m.contains("rst-syn") => "reset",
        m if m.contains("early-syn-drop") || m.contains("reserv") => "drop",
        _ => "pass",
    }
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

fn both(port: u16) -> [SocketAddr; 2] {
    [SERVER_V4, SERVER_V6].map(|address| at(address, port))
}

/// A stalled server on every address of one family.
fn stalled(namespace: &Namespace, address: &str, port: u16) -> Stalled {
    Stalled::with(namespace, at(address, port), BACKLOG, |socket| {
        // Only an IPv6 socket has the option.
        let _ = socket.set_only_v6(true);
    })
}

/// A stalled server on every address of both families.
fn stalled_dual(namespace: &Namespace, port: u16) -> Stalled {
    Stalled::with(namespace, at("::", port), BACKLOG, |socket| {
        socket.set_only_v6(false).expect("a dual-stack socket");
    })
}

fn stalled_shared(namespace: &Namespace, address: SocketAddr, backlog: i32) -> Stalled {
    Stalled::with(namespace, address, backlog, move |socket| {
        if address.is_ipv6() {
            socket.set_only_v6(true).expect("IPV6_V6ONLY");
        }
        socket.set_reuse_port(true).expect("SO_REUSEPORT");
    })
}

/// A guard with a configuration file of these `[[listener]]` sections.
fn guard_with(namespace: &Namespace, text: &str) -> Guard {
    let name = format!("tidegate-homes-{}.toml", namespace.tid());
    let path = std::env::temp_dir().join(name);
    fs::write(&path, text).expect("a configuration file");
    let guard = Guard::try_start(namespace, &["--config", path.to_str().expect("UTF-8")]);
    fs::remove_file(&path).expect("the configuration file");
    guard.unwrap_or_else(|refused| panic!("{text}\n{}", refused.stderr))
}

fn section(port: u16, mechanism: &str, hook: &str) -> String {
    format!("[[listener]]\nport = {port}\nmechanism = \"{mechanism}\"\nhook = \"{hook}\"\n")
}

/// What a client sees of each, all asked at once.
fn seen(client: &Namespace, servers: &[SocketAddr]) -> Vec<Seen> {
    let ask = |to: &SocketAddr| {
        let (client, to) = (client.clone(), *to);
        thread::spawn(move || fetch(&client, to, PATIENCE))
    };
    let asked: Vec<_> = servers.iter().map(ask).collect();
    asked.into_iter().map(|t| t.join().expect("a client ends")).collect()
}

fn answers(client: &Namespace, servers: &[SocketAddr]) -> Vec<Answer> {
    seen(client, servers).iter().map(|s| s.answer).collect()
}

/// Whether a link of this kind stands, such as `driver-` of an interface.
fn stands(status: &Value, kind: &str) -> bool {
    let attached = status["attached"].as_array().expect("links");
    attached.iter().any(|name| name.as_str().is_some_and(|n| n.starts_with(kind)))
}

/// All presets that a hook can express, each on a port of its own, with one configuration;
/// and one port that nobody guards.
fn presets_at(hook: &str, presets: &[Preset]) {
    const UNGUARDED: u16 = 7999;
    let stage = Stage::new(&format!("homes-{hook}"));
    if hook == "driver" {
        stage.receive_offload();
    }
    let port = |i: usize| 8000 + i as u16;
    let ports: Vec<u16> = (0..presets.len()).map(port).chain([UNGUARDED]).collect();
    let mut servers = Vec::new();
    let mut crowds = Vec::new();
    let mut under_way: BTreeMap<u16, Vec<HalfOpen>> = BTreeMap::new();
    for &port in &ports {
        for address in ["0.0.0.0", "::"] {
            servers.push(stalled(&stage.server, address, port));
        }
        for to in both(port) {
            let half_open = HalfOpen::open(&stage, port, to, usual_options(1));
            under_way.entry(port).or_default().push(half_open);
            crowds.push(fill(&stage.client, to, PLACES));
        }
    }
    let text = presets.iter().enumerate().fold(String::new(), |mut text, (i, (mechanism, ..))| {
        let _ = write!(text, "{}", section(port(i), mechanism, hook));
        text
    });
    let guard = guard_with(&stage.server, &text);
    let status = guard.status();
    assert_eq!(stands(&status, "driver-"), hook == "driver", "{status:#}");
    // reserv stands at the TCP entry too, to learn of SYNs that arrive there.
    assert!(stands(&status, "tcp-ipv4") && stands(&status, "tcp-ipv6"), "{status:#}");

    let everywhere: Vec<SocketAddr> = ports.iter().flat_map(|p| both(*p)).collect();
    let saw = seen(&stage.client, &everywhere);
    for (pair, (mechanism, expected, _)) in saw.chunks(2).zip(presets) {
        for (seen, family) in pair.iter().zip(["IPv4", "IPv6"]) {
            assert_eq!(seen.answer, *expected, "{mechanism} at {hook} over {family}");
        }
    }
    let unguarded = &saw[presets.len() * 2..];
    assert!(unguarded.iter().all(|s| s.answer == Answer::Silence), "{unguarded:?}");

    for (i, (mechanism, _, resets)) in
        presets.iter().chain([&("", Answer::Silence, false)]).enumerate()
    {
        for client in &under_way[&ports[i]] {
            client.send(&client.segment(ACK, 0, b""));
            // Its SYN/ACK may be repeated.
            let replies = client.collect(QUIET).into_iter().map(|s| s.flags);
            let replies: Vec<u8> = replies.filter(|flags| flags & SYN == 0).collect();
            let expected = if *resets { vec![RST] } else { vec![] };
            assert_eq!(replies, expected, "an ACK to {} with {mechanism} at {hook}", client.to);
        }
    }

    let status = guard.status();
    for (i, (mechanism, ..)) in presets.iter().enumerate() {
        let counted = guard_of(&status, port(i), None);
        assert_eq!((&counted["hook"], &counted["mechanism"]), (&hook.into(), &(*mechanism).into()));
        let listeners = counted["listeners"].as_array().expect("listeners");
        assert_eq!(listeners.len(), 2, "one a family: {counted:#}");
        for listener in listeners {
            let syns = packets(listener, FULL, verdict(mechanism));
            assert!(syns > 0, "{mechanism} at {hook}: {counted:#}");
        }
    }

    let accepted: Vec<_> = servers.iter().map(Stalled::accept_all).collect();
    let saw = answers(&stage.client, &everywhere);
    assert!(saw.iter().all(|a| *a == Answer::Unanswered), "with room all connect: {saw:?}");
    drop(accepted);
    guard.stop();
}

#[test]
fn every_preset_decides_at_the_driver() {
    if skip_without_root("presets at the driver") {
        return;
    }
    presets_at("driver", &PRESETS);
}

#[test]
fn every_preset_decides_at_the_ip_entry() {
    if skip_without_root("presets at the IP entry") {
        return;
    }
    presets_at("ip", &PRESETS);
}

#[test]
fn every_silent_preset_decides_at_the_tcp_entry() {
    if skip_without_root("presets at the TCP entry") {
        return;
    }
    presets_at("tcp", &PRESETS[..SILENT_PRESETS]);
}

#[test]
fn a_dual_stack_listener_has_one_queue_for_both_families() {
    if skip_without_root("a dual-stack listener") {
        return;
    }
    let stage = Stage::new("dual");
    stage.receive_offload();
    for (port, hook) in [(80, "ip"), (81, "driver")] {
        let server = stalled_dual(&stage.server, port);
        let [v4, v6] = both(port);
        let _crowd = fill(&stage.client, v4, PLACES);
        assert_eq!(answers(&stage.client, &[v4, v6]), [Answer::Silence; 2], "without a guard");
        let guard = Guard::on_port(&stage.server, port, "rst-syn", hook);
        assert_eq!(answers(&stage.client, &[v4, v6]), [Answer::Refused; 2], "at {hook}");
        let status = guard.status();
        let listeners = &guard_of(&status, port, None)["listeners"];
        assert_eq!(listeners.as_array().map(Vec::len), Some(1));
        assert_eq!(packets(&listeners[0], FULL, "reset"), 2, "{status:#}");
        let _accepted = server.accept_all();
        assert_eq!(answers(&stage.client, &[v4, v6]), [Answer::Unanswered; 2], "with room");
        guard.stop();
    }
}

/// A JVM binds its sockets so, whatever address it is told.
#[test]
fn a_listener_on_an_ipv4_mapped_address_is_that_of_the_ipv4_address() {
    if skip_without_root("an IPv4-mapped listener") {
        return;
    }
    let stage = Stage::new("mapped");
    let mapped = at(&format!("::ffff:{SERVER_V4}"), 80);
    let server = Stalled::with(&stage.server, mapped, BACKLOG, |socket| {
        socket.set_only_v6(false).expect("a dual-stack socket");
    });
    let to = at(SERVER_V4, 80);
    let _crowd = fill(&stage.client, to, PLACES);
    for address in ["", "address = \"10.77.0.1\"\n"] {
        let text = format!("{}{address}", section(80, "rst-syn", "ip"));
        let guard = guard_with(&stage.server, &text);
        // Interfaces are followed by the addresses that listeners are bound to.
        thread::sleep(LOOKS_BY);
        assert_eq!(answers(&stage.client, &[to]), [Answer::Refused], "{text}");
        let status = guard.status();
        let named = (!address.is_empty()).then_some(SERVER_V4);
        let listeners = &guard_of(&status, 80, named)["listeners"];
        assert_eq!(listeners[0]["address"], to.to_string(), "{status:#}");
        assert_eq!(packets(&listeners[0], FULL, "reset"), 1, "{status:#}");
        guard.stop();
    }
    drop(server);
}

/// The silence or refusal of a SO_REUSEPORT group's members follows the kernel's own choice
/// among them.
fn reuseport_group(to: SocketAddr, mechanism: &str, hook: &str, refused: Answer) {
    const ROOMY: usize = 2;
    let stage = Stage::new("group");
    stage.receive_offload();
    let any = if to.is_ipv6() { "::" } else { "0.0.0.0" };
    let any = at(any, to.port());
    let members: [Stalled; 4] = std::array::from_fn(|_| stalled_shared(&stage.server, any, 100));

    // The kernel chooses by the client's address and port: ask it, port by port.
    let mut choice: [Vec<u16>; 4] = Default::default();
    for from in 20000..20080 {
        let client = Plain::connect(&stage.client, from, to, PATIENCE);
        assert!(client.connected());
        let taken = members.iter().position(|m| !m.accept_all().is_empty());
        choice[taken.expect("some member has it")].push(from);
        client.discard();
    }
    assert!(choice.iter().all(|ports| ports.len() > PLACES), "{choice:?}");
    let mut crowd = Vec::new();
    for (i, member) in members.iter().enumerate().filter(|(i, _)| *i != ROOMY) {
        member.set_backlog(BACKLOG);
        for from in choice[i].drain(..PLACES) {
            crowd.push(Plain::connect(&stage.client, from, to, PATIENCE));
        }
    }
    assert!(crowd.iter().all(Plain::connected));

    let guard = Guard::on_port(&stage.server, to.port(), mechanism, hook);
    let knock = |ports: &[u16]| -> Vec<Answer> {
        let knock = |from: &u16| {
            let (client, from) = (stage.client.clone(), *from);
            thread::spawn(move || {
                let mut plain = Plain::connect(&client, from, to, PATIENCE);
                let answer = if plain.connected() {
                    Answer::Unanswered
                } else {
                    plain.request(QUIET).answer
                };
                (plain, answer)
            })
        };
        let knocking: Vec<_> = ports.iter().map(knock).collect();
        let (plain, answers): (Vec<Plain>, Vec<Answer>) =
            knocking.into_iter().map(|t| t.join().expect("a client ends")).unzip();
        plain.into_iter().for_each(Plain::discard);
        answers
    };
    for (i, ports) in choice.iter().enumerate() {
        let expected = if i == ROOMY { Answer::Unanswered } else { refused };
        let saw = knock(ports);
        assert!(
            saw.iter().all(|a| *a == expected),
            "{mechanism} at {hook}, {to}, member {i}: {saw:?}"
        );
    }
    let status = guard.status();
    let listeners = guard_of(&status, to.port(), None)["listeners"].as_array().expect("members");
    let mut counted: Vec<u64> =
        listeners.iter().map(|l| packets(l, FULL, verdict(mechanism))).collect();
    let mut expected: Vec<u64> = choice.iter().map(|ports| ports.len() as u64).collect();
    expected[ROOMY] = 0;
    counted.sort_unstable();
    expected.sort_unstable();
    assert_eq!(counted, expected, "{status:#}");

    // The last member fills up too.
    members[ROOMY].accept_all();
    members[ROOMY].set_backlog(0);
    crowd.push(Plain::connect(&stage.client, choice[ROOMY][0], to, PATIENCE));
    let everyone: Vec<u16> = choice.iter().flat_map(|ports| &ports[1..]).copied().collect();
    assert!(knock(&everyone).iter().all(|a| *a == refused), "all four are full");
    guard.stop();
}

#[test]
fn a_reuseport_group_is_judged_member_by_member_at_the_driver() {
    if skip_without_root("a SO_REUSEPORT group at the driver") {
        return;
    }
    reuseport_group(at(SERVER_V4, 80), "rst-syn", "driver", Answer::Refused);
}

#[test]
fn a_reuseport_group_is_judged_member_by_member_at_the_ip_entry() {
    if skip_without_root("a SO_REUSEPORT group at the IP entry") {
        return;
    }
    for to in both(80) {
        reuseport_group(to, "rst-syn", "ip", Answer::Refused);
    }
}

#[test]
fn a_reuseport_group_is_judged_member_by_member_at_the_tcp_entry() {
    if skip_without_root("a SO_REUSEPORT group at the TCP entry") {
        return;
    }
    reuseport_group(at(SERVER_V6, 80), "early-syn-drop", "tcp", Answer::Silence);
}

/// Other addresses of the server.
const OTHER_V4: &str = "10.77.0.3";
const OTHER_V6: &str = "fd77::3";

fn with_other_addresses(stage: &Stage) {
    for other in [format!("{OTHER_V4}/24"), format!("{OTHER_V6}/64")] {
        stage.link.a().add_address(&other).expect("another address");
    }
}

#[test]
fn a_wildcard_and_a_specific_bind_are_judged_each_by_its_own_queue() {
    if skip_without_root("a wildcard and a specific bind") {
        return;
    }
    let stage = Stage::new("binds");
    stage.receive_offload();
    with_other_addresses(&stage);
    for hook in ["ip", "driver"] {
        for (any, specific, other) in
            [("0.0.0.0", SERVER_V4, OTHER_V4), ("::", SERVER_V6, OTHER_V6)]
        {
            let (specific, other) = (at(specific, 80), at(other, 80));
            let wildcard = stalled_shared(&stage.server, at(any, 80), BACKLOG);
            let bound = stalled_shared(&stage.server, specific, BACKLOG);
            let guard = Guard::on_port(&stage.server, 80, "abort rst-syn", hook);
            let asked = [specific, other];

            let crowd = fill(&stage.client, specific, PLACES);
            let saw = answers(&stage.client, &asked);
            assert_eq!(saw, [Answer::Refused, Answer::Unanswered], "{specific} full, {hook}");

            bound.accept_all();
            wildcard.accept_all();
            crowd.into_iter().for_each(Plain::discard);
            let _crowd = fill(&stage.client, other, PLACES);
            let saw = answers(&stage.client, &asked);
            assert_eq!(saw, [Answer::Unanswered, Answer::Refused], "{any} full, {hook}");
            guard.stop();
        }
    }
}

#[test]
fn several_ports_have_mechanisms_and_hooks_of_their_own() {
    if skip_without_root("several guarded ports") {
        return;
    }
    let stage = Stage::new("several");
    stage.receive_offload();
    let guards = [
        (81, "rst-syn", "driver", Answer::Refused),
        (82, "no-syn-drop", "ip", Answer::Reset),
        (83, "abort early-syn-drop", "tcp", Answer::Silence),
        (84, "abort rst-syn", "auto", Answer::Refused),
        (85, "reserv", "driver", Answer::Silence),
        (86, "default", "ip", Answer::Silence),
        (87, "no-syn-drop", "driver", Answer::Reset),
    ];
    let servers: Vec<Stalled> =
        guards.iter().map(|(port, ..)| stalled_dual(&stage.server, *port)).collect();
    let everywhere: Vec<SocketAddr> = guards.iter().flat_map(|(port, ..)| both(*port)).collect();
    let crowds = guards.iter().map(|(port, ..)| fill(&stage.client, both(*port)[0], PLACES));
    let _crowds: Vec<_> = crowds.collect();
    let sections: String = guards.iter().map(|(port, m, h, _)| section(*port, m, h)).collect();
    let guard = guard_with(&stage.server, &sections);

    let expected: Vec<Answer> = guards.iter().flat_map(|(.., answer)| [*answer; 2]).collect();
    assert_eq!(answers(&stage.client, &everywhere), expected);
    let status = guard.status();
    for (port, mechanism, hook, _) in guards {
        let counted = guard_of(&status, port, None);
        assert_eq!(counted["hook"], hook);
        assert!(packets(counted, FULL, verdict(mechanism)) >= 2, "{counted:#}");
        // No hook judged a packet that an earlier one had judged.
        let others = ["pass", "drop", "reset", "cookie", "hollow"];
        for other in others.into_iter().filter(|v| *v != verdict(mechanism)) {
            assert_eq!(packets(counted, FULL, other), 0, "{counted:#}");
        }
    }
    let _accepted: Vec<_> = servers.iter().map(Stalled::accept_all).collect();
    assert!(answers(&stage.client, &everywhere).iter().all(|a| *a == Answer::Unanswered));
    guard.stop();
}

/// What stands before the IP entry may change with the host: here by a listener that asks for the
/// driver, elsewhere by a VLAN, with which none does.
#[test]
fn a_syn_is_judged_once_when_the_driver_comes_before_the_ip_entry_and_when_it_goes() {
    if skip_without_root("a driver that comes and goes") {
        return;
    }
    let stage = Stage::new("once");
    stage.receive_offload();
    let _server = stalled_dual(&stage.server, 80);
    let to = at(SERVER_V4, 80);
    let _crowd = fill(&stage.client, to, PLACES);
    let _inside = stalled(&stage.server, "127.0.0.1", 81);
    let sections = section(80, "default", "auto") + &section(81, "rst-syn", "driver");
    let guard = guard_with(&stage.server, &sections);
    let judged = || packets(guard_of(&guard.status(), 80, None), FULL, "pass");
    let is_judged_once = |at_driver: bool| {
        let is_so = || stands(&guard.status(), "driver-") == at_driver;
        until(&format!("at the driver: {at_driver}"), is_so);
        let before = judged();
        // Not long enough to say it twice.
        assert_eq!(fetch(&stage.client, to, PATIENCE).answer, Answer::Silence);
        assert_eq!(judged(), before + 1, "at the driver: {at_driver}");
    };
    is_judged_once(false);
    let outside = stalled(&stage.server, SERVER_V4, 81);
    is_judged_once(true);
    // Without another it would be one that starts anew, and its card is let alone.
    drop(outside);
    let _elsewhere = stalled(&stage.server, "127.0.0.2", 81);
    is_judged_once(false);
    guard.stop();
}

#[test]
fn addresses_of_one_port_have_mechanisms_of_their_own() {
    if skip_without_root("address guards") {
        return;
    }
    let stage = Stage::new("addresses");
    with_other_addresses(&stage);
    let _server = stalled_dual(&stage.server, 80);
    let _crowd = fill(&stage.client, at(SERVER_V4, 80), PLACES);
    let on = |address: &str, mechanism| {
        section(80, mechanism, "ip") + &format!("address = \"{address}\"\n")
    };
    let text =
        section(80, "default", "ip") + &on(SERVER_V4, "rst-syn") + &on(OTHER_V6, "no-syn-drop");
    let guard = guard_with(&stage.server, &text);
    let asked = [SERVER_V4, OTHER_V4, SERVER_V6, OTHER_V6].map(|address| at(address, 80));
    let saw = answers(&stage.client, &asked);
    assert_eq!(saw, [Answer::Refused, Answer::Silence, Answer::Silence, Answer::Reset]);
    let status = guard.status();
    assert_eq!(packets(guard_of(&status, 80, Some(SERVER_V4)), FULL, "reset"), 1, "{status:#}");
    assert_eq!(packets(guard_of(&status, 80, Some(OTHER_V6)), FULL, "cookie"), 1, "{status:#}");
    assert!(packets(guard_of(&status, 80, None), FULL, "pass") >= 2, "{status:#}");
    guard.stop();
}

#[test]
fn a_client_on_the_host_itself_is_answered_at_once() {
    if skip_without_root("loopback") {
        return;
    }
    let stage = Stage::new("loopback");
    let _server = stalled_dual(&stage.server, 80);
    let _crowd = fill(&stage.server, at("127.0.0.1", 80), PLACES);
    let asked = ["127.0.0.1", "::1", SERVER_V4, SERVER_V6].map(|address| at(address, 80));
    assert_eq!(answers(&stage.server, &asked), [Answer::Silence; 4], "without a guard");
    for (mechanism, hook, expected) in [
        ("rst-syn", "auto", Answer::Refused),
        ("rst-syn", "driver", Answer::Refused),
        ("no-syn-drop", "ip", Answer::Reset),
    ] {
        if hook == "driver" {
            stage.receive_offload();
        }
        let guard = Guard::on_port(&stage.server, 80, mechanism, hook);
        for (seen, to) in seen(&stage.server, &asked).iter().zip(asked) {
            assert_eq!(seen.answer, expected, "{to} with {mechanism} at {hook}");
            assert!(seen.after < AT_ONCE, "{to} with {mechanism} at {hook}: {seen:?}");
        }
        guard.stop();
    }
}

/// NAT would change an answer that is written over the SYN as it changes the SYN, so that it reached nobody: the
/// kernel gets the SYN.
#[test]
fn a_client_that_the_hosts_own_nat_brings_here_is_left_to_the_kernel() {
    if skip_without_root("redirected") {
        return;
    }
    let stage = Stage::new("redirected");
    let _server = stalled_dual(&stage.server, 80);
    let _crowd = fill(&stage.server, at("127.0.0.1", 80), PLACES);
    let table = "table inet nat {\nchain c {\ntype nat hook output priority -100\n\
                 tcp dport 81 redirect to :80\n}\n}\n";
    stage.server.place_file("/run/nat.nft", table.to_owned()).expect("a file");
    stage.server.output(stage.server.command("nft -f /run/nat.nft")).expect("nft takes it");
    let guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
    let drops = || Counted::of(&stage.server).kernel_drops();
    for address in ["127.0.0.1", "::1"] {
        let before = drops();
        let answer = fetch(&stage.server, at(address, 81), PATIENCE).answer;
        assert_eq!(answer, Answer::Silence, "{address}");
        assert!(drops() > before, "{address}: the kernel has seen none");
        let direct = fetch(&stage.server, at(address, 80), QUIET);
        assert_eq!(direct.answer, Answer::Refused, "{address}");
        assert!(direct.after < AT_ONCE, "{address}: {direct:?}");
    }
    guard.stop();
}

/// A stage whose port 80 is full on every address, and the raw client's side of it.
fn full_stage(label: &str) -> (Stage, Stalled, Vec<Plain>, Wire) {
    let stage = Stage::new(label);
    stage.receive_offload();
    let server = stalled_dual(&stage.server, 80);
    let crowd = fill(&stage.client, at(SERVER_V4, 80), PLACES);
    let wire = Wire::of(&stage);
    (stage, server, crowd, wire)
}

fn syn(from: &str, to: &str, port: u16) -> Segment {
    let options = usual_options(1);
    Segment { options, ..Segment::new(at(from, port), at(to, 80), SYN, ISN, 0) }
}

/// Sends a SYN; what comes back at once.
fn reply(wire: &Wire, syn: &Segment) -> Option<Segment> {
    wire.send(syn);
    let until = Instant::now() + QUIET;
    std::iter::from_fn(|| wire.receive(until)).find(|s| s.to == syn.from)
}

/// The RST that RFC 9293 (3.10.7.1) has for this SYN, with its tags.
fn refusal(syn: &Segment) -> Segment {
    let ack = syn.seq.wrapping_add(1);
    let reset = Segment::new(syn.to, syn.from, RST | ACK, 0, ack);
    Segment { tags: syn.tags.clone(), window: 0, ..reset }
}

#[test]
fn a_refusal_carries_the_vlan_tags_of_its_syn() {
    if skip_without_root("VLAN tags") {
        return;
    }
    let (stage, _server, _crowd, wire) = full_stage("tags");
    let one = vec![(0x8100, 7)];
    let two = vec![(0x88a8, 5), (0x8100, 7)];
    let mut port = 30000;
    let mut tagged = |tags: &[(u16, u16)], from, to| {
        port += 1;
        Segment { tags: tags.to_vec(), ..syn(from, to, port) }
    };
    let alone = reply(&wire, &tagged(&one, WIRE_V4, SERVER_V4));
    assert_eq!(alone, None, "without a guard");
    for hook in ["ip", "driver"] {
        let guard = Guard::on_port(&stage.server, 80, "rst-syn", hook);
        for tags in [&[][..], &one, &two] {
            for (from, to) in [(WIRE_V4, SERVER_V4), (WIRE_V6, SERVER_V6)] {
                let syn = tagged(tags, from, to);
                assert_eq!(reply(&wire, &syn), Some(refusal(&syn)), "{tags:?} at {hook}");
            }
        }
        guard.stop();
    }
}

#[test]
fn a_syn_behind_ipv6_extension_headers_is_judged_as_any_other() {
    if skip_without_root("extension headers") {
        return;
    }
    let (stage, server, crowd, wire) = full_stage("extensions");
    let chains: [&[u8]; 4] = [
        &[HOP_BY_HOP],
        &[DESTINATION],
        &[HOP_BY_HOP, ROUTING],
        &[HOP_BY_HOP, DESTINATION, ROUTING, DESTINATION],
    ];
    let mut port = 31000;
    let mut behind = |extensions: &[u8]| {
        port += 1;
        Segment { extensions: extensions.to_vec(), ..syn(WIRE_V6, SERVER_V6, port) }
    };
    for hook in ["ip", "driver"] {
        let guard = Guard::on_port(&stage.server, 80, "rst-syn", hook);
        for chain in chains {
            let syn = behind(chain);
            let got = reply(&wire, &syn);
            assert_eq!(got, Some(refusal(&syn)), "{chain:?} at {hook}");
        }
        // More than are read: the kernel has it, as if we were not there.
        assert_eq!(reply(&wire, &behind(&[DESTINATION; 5])), None, "five headers at {hook}");
        guard.stop();
    }
    for chain in chains {
        assert_eq!(reply(&wire, &behind(chain)), None, "{chain:?} without a guard");
    }
    // They are SYNs that the kernel takes, where there is room.
    server.accept_all();
    drop(crowd);
    for chain in chains {
        let got = reply(&wire, &behind(chain)).expect("the kernel answers");
        assert_eq!(got.flags & (SYN | ACK), SYN | ACK, "{chain:?}");
        let reset = Segment::new(got.to, got.from, RST, ISN.wrapping_add(1), 0);
        wire.send(&reset);
    }
}

#[test]
fn reserv_at_the_tcp_entry_gives_places_back() {
    if skip_without_root("reserv at the TCP entry") {
        return;
    }
    let stage = Stage::new("places");
    let to = at(SERVER_V4, 80);
    for hook in ["ip", "tcp"] {
        let server = stalled(&stage.server, "0.0.0.0", 80);
        let guard = Guard::on_port(&stage.server, 80, "reserv", hook);
        // Far more than there are places, one after another, each taken at once.
        for i in 0..40 {
            let client = Plain::connect(&stage.client, 0, to, PATIENCE);
            assert!(client.connected(), "connection {i} at {hook}: {:#}", guard.status());
            assert_eq!(server.accept_all().len(), 1);
            client.discard();
        }
        guard.stop();
    }
}
