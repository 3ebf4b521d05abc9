// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The live world: runs a scenario on this kernel, with real servers and real packets.
//!
//! A point is run on a [`Ground`](ground::Ground) of its own: two network namespaces joined by a
//! cable (or three, with a router between), the server and its packets on one processor, the crowd
//! on another. Nothing is left over from the point before, and nothing stays behind.

mod accounts;
mod capacity;
mod crowd;
mod error;
mod gauge;
mod ground;
mod guard;
mod peer;
mod point;
mod preload;
mod programs;
mod run;
mod server;
mod timed;

pub use capacity::Known;
pub use error::LiveError;
pub use programs::Programs;
pub use run::run;
