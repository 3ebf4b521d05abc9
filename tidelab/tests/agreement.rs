// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is simulated is what happens: the same scenario live and simulated, after a calibration.
//!
//! `TIDELAB_BIN` names another `tidelab` than the one that was built with this test, such as a
//! release's; `tidegate` is to be beside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate_lab::skip_without_root;
use tidegate_report::{Point, Results, World};

const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agreement.toml");
const FOLDER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/agreement");
const KINDS: [&str; 4] = ["refused", "reset", "timeout", "timeout, connected"];

/// The share of replies that the worlds may differ by.
const REPLIES: f64 = 0.10;
/// The share of the mean response time, and the time in ms; either suffices.
const RESPONSE: f64 = 0.25;
const RESPONSE_MS: f64 = 5.0;
/// Errors of a kind, as a share of attempts.
const ERRORS: f64 = 0.10;
/// Points to be held together.
const POINTS: usize = 20;
/// How often each is run: a virtual processor is a tenth faster in one run than in the next.
const RUNS: &str = "4";

#[test]
#[ignore = "takes three quarters of an hour of a machine that does nothing else"]
fn live_and_simulated_agree() {
    if skip_without_root("live_and_simulated_agree") {
        return;
    }
    let machine = format!("{FOLDER}/machine.toml");
    let _ = std::fs::remove_dir_all(FOLDER);
    std::fs::create_dir_all(FOLDER).unwrap();
    tidelab(&["calibrate", "--out", &machine, "--keep", &format!("{FOLDER}/calibration")]);
    let both = ["--world", "both", "--machine", &machine, "--runs", RUNS];
    tidelab(&[&["run", SCENARIO, "--out", FOLDER], both.as_slice()].concat());
    let points = Results::read([Path::new(FOLDER).join("result.jsonl")]).unwrap().points;
    let pairs = pairs(&points);
    println!("{}", Pair::HEAD);
    for pair in &pairs {
        println!("{}", pair.line());
    }
    let measured: Vec<&Pair> = pairs.iter().filter(|pair| pair.live.runs > 0).collect();
    assert!(measured.len() >= POINTS, "only {} points were measured undisturbed", measured.len());
    let apart: Vec<String> =
        measured.iter().filter(|pair| !pair.agree()).map(|pair| pair.line()).collect();
    assert!(apart.is_empty(), "{} points do not agree:\n{}", apart.len(), apart.join("\n"));
}

fn tidelab(arguments: &[&str]) {
    let program = std::env::var_os("TIDELAB_BIN")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_tidelab")), PathBuf::from);
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{}{said}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "tidelab {}: {said}", arguments.join(" "));
}

/// One operating point in both worlds.
struct Pair {
    curve: String,
    offered: f64,
    live: Mean,
    sim: Mean,
}

/// What clients saw, in the mean of the runs.
struct Mean {
    runs: usize,
    replies_per_s: f64,
    response_ms: f64,
    /// The share of attempts that ended in each kind of error.
    errors: [f64; KINDS.len()],
}

impl Mean {
    fn of(runs: &[&Point]) -> Self {
        let mean = |number: &dyn Fn(&Point) -> f64| {
            runs.iter().map(|run| number(run)).sum::<f64>() / runs.len() as f64
        };
        let share = |run: &Point, kind: &str| {
            let per_s = run.errors_per_s.get(kind).copied().unwrap_or(0.0);
            per_s * run.duration_s / run.attempts as f64
        };
        Self {
            runs: runs.len(),
            replies_per_s: mean(&|run| run.replies_per_s),
            response_ms: mean(&|run| run.response_ms.mean),
            errors: KINDS.map(|kind| mean(&|run| share(run, kind))),
        }
    }
}

fn pairs(points: &[Point]) -> Vec<Pair> {
    let mut places: Vec<(&str, f64)> = Vec::new();
    for point in points {
        let place = (point.curve.as_str(), point.offered_over_capacity);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mean = |(curve, offered): (&str, f64), world| {
        // A measurement that something else took part in is none.
        let is_measured = |point: &Point| world == World::Sim || point.warnings.is_empty();
        let is_of_it = |point: &&Point| {
            let is_there = point.curve == curve && point.offered_over_capacity == offered;
            point.world == world && is_there && is_measured(point)
        };
        Mean::of(&points.iter().filter(is_of_it).collect::<Vec<_>>())
    };
    let pair = |place: (&str, f64)| Pair {
        curve: place.0.to_owned(),
        offered: place.1,
        live: mean(place, World::Live),
        sim: mean(place, World::Sim),
    };
    places.into_iter().map(pair).collect()
}

impl Pair {
    const HEAD: &'static str = "curve                 × capacity  runs   replies/s live  simulated   \
         response ms live  simulated   error kind furthest apart";

    fn agree(&self) -> bool {
        self.replies_agree() && self.responses_agree() && self.furthest_error().1.abs() <= ERRORS
    }

    fn replies_agree(&self) -> bool {
        (self.sim.replies_per_s / self.live.replies_per_s - 1.0).abs() <= REPLIES
    }

    fn responses_agree(&self) -> bool {
        let (live_ms, sim_ms) = (self.live.response_ms, self.sim.response_ms);
        let apart_ms = (sim_ms - live_ms).abs();
        apart_ms <= RESPONSE_MS || apart_ms <= RESPONSE * live_ms
    }

    /// The kind of error that the worlds differ most in, and by which share of attempts.
    fn furthest_error(&self) -> (&'static str, f64) {
        let shares = self.live.errors.iter().zip(self.sim.errors);
        let each = KINDS.into_iter().zip(shares.map(|(live, sim)| sim - live));
        each.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).expect("there are kinds")
    }

    fn line(&self) -> String {
        let Self { curve, offered, live, sim } = self;
        let (kind, apart) = self.furthest_error();
        let verdict = match (live.runs, self.agree()) {
            (0, _) => "  disturbed",
            (_, true) => "",
            (_, false) => "  APART",
        };
        format!(
            "{curve:<22} {offered:>9} {:>5} {:>16.0} {:>10.0} {:>18.1} {:>10.1}   {kind} {:+.1} \
             %{verdict}",
            live.runs,
            live.replies_per_s,
            sim.replies_per_s,
            live.response_ms,
            sim.response_ms,
            100.0 * apart,
        )
    }
}

/// The table can tell worlds apart.
#[test]
fn pairs_that_differ_do_not_agree() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pair.jsonl"));
    let read = |line: &str| serde_json::from_str::<Point>(line).unwrap();
    let points: Vec<Point> = text.unwrap().lines().map(read).collect();
    let agrees = |change: &dyn Fn(&mut Point)| {
        let mut points = points.clone();
        let sim = points.iter_mut().find(|point| point.world == World::Sim).unwrap();
        change(sim);
        let pairs = pairs(&points);
        assert_eq!(pairs.len(), 1);
        pairs[0].agree()
    };
    assert!(agrees(&|_| {}));
    assert!(!agrees(&|sim| sim.replies_per_s *= 1.11));
    assert!(!agrees(&|sim| sim.replies_per_s *= 0.89));
    assert!(!agrees(&|sim| sim.response_ms.mean *= 1.3));
    assert!(!agrees(&|sim| {
        sim.errors_per_s.insert("reset".to_owned(), 0.11 * sim.attempts as f64 / sim.duration_s);
    }));
}
