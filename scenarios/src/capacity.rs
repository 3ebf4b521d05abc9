// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a server's capacity is measured, which every rate is a multiple of: a closed loop keeps it
//! busy and can never overload it.

use std::time::Duration;

use crate::clients::{Clients, Delay};
use crate::curve::{Peer, ServerUse, Setting, Treatment};
use crate::fin::Fin;
use crate::load::Phases;
use crate::networks::Networks;
use crate::precedence::Precedence;
use crate::scenario::Scenario;
use crate::server::Server;
use crate::time_wait::TimeWait;

/// Clients enough to keep a server busy, few enough never to fill its listen queue.
pub const CAPACITY_CLIENTS: usize = 64;

/// How long it takes.
pub const CAPACITY_PHASES: Phases = Phases {
    warm_up: Duration::from_secs(1),
    duration: Duration::from_secs(4),
    cool_down: Duration::ZERO,
};

impl Setting {
    /// The same server with the clients that measure it: single connections with as many requests
    /// as a browser's have, whose bursts would overflow the listen queue, and from nearby, since so
    /// few clients far away would spend their time waiting for the network; with ports for all.
    #[must_use]
    pub fn for_capacity(&self) -> Self {
        Self {
            treatment: Treatment::Peer(Peer::Kernel),
            fin: Fin::HalfClose,
            precedence: Precedence::default(),
            time_wait: TimeWait::Today,
            shed: None,
            server: Server { time_waits: 0, ..self.server.clone() },
            clients: Clients {
                browsing: None,
                networks: Networks::default(),
                addresses: None,
                ports: None,
                delay: Delay::default(),
                loss: 0.0,
                reorder: 0.0,
                ..self.clients.clone()
            },
            ..self.clone()
        }
    }
}

impl Scenario {
    /// The servers whose capacity these curves are multiples of, each once.
    #[must_use]
    pub fn server_uses<'a>(&self, curves: impl IntoIterator<Item = &'a Setting>) -> Vec<ServerUse> {
        let mut uses: Vec<ServerUse> = Vec::new();
        for setting in curves {
            let this = self.measured_by(setting).server_use();
            if !uses.contains(&this) {
                uses.push(this);
            }
        }
        uses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scenario of clients far away once offered a hundredth of what it said.
    #[test]
    fn a_capacity_depends_on_the_server_and_its_requests_alone() {
        let text = r#"title = "t"
source = "s"
[clients]
requests = 7.2
delay = { mean_ms = 100, spread_ms = 20 }
loss = 0.02
reorder = 0.01
[load]
offered = [1]
[[curve]]
mechanism = "abort"
[[curve]]
name = "nearby"
peer = "large-backlog"
clients = { delay = { mean_ms = 0, spread_ms = 0 } }
[[curve]]
name = "slow"
mechanism = "abort"
server = { cost_us = 100 }
"#;
        let scenario = Scenario::parse("t", "t.toml", text).unwrap();
        let [far, nearby, slow] = &scenario.settings[..] else { panic!("three curves") };
        let measured = far.for_capacity();
        assert_eq!(measured.clients.delay, Delay::default());
        assert_eq!((measured.clients.loss, measured.clients.reorder), (0.0, 0.0));
        assert_eq!(measured.treatment, Treatment::Peer(Peer::Kernel));
        assert_eq!(measured.server_use(), far.server_use());
        let uses = scenario.server_uses(&scenario.settings);
        assert_eq!(uses, [nearby.server_use(), slow.server_use()]);
    }
}
