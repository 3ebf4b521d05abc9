// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Networks of clients that are policed or exempt, as the kernel has them: the networks by the
//! longest prefix, and their buckets beside them, which alone a packet writes.

use libbpf_rs::{MapCore, MapFlags};

use crate::address;
use crate::array::write_one;
use crate::configuration::Guarded;
use crate::error::{Result, map_error};
use crate::network::Network;
use crate::networks::Networks;
use crate::plain::{bytes_of, from_bytes};
use crate::programs::Programs;
use crate::raw::*;
use tidegate_policy::raw::{tg_limit, tg_tuple};

/// The most networks that one configuration may have.
pub const MOST: usize = TG_LIMITS as usize / 2;

/// The buckets' map.
pub(crate) const BUCKETS: &str = "limit_full_ns";

/// The networks, with owners as `tg_client_owner()` in layout.h makes them: whose they are is a
/// guard's index.
pub(crate) const LIMITS: Networks = Networks {
    map: "limits",
    what: "networks that are policed or exempt",
    most: MOST,
    config_bit: 16,
    ipv6_bit: 8,
};

/// Makes the networks of configuration `next`, which is not in force yet, be those of `guards`, whose
/// buckets are full. Each has a bucket of that configuration's half.
pub(crate) fn write<'a>(
    programs: &Programs,
    next: u32,
    guards: impl Iterator<Item = (u32, &'a Guarded)>,
) -> Result<()> {
    let first = next * TG_LIMITS / 2;
    let limits = guards.flat_map(|(index, guarded)| guarded.limits.iter().map(move |l| (index, l)));
    let limits: Vec<(u32, Network, tg_limit)> = limits
        .zip(first..)
        .map(|((index, (network, limit)), bucket)| (index, *network, tg_limit { bucket, ..*limit }))
        .collect();
    let buckets = limits.iter().take(MOST).map(|(_, _, limit)| limit.bucket);
    for bucket in buckets {
        write_one(programs, BUCKETS, bucket, &0u64)?;
    }
    LIMITS.write(programs, next, limits.into_iter())
}

/// The bucket from which a client of this guard takes, in configuration `config`.
pub(crate) fn bucket(
    programs: &Programs,
    config: u32,
    guard: u32,
    client: &tg_tuple,
) -> Result<Option<u32>> {
    let is_ipv6 = client.is_ipv6 != 0;
    let address = address::either(is_ipv6, &client.saddr);
    let key = LIMITS.key(config, guard, &Network { address, bits: if is_ipv6 { 128 } else { 32 } });
    let found = programs.map(LIMITS.map).lookup(bytes_of(&key), MapFlags::ANY);
    let found = found.map_err(map_error(LIMITS.map))?;
    Ok(found.map(|value| from_bytes::<tg_limit>(&value).bucket))
}
