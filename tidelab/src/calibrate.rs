// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab calibrate`: measures this host and writes the machine that the simulator is to have.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_live::Programs;
use tidegate_report::{Host, Point, Results, ResultsError, Watcher, Writer};
use tidegate_scenarios::Form;
use tidegate_sim::calibrate::{self, Calibration, Fixed};
use tidegate_sim::{Machine, SimError};

use crate::failure::Failure;
use crate::folder::{self, RESULTS};
use crate::progress::{self, Bar};

/// Measure this host, and write the machine that the simulator is to have.
///
/// Runs a server and crowds of clients in network namespaces of their own for about eight minutes:
/// what requests, connections and refused SYNs take of a processor. Then finds the costs with which
/// the simulator comes to the same numbers, and writes them to a file for `tidelab run --world sim
/// --machine FILE`. It needs root, and a host that does nothing else meanwhile.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Where the machine goes.
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    out: PathBuf,
    /// Keep what was measured in this folder too, as a run's results.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Measure nothing: take what an earlier calibration kept.
    #[arg(long, value_name = "DIR", conflicts_with = "keep")]
    from: Option<PathBuf>,
}

/// Measures, fits and writes.
pub(crate) fn calibrate(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let points = match &arguments.from {
        Some(folder) => Results::read([folder.join(RESULTS)])?.points,
        None => measure(arguments.keep.as_deref())?,
    };
    let threads = tidegate_sim::processors();
    let mut bar = progress::bar();
    // The proving ground's cable is a veth, and what comes up from it is steered to the server's
    // processor.
    let begins = Machine { driver_elsewhere: true, ..Machine::today() };
    let calibration = calibrate::fit(&points, begins, threads, &mut |step, off| {
        let name = format!("fitting: still off by {:.1} %", 100.0 * off);
        bar.step(step, calibrate::STEPS, &name, Duration::ZERO);
    })?;
    bar.finish();
    // Also where they contradict each other: the table shows by how much.
    crate::say(&table(&calibration.fixed))?;
    calibration.check()?;
    let unwritable = |source| Failure::Folder { path: arguments.out.clone(), source };
    let text = described(&calibration, &Host::here())?;
    fs::write(&arguments.out, text).map_err(unwritable)?;
    crate::say(&format!("The machine is {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the calibration's scenarios on this kernel.
fn measure(keep: Option<&Path>) -> Result<Vec<Point>, Failure> {
    // What is missing is told before anything is run.
    tidegate_lab::require_root()?;
    let programs = Programs::find()?;
    let kept = keep.map(folder::open).transpose()?;
    let mut gathering =
        Gathering { bar: progress::bar(), kept, points: Vec::new(), left_out: None };
    for _ in 0..calibrate::ROUNDS {
        for scenario in calibrate::scenarios() {
            tidegate_live::run(&scenario, scenario.load(Form::Short), &programs, &mut gathering)?;
        }
    }
    gathering.bar.finish();
    match gathering.left_out {
        Some(what) => Err(SimError::Uncalibrated { what }.into()),
        None => Ok(gathering.points),
    }
}

/// What was measured so far.
struct Gathering {
    bar: Bar,
    kept: Option<Writer>,
    points: Vec<Point>,
    left_out: Option<String>,
}

impl Watcher for Gathering {
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.bar.step(index, steps, name, lasts);
    }

    fn progress(&mut self, index: usize, progress: &Progress) {
        self.bar.show(index, progress);
    }

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        for warning in &point.warnings {
            self.bar.say(&format!("\"{}\" may be wrong: {warning}", point.curve));
        }
        self.points.push(point.clone());
        self.kept.as_mut().map_or(Ok(()), |kept| kept.append(point))
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        self.left_out = Some(format!("\"{curve}\" could not be measured: {reason}"));
    }
}

/// The machine's file: what it was made from as comments, then the machine.
fn described(calibration: &Calibration, host: &Host) -> Result<String, Failure> {
    let Host { kernel, processors } = host;
    let mut text = format!("# Calibrated by tidelab on Linux {kernel}, {processors}.\n#\n");
    for line in table(&calibration.fixed).lines() {
        let _ = writeln!(text, "# {line}");
    }
    text.push_str(&calibration.machine.to_toml()?);
    Ok(text)
}

/// What fixed what, for a person.
fn table(fixed: &[Fixed]) -> String {
    let mut text = String::new();
    for Fixed { costs, by, unit, measured, between: (least, most), simulated, scale } in fixed {
        let _ = writeln!(
            text,
            "{costs}: {scale:.2} times today's, by {by}: measured {measured:.2} ({least:.2} to \
             {most:.2}), simulated {simulated:.2} {unit}"
        );
    }
    text
}
