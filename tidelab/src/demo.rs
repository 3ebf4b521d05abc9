// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab demo`: the same overload with and without Tidegate, and what its clients see.

mod report;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_live::{LiveError, Programs, Watcher};
use tidegate_report::Point;
use tidegate_scenarios::{Form, Scenario};

use crate::failure::Failure;
use crate::progress::{self, Bar};
use crate::quantity;
use report::{Report, Row};

/// The mechanism that is the kernel left to itself.
const DEFAULT: &str = "default";
/// By then the queues are full and the first clients try for the third time.
const WARM_UP_MAX: Duration = Duration::from_secs(3);

/// Overload a small server with and without Tidegate, and show what its clients see.
///
/// Lays out two network namespaces joined by a cable, a server with a known processor cost per
/// request in one and a crowd of clients in the other, measures what the server can do, offers a
/// multiple of it under each mechanism, and prints one table. Needs root; leaves nothing behind.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// What to do with connections there is no room for (again for more).
    #[arg(
        long = "mechanism",
        value_name = "NAME",
        default_values = [DEFAULT, "abort rst-syn", "no-syn-drop"]
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
    /// How long a client waits for its reply.
    #[arg(long, value_name = "TIME", default_value = "4s", value_parser = quantity::duration)]
    timeout: Duration,
}

/// Runs the demonstration and prints its table.
pub(crate) fn demo(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if !(arguments.times > 0.0 && arguments.times <= 100.0) {
        return Err(Failure::Times { given: arguments.times });
    }
    tidegate_lab::require_root()?;
    let scenario = Scenario::parse("demo", "demo", &text(arguments))?;
    let mut rows = Rows { bar: progress::bar(), rows: Vec::new() };
    tidegate_live::run(&scenario, Form::Full, &Programs::find()?, &mut rows)?;
    rows.bar.finish();

    let capacity_per_s = rows
        .rows
        .iter()
        .find_map(|row| Some(row.point.as_ref().ok()?.capacity_per_s))
        .unwrap_or_default();
    let report = Report {
        capacity_per_s,
        cost_us: arguments.cost_us,
        backlog: arguments.backlog,
        times: arguments.times,
        duration_s: arguments.duration.as_secs_f64(),
        timeout_s: arguments.timeout.as_secs_f64(),
        rows: rows.rows,
    };
    std::io::stdout().write_all(report.to_string().as_bytes()).map_err(Failure::Output)?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The demonstration as a scenario.
fn text(arguments: &Arguments) -> String {
    let curves: String = arguments
        .mechanisms
        .iter()
        .map(|name| match name.as_str() {
            DEFAULT => format!("[[curve]]\nname = \"{DEFAULT}\"\npeer = \"kernel\"\n"),
            name => format!("[[curve]]\nmechanism = {name:?}\n"),
        })
        .collect();
    format!(
        "title = \"Demonstration\"\nsource = \"today\"\n\
         [server]\nbacklog = {}\ncost_us = {}\n[clients]\ntimeout_s = {}\n\
         [load]\noffered = [{}]\nduration_s = {}\nwarm_up_s = {}\n{curves}",
        arguments.backlog,
        arguments.cost_us,
        arguments.timeout.as_secs_f64(),
        arguments.times,
        arguments.duration.as_secs_f64(),
        WARM_UP_MAX.min(arguments.duration).as_secs_f64(),
    )
}

/// The table in the making.
struct Rows {
    bar: Bar,
    rows: Vec<Row>,
}

impl Watcher for Rows {
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.bar.step(index, steps, name, lasts);
    }

    fn progress(&mut self, progress: &tidegate_crowd::Progress) {
        self.bar.show(progress);
    }

    fn point(&mut self, point: &Point) -> Result<(), LiveError> {
        self.rows.push(Row { mechanism: point.curve.clone(), point: Ok(point.clone()) });
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &LiveError) {
        self.rows.push(Row { mechanism: curve.to_owned(), point: Err(reason.to_string()) });
    }
}
