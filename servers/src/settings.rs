// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a server is to be.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::accept::AcceptLimit;

/// How a server is to be.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where to listen; port 0 lets the kernel choose.
    pub addresses: Vec<SocketAddr>,
    /// The listen queue's length as given to `listen`; the kernel caps it at `somaxconn`.
    pub backlog: u32,
    /// The most connections accepted in one accept phase.
    pub accept_limit: AcceptLimit,
    /// Work done for each answered request: what takes an undisturbed processor so many µs, at the
    /// speed it had when the server was made.
    pub cost_us: u64,
    /// The body of an ordinary reply, in bytes; up to about 1,300 the reply is one packet. Without
    /// a root only.
    pub body_bytes: u64,
    /// The directory whose files are served. Without it, `/bytes/N` is answered with N bytes, and
    /// every other path with the ordinary reply.
    ///
    /// Nothing outside it is served: `..` may not lead out, and links may neither lead out nor be
    /// absolute. A directory is served as its `index.html`. Files asked for are held, so a change
    /// may take a second to be seen.
    pub root: Option<PathBuf>,
    /// How long a connection may stand still in the middle of a request or of a reply, or idle.
    pub patience: Duration,
    /// Whether others may listen on the same addresses (`SO_REUSEPORT`).
    pub reuse_port: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            backlog: 128,
            accept_limit: AcceptLimit::INF,
            cost_us: 0,
            body_bytes: 1024,
            root: None,
            patience: Duration::from_secs(10),
            reuse_port: false,
        }
    }
}
