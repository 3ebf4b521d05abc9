// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guarded listener, and what it has to do with sockets, packets and other guards.

use std::net::{IpAddr, SocketAddr};

use crate::network::Network;
use crate::raw::tg_listener_row;
use tidegate_policy::raw::{tg_limit, tg_rules, tg_shed_rules, tg_tw_rules};

/// One guarded listener, or a path to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guarded {
    /// Only this address, or every address of the port.
    pub address: Option<IpAddr>,
    /// The TCP port.
    pub port: u16,
    /// What is decided for it.
    pub rules: tg_rules,
    /// Where its SYN stage is decided: one of `TG_HOOK_*`.
    pub hook: u32,
    /// Persistent dropping; all zero is none. Where its part of the table begins is found
    /// when the configuration is put in force.
    pub shed: tg_shed_rules,
    /// Sources that persistent dropping exempts while it meets its target. Not read back.
    pub preferred: Vec<Network>,
    /// What holds for networks of clients, policed or exempt: the longest counts. Not read back.
    pub limits: Vec<(Network, tg_limit)>,
    /// Whether there are any. Read back alone.
    pub has_limits: bool,
    /// This host forwards the packets: the listener is another's.
    pub is_path: bool,
    /// Who holds TIME-WAIT of its connections.
    pub time_wait: tg_tw_rules,
    /// The backlog that its listening sockets are to have, with their owner's consent. Not read back.
    pub backlog: Option<u32>,
}

impl Guarded {
    /// Whether it is this listener that the other guards, too, whatever is decided for it.
    #[must_use]
    pub fn has_listener_of(&self, other: &Self) -> bool {
        (self.port, self.address) == (other.port, other.address)
    }

    /// Whether connections of this guard can reach a socket that is bound like this.
    pub fn covers(&self, row: &tg_listener_row) -> bool {
        if self.is_path || row.port != u32::from(self.port) {
            return false;
        }
        let bound = row.address();
        match self.address {
            None => true,
            Some(address) if bound.is_unspecified() => {
                // A dual-stack socket takes IPv4 too.
                address.is_ipv6() == bound.is_ipv6() || (bound.is_ipv6() && row.ipv6_only == 0)
            }
            Some(address) => address == bound,
        }
    }

    /// The same, where all of these are in force: SYNs to an address that has a guard of its own fall under
    /// that one alone.
    pub fn judges<'a>(
        &self,
        row: &tg_listener_row,
        all: impl IntoIterator<Item = &'a Self>,
    ) -> bool {
        let is_own = |other: &Self| other.address == Some(row.address()) && other.covers(row);
        self.covers(row) && (self.address.is_some() || !all.into_iter().any(is_own))
    }
}

/// The guard under which a packet to this destination falls: that of the address, or that of every
/// address of the port.
pub fn covering(guards: &[(u32, Guarded)], to: SocketAddr) -> Option<&(u32, Guarded)> {
    let on_port = || guards.iter().filter(|(_, g)| g.port == to.port());
    let own = on_port().find(|(_, g)| g.address == Some(to.ip()));
    own.or_else(|| on_port().find(|(_, g)| g.address.is_none()))
}

/// Whether these are a router's, which guards paths alone.
pub fn only_paths<'a>(guards: impl IntoIterator<Item = &'a Guarded>) -> bool {
    guards.into_iter().all(|guarded| guarded.is_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guarded(port: u16, address: Option<&str>) -> Guarded {
        Guarded { address: address.map(|a| a.parse().unwrap()), port, ..Default::default() }
    }

    #[test]
    fn a_packet_falls_under_the_guard_of_its_address_before_the_ports() {
        let guards = [
            (0, guarded(80, None)),
            (1, guarded(80, Some("192.0.2.1"))),
            (2, guarded(81, Some("192.0.2.1"))),
        ];
        for (to, index) in [
            ("192.0.2.1:80", Some(1)),
            ("192.0.2.2:80", Some(0)),
            ("[2001:db8::1]:80", Some(0)),
            ("192.0.2.1:81", Some(2)),
            ("192.0.2.2:81", None),
            ("192.0.2.1:82", None),
        ] {
            let found = covering(&guards, to.parse().unwrap()).map(|(index, _)| *index);
            assert_eq!(found, index, "{to}");
        }
    }
}
