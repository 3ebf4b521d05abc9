// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate metrics`: what `status` knows, for Prometheus to keep: printed once, or served over HTTP
//! for as long as the process runs. It reads what is pinned, so a guard that stands alone is seen, too.

mod endpoint;
mod exposition;

use std::net::SocketAddr;

use clap::Args;

use crate::failure::Result;
use crate::{output, status};

/// Where to.
#[derive(Args)]
pub struct Arguments {
    /// Serve them at http://ADDRESS:PORT/metrics until SIGTERM [default: print them once].
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
}

/// As they are now. That no guard stands is a figure like others, for whoever watches it.
fn read() -> Result<String> {
    Ok(exposition::text(&status::read_if_any()?.unwrap_or_default()))
}

/// Prints or serves them.
pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.listen {
        Some(at) => endpoint::serve(at, read),
        None => output::print(&read()?),
    }
}
