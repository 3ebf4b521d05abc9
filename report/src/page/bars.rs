// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stacked bars of a group's parts: one drawing a curve, one bar a rate (Shukla Figure 4.9).

use maud::{Markup, html};
use tidegate_scenarios::Bars;

use super::across::load_head;
use super::axis::{Axis, drawable};
use super::legend::{colour, world_class};
use super::panel::json;
use super::study::View;
use super::words;
use crate::number::{Unit, bare, load};
use crate::point::World;
use crate::statistics::{Cell, same_load};

const HEIGHT: f64 = 224.0;
const LEFT: f64 = 46.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = HEIGHT - 22.0;
/// From one bar to the next.
const PITCH: f64 = 28.0;
/// As many parts as there are fills; the smallest share the last.
const MOST_PARTS: usize = 8;
/// Classes of attempts by SYNs: 1, 2, 3, 4, and more.
const SYN_CLASSES: u32 = 5;

/// A part of the group, over all bars.
struct Part {
    label: String,
    fill: String,
    /// What is summed in it.
    paths: Vec<String>,
    /// What of it failed.
    failed: Vec<String>,
}

/// The figure of one group.
pub(super) fn bars(view: &View, index: usize, bars: &Bars) -> Markup {
    let parts = parts(view, &bars.measure);
    let unit = Unit::of(&bars.measure);
    let heights: Vec<f64> = view
        .cells
        .iter()
        .map(|cell| parts.iter().map(|part| total(cell, &part.paths)).sum())
        .filter(|height| drawable(*height, false))
        .collect();
    let id = format!("{}-bars-{}", view.id, index + 1);
    let letter = words::letter(view.scenario.panels.len() + index);
    let drawn = view.drawn().into_iter();
    let known = |cell: &&Cell| cell.estimate(&bars.measure).is_some();
    let facets: Vec<(&str, World, Vec<&Cell>)> = drawn
        .map(|(curve, world)| {
            (curve, world, view.series(curve, world).into_iter().filter(known).collect())
        })
        .filter(|(.., cells): &(_, _, Vec<&Cell>)| !cells.is_empty())
        .collect();
    let is_zero =
        |cell: &&Cell| cell.estimate(&bars.measure).is_some_and(|found| found.mean == 0.0);
    let all_zero = !facets.is_empty() && facets.iter().all(|(.., cells)| cells.iter().all(is_zero));
    html! {
        figure.bars {
            figcaption {
                b { "(" (letter) ") " } (words::title(&bars.measure, Some(&bars.title)))
                span.aside { ", by offered load in × capacity" }
            }
            @if all_zero {
                p.empty { code { (bars.measure) } " is 0 at every load." }
            } @else if facets.is_empty() || parts.is_empty() {
                p.empty { "No point has a number for " code { (bars.measure) } "." }
            } @else {
                (key(&id, &parts))
                div.facets {
                    @for (index, (curve, world, cells)) in facets.iter().enumerate() {
                        (facet(view, &Facet {
                            id: &format!("{id}-{index}"), key: &id, title: &bars.title, curve,
                            world: *world, cells, parts: &parts, unit,
                            y: &Axis::linear(&heights, 4).drawn(BOTTOM, TOP),
                        }))
                    }
                }
            }
        }
    }
}

fn parts(view: &View, group: &str) -> Vec<Part> {
    let mut names: Vec<String> = Vec::new();
    for name in view.points.iter().flat_map(|point| point.parts(group)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if group == "syns_per_attempt" {
        return by_syns(&names);
    }
    let path = |name: &String| format!("{group}.{name}");
    let weight =
        |name: &String| view.cells.iter().map(|cell| total(cell, &[path(name)])).sum::<f64>();
    names.sort();
    let mut weights: Vec<(f64, String)> = names.into_iter().map(|n| (weight(&n), n)).collect();
    weights.retain(|(weight, _)| *weight != 0.0);
    // What does nothing stands on top, in the colour of the grid.
    weights.sort_by(|a, b| (a.1 == "idle").cmp(&(b.1 == "idle")).then(b.0.total_cmp(&a.0)));
    let rest = if weights.len() > MOST_PARTS { weights.split_off(MOST_PARTS - 1) } else { vec![] };
    let one = |(index, (_, name)): (usize, &(f64, String))| Part {
        label: name.clone(),
        fill: if name == "idle" { "idle".to_owned() } else { format!("p{index}") },
        paths: vec![path(name)],
        failed: Vec::new(),
    };
    let mut parts: Vec<Part> = weights.iter().enumerate().map(one).collect();
    if !rest.is_empty() {
        parts.push(Part {
            label: format!("{} others", rest.len()),
            fill: format!("p{}", MOST_PARTS - 1),
            paths: rest.iter().map(|(_, name)| path(name)).collect(),
            failed: Vec::new(),
        });
    }
    parts
}

fn by_syns(names: &[String]) -> Vec<Part> {
    let mut counts: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    counts.sort_unstable();
    let mut parts: Vec<Part> = Vec::new();
    for count in counts {
        let class = count.clamp(1, SYN_CLASSES);
        let label = match class {
            1 if count == 0 => "no SYN".to_owned(),
            1 => "1 SYN".to_owned(),
            SYN_CLASSES => format!("{SYN_CLASSES} SYNs or more"),
            _ => format!("{class} SYNs"),
        };
        let path = |kind: &str| format!("syns_per_attempt.{count}.{kind}");
        match parts.iter_mut().find(|part| part.label == label) {
            Some(part) => {
                part.paths.push(path("attempts"));
                part.failed.push(path("errors"));
            }
            None => parts.push(Part {
                label,
                fill: format!("o{class}"),
                paths: vec![path("attempts")],
                failed: vec![path("errors")],
            }),
        }
    }
    parts
}

fn total(cell: &Cell, paths: &[String]) -> f64 {
    let numbers = paths.iter().filter_map(|path| cell.estimate(path));
    numbers.map(|found| found.mean).filter(|mean| drawable(*mean, false) && *mean > 0.0).sum()
}

fn key(id: &str, parts: &[Part]) -> Markup {
    html! {
        ul.key-list {
            @for (index, part) in parts.iter().enumerate() {
                li {
                    svg.swatch id={ (id) "-p" (index) } viewBox="0 0 14 14" width="14" height="14"
                        aria-hidden="true" {
                        rect class=(part.fill) x="1" y="1" width="12" height="12" {}
                    }
                    (part.label)
                }
            }
            @if parts.iter().any(|part| !part.failed.is_empty()) {
                li {
                    svg.swatch viewBox="0 0 22 14" width="22" height="14" aria-hidden="true" {
                        rect.o3 x="1" y="1" width="20" height="12" {}
                        rect x="1" y="1" width="20" height="12" fill="url(#hatch)" {}
                    }
                    "of these, failed"
                }
            }
        }
    }
}

struct Facet<'a> {
    id: &'a str,
    key: &'a str,
    title: &'a str,
    curve: &'a str,
    world: World,
    cells: &'a [&'a Cell<'a>],
    parts: &'a [Part],
    unit: Unit,
    y: &'a Axis,
}

/// The bars of one curve in one world.
fn facet(view: &View, facet: &Facet) -> Markup {
    // Every curve has a place for every rate, so that bars of one rate are found alike.
    let loads = view.loads();
    let width = LEFT + PITCH * loads.len() as f64 + 10.0;
    let centres: Vec<f64> =
        (0..loads.len()).map(|bar| LEFT + PITCH * (bar as f64 + 0.5) + 3.0).collect();
    let capacity = view.capacity_in(facet.world);
    let heads: Vec<String> = loads.iter().map(|load| load_head(*load, capacity)).collect();
    let bar = |cell: &Cell| loads.iter().position(|load| same_load(*load, cell.offered));
    let shown = view.name(facet.curve, facet.world);
    let world = world_class(facet.world);
    html! {
        div.facet data-c=(view.place(facet.curve)) data-w=(world) {
            p class={ "facet-title " (colour(view.place(facet.curve))) } { (shown) }
            div.plot tabindex="0" role="group"
                aria-label={ (facet.title) ", " (shown) ": values by arrow keys" } {
                svg viewBox={ "0 0 " (width) " " (HEIGHT) } width=(width) height=(HEIGHT)
                    role="img" aria-labelledby={ (facet.id) "-t " (facet.id) "-d" }
                    data-xs=(json(&centres)) data-heads=(json(&heads)) {
                    title id={ (facet.id) "-t" } { (facet.title) ": " (shown) }
                    desc id={ (facet.id) "-d" } { (description(facet)) }
                    (frame(facet, &loads, &centres, width))
                    line.hair x1="0" x2="0" y1=(TOP) y2=(BOTTOM) {}
                    @for (part, one) in facet.parts.iter().enumerate() {
                        g data-name=(one.label) data-key={ (facet.key) "-p" (part) } {
                            @for cell in facet.cells {
                                @if let Some(bar) = bar(cell) {
                                    (segment(facet, part, cell, bar, centres[bar]))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn frame(facet: &Facet, loads: &[f64], centres: &[f64], width: f64) -> Markup {
    html! {
        g.grid {
            @for tick in &facet.y.ticks {
                line x1=(LEFT) x2=(width) y1=(facet.y.place(*tick)) y2=(facet.y.place(*tick)) {}
            }
        }
        g.axis { line x1=(LEFT) x2=(width) y1=(BOTTOM) y2=(BOTTOM) {} }
        g.ticks {
            @for tick in &facet.y.ticks {
                text x=(LEFT - 6.0) y=(facet.y.place(*tick) + 4.0) text-anchor="end" {
                    (facet.unit.tick(*tick))
                }
            }
            @for (at, centre) in loads.iter().zip(centres) {
                // Below a bar is room for three digits; its tooltip has all.
                text x=(centre) y=(BOTTOM + 16.0) text-anchor="middle" {
                    (bare(&Unit::Load.show(*at)))
                }
            }
        }
    }
}

/// One part of one bar, its failed share hatched at its top.
fn segment(facet: &Facet, part: usize, cell: &Cell, bar: usize, centre: f64) -> Markup {
    let below: f64 = facet.parts[..part].iter().map(|part| total(cell, &part.paths)).sum();
    let one = &facet.parts[part];
    let number = total(cell, &one.paths);
    let failed = total(cell, &one.failed).min(number);
    let (x, width) = (centre - PITCH * 0.36, PITCH * 0.72);
    let (top, middle, bottom) = (
        facet.y.place(below + number),
        facet.y.place(below + number - failed),
        facet.y.place(below),
    );
    let mut value = facet.unit.show(number);
    if failed > 0.0 {
        value.push_str(&format!(", {} failed", facet.unit.show(failed)));
    }
    html! {
        @if number > 0.0 {
            rect class={ "part " (one.fill) } x=(x) y=(top) width=(width)
                height=((bottom - top).max(0.0)) data-k=(bar) data-y=(top) data-v=(value) {}
            @if failed > 0.0 {
                rect.failed x=(x) y=(top) width=(width) height=((middle - top).max(0.0))
                    fill="url(#hatch)" {}
            }
        }
    }
}

fn description(facet: &Facet) -> String {
    let bar = |cell: &&Cell| {
        let parts: Vec<String> = facet
            .parts
            .iter()
            .map(|part| (part, total(cell, &part.paths)))
            .filter(|(_, number)| *number > 0.0)
            .map(|(part, number)| format!("{} {}", part.label, facet.unit.show(number)))
            .collect();
        format!("{}: {}", load(cell.offered), parts.join(", "))
    };
    facet.cells.iter().map(bar).collect::<Vec<_>>().join("; ")
}
