// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab crowd`.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_crowd::{Close, Load, Plan, run};

use crate::failure::Failure;
use crate::quantity::{self, Addresses};

/// Send a crowd of clients from this network namespace and print what became of them, as JSON.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("load").required(true).args(["rate", "clients"]))]
pub(crate) struct Arguments {
    /// Address and port to go to (again for more).
    #[arg(long = "to", value_name = "ADDRESS:PORT", required = true)]
    targets: Vec<SocketAddr>,
    /// Source address, or a range of them as in 10.0.0.2-10.0.0.25 (again for more).
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
    /// What to ask for.
    #[arg(long, default_value = "/")]
    path: String,
    /// How clients end their side of a connection.
    #[arg(long, value_enum, default_value_t = Ending::Fin)]
    close: Ending,
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
}

/// Sends the crowd and prints the outcome.
pub(crate) fn send(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let outcome = run(&plan(arguments))?;
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
    Plan {
        targets: arguments.targets.clone(),
        sources: arguments.sources.iter().flat_map(|range| range.0.iter().copied()).collect(),
        load,
        warm_up: arguments.warm_up,
        duration: arguments.duration,
        cool_down: arguments.cool_down,
        timeout: arguments.timeout,
        seed: arguments.seed,
        path: arguments.path.clone(),
        close: match arguments.close {
            Ending::Fin => Close::Fin,
            Ending::Reset => Close::Reset,
        },
    }
}
