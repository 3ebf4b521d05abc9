// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulated world: a scenario runs here as it runs live, with a million clients if need be.
//!
//! Clients are `tidegate-client`'s, decisions are `tidegate-policy`'s C, and when the server accepts is
//! up to `tidegate-servers`' [`Strategy`](tidegate_servers::Strategy): what is deployed is what is
//! simulated. What is modelled is the rest: the server's TCP ([`Profile`]), its processor ([`Costs`],
//! [`Napi`]), the loop of what serves ([`Program`]), and the [`Way`] between.
//!
//! Time is integer ns. Chance comes from one seeded stream for each client, each direction of the
//! network and the server's TCP, so a seed is a run, to the byte.
//!
//! What is left out: the program runs on one processor; memory has no limits; SACK is agreed on and not used; a
//! client's request is one segment; cookies are not hashed but remembered; clients cost nothing and
//! do not browse; where clients have no ports given, these are never short.

mod balance;
pub mod calibrate;
mod chance;
mod clients;
mod cores;
mod costs;
mod cpu;
mod ends;
mod engine;
mod error;
mod flow;
mod hook;
mod lot;
mod machine;
mod network;
mod pace;
mod packet;
mod pages;
mod people;
mod point;
mod ports;
mod run;
mod server;
mod setting;
mod setup;
mod shed;
mod sources;
mod spent;
mod spread;
mod stack;
mod wire;
mod world;

pub use balance::Balance;
pub use costs::Costs;
pub use cpu::Napi;
pub use engine::{LANES, Queue, Ticket};
pub use error::SimError;
pub use hook::Hook;
pub use machine::{Attention, Machine, Program, Threading};
pub use network::{Link, Way};
pub use pace::Pace;
pub use pages::Pages;
pub use run::{Settings, run};
pub use setup::{Crowd, Load, Setup};
pub use shed::Shed;
pub use spent::{Spent, Took};
pub use spread::processors;
pub use stack::{Kernel, Profile};
pub use world::{Report, World};
