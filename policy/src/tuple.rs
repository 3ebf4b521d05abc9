// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A connection's addresses and ports, from Rust's.

use std::net::{IpAddr, SocketAddr};

use crate::raw::tg_tuple;

impl tg_tuple {
    /// A connection's addresses and ports as a packet from the client carries them.
    #[inline]
    #[must_use]
    pub fn between(from: SocketAddr, to: SocketAddr) -> Self {
        let words = |address: IpAddr| match address {
            IpAddr::V4(address) => [u32::from_ne_bytes(address.octets()), 0, 0, 0],
            IpAddr::V6(address) => {
                let octets = address.octets();
                let word = |at: usize| {
                    u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
                };
                [word(0), word(4), word(8), word(12)]
            }
        };
        Self {
            saddr: words(from.ip()),
            daddr: words(to.ip()),
            sport: from.port().to_be(),
            dport: to.port().to_be(),
            is_ipv6: from.is_ipv6().into(),
        }
    }
}
