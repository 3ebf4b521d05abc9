// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of reserv, and of lazy, which is built on it, as an operator gives them.

use std::ops::Range;

use serde::Deserialize;
use tidegate_datapath::configuration::Guarded;
use tidegate_policy::raw::{TG_ROOM_RESERVE, tg_rules};
use tidegate_policy::{mechanism, reserv};
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
    given: &Option<Spanned<Reserv>>,
    rules: &mut tg_rules,
) -> Result<()> {
    let Some(given) = given else { return Ok(()) };
    let options = given.get_ref();
    let asked = reserv::Reserv {
        overbook: number(&options.overbook),
        when_exhausted: options.when_exhausted.as_ref().map(|word| word.get_ref().as_str()),
        early_drop_from: number(&options.early_drop_from),
        early_drop_probability: number(&options.early_drop_probability),
        clean_after_ms: number(&options.clean_after_ms),
    };
    *rules = asked.over(*rules).map_err(|wrong| {
        let span = options.span(wrong.key).unwrap_or(given.span());
        reader.wrong(span, wrong.what, wrong.fix)
    })?;
    Ok(())
}

fn number<T: Copy>(option: &Option<Spanned<T>>) -> Option<T> {
    option.as_ref().map(|number| *number.get_ref())
}

impl Reserv {
    /// Where an option stands.
    fn span(&self, key: &str) -> Option<Range<usize>> {
        match key {
            "overbook" => self.overbook.as_ref().map(Spanned::span),
            "when_exhausted" => self.when_exhausted.as_ref().map(Spanned::span),
            "early_drop_from" => self.early_drop_from.as_ref().map(Spanned::span),
            "early_drop_probability" => self.early_drop_probability.as_ref().map(Spanned::span),
            "clean_after_ms" => self.clean_after_ms.as_ref().map(Spanned::span),
            _ => None,
        }
    }
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
