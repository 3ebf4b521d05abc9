// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder that results go to, and what is in it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use tidegate_report::{Host, Results, ResultsError, World, Writer};
use tidegate_scenarios::Scenario;

use crate::failure::Failure;
use crate::{machine, whole};

/// A copy of each scenario that the results are from.
const SCENARIOS: &str = "scenarios";
/// The results.
pub(crate) const RESULTS: &str = "result.jsonl";
/// The same as Parquet.
pub(crate) const COLUMNS: &str = "result.parquet";
/// How the files beside the copies end that have what a scenario's traces say.
const TRACES: &str = "traces.txt";
/// The machine that was simulated, if one was.
const SIMULATED: &str = "simulated.toml";
/// The machine that they are from: of live points, or else of the simulator.
const HOST: &str = "host.json";
/// How the files end that tell, for each scenario, by which commands it was run, a line each.
pub(crate) const COMMANDS: &str = "commands.txt";
/// How the files end that tell, for each scenario, how quick the servers of its live runs were: a seed and
/// the steps of work in a µs of cost, a line each.
const SPEEDS: &str = "speeds.txt";
/// How the files end that tell, for each scenario, what could not be run of it.
pub(crate) const LEFT_OUT: &str = "left-out.txt";

/// A folder, and the results that lie in it. What else is in it says something only of them: a run that
/// came to no point leaves its scenario and its machine there, too.
pub(crate) struct Kept<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) results: Results,
}

impl<'a> Kept<'a> {
    /// What there is, if anything.
    pub(crate) fn read(folder: &'a Path) -> Result<Self, ResultsError> {
        let file = results_in(folder);
        let results = if file.exists() { Results::read([file])? } else { Results::default() };
        Ok(Self { folder, results })
    }

    /// Whether there is a point of a scenario; where a world is named, in that.
    fn has(&self, name: &str, world: Option<World>) -> bool {
        let is_in = |of: World| world.is_none_or(|world| world == of);
        self.results.points.iter().any(|point| point.scenario == name && is_in(point.world))
    }

    /// That results which are there are of these scenarios and of this simulated machine, and those live
    /// of this host, where any are to be added. Those of others of the name are no further runs.
    pub(crate) fn require_same(
        &self,
        scenarios: &[Scenario],
        machine: Option<&str>,
        here: Option<&Host>,
    ) -> Result<(), Failure> {
        let others = |what: String| Failure::OtherResults { folder: self.folder.to_owned(), what };
        let has_any = |world: World| self.results.points.iter().any(|point| point.world == world);
        let known = simulated(self.folder).filter(|_| has_any(World::Sim));
        if machine.zip(known.as_deref()).is_some_and(|(machine, known)| machine != known) {
            return Err(others("simulated machine".to_owned()));
        }
        let noted = || noted_host(self.folder);
        let known = if here.is_some() && has_any(World::Live) { noted()? } else { None };
        if let Some(unlike) = here.zip(known).and_then(|(here, known)| difference(&known, here)) {
            return Err(others(format!("machine ({unlike})")));
        }
        for scenario in scenarios {
            // Also where there is nothing yet: no one should wait to be told that it cannot be read.
            let recorded = scenario.recorded()?;
            if self.has(&scenario.name, None) && !is_kept(self.folder, scenario, &recorded)? {
                return Err(others(format!("scenario {}", scenario.name)));
            }
        }
        Ok(())
    }
}

/// The folders that have points of a scenario; where a world is named, in that.
pub(crate) fn holding<'a>(all: &[Kept<'a>], name: &str, world: Option<World>) -> Vec<&'a Path> {
    all.iter().filter(|kept| kept.has(name, world)).map(|kept| kept.folder).collect()
}

/// A folder's lines; where only a Parquet file was brought along, that.
pub(crate) fn results_in(folder: &Path) -> PathBuf {
    let (lines, columns) = (folder.join(RESULTS), folder.join(COLUMNS));
    if !lines.exists() && columns.exists() { columns } else { lines }
}

/// Makes the folder where there is none, and opens its results for more of them.
pub(crate) fn open(folder: &Path) -> Result<Writer, Failure> {
    fs::create_dir_all(folder).map_err(Failure::unwritable(folder))?;
    // A folder that came without its lines gets them back: a run adds to what is there.
    let (lines, there) = (folder.join(RESULTS), results_in(folder));
    if there != lines {
        restore(&there, &lines)?;
    }
    Ok(Writer::open(&lines)?)
}

/// Writes lines anew, all or none: of some of them nobody would know that others lack.
fn restore(columns: &Path, lines: &Path) -> Result<(), Failure> {
    let points = Results::read([columns])?.points;
    let part = lines.with_added_extension("part");
    // What was left of it when it was interrupted, if it was.
    let _ = fs::remove_file(&part);
    let mut results = Writer::open(&part)?;
    points.iter().try_for_each(|point| results.append(point))?;
    fs::rename(&part, lines).map_err(Failure::unwritable(lines))
}

/// The copy of a scenario in a folder.
fn copy_of(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(SCENARIOS).join(format!("{scenario}.toml"))
}

/// What its traces say: the copy names them as seen from elsewhere.
fn traces_of(folder: &Path, scenario: &str) -> PathBuf {
    folder.join(SCENARIOS).join(format!("{scenario}.{TRACES}"))
}

/// What the traces say of the copy of a scenario in a folder: nothing where it plays none, and where it
/// is from a time when that was not kept.
fn recorded(folder: &Path, scenario: &str) -> Option<String> {
    fs::read_to_string(traces_of(folder, scenario)).ok()
}

/// Whether traces say the same, as far as that is known.
fn are_same(one: Option<String>, other: Option<String>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

/// The machine that was simulated.
fn simulated(folder: &Path) -> Option<String> {
    fs::read_to_string(folder.join(SIMULATED)).ok()
}

/// Whether a folder's copy of a scenario runs what this one does, whose traces say this. Where there is no
/// copy nobody knows better. One that cannot be read, since a claim in it is refused by now, say, is told with
/// its line, where it can be mended.
fn is_kept(folder: &Path, scenario: &Scenario, traces: &str) -> Result<bool, Failure> {
    let copy = copy_of(folder, &scenario.name);
    Ok(!copy.is_file()
        || Scenario::read(&copy)?.runs_what(scenario)
            && are_same(recorded(folder, &scenario.name), Some(traces.to_owned())))
}

/// Keeps beside the results what they are of: scenarios, and the machine that is simulated. As a rule all of it is
/// there already, by an earlier run, whose results it is of as well.
pub(crate) fn keep(
    folder: &Path,
    scenarios: &[Scenario],
    machine: Option<&str>,
) -> Result<(), Failure> {
    fs::create_dir_all(folder.join(SCENARIOS)).map_err(Failure::unwritable(folder))?;
    if let Some(machine) = machine {
        whole::write(&folder.join(SIMULATED), machine).map_err(Failure::unwritable(folder))?;
    }
    for scenario in scenarios {
        let copy = copy_of(folder, &scenario.name);
        whole::write(&copy, &scenario.text).map_err(Failure::unwritable(folder))?;
        let (traces, recorded) = (traces_of(folder, &scenario.name), scenario.recorded()?);
        if recorded.is_empty() {
            // There may be those of another of the name, which came to no point.
            let _ = fs::remove_file(traces);
        } else {
            whole::write(&traces, recorded).map_err(Failure::unwritable(folder))?;
        }
    }
    Ok(())
}

/// Notes which machine points are from. Simulated ones are the same on any: they are no reason to forget
/// which one live ones are from. A folder that takes results but no notes is not worth an end.
pub(crate) fn note_host(folder: &Path, world: World) {
    let is_right = match noted_host(folder) {
        Ok(known) => known.is_some_and(|known| world == World::Sim || known == Host::here()),
        // Once it is mended it says which one live ones are from.
        Err(_) => world == World::Sim,
    };
    if !is_right {
        let here = serde_json::to_vec_pretty(&Host::here()).unwrap_or_default();
        let _ = whole::write(&folder.join(HOST), here);
    }
}

/// The machine that a folder's points are from, as far as it can be known.
pub(crate) fn host(folder: &Path) -> Option<Host> {
    noted_host(folder).ok().flatten()
}

/// The same, where that is noted.
///
/// # Errors
/// [`Failure::Host`], where the note cannot be read: it may be of another machine.
pub(crate) fn noted_host(folder: &Path) -> Result<Option<Host>, Failure> {
    let path = folder.join(HOST);
    let read = match fs::read(&path) {
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read,
    };
    let host = read.and_then(|note| Ok(serde_json::from_slice(&note)?));
    host.map(Some).map_err(|source| Failure::Host { path, source })
}

/// Whether a folder notes of a scenario that lies in it, and can be read, what could not be run.
pub(crate) fn has_left_out(folder: &Path, name: &str) -> bool {
    folder.join(format!("{name}.{LEFT_OUT}")).is_file()
        && Scenario::read(&copy_of(folder, name)).is_ok()
}

/// The scenarios of which it does, by their names.
pub(crate) fn all_left_out(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = files.filter_map(|file| {
        let file = file.file_name().into_string().ok()?;
        file.strip_suffix(&format!(".{LEFT_OUT}")).map(str::to_owned)
    });
    let mut names: Vec<String> = named.filter(|name| has_left_out(folder, name)).collect();
    names.sort();
    names
}

/// How quick the servers of a scenario's live run of this seed were, if that is noted.
pub(crate) fn speed(folder: &Path, name: &str, seed: u64) -> Option<NonZeroU64> {
    let text = fs::read_to_string(folder.join(format!("{name}.{SPEEDS}"))).ok()?;
    let of_it = |line: &str| {
        let (of, speed) = line.split_once(' ')?;
        (of.parse() == Ok(seed)).then(|| speed.parse().ok())?
    };
    // The last: of what was before it the results are gone.
    text.lines().rev().find_map(of_it)
}

/// Notes it, for a later part of that run. A folder that takes results but no notes is not worth an end.
pub(crate) fn note_speed(folder: &Path, name: &str, seed: u64, speed: NonZeroU64) {
    let file = folder.join(format!("{name}.{SPEEDS}"));
    let file = OpenOptions::new().create(true).append(true).open(file);
    let _ = file.and_then(|mut file| writeln!(file, "{seed} {speed}"));
}

/// In what a folder's machine is another than this one, if it is.
fn difference(known: &Host, here: &Host) -> Option<String> {
    let kernels = (known.kernel != here.kernel)
        .then(|| format!("kernel {}, here {}", known.kernel, here.kernel));
    let processors = (known.processors != here.processors)
        .then(|| format!("{}, here {}", known.processors, here.processors));
    let unlike: Vec<String> = kernels.into_iter().chain(processors).collect();
    (!unlike.is_empty()).then(|| unlike.join("; "))
}

/// The copy of a scenario that lies with its results, or the one that comes with this program.
pub(crate) fn scenario(folders: &[&Path], name: &str) -> Result<Scenario, Failure> {
    let mut copies = folders.iter().filter(|folder| copy_of(folder, name).is_file());
    let Some(first) = copies.next() else { return Ok(tidegate_scenarios::named(name)?) };
    let scenario = Scenario::read(&copy_of(first, name))?;
    for folder in copies {
        let is_same = Scenario::read(&copy_of(folder, name))?.runs_what(&scenario)
            && are_same(recorded(folder, name), recorded(first, name));
        if !is_same {
            return Err(other_folder(first, folder, &format!("scenario {name}")));
        }
    }
    Ok(scenario)
}

/// The simulated machine that results which are drawn together are of, by its name, or by the file that it
/// lies in. Of two there are no such results.
pub(crate) fn one_machine(folders: &[&Path]) -> Result<Option<String>, Failure> {
    let mut machines = folders.iter().filter_map(|folder| Some((folder, simulated(folder)?)));
    let Some((first, known)) = machines.next() else { return Ok(None) };
    match machines.find(|(_, other)| *other != known) {
        None => Ok(Some(machine::name(&known).unwrap_or(SIMULATED).to_owned())),
        Some((other, _)) => Err(other_folder(first, other, "simulated machine")),
    }
}

fn other_folder(first: &Path, other: &Path, what: &str) -> Failure {
    Failure::OtherFolder {
        folder: other.to_owned(),
        what: what.to_owned(),
        first: first.to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn simulated_points_do_not_say_which_machine_live_ones_are_from() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        note_host(folder, World::Sim);
        assert_eq!(host(folder), Some(Host::here()), "there are no others yet");
        let other = Host { kernel: "another".to_owned(), processors: "none".to_owned() };
        fs::write(folder.join(HOST), serde_json::to_vec(&other).unwrap()).unwrap();
        note_host(folder, World::Sim);
        assert_eq!(host(folder), Some(other));
        note_host(folder, World::Live);
        assert_eq!(host(folder), Some(Host::here()));
    }

    /// As a full disk leaves it.
    #[test]
    fn a_note_of_the_machine_that_cannot_be_read_is_told_and_waits_to_be_mended() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join(RESULTS), line("live")).unwrap();
        fs::write(folder.join(HOST), "").unwrap();
        let kept = Kept::read(folder).unwrap();
        let told = kept.require_same(&[], None, Some(&Host::here())).unwrap_err().to_string();
        assert!(told.contains("host.json") && told.contains("; mend it, or remove it"), "{told}");
        kept.require_same(&[], None, None).unwrap();
        note_host(folder, World::Sim);
        assert!(noted_host(folder).is_err(), "simulated points know nothing of it");
    }

    /// A file that a run wrote again could be lost with what earlier ones came to.
    #[test]
    fn what_is_kept_already_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let scenarios = &tidegate_sim::calibrate::scenarios()[..1];
        let files = [folder.join(SIMULATED), copy_of(folder, &scenarios[0].name)];
        let keep = || {
            keep(folder, scenarios, Some("cores = 1\n")).unwrap();
            files.each_ref().map(|file| {
                let there = fs::metadata(file).unwrap();
                (there.ino(), there.modified().unwrap())
            })
        };
        assert_eq!(keep(), keep());
    }

    #[test]
    fn what_cannot_be_kept_leaves_what_is() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut scenarios = tidegate_sim::calibrate::scenarios();
        scenarios.truncate(1);
        keep(folder, &scenarios, Some("cores = 1\n")).unwrap();
        let (copy, known) = (copy_of(folder, &scenarios[0].name), scenarios[0].text.clone());
        for file in [&copy, &folder.join(SIMULATED)] {
            fs::create_dir(whole::unfinished(file)).unwrap();
        }
        scenarios[0].text.push('\n');
        assert!(keep(folder, &scenarios, None).is_err());
        assert!(keep(folder, &[], Some("cores = 2\n")).is_err());
        assert_eq!(fs::read_to_string(copy).unwrap(), known);
        assert_eq!(simulated(folder).unwrap(), "cores = 1\n");
    }

    #[test]
    fn how_quick_servers_were_is_known_of_each_run_by_its_seed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let known = |name: &str, seed| speed(folder, name, seed).map(NonZeroU64::get);
        assert_eq!(known("a", 1), None);
        for (seed, speed) in [(1, 300), (2, 400), (1, 500)] {
            note_speed(folder, "a", seed, NonZeroU64::new(speed).unwrap());
        }
        assert_eq!([known("a", 1), known("a", 2)], [Some(500), Some(400)]);
        assert_eq!([known("a", 3), known("b", 1)], [None, None]);
        fs::write(folder.join("b.speeds.txt"), "1 0\n2\nx 7\n").unwrap();
        assert_eq!([known("b", 1), known("b", 2)], [None, None]);
    }

    /// A point of this world.
    pub(crate) fn line(world: &str) -> String {
        let times = r#"{"mean":1,"p50":1,"p90":1,"p99":1,"max":1}"#;
        format!(
            r#"{{"scenario":"s","world":"{world}","curve":"default","mechanism":"default","server":"",
            "clients":"","capacity_per_s":1,"offered_per_s":1,"offered_over_capacity":1,"attempts":1,
            "replies_per_s":1,"response_ms":{times},"errors_per_s":{{}},"queue_drops_per_s":{{}},
            "duration_s":1,"seed":1}}"#
        )
        .replace('\n', "")
    }

    #[test]
    fn live_points_of_two_machines_are_no_runs_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let here = Host::here();
        let note = |host: &Host| {
            fs::write(folder.join(HOST), serde_json::to_vec(host).unwrap()).unwrap();
        };
        let told = |world: &str, live: bool| {
            fs::write(folder.join(RESULTS), line(world)).unwrap();
            let kept = Kept::read(folder).unwrap();
            assert_eq!(kept.results.points.len(), 1);
            let same = kept.require_same(&[], None, live.then_some(&here));
            same.map_or_else(|failure| failure.to_string(), |()| String::new())
        };
        note(&Host { kernel: "another".to_owned(), processors: "none".to_owned() });
        assert_eq!([told("sim", true), told("live", false)], ["", ""]);
        let refused = told("live", true);
        let Host { kernel, processors } = &here;
        let unlike =
            format!("another machine (kernel another, here {kernel}; none, here {processors})");
        assert!(refused.contains(&unlike) && refused.contains("--out"), "{refused}");
        assert_eq!(refused.lines().count(), 1);
        note(&Host { kernel: "another".to_owned(), ..here.clone() });
        let unlike = format!("another machine (kernel another, here {kernel})");
        assert!(told("live", true).contains(&unlike));
        note(&here);
        assert_eq!(told("live", true), "");
    }
}
