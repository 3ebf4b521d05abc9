// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cookies, opened by the native policy.

use std::net::{IpAddr, SocketAddr};

use tidegate_datapath::clock;
use tidegate_policy::raw::{TG_COOKIE_EPOCH_SHIFT, tg_case, tg_tuple};

use super::scene::KEYS;

fn words(address: IpAddr) -> [u32; 4] {
    let octets = match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    };
    let mut words = [0; 4];
    for (word, four) in words.iter_mut().zip(octets.chunks_exact(4)) {
        *word = u32::from_ne_bytes(four.try_into().expect("chunks of four"));
    }
    words
}

/// What the policy needs to open the cookie `isn`, given to the client `from` now.
pub fn case(from: SocketAddr, to: SocketAddr, client_isn: u32, isn: u32) -> tg_case {
    let now_ns = clock::monotonic_ns().wrapping_add(clock::wall_offset_ns());
    tg_case {
        keys: KEYS,
        client_isn,
        cookie: isn,
        epoch: (now_ns >> TG_COOKIE_EPOCH_SHIFT) as u32,
        tuple: tg_tuple {
            saddr: words(from.ip()),
            daddr: words(to.ip()),
            sport: from.port().to_be(),
            dport: to.port().to_be(),
            is_ipv6: to.is_ipv6().into(),
        },
        ..Default::default()
    }
}
