// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where clients come from: the networks of their addresses.

use std::net::Ipv4Addr;

use tidegate_policy::raw::tg_tuple;
use tidegate_scenarios::{SERVER, network};

use crate::chance::Entity;
use crate::lot::Lot;

/// Networks by how often clients come from them.
#[derive(Debug)]
pub(crate) struct Sources {
    lot: Lot,
}

impl Sources {
    pub(crate) fn new(weights: &[f64], seed: u64) -> Self {
        Self { lot: Lot::new(weights.iter().copied(), seed, Entity::Sources) }
    }

    /// The network of the next client; `None` where each has an address of its own.
    pub(crate) fn draw(&mut self) -> Option<u16> {
        self.lot.draw().map(|network| network as u16)
    }
}

/// A client's connection. Without a network each client has an address of its own, as long as there
/// are some.
pub(crate) fn tuple(client: u32, from: Option<u16>) -> tg_tuple {
    const ADDRESSES: u32 = 1 << 22;
    const OF_A_NETWORK: u32 = 254;
    let (source, round) = match from {
        None => (Ipv4Addr::from(0x0a80_0000 | (client % ADDRESSES)), client / ADDRESSES),
        Some(number) => {
            let host = 1 + client % OF_A_NETWORK;
            (Ipv4Addr::from(network(number).to_bits() | host), client / OF_A_NETWORK % 60_000)
        }
    };
    tg_tuple::between((source, 1024 + round as u16).into(), SERVER.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_a_network_have_its_addresses() {
        let first = |from| tuple(300, from).saddr[0].to_ne_bytes();
        assert_eq!(first(Some(259)), [10, 129, 3, 47]);
        assert_eq!(first(None), [10, 128, 1, 44]);
    }
}
