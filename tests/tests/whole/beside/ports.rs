// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bridge and its port: what comes in at the port comes in once more at the bridge, and a SYN is
//! judged, and counted, once.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate_tests::{
    Answer, Guard, Nginx, SERVER_V4, SERVER_V6, Stage, fetch, guard_of, packets, skip_without_root,
    until,
};

const PATIENCE: Duration = Duration::from_secs(2);

/// The server's end of the cable becomes a port, and its addresses the bridge's; but for one that the
/// kernel has given it, which stays.
fn bridge_the_server(stage: &Stage) {
    for command in [
        "link add br0 type bridge",
        "link set srv0 master br0",
        &format!("address del {SERVER_V4}/24 dev srv0"),
        &format!("address del {SERVER_V6}/64 dev srv0"),
        "address add fe80::77/64 dev srv0",
        &format!("address add {SERVER_V4}/24 dev br0"),
        &format!("address add {SERVER_V6}/64 dev br0 nodad"),
        "link set br0 up",
    ] {
        stage.server.ip(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}

#[test]
fn a_syn_that_comes_in_at_a_bridges_port_is_judged_once() {
    if skip_without_root("a_syn_that_comes_in_at_a_bridges_port_is_judged_once") {
        return;
    }
    let stage = Stage::new("ports");
    bridge_the_server(&stage);
    let _nginx = Nginx::start(&stage.server, &["80", "[::]:80"]);
    let guard = Guard::start(&stage.server, &["--port", "80"]);
    let judged = || packets(guard_of(&guard.status(), 80, None), "Room", "pass");
    let mut before = judged();
    for address in [SERVER_V4, SERVER_V6] {
        let to = SocketAddr::new(address.parse().expect("an address"), 80);
        until("the bridge forwards", || {
            before = judged();
            fetch(&stage.client, to, PATIENCE).answer == Answer::Status(200)
        });
        assert_eq!(judged(), before + 1, "{to}");
    }
    guard.stop();
}
