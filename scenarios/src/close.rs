// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who closes a connection, and how.

use serde::{Deserialize, Serialize};

/// How a client ends its side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// With FIN.
    #[default]
    Fin,
    /// With RST (Shukla 4.2.2, `close-rst`).
    Reset,
    /// FIN right after the request, still reading (Shukla 2.1.2).
    HalfClose,
    /// After the server, which the last request asks to close (Faber 4.2: HTTP as it was).
    Server,
    /// With the request `CLIENT_CLOSE`, which says so and wants no reply, and FIN (Faber 4.2).
    ClientClose,
}

impl From<Close> for tidegate_client::Close {
    fn from(close: Close) -> Self {
        match close {
            Close::Fin => Self::Fin,
            Close::Reset => Self::Reset,
            Close::HalfClose => Self::HalfClose,
            Close::Server => Self::Server,
            Close::ClientClose => Self::ClientClose,
        }
    }
}
