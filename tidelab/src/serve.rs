// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab serve`.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use nix::libc;
use nix::sys::signal::Signal;
use tidegate_servers::{AcceptLimit, EventsKind, Server, ServerKind, Settings, Statistics};

use crate::failure::Failure;
use crate::{quantity, say, signals, tell, whole};

/// Serve HTTP at a known processor cost per request, in this network namespace.
///
/// Prints `listening on …` when ready; SIGTERM or SIGINT end it, and it then prints its statistics
/// as JSON, and as text to the standard error; SIGUSR1 has it print the text while it serves.
/// `/bytes/N` answers with N bytes, `/work/N` with what N µs of work came to, and every other path
/// with the ordinary reply; with --root, files are served instead of bytes.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The server: userver, knot-c, knot-a or tux.
    #[arg(long, value_name = "NAME", default_value_t)]
    server: ServerKind,
    /// How the userver gets its events: select, poll, epoll (the default) or io_uring.
    #[arg(long, value_name = "NAME")]
    events: Option<EventsKind>,
    /// Threads of a Knot, 1000 by default.
    #[arg(long, value_name = "N", value_parser = quantity::count::<NonZeroU32>)]
    threads: Option<NonZeroU32>,
    /// Servers that share the port (SO_REUSEPORT), each in a thread.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN, value_parser = quantity::count::<NonZeroU32>)]
    workers: NonZeroU32,
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
    /// What a µs of such work is, in steps [default: measured at the start].
    #[arg(long, value_name = "N", value_parser = quantity::count::<NonZeroU64>)]
    steps_per_us: Option<NonZeroU64>,
    /// Most connections accepted before working on those at hand: a number, inf or dynamic.
    #[arg(long, value_name = "N", default_value = "inf")]
    accept_limit: AcceptLimit,
    /// Length of the ordinary reply's body, in bytes.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    body_bytes: u64,
    /// Serve the files below this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "body_bytes")]
    root: Option<PathBuf>,
    /// How long a connection may stand still, from 1ms to a day.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::patience)]
    patience: Duration,
    /// Share the port with other servers (SO_REUSEPORT).
    #[arg(long)]
    reuse_port: bool,
    /// Let the kernel itself answer for the ordinary page, on connections that stay open; tux only.
    /// Clients that close their side right behind a request may get no reply to it; those that send the
    /// next without waiting for it may get replies in another order.
    #[arg(long)]
    in_kernel: bool,
    /// Write the statistics as JSON to this file, at the end and at every SIGUSR1.
    #[arg(long, value_name = "FILE")]
    statistics: Option<PathBuf>,
}

/// Serves until told to stop.
pub(crate) fn serve(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let signals = signals::block([Signal::SIGTERM, Signal::SIGINT, Signal::SIGUSR1])?;
    let server = Server::bind(&Settings {
        server: arguments.server,
        events: arguments.events,
        threads: arguments.threads,
        workers: arguments.workers,
        addresses: arguments
            .addresses
            .iter()
            .map(|&address| SocketAddr::new(address, arguments.port))
            .collect(),
        backlog: arguments.backlog,
        accept_limit: arguments.accept_limit,
        cost_us: arguments.cost_us,
        steps_per_us: arguments.steps_per_us,
        body_bytes: arguments.body_bytes,
        root: arguments.root.clone(),
        patience: arguments.patience,
        in_kernel: arguments.in_kernel,
        reuse_port: arguments.reuse_port,
    })?;
    let (stopper, observer) = (server.stopper(), server.observer());
    let file = arguments.statistics.clone();
    let wait = move || {
        go_first();
        while signals.wait() == Ok(Signal::SIGUSR1) {
            if let Err(error) = report(&observer.statistics(), file.as_deref()) {
                tell(format_args!("tidelab: {error}\n"));
            }
        }
        // Another signal; an error would mean an invalid signal set, which it is not.
        stopper.stop();
    };
    std::thread::Builder::new().spawn(wait).map_err(Failure::Thread)?;

    let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
    say(&format!("listening on {}", addresses.join(", ")))?;
    let statistics = server.run()?;
    finish(&statistics, arguments.statistics.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

/// Has the calling thread run before those that serve: under overload these share what packets leave
/// of a processor, and of a hundred and twenty-eight each waits for tens of seconds. Where that may not
/// be, it waits its turn.
fn go_first() {
    // SAFETY: no memory is passed. Of Linux' threads each has a priority of its own, and 0 is the
    // calling one.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// The last statistics. One way that is barred keeps them from no other.
fn finish(statistics: &Statistics, file: Option<&Path>) -> Result<(), Failure> {
    let reported = report(statistics, file);
    let said = line(statistics).map_err(Failure::Output).and_then(|line| say(&line));
    reported?;
    said
}

/// Statistics for the file where one is wanted, and for people.
fn report(statistics: &Statistics, file: Option<&Path>) -> Result<(), Failure> {
    let written = file.map_or(Ok(()), |path| write(statistics, path));
    tell(statistics);
    written
}

/// Whoever reads while this is written sees what was there before.
fn write(statistics: &Statistics, path: &Path) -> Result<(), Failure> {
    let written = line(statistics).and_then(|line| whole::write(path, format!("{line}\n")));
    written.map_err(|source| Failure::Statistics { path: path.to_owned(), source })
}

fn line(statistics: &Statistics) -> io::Result<String> {
    Ok(serde_json::to_string(statistics)?)
}
