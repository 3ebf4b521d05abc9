// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorded trace: when clients came, once.

use std::sync::Arc;

/// No trace is longer: 30 years, in s.
const LONGEST_S: f64 = 1e9;

/// When clients came, in ns since the trace began, never falling. Copies share their memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    times_ns: Arc<[u64]>,
}

/// A trace that is no list of times.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// A line that is no time.
    #[error("line {line} of the trace, `{given}`, is no time: give seconds, such as 12.25")]
    NoTime {
        /// Counted from 1.
        line: usize,
        /// What stood there.
        given: String,
    },
    /// Times that go backwards.
    #[error("line {line} of the trace is earlier than the line before it: sort the trace")]
    Unsorted {
        /// Counted from 1.
        line: usize,
    },
    /// No times at all.
    #[error("the trace has no times: give seconds since its beginning, one a line")]
    Empty,
}

impl Trace {
    /// Reads seconds since the trace's beginning, one a line, sorted; empty lines and lines that
    /// begin with `#` are skipped, and a byte order mark before the first.
    ///
    /// # Errors
    /// [`TraceError`], which names the line.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut times_ns = Vec::new();
        for (index, given) in text.lines().map(str::trim).enumerate() {
            if given.is_empty() || given.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let at_s = given.parse::<f64>().ok().filter(|at_s| (0.0..LONGEST_S).contains(at_s));
            let at_s = at_s.ok_or_else(|| TraceError::NoTime { line, given: given.to_owned() })?;
            let at_ns = (at_s * 1e9).round() as u64;
            if times_ns.last().is_some_and(|before| *before > at_ns) {
                return Err(TraceError::Unsorted { line });
            }
            times_ns.push(at_ns);
        }
        if times_ns.is_empty() {
            return Err(TraceError::Empty);
        }
        Ok(Self { times_ns: times_ns.into() })
    }

    /// All times, in ns; at least one.
    #[must_use]
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// When the last client came, in ns.
    #[must_use]
    pub fn last_ns(&self) -> u64 {
        self.times_ns.last().copied().unwrap_or(0)
    }

    /// The mean rate per second between the first client and the last; `None` when all came at
    /// one time.
    #[must_use]
    pub fn per_s(&self) -> Option<f64> {
        let span_ns = self.last_ns() - self.times_ns[0];
        (span_ns > 0).then(|| (self.times_ns.len() - 1) as f64 / (span_ns as f64 / 1e9))
    }

    /// The most clients that came within any time of this length, in ns.
    #[must_use]
    pub fn most_within(&self, span_ns: u64) -> usize {
        let (mut most, mut from) = (0, 0);
        for (to, at_ns) in self.times_ns.iter().enumerate() {
            while at_ns - self.times_ns[from] > span_ns {
                from += 1;
            }
            most = most.max(to - from + 1);
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        let refused = |text| Trace::parse(text).unwrap_err().to_string();
        assert!(refused("0\nsoon").contains("line 2 of the trace, `soon`"));
        assert!(refused("-1").contains("line 1"));
        assert!(refused("# t\n\nNaN").contains("line 3"));
        assert!(refused("2\n1").contains("line 2 of the trace is earlier"));
        assert!(refused("# nothing\n").contains("no times"));
    }

    /// As spreadsheets save it ("CSV UTF-8").
    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_time() {
        assert_eq!(Trace::parse("\u{feff}1\r\n2\r\n"), Trace::parse("1\n2"));
        assert!(Trace::parse("1\n\u{feff}2").is_err());
    }

    #[test]
    fn a_trace_has_a_rate_and_a_crowded_moment() {
        let trace = Trace::parse("# t\n1\n1.5\n\n 1.5\n2.5\n5\n").unwrap();
        assert_eq!(trace.last_ns(), 5_000_000_000);
        assert_eq!(trace.per_s(), Some(1.0));
        assert_eq!(trace.most_within(0), 2);
        assert_eq!(trace.most_within(1_500_000_000), 4);
        assert_eq!(trace.most_within(u64::MAX), 5);
        assert_eq!(Trace::parse("3\n3").unwrap().per_s(), None);
    }
}
