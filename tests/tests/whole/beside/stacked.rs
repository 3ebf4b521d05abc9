// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interfaces that stand on others, or are another's slaves. Not every kernel has these kinds; those that
//! tests/kernels boots do.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use tidegate_lab::Namespace;
use tidegate_tests::{
    CLIENT_V4, Counted, Fate, Guard, Stage, Stalled, dial, skip_without_root, until,
};

/// The host's own ipvlan's.
const SHIM: &str = "10.77.0.7";

/// Adds an interface by `ip link add WORDS`, unless this kernel has none of the kind.
fn has_added(namespace: &Namespace, words: &str) -> bool {
    let Err(refused) = namespace.ip(&format!("link add {words}")) else { return true };
    assert!(refused.to_string().contains("Unknown device type"), "{refused}");
    false
}

fn configured(namespace: &Namespace, text: String) -> Guard {
    let file = "/run/tidegate.toml";
    namespace.run(move || fs::write(file, text).expect("a configuration"));
    Guard::start(namespace, &["--config", file])
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().expect("an address"), port)
}

/// It comes in at the card first, by that's hardware address. Judged again it would take two tokens, and
/// stand twice in the counts.
#[test]
fn a_syn_to_the_hosts_own_ipvlan_is_judged_once() {
    if skip_without_root("a_syn_to_the_hosts_own_ipvlan_is_judged_once") {
        return;
    }
    let stage = Stage::new("ipvlan");
    if !has_added(&stage.server, "ipvl0 link srv0 type ipvlan mode l2") {
        return;
    }
    stage.server.ip(&format!("address add {SHIM}/24 dev ipvl0")).expect("an address");
    stage.server.ip("link set ipvl0 up").expect("an interface that is up");
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
