// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table, and how to read it.

use std::fmt;

use tidegate_report::{Point, grouped, milliseconds};
use tidegate_scenarios::{PLOTTED_ERRORS, TIMED_OUT, TURNED_AWAY};

use crate::quantity::{rounded, share};

/// Everything measured.
pub(crate) struct Report {
    pub capacity_per_s: f64,
    pub cost_us: u64,
    pub backlog: u32,
    pub times: f64,
    pub warm_up_s: f64,
    pub duration_s: f64,
    pub timeout_s: f64,
    pub rows: Vec<Row>,
}

/// One mechanism, and what its clients saw, or why it could not run.
pub(crate) struct Row {
    pub mechanism: String,
    pub point: Result<Point, String>,
}

impl Report {
    /// Whether every mechanism ran.
    pub(crate) fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.point.is_ok())
    }

    fn measured(&self) -> impl Iterator<Item = (&str, &Point)> {
        self.rows.iter().filter_map(|row| {
            let outcome = row.point.as_ref().ok()?;
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
            "({} µs of processor per request, listen queue {}; capacity from a closed loop of clients;\n \
             each row counts the clients of {} s, after {} s of the same; they wait at most {} s)\n",
            grouped(self.cost_us as f64),
            self.backlog,
            self.duration_s,
            self.warm_up_s,
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

/// Of those who came in the time that counts; replies are of those who were answered in it. Either may
/// be none without the other.
const MEAN_RESPONSE: &str = "response_ms.mean";

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
        match &row.point {
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

fn cells(outcome: &Point) -> [String; 5] {
    let time = |path: &str| outcome.measure(path).map_or_else(|| "–".to_owned(), milliseconds);
    let turned_away = turned_away(outcome);
    let mut refused = share(turned_away, outcome.attempts);
    if turned_away > 0 {
        // A refusal is worth something when it comes at once: a share alone would hide a late one.
        refused.push_str(&format!(" in {}", milliseconds(outcome.refusal_ms.p50)));
    }
    [
        rounded(outcome.replies_per_s),
        time(MEAN_RESPONSE),
        time("response_ms.p99"),
        refused,
        share(timed_out(outcome), outcome.attempts),
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

    fn alone(&self, outcome: &Point) -> String {
        let hanging = match timed_out(outcome) {
            0 => "left no one hanging".to_owned(),
            count => format!(
                "left {} of its clients hanging until they gave up after {} s",
                share(count, outcome.attempts),
                self.timeout_s
            ),
        };
        let served = match outcome.measure(MEAN_RESPONSE) {
            _ if outcome.replies_per_s == 0.0 => "answered no one and ".to_owned(),
            Some(ms) => {
                format!("made those it answered wait {} on average and ", milliseconds(ms))
            }
            None => String::new(),
        };
        format!("Left to itself, the kernel {served}{hanging}.")
    }
}

fn guarded(mechanism: &str, outcome: &Point, default: Option<&Point>) -> String {
    let mut parts = Vec::new();
    let mean_ms = outcome.measure(MEAN_RESPONSE);
    if outcome.replies_per_s == 0.0 {
        parts.push("no one was answered".to_owned());
    } else if let Some(default) = default.filter(|default| default.replies_per_s > 0.0) {
        let served = outcome.replies_per_s / default.replies_per_s.max(f64::MIN_POSITIVE);
        parts.push(format!("{} were answered", as_many(served)));
        let times = default.measure(MEAN_RESPONSE).zip(mean_ms);
        parts.extend(times.map(|(default_ms, ms)| sooner(default_ms / ms)));
    } else {
        let told = |ms| format!("clients were answered in {} on average", milliseconds(ms));
        parts.extend(mean_ms.map(told));
    }
    parts.push(match timed_out(outcome) {
        0 => "no one was left hanging".to_owned(),
        count => format!("{} were left hanging", share(count, outcome.attempts)),
    });
    let mut sentence = format!("With `{mechanism}`, {}", parts.join(", "));
    let turned_away = turned_away(outcome);
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
    if (0.97..=1.03).contains(&ratio) {
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
fn cautions((mechanism, point): (&str, &Point)) -> Vec<String> {
    let mut cautions: Vec<String> =
        point.warnings.iter().map(|warning| format!("under `{mechanism}`, {warning}.")).collect();
    let others: Vec<String> = point
        .errors_per_s
        .iter()
        .filter(|(kind, rate)| {
            **rate > 0.0 && !PLOTTED_ERRORS.iter().any(|(known, _)| known == kind)
        })
        .map(|(kind, _)| format!("{kind} {}", grouped(count(point, &[kind]) as f64)))
        .collect();
    if !others.is_empty() {
        cautions.push(format!(
            "under `{mechanism}`, some of {} attempts ended in another way ({}).",
            grouped(point.attempts as f64),
            others.join(", ")
        ));
    }
    cautions
}

fn turned_away(point: &Point) -> u64 {
    count(point, &TURNED_AWAY.map(|(kind, _)| kind))
}

fn timed_out(point: &Point) -> u64 {
    count(point, &TIMED_OUT.map(|(kind, _)| kind))
}

fn count(point: &Point, kinds: &[&str]) -> u64 {
    let rates = kinds.iter().filter_map(|kind| point.errors_per_s.get(*kind));
    (rates.sum::<f64>() * point.duration_s).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_report::{Times, World};

    fn outcome(replies_per_s: f64, mean: f64, refused: u64, hanging: u64) -> Point {
        let rate = |count: u64| count as f64 / 8.0;
        Point {
            scenario: "demo".to_owned(),
            world: World::Live,
            curve: "a mechanism".to_owned(),
            mechanism: "a mechanism".to_owned(),
            server: "userver".to_owned(),
            clients: "linux".to_owned(),
            tcp: None,
            capacity_per_s: 950.0,
            offered_per_s: 2850.0,
            offered_over_capacity: 3.0,
            attempts: (replies_per_s * 8.0) as u64 + refused + hanging,
            replies_per_s,
            replies_per_s_ci95: None,
            response_ms: Times { mean, p99: mean * 2.0, ..Times::default() },
            refusal_ms: Times::default(),
            delay_ms: Times::default(),
            errors_per_s: [("refused", rate(refused)), ("timeout", rate(hanging))]
                .map(|(kind, rate)| (kind.to_owned(), rate))
                .into(),
            answered_within_per_s: Default::default(),
            queue_drops_per_s: Default::default(),
            verdicts_per_s: Default::default(),
            syns_per_attempt: Default::default(),
            segments: Default::default(),
            cpu: Default::default(),
            cpu_components: Default::default(),
            cpu_calls: Default::default(),
            visits: Default::default(),
            networks: Default::default(),
            serving: Default::default(),
            time_wait: Default::default(),
            seconds: Default::default(),
            kernel: Default::default(),
            kernel_s: None,
            late_p99_ms: 0.0,
            warnings: Vec::new(),
            duration_s: 8.0,
            seed: 1,
        }
    }

    fn report(rows: Vec<(&str, Result<Point, String>)>) -> Report {
        Report {
            capacity_per_s: 950.0,
            cost_us: 1000,
            backlog: 128,
            times: 3.0,
            warm_up_s: 10.0,
            duration_s: 8.0,
            timeout_s: 4.0,
            rows: rows
                .into_iter()
                .map(|(mechanism, point)| Row { mechanism: mechanism.to_owned(), point })
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

    /// Who came before the time that counts may be all who are answered in it.
    #[test]
    fn of_replies_without_a_response_time_none_is_told() {
        let of = |mechanism: &str, default_ms, ms| {
            let default = ("default", Ok(outcome(940.0, default_ms, 0, 14_000)));
            report(vec![default, (mechanism, Ok(outcome(945.0, ms, 0, 15_000)))]).to_string()
        };
        let text = of("abort", 0.0, 0.0);
        let row = text.lines().find(|line| line.trim_start().starts_with("default")).unwrap();
        assert_eq!(row.split_whitespace().collect::<Vec<_>>()[1..4], ["940", "–", "–"]);
        assert!(text.contains("the kernel left 65.1 % of its clients hanging"), "{text}");
        assert!(text.contains("With `abort`, as many were answered, 66.5 % were left"), "{text}");
        for (default_ms, ms) in [(1200.0, 0.0), (0.0, 1200.0)] {
            let text = of("abort", default_ms, ms);
            for nonsense in ["inf", "NaN", " 0 ms", " 0.0 times", "sooner", "later"] {
                assert!(!text.contains(nonsense), "{nonsense}: {text}");
            }
        }
        let alone = report(vec![("abort", Ok(outcome(945.0, 0.0, 0, 0)))]).to_string();
        assert!(alone.contains("With `abort`, no one was left hanging."), "{alone}");
    }

    #[test]
    fn a_difference_of_three_per_cent_is_none() {
        assert_eq!([0.97, 0.974, 1.0, 1.026, 1.03].map(as_many), ["as many"; 5]);
        assert_eq!([1.031, 1.034].map(as_many), ["3 % more"; 2]);
        assert_eq!([0.969, 0.9].map(as_many), ["3 % fewer", "10 % fewer"]);
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
        odd.attempts += 8;
        odd.errors_per_s.insert("EADDRNOTAVAIL".to_owned(), 1.0);
        odd.warnings.push("the crowd was late".to_owned());
        let text = report(vec![("default", Ok(odd))]).to_string();
        assert!(text.contains("EADDRNOTAVAIL 8"), "{text}");
        assert!(text.contains("the crowd was late"), "{text}");
    }
}
