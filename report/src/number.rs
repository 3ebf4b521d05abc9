// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as people read them: `1,498 ms`, `0.08 ms`, `12.3 k/s`, the same everywhere.

use std::fmt::Write;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Something per second.
    PerSecond,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
    /// A share of a whole, from 0 to 1, shown in percent.
    Share,
    /// A count.
    Count,
    /// Bytes of memory.
    Bytes,
    /// A quotient of two numbers of one kind, or of any two.
    Ratio,
    /// Multiples of the capacity.
    Load,
}

impl Unit {
    /// The unit of a number in a result, by its path.
    pub(crate) fn of(path: &str) -> Self {
        let field = path.split('.').next().unwrap_or_default();
        match field {
            "cpu" | "cpu_components" | "cpu_calls" => Self::Share,
            "offered_over_capacity" => Self::Load,
            "seconds" => Self::PerSecond,
            "visits" | "serving" | "networks" if path.ends_with("_per_s") => Self::PerSecond,
            "networks" => Self::Share,
            "visits" if path.ends_with("_ms") => Self::Ms,
            "visits" | "serving" => Self::Count,
            "time_wait" if path.ends_with("_bytes") => Self::Bytes,
            _ if field.contains("_per_s") => Self::PerSecond,
            _ if field.ends_with("_ms") => Self::Ms,
            _ if field.ends_with("_s") => Self::Seconds,
            _ => Self::Count,
        }
    }

    /// The number with its unit; "–" for what is no number.
    pub(crate) fn show(self, number: f64) -> String {
        if !number.is_finite() {
            return "–".to_owned();
        }
        match self {
            Self::PerSecond => {
                let (digits, prefix) = scaled(number);
                if prefix.is_empty() {
                    format!("{digits}/s")
                } else {
                    format!("{digits} {prefix}/s")
                }
            }
            Self::Ms => format!("{} ms", plain(number)),
            Self::Seconds => format!("{} s", plain(number)),
            Self::Share => format!("{} %", percent(number * 100.0)),
            Self::Count if number == number.trunc() && number.abs() < 9999.5 => grouped(number),
            Self::Count => {
                let (digits, prefix) = scaled(number);
                if prefix.is_empty() { digits } else { format!("{digits} {prefix}") }
            }
            Self::Bytes => bytes(number),
            Self::Ratio => plain(number),
            Self::Load => load(number),
        }
    }

    /// As a person would write a round number: without zeros that say nothing.
    pub(crate) fn round(self, number: f64) -> String {
        let shown = self.show(number);
        match shown.split_once([' ', '/']) {
            Some((digits, _)) => {
                format!("{}{}", trimmed(digits), shown.get(digits.len()..).unwrap_or_default())
            }
            None => trimmed(&shown).to_owned(),
        }
    }

    /// As on an axis, whose title says the unit.
    pub(crate) fn tick(self, number: f64) -> String {
        let shown = self.round(number);
        let bare = ["/s", " ms", " s", " %", "×"].iter().find_map(|unit| shown.strip_suffix(unit));
        bare.unwrap_or(&shown).to_owned()
    }
}

/// Offered load in multiples of capacity: `1.5×`.
pub(crate) fn load(multiple: f64) -> String {
    format!("{}×", trimmed(&plain(multiple)))
}

/// Without the zeros behind the last digit that says something.
fn trimmed(number: &str) -> &str {
    if number.contains('.') && !number.contains('×') {
        number.trim_end_matches('0').trim_end_matches('.')
    } else {
        number
    }
}

/// In kB from 10,000 bytes on, and MB from 10,000 kB on: an axis has its labels on round numbers of
/// ten.
fn bytes(number: f64) -> String {
    match number.abs() {
        n if n >= 1e7 => format!("{} MB", plain(number / 1e6)),
        n if n >= 1e4 => format!("{} kB", plain(number / 1e3)),
        _ => format!("{} B", plain(number)),
    }
}

/// With thousands from ten thousand on, and millions, in three digits.
fn scaled(number: f64) -> (String, &'static str) {
    match number.abs() {
        n if n >= 999.5e9 => (scientific(number), ""),
        n if n >= 999.5e6 => (three_digits(number / 1e9), "G"),
        n if n >= 999.5e3 => (three_digits(number / 1e6), "M"),
        n if n >= 9999.5 => (three_digits(number / 1e3), "k"),
        _ => (plain(number), ""),
    }
}

fn three_digits(number: f64) -> String {
    match number.abs() {
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn percent(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        n if n >= 1e6 => scientific(number),
        n if n >= 99.95 => grouped(number),
        n if n >= 0.05 => format!("{number:.1}"),
        _ => plain(number),
    }
}

/// Three digits below a hundred, but no more than two decimals unless all else is zeros; whole
/// numbers above.
fn plain(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        n if n >= 999_999.5 => scientific(number),
        n if n >= 99.95 => grouped(number),
        n if n >= 9.995 => format!("{number:.1}"),
        n if n >= 0.01 => format!("{number:.2}"),
        n if n >= 0.000_995 => trimmed(&format!("{number:.4}")).to_owned(),
        _ => scientific(number),
    }
}

/// `12,345`.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 && digits != "0" { format!("−{text}") } else { text }
}

/// `3.1×10⁻⁹`.
fn scientific(number: f64) -> String {
    let shown = format!("{number:.1e}");
    let (digits, exponent) = shown.split_once('e').unwrap_or((&shown, "0"));
    let mut text = match trimmed(digits) {
        "1" => "10".to_owned(),
        digits => format!("{}×10", digits.replace('-', "−")),
    };
    for sign in exponent.chars() {
        let raised = match sign {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            digit => digit.to_digit(10).and_then(|d| char::from_u32(0x2070 + d)).unwrap_or(digit),
        };
        let _ = write!(text, "{raised}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        for (unit, number, text) in [
            (Unit::Ms, 1498.2, "1,498 ms"),
            (Unit::Ms, 0.08, "0.08 ms"),
            (Unit::Ms, 3.268, "3.27 ms"),
            (Unit::Ms, 33.14, "33.1 ms"),
            (Unit::Ms, 0.0, "0 ms"),
            (Unit::Ms, 2.5e-7, "2.5×10⁻⁷ ms"),
            (Unit::Bytes, 0.0, "0 B"),
            (Unit::Bytes, 9984.0, "9,984 B"),
            (Unit::Bytes, 740_045.0, "740 kB"),
            (Unit::Bytes, 256e6, "256 MB"),
            (Unit::PerSecond, 870.4, "870/s"),
            (Unit::PerSecond, 1740.0, "1,740/s"),
            (Unit::PerSecond, 9999.7, "10.0 k/s"),
            (Unit::PerSecond, 12_345.0, "12.3 k/s"),
            (Unit::PerSecond, 999_700.0, "1.00 M/s"),
            (Unit::Ms, 1.25e7, "1.2×10⁷ ms"),
            (Unit::PerSecond, 1e300, "10³⁰⁰/s"),
            (Unit::Share, 0.2696, "27.0 %"),
            (Unit::Share, 1.0, "100 %"),
            (Unit::Count, 5_280_029.0, "5.28 M"),
            (Unit::Ratio, 1.2666, "1.27"),
            (Unit::Load, 0.95, "0.95×"),
            (Unit::Load, 5.0, "5×"),
            (Unit::Load, 10.0, "10×"),
            (Unit::Load, 100.0, "100×"),
            (Unit::Count, -120.0, "−120"),
            (Unit::Ms, 8.6, "8.60 ms"),
            (Unit::Ms, 24.0, "24.0 ms"),
            (Unit::Ms, f64::NAN, "–"),
            (Unit::PerSecond, f64::INFINITY, "–"),
        ] {
            assert_eq!(unit.show(number), text, "{number}");
        }
    }

    #[test]
    fn round_numbers_are_written_short() {
        assert_eq!(Unit::PerSecond.tick(40_000.0), "40 k");
        assert_eq!(Unit::PerSecond.tick(12_500.0), "12.5 k");
        assert_eq!(Unit::Share.tick(0.5), "50");
        assert_eq!(Unit::Ms.tick(0.1), "0.1");
        assert_eq!(Unit::Ms.tick(10_000.0), "10,000");
        assert_eq!(Unit::Load.tick(0.5), "0.5");
        assert_eq!(Unit::Ms.round(1.0), "1 ms");
        assert_eq!(Unit::Ratio.round(1.1), "1.1");
        assert_eq!(Unit::PerSecond.round(100.0), "100/s");
        assert_eq!(Unit::Share.round(0.2), "20 %");
    }

    #[test]
    fn a_path_tells_its_unit() {
        for (path, unit) in [
            ("replies_per_s", Unit::PerSecond),
            ("replies_per_s_ci95", Unit::PerSecond),
            ("response_ms.p99", Unit::Ms),
            ("errors_per_s.timeout", Unit::PerSecond),
            ("cpu_components.net-tcp", Unit::Share),
            ("duration_s", Unit::Seconds),
            ("offered_over_capacity", Unit::Load),
            ("syns_per_attempt.1.attempts", Unit::Count),
        ] {
            assert_eq!(Unit::of(path), unit, "{path}");
        }
    }
}
