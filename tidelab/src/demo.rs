// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab demo`: the same overload with and without Tidegate, and what its clients see.

mod guard;
mod program;
mod progress;
mod report;
mod stage;

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tidegate_crowd::Outcome;

use crate::failure::Failure;
use crate::quantity;
use guard::Tidegate;
use progress::Progress;
use report::{Report, Row};
use stage::Stage;

/// The mechanism that is the kernel left to itself.
const DEFAULT: &str = "default";
/// Clients enough to keep the server busy, few enough never to fill its listen queue.
const CAPACITY_CLIENTS: usize = 32;
const CAPACITY_DURATION: Duration = Duration::from_secs(3);
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
    // Found before anything is measured: no one should wait to be told that a file is missing.
    let guarded = arguments.mechanisms.iter().any(|name| name != DEFAULT);
    let tidegate = guarded.then(Tidegate::find).transpose()?;
    let progress = Progress::new(1 + arguments.mechanisms.len());

    let capacity_per_s = capacity_per_s(arguments, &progress)?;
    let offered_per_s = capacity_per_s * arguments.times;
    let rows = arguments
        .mechanisms
        .iter()
        .enumerate()
        .map(|(index, mechanism)| {
            let step = progress.step(index + 2, mechanism, whole(arguments));
            let outcome = overload(arguments, mechanism, tidegate.as_ref(), offered_per_s, &step);
            Row {
                mechanism: mechanism.clone(),
                outcome: outcome.map_err(|failure| failure.to_string()),
            }
        })
        .collect();
    drop(progress);

    let report = Report {
        capacity_per_s,
        capacity_clients: CAPACITY_CLIENTS,
        cost_us: arguments.cost_us,
        backlog: arguments.backlog,
        times: arguments.times,
        duration_s: arguments.duration.as_secs_f64(),
        timeout_s: arguments.timeout.as_secs_f64(),
        rows,
    };
    std::io::stdout().write_all(report.to_string().as_bytes()).map_err(Failure::Output)?;
    Ok(if report.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the server can do: a closed loop keeps it busy and can never overload it.
fn capacity_per_s(arguments: &Arguments, progress: &Progress) -> Result<f64, Failure> {
    let warm_up = Duration::from_millis(500);
    let step = progress.step(1, "measuring capacity", warm_up + CAPACITY_DURATION);
    let stage = Stage::set(arguments.backlog, arguments.cost_us)?;
    let load = [
        "--clients".to_owned(),
        CAPACITY_CLIENTS.to_string(),
        format!("--warm-up={}ms", warm_up.as_millis()),
        format!("--duration={}ms", CAPACITY_DURATION.as_millis()),
    ];
    let outcome = stage.send(&load, &step)?;
    if outcome.replies_per_s > 0.0 {
        return Ok(outcome.replies_per_s);
    }
    let mut detail = format!("{} attempts", outcome.attempts);
    if let Some((errno, count)) = outcome.errors.other.iter().next() {
        detail.push_str(&format!(", {errno} {count} times"));
    }
    Err(Failure::NoCapacity { detail })
}

/// Offers too much under one mechanism, on a stage of its own: no queue, timer or guard is left
/// over from the one before.
fn overload(
    arguments: &Arguments,
    mechanism: &str,
    tidegate: Option<&Tidegate>,
    offered_per_s: f64,
    step: &progress::Step,
) -> Result<Outcome, Failure> {
    let stage = Stage::set(arguments.backlog, arguments.cost_us)?;
    let guard = match tidegate {
        Some(tidegate) if mechanism != DEFAULT => Some(tidegate.guard(&stage, mechanism)?),
        _ => None,
    };
    let load = [
        format!("--rate={offered_per_s:.1}"),
        format!("--warm-up={}ms", warm_up(arguments).as_millis()),
        format!("--duration={}ms", arguments.duration.as_millis()),
        format!("--cool-down={}ms", arguments.timeout.as_millis()),
        format!("--timeout={}ms", arguments.timeout.as_millis()),
    ];
    let outcome = stage.send(&load, step)?;
    if let Some(guard) = guard {
        guard.remove()?;
    }
    Ok(outcome)
}

fn whole(arguments: &Arguments) -> Duration {
    warm_up(arguments) + arguments.duration + arguments.timeout
}

fn warm_up(arguments: &Arguments) -> Duration {
    WARM_UP_MAX.min(arguments.duration)
}
