// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Under which conditions results were found, so that a reader can judge and repeat them.

use std::collections::BTreeMap;
use std::fs;

use maud::{Markup, html};
use serde::{Deserialize, Serialize};

use super::study::View;
use crate::number::{Unit, load};
use crate::point::{Point, World};

/// The machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Release of its kernel.
    pub kernel: String,
    /// Its processors, in a few words.
    pub processors: String,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        let model = ["model name", "Model", "Hardware"].iter().find_map(|key| {
            let line = cpuinfo.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let plural = if count == 1 { "processor" } else { "processors" };
        let processors = match model {
            Some(model) => format!("{count} {plural}, {model}"),
            None => format!("{count} {plural}"),
        };
        Self { kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(), processors }
    }
}

/// A list of conditions.
pub(super) fn conditions(view: &View) -> Markup {
    let of = |text: fn(&Point) -> String| said(view, text);
    let hosts = |text: fn(&Host) -> String| view.study.hosts.iter().map(text).collect::<Vec<_>>();
    let is_simulated = view.worlds == [World::Sim];
    html! {
        div.conditions {
            h3 { "Conditions" }
            dl {
                (entry("World", &worlds(view)))
                @if !view.points.is_empty() {
                    (entry("Server", &of(|point| point.server.clone())))
                    (entry("Capacity", &of(|point| Unit::PerSecond.show(point.capacity_per_s))))
                    (entry("Clients", &of(|point| point.clients.clone())))
                    (entry("Counted", &counted(view)))
                    (entry("Seed", &of(|point| point.seed.to_string())))
                    (entry("Generator", &late(view)))
                }
                @if is_simulated {
                    (entry("Simulated on", &hosts(|host| format!("Linux {}, {}", host.kernel, host.processors))))
                } @else {
                    (entry("Kernel", &hosts(|host| host.kernel.clone())))
                    (entry("Processors", &hosts(|host| host.processors.clone())))
                }
                @if !view.study.commands.is_empty() {
                    dt { "Repeat it" }
                    dd { @for command in &view.study.commands { div { code { (command) } } } }
                }
            }
        }
    }
}

/// Where its points are from, if not all are from a kernel: nobody is to take simulated ones for measured.
fn worlds(view: &View) -> Vec<String> {
    if !view.worlds.contains(&World::Sim) {
        return Vec::new();
    }
    let machine = view.study.machine.as_ref().map(|machine| format!(", machine {machine}"));
    let line = |world: &World| match world {
        World::Live => world.name().to_owned(),
        World::Sim => format!("{}{}", world.name(), machine.as_deref().unwrap_or_default()),
    };
    view.worlds.iter().map(line).collect()
}

fn entry(name: &str, lines: &[String]) -> Markup {
    html! {
        @if !lines.is_empty() {
            dt { (name) }
            dd { @for line in lines { div { (line) } } }
        }
    }
}

/// Each thing once, in the order in which points say it, with the world where the two differ.
fn said(view: &View, text: fn(&Point) -> String) -> Vec<String> {
    let of = |world: World| {
        let mut lines: Vec<String> = Vec::new();
        for point in view.points.iter().filter(|point| point.world == world) {
            let line = text(point);
            if !line.is_empty() && !lines.contains(&line) {
                lines.push(line);
            }
        }
        // Runs on many machines have many capacities: the first few show how they vary.
        let more = lines.len().saturating_sub(6);
        if more > 0 {
            lines.truncate(6);
            lines.push(format!("and {more} others"));
        }
        lines.join("; ")
    };
    let (live, sim) = (of(World::Live), of(World::Sim));
    let named = |world: World, text: String| format!("{}: {text}", world.name());
    match (live.is_empty(), sim.is_empty()) {
        (true, true) => Vec::new(),
        (false, true) => vec![live],
        (true, false) => vec![sim],
        _ if live == sim => vec![live],
        _ => vec![named(World::Live, live), named(World::Sim, sim)],
    }
}

/// For how long, and that not all there is counts.
fn counted(view: &View) -> Vec<String> {
    let mut lines =
        said(view, |point| format!("{} a point", Unit::Seconds.round(point.duration_s)));
    match view.cells.iter().map(|cell| cell.set_aside.len()).sum::<usize>() {
        0 => {}
        1 => lines.push("1 shorter run is set aside".to_owned()),
        several => lines.push(format!("{several} shorter runs are set aside")),
    }
    lines
}

/// How late the generator was at most: an open-loop generator that lags offers another load.
fn late(view: &View) -> Vec<String> {
    let live = view.points.iter().filter(|point| point.world == World::Live);
    let worst = live
        .filter(|point| point.late_p99_ms.is_finite())
        .max_by(|a, b| a.late_p99_ms.total_cmp(&b.late_p99_ms));
    let line = |point: &&&Point| {
        format!(
            "p99 of starts at most {} behind schedule ({} at {})",
            Unit::Ms.show(point.late_p99_ms),
            point.curve,
            load(point.offered_over_capacity)
        )
    };
    worst.iter().map(line).collect()
}

/// What points warn of, each warning once with where it holds.
pub(super) fn warnings(view: &View) -> Markup {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for point in &view.points {
        for warning in &point.warnings {
            let at = load(point.offered_over_capacity);
            let place = format!("{} at {at}", view.name(&point.curve, point.world));
            let known = places.entry(warning).or_default();
            if !known.contains(&place) {
                known.push(place);
            }
        }
    }
    html! {
        @if !places.is_empty() || !view.study.left_out.is_empty() {
            div.warnings role="note" {
                p { b { "Read with care" } }
                ul {
                    @for sentence in &view.study.left_out {
                        li { (sentence) }
                    }
                    @for (warning, places) in &places {
                        li { (warning) " " span.where { "(" (places.join(", ")) ")" } }
                    }
                }
            }
        }
    }
}
