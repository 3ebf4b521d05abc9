// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What carries a crowd's segments.

use std::fmt;

/// What carries a crowd's segments, as its outcome names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The kernel's sockets.
    Sockets,
    /// AF_XDP.
    Xdp {
        /// With its program at the driver, rather than behind it (generic XDP).
        native: bool,
        /// The crowd's own thread polls the device.
        polled_here: bool,
    },
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Sockets => f.write_str("sockets"),
            Self::Xdp { native, polled_here } => {
                let place = if native { "driver" } else { "generic" };
                let where_polled = if polled_here { ", polled here" } else { "" };
                write!(f, "AF_XDP, {place} XDP{where_polled}")
            }
        }
    }
}
