// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A server that cannot be as it is asked to says so in one line.

use std::net::SocketAddr;

use tidegate_servers::{EventsKind, Server, ServerKind, Settings};

use crate::running::Way;
use crate::site::Site;

fn refusal(settings: &Settings) -> String {
    let message = Server::bind(settings).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

#[test]
fn both_families_share_a_port_and_a_taken_one_is_named() {
    let server = Way::default().start(|_| ());
    let port = server.address.port();
    let taken = Settings { addresses: vec![server.address], ..Settings::default() };
    assert!(refusal(&taken).contains(&port.to_string()));
    server.stop();
    let both = Server::bind(&Settings {
        addresses: vec![
            SocketAddr::from(([0, 0, 0, 0], port)),
            SocketAddr::from(([0_u16; 8], port)),
        ],
        ..Settings::default()
    });
    assert_eq!(both.unwrap().addresses().len(), 2);
}

#[test]
fn a_root_that_cannot_be_served_is_named() {
    let site = Site::new();
    for name in ["nowhere", "page.html"] {
        let root = site.root().join(name);
        let settings = Settings {
            addresses: vec![([127, 0, 0, 1], 0).into()],
            root: Some(root.clone()),
            ..Default::default()
        };
        assert!(refusal(&settings).contains(root.to_str().unwrap()));
    }
}

#[test]
fn what_a_server_does_not_have_is_not_taken_from_it() {
    let settings = Settings { server: ServerKind::Tux, ..Settings::default() };
    let events = Settings { events: Some(EventsKind::Poll), ..settings.clone() };
    assert!(refusal(&events).starts_with("tux has no choice of events"));
    let threads = Settings { threads: std::num::NonZeroU32::new(3), ..settings.clone() };
    assert!(refusal(&threads).starts_with("tux has no threads"));
    let costly = Settings { in_kernel: true, cost_us: 5, ..settings.clone() };
    assert!(refusal(&costly).starts_with("only tux answers inside the kernel"));
    assert!(refusal(&settings).contains("no address"));
}
