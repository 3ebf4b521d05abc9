// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server's host and a client's, joined by a veth.

use std::net::UdpSocket;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tidegate_lab::{Link, Namespace};

/// The server's addresses.
pub const SERVER_V4: &str = "10.77.0.1";
/// The server's addresses.
pub const SERVER_V6: &str = "fd77::1";
/// The client's addresses.
pub const CLIENT_V4: &str = "10.77.0.2";
/// The client's addresses.
pub const CLIENT_V6: &str = "fd77::2";

/// Two namespaces, `server` with interface `srv0` and `client` with `cli0`. Anonymous: they
/// end with the process, however it ends.
pub struct Stage {
    /// Where the server and tidegate run.
    pub server: Namespace,
    /// Where the clients run.
    pub client: Namespace,
    /// The veth between them.
    pub link: Link,
}

impl Stage {
    /// Lays the stage out.
    pub fn new(label: &str) -> Self {
        let server = Namespace::new(&format!("{label}-server")).expect("a server namespace");
        let client = Namespace::new(&format!("{label}-client")).expect("a client namespace");
        let link = Link::between(&server, "srv0", &client, "cli0").expect("a veth");
        for (end, v4, v6) in [(link.a(), SERVER_V4, SERVER_V6), (link.b(), CLIENT_V4, CLIENT_V6)] {
            end.add_address(&format!("{v4}/24")).expect("an IPv4 address");
            end.add_address(&format!("{v6}/64")).expect("an IPv6 address");
        }
        link.up().expect("both ends up");
        for (namespace, other) in [(&server, CLIENT_V6), (&client, SERVER_V6)] {
            namespace.run(move || wait_for_route(other));
        }
        Stage { server, client, link }
    }

    /// Has packets arrive in the order in which they were sent. A veth hands each over on its sender's
    /// processor, and of two that one socket sends from two processors the second may come first.
    pub fn keep_order(&self) {
        for end in [self.link.a(), self.link.b()] {
            end.receive_on(0).expect("receive packet steering");
        }
    }

    /// Turns GRO on at both ends, as native XDP that answers by redirect wants it.
    pub fn receive_offload(&self) {
        self.link.receive_offload().expect("ethtool sets GRO");
    }
}

/// Brings a bridge up in a namespace: an interface without anyone behind it, whose driver takes no XDP
/// program.
pub fn bridge(namespace: &Namespace, name: &str, address: &str) {
    namespace.ip(&format!("link add {name} type bridge")).expect("a bridge");
    namespace.ip(&format!("address add {address} dev {name}")).expect("an address");
    namespace.ip(&format!("link set {name} up")).expect("a bridge that is up");
}

/// The kernel adds an IPv6 address's route a moment after the address.
fn wait_for_route(to: &str) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        let probe = UdpSocket::bind("[::]:0").expect("a socket");
        if probe.connect((to, 9)).is_ok() {
            return;
        }
        sleep(Duration::from_millis(5));
    }
    panic!("no route to {to}");
}
