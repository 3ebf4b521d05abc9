// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab serve`.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use tidegate_servers::{AcceptLimit, Settings, Userver};

use crate::failure::Failure;
use crate::quantity;

/// Serve HTTP at a known processor cost per request, in this network namespace.
///
/// Prints `listening on …` when ready; SIGTERM or SIGINT end it, and it then prints its statistics
/// as JSON. `/bytes/N` answers with N bytes, and every other path with the ordinary reply; with
/// --root, files are served instead.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Address to listen on (again for more).
    #[arg(long = "address", value_name = "IP", default_value = "0.0.0.0")]
    addresses: Vec<IpAddr>,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Length of the listen queue; the kernel caps it at somaxconn.
    #[arg(long, default_value_t = 128)]
    backlog: u32,
    /// Work per request: what takes an undisturbed processor so many µs.
    #[arg(long, value_name = "US", default_value_t = 0)]
    cost_us: u64,
    /// Most connections accepted before working on those at hand: a number, or inf.
    #[arg(long, value_name = "N", default_value = "inf")]
    accept_limit: AcceptLimit,
    /// Length of the ordinary reply's body, in bytes.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: u64,
    /// Serve the files below this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "body_bytes")]
    root: Option<PathBuf>,
    /// How long a connection may stand still.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    patience: Duration,
    /// Share the port with other servers (SO_REUSEPORT).
    #[arg(long)]
    reuse_port: bool,
}

/// Serves until told to stop.
pub(crate) fn serve(arguments: &Arguments) -> Result<ExitCode, Failure> {
    // Blocked before any thread exists, so that the one that waits for them is the only one to see them.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.add(Signal::SIGINT);
    signals.thread_block().map_err(|errno| Failure::Signals(errno.into()))?;

    let server = Userver::bind(Settings {
        addresses: arguments
            .addresses
            .iter()
            .map(|&address| SocketAddr::new(address, arguments.port))
            .collect(),
        backlog: arguments.backlog,
        accept_limit: arguments.accept_limit,
        cost_us: arguments.cost_us,
        body_bytes: arguments.body_bytes,
        root: arguments.root.clone(),
        patience: arguments.patience,
        reuse_port: arguments.reuse_port,
    })?;
    let stopper = server.stopper();
    std::thread::spawn(move || {
        // An error would mean an invalid signal set, which it is not.
        let _ = signals.wait();
        stopper.stop();
    });

    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    say(&format!("listening on {}", addresses.join(", ")))?;
    let statistics = server.run()?;
    say(&serde_json::to_string(&statistics).map_err(|error| Failure::Output(error.into()))?)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line for whoever waits for it at the other end of a pipe.
fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::Output)
}
