// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plot of a measure against offered load, or of counts by the second against time.

use maud::{Markup, html};
use tidegate_scenarios::Panel;

use super::across::Across;
use super::axis::{Axis, drawable};
use super::legend::{colour, marker, world_class};
use super::study::View;
use super::words;
use crate::number::{Unit, bare, load};
use crate::point::World;
use crate::statistics::Estimate;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 316.0;
const LEFT: f64 = 52.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 52.0;
/// Height of a line of text, and about the width of a letter of it in a wide font (DejaVu Sans), which
/// is all that some machines have.
const LINE: f64 = 14.0;
const LETTER: f64 = 7.2;
/// How far a label may stand from the end of its line.
const NEAR: f64 = 22.0;
/// The longest label at a line's end, in letters.
const LABEL: usize = 16;

/// One curve in one world.
struct Curve<'a> {
    name: &'a str,
    shown: String,
    place: usize,
    world: World,
    /// Every load that was run, or every second, with the number if it has a place here.
    dots: Vec<(f64, Option<Estimate>)>,
    /// Loads that are not drawn, since all curves are drawn at another one.
    left_out: Vec<f64>,
}

/// The figure, with its caption above.
pub(super) fn panel(view: &View, index: usize, panel: &Panel) -> Markup {
    let id = format!("{}-panel-{}", view.id, index + 1);
    let title = words::title(&panel.measure, panel.title.as_deref());
    let across = Across::of(view, &panel.measure);
    let curves = curves(view, panel, &across);
    let empty = curves.iter().all(|curve| curve.dots.iter().all(|(_, dot)| dot.is_none()));
    let several = curves.iter().any(|curve| !curve.left_out.is_empty());
    html! {
        figure.panel {
            figcaption {
                b { "(" (words::letter(index)) ") " } (title)
                @if panel.log && !empty { span.aside { ", logarithmic" } }
                @if let Some(at) = across.drawn_at.filter(|_| several) {
                    span.aside { ", at " (load(at)) " capacity" }
                }
            }
            @if empty {
                p.empty { "No point has a number for " code { (panel.measure) } "." }
            } @else {
                (drawing(&across, &id, &title, panel, &curves))
                @if let Some(note) = gaps(&across, &curves, &panel.measure) { p.gaps { (note) } }
            }
        }
    }
}

fn curves<'a>(view: &View<'a>, panel: &Panel, across: &Across) -> Vec<Curve<'a>> {
    let dot = |(at, found): (f64, Option<Estimate>)| {
        (at, found.filter(|estimate| drawable(estimate.mean, panel.log)))
    };
    let drawn = view.drawn().into_iter();
    drawn
        .map(|(name, world)| {
            let series = view.series(name, world);
            Curve {
                name,
                shown: view.name(name, world),
                place: view.place(name),
                world,
                dots: across.dots(&series, &panel.measure).map(dot).collect(),
                left_out: across.left_out(&series, &panel.measure),
            }
        })
        .collect()
}

/// What is not drawn, said in words: a gap in a line is easily overlooked.
fn gaps(across: &Across, curves: &[Curve], measure: &str) -> Option<String> {
    let of = |curve: &Curve| {
        let lacking = curve.dots.iter().filter(|(_, dot)| dot.is_none());
        let lacking = lacking.map(|(at, _)| across.show(*at)).collect();
        let left_out = curve.left_out.iter().map(|at| load(*at)).collect();
        let told = |places: Vec<String>| {
            (!places.is_empty()).then(|| format!("{} at {}", curve.shown, places.join(", ")))
        };
        [left_out, lacking].into_iter().filter_map(told).collect::<Vec<_>>()
    };
    let all: Vec<String> = curves.iter().flat_map(of).collect();
    let why = if measure.starts_with("response_ms") { " (no reply)" } else { "" };
    (!all.is_empty()).then(|| format!("Not drawn{why}: {}.", all.join("; ")))
}

/// The drawing itself; it needs no script.
fn drawing(across: &Across, id: &str, title: &str, panel: &Panel, curves: &[Curve]) -> Markup {
    let unit = Unit::of(&panel.measure);
    let longest = curves.iter().map(|curve| cut(curve.name).chars().count()).max().unwrap_or(0);
    let right = WIDTH - (longest as f64 * LETTER + 16.0);
    let (x, y) = axes(&across.places, curves, panel.log);
    let (x, y) = (x.drawn(LEFT, right), y.drawn(BOTTOM, TOP));
    let columns: Vec<f64> = across.places.iter().map(|at| x.place(*at)).collect();
    let heads: Vec<String> = across.places.iter().map(|at| across.head(*at)).collect();
    let r = if across.places.len() > 15 { 2.6 } else { 3.6 };
    html! {
        div.plot tabindex="0" role="group" aria-label={ (title) ": values by arrow keys" } {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img"
                aria-labelledby={ (id) "-t " (id) "-d" }
                data-xs=(json(&columns)) data-heads=(json(&heads)) {
                title id={ (id) "-t" } { (title) }
                desc id={ (id) "-d" } { (description(across, curves, unit)) }
                (frame(across, &x, &y, right, unit))
                line.hair x1="0" x2="0" y1=(TOP) y2=(BOTTOM) {}
                @for curve in curves { (line(across, curve, &x, &y, unit, r)) }
                (labels(across, curves, &x, &y))
            }
        }
    }
}

fn axes(places: &[f64], curves: &[Curve], log: bool) -> (Axis, Axis) {
    let last = places.last().copied().unwrap_or(1.0);
    // One rate alone stands in the middle.
    let end = if places.len() == 1 { 2.0 * last } else { last };
    let x = Axis::linear(&[end], 6).cut_at(end);
    let found = || curves.iter().flat_map(|curve| curve.dots.iter().filter_map(|(_, dot)| *dot));
    let highest = found().map(|dot| dot.mean).fold(f64::MIN, f64::max);
    let mut numbers: Vec<f64> = found().map(|dot| dot.mean).collect();
    if log {
        return (x, Axis::logarithmic(&numbers));
    }
    // An interval may reach far: it may raise the axis a little, not flatten the curves.
    let tops = found().filter_map(|dot| Some(dot.mean + dot.half_width?));
    numbers.extend(tops.filter(|top| *top <= 1.25 * highest));
    (x, Axis::linear(&numbers, 5))
}

/// Grid, axes and their labels.
fn frame(across: &Across, x: &Axis, y: &Axis, right: f64, unit: Unit) -> Markup {
    html! {
        g.grid {
            @for tick in &y.ticks {
                line x1=(LEFT) x2=(right) y1=(y.place(*tick)) y2=(y.place(*tick)) {}
            }
        }
        g.axis {
            line x1=(LEFT) x2=(right) y1=(BOTTOM) y2=(BOTTOM) {}
            @for tick in &x.ticks {
                line x1=(x.place(*tick)) x2=(x.place(*tick)) y1=(BOTTOM) y2=(BOTTOM + 4.0) {}
            }
        }
        g.ticks {
            @for tick in &y.ticks {
                text x=(LEFT - 7.0) y=(y.place(*tick) + 4.0) text-anchor="end" { (unit.tick(*tick)) }
            }
            @for tick in &x.ticks {
                text x=(x.place(*tick)) y=(BOTTOM + 17.0) text-anchor="middle" {
                    (across.unit().tick(*tick))
                }
                @if let Some(capacity) = across.capacity && *tick != 0.0 {
                    text.second x=(x.place(*tick)) y=(BOTTOM + 31.0) text-anchor="middle" {
                        (bare(&Unit::PerSecond.round(tick * capacity)))
                    }
                }
            }
            text.title x=(right) y=(BOTTOM + 47.0) text-anchor="end" {
                (across.title())
                @if across.capacity.is_some() { tspan.second { " and requests/s" } }
            }
        }
    }
}

fn line(across: &Across, curve: &Curve, x: &Axis, y: &Axis, unit: Unit, r: f64) -> Markup {
    let mut path = String::new();
    let mut pen_down = false;
    for (at, dot) in &curve.dots {
        if let Some(dot) = dot {
            let to = if pen_down { 'L' } else { 'M' };
            path.push_str(&format!("{to}{} {}", x.place(*at), y.place(dot.mean)));
        }
        pen_down = dot.is_some();
    }
    // A simulated marker is a ring, with room for the live one inside.
    let r = if curve.world == World::Sim { r + 1.0 } else { r };
    let dots: Vec<(f64, Estimate)> =
        curve.dots.iter().filter_map(|(at, dot)| Some((*at, (*dot)?))).collect();
    html! {
        g class={ "curve " (colour(curve.place)) " " (world_class(curve.world)) }
            data-c=(curve.place) data-w=(world_class(curve.world)) data-name=(curve.shown) {
            path.stroke d=(path) {}
            @for (at, dot) in &dots {
                @if let Some(half) = dot.half_width {
                    path.interval d=(interval(x.place(*at), y, dot.mean, half)) {}
                }
            }
            @for (at, dot) in &dots {
                path.mark d=(marker(curve.place, x.place(*at), y.place(dot.mean), r))
                    data-y=(y.place(dot.mean)) data-v=(value(dot, unit))
                    data-k=[across.column(*at)] {}
            }
        }
    }
}

/// A line with a cap at either end; an end beyond the axis has none, for it is not where the line ends.
fn interval(x: f64, y: &Axis, mean: f64, half: f64) -> String {
    let ends = [mean + half, mean - half];
    let [top, bottom] = ends.map(|end| y.place(end));
    let (from, to) = (x - 2.5, x + 2.5);
    let cap = |end: f64| {
        let at = y.place(end);
        if y.has(end) { format!("M{from} {at}L{to} {at}") } else { String::new() }
    };
    format!("M{x} {top}L{x} {bottom}{}", ends.map(cap).concat())
}

/// Names at the ends of the lines, side by side where there is room; the legend has them all.
fn labels(across: &Across, curves: &[Curve], x: &Axis, y: &Axis) -> Markup {
    let last = across.places.last().copied().unwrap_or(0.0);
    let mut ends: Vec<(&Curve, f64)> = Vec::new();
    for curve in curves {
        // A curve that ends early has no place for its name, and one of both worlds is named once.
        if !ends.iter().any(|(other, _)| other.place == curve.place)
            && let Some((at, Some(dot))) = curve.dots.last()
            && across.is_same(*at, last)
        {
            ends.push((curve, y.place(dot.mean)));
        }
    }
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let places = spread(&ends.iter().map(|(_, y)| *y).collect::<Vec<_>>());
    let x = x.place(last);
    html! {
        g.labels aria-hidden="true" {
            @for ((curve, y), place) in ends.iter().zip(places) {
                @if let Some(place) = place {
                    g class=(colour(curve.place)) data-c=(curve.place) {
                        @if (place - y).abs() > 3.0 {
                            line.leader x1=(x + 6.0) y1=(y) x2=(x + 10.0) y2=(place) {}
                        }
                        text x=(x + 12.0) y=(place + 4.0) { (cut(curve.name)) }
                    }
                }
            }
        }
    }
}

/// Moves labels apart, and drops those that would stand too far from their line. `wished` rises.
fn spread(wished: &[f64]) -> Vec<Option<f64>> {
    // Labels that touch form a block, which stands in the middle of what its labels wish.
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    let half = |count: usize| count as f64 * LINE / 2.0;
    for y in wished {
        let mut block = (*y, 1);
        while let Some(&(middle, count)) = blocks.last()
            && middle + half(count) > block.0 - half(block.1)
        {
            blocks.pop();
            let total = (count + block.1) as f64;
            block = ((middle * count as f64 + block.0 * block.1 as f64) / total, count + block.1);
        }
        let room = half(block.1);
        block.0 = block.0.clamp(TOP - 4.0 + room, (BOTTOM + 4.0 - room).max(TOP - 4.0 + room));
        blocks.push(block);
    }
    let mut places = Vec::new();
    for (middle, count) in blocks {
        let first = middle - half(count) + LINE / 2.0;
        let block: Vec<f64> = (0..count).map(|index| first + index as f64 * LINE).collect();
        let own = &wished[places.len()..places.len() + count];
        let near = block.iter().zip(own).all(|(place, y)| (place - y).abs() <= NEAR);
        places.extend(block.into_iter().map(|place| near.then_some(place)));
    }
    places
}

fn value(dot: &Estimate, unit: Unit) -> String {
    let mut text = unit.show(dot.mean);
    if let Some(half) = dot.half_width {
        text.push_str(&format!(" ± {}", unit.show(half)));
    }
    text
}

/// The figure in words, for who cannot see it.
fn description(across: &Across, curves: &[Curve], unit: Unit) -> String {
    let of = |curve: &Curve| {
        let dots: Vec<(f64, f64)> =
            curve.dots.iter().filter_map(|(at, dot)| Some((*at, dot.as_ref()?.mean))).collect();
        let (first, last) = (dots.first()?, dots.last()?);
        let end =
            |(at, number): &(f64, f64)| format!("{} at {}", unit.show(*number), across.show(*at));
        if dots.len() == 1 {
            return Some(format!("{}: {}", curve.shown, end(first)));
        }
        Some(format!("{}: from {} to {}", curve.shown, end(first), end(last)))
    };
    let each = curves.iter().filter_map(of).collect::<Vec<_>>().join("; ");
    format!("Against {}. {each}.", across.name())
}

fn cut(name: &str) -> String {
    if name.chars().count() <= LABEL {
        return name.to_owned();
    }
    name.chars().take(LABEL - 1).chain(['…']).collect()
}

pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_that_touch_move_apart_and_lonely_ones_stay() {
        let places = spread(&[40.0, 100.0, 104.0]);
        assert_eq!(places, [Some(40.0), Some(95.0), Some(109.0)]);
    }

    #[test]
    fn an_interval_that_leaves_the_axis_is_open_there() {
        let y = Axis::linear(&[100.0], 5).drawn(200.0, 0.0);
        let of = |mean, half| interval(10.0, &y, mean, half);
        assert_eq!(of(50.0, 25.0), "M10 50L10 150M7.5 50L12.5 50M7.5 150L12.5 150");
        // An end of the axis is on it.
        assert_eq!(of(50.0, 50.0), "M10 0L10 200M7.5 0L12.5 0M7.5 200L12.5 200");
        assert_eq!(of(90.0, 20.0), "M10 0L10 60M7.5 60L12.5 60");
        assert_eq!(of(10.0, 20.0), "M10 140L10 200M7.5 140L12.5 140");
        assert_eq!(of(50.0, 60.0), "M10 0L10 200");
        // Below zero a logarithmic axis has nothing.
        let log = Axis::logarithmic(&[1.0, 100.0]).drawn(200.0, 0.0);
        assert_eq!(interval(10.0, &log, 10.0, 20.0), "M10 52.29L10 200M7.5 52.29L12.5 52.29");
    }

    #[test]
    fn labels_that_would_stray_are_left_to_the_legend() {
        let crowd = spread(&[100.0, 101.0, 102.0, 103.0, 104.0, 200.0]);
        assert_eq!(crowd[..5], [None; 5]);
        assert_eq!(crowd[5], Some(200.0));
        assert_eq!(spread(&[BOTTOM, BOTTOM, BOTTOM]).len(), 3);
    }
}
