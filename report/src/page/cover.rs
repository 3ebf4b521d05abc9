// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The top of the page: all claims in one line, and where to find what.

use maud::{Markup, html};

use super::claims::look;
use super::study::View;
use crate::judge::Verdict;

const VERDICTS: [Verdict; 4] =
    [Verdict::Held, Verdict::NotHeld, Verdict::NotComparable, Verdict::Undecided];

/// How many claims came to which verdict.
fn count(views: &[&View], verdict: Verdict) -> usize {
    views.iter().flat_map(|view| &view.judged).filter(|(_, j)| j.verdict == verdict).count()
}

/// Title, summary, table of contents.
pub(super) fn cover(views: &[View]) -> Markup {
    let all: Vec<&View> = views.iter().collect();
    html! {
        header.cover {
            h1 { "Tidegate results" }
            p.summary { (summary(&all)) }
            @if views.len() > 1 {
                nav aria-label="Scenarios" { (contents(views)) }
            }
        }
    }
}

fn summary(views: &[&View]) -> Markup {
    let claims: usize = views.iter().map(|view| view.judged.len()).sum();
    html! {
        @if views.is_empty() {
            "No results were given."
        } @else if claims == 0 {
            "These scenarios make no claims."
        } @else {
            "Of " (claims) @if claims == 1 { " claim" } @else { " claims" }
            @if views.iter().any(|view| view.worlds.len() > 1) { " (one for each world)" }
            ": "
            @for verdict in VERDICTS {
                @let number = count(views, verdict);
                @if number > 0 {
                    span class={ "tally " (look(verdict).0) } {
                        span aria-hidden="true" { (look(verdict).1) } (number) " " (verdict.words())
                    }
                }
            }
        }
    }
}

fn contents(views: &[View]) -> Markup {
    html! {
        div.scroll {
            table.contents {
                thead {
                    tr {
                        th scope="col" { "Scenario" }
                        th scope="col" { "Source" }
                        @for verdict in VERDICTS { th.number scope="col" { (verdict.words()) } }
                    }
                }
                tbody {
                    @for view in views {
                        tr {
                            th scope="row" { a href={ "#" (view.id) } { (view.scenario.title) } }
                            td { (view.scenario.source) }
                            @for verdict in VERDICTS {
                                @let number = count(&[view], verdict);
                                td.number {
                                    @if number > 0 {
                                        span class={ "tally " (look(verdict).0) } {
                                            span aria-hidden="true" { (look(verdict).1) } (number)
                                        }
                                    } @else { "–" }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
