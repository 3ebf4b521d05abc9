// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server counts of itself.

use serde::{Deserialize, Serialize};

/// What happened since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Connections taken from the kernel's listen queue.
    pub accepted: u64,
    /// Replies handed to the kernel whole, errors (400 and the like) not among them.
    pub replies: u64,
    /// Connections that turned out useless: gone before any request was replied to.
    pub dead_connections: u64,
    /// Replies to clients that had already closed their side: perhaps work for nobody.
    pub half_closed_replies: u64,
    /// Requests refused as malformed, too large or of a kind not served.
    pub bad_requests: u64,
    /// Connections closed because a request or the taking of a reply came to a halt.
    pub timed_out: u64,
    /// Times that accepting failed for want of descriptors or memory.
    pub accept_failures: u64,
    /// Bytes sent, headers included.
    pub bytes_sent: u64,
    /// Most connections held at one time.
    pub connections_max: u64,
    /// Processor time of the event loop, in ns.
    pub cpu_ns: u64,
}
