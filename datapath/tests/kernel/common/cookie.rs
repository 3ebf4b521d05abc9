// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Cookies, opened by the native policy.

use std::net::SocketAddr;

use tidegate_datapath::clock;
use tidegate_policy::raw::{TG_COOKIE_EPOCH_SHIFT, tg_case, tg_tuple};

use super::scene::KEYS;

/// What the policy needs to open the cookie `isn`, given to the client `from` now.
pub fn case(from: SocketAddr, to: SocketAddr, client_isn: u32, isn: u32) -> tg_case {
    let now_ns = clock::monotonic_ns().wrapping_add(clock::wall_offset_ns());
    tg_case {
        keys: KEYS,
        client_isn,
        cookie: isn,
        epoch: (now_ns >> TG_COOKIE_EPOCH_SHIFT) as u32,
        tuple: tg_tuple::between(from, to),
        ..Default::default()
    }
}
