// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's claims beside what was found.

use maud::{Markup, html};

use super::study::View;
use crate::claims::{bounds, found, number, recipe};
use crate::judge::{Judgement, Verdict};

/// The claims of one scenario.
pub(super) fn claims(view: &View) -> Markup {
    let two_worlds = view.worlds.len() > 1;
    html! {
        @if !view.judged.is_empty() {
            div.table-block {
                table.claims {
                    caption { "What it should show" }
                    thead {
                        tr {
                            th scope="col" { "Verdict" }
                            th scope="col" { "Claim" }
                            th.number scope="col" { "Found" }
                            th.number scope="col" { "Holds" }
                            th.number scope="col" { "Paper" }
                        }
                    }
                    tbody {
                        @for (claim, judgement) in &view.judged {
                            tr {
                                td {
                                    (badge(judgement.verdict))
                                    @if two_worlds { span.world { (judgement.world.name()) } }
                                }
                                td {
                                    p.says { (claim.says) }
                                    p.recipe { span.where { (claim.source) } " · " (recipe(claim)) }
                                    (reason(judgement))
                                }
                                td.number data-label="found" {
                                    strong { (found(claim, judgement)) }
                                }
                                td.number data-label="holds" {
                                    (bounds(claim).unwrap_or_else(|| "–".to_owned()))
                                }
                                td.number data-label="paper" {
                                    (claim.paper.map_or_else(|| "–".to_owned(), |p| number(claim, p)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn reason(judgement: &Judgement) -> Markup {
    html! {
        @if !judgement.reason.is_empty() {
            p.reason {
                (judgement.reason)
                @if judgement.verdict == Verdict::Undecided && judgement.number.is_some() {
                    " (the number is of the points that are there)"
                }
                "."
            }
        }
    }
}

/// A verdict by sign, word and colour.
pub(super) fn badge(verdict: Verdict) -> Markup {
    let (class, sign) = look(verdict);
    html! { span class={ "badge " (class) } { span aria-hidden="true" { (sign) } (verdict.words()) } }
}

/// A verdict's class and sign.
pub(super) fn look(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Held => ("held", "✓"),
        Verdict::NotHeld => ("not-held", "✗"),
        Verdict::NotComparable => ("not-comparable", "○"),
        Verdict::Undecided => ("undecided", "?"),
    }
}
