// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Refusals that are told of, one by one: a few of them, where a guard's rules ask for it.

use std::net::SocketAddr;

use libbpf_rs::RingBufferBuilder;

use crate::address;
use crate::error::{Result, map_error};
use crate::plain::from_bytes;
use crate::programs::Programs;
use crate::raw::*;
use tidegate_policy::raw::tg_decision;

const MAP: &str = "refused";

/// A packet that was refused or dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The client.
    pub from: SocketAddr,
    /// Whom it wanted.
    pub to: SocketAddr,
    /// What was done, and why.
    pub decision: tg_decision,
}

impl Refusal {
    fn of(record: &tg_refusal) -> Self {
        let tuple = &record.tuple;
        let end = |address: &[u32; 4], port: u16| {
            SocketAddr::new(address::either(tuple.is_ipv6 != 0, address), u16::from_be(port))
        };
        Refusal {
            from: end(&tuple.saddr, tuple.sport),
            to: end(&tuple.daddr, tuple.dport),
            decision: record.decision,
        }
    }
}

/// Takes those out that were told since the last time.
pub fn take(programs: &Programs) -> Result<Vec<Refusal>> {
    let mut found = Vec::new();
    {
        let mut builder = RingBufferBuilder::new();
        let add = |bytes: &[u8]| {
            found.push(Refusal::of(&from_bytes(bytes)));
            0
        };
        builder.add(programs.map(MAP), add).map_err(map_error(MAP))?;
        let ring = builder.build().map_err(map_error(MAP))?;
        ring.consume().map_err(map_error(MAP))?;
    }
    Ok(found)
}
