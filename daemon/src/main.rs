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
mod supervisor;
mod time_wait;
mod top;
mod usage;
mod writer;

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::guard::Guard;
use tidegate_datapath::pins::Pins;
use tidegate_policy::mechanism;

use crate::config::Config;
use crate::failure::{Failure, Result, tell};
use crate::instance::{Instance, Role};
use crate::setting::Written;

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

/// What to guard: a configuration file, or one listener.
#[derive(Args)]
struct What {
    /// The configuration file. This or --port.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "address", "mechanism", "fin", "hook", "interface"])]
    config: Option<PathBuf>,
    /// The port of the listener. This or --config.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    port: Option<u16>,
    /// Its address [default: every one].
    #[arg(long, requires = "port")]
    address: Option<IpAddr>,
    /// The mechanism: auto, default, abort, reserv, lazy, rst-syn, no-syn-drop, early-syn-drop, or several
    /// in quotes, as in "abort rst-syn".
    #[arg(long, requires = "port", default_value = config::DEFAULT_MECHANISM)]
    mechanism: String,
    /// What a client's FIN does: half-close, rst-fin or "rst-fin strict".
    #[arg(long, requires = "port", default_value = "half-close")]
    fin: String,
    /// Where SYNs are judged: auto, driver, ip or tcp.
    #[arg(long, requires = "port", default_value = "auto")]
    hook: String,
    /// An interface to guard, may be repeated [default: those with an address of the listener].
    #[arg(long, requires = "port")]
    interface: Vec<String>,
}

impl What {
    fn arguments(&self) -> Result<Option<Config>> {
        let Some(port) = self.port else { return Ok(None) };
        let wrong = |(what, fix)| Failure::Argument { what, fix };
        if let Some(address) = self.address {
            setting::address(Written::AsOption, address, false).map_err(wrong)?;
        }
        let mut rules = mechanism::parse(&self.mechanism)
            .map_err(|wrong| Failure::argument(wrong.what, wrong.fix))?;
        rules.fin = fin::parse(Written::AsOption, &self.fin).map_err(wrong)?;
        let hook = hook::parse(Written::AsOption, &self.hook, &rules).map_err(wrong)?;
        let guards =
            vec![Guarded { address: self.address, port, rules, hook, ..Default::default() }];
        Ok(Some(Config { guards, interfaces: self.interface.clone(), ..Default::default() }))
    }

    fn source(self) -> Result<Option<run::Source>> {
        match self.config {
            Some(path) => Ok(Some(run::Source::File(path))),
            None => Ok(self.arguments()?.map(run::Source::Arguments)),
        }
    }

    fn required(self) -> Result<run::Source> {
        self.source()?.ok_or_else(|| {
            Failure::argument("nothing to guard is named", "give --config FILE or --port P")
        })
    }
}

fn stop() -> Result<()> {
    host::require_capabilities()?;
    let pins = Pins::here()?;
    let stood = pins.are_left()?;
    // An agent that does not end keeps no guard from being taken down.
    let agent_ran = instance::stop(Role::Agent);
    let ran = take_down(&pins);
    let (agent_ran, ran) = (agent_ran?, ran?);
    if stood || ran || agent_ran {
        return Ok(());
    }
    Err(Failure::argument("no guard stands here", "there is nothing to stop"))
}

/// Ends the daemon, and removes what is left; whether one ran.
fn take_down(pins: &Pins) -> Result<bool> {
    let ran = instance::stop(Role::Guard)?;
    // None starts while it is taken down.
    let alone = Instance::keep_out(Role::Guard)?;
    let done = remove(pins);
    // Whatever of it is left, nobody runs here.
    alone.release();
    done.map(|()| ran)
}

/// Removes what a killed daemon left, or one of another version, or a stop that was killed.
fn remove(pins: &Pins) -> Result<()> {
    // One of another container's is ended there.
    let folder = pins.claim()?;
    if let Some(programs) = Guard::open_to_put_back(pins) {
        resize::put_back(&programs);
    }
    pins.remove(folder)?;
    instance::forget(Role::Agent)
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
        Command::Stop => stop(),
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
