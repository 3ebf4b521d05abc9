// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a decision costs, and how many a processor makes in a second, beside what else there is.

mod cost;
mod crowd;
mod fin;
mod guard;
mod host;
mod numbers;
mod segment;
mod shed;
mod test_run;
mod throughput;

use std::process::ExitCode;

use tidegate_lab::skip_without_root;

fn main() -> ExitCode {
    if skip_without_root("make bench") {
        return ExitCode::FAILURE;
    }
    let which: Vec<String> = std::env::args().skip(1).collect();
    let asked = |part: &str| which.is_empty() || which.iter().any(|word| word == part);
    println!("{}", host::machine());
    let mut met = true;
    if asked("cost") {
        met &= cost::measure();
    }
    if asked("throughput") {
        met &= throughput::measure();
    }
    if asked("crowd") {
        met &= crowd::measure();
    }
    println!("{}", if met { "Every target is met." } else { "A target is missed." });
    // A missed target is a result, not a failure of the measurement: noisy machines are many.
    ExitCode::SUCCESS
}
