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
        self.write(number, Digits::Three)
    }

    /// A number that a person gave, or that stands on an axis: to four digits, for it means what it says.
    pub(crate) fn given(self, number: f64) -> String {
        self.write(number, Digits::Four)
    }

    fn write(self, number: f64, digits: Digits) -> String {
        if !number.is_finite() {
            return "–".to_owned();
        }
        match self {
            Self::PerSecond => {
                let (shown, prefix) = scaled(number, digits);
                if prefix.is_empty() { format!("{shown}/s") } else { format!("{shown} {prefix}/s") }
            }
            Self::Ms => format!("{} ms", plain(number, digits)),
            Self::Seconds => format!("{} s", plain(number, digits)),
            Self::Share => format!("{} %", percent(number * 100.0, digits)),
            Self::Count if number == number.trunc() && number.abs() < 9999.5 => grouped(number),
            Self::Count => {
                let (shown, prefix) = scaled(number, digits);
                if prefix.is_empty() { shown } else { format!("{shown} {prefix}") }
            }
            Self::Bytes => bytes(number, digits),
            Self::Ratio => plain(number, digits),
            Self::Load => format!("{}×", trimmed(&plain(number, digits))),
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
        bare(&self.given(number)).to_owned()
    }
}

/// How many digits are written.
#[derive(Clone, Copy)]
enum Digits {
    /// As many of what was found say something.
    Three,
    /// Without zeros behind.
    Four,
}

impl Digits {
    /// A number with a fraction: three digits are so many places.
    fn fraction(self, number: f64, places: usize) -> String {
        match self {
            Self::Three => format!("{number:.places$}"),
            Self::Four => {
                let places = (3.0 - number.abs().log10().floor()).max(0.0) as usize;
                trimmed(&format!("{number:.places$}")).to_owned()
            }
        }
    }
}

/// Without its unit, where a title says that.
pub(crate) fn bare(shown: &str) -> &str {
    let bare = ["/s", " ms", " s", " %", "×"].iter().find_map(|unit| shown.strip_suffix(unit));
    bare.unwrap_or(shown)
}

/// A time of so many ms: `0.21 ms`, `43.7 ms`, `1,134 ms`.
#[must_use]
pub fn milliseconds(ms: f64) -> String {
    Unit::Ms.show(ms)
}

/// Offered load in multiples of capacity: `1.5×`.
pub(crate) fn load(multiple: f64) -> String {
    Unit::Load.given(multiple)
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
fn bytes(number: f64, digits: Digits) -> String {
    match number.abs() {
        n if n >= 1e7 => format!("{} MB", plain(number / 1e6, digits)),
        n if n >= 1e4 => format!("{} kB", plain(number / 1e3, digits)),
        _ => format!("{} B", plain(number, digits)),
    }
}

/// With thousands from ten thousand on, and millions.
fn scaled(number: f64, digits: Digits) -> (String, &'static str) {
    match number.abs() {
        n if n >= 999.5e9 => (scientific(number, digits), ""),
        n if n >= 999.5e6 => (above_one(number / 1e9, digits), "G"),
        n if n >= 999.5e3 => (above_one(number / 1e6, digits), "M"),
        n if n >= 9999.5 => (above_one(number / 1e3, digits), "k"),
        _ => (plain(number, digits), ""),
    }
}

fn above_one(number: f64, digits: Digits) -> String {
    match number.abs() {
        n if n >= 99.95 => digits.fraction(number, 0),
        n if n >= 9.995 => digits.fraction(number, 1),
        _ => digits.fraction(number, 2),
    }
}

fn percent(number: f64, digits: Digits) -> String {
    match (number.abs(), digits) {
        (n, Digits::Three) if (0.05..99.95).contains(&n) => format!("{number:.1}"),
        _ => plain(number, digits),
    }
}

/// Three digits below a hundred, but no more than two decimals unless all else is zeros, and three
/// below a tenth; whole numbers above. Of what was given, as many as it takes.
fn plain(number: f64, digits: Digits) -> String {
    match (number.abs(), digits) {
        (0.0, _) => "0".to_owned(),
        (n, _) if n >= 999_999.5 => scientific(number, digits),
        (n, Digits::Four) if (99.95..999.95).contains(&n) => {
            digits.fraction(number, 0).replace('-', "−")
        }
        (n, _) if n >= 99.95 => grouped(number),
        (n, _) if n >= 9.995 => digits.fraction(number, 1),
        (n, _) if n >= 0.0995 => digits.fraction(number, 2),
        (n, _) if n >= 0.00995 => trimmed(&digits.fraction(number, 3)).to_owned(),
        (n, _) if n >= 0.000_995 => trimmed(&digits.fraction(number, 4)).to_owned(),
        _ => scientific(number, digits),
    }
}

/// `12,345`.
#[must_use]
pub fn grouped(number: f64) -> String {
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
fn scientific(number: f64, digits: Digits) -> String {
    let shown = match digits {
        Digits::Three => format!("{number:.1e}"),
        Digits::Four => format!("{number:.3e}"),
    };
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
            (Unit::Ms, 0.0477, "0.048 ms"),
            (Unit::Ms, 0.0999, "0.10 ms"),
            (Unit::Ms, 3.268, "3.27 ms"),
            (Unit::Ms, 0.0012, "0.0012 ms"),
            (Unit::Ms, 0.2149, "0.21 ms"),
            (Unit::Ms, 9.999, "10.0 ms"),
            (Unit::Ms, 33.14, "33.1 ms"),
            (Unit::Ms, 1133.6, "1,134 ms"),
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
    fn an_offered_load_is_what_a_person_gave() {
        assert_eq!(
            (load(1.125), load(2.001), load(2.0)),
            ("1.125×".into(), "2.001×".into(), "2×".into())
        );
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

    /// A claim's bound, beside which a number is held.
    #[test]
    fn a_given_number_is_written_to_four_digits() {
        for (unit, number, text) in [
            (Unit::Ratio, 0.0477, "0.0477"),
            (Unit::Ratio, 0.015, "0.015"),
            (Unit::Ratio, 1.2345, "1.234"),
            (Unit::Ratio, 1.5, "1.5"),
            (Unit::Ratio, 1.25e-5, "1.25×10⁻⁵"),
            (Unit::Ms, 123.4, "123.4 ms"),
            (Unit::Ms, -120.0, "−120 ms"),
            (Unit::Ms, 1498.2, "1,498 ms"),
            (Unit::Share, 0.0005, "0.05 %"),
            (Unit::Share, 0.1234, "12.34 %"),
            (Unit::PerSecond, 12_345.0, "12.35 k/s"),
            (Unit::PerSecond, 9_999.7, "10 k/s"),
            (Unit::Bytes, 12_340.0, "12.34 kB"),
            (Unit::Load, 1.125, "1.125×"),
            (Unit::Count, 0.0, "0"),
        ] {
            assert_eq!(unit.given(number), text, "{number}");
        }
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
