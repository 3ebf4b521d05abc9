// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` tells of the agent.

use std::fmt::Write;
use std::net::SocketAddr;

use serde::Serialize;
use tidegate_datapath::agent::{Avoided, Counts, Destination, Reader};

use super::config;
use crate::failure::Result;
use crate::instance::{self, Role};

/// The agent of this namespace.
#[derive(Debug, Serialize)]
pub struct AgentStatus {
    /// Its process.
    pub pid: i32,
    /// Whom it heeds.
    pub destinations: Vec<DestinationStatus>,
    /// Where connect() fails now.
    pub avoided: Vec<AvoidedStatus>,
    /// Notices that it obeyed.
    pub notices_obeyed: u64,
    /// Notices that do not say when to come back, and are not obeyed.
    pub notices_untimed: u64,
    /// Notices that may be forged, or are about a connection that stood: not obeyed.
    pub notices_unbelieved: u64,
    /// connect()s that failed.
    pub connects_failed: u64,
}

/// Servers whose notices are heeded.
#[derive(Debug, Serialize)]
pub struct DestinationStatus {
    /// Their network.
    pub network: String,
    /// Their port; null: every one.
    pub port: Option<u16>,
    /// For how long they are heeded at most, and half as long again.
    pub longest_s: f64,
    #[serde(skip)]
    words: String,
}

/// A server that has said when to come back.
#[derive(Debug, Serialize)]
pub struct AvoidedStatus {
    /// Its address and port.
    pub address: String,
    /// For how much longer connect() fails.
    pub left_s: f64,
    /// How often it has failed.
    pub connects_failed: u64,
}

impl DestinationStatus {
    fn of(destination: &Destination) -> Self {
        DestinationStatus {
            network: destination.network.to_string(),
            port: destination.port,
            longest_s: destination.longest.as_secs_f64(),
            words: config::described(destination),
        }
    }
}

impl AvoidedStatus {
    fn of(avoided: &Avoided) -> Self {
        AvoidedStatus {
            address: SocketAddr::new(avoided.address, avoided.port).to_string(),
            left_s: avoided.left.as_millis() as f64 / 1e3,
            connects_failed: avoided.failed,
        }
    }
}

impl AgentStatus {
    /// For people.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "agent {}: {} notices obeyed, {} connects failed",
            self.pid, self.notices_obeyed, self.connects_failed
        );
        for destination in &self.destinations {
            let _ = writeln!(out, "  heeds {}", destination.words);
        }
        for (count, why) in [
            (self.notices_untimed, "do not say when to come back"),
            (self.notices_unbelieved, "may be forged, or came to a connection that stood"),
        ] {
            if count > 0 {
                let _ = writeln!(out, "  {count} notices not obeyed: they {why}");
            }
        }
        for avoided in &self.avoided {
            let AvoidedStatus { address, left_s, connects_failed } = avoided;
            let _ = writeln!(
                out,
                "    {address:<28} overloaded: {left_s:.1} s left, {connects_failed} connects failed"
            );
        }
        out
    }
}

/// The maps' numbers, as the agent has noted them.
fn ids(lines: &[String]) -> Vec<(String, u32)> {
    let one = |line: &String| {
        let (name, id) = line.split_once(' ')?;
        Some((name.to_owned(), id.parse().ok()?))
    };
    lines.iter().filter_map(one).collect()
}

/// Reads the agent of this namespace; `None` where none runs.
pub fn status() -> Result<Option<AgentStatus>> {
    let Some(pid) = instance::running(Role::Agent)? else { return Ok(None) };
    let Some(reader) = Reader::open(&ids(&instance::noted(Role::Agent)?)) else { return Ok(None) };
    let Counts { obeyed, untimed, unbelieved, failed } = reader.counts()?;
    Ok(Some(AgentStatus {
        pid,
        destinations: reader.destinations()?.iter().map(DestinationStatus::of).collect(),
        avoided: reader.avoided()?.iter().map(AvoidedStatus::of).collect(),
        notices_obeyed: obeyed,
        notices_untimed: untimed,
        notices_unbelieved: unbelieved,
        connects_failed: failed,
    }))
}
