// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of fair shares.

use serde::Serialize;
use tidegate_datapath::clock;
use tidegate_policy::raw::{tg_rules, tg_share};

/// What the networks of a listening socket's clients may have, where there is not room for all.
#[derive(Debug, Serialize)]
pub struct ShareStatus {
    /// SYNs a second that each network may have now.
    pub limit_per_s: f64,
    /// How long the networks are, in bits.
    pub ipv4_bits: u32,
    #[allow(missing_docs)]
    pub ipv6_bits: u32,
}

impl ShareStatus {
    /// `None` where nobody is held to a share.
    pub fn of(share: &tg_share, rules: &tg_rules) -> Option<Self> {
        let limit_per_s = share.limit_per_s(clock::monotonic_ns())?;
        Some(ShareStatus {
            limit_per_s: (limit_per_s * 10.0).round() / 10.0,
            ipv4_bits: rules.share_ipv4_bits,
            ipv6_bits: rules.share_ipv6_bits,
        })
    }

    /// One line of the table.
    pub fn line(&self) -> String {
        let Self { limit_per_s, ipv4_bits, ipv6_bits } = self;
        format!("fair share: {limit_per_s} SYNs/s for each /{ipv4_bits}, of IPv6 /{ipv6_bits}")
    }
}
