// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidelab run` and `tidelab figure`: from a scenario to results and their page.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tidegate_live::{Known, Programs};
use tidegate_report::{Host, Point, Results, ResultsError, Summary, next_seed};
use tidegate_scenarios::{Form, Load, Part, Scenario, shelf};
use tidegate_sim::Machine;

use crate::failure::Failure;
use crate::folder::{self, COLUMNS, Kept, RESULTS};
use crate::keeper::Keeper;
use crate::machine;
use crate::quantity;
use crate::report;

/// Run scenarios and report what came of them.
///
/// Measures what the server can do, offers it multiples of that under each mechanism, writes a line
/// for each point to DIR/result.jsonl as soon as it is there, judges the scenario's claims, and
/// draws DIR/report.html. A further run into the same folder adds to it: intervals are then over
/// runs. On this kernel it needs root, and leaves nothing behind but the folder; simulated it needs
/// neither root nor BPF.
#[derive(clap::Args)]
pub(crate) struct RunArguments {
    /// Scenarios: TOML files.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
}

/// Run a figure or table of a paper, by its name.
///
/// As `tidelab run`, with a scenario that comes with this program.
#[derive(clap::Args)]
pub(crate) struct FigureArguments {
    /// Such as shukla-4.7; again for more.
    #[arg(value_name = "NAME", required_unless_present = "list")]
    names: Vec<String>,
    /// Print the names and titles of all, and end.
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    how: How,
}

#[derive(clap::Args)]
struct How {
    /// Where to run: on this kernel, simulated, or both, in one report.
    #[arg(long, value_enum, default_value_t = World::Live)]
    world: World,
    /// The simulated server: today, xeon (the papers', with their Linux), bsd or windows (the same
    /// with that TCP), or a file.
    #[arg(long, value_name = "NAME", default_value = "today", value_parser = machine::named)]
    machine: Machine,
    /// Folder for the results, of several scenarios those of all; by default results/NAME, of several
    /// the first's, or with --full results/NAME-full.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What to keep of it when it is over, beside the lines: nothing, or the same as Parquet in
    /// DIR/result.parquet.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// At full length, as the scenario says (by default two minutes a point), instead of a figure in
    /// minutes.
    #[arg(long)]
    full: bool,
    /// Run no more than this level of a factor, or this curve; again for more. Of a factor none of
    /// whose levels is named all are run; of the curves likewise.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Offer these multiples of the capacity, and no others, as in 0.5,1.5.
    #[arg(long, value_name = "N", value_delimiter = ',', allow_negative_numbers = true)]
    offered: Option<Vec<f64>>,
    /// Count attempts for so long at each; bursts for as long as whole ones take. Not where clients come
    /// by steps, which last as long as they say.
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    duration: Option<Duration>,
    /// How often to run all of it, by turns, each time with other clients; numbers are then means,
    /// with their 95 % confidence, and claims are judged on these.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum World {
    /// Real servers and real packets.
    Live,
    /// Simulated servers and packets; the clients and the decisions are the same.
    Sim,
    /// One after the other.
    Both,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// A line of JSON a point.
    Json,
    /// The lines, and a Parquet file with the same schema.
    Parquet,
}

impl How {
    fn part(&self) -> Part {
        Part {
            form: if self.full { Form::Full } else { Form::Short },
            only: self.only.clone(),
            offered: self.offered.clone(),
            duration_s: self.duration.map(|duration| duration.as_secs_f64()),
        }
    }

    /// Numbers of a few seconds have no place among those of minutes.
    fn folder(&self, name: &str) -> PathBuf {
        let form = if self.full { "-full" } else { "" };
        self.out.clone().unwrap_or_else(|| Path::new("results").join(format!("{name}{form}")))
    }
}

/// Runs scenarios from files.
pub(crate) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    // All are read before anything is run: no one should wait to be told of a typing mistake.
    let scenarios: Result<Vec<_>, _> =
        arguments.files.iter().map(|file| Scenario::read(file)).collect();
    carry_out(&once(scenarios?)?, &arguments.how)
}

/// Runs scenarios that come with the program.
pub(crate) fn figure(arguments: &FigureArguments) -> Result<ExitCode, Failure> {
    if arguments.list {
        return list();
    }
    let scenarios: Result<Vec<_>, _> =
        arguments.names.iter().map(|name| tidegate_scenarios::named(name)).collect();
    carry_out(&once(scenarios?)?, &arguments.how)
}

/// Each scenario once: two figures may be of one, and run twice it would have the same clients. Others
/// of the same name would have their results in one place.
fn once(scenarios: Vec<Scenario>) -> Result<Vec<Scenario>, Failure> {
    let mut once: Vec<Scenario> = Vec::new();
    for scenario in scenarios {
        match once.iter().find(|known| known.name == scenario.name) {
            None => once.push(scenario),
            Some(known) if known.settings == scenario.settings && known.text == scenario.text => (),
            Some(_) => return Err(Failure::SameName { name: scenario.name }),
        }
    }
    Ok(once)
}

fn list() -> Result<ExitCode, Failure> {
    for (name, _) in shelf() {
        let scenario = tidegate_scenarios::named(&name)?;
        crate::say(&format!("{name:<27} {}", scenario.title))?;
        if !scenario.also.is_empty() {
            crate::say(&format!("{:27} also {}", "", scenario.also.join(", ")))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn carry_out(scenarios: &[Scenario], how: &How) -> Result<ExitCode, Failure> {
    let part = how.part();
    // What is wrong with it, of any of them, is told before any is run.
    let parts: Result<Vec<_>, _> = scenarios.iter().map(|whole| whole.part(&part)).collect();
    let parts = parts?;
    let (live, sim) = match how.world {
        World::Live => (true, false),
        World::Sim => (false, true),
        World::Both => (true, true),
    };
    // What is missing is told before anything is run.
    if how.format == Format::Parquet && !cfg!(feature = "parquet") {
        return Err(ResultsError::NoParquet { file: COLUMNS.to_owned() }.into());
    }
    let programs = if live {
        tidegate_lab::require_root()?;
        Some(Programs::find()?)
    } else {
        None
    };
    let folder = how.folder(&scenarios[0].name);
    let settings =
        tidegate_sim::Settings { machine: how.machine, threads: tidegate_sim::processors() };
    let machine = sim.then(|| settings.machine.to_toml()).transpose()?;
    // Nothing is written before it is known that all of it may be.
    let earlier = Kept::read(&folder)?;
    let host = live.then(Host::here);
    earlier.require_same(scenarios, machine.as_deref(), host.as_ref())?;
    let mut keeper = Keeper::open(&folder, scenarios, machine.as_deref())?;
    let runner = Runner {
        how,
        // With a seed that is there already the same clients would come again, and count for others.
        earlier: earlier.results.points,
        folder: &folder,
        settings: sim.then_some(settings),
        programs,
    };
    for (whole, (scenario, load)) in scenarios.iter().zip(&parts) {
        runner.run_each(whole, scenario, load, &mut keeper)?;
    }
    keeper.bar.finish();
    tell(scenarios, how, &folder)?;
    Ok(if keeper.complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What every scenario is run with.
struct Runner<'a> {
    how: &'a How,
    /// What was there before.
    earlier: Vec<Point>,
    folder: &'a Path,
    /// Where it is simulated.
    settings: Option<tidegate_sim::Settings>,
    /// Where it is run on this kernel.
    programs: Option<Programs>,
}

impl Runner<'_> {
    /// Runs what is asked for of a scenario, as often as it is asked for.
    fn run_each(
        &self,
        whole: &Scenario,
        scenario: &Scenario,
        load: &Load,
        keeper: &mut Keeper,
    ) -> Result<(), Failure> {
        keeper.begin(scenario);
        let curves = scenario.settings.iter().map(|setting| setting.curve.as_str());
        let next = |world| {
            next_seed(
                &scenario.name,
                world,
                curves.clone(),
                &load.offered,
                &self.earlier,
                load.seed,
            )
        };
        let (of_sim, of_live) =
            (next(tidegate_report::World::Sim), next(tidegate_report::World::Live));
        let with = |seed: u64, run| Load { seed: seed.wrapping_add(run), ..load.clone() };
        for run in 0..u64::from(self.how.runs) {
            keeper.run =
                (self.how.runs > 1).then(|| format!("run {} of {}, ", run + 1, self.how.runs));
            if let Some(settings) = &self.settings {
                keeper.left_out.world = tidegate_report::World::Sim;
                tidegate_sim::run(scenario, with(of_sim, run), settings, keeper)?;
            }
            if let Some(programs) = &self.programs {
                keeper.left_out.world = tidegate_report::World::Live;
                let load = with(of_live, run);
                let speed = folder::speed(self.folder, &whole.name, load.seed);
                let known = Known::of_earlier_parts(whole, load.seed, &self.earlier, speed);
                let is_noted = speed.is_some() && !known.begins;
                if speed.is_none() && !known.begins {
                    keeper.bar.say(&format!(
                        "{}: of its earlier parts nobody knows how quick their servers were; ours are measured anew",
                        whole.name
                    ));
                }
                keeper.begins_with = (!is_noted).then_some(known.steps_per_us);
                tidegate_live::run(scenario, load, programs, known, keeper)?;
            }
        }
        Ok(())
    }
}

/// Draws the page, and says what came of it all.
fn tell(scenarios: &[Scenario], how: &How, folder: &Path) -> Result<(), Failure> {
    let results = Results::read([folder.join(RESULTS)])?;
    if how.format == Format::Parquet {
        #[cfg(feature = "parquet")]
        tidegate_report::write_parquet(&folder.join(COLUMNS), &results.points)?;
    }
    // Before anything is said: there may be nobody who reads it any more.
    let page = report::draw(&[folder.to_owned()], &folder.join("report.html"))?;
    for scenario in scenarios {
        let summary = Summary { scenario, points: &results.points };
        crate::say(&summary.to_string())?;
    }
    crate::say(&format!("The report is {}", page.display()))
}
