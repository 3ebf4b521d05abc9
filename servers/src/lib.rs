// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference servers: small enough to understand, built the way the papers' servers were.

mod accept;
mod connection;
mod error;
mod listen;
mod reply;
mod request;
mod statistics;
mod userver;
mod work;

pub use accept::AcceptLimit;
pub use error::ServerError;
pub use statistics::Statistics;
pub use userver::{Settings, Stopper, Userver};
