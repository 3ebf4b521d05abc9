// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server counts of itself.

use serde::{Deserialize, Serialize};

use crate::reply::Outcome;

/// What happened since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Connections taken from the kernel's listen queue.
    pub accepted: u64,
    /// Replies handed to the kernel whole, errors (400, 404 and the like) not among them.
    pub replies: u64,
    /// Those of the replies that said 304: the client had the file already.
    pub not_modified: u64,
    /// Requests for what is not below the root (404), or may not be read (403).
    pub not_found: u64,
    /// Requests for files that could not be opened or read just then (503).
    pub unavailable: u64,
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
    /// Steps of work done at the set cost; as many for every request that was not refused.
    pub work_steps: u64,
    /// Processor time of the event loop, in ns.
    pub cpu_ns: u64,
}

impl Statistics {
    /// Counts a reply that was sent whole.
    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Answer => self.replies += 1,
            Outcome::NotModified => {
                self.replies += 1;
                self.not_modified += 1;
            }
            Outcome::NotFound => self.not_found += 1,
            Outcome::Unavailable => self.unavailable += 1,
            // Counted when it is decided: its client may not stay to hear it.
            Outcome::Refusal => {}
        }
    }
}
