// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of reserv (Shukla, thesis, 4.1.2 and 4.1.7), and of lazy, which is built on it, as an
//! operator gives them.

use serde::Deserialize;
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::mechanism;
use tidegate_policy::raw::{TG_ROOM_RESERVE, tg_rules};
use toml::Spanned;

use crate::failure::{Failure, Result};
use crate::reader::Reader;

/// `reserv = { … }`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserv {
    overbook: Option<Spanned<f64>>,
    when_exhausted: Option<Spanned<String>>,
    early_drop_from: Option<Spanned<f64>>,
    early_drop_probability: Option<Spanned<f64>>,
    clean_after_ms: Option<Spanned<i64>>,
}

/// `reserv`: beside a mechanism that reserves.
pub fn read(
    reader: &Reader<'_>,
    reserv: &Option<Spanned<Reserv>>,
    rules: &mut tg_rules,
) -> Result<()> {
    let Some(reserv) = reserv else { return Ok(()) };
    if rules.room != TG_ROOM_RESERVE {
        return Err(reader.wrong(
            reserv.span(),
            "reserv has options, but the mechanism names neither it nor \"lazy\"",
            "add \"reserv\" to the mechanism, or take the options out",
        ));
    }
    let options = reserv.get_ref();
    if let Some(overbook) = &options.overbook {
        rules.overbook_x256 = reader.fraction_x256("overbook", overbook, 1.0..=1000.0)?;
    }
    if let Some(from) = &options.early_drop_from {
        rules.early_from_x256 = reader.fraction_x256("early_drop_from", from, 0.0..=1.0)?;
        rules.early_probability_x256 = 256;
    }
    if let Some(probability) = &options.early_drop_probability {
        if options.early_drop_from.is_none() {
            return Err(reader.wrong(
                probability.span(),
                "early_drop_probability does nothing without early_drop_from",
                "add early_drop_from = 0.75, or take it out",
            ));
        }
        rules.early_probability_x256 =
            reader.fraction_x256("early_drop_probability", probability, 0.0..=1.0)?;
    }
    if let Some(after) = &options.clean_after_ms {
        rules.clean_after_ms = reader.number("clean_after_ms", after, 1, 600_000)? as u32;
    }
    match options.when_exhausted.as_ref().map(|w| (w.get_ref().as_str(), w.span())) {
        None | Some(("refuse", _)) => {}
        Some(("cookie", _)) => rules.cookie_when_reserved = 1,
        Some((other, span)) => {
            return Err(reader.wrong(
                span,
                format!("when_exhausted = \"{other}\" is unknown"),
                "write \"refuse\" or \"cookie\"",
            ));
        }
    }
    Ok(())
}

/// `ahead`: how many SYNs lazy answers ahead of the application's asking.
pub fn ahead(
    reader: &Reader<'_>,
    ahead: &Option<Spanned<i64>>,
    rules: &mut tg_rules,
) -> Result<()> {
    let Some(ahead) = ahead else { return Ok(()) };
    if rules.ahead == 0 {
        return Err(reader.wrong(
            ahead.span(),
            "ahead is lazy's, and the mechanism does not name it",
            "add \"lazy\" to the mechanism, or take ahead out",
        ));
    }
    rules.ahead = reader.queue_length("ahead", ahead)?;
    Ok(())
}

/// What an operator is told where the kernel keeps no half-open request, so that none holds a place;
/// `syncookies` is net.ipv4.tcp_syncookies.
pub fn in_vain(guards: &[Guarded], syncookies: Option<u64>) -> Option<Failure> {
    let reserves = |g: &&Guarded| g.rules.room == TG_ROOM_RESERVE;
    let guarded = guards.iter().find(reserves).filter(|_| syncookies == Some(2))?;
    Some(Failure::argument(
        format!(
            "port {}: \"{}\" reserves nothing while net.ipv4.tcp_syncookies is 2, and the kernel \
             answers every SYN with a cookie",
            guarded.port,
            mechanism::name(&guarded.rules)
        ),
        "sysctl -w net.ipv4.tcp_syncookies=1",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reserves_is_told_that_every_syn_has_a_cookie_of_the_kernels() {
        let told = |mechanism: &str, syncookies| {
            let rules = mechanism::parse(mechanism).unwrap();
            let guards = [Guarded { port: 80, rules, ..Guarded::default() }];
            in_vain(&guards, syncookies).map(|failure| failure.to_string())
        };
        let lazy = told("lazy rst-syn", Some(2)).expect("it is told");
        assert!(lazy.starts_with("port 80: \"lazy rst-syn\" reserves nothing"), "{lazy}");
        for (mechanism, syncookies) in
            [("reserv", Some(0)), ("reserv", Some(1)), ("reserv", None), ("abort rst-syn", Some(2))]
        {
            assert_eq!(told(mechanism, syncookies), None, "{mechanism}, {syncookies:?}");
        }
    }
}
