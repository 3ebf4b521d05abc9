// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab`, the proving ground's command line.

mod calibrate;
mod crowd;
mod demo;
mod experiment;
mod failure;
mod folder;
mod keeper;
mod left_out;
mod machine;
mod model;
mod progress;
mod quantity;
mod report;
mod serve;
mod signals;
mod whole;

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use tidegate_report::one_line;

use crate::failure::Failure;

/// The proving ground of Tidegate: servers, crowds of clients, and experiments with them.
#[derive(Parser)]
#[command(name = "tidelab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Overload a small server with and without Tidegate, and show what its clients see.
    Demo(demo::Arguments),
    /// Run scenarios and report what came of them.
    Run(experiment::RunArguments),
    /// Run a figure or table of a paper, by its name.
    Figure(experiment::FigureArguments),
    /// Compare dropping every SYN alike with dropping some connections whole, by the model.
    Model(model::Arguments),
    /// Measure this host, and write the machine that the simulator is to have.
    Calibrate(calibrate::Arguments),
    /// Draw results as one page.
    Report(report::Arguments),
    /// Serve HTTP at a known processor cost per request, in this network namespace.
    Serve(serve::Arguments),
    /// Send a crowd of clients from this network namespace and print what became of them.
    Crowd(crowd::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match arguments.command {
        Command::Demo(arguments) => demo::demo(&arguments),
        Command::Run(arguments) => experiment::run(&arguments),
        Command::Figure(arguments) => experiment::figure(&arguments),
        Command::Model(arguments) => model::model(&arguments),
        Command::Calibrate(arguments) => calibrate::calibrate(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Crowd(arguments) => crowd::send(&arguments),
    };
    done.unwrap_or_else(|failure: Failure| {
        // It may quote what a scenario says.
        tell(format_args!("tidelab: {}\n", one_line(&failure.to_string())));
        ExitCode::FAILURE
    })
}

/// Help goes out as it is; a mistake becomes one sentence, where clap would use a paragraph.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe (`tidelab --help | head`) is no reason to complain.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        tell(Arguments::command().render_help());
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let sentence: Vec<&str> =
        text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let sentence = sentence.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    tell(format_args!("tidelab: {sentence}; `{}` shows what there is\n", help()));
    ExitCode::from(2)
}

/// How to have the options shown that may be given here.
fn help() -> String {
    let command = std::env::args_os().nth(1);
    let command = command.as_deref().and_then(|name| name.to_str());
    let known = Arguments::command();
    match command.filter(|name| known.get_subcommands().any(|known| known.get_name() == *name)) {
        Some(name) => format!("tidelab {name} --help"),
        None => "tidelab help".to_owned(),
    }
}

/// Tells people, if they still listen. Where they have hung up, a panic would end what runs for hours.
fn tell(text: impl Display) {
    let _ = write!(io::stderr(), "{text}");
}

/// Prints a line, at once: someone may wait for it at the other end of a pipe.
fn say(line: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(Failure::Output)
}
