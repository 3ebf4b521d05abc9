// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Quantities as people write and read them.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use ipnet::{IpAddrRange, IpNet, Ipv4AddrRange, Ipv6AddrRange};
use tidegate_report::grouped;

const ADDRESSES_MAX: usize = 65_536;
/// Shorter than the clocks of a server see, and longer than anyone waits.
const PATIENCE: RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(24 * 60 * 60);

/// A whole number above 0.
pub(crate) fn count<N: FromStr>(given: &str) -> Result<N, String> {
    given.parse().map_err(|_| "give a number from 1".to_owned())
}

/// Reads `8s`, `500ms`, `2m`, or a bare number of seconds.
pub(crate) fn duration(given: &str) -> Result<Duration, String> {
    let unit_at = given.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(given.len());
    let (number, unit) = given.split_at(unit_at);
    let scale_s = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err("write it as 8s, 500ms or 2m".to_owned()),
    };
    let number: f64 = number.parse().map_err(|_| "write it as 8s, 500ms or 2m".to_owned())?;
    if number < 0.0 {
        return Err("it cannot be negative".to_owned());
    }
    Duration::try_from_secs_f64(number * scale_s).map_err(|_| "give a time that ends".to_owned())
}

/// A duration that somebody may wait for.
pub(crate) fn patience(given: &str) -> Result<Duration, String> {
    let patience = duration(given)?;
    if !PATIENCE.contains(&patience) {
        return Err("give a time from 1ms to 1440m, which is a day".to_owned());
    }
    Ok(patience)
}

/// Addresses: one, a prefix, or from the first to the last, as in `10.0.0.2-10.0.0.25`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Addresses(pub Vec<IpNet>);

/// Reads an address, a prefix or a range.
pub(crate) fn addresses(given: &str) -> Result<Addresses, String> {
    let wrong = || "write an address, a prefix, or a range as in 10.0.0.2-10.0.0.25".to_owned();
    if let Ok(prefix) = given.parse::<IpNet>() {
        return Ok(Addresses(vec![prefix]));
    }
    let (first, last) = given.split_once('-').unwrap_or((given, given));
    let first: IpAddr = first.parse().map_err(|_| wrong())?;
    let last: IpAddr = last.parse().map_err(|_| wrong())?;
    let range = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => Ipv4AddrRange::new(first, last).into(),
        (IpAddr::V6(first), IpAddr::V6(last)) => Ipv6AddrRange::new(first, last).into(),
        _ => return Err(wrong()),
    };
    let range: IpAddrRange = range;
    let all: Vec<IpNet> = range.take(ADDRESSES_MAX + 1).map(IpNet::from).collect();
    if all.is_empty() || all.len() > ADDRESSES_MAX {
        return Err(format!(
            "the first must not come after the last, and at most {ADDRESSES_MAX} fit"
        ));
    }
    Ok(Addresses(all))
}

/// A count or rate, rounded.
pub(crate) fn rounded(number: f64) -> String {
    grouped(number.round().max(0.0))
}

/// A part of a whole: `66.1 %`; `0 %` only for nothing, `100 %` only for everything.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    if part == whole {
        return "100 %".to_owned();
    }
    let percent = (part as f64 * 100.0 / whole as f64).clamp(0.1, 99.9);
    format!("{percent:.1} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit() {
        assert_eq!(duration("8s"), Ok(Duration::from_secs(8)));
        assert_eq!(duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "8h", "-1s", "nan", "1e99s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_duration_is_told() {
        let told = |given| duration(given).unwrap_err();
        assert_eq!(told("-1ms"), "it cannot be negative");
        for endless in ["100000000000000000000s", "10000000000000000000m"] {
            assert_eq!(told(endless), "give a time that ends", "{endless}");
        }
    }

    #[test]
    fn patience_is_neither_nothing_nor_for_ever() {
        assert_eq!(patience("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(patience("1440m"), Ok(Duration::from_secs(86_400)));
        for wrong in ["0", "0.5ms", "86401", "10000000000000000000", "-1", "long"] {
            assert!(patience(wrong).is_err_and(|told| told.lines().count() == 1), "{wrong}");
        }
    }

    #[test]
    fn ranges_of_addresses_include_both_ends() {
        let read = |given| addresses(given).map(|read| read.0);
        assert_eq!(read("10.0.0.254-10.0.1.1").unwrap().len(), 4);
        assert_eq!(read("fd00::1").unwrap().len(), 1);
        assert_eq!(read("10.128.0.0/16").unwrap(), ["10.128.0.0/16".parse::<IpNet>().unwrap()]);
        for wrong in ["10.0.0.2-10.0.0.1", "10.0.0.1-::1", "x", "::-ffff::"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn figures_are_short_and_never_lie_about_nothing_and_everything() {
        assert_eq!(rounded(1_234_567.4), "1,234,567");
        assert_eq!(rounded(998.5), "999");
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 1_000_000), "0.1 %");
        assert_eq!(share(999_999, 1_000_000), "99.9 %");
        assert_eq!(share(3, 3), "100 %");
    }
}
