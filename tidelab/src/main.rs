// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab`, the proving ground's command line.

mod crowd;
mod demo;
mod failure;
mod quantity;
mod server;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

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
    /// Serve HTTP at a known processor cost per request, in this network namespace.
    Server(server::Arguments),
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
        Command::Server(arguments) => server::serve(&arguments),
        Command::Crowd(arguments) => crowd::send(&arguments),
    };
    done.unwrap_or_else(|failure: Failure| {
        eprintln!("tidelab: {failure}");
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
        eprint!("{}", Arguments::command().render_help());
        return ExitCode::from(2);
    }
    let text = error.to_string();
    let sentence: Vec<&str> =
        text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let sentence = sentence.join(" ");
    let sentence = sentence.strip_prefix("error: ").unwrap_or(&sentence);
    eprintln!("tidelab: {sentence}; `tidelab help` shows what there is");
    ExitCode::from(2)
}
