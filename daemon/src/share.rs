// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fair share for each network of clients, as an operator asks for it (`docs/configuration.md`).

use std::ops::Range;

use tidegate_policy::raw::tg_rules;
use tidegate_policy::share::{IPV4_BITS, IPV6_BITS, IPV6_BITS_MOST};
use toml::{Spanned, Table, Value};

use crate::failure::Result;
use crate::reader::Reader;

const FIX: &str = "write fair_share = true, or fair_share = { ipv4_bits = 24, ipv6_bits = 56 }";

/// The bits of a family's networks: what the table says, or `usual`.
fn bits(
    reader: &Reader<'_>,
    span: Range<usize>,
    table: &Table,
    (key, usual, most): (&str, u32, u32),
) -> Result<u32> {
    let Some(said) = table.get(key) else { return Ok(usual) };
    said.as_integer()
        .filter(|bits| (1..=i64::from(most)).contains(bits))
        .map(|bits| bits as u32)
        .ok_or_else(|| {
            reader.wrong(
                span,
                format!("{key} = {said} is no length of a network"),
                format!("give a number from 1 to {most}"),
            )
        })
}

/// `fair_share`: which networks have equal shares while there is not room for all.
pub fn read(
    reader: &Reader<'_>,
    value: &Option<Spanned<Value>>,
    rules: &mut tg_rules,
) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let (ipv4, ipv6) = (("ipv4_bits", IPV4_BITS, 32), ("ipv6_bits", IPV6_BITS, IPV6_BITS_MOST));
    let Some(table) = reader.options("fair_share", value, &[ipv4.0, ipv6.0], FIX)? else {
        return Ok(());
    };
    let bits = |family| bits(reader, value.span(), &table, family);
    rules.share_ipv4_bits = bits(ipv4)?;
    rules.share_ipv6_bits = bits(ipv6)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config;

    fn bits(value: &str) -> std::result::Result<(u32, u32), String> {
        let text = format!("[[listener]]\nport = 80\nfair_share = {value}");
        let config =
            config::parse(Path::new("t.toml"), &text).map_err(|wrong| wrong.to_string())?;
        let rules = config.guards[0].rules;
        Ok((rules.share_ipv4_bits, rules.share_ipv6_bits))
    }

    #[test]
    fn shares_are_kept_by_networks_of_the_usual_length_or_of_another() {
        assert_eq!(bits("true"), Ok((24, 56)));
        assert_eq!(bits("false"), Ok((0, 0)));
        assert_eq!(bits("{ ipv4_bits = 32 }"), Ok((32, 56)));
        assert_eq!(bits("{ ipv4_bits = 16, ipv6_bits = 48 }"), Ok((16, 48)));
    }

    #[test]
    fn a_bad_share_is_answered_in_one_line() {
        for (value, expected) in [
            (
                "24",
                "t.toml:3: fair_share = 24 is neither true nor false nor a table; \
                 write fair_share = true, or fair_share = { ipv4_bits = 24, ipv6_bits = 56 }",
            ),
            (
                "{ bits = 24 }",
                "t.toml:3: fair_share knows no bits; \
                 write fair_share = true, or fair_share = { ipv4_bits = 24, ipv6_bits = 56 }",
            ),
            (
                "{ ipv6_bits = 96 }",
                "t.toml:3: ipv6_bits = 96 is no length of a network; give a number from 1 to 64",
            ),
            (
                "{ ipv4_bits = 0 }",
                "t.toml:3: ipv4_bits = 0 is no length of a network; give a number from 1 to 32",
            ),
        ] {
            assert_eq!(bits(value), Err(expected.to_owned()));
        }
    }
}
