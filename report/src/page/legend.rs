// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Colours, markers and the legend: a curve looks the same in every figure of its scenario.

use maud::{Markup, html};

use super::study::View;
use crate::point::World;

/// Colours in `style.css`: the first, for the baseline, is that of ink.
const COLOURS: usize = 8;
const MARKERS: usize = 8;

/// The class of a curve's colour.
pub(super) fn colour(place: usize) -> String {
    format!("k{}", place % COLOURS)
}

/// The class of a world's lines.
pub(super) fn world_class(world: World) -> &'static str {
    match world {
        World::Live => "live",
        World::Sim => "sim",
    }
}

/// A curve's marker as a path around a point; with the colour it is one of 64.
pub(super) fn marker(place: usize, x: f64, y: f64, r: f64) -> String {
    let polygon = |corners: &[(f64, f64)]| {
        let mut path = String::new();
        for (index, (dx, dy)) in corners.iter().enumerate() {
            let to = if index == 0 { 'M' } else { 'L' };
            path.push_str(&format!("{to}{:.2} {:.2}", x + dx * r, y + dy * r));
        }
        path + "Z"
    };
    match (place + place / COLOURS) % MARKERS {
        0 => format!(
            "M{:.2} {y:.2}a{r:.2} {r:.2} 0 1 0 {d:.2} 0a{r:.2} {r:.2} 0 1 0 -{d:.2} 0Z",
            x - r,
            d = 2.0 * r
        ),
        1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => polygon(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        3 => polygon(&[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)]),
        4 => polygon(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        5 => polygon(&star(4)),
        6 => polygon(&[
            (-1.1, 0.0),
            (-0.55, -1.0),
            (0.55, -1.0),
            (1.1, 0.0),
            (0.55, 1.0),
            (-0.55, 1.0),
        ]),
        _ => polygon(&star(5)),
    }
}

fn star(points: u32) -> Vec<(f64, f64)> {
    (0..2 * points)
        .map(|corner| {
            let angle = std::f64::consts::PI * f64::from(corner) / f64::from(points);
            let radius = if corner % 2 == 0 { 1.45 } else { 0.6 };
            (radius * angle.sin(), -radius * angle.cos())
        })
        .collect()
}

/// A curve's line and marker in small.
fn key(view: &View, place: usize, world: World) -> Markup {
    html! {
        svg class={ "key " (colour(place)) " " (world_class(world)) } data-c=(place)
            id={ (view.id) "-k" (place) } viewBox="0 0 30 14" width="30" height="14"
            aria-hidden="true" {
            line class="stroke" x1="1" y1="7" x2="29" y2="7" {}
            path class="mark" d=(marker(place, 15.0, 7.0, 4.0)) {}
        }
    }
}

/// The legend of a scenario; each entry shows or hides its curve in every figure.
pub(super) fn legend(view: &View) -> Markup {
    let world = *view.worlds.first().unwrap_or(&World::Live);
    let drawn = view.drawn();
    let has_points = |curve: &str| drawn.iter().any(|(known, _)| *known == curve);
    html! {
        div.legend role="group" aria-label="Legend: each entry shows or hides a curve" {
            @for (place, curve) in view.curves.iter().enumerate() {
                @if has_points(curve) {
                    button type="button" aria-pressed="true" data-toggle="c" data-c=(place) {
                        (key(view, place, world)) span { (curve) }
                    }
                }
            }
            @if view.worlds.len() > 1 {
                span.worlds {
                    @for world in &view.worlds {
                        button type="button" aria-pressed="true" data-toggle="w"
                            data-w=(world_class(*world)) {
                            svg class={ "key k0 " (world_class(*world)) } viewBox="0 0 30 14"
                                width="30" height="14" aria-hidden="true" {
                                line class="stroke" x1="1" y1="7" x2="29" y2="7" {}
                                path class="mark" d=(marker(0, 15.0, 7.0, 3.5)) {}
                            }
                            span { (world.name()) }
                        }
                    }
                }
            }
        }
    }
}
