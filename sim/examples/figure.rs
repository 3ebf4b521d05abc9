// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Simulates scenarios of the shelf and judges their claims: on the papers' machine, or today's.
//!
//! The second word is `short`, `full`, or how many seconds each rate of the full form lasts.
//!
//! `cargo run --release -p tidegate-sim --example figure -- xeon short shukla-4.3 shukla-4.7`

use std::error::Error;
use std::time::Duration;

use tidegate_client::Progress;
use tidegate_report::{Point, ResultsError, Watcher, judge_all};
use tidegate_scenarios::{Form, Part, named};
use tidegate_sim::{Machine, Settings, processors, run};

#[derive(Default)]
struct Table(Vec<Point>);

impl Watcher for Table {
    fn step(&mut self, _index: usize, _steps: usize, _name: &str, _lasts: Duration) {}

    fn progress(&mut self, _index: usize, _progress: &Progress) {}

    fn point(&mut self, point: &Point) -> Result<(), ResultsError> {
        let number = |path: &str| point.measure(path).unwrap_or(f64::NAN);
        println!(
            "{:<28} {:>5.2} {:>8.0} {:>8.0} {:>9.1} {:>9.0} {:>9.0} {:>9.0} {:>9.0} {:>5.2}",
            point.curve,
            point.offered_over_capacity,
            point.offered_per_s,
            point.replies_per_s,
            number("response_ms.mean"),
            number("errors_per_s"),
            number("queue_drops_per_s.ListenQFullAtSyn"),
            number("queue_drops_per_s.ListenQOverflow_syn_ack_acks"),
            number("queue_drops_per_s.ListenQOverflow_other_segments"),
            number("cpu.softirq"),
        );
        self.0.push(point.clone());
        Ok(())
    }

    fn left_out(&mut self, curve: &str, reason: &dyn Error) {
        println!("{curve}: left out: {reason}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let machine = match arguments.next().as_deref() {
        Some("today") => Machine::today(),
        _ => Machine::xeon(),
    };
    let given = arguments.next().unwrap_or_default();
    let form = if given == "short" { Form::Short } else { Form::Full };
    let part = Part { duration_s: given.parse().ok(), ..Part::of(form) };
    for name in arguments {
        let (scenario, load) = named(&name)?.part(&part)?;
        println!("{name}: {}", scenario.title);
        println!(
            "{:<28} {:>5} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>5}",
            "", "×", "offered", "replies", "ms", "errors", "SYN full", "ACK over", "other", "soft"
        );
        let mut table = Table::default();
        let settings = Settings { machine, threads: processors() };
        run(&scenario, load, &settings, &mut table)?;
        for (claim, judged) in judge_all(&scenario, &table.0) {
            let number = judged.number.map_or_else(|| "-".to_owned(), |n| format!("{n:.3}"));
            let paper = judged.paper.map_or_else(String::new, |n| format!("(paper {n}) "));
            let bounds = format!("{:?}..{:?}", claim.at_least, claim.at_most);
            let verdict = judged.verdict.words();
            println!("  {verdict:<15} {number:>10} in {bounds:<26} {paper}{}", claim.says);
        }
    }
    Ok(())
}
