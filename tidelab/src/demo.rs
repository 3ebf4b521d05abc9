// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab demo`: the same overload with and without Tidegate, and what its clients see.

mod report;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_lab::LabError;
use tidegate_live::{Known, Programs};
use tidegate_report::{Point, ResultsError, Watcher};
use tidegate_scenarios::{Form, Scenario, ScenarioError};
use tidegate_sim::Machine;

use crate::failure::Failure;
use crate::progress::{self, Bar};
use crate::quantity;
use report::{Report, Row};

/// The mechanism that is the kernel left to itself.
const DEFAULT: &str = "default";
/// The policy that decides by what it sees.
const AUTO: &str = "auto";
/// The longest patience that `auto` can be told of, in seconds: the end of the policy's `PATIENCE_S`.
/// Clients may wait for longer.
const AUTO_PATIENCE_MAX_S: f64 = 600.0;
/// Attempts are counted after so many times as long as a client waits: the queues are full then,
/// and `auto`, silent for up to twice that in case the crowd goes, knows that it stays.
const WARM_UP_TIMEOUTS: f64 = 2.5;

/// Overload a small server with and without Tidegate, and show what its clients see.
///
/// Lays out two network namespaces joined by a cable, a server with a known processor cost per
/// request in one and a crowd of clients in the other, measures what the server can do, offers a
/// multiple of it under each mechanism, and prints one table. Leaves nothing behind. Without root,
/// or where the kernel does not take Tidegate's programs, the same is simulated.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to do with connections there is no room for (again for more).
    #[arg(
        long = "mechanism",
        value_name = "NAME",
        default_values = [DEFAULT, "abort rst-syn", "no-syn-drop", AUTO]
    )]
    mechanisms: Vec<String>,
    /// Processor time per request, in µs.
    #[arg(long, value_name = "US", default_value_t = 1000)]
    cost_us: u64,
    /// Length of the server's listen queue.
    #[arg(long, default_value_t = 128)]
    backlog: u32,
    /// Load offered, in multiples of what the server can do.
    #[arg(long, value_name = "N", default_value_t = 3.0, allow_negative_numbers = true)]
    times: f64,
    /// How long attempts are counted, for each mechanism.
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = quantity::duration)]
    duration: Duration,
    /// How long a client waits for its reply. `auto` is told so; told nothing, it takes them to wait for 10 s.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = quantity::duration)]
    timeout: Duration,
    /// Where to run it; by default on this kernel where that is possible.
    #[arg(long, value_enum)]
    world: Option<World>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum World {
    /// A real server and real packets.
    Live,
    /// Simulated ones; the clients and the decisions are the same.
    Sim,
}

/// Runs the demonstration and prints its table.
pub(crate) fn demo(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if !(arguments.times > 0.0 && arguments.times <= 100.0) {
        return Err(Failure::Times { given: arguments.times });
    }
    let scenario = Scenario::parse("demo", "demo", &text(arguments)).map_err(by_option)?;
    let rows = match arguments.world {
        Some(World::Live) => live(&scenario)?,
        Some(World::Sim) => simulated(&scenario)?,
        None => live_or_simulated(&scenario)?,
    };
    let capacity_per_s = rows
        .iter()
        .find_map(|row| Some(row.point.as_ref().ok()?.capacity_per_s))
        .unwrap_or_default();
    let report = Report {
        capacity_per_s,
        cost_us: arguments.cost_us,
        backlog: arguments.backlog,
        times: arguments.times,
        warm_up_s: warm_up_s(arguments),
        duration_s: arguments.duration.as_secs_f64(),
        timeout_s: arguments.timeout.as_secs_f64(),
        rows,
    };
    std::io::stdout().write_all(report.to_string().as_bytes()).map_err(Failure::Output)?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Nobody has written the scenario, so that its lines and keys say nothing: what was given is an option.
fn by_option(error: ScenarioError) -> Failure {
    let ScenarioError::Text { what, .. } = error else { return error.into() };
    let keys = [
        ("timeout_s", "--timeout"),
        ("duration_s", "--duration"),
        ("backlog", "--backlog"),
        ("cost_us", "--cost-us"),
    ];
    let found = keys.iter().find_map(|(key, option)| Some((option, what.strip_prefix(key)?)));
    Failure::Option {
        what: match found {
            Some((option, rest)) => format!("{option}{rest}"),
            None => format!("--mechanism: {what}"),
        },
    }
}

fn live_or_simulated(scenario: &Scenario) -> Result<Vec<Row>, Failure> {
    let tried = live(scenario);
    let reason = match &tried {
        Err(Failure::Lab(reason @ LabError::Privilege { .. })) => Some(reason.to_string()),
        // What else is wrong is for whoever asked to mend.
        Err(_) => None,
        Ok(rows) => no_guard_stood(rows),
    };
    let Some(reason) = reason else { return tried };
    let simulated = simulated(scenario)?;
    // A mechanism that is none is none in either world.
    if tried.is_ok() && no_guard_stood(&simulated).is_some() {
        return tried;
    }
    crate::say(&format!("Simulated, since it cannot be run here: {reason}"))?;
    Ok(simulated)
}

fn live(scenario: &Scenario) -> Result<Vec<Row>, Failure> {
    tidegate_lab::require_root()?;
    let programs = Programs::find()?;
    let mut rows = Rows::new();
    tidegate_live::run(
        scenario,
        scenario.load(Form::Full),
        &programs,
        Known::nothing(),
        &mut rows,
    )?;
    Ok(rows.finish())
}

fn simulated(scenario: &Scenario) -> Result<Vec<Row>, Failure> {
    let mut rows = Rows::new();
    let settings =
        tidegate_sim::Settings { machine: Machine::today(), threads: tidegate_sim::processors() };
    tidegate_sim::run(scenario, scenario.load(Form::Full), &settings, &mut rows)?;
    Ok(rows.finish())
}

/// Why, when none of Tidegate's mechanisms could be run.
fn no_guard_stood(rows: &[Row]) -> Option<String> {
    let guarded = rows.iter().filter(|row| row.mechanism != DEFAULT);
    let reasons: Option<Vec<&String>> = guarded.map(|row| row.point.as_ref().err()).collect();
    reasons?.first().map(|reason| (*reason).clone())
}

/// The demonstration as a scenario. `auto` is told how long the clients wait, as an operator would
/// tell it: as much of it as it can be told.
fn text(arguments: &Arguments) -> String {
    let timeout_s = arguments.timeout.as_secs_f64();
    let patience_s = timeout_s.min(AUTO_PATIENCE_MAX_S);
    let curves: String = arguments
        .mechanisms
        .iter()
        .map(|name| match name.as_str() {
            DEFAULT => format!("[[curve]]\nname = \"{DEFAULT}\"\npeer = \"kernel\"\n"),
            AUTO => format!(
                "[[curve]]\nname = \"{AUTO}\"\nmechanism = \"{AUTO}\"\nauto = {{ patience_s = {patience_s} }}\n"
            ),
            name => format!("[[curve]]\nmechanism = {name:?}\n"),
        })
        .collect();
    format!(
        "title = \"Demonstration\"\nsource = \"today\"\n\
         [server]\nbacklog = {}\ncost_us = {}\n[clients]\ntimeout_s = {}\n\
         [load]\noffered = [{}]\nduration_s = {}\nwarm_up_s = {}\n{curves}",
        arguments.backlog,
        arguments.cost_us,
        timeout_s,
        arguments.times,
        arguments.duration.as_secs_f64(),
        warm_up_s(arguments),
    )
}

fn warm_up_s(arguments: &Arguments) -> f64 {
    WARM_UP_TIMEOUTS * arguments.timeout.as_secs_f64()
}

/// The table in the making.
struct Rows {
    bar: Bar,
    rows: Vec<Row>,
}

impl Rows {
    fn new() -> Self {
        Self { bar: progress::bar(), rows: Vec::new() }
    }

    fn push(&mut self, curve: &str, point: Result<Point, String>) {
        self.rows.push(Row { mechanism: curve.to_owned(), point });
    }

    fn finish(self) -> Vec<Row> {
        self.bar.finish();
        self.rows
    }
}

impl Watcher for Rows {
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.bar.step(index, steps, name, lasts);
    }

    fn progress(&mut self, index: usize, progress: &Progress) {
        self.bar.show(index, progress);
    }

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        self.push(&point.curve, Ok(point.clone()));
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        self.push(curve, Err(reason.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn clients_may_wait_for_longer_than_auto_can_be_told() {
        for (timeout, told) in [("4s", "4 "), ("700s", "600 "), ("3600s", "600 ")] {
            let line = Line::parse_from(["demo", "--timeout", timeout]);
            let text = text(&line.arguments);
            assert!(text.contains(&format!("patience_s = {told}")), "{text}");
            let read = Scenario::parse("demo", "demo", &text);
            assert!(read.is_ok(), "{timeout}: {}", read.unwrap_err());
        }
    }
}
