// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a page of invented numbers, to see how it looks: `cargo run --example sample > page.html`.

#[path = "../tests/samples/mod.rs"]
mod samples;

use tidegate_report::{Summary, page};

fn main() {
    let studies = [samples::overload(), samples::both_worlds()];
    for study in &studies {
        eprintln!("{}", Summary { scenario: &study.scenario, points: &study.points });
    }
    println!("{}", page(&studies));
}
