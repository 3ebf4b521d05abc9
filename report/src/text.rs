// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run found, for a terminal.

use std::fmt;

use tidegate_scenarios::{Claim, Scenario};

use crate::claims::{bounds, found, shown};
use crate::judge::{Judgement, Verdict, judge_all, quotients};
use crate::number::{Unit, load};
use crate::point::{Point, World};
use crate::statistics::Cell;

/// One table of a scenario's points and a line for each claim; made for [`fmt::Display`].
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Its points, among others perhaps.
    pub points: &'a [Point],
}

const HEADINGS: [&str; 7] =
    ["curve", "offered", "replies", "mean response", "p99 response", "errors", "queue drops"];

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = Cell::gather(&self.scenario.name, self.points);
        let (title, source) = (one_line(&self.scenario.title), one_line(&self.scenario.source));
        let is_simulated = !cells.is_empty() && cells.iter().all(|cell| cell.world == World::Sim);
        writeln!(f, "{title} ({source}){}", if is_simulated { ", simulated" } else { "" })?;
        if cells.is_empty() {
            writeln!(f, "\n  no points yet")?;
        } else if self.scenario.factors.is_empty() {
            table(f, &cells)?;
        } else {
            writeln!(f, "\n  {} points; all of them are in the report", cells.len())?;
        }
        let judged = judge_all(self.scenario, self.points);
        if !judged.is_empty() {
            writeln!(f)?;
        }
        let worlds = judged.iter().any(|(_, judgement)| judgement.world != judged[0].1.world);
        judged.iter().try_for_each(|(claim, judgement)| {
            line(f, claim, judgement, worlds)?;
            self.beyond(f, claim, judgement)
        })
    }
}

impl Summary<'_> {
    /// Where there are factors, and a claim does not hold: in which combinations, and with which
    /// numbers there.
    fn beyond(
        &self,
        f: &mut fmt::Formatter<'_>,
        claim: &Claim,
        judgement: &Judgement,
    ) -> fmt::Result {
        if self.scenario.factors.is_empty() || judgement.verdict != Verdict::NotHeld {
            return Ok(());
        }
        for (combination, series) in quotients(self.scenario, claim, judgement.world, self.points) {
            let beyond = series.iter().filter(|(_, found)| !claim.holds(*found));
            let beyond: Vec<String> = beyond
                .map(|(at, found)| format!("{} at {}", shown(claim, *found), load(*at)))
                .collect();
            if !beyond.is_empty() {
                let name = one_line(&combination.levels.join(", "));
                writeln!(f, "    {:<14}  {name}: {}", "", beyond.join(", "))?;
            }
        }
        Ok(())
    }
}

fn table(f: &mut fmt::Formatter<'_>, cells: &[Cell]) -> fmt::Result {
    let worlds = cells.iter().any(|cell| cell.world != cells[0].world);
    let rows: Vec<[String; 7]> = cells.iter().map(|cell| row(cell, worlds)).collect();
    let width = |column: usize| {
        let widest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        widest.max(HEADINGS[column].chars().count())
    };
    let widths: [usize; 7] = std::array::from_fn(width);
    let print = |f: &mut fmt::Formatter<'_>, row: &[String; 7]| {
        write!(f, "  {:<1$}", row[0], widths[0])?;
        for (text, width) in row.iter().zip(widths).skip(1) {
            write!(f, "   {text:>width$}")?;
        }
        writeln!(f)
    };
    writeln!(f)?;
    print(f, &HEADINGS.map(str::to_owned))?;
    writeln!(f, "  {}", "─".repeat(widths.iter().sum::<usize>() + 3 * 6))?;
    let mut last: Option<&Cell> = None;
    for (cell, row) in cells.iter().zip(&rows) {
        let mut row = row.clone();
        if last.is_some_and(|last| last.curve == cell.curve && last.world == cell.world) {
            row[0].clear();
        }
        print(f, &row)?;
        last = Some(cell);
    }
    Ok(())
}

fn row(cell: &Cell, worlds: bool) -> [String; 7] {
    let number = |measure: &str| {
        cell.estimate(measure)
            .map_or_else(|| "–".to_owned(), |found| Unit::of(measure).show(found.mean))
    };
    let curve = one_line(cell.curve);
    let curve = match cell.world {
        World::Sim if worlds => format!("{curve} (sim)"),
        _ => curve,
    };
    [
        curve,
        load(cell.offered),
        number("replies_per_s"),
        number("response_ms.mean"),
        number("response_ms.p99"),
        number("errors_per_s"),
        number("queue_drops_per_s"),
    ]
}

fn line(
    f: &mut fmt::Formatter<'_>,
    claim: &Claim,
    judgement: &Judgement,
    worlds: bool,
) -> fmt::Result {
    let sign = match judgement.verdict {
        Verdict::Held => "✓",
        Verdict::NotHeld => "✗",
        Verdict::NotComparable => "○",
        Verdict::Undecided => "?",
    };
    let world = match judgement.world {
        _ if !worlds => "",
        World::Live => "live: ",
        World::Sim => "sim: ",
    };
    writeln!(f, "  {sign} {:<14}  {}", judgement.verdict.words(), one_line(&claim.says))?;
    let mut parts = vec![format!("{world}found {}", found(claim, judgement))];
    parts.extend(bounds(claim).map(|bounds| format!("holds {bounds}")));
    parts.extend(claim.paper.map(|paper| format!("paper {}", crate::claims::number(claim, paper))));
    writeln!(f, "    {:<14}  {}", "", parts.join(", "))?;
    if !judgement.reason.is_empty() {
        writeln!(f, "    {:<14}  {}", "", one_line(&judgement.reason))?;
    }
    Ok(())
}

/// Names come from files: no line breaks, nothing that a terminal would obey.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{point, scenario};

    #[test]
    fn a_run_reads_as_a_table_and_its_claims() {
        let scenario = scenario(
            "[[claim]]\nsays = \"abort answers more\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"\noffered = [1, 3]\nat_least = 1.1\npaper = 1.27",
        );
        let points = [
            point("default", 1.0),
            point("default", 3.0),
            Point { replies_per_s: 12_345.0, ..point("abort", 1.0) },
            Point { replies_per_s: 1080.0, ..point("abort", 3.0) },
        ];
        let text = Summary { scenario: &scenario, points: &points }.to_string();
        let right = "\
Overload (us)

  curve     offered    replies   mean response   p99 response   errors   queue drops
  ──────────────────────────────────────────────────────────────────────────────────
  default        1×      900/s         30.0 ms        60.0 ms    100/s         250/s
                 3×      900/s         30.0 ms        60.0 ms    100/s         250/s
  abort          1×   12.3 k/s         30.0 ms        60.0 ms    100/s         250/s
                 3×    1,080/s         30.0 ms        60.0 ms    100/s         250/s

  ✓ held            abort answers more
                    found 7.46, holds from 1.1 on, paper 1.27
";
        assert_eq!(text, right);
    }

    #[test]
    fn what_is_simulated_throughout_is_said_to_be() {
        let scenario = scenario("");
        let first = |worlds: &[World]| {
            let of = |world: &World| Point { world: *world, ..point("default", 1.0) };
            let points: Vec<Point> = worlds.iter().map(of).collect();
            let text = Summary { scenario: &scenario, points: &points }.to_string();
            text.lines().next().unwrap().to_owned()
        };
        assert_eq!(first(&[World::Sim]), "Overload (us), simulated");
        // Where there are two, each row says it.
        for worlds in [&[World::Live][..], &[World::Live, World::Sim], &[]] {
            assert_eq!(first(worlds), "Overload (us)");
        }
    }

    #[test]
    fn where_a_claim_does_not_hold_a_number_does_not_read_as_its_bound() {
        let scenario = scenario(
            "[[factor]]\nname = \"Server\"\nlevels = [{ name = \"quick\" }]
[[claim]]\nsays = \"x\"\nsource = \"us\"\ncurve = \"abort\"\nthan = \"default\"\nmeasure = \"replies_per_s\"
offered = [1, 4]\ntake = \"min\"\nat_least = 1",
        );
        let of = |curve: &str, offered, replies_per_s| Point {
            replies_per_s,
            ..point(&format!("{curve}, quick"), offered)
        };
        let each = |offered, abort| [of("default", offered, 1000.0), of("abort", offered, abort)];
        let points = [each(1.0, 1200.0), each(2.0, 997.0), each(4.0, 800.0)].concat();
        let text = Summary { scenario: &scenario, points: &points }.to_string();
        assert!(text.contains("quick: 1.00 (0.9970) at 2×, 0.80 at 4×"), "{text}");
    }

    #[test]
    fn names_cannot_write_to_the_terminal() {
        let scenario = scenario("");
        let text =
            Summary { scenario: &scenario, points: &[point("a\u{1b}[2J\nb", 1.0)] }.to_string();
        assert!(text.contains("a [2J b") && !text.contains('\u{1b}'), "{text}");
    }
}
