// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate`: decides, inside an unmodified Linux kernel, what happens to a TCP connection
//! when a server has more of them than it can serve.

mod agent;
mod auto;
mod capture;
mod check;
mod config;
mod explain;
mod failure;
mod fin;
mod hook;
mod host;
mod instance;
mod keys;
mod local_routes;
mod metrics;
mod mounts;
mod notice;
mod orders;
mod outcome;
mod output;
mod pace;
mod part;
mod plan;
mod police;
mod reader;
mod reserv;
mod resize;
mod run;
mod setting;
mod share;
mod shed;
mod signals;
mod size;
mod status;
mod stop;
mod supervisor;
mod time_wait;
mod top;
mod usage;
mod what;
mod writer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::{Result, tell};
use crate::what::What;

/// Guards TCP listeners against overload, with eBPF, in the running kernel.
#[derive(Parser)]
#[command(version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell what this kernel and host can do, the queue drops so far, and what would be guarded with --config or --port.
    Check(What),
    /// Guard listeners until SIGTERM. SIGHUP reads the configuration again. Killed with -9, the guard stands.
    Run(What),
    /// Show both queues of every guarded listener, and every verdict by its reason.
    Status {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show status on a live screen, with rates a second, until q, Esc or Ctrl-C.
    Top(top::Arguments),
    /// Print what status shows, for Prometheus, or serve it over HTTP.
    Metrics(metrics::Arguments),
    /// Tell what would become of a SYN that came in now, and why. Nothing changes by asking.
    Explain(explain::Asked),
    /// Recommend a backlog and a SYN queue for a burst, given as numbers or seen on a guarded port.
    Size(size::Arguments),
    /// On a client's host: heed servers whose refusals say when to come back, until SIGTERM.
    Agent(agent::What),
    /// Take the guard down: end the daemon, remove every program, map and link. Ends the agent, too.
    Stop,
}

fn dispatch(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Check(what) => check::run(what.source()?),
        Command::Run(what) => run::run(what.required()?),
        Command::Status { json } => status::run(json),
        Command::Top(arguments) => top::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Size(arguments) => size::run(&arguments),
        Command::Agent(what) => what.run(),
        Command::Explain(asked) => explain::run(&asked),
        Command::Stop => stop::run(),
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            let words: Vec<String> =
                std::env::args_os().skip(1).map(|word| word.to_string_lossy().into()).collect();
            tell(&usage::one_line(&error, &words));
            return ExitCode::from(2);
        }
    };
    let code = match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure.to_string());
            ExitCode::FAILURE
        }
    };
    writer::finish();
    code
}
