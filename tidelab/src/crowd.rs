// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab crowd`.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_crowd::{Class, Close, Delay, Driver, Load, Network, Os, Plan, run_watched};

use crate::failure::Failure;
use crate::progress;
use crate::quantity::{self, Addresses};

/// Send a crowd of clients from this network namespace and print what became of them, as JSON.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("load").required(true).args(["rate", "clients"]))]
pub(crate) struct Arguments {
    /// Address and port to go to (again for more).
    #[arg(long = "to", value_name = "ADDRESS:PORT", required = true)]
    targets: Vec<SocketAddr>,
    /// Source address, a range as in 10.0.0.2-10.0.0.25, or a prefix as in 10.128.0.0/16, whose
    /// addresses raw packets may have without being configured (again for more).
    #[arg(long = "from", value_name = "IP[-IP]", value_parser = quantity::addresses)]
    sources: Vec<Addresses>,
    /// Attempts started per second, whatever the server does (open loop).
    #[arg(long, value_name = "PER_S", allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Clients that each try again when their attempt has ended (closed loop).
    #[arg(long, value_name = "N")]
    clients: Option<usize>,
    /// How starts are spaced in an open loop.
    #[arg(long, value_enum, default_value_t = Arrivals::Poisson)]
    arrivals: Arrivals,
    /// How long attempts are counted.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    duration: Duration,
    /// Load before that.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    warm_up: Duration,
    /// Load after that.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = quantity::duration)]
    cool_down: Duration,
    /// How long a client waits for its reply.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = quantity::duration)]
    timeout: Duration,
    /// Chooses the schedule.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to ask for (again for more, in turn).
    #[arg(long = "path", default_value = "/")]
    paths: Vec<String>,
    /// Requests on one connection, in the mean.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    requests: f64,
    /// How clients end their side of a connection.
    #[arg(long, value_enum, default_value_t = Ending::Fin)]
    close: Ending,
    /// Who makes the packets.
    #[arg(long, value_enum, default_value_t = Maker::Sockets)]
    driver: Maker,
    /// The interface that raw packets leave by; by default the route's.
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Whose TCP raw clients speak: linux, windows, macos, linux-2.4, …
    #[arg(long, default_value = "linux", value_parser = os)]
    os: &'static Os,
    /// How far raw clients are away, one way, in ms.
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    delay_ms: f64,
    /// Chance of a raw client's packet to be lost, each way.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    loss: f64,
    /// Chance of a raw client's packet to come late, each way.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    reorder: f64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Arrivals {
    /// Evenly spaced.
    Constant,
    /// At random.
    Poisson,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Ending {
    /// Politely.
    Fin,
    /// With a RST.
    Reset,
    /// With FIN right after the request, still reading.
    HalfClose,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Maker {
    /// This kernel.
    Sockets,
    /// The crowd itself, past this kernel's TCP.
    Raw,
}

/// Sends the crowd and prints the outcome.
pub(crate) fn send(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let plan = plan(arguments);
    let mut bar = progress::bar();
    bar.step(1, 1, "crowd", plan.warm_up + plan.duration + plan.cool_down);
    let outcome = run_watched(&plan, &mut |progress| bar.show(&progress))?;
    bar.finish();
    let mut out = io::stdout().lock();
    let written = if out.is_terminal() {
        serde_json::to_writer_pretty(&mut out, &outcome)
    } else {
        serde_json::to_writer(&mut out, &outcome)
    };
    written.map_err(io::Error::from).and_then(|()| writeln!(out)).map_err(Failure::Output)?;
    Ok(ExitCode::SUCCESS)
}

fn plan(arguments: &Arguments) -> Plan {
    let load = match (arguments.clients, arguments.arrivals) {
        (Some(clients), _) => Load::Closed { clients },
        (None, Arrivals::Constant) => Load::Constant { per_s: arguments.rate.unwrap_or_default() },
        (None, Arrivals::Poisson) => Load::Poisson { per_s: arguments.rate.unwrap_or_default() },
    };
    let delay = match arguments.delay_ms {
        0.0 => Delay::None,
        ms => Delay::Constant { ms },
    };
    let class = Class {
        os: arguments.os,
        timeout: arguments.timeout,
        close: match arguments.close {
            Ending::Fin => Close::Fin,
            Ending::Reset => Close::Reset,
            Ending::HalfClose => Close::HalfClose,
        },
        requests: arguments.requests,
        paths: arguments.paths.clone(),
        network: Network { delay, loss: arguments.loss, reorder: arguments.reorder },
        ..Class::default()
    };
    Plan {
        driver: match arguments.driver {
            Maker::Sockets => Driver::Sockets,
            Maker::Raw => Driver::Raw,
        },
        interface: arguments.interface.clone(),
        targets: arguments.targets.clone(),
        sources: arguments.sources.iter().flat_map(|range| range.0.iter().copied()).collect(),
        load,
        warm_up: arguments.warm_up,
        duration: arguments.duration,
        cool_down: arguments.cool_down,
        seed: arguments.seed,
        classes: vec![class],
    }
}

fn os(name: &str) -> Result<&'static Os, String> {
    Os::named(name).map_err(|unknown| unknown.to_string())
}
