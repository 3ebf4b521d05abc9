// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A seed is a run: the same scenario gives the same points, to the byte.

use std::error::Error;
use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{Point, ResultsError, Watcher};
use tidegate_scenarios::{Form, Scenario};
use tidegate_sim::{Machine, Settings, run};

const SCENARIO: &str = r#"
title = "Twice"
source = "us"
[clients]
os = "linux-2.4"
timeout_s = 1
delay = { mean_ms = 3, spread_ms = 1 }
loss = 0.01
[server]
backlog = 70
[load]
offered = [0.5, 1.5]
duration_s = 0.2
warm_up_s = 0.2
seed = 1
[[curve]]
mechanism = "default"
[[curve]]
mechanism = "reserv rst-syn"
[[curve]]
name = "with kernel cookies"
peer = "syncookies-2"
[[curve]]
peer = "nft-limit"
"#;

#[derive(Default)]
pub(crate) struct Kept {
    pub points: Vec<Point>,
    pub left_out: Vec<String>,
    steps: Vec<(usize, usize)>,
}

impl Watcher for Kept {
    fn step(&mut self, index: usize, steps: usize, _name: &str, _lasts: Duration) {
        self.steps.push((index, steps));
    }

    fn progress(&mut self, _index: usize, _progress: &Progress) {}

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        self.points.push(point.clone());
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        self.left_out.push(format!("{curve}: {reason}"));
    }
}

pub(crate) fn points_of(text: &str, machine: Machine, threads: usize) -> Kept {
    let scenario = Scenario::parse("twice", "twice.toml", text).unwrap();
    let threads = NonZeroUsize::new(threads).unwrap();
    let mut kept = Kept::default();
    let load = scenario.load(Form::Full);
    run(&scenario, load, &Settings { machine, threads }, &mut kept).unwrap();
    kept
}

fn text(kept: &Kept) -> String {
    serde_json::to_string(&kept.points).unwrap()
}

#[test]
fn two_runs_of_one_seed_are_the_same_to_the_byte() {
    for machine in [Machine::xeon(), Machine::today()] {
        let first = points_of(SCENARIO, machine, 1);
        assert_eq!(first.points.len(), 6);
        assert!(first.points.iter().all(|point| point.replies_per_s > 100.0));
        assert_eq!(text(&first), text(&points_of(SCENARIO, machine, 1)));
        let other = points_of(&SCENARIO.replace("seed = 1", "seed = 2"), machine, 1);
        assert_ne!(text(&first), text(&other));
    }
}

#[test]
fn points_spread_over_threads_are_those_of_one() {
    let scenario = SCENARIO.replace("backlog = 70", "backlog = 70\npage = \"specweb99\"");
    let one = points_of(&scenario, Machine::xeon(), 1);
    for threads in [2, 5] {
        assert_eq!(text(&one), text(&points_of(&scenario, Machine::xeon(), threads)));
    }
}

#[test]
fn what_cannot_be_simulated_is_left_out_and_said_so() {
    let kept = points_of(SCENARIO, Machine::today(), 1);
    assert_eq!(kept.left_out.len(), 1);
    assert!(kept.left_out[0].starts_with("nft-limit: "), "{:?}", kept.left_out);
    let steps = kept.points.len() + 1;
    assert_eq!(kept.steps, (1..=steps).map(|step| (step, steps)).collect::<Vec<_>>());
}
