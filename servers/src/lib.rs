// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reference servers: small enough to understand, built the way the papers' servers were.
//!
//! They share all that has to do with HTTP. What tells them apart is how they learn of work and
//! when they accept: [`ServerKind`], [`EventsKind`] and [`AcceptLimit`]. When to accept is decided
//! by a [`Strategy`], which knows no sockets.

mod accept;
mod accounts;
mod board;
mod connection;
mod content;
mod error;
mod events;
mod files;
mod half_closed;
mod held;
#[cfg_attr(not(feature = "in-kernel"), path = "not_in_kernel.rs")]
mod in_kernel;
mod knot;
mod listen;
mod reply;
mod request;
mod resource;
mod ring;
mod server;
mod settings;
mod slab;
mod statistics;
mod stop;
mod tux;
mod userver;
mod work;
mod worker;

pub use accept::{
    AcceptLimit, Bounds, ENOUGH_OF_LONG, LOOK_EVERY, Phase, Queues, SATURATED_AFTER,
    STARVED_AFTER_NS, Strategy,
};
pub use content::COMPUTED_MAX_US;
pub use error::ServerError;
pub use events::EVENTS_MAX;
pub use server::{Observer, Server};
pub use settings::{EventsKind, PATIENCE, ServerKind, Settings};
pub use statistics::Statistics;
pub use stop::Stopper;
pub use work::steps_per_us;
