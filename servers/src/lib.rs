// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference servers: small enough to understand, built the way the papers' servers were.

mod accept;
mod connection;
mod content;
mod error;
mod files;
mod listen;
mod reply;
mod request;
mod resource;
mod settings;
mod slab;
mod statistics;
mod userver;
mod work;
mod worker;

pub use accept::AcceptLimit;
pub use error::ServerError;
pub use settings::Settings;
pub use statistics::Statistics;
pub use userver::{Stopper, Userver};
