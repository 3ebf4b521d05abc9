// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host that forwards: a wildcard listener matches every destination, but what only
//! passes through is not ours to refuse.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tidegate_lab::{Link, Namespace, skip_without};
use tidegate_tests::{
    Guard, SERVER_V4, SERVER_V6, Stage, guard_of, packets, skip_without_root, until,
};

/// Connects and reads one byte.
fn fetch(client: &Namespace, to: String) -> Result<u8, ErrorKind> {
    client.run(move || {
        let to: SocketAddr = to.parse().expect("an address");
        let mut stream =
            TcpStream::connect_timeout(&to, Duration::from_millis(900)).map_err(|e| e.kind())?;
        stream.set_read_timeout(Some(Duration::from_millis(900))).expect("a timeout");
        let mut byte = [0];
        stream.read_exact(&mut byte).map_err(|e| e.kind())?;
        Ok(byte[0])
    })
}

/// A listening socket in a namespace, with the smallest of backlogs.
fn listen(namespace: &Namespace) -> TcpListener {
    namespace.run(|| {
        let listener = TcpListener::bind("[::]:80").expect("a free port");
        let answer = nix::sys::socket::listen(
            &listener,
            nix::sys::socket::Backlog::new(1).expect("a small backlog"),
        );
        answer.expect("a smaller backlog");
        listener
    })
}

/// The server's host is a router to another.
struct Router {
    stage: Stage,
    behind: Namespace,
    _link: Link,
}

impl Router {
    fn new(label: &str) -> Self {
        let stage = Stage::new(label);
        let behind = Namespace::new(&format!("{label}-behind")).expect("a third namespace");
        let link = Link::between(&stage.server, "srv1", &behind, "beh0").expect("a veth");
        let ends = [(link.a(), "10.78.0.1", "fd78::1"), (link.b(), "10.78.0.2", "fd78::2")];
        for (end, v4, v6) in ends {
            end.add_address(&format!("{v4}/24")).expect("an IPv4 address");
            end.add_address(&format!("{v6}/64")).expect("an IPv6 address");
        }
        link.up().expect("both ends up");
        stage.server.sysctl("net.ipv4.ip_forward", 1).expect("forwarding");
        stage.server.sysctl("net.ipv6.conf.all.forwarding", 1).expect("forwarding");
        stage.link.b().add_route("10.78.0.0/24", Some(SERVER_V4)).expect("a route");
        stage.link.b().add_route("fd78::/64", Some(SERVER_V6)).expect("a route");
        link.b().add_route("10.77.0.0/24", Some("10.78.0.1")).expect("a route");
        link.b().add_route("fd77::/64", Some("fd78::1")).expect("a route");
        Router { stage, behind, _link: link }
    }
}

/// A server that says one byte to everyone.
fn saying(namespace: &Namespace, byte: u8) {
    let listener = listen(namespace);
    let serving = namespace.thread(move || {
        for stream in listener.incoming() {
            let _ = stream.expect("a connection").write_all(&[byte]);
        }
    });
    drop(serving.expect("a thread"));
}

#[test]
fn what_is_only_forwarded_is_not_judged() {
    if skip_without_root("what_is_only_forwarded_is_not_judged") {
        return;
    }
    let Router { stage, behind, _link } = Router::new("forwarding");
    // Behind the router a server answers; the router's own listener is never drained.
    saying(&behind, b'!');
    let _full = listen(&stage.server);
    let guard = Guard::start(
        &stage.server,
        &["--port", "80", "--mechanism", "rst-syn", "--hook", "ip", "--fin", "rst-fin"],
    );
    for _ in 0..2 {
        let filling = fetch(&stage.client, format!("{SERVER_V4}:80"));
        assert_eq!(filling, Err(ErrorKind::WouldBlock), "accepted by the kernel, never answered");
    }

    for address in [SERVER_V4.to_owned(), format!("[{SERVER_V6}]")] {
        let refused = fetch(&stage.client, format!("{address}:80"));
        assert_eq!(refused, Err(ErrorKind::ConnectionRefused), "the router's own listener");
    }
    for address in ["10.78.0.2", "[fd78::2]"] {
        let answered = fetch(&stage.client, format!("{address}:80"));
        assert_eq!(answered, Ok(b'!'), "{address} lies behind the router");
    }
    // Nor are its ACKs, which bring no cookie: one in a million would seem to. Nor its FINs, which are of no
    // connection here.
    let status = guard.status();
    for reason in ["CookieForeign", "FinNoConnection"] {
        assert_eq!(packets(guard_of(&status, 80, None), reason, "pass"), 0, "{reason}: {status:#}");
    }
    guard.stop();
}

/// One that comes, as VRRP brings it, is judged with the daemon's next look; and one that has gone to another host is left
/// to the kernel, which drops what still comes here for it.
#[test]
fn an_address_is_judged_while_it_is_the_hosts() {
    if skip_without_root("an_address_is_judged_while_it_is_the_hosts") {
        return;
    }
    let stage = Stage::new("own");
    stage.link.b().add_route("10.79.0.0/16", Some(SERVER_V4)).expect("a route");
    stage.link.b().add_route("fd79::/64", Some(SERVER_V6)).expect("a route");
    let _full = listen(&stage.server);
    for _ in 0..2 {
        let filling = fetch(&stage.client, format!("{SERVER_V4}:80"));
        assert_eq!(filling, Err(ErrorKind::WouldBlock), "accepted by the kernel, never answered");
    }
    let guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
    for forwards in [0, 1] {
        for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            stage.server.sysctl(name, forwards).expect("a sysctl");
        }
        for (to, kind, own) in [
            ("10.79.0.1:80", "address", "10.79.0.1/32 dev lo"),
            ("10.79.1.1:80", "route", "local 10.79.1.0/24 dev lo"),
            ("[fd79::1]:80", "address", "fd79::1/128 dev lo"),
        ] {
            let is_judged =
                || fetch(&stage.client, to.to_owned()) == Err(ErrorKind::ConnectionRefused);
            assert!(!is_judged(), "{to} is nobody's yet, forwards: {forwards}");
            stage.server.ip(&format!("{kind} add {own}")).expect("it comes");
            until(&format!("{to} is judged"), is_judged);
            stage.server.ip(&format!("{kind} del {own}")).expect("it goes");
            until(&format!("{to} is judged no more"), || !is_judged());
        }
        assert_eq!(
            fetch(&stage.client, format!("{SERVER_V4}:80")),
            Err(ErrorKind::ConnectionRefused),
            "the host's own is judged all the while"
        );
    }
    guard.stop();
}

/// A container's port that is published, and a process of the host's own that listens on it, too.
#[test]
fn what_nat_sends_to_another_host_goes_there_past_a_guard_at_the_tcp_entry() {
    const TEST: &str = "what_nat_sends_to_another_host_goes_there_past_a_guard_at_the_tcp_entry";
    if skip_without(TEST, &[("nft", "nftables")]) {
        return;
    }
    let Router { stage, behind, _link } = Router::new("nat");
    saying(&stage.server, b'o');
    saying(&behind, b'b');
    let to = format!("{SERVER_V4}:80");
    let guard = Guard::on_port(&stage.server, 80, "abort", "tcp");
    assert_eq!(fetch(&stage.client, to.clone()), Ok(b'o'));
    let rule = "table ip nat {\nchain in {\ntype nat hook prerouting priority -100\n\
                ip daddr 10.77.0.1 tcp dport 80 dnat to 10.78.0.2\n}\n}\n";
    stage.server.place_file("/run/nat.nft", rule.to_owned()).expect("a file");
    stage.server.output(stage.server.command("nft -f /run/nat.nft")).expect("nft takes it");
    assert_eq!(fetch(&stage.client, to), Ok(b'b'), "where it is published");
    guard.stop();
}
