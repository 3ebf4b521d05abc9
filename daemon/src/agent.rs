// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate agent`: on a client's host, heeds servers whose refusals say when to come back.

mod config;
mod status;

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use tidegate_datapath::Error;
use tidegate_datapath::agent::{Agent, Destination};

use crate::failure::{Failure, Result, tell};
use crate::instance::{Instance, Role};
use crate::orders::{Order, Orders};
use crate::{host, output, part, supervisor, writer};

pub use status::{AgentStatus, status};

/// Whom to heed: a configuration file, or destinations.
#[derive(Args)]
pub struct What {
    /// The configuration file, with [[destination]] sections.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["destination", "longest_s"])]
    config: Option<PathBuf>,
    /// Servers whose notices are heeded, as NETWORK or NETWORK:PORT; may be repeated.
    #[arg(long, value_name = "NETWORK[:PORT]")]
    destination: Vec<String>,
    /// Heed a notice for at most this long, plus up to half as long again by lot [default: 60].
    #[arg(long, value_name = "S", requires = "destination", allow_negative_numbers = true)]
    longest_s: Option<f64>,
    /// Only say whom it would heed, or what is wrong with the file.
    #[arg(long)]
    check: bool,
}

/// What a number of this option may be, as a fix.
pub fn wanted(option: &str) -> Option<String> {
    (option == "--longest-s").then(config::longest_fix)
}

impl What {
    /// Does what is asked for.
    pub fn run(self) -> Result<()> {
        let is_check = self.check;
        let source = self.source()?;
        match is_check {
            true => output::print(&lines("would heed", &source.read()?)),
            false => run(source),
        }
    }

    /// Where the destinations come from.
    fn source(self) -> Result<Source> {
        if let Some(path) = self.config {
            return Ok(Source::File(path));
        }
        if self.destination.is_empty() {
            return Err(Failure::argument(
                "nobody to heed is named",
                "give --config FILE or --destination NETWORK[:PORT]",
            ));
        }
        config::destinations(&self.destination, self.longest_s).map(Source::Arguments)
    }
}

/// Where the destinations come from; asked again at SIGHUP.
enum Source {
    /// A file.
    File(PathBuf),
    /// The command line.
    Arguments(Vec<Destination>),
}

impl Source {
    fn read(&self) -> Result<Vec<Destination>> {
        match self {
            Source::File(path) => config::read(path),
            Source::Arguments(destinations) => Ok(destinations.clone()),
        }
    }
}

/// Runs until SIGTERM or SIGINT.
fn run(source: Source) -> Result<()> {
    writer::start();
    // First of all: it may be asked to read its destinations again as soon as it is there, and a signal is to leave no
    // file.
    let mut orders = Orders::hear(move || source.read())?;
    let Some(destinations) = orders.first()? else { return Ok(()) };
    host::require_capabilities()?;
    let mut instance = Instance::claim(Role::Agent)?;
    let agent = match start(&destinations, &mut instance) {
        Ok(agent) => agent,
        Err(failure) => {
            instance.release();
            return Err(failure);
        }
    };
    announce(&destinations);
    if let Some(warning) = part::of_sockets() {
        tell(&warning.to_string());
    }
    supervisor::stands();
    // The kernel does all the rest by itself.
    while let Order::TakeUp(read) = orders.wait() {
        let heeded = read.and_then(|new| {
            agent.obey(&new)?;
            Ok(new)
        });
        match heeded {
            Ok(new) => announce(&new),
            Err(Failure::Datapath { source: source @ Error::InPart { .. } }) => {
                tell(&source.to_string());
            }
            Err(failure) => tell(&format!("kept the destinations as they were: {failure}")),
        }
    }
    drop(agent);
    instance.release();
    Ok(())
}

fn start(destinations: &[Destination], instance: &mut Instance) -> Result<Agent> {
    let mut agent = Agent::load()?;
    agent.obey(destinations)?;
    let mut lines = String::new();
    for (map, id) in agent.map_ids()? {
        let _ = writeln!(lines, "{map} {id}");
    }
    instance.note(&lines)?;
    agent.attach()?;
    Ok(agent)
}

/// One line for each destination, the sign that the agent stands.
fn announce(destinations: &[Destination]) {
    writer::print(lines("heeding", destinations));
}

fn lines(what: &str, destinations: &[Destination]) -> String {
    let described = destinations.iter().map(config::described);
    described.map(|described| format!("{what} {described}\n")).collect()
}
