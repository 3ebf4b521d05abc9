// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the stories have in common: a stage of two network namespaces, and the real
//! programs that play on it. A story tells one claim of the project, start to end.

mod nginx;
mod stage;
mod tidegate;

pub use nginx::Nginx;
pub use stage::{CLIENT_V4, CLIENT_V6, SERVER_V4, SERVER_V6, Stage};
pub use tidegate::{Guard, Refused, run_to_end, status, tidegate_program};

pub use tidegate_lab::skip_without_root;
