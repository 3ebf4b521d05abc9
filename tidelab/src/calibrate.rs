// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab calibrate`: measures this host and writes the machine that the simulator is to have.

use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_live::{Known, Programs};
use tidegate_report::{Host, Point, Results, ResultsError, Watcher, Writer};
use tidegate_scenarios::Form;
use tidegate_sim::calibrate::{self, Calibration, Fixed};
use tidegate_sim::{Machine, SimError};

use crate::failure::Failure;
use crate::folder::{self, Kept, RESULTS};
use crate::progress::{self, Bar};
use crate::whole;

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
    /// Keep what was measured in this folder too, as a run's results; it has none yet.
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
        None => measure(arguments)?,
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
    // Also where they contradict each other: the table shows by how much. Whoever does not read it any
    // more has the machine all the same.
    let said = crate::say(&table(&calibration.fixed));
    calibration.check()?;
    let host = match &arguments.from {
        Some(folder) => folder::host(folder),
        None => Some(Host::here()),
    };
    let text = described(&calibration, host.as_ref())?;
    whole::write(&arguments.out, &text).map_err(Failure::unwritable(&arguments.out))?;
    said?;
    crate::say(&format!("The machine is {}", arguments.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the calibration's scenarios on this kernel.
fn measure(arguments: &Arguments) -> Result<Vec<Point>, Failure> {
    // What is missing is told before anything is run.
    tidegate_lab::require_root()?;
    let programs = Programs::find()?;
    arguments.keep.as_deref().map_or(Ok(()), require_none)?;
    let kept = arguments.keep.as_deref().map(open).transpose()?;
    // Behind it: the machine may go into the same folder.
    whole::try_to_write(&arguments.out).map_err(Failure::unwritable(&arguments.out))?;
    let folder = arguments.keep.as_deref();
    let mut gathering =
        Gathering { bar: progress::bar(), folder, kept, points: Vec::new(), left_out: None };
    for _ in 0..calibrate::ROUNDS {
        for scenario in calibrate::scenarios() {
            let load = scenario.load(Form::Short);
            tidegate_live::run(&scenario, load, &programs, Known::nothing(), &mut gathering)?;
        }
    }
    gathering.bar.finish();
    match gathering.left_out {
        Some(what) => Err(SimError::Uncalibrated { what }.into()),
        None => Ok(gathering.points),
    }
}

/// That a folder has no results yet: another host's, or another calibration's, would be fitted with these.
fn require_none(folder: &Path) -> Result<(), Failure> {
    let there = Kept::read(folder)?.results.points;
    if there.is_empty() { Ok(()) } else { Err(Failure::HasResults { folder: folder.to_owned() }) }
}

/// Opens a folder for what is measured, and keeps what it is of: `tidelab report` draws that, too.
fn open(folder: &Path) -> Result<Writer, Failure> {
    let kept = folder::open(folder)?;
    folder::keep(folder, &calibrate::scenarios(), None)?;
    Ok(kept)
}

/// What was measured so far.
struct Gathering<'a> {
    bar: Bar,
    /// Where it is kept, if it is.
    folder: Option<&'a Path>,
    kept: Option<Writer>,
    points: Vec<Point>,
    left_out: Option<String>,
}

impl Watcher for Gathering<'_> {
    fn step(&mut self, index: usize, steps: usize, name: &str, lasts: Duration) {
        self.bar.step(index, steps, name, lasts);
    }

    fn progress(&mut self, index: usize, progress: &Progress) {
        self.bar.show(index, progress);
    }

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        self.points.push(point.clone());
        let kept = self.kept.as_mut().map_or(Ok(()), |kept| kept.append(point));
        // Behind the points: which machine they are from, for who fits them again elsewhere.
        if let (Some(folder), Ok(())) = (self.folder, &kept) {
            folder::note_host(folder, point.world);
        }
        for warning in &point.warnings {
            self.bar.say(&format!("\"{}\" may be wrong: {warning}", point.curve));
        }
        kept
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        self.left_out = Some(format!("\"{curve}\" could not be measured: {reason}"));
    }
}

/// The machine's file: what it was made from as comments, then the machine.
fn described(calibration: &Calibration, host: Option<&Host>) -> Result<String, Failure> {
    let mut text = format!("# Calibrated by tidelab {}.\n#\n", place(host));
    for line in table(&calibration.fixed).lines() {
        let _ = writeln!(text, "# {line}");
    }
    text.push_str(&calibration.machine.to_toml()?);
    Ok(text)
}

/// Where it was measured: until 2026-11-28 what was kept did not tell.
fn place(host: Option<&Host>) -> String {
    match host {
        Some(Host { kernel, processors }) => format!("on Linux {kernel}, {processors}"),
        None => "on a host that is not noted with what was kept".to_owned(),
    }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Of two hosts' points a machine would come that is neither.
    #[test]
    fn what_is_measured_is_kept_where_no_results_lie() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        require_none(&folder.join("none")).unwrap();
        require_none(folder).unwrap();
        fs::write(folder.join(RESULTS), folder::tests::line("live")).unwrap();
        let told = require_none(folder).unwrap_err().to_string();
        assert!(told.contains("holds results already") && told.contains("--keep"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }

    /// Its scenarios are on no shelf.
    #[test]
    fn what_is_kept_can_be_reported() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        drop(open(folder).unwrap());
        for scenario in calibrate::scenarios() {
            let kept = folder::scenario(&[folder], &scenario.name).unwrap();
            assert_eq!(kept.text, scenario.text);
        }
    }

    #[test]
    fn a_machine_is_said_to_be_of_the_host_that_was_measured() {
        let host = Host { kernel: "6.1".to_owned(), processors: "2 × Xeon".to_owned() };
        assert_eq!(place(Some(&host)), "on Linux 6.1, 2 × Xeon");
        assert_eq!(place(None), "on a host that is not noted with what was kept");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("no-such-dir/machine.toml");
        for out in [folder.path(), absent.as_path(), Path::new("")] {
            assert!(whole::try_to_write(out).is_err(), "{}", out.display());
        }
        let told =
            Failure::unwritable(&absent)(whole::try_to_write(&absent).unwrap_err()).to_string();
        assert!(told.contains("no-such-dir/machine.toml: ") && told.contains("--out"), "{told}");
    }
}
