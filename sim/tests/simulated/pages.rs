// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages that a server computes.

use std::error::Error;
use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{Point, ResultsError, Watcher};
use tidegate_scenarios::{Form, Scenario};
use tidegate_sim::{Machine, Settings, run};

const SHARE: f64 = 0.3;
const COST_US: f64 = 500.0;

#[derive(Default)]
struct Capacities(Vec<f64>);

impl Watcher for Capacities {
    fn step(&mut self, _index: usize, _steps: usize, _name: &str, _lasts: Duration) {}

    fn progress(&mut self, _index: usize, _progress: &Progress) {}

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        self.0.push(point.capacity_per_s);
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        panic!("{curve}: {reason}");
    }
}

/// What the server of this kind with these keys can do, with and without pages that it computes.
fn capacities_per_s(machine: Machine, keys: &str) -> [f64; 2] {
    let text = format!(
        "title = \"t\"\nsource = \"s\"\n[server]\n{keys}\n[load]\noffered = [0.1]\nduration_s = 0.1\n\
         warm_up_s = 0.1\n[[curve]]\nname = \"with\"\npeer = \"kernel\"\n\
         server = {{ computed = {{ share = {SHARE}, cost_us = {COST_US} }} }}\n\
         [[curve]]\nname = \"without\"\npeer = \"kernel\""
    );
    let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
    let mut capacities = Capacities::default();
    let settings = Settings { machine, threads: NonZeroUsize::MIN };
    run(&scenario, scenario.load(Form::Full), &settings, &mut capacities).unwrap();
    capacities.0.try_into().unwrap()
}

/// Whatever server, each reply takes as much longer in the mean as the mix says, beside what it takes anyhow. The
/// papers' has `cost_us` in its own costs, and computes all the same.
#[test]
fn a_server_that_computes_pages_can_do_as_much_less_as_they_take() {
    for (machine, keys, us) in [
        (Machine::today(), "kind = \"userver\"\ncost_us = 100", 1.27),
        (Machine::today(), "kind = \"userver\"\npage = \"specweb99\"", 1.27),
        (Machine::today(), "kind = \"tux\"", 1.27),
        (Machine::today(), "kind = \"knot-c\"", 1.27),
        (Machine::xeon(), "kind = \"userver\"\ncost_us = 100", 1.0),
    ] {
        let [with_us, without_us] = capacities_per_s(machine, keys).map(|per_s| 1e6 / per_s);
        let more = (with_us - without_us) / (SHARE * COST_US * us);
        assert!((0.97..1.03).contains(&more), "{keys}: {more} times as much more");
    }
}
