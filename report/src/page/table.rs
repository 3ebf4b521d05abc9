// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables: a row for each curve at each rate.

use maud::{Markup, html};
use tidegate_scenarios::{Column, Table};

use super::legend::colour;
use super::study::View;
use super::words;
use crate::number::{Unit, load};
use crate::statistics::Cell;

/// A table that the scenario asks for.
pub(super) fn table(view: &View, table: &Table) -> Markup {
    html! {
        div.table-block { (grid(view, &table.title, &table.columns, true)) }
    }
}

/// Every number that the figures are drawn from, but for those over time, of which a point has one a second.
pub(super) fn numbers(view: &View) -> Markup {
    let panels = view.scenario.panels.iter();
    let panels =
        panels.filter(|panel| !panel.measure.starts_with("seconds.")).map(|panel| Column {
            name: panel.title.clone().unwrap_or_else(|| words::name(&panel.measure)),
            measure: panel.measure.clone(),
            over: None,
        });
    let columns: Vec<Column> = panels.collect();
    html! {
        @if !columns.is_empty() {
            details {
                summary { "The figures' numbers" }
                (grid(view, "", &columns, false))
            }
        }
    }
}

fn grid(view: &View, title: &str, columns: &[Column], captioned: bool) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label=[captioned.then_some(title)] {
            table {
                @if captioned { caption { (title) } }
                thead {
                    tr {
                        th scope="col" { "Curve" }
                        th.number scope="col" { "Offered" }
                        @for column in columns { th.number scope="col" { (column.name) } }
                    }
                }
                @for (curve, world) in view.drawn() {
                    @let cells = view.series(curve, world);
                    tbody {
                        @for (index, cell) in cells.iter().enumerate() {
                            tr {
                                @if index == 0 {
                                    th scope="rowgroup" rowspan=(cells.len())
                                        class=(colour(view.place(curve))) {
                                        (view.name(curve, world))
                                    }
                                }
                                td.number { (load(cell.offered)) }
                                @for column in columns { td.number { (entry(cell, column)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn entry(cell: &Cell, column: &Column) -> String {
    let (found, unit) = match &column.over {
        Some(over) => (cell.quotient(&column.measure, over), Unit::Ratio),
        None => (cell.estimate(&column.measure), Unit::of(&column.measure)),
    };
    found.map_or_else(|| "–".to_owned(), |found| unit.show(found.mean))
}
