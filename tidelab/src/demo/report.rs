// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table, and how to read it.

use std::fmt;

use tidegate_crowd::Outcome;

use crate::quantity::{grouped, milliseconds, rounded, share};

/// Lateness of the crowd itself above which its response times deserve a warning, in ms.
const LATE_WARNING_MS: f64 = 20.0;

/// Everything measured.
pub(crate) struct Report {
    pub capacity_per_s: f64,
    pub capacity_clients: usize,
    pub cost_us: u64,
    pub backlog: u32,
    pub times: f64,
    pub duration_s: f64,
    pub timeout_s: f64,
    pub rows: Vec<Row>,
}

/// One mechanism, and what its clients saw, or why it could not run.
pub(crate) struct Row {
    pub mechanism: String,
    pub outcome: Result<Outcome, String>,
}

impl Report {
    /// Whether every mechanism ran.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.outcome.is_ok())
    }

    fn measured(&self) -> impl Iterator<Item = (&str, &Outcome)> {
        self.rows.iter().filter_map(|row| {
            let outcome = row.outcome.as_ref().ok()?;
            Some((row.mechanism.as_str(), outcome))
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nA server that can answer {} requests a second is offered {} a second, {} times that.",
            rounded(self.capacity_per_s),
            rounded(self.capacity_per_s * self.times),
            self.times,
        )?;
        writeln!(
            f,
            "({} µs of processor per request, listen queue {}; capacity from {} clients in a closed loop;\n \
             each row counts the clients of {} s, who wait at most {} s)\n",
            grouped(self.cost_us),
            self.backlog,
            self.capacity_clients,
            self.duration_s,
            self.timeout_s,
        )?;
        table(f, &self.rows)?;
        writeln!(f)?;
        for sentence in self.reading() {
            writeln!(f, "{sentence}")?;
        }
        for caution in self.measured().flat_map(cautions) {
            writeln!(f, "Caution: {caution}")?;
        }
        Ok(())
    }
}

const HEADINGS: [&str; 6] = [
    "mechanism",
    "replies/s",
    "mean response",
    "p99 response",
    "refused, and when",
    "left hanging",
];

fn table(f: &mut fmt::Formatter<'_>, rows: &[Row]) -> fmt::Result {
    let name_width = rows
        .iter()
        .map(|row| row.mechanism.chars().count())
        .chain([HEADINGS[0].len()])
        .max()
        .unwrap_or(0);
    write!(f, "  {:<name_width$}", HEADINGS[0])?;
    for heading in &HEADINGS[1..] {
        write!(f, "   {heading}")?;
    }
    writeln!(f)?;
    let width = HEADINGS[1..].iter().map(|h| h.len() + 3).sum::<usize>() + name_width;
    writeln!(f, "  {}", "─".repeat(width))?;
    for row in rows {
        write!(f, "  {:<name_width$}", row.mechanism)?;
        match &row.outcome {
            Err(reason) => writeln!(f, "   could not run: {reason}")?,
            Ok(outcome) => {
                for (heading, cell) in HEADINGS[1..].iter().zip(cells(outcome)) {
                    write!(f, "   {cell:>width$}", width = heading.len())?;
                }
                writeln!(f)?;
            }
        }
    }
    Ok(())
}

fn cells(outcome: &Outcome) -> [String; 5] {
    let time = |ms| {
        if outcome.replies == 0 { "–".to_owned() } else { milliseconds(ms) }
    };
    let turned_away = outcome.errors.turned_away();
    let mut refused = share(turned_away, outcome.attempts);
    if turned_away > 0 {
        // A refusal is worth something when it comes at once: a share alone would hide a late one.
        refused.push_str(&format!(" in {}", milliseconds(outcome.refusal_ms.p50)));
    }
    [
        rounded(outcome.replies_per_s),
        time(outcome.response_ms.mean),
        time(outcome.response_ms.p99),
        refused,
        share(outcome.errors.timed_out(), outcome.attempts),
    ]
}

impl Report {
    /// What the figures say, in sentences.
    fn reading(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        let default = self.measured().find(|(name, _)| *name == super::DEFAULT);
        if let Some((_, outcome)) = default {
            sentences.push(self.alone(outcome));
        }
        for (mechanism, outcome) in self.measured() {
            if mechanism != super::DEFAULT {
                let baseline = default.map(|(_, outcome)| outcome);
                sentences.push(guarded(mechanism, outcome, baseline));
            }
        }
        sentences
    }

    fn alone(&self, outcome: &Outcome) -> String {
        let hanging = match outcome.errors.timed_out() {
            0 => "left no one hanging".to_owned(),
            count => format!(
                "left {} of its clients hanging until they gave up after {} s",
                share(count, outcome.attempts),
                self.timeout_s
            ),
        };
        let served = if outcome.replies == 0 {
            "answered no one".to_owned()
        } else {
            format!(
                "made those it answered wait {} on average",
                milliseconds(outcome.response_ms.mean)
            )
        };
        format!("Left to itself, the kernel {served} and {hanging}.")
    }
}

fn guarded(mechanism: &str, outcome: &Outcome, default: Option<&Outcome>) -> String {
    let mut parts = Vec::new();
    if outcome.replies == 0 {
        parts.push("no one was answered".to_owned());
    } else if let Some(default) = default.filter(|default| default.replies > 0) {
        let served = outcome.replies_per_s / default.replies_per_s.max(f64::MIN_POSITIVE);
        parts.push(format!("{} were answered", as_many(served)));
        parts.push(sooner(default.response_ms.mean / outcome.response_ms.mean));
    } else {
        parts.push(format!(
            "clients were answered in {} on average",
            milliseconds(outcome.response_ms.mean)
        ));
    }
    parts.push(match outcome.errors.timed_out() {
        0 => "no one was left hanging".to_owned(),
        count => format!("{} were left hanging", share(count, outcome.attempts)),
    });
    let mut sentence = format!("With `{mechanism}`, {}", parts.join(", "));
    let turned_away = outcome.errors.turned_away();
    if turned_away > 0 {
        sentence.push_str(&format!(
            "; half of those refused knew within {}, nearly all (p99) within {}",
            milliseconds(outcome.refusal_ms.p50),
            milliseconds(outcome.refusal_ms.p99)
        ));
    }
    sentence.push('.');
    sentence
}

/// A ratio of throughputs. On noisy processors a difference of 3 % is none.
fn as_many(ratio: f64) -> String {
    let percent = ((ratio - 1.0) * 100.0).round();
    if percent.abs() < 3.0 {
        "as many".to_owned()
    } else if percent > 0.0 {
        format!("{percent} % more")
    } else {
        format!("{} % fewer", -percent)
    }
}

/// A ratio of response times.
fn sooner(ratio: f64) -> String {
    let times = |ratio: f64| {
        if ratio >= 9.95 { format!("{ratio:.0}") } else { format!("{ratio:.1}") }
    };
    if (0.95..1.05).contains(&ratio) {
        "as fast".to_owned()
    } else if ratio > 1.0 {
        format!("{} times sooner", times(ratio))
    } else {
        format!("{} times later", times(1.0 / ratio))
    }
}

/// What a reader should know before trusting a row.
fn cautions((mechanism, outcome): (&str, &Outcome)) -> Vec<String> {
    let mut cautions = Vec::new();
    let errors = &outcome.errors;
    let told = outcome.replies + errors.turned_away() + errors.timed_out();
    let otherwise = outcome.attempts - told;
    if otherwise > 0 {
        let kinds = [
            ("closed early", errors.closed_early),
            ("HTTP errors", errors.http_error),
            ("no HTTP", errors.nonsense),
            ("never started", errors.not_started),
        ];
        let named = kinds.into_iter().filter(|(_, count)| *count > 0);
        let by_errno = errors.other.iter().map(|(name, count)| (name.as_str(), *count));
        let list: Vec<String> = named
            .chain(by_errno)
            .map(|(name, count)| format!("{name} {}", grouped(count)))
            .collect();
        cautions.push(format!(
            "under `{mechanism}`, {} of {} attempts ended in another way ({}).",
            grouped(otherwise),
            grouped(outcome.attempts),
            list.join(", ")
        ));
    }
    if outcome.late_starts.p99_ms > LATE_WARNING_MS {
        cautions.push(format!(
            "under `{mechanism}`, the crowd itself was late (p99 {}), which its response times include.",
            milliseconds(outcome.late_starts.p99_ms)
        ));
    }
    cautions
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_crowd::{Errors, Times};

    fn outcome(replies_per_s: f64, mean: f64, refused: u64, hanging: u64) -> Outcome {
        let replies = (replies_per_s * 8.0) as u64;
        Outcome {
            attempts: replies + refused + hanging,
            replies,
            replies_per_s,
            response_ms: Times { mean, p99: mean * 2.0, ..Times::default() },
            errors: Errors { refused, timed_out_connecting: hanging, ..Errors::default() },
            ..Outcome::default()
        }
    }

    fn report(rows: Vec<(&str, Result<Outcome, String>)>) -> Report {
        Report {
            capacity_per_s: 950.0,
            capacity_clients: 32,
            cost_us: 1000,
            backlog: 128,
            times: 3.0,
            duration_s: 8.0,
            timeout_s: 4.0,
            rows: rows
                .into_iter()
                .map(|(mechanism, outcome)| Row { mechanism: mechanism.to_owned(), outcome })
                .collect(),
        }
    }

    #[test]
    fn the_reading_follows_the_figures() {
        let text = report(vec![
            ("default", Ok(outcome(940.0, 1200.0, 0, 14_000))),
            ("abort rst-syn", Ok(outcome(945.0, 120.0, 15_000, 0))),
            ("worse", Ok(outcome(470.0, 2400.0, 0, 100))),
        ])
        .to_string();
        assert!(text.contains("10 times sooner"), "{text}");
        assert!(text.contains("as many were answered"), "{text}");
        assert!(text.contains("no one was left hanging"), "{text}");
        assert!(text.contains("50 % fewer"), "{text}");
        assert!(text.contains("2.0 times later"), "{text}");
        assert!(!text.contains("Caution"), "{text}");
    }

    #[test]
    fn columns_line_up_and_a_failure_says_why() {
        let broken = report(vec![
            ("default", Ok(outcome(940.0, 1200.0, 0, 14_000))),
            ("no-syn-drop", Err("no BPF".to_owned())),
        ]);
        assert!(!broken.is_complete());
        let text = broken.to_string();
        assert!(text.contains("no-syn-drop   could not run: no BPF"), "{text}");
        let line = |start: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(start));
            line.unwrap().chars().count()
        };
        assert_eq!(line("mechanism"), line("default"));
        assert_eq!(line("mechanism"), line("─"));
    }

    #[test]
    fn nothing_is_hidden() {
        let mut odd = outcome(900.0, 10.0, 0, 0);
        odd.attempts += 5;
        odd.errors.other.insert("EADDRNOTAVAIL".to_owned(), 5);
        odd.late_starts.p99_ms = 50.0;
        let text = report(vec![("default", Ok(odd))]).to_string();
        assert!(text.contains("EADDRNOTAVAIL 5"), "{text}");
        assert!(text.contains("the crowd itself was late"), "{text}");
    }
}
