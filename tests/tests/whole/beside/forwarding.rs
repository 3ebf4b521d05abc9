// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host that forwards: a wildcard listener matches every destination, but what only
//! passes through is not ours to refuse.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use tidegate_lab::{Link, Namespace};
use tidegate_tests::{Guard, SERVER_V4, SERVER_V6, Stage, skip_without_root};

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

#[test]
fn what_is_only_forwarded_is_not_judged() {
    if skip_without_root("what_is_only_forwarded_is_not_judged") {
        return;
    }
    let stage = Stage::new("forwarding");
    let behind = Namespace::new("forwarding-behind").expect("a third namespace");
    let link = Link::between(&stage.server, "srv1", &behind, "beh0").expect("a veth");
    for (end, v4, v6) in [(link.a(), "10.78.0.1", "fd78::1"), (link.b(), "10.78.0.2", "fd78::2")] {
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

    // Behind the router a server answers; the router's own listener is never drained.
    let answering = listen(&behind);
    let _server = behind.thread(move || {
        for stream in answering.incoming() {
            let _ = stream.expect("a connection").write_all(b"!");
        }
    });
    let _full = listen(&stage.server);
    let guard = Guard::on_port(&stage.server, 80, "rst-syn", "ip");
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
    guard.stop();
}
