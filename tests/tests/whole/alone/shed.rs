// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping with real clients, on a server and on routers before a stock one: the share
//! of the connections that is asked for fails whole, at every attempt, and it is the very ones that
//! the policy names; all others stand at their first SYN. (Jamjoom and Shin, SIGCOMM 2003.)

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_lab::{Counters, Namespace};
use tidegate_policy::raw::{
    TG_ASK_TURN, TG_KEY_CLIENT, TG_KEY_CONNECTION, TG_SHED_TURN_NS, TG_SHED_TURN_SHIFT, tg_key,
    tg_tuple,
};
use tidegate_policy::shed::{hash, parts_x32};
use tidegate_tests::{
    Answer, CLIENT_V4, CLIENT_V6, Chain, Dialed, Fate, Guard, Nginx, SERVER_V4, SERVER_V6, Stage,
    Stalled, dial, fetch, guard_of, more_addresses, packets, packets_with, skip_without_root,
    until, until_sent_again,
};

const P: f64 = 0.3;
const CONNECTIONS: usize = 400;
/// The key file's line, and the key that it is.
const KEY_LINE: &str = "000102030405060708090a0b0c0d0e0f";
const KEY: tg_key = tg_key { k0: 0x0706050403020100, k1: 0x0f0e0d0c0b0a0908 };
const OTHER_KEY_LINE: &str = "f00102030405060708090a0b0c0d0e0f";
const CONFIGURATION: &str = "/run/tidegate.toml";

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    since.as_nanos() as u64
}

/// Waits where the turn would end within the few seconds in which connections are begun.
fn turn_with_time_left() -> u32 {
    while TG_SHED_TURN_NS - wall_ns() % TG_SHED_TURN_NS < 5_000_000_000 {
        sleep(Duration::from_millis(100));
    }
    (wall_ns() >> TG_SHED_TURN_SHIFT) as u32
}

/// What SLPD draws for this connection in this turn, by the policy's own hash: it is dropped where that is below p.
fn drawn_x32(from: SocketAddr, to: SocketAddr, kind: u32, turn: u32) -> u64 {
    hash(&KEY, &tg_tuple::between(from, to), kind, TG_ASK_TURN, turn) >> 32
}

/// Whether SLPD drops this connection in this turn.
fn chosen(from: SocketAddr, to: SocketAddr, kind: u32, turn: u32) -> bool {
    drawn_x32(from, to, kind, turn) < parts_x32(P)
}

/// A guard from a configuration file, with a key file beside it.
fn guard(namespace: &Namespace, key_line: &'static str, sections: &str) -> Guard {
    let text = format!("shed_key = \"/run/shed.key\"\n{sections}");
    namespace.run(move || {
        fs::write("/run/shed.key", key_line).expect("a key file");
        fs::write(CONFIGURATION, text).expect("a configuration");
    });
    Guard::start(namespace, &["--config", CONFIGURATION])
}

/// What became of connections so far, by their clients' addresses.
#[derive(Debug, Default)]
struct Fates {
    connected: Vec<SocketAddr>,
    refused: Vec<SocketAddr>,
    silent: Vec<SocketAddr>,
}

impl Fates {
    fn of(crowd: &mut [Dialed]) -> Self {
        let mut fates = Fates::default();
        for client in crowd {
            match client.fate() {
                Fate::Connected => fates.connected.push(client.from),
                Fate::Refused => fates.refused.push(client.from),
                Fate::Silent => fates.silent.push(client.from),
            }
        }
        fates
    }

    /// It is those that the policy names who are dropped, and all of them.
    #[track_caller]
    fn assert_chosen(&self, dropped: &[SocketAddr], to: SocketAddr, kind: u32, turn: u32) {
        for from in dropped {
            assert!(chosen(*from, to, kind, turn), "{from} is dropped, and should not be");
        }
        for from in &self.connected {
            assert!(!chosen(*from, to, kind, turn), "{from} is connected, and should not be");
        }
        assert_eq!(dropped.len() + self.connected.len(), CONNECTIONS);
    }
}

fn retransmitted_syns(namespace: &Namespace) -> u64 {
    let counters = Counters::of(namespace).expect("kernel counters");
    counters.get("TcpExtTCPSynRetrans").expect("a counter of Linux") as u64
}

/// Connections all at once, from consecutive ports of each address; the turn in which they came.
fn crowd(client: &Namespace, from: &[IpAddr], to: SocketAddr) -> (Vec<Dialed>, u32) {
    let turn = turn_with_time_left();
    let of_each = CONNECTIONS / from.len();
    let from = from
        .iter()
        .flat_map(|address| {
            (0..of_each).map(|n| SocketAddr::new(*address, 20_000 + to.port() * 10 + n as u16))
        })
        .collect();
    (dial(client, from, to), turn)
}

/// As many as p says, give or take five standard deviations.
#[track_caller]
fn assert_share(count: usize, of: usize) {
    let expected = P * of as f64;
    let spread = 5.0 * (expected * (1.0 - P)).sqrt();
    assert!((count as f64 - expected).abs() < spread, "{count} of {of}, {expected} expected");
}

/// At each hook; side by side, for what they do is to wait.
fn at_both_hooks(story: fn(&str)) {
    thread::scope(|scope| {
        for hook in ["ip", "driver"] {
            scope.spawn(move || story(hook));
        }
    });
}

fn the_chosen_fail_on_a_server(hook: &str) {
    let stage = Stage::new("shed-server");
    if hook == "driver" {
        stage.receive_offload();
    }
    for (server, client) in [(SERVER_V4, CLIENT_V4), (SERVER_V6, CLIENT_V6)] {
        let to = SocketAddr::new(server.parse().expect("an address"), 80);
        let beside = SocketAddr::new(to.ip(), 81);
        let _listeners = [to, beside].map(|at| Stalled::new(&stage.server, at, 4000));
        let guard = guard(
            &stage.server,
            KEY_LINE,
            &format!("[[listener]]\nport = 80\nhook = \"{hook}\"\nshed = {{ p = {P} }}"),
        );
        let from: IpAddr = client.parse().expect("an address");
        let before = retransmitted_syns(&stage.client);
        let (mut attempts, turn) = crowd(&stage.client, &[from], to);
        // Linux sends its SYN again after 1, 2, 3, 4 and 5 s.
        sleep(Duration::from_millis(5500));
        let fates = Fates::of(&mut attempts);
        fates.assert_chosen(&fates.silent, to, TG_KEY_CONNECTION, turn);
        assert_share(fates.silent.len(), CONNECTIONS);

        // Each of their SYNs was dropped here, and nobody else's.
        let mut counted = (0, 0);
        until("every SYN is counted", || {
            let again = retransmitted_syns(&stage.client) - before;
            let status = guard.status();
            let counts = guard_of(&status, 80, None);
            counted = (packets_with(counts, "drop"), packets(counts, "Room", "pass"));
            counted == (fates.silent.len() as u64 + again, fates.connected.len() as u64)
        });
        assert!(counted.0 >= 5 * fates.silent.len() as u64, "{counted:?}");
        let status = guard.status();
        let shed = &guard_of(&status, 80, None)["shed"];
        assert_eq!((&shed["policy"], &shed["p"]), (&"slpd".into(), &P.into()), "{status:#}");
        assert_eq!(shed["fallback"], "none");

        // The port beside it is not guarded, and nobody's SYN is lost there.
        drop(attempts);
        let before = retransmitted_syns(&stage.client);
        let (mut attempts, _) = crowd(&stage.client, &[from], beside);
        until("everyone is connected", || Fates::of(&mut attempts).connected.len() == CONNECTIONS);
        assert_eq!(retransmitted_syns(&stage.client), before, "each at the first SYN");
        guard.stop();
    }
}

#[test]
fn on_a_server_the_chosen_fail_whole_and_all_others_at_once_succeed() {
    if !skip_without_root("shed, server") {
        at_both_hooks(the_chosen_fail_on_a_server);
    }
}

#[test]
fn by_client_each_address_is_served_whole_or_not_at_all() {
    if skip_without_root("shed, client") {
        return;
    }
    let stage = Stage::new("shed-client");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let _listener = Stalled::new(&stage.server, to, 4000);
    let guard = guard(
        &stage.server,
        KEY_LINE,
        &format!(
            "[[listener]]\nport = 80\nshed = {{ p = {P}, key = \"client\", refuse = \"rst\" }}"
        ),
    );
    let clients = more_addresses(&stage, 100);
    let (mut attempts, turn) = crowd(&stage.client, &clients, to);
    until("everyone has an answer", || Fates::of(&mut attempts).silent.is_empty());
    let fates = Fates::of(&mut attempts);
    fates.assert_chosen(&fates.refused, to, TG_KEY_CLIENT, turn);
    let per_client = CONNECTIONS / clients.len();
    assert_eq!(fates.refused.len() % per_client, 0, "whole clients");
    assert_share(fates.refused.len() / per_client, clients.len());
    let status = guard.status();
    let counted = packets(guard_of(&status, 80, None), "ShedStateless", "reset");
    assert_eq!(counted, fates.refused.len() as u64, "{status:#}");
    guard.stop();
}

/// SBPD draws by each connection's sequence number, which clients do not tell: here it is about
/// shares, and that nobody gets through later.
#[test]
fn with_a_table_the_drawn_fail_whole_and_have_their_stamps() {
    if skip_without_root("shed, sbpd") {
        return;
    }
    let stage = Stage::new("shed-sbpd");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let _listener = Stalled::new(&stage.server, to, 4000);
    let guard = guard(
        &stage.server,
        KEY_LINE,
        &format!("[[listener]]\nport = 80\nshed = {{ p = {P}, policy = \"sbpd\" }}"),
    );
    let from: IpAddr = CLIENT_V4.parse().expect("an address");
    let before = retransmitted_syns(&stage.client);
    let (mut attempts, _) = crowd(&stage.client, &[from], to);
    // Before anyone's second SYN.
    sleep(Duration::from_millis(500));
    let first = Fates::of(&mut attempts);
    assert_share(first.silent.len(), CONNECTIONS);
    sleep(Duration::from_millis(4500));
    assert_eq!(Fates::of(&mut attempts).silent, first.silent, "nobody gets through later");
    let status = guard.status();
    let stamps = guard_of(&status, 80, None)["shed"]["cells_in_use"].as_u64().expect("a table");
    assert_each_has_a_stamp(&stage.client, &guard, first.silent.len(), stamps);
    let again = retransmitted_syns(&stage.client) - before;
    assert!(again >= 4 * first.silent.len() as u64, "they went on trying: {again} times");
    guard.stop();
}

/// Every connection that was dropped by SBPD has a stamp that stands: one of its own, or, of those
/// returned, one that it met at its first SYN, when another had made it in the same cell. Of 400
/// connections and 900,000 cells one does so in 2.7 % of all runs (p × 400 × 399 / 2 / cells), and
/// three in three of a million.
#[track_caller]
fn assert_each_has_a_stamp(
    client: &Namespace,
    guard: &Guard,
    dropped: usize,
    stamps: u64,
) -> usize {
    let mut counted = Default::default();
    let everything = || {
        let again = retransmitted_syns(client);
        let status = guard.status();
        let counts = guard_of(&status, 80, None);
        counted = (packets(counts, "ShedNew", "drop"), packets(counts, "ShedAgain", "drop"), again);
        let (new, met, again) = counted;
        new + met == dropped as u64 + again
    };
    until("each SYN of those dropped is counted", everything);
    let (new, ..) = counted;
    assert_eq!(stamps, new, "stamps; of new drops, drops again and SYNs again {counted:?}");
    assert!((dropped as u64 - 2..=dropped as u64).contains(&new), "{counted:?} of {dropped}");
    dropped - new as usize
}

/// A path's section for port 80 of the chain's server.
fn path(chain: &Chain, hook: &str, shed: &str) -> String {
    format!(
        "[[path]]\nport = 80\naddress = \"{}\"\nhook = \"{hook}\"\nshed = {{ {shed} }}",
        chain.server_address()
    )
}

fn the_chosen_fail_before_a_router(hook: &str) {
    for refuse in ["silence", "rst"] {
        let chain = Chain::new("shed-router", 1);
        if hook == "driver" {
            chain.client_link().receive_offload().expect("ethtool sets GRO");
        }
        let _nginx = Nginx::start(chain.server(), &["80 backlog=4000", "81 backlog=4000"]);
        let to = SocketAddr::new(chain.server_address(), 80);
        let beside = SocketAddr::new(chain.server_address(), 81);
        let guard = guard(
            chain.router(0),
            KEY_LINE,
            &path(&chain, hook, &format!("p = {P}, refuse = \"{refuse}\"")),
        );
        let from = chain.client_address();
        let (mut attempts, turn) = crowd(chain.client(), &[from], to);
        if refuse == "rst" {
            until("everyone has an answer", || Fates::of(&mut attempts).silent.is_empty());
        } else {
            sleep(Duration::from_millis(3500));
        }
        let fates = Fates::of(&mut attempts);
        let dropped = if refuse == "rst" { &fates.refused } else { &fates.silent };
        fates.assert_chosen(dropped, to, TG_KEY_CONNECTION, turn);
        assert_share(dropped.len(), CONNECTIONS);
        let status = guard.status();
        let counts = guard_of(&status, 80, Some(&chain.server_address().to_string()));
        assert_eq!(counts["is_path"], true, "{status:#}");
        let passed = packets(counts, "Forwarded", "pass");
        assert_eq!(passed, fates.connected.len() as u64, "{status:#}");

        // The server behind it knows of nothing, on this port and on the other.
        let before = retransmitted_syns(chain.client());
        for _ in 0..50 {
            let seen = fetch(chain.client(), beside, Duration::from_secs(2));
            assert_eq!(seen.answer, Answer::Status(200), "{hook}, {refuse}");
        }
        if refuse == "rst" {
            assert_eq!(retransmitted_syns(chain.client()), before, "each at the first SYN");
        }
        guard.stop();
    }
}

#[test]
fn on_a_router_before_a_stock_server_the_chosen_fail_whole() {
    if !skip_without_root("shed, router") {
        at_both_hooks(the_chosen_fail_before_a_router);
    }
}

/// A router's driver has a program that knows of paths alone; one that comes to guard a listener of
/// its own gets the other, and goes back to it.
#[test]
fn a_router_guards_a_listener_from_one_configuration_to_the_next() {
    if skip_without_root("shed, router and listener") {
        return;
    }
    let chain = Chain::new("shed-both", 1);
    chain.client_link().receive_offload().expect("ethtool sets GRO");
    let _behind = Nginx::start(chain.server(), &["80 backlog=4000"]);
    let _here = Nginx::start(chain.router(0), &["81 backlog=4000"]);
    let beyond = SocketAddr::new(chain.server_address(), 80);
    let own = SocketAddr::new(chain.router_address(), 81);
    let all = "policy = \"rbd\", p = 1, refuse = \"rst\"";
    let path = path(&chain, "driver", all);
    let both = format!("{path}\n[[listener]]\nport = 81\nhook = \"driver\"\nshed = {{ {all} }}");
    let mut guard = guard(chain.router(0), KEY_LINE, &path);
    let fate = |to| fetch(chain.client(), to, Duration::from_secs(2)).answer;
    assert_eq!((fate(beyond), fate(own)), (Answer::Refused, Answer::Status(200)));
    for (sections, listener) in [(&both, Answer::Refused), (&path, Answer::Status(200))] {
        let text = format!("shed_key = \"/run/shed.key\"\n{sections}");
        chain.router(0).run(move || fs::write(CONFIGURATION, text).expect("a configuration"));
        guard.reload();
        // It announces each guard in a line of its own.
        until("the configuration is in force", || fate(own) == listener);
        assert_eq!(fate(beyond), Answer::Refused);
    }
    guard.stop();
}

/// Refused by cookie: the handshake stands for the client alone, and the kernel that gets its ACK,
/// of this host or of the server behind the router, has nothing to go with it.
#[test]
fn by_cookie_only_a_client_that_answers_is_told() {
    if skip_without_root("shed, cookie") {
        return;
    }
    for hook in ["ip", "driver"] {
        let stage = Stage::new("shed-cookie");
        if hook == "driver" {
            stage.receive_offload();
        }
        let _nginx = Nginx::start(&stage.server, &["80", "81", "[::]:80", "[::]:81"]);
        let shed = "shed = { p = 1, refuse = \"cookie\" }";
        let section = format!("[[listener]]\nport = 80\nhook = \"{hook}\"\n{shed}");
        let guard = guard(&stage.server, KEY_LINE, &section);
        for address in [SERVER_V4, SERVER_V6] {
            let at = |port| SocketAddr::new(address.parse().expect("an address"), port);
            for _ in 0..20 {
                let seen = fetch(&stage.client, at(80), Duration::from_secs(2));
                assert_eq!(seen.answer, Answer::Reset, "{hook}, {address}");
            }
            let seen = fetch(&stage.client, at(81), Duration::from_secs(2));
            assert_eq!(seen.answer, Answer::Status(200), "beside it");
        }
        let status = guard.status();
        let counted = packets(guard_of(&status, 80, None), "ShedStateless", "hollow");
        assert_eq!(counted, 40, "{status:#}");
        guard.stop();
    }
    let chain = Chain::new("shed-cookie-router", 1);
    let _nginx = Nginx::start(chain.server(), &["80"]);
    let section = path(&chain, "ip", "p = 1, refuse = \"cookie\"");
    let guard = guard(chain.router(0), KEY_LINE, &section);
    let to = SocketAddr::new(chain.server_address(), 80);
    for _ in 0..20 {
        let seen = fetch(chain.client(), to, Duration::from_secs(2));
        assert_eq!(seen.answer, Answer::Reset, "behind a router");
    }
    guard.stop();
}

/// p = "auto": while the server takes what comes, nobody is shed. When it stops, and clients keep
/// coming, they are shed before its listen queue is looked at; and when all is over, nobody is.
#[test]
fn p_rises_when_the_server_stops_and_falls_when_it_goes_on() {
    if skip_without_root("shed, auto") {
        return;
    }
    let stage = Stage::new("shed-auto");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let server = Stalled::new(&stage.server, to, 16);
    let guard = guard(
        &stage.server,
        KEY_LINE,
        "[[listener]]\nport = 80\nmechanism = \"default\"\nshed = { p = \"auto\" }",
    );
    assert!(guard.announced.contains("what the listener cannot drain"), "{}", guard.announced);
    let from: IpAddr = CLIENT_V4.parse().expect("an address");
    let mut port = 20_000;
    // Whoever comes waits until the last of these rounds is over.
    let mut come = |rounds: usize, accepts: bool| {
        let mut waiting = Vec::new();
        for _ in 0..rounds {
            let sources = (0..2).map(|n| SocketAddr::new(from, port + n)).collect();
            port += 2;
            waiting.extend(dial(&stage.client, sources, to));
            sleep(Duration::from_millis(5));
            if accepts {
                drop(server.accept_all());
            }
        }
    };
    let shed = |guard: &Guard| {
        let status = guard.status();
        let counts = guard_of(&status, 80, None);
        (counts["shed"]["p"].as_f64().expect("a number"), packets(counts, "ShedStateless", "drop"))
    };
    come(200, true);
    assert_eq!(shed(&guard), (0.0, 0), "the server takes what comes");
    come(400, false);
    let (p, dropped) = shed(&guard);
    assert!(p > 0.5 && dropped > 100, "p = {p}, {dropped} dropped");
    // Killed, the daemon leaves the control at work; the next one takes it over.
    guard.kill();
    come(1200, true);
    let next = Guard::start(&stage.server, &["--config", CONFIGURATION]);
    until("p is 0 again", || {
        come(100, true);
        shed(&next).0 == 0.0
    });
    next.stop();
}

/// Clients of one address that come at an even rate, each from a port of its own.
struct Coming<'a> {
    chain: &'a Chain,
    to: SocketAddr,
    next_port: u16,
}

impl Coming<'_> {
    /// So many a second for so long; what became of them, and after how much of that time each had begun.
    fn come(&mut self, per_s: usize, lasts: Duration) -> Vec<(Duration, SocketAddr, Fate)> {
        const ROUND: Duration = Duration::from_millis(10);
        let (begun, rounds) = (Instant::now(), lasts.as_millis() / ROUND.as_millis());
        let (mut waiting, mut ended) = (Vec::new(), Vec::new());
        for round in 1..=rounds as u32 {
            let from = (0..per_s / 100).map(|_| {
                self.next_port += 1;
                SocketAddr::new(self.chain.client_address(), self.next_port)
            });
            let at = begun.elapsed();
            let dialed = dial(self.chain.client(), from.collect(), self.to);
            waiting.extend(dialed.into_iter().map(|client| (at, client)));
            sleep((ROUND * round).saturating_sub(begun.elapsed()));
            Self::hear(&mut waiting, &mut ended);
        }
        until("everyone has an answer", || {
            Self::hear(&mut waiting, &mut ended);
            waiting.is_empty()
        });
        ended
    }

    /// Who has an answer leaves.
    fn hear(waiting: &mut Vec<(Duration, Dialed)>, ended: &mut Vec<(Duration, SocketAddr, Fate)>) {
        waiting.retain_mut(|(at, client)| {
            let fate = client.fate();
            if fate != Fate::Silent {
                ended.push((*at, client.from, fate));
            }
            fate == Fate::Silent
        });
    }
}

/// p = "auto" where there is no queue to go by: while more come than the rate that is asked for, p is the share that is
/// too many; those whom it names are told so at once, and as many as were asked for have a connection, each at its first
/// SYN. When fewer come, p is 0 and nobody is shed.
#[test]
fn on_a_router_p_follows_the_rate_at_which_clients_come() {
    if skip_without_root("shed, auto on a router") {
        return;
    }
    const RATE_PER_S: usize = 200;
    const CROWD_PER_S: usize = 4 * RATE_PER_S;
    const SECOND: Duration = Duration::from_secs(1);
    let chain = Chain::new("shed-auto-router", 1);
    let _nginx = Nginx::start(chain.server(), &["80 backlog=4000"]);
    let to = SocketAddr::new(chain.server_address(), 80);
    let asked = format!("p = \"auto\", rate_per_s = {RATE_PER_S}, refuse = \"rst\"");
    let guard = guard(chain.router(0), KEY_LINE, &path(&chain, "ip", &asked));
    let address = chain.server_address().to_string();
    let p = || {
        let status = guard.status();
        let shed = &guard_of(&status, 80, Some(&address))["shed"];
        shed["p"].as_f64().unwrap_or_else(|| panic!("no p: {status:#}"))
    };
    let is_connected = |(_, _, fate): &(_, _, Fate)| *fate == Fate::Connected;
    let mut coming = Coming { chain: &chain, to, next_port: 20_000 };
    let before = retransmitted_syns(chain.client());
    assert!(coming.come(RATE_PER_S / 2, SECOND).iter().all(is_connected), "fewer than may");
    assert_eq!(p(), 0.0);

    let turn = turn_with_time_left();
    let lasted = 3 * SECOND;
    let crowd = coming.come(CROWD_PER_S, lasted);
    let p_in_crowd = p();
    assert!((0.6..0.9).contains(&p_in_crowd), "{p_in_crowd}");
    // What it drops is what it draws, but for how p moves: it has to find out first, and wanders.
    let settled: Vec<_> = crowd.into_iter().filter(|(at, ..)| *at >= SECOND).collect();
    for (at, from, fate) in &settled {
        let drawn = drawn_x32(*from, to, TG_KEY_CONNECTION, turn);
        assert!(drawn >= parts_x32(0.5) || *fate == Fate::Refused, "{from} came in after {at:?}");
        assert!(
            drawn < parts_x32(0.95) || *fate == Fate::Connected,
            "{from} was shed after {at:?}"
        );
    }
    let per_s = settled.iter().filter(|one| is_connected(one)).count() as f64 / 2.0;
    assert!((per_s / RATE_PER_S as f64 - 1.0).abs() < 0.25, "{per_s} a second came in");

    until("p is 0 again", || {
        coming.come(RATE_PER_S / 2, SECOND / 5);
        p() == 0.0
    });
    assert!(coming.come(RATE_PER_S / 2, SECOND).iter().all(is_connected), "fewer than may, again");
    assert_eq!(retransmitted_syns(chain.client()), before, "each had its answer at the first SYN");
    guard.stop();
}

/// Two routers in a row with one key file: whom the first lets through, the second does too. With
/// keys of their own, each takes its share.
#[test]
fn routers_that_share_a_key_file_drop_the_same_connections() {
    if skip_without_root("shed, two routers") {
        return;
    }
    for (second_key, shared) in [(KEY_LINE, true), (OTHER_KEY_LINE, false)] {
        let chain = Chain::new("shed-routers", 2);
        let _nginx = Nginx::start(chain.server(), &["80 backlog=4000"]);
        let to = SocketAddr::new(chain.server_address(), 80);
        let section = path(&chain, "ip", &format!("p = {P}, refuse = \"rst\""));
        let first = guard(chain.router(0), KEY_LINE, &section);
        let second = guard(chain.router(1), second_key, &section);
        let (mut attempts, _) = crowd(chain.client(), &[chain.client_address()], to);
        until("everyone has an answer", || Fates::of(&mut attempts).silent.is_empty());
        let address = chain.server_address().to_string();
        let dropped = |guard: &Guard| {
            let status = guard.status();
            packets(guard_of(&status, 80, Some(&address)), "ShedStateless", "reset") as usize
        };
        let (by_first, by_second) = (dropped(&first), dropped(&second));
        assert_share(by_first, CONNECTIONS);
        if shared {
            assert_eq!(by_second, 0, "one answer for one connection");
        } else {
            assert_share(by_second, CONNECTIONS - by_first);
        }
        assert_eq!(Fates::of(&mut attempts).refused.len(), by_first + by_second);
        first.stop();
        second.stop();
    }
}

/// The key and the table stand without a daemon, and the next one takes them over: whoever is
/// being dropped goes on being dropped. A table that is to be larger takes a new start.
#[test]
fn the_dropped_stay_dropped_while_daemons_come_and_go() {
    if skip_without_root("shed, daemons") {
        return;
    }
    let stage = Stage::new("shed-daemons");
    let to = SocketAddr::new(SERVER_V4.parse().expect("an address"), 80);
    let _listener = Stalled::new(&stage.server, to, 4000);
    let write = |arrivals_per_s: u32| {
        let text = format!(
            "[[listener]]\nport = 80\nshed = {{ p = {P}, policy = \"sbpd\", arrivals_per_s = {arrivals_per_s} }}"
        );
        stage.server.run(move || fs::write(CONFIGURATION, text).expect("a configuration"));
    };
    let start = || Guard::start(&stage.server, &["--config", CONFIGURATION]);
    let stamps = |guard: &Guard| {
        let status = guard.status();
        let shed = &guard_of(&status, 80, None)["shed"];
        let number = |name: &str| shed[name].as_u64().expect("a table");
        (number("cells_in_use"), number("cells"))
    };
    write(10_000);
    let guard = start();
    assert!(guard.announced.contains("sbpd of 0.3 by connection"), "{}", guard.announced);
    let sent = Instant::now();
    let (mut attempts, _) = crowd(&stage.client, &[CLIENT_V4.parse().expect("an address")], to);
    sleep(Duration::from_millis(300));
    let dropped = Fates::of(&mut attempts).silent;
    assert_share(dropped.len(), CONNECTIONS);
    let stamped = stamps(&guard);
    let strangers = assert_each_has_a_stamp(&stage.client, &guard, dropped.len(), stamped.0);

    // Killed, it stands alone; the next one finds the stamps. Their SYNs come all the while.
    guard.kill();
    sleep(Duration::from_millis(1500));
    let mut guard = start();
    assert_eq!(stamps(&guard), stamped);
    sleep(Duration::from_millis(1500));
    assert_eq!(Fates::of(&mut attempts).silent, dropped);

    // A larger table is refused in one line while the guard stands.
    write(20_000);
    guard.signal(nix::sys::signal::Signal::SIGHUP);
    let complaint = guard.complaint().expect("a complaint");
    assert!(complaint.contains("stop tidegate and start it again"), "{complaint}");
    assert_eq!(stamps(&guard), stamped, "the configuration is as it was");

    // The next daemon makes it. It begins empty, but each draws again as it drew before; only who
    // was not drawn, and had met another's stamp, may get in.
    guard.kill();
    let guard = start();
    assert!(stamps(&guard).1 > stamped.1, "a larger table");
    sleep(Duration::from_millis(1500));
    let still = Fates::of(&mut attempts).silent;
    let came_in: Vec<_> = dropped.iter().filter(|from| !still.contains(from)).collect();
    assert!(came_in.len() <= strangers, "{came_in:?} came in, {strangers} may");
    assert_eq!(still.len() + came_in.len(), dropped.len(), "nobody is dropped who was let in");
    guard.stop();
    until_sent_again(sent, "everyone is connected once nothing sheds", || {
        Fates::of(&mut attempts).silent.is_empty()
    });
}
