// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits after a connection: the stage, the guards and the counts of the stories about it.

use std::net::SocketAddr;
use std::ops::Range;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_lab::Namespace;

use crate::closers::{First, close_first_from, kernel_time_wait, serve_closers};
use crate::stage::{CLIENT_V4, CLIENT_V6, SERVER_V4, SERVER_V6, Stage};
use crate::tidegate::{Guard, status};

/// The server's port.
pub const PORT: u16 = 80;
/// From here on the clients have ports, each its own.
pub const FIRST_PORT: u16 = 20_000;

/// The client's and the server's address, in each family.
pub fn families() -> [(&'static str, &'static str); 2] {
    [(CLIENT_V4, SERVER_V4), (CLIENT_V6, SERVER_V6)]
}

/// An address and a port.
pub fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// `tidegate run` with this configuration.
pub fn guard(namespace: &Namespace, config: &str) -> Guard {
    let path = format!("/run/{}.toml", namespace.label());
    namespace.place_file(&path, config).expect("a file");
    Guard::start(namespace, &["--config", &path])
}

/// Connections one after the other, closed first as `first` says of each.
pub fn visits(stage: &Stage, count: u16, first: impl Fn(u16) -> First + Send + 'static) {
    visits_from(stage, Duration::ZERO, count, first);
}

/// The same of clients so far away.
pub fn visits_from(
    stage: &Stage,
    away: Duration,
    count: u16,
    first: impl Fn(u16) -> First + Send + 'static,
) {
    visit(stage, away, 0..count, first);
}

/// Those of them with these numbers, each on a port of its own.
pub fn visit(
    stage: &Stage,
    away: Duration,
    numbers: Range<u16>,
    first: impl Fn(u16) -> First + Send + 'static,
) {
    stage.client.run(move || {
        for i in numbers {
            let (own, server) = families()[usize::from(i % 2)];
            let first = first(i / 2);
            close_first_from(at(own, FIRST_PORT + i), away, at(server, PORT), first)
                .unwrap_or_else(|e| panic!("connection {i}, {first:?}: {e}"));
        }
    });
}

/// What status tells of TIME-WAIT.
pub fn time_wait(namespace: &Namespace) -> Value {
    status(namespace)["time_wait"].clone()
}

/// A number of it.
pub fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of:#}"))
}

/// A count of it; 0 where nothing was counted.
pub fn count(of: &Value, name: &str) -> u64 {
    of["counts"][name].as_u64().unwrap_or(0)
}

/// Pairs held in a namespace: by the kernel, by us.
pub fn held(namespace: &Namespace) -> (u64, u64) {
    let status = time_wait(namespace);
    (kernel_time_wait(namespace).len() as u64, number(&status, "held_by_us"))
}

/// The last segments of a connection are under way when its programs are done.
pub fn settled(what: &str, is: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        if is() {
            return;
        }
        sleep(Duration::from_millis(50));
    }
    assert!(is(), "{what}");
}

/// A stage whose server and client negotiate, each with these lines of its own.
pub fn negotiating(label: &str, server: &str, client: &str) -> (Stage, Vec<Guard>) {
    let stage = Stage::new(label);
    // An ACK that its sender's FIN has overtaken finds nobody at an end that does not wait.
    stage.keep_order();
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

/// All that wait, by end: the server's and the client's, kernel and table together.
pub fn waiting(stage: &Stage) -> (u64, u64) {
    let of = |namespace: &Namespace| {
        let (kernel, us) = held(namespace);
        kernel + us
    };
    (of(&stage.server), of(&stage.client))
}

/// The same, once it has been so for longer than a daemon takes to end a TIME_WAIT of the kernel's that
/// came after all: what is compared with it is not to fall below.
pub fn waiting_at_rest(stage: &Stage) -> (u64, u64) {
    const REST: Duration = Duration::from_millis(600);
    let (mut last, mut since) = (waiting(stage), Instant::now());
    while since.elapsed() < REST {
        sleep(Duration::from_millis(50));
        let now = waiting(stage);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    last
}
