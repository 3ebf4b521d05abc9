// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an operator says of networks of clients: how many SYNs they may send, and which are exempt.

use serde::Deserialize;
use tidegate_datapath::network::Network;
use tidegate_policy::police::{self, BURST_MOST, SYNS_PER_S_MOST};
use tidegate_policy::raw::tg_limit;
use toml::Spanned;

use crate::failure::Result;
use crate::reader::Reader;

/// `police = [{ … }]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Police {
    network: Spanned<String>,
    syns_per_s: Spanned<i64>,
    burst: Option<Spanned<i64>>,
}

/// What holds for networks of clients.
pub type Limits = Vec<(Network, tg_limit)>;

fn limit(reader: &Reader<'_>, police: &Police) -> Result<tg_limit> {
    let per_s = reader.number("syns_per_s", &police.syns_per_s, 1, SYNS_PER_S_MOST.into())? as u32;
    let burst = match &police.burst {
        Some(burst) => reader.number("burst", burst, 1, BURST_MOST.into())? as u32,
        None => police::burst(per_s),
    };
    Ok(tg_limit::new(per_s, burst))
}

/// Adds a network, which may be named once.
fn add(
    reader: &Reader<'_>,
    limits: &mut Limits,
    name: &Spanned<String>,
    key: &str,
) -> Result<Network> {
    let wrong = |text: &str| format!("{key} names \"{text}\", which is no network");
    let network = reader.network(name, wrong)?;
    if limits.iter().any(|(other, _)| *other == network) {
        return Err(reader.wrong(
            name.span(),
            format!("{network} is named twice in police and exempt"),
            "remove one of the two",
        ));
    }
    Ok(network)
}

/// The networks of a listener.
pub fn limits(
    reader: &Reader<'_>,
    police: &[Police],
    exempt: &[Spanned<String>],
) -> Result<Limits> {
    let mut limits = Limits::new();
    for one in police {
        let network = add(reader, &mut limits, &one.network, "police")?;
        limits.push((network, limit(reader, one)?));
    }
    for name in exempt {
        let network = add(reader, &mut limits, name, "exempt")?;
        limits.push((network, tg_limit::exempt()));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_datapath::police::MOST;

    use super::*;
    use crate::config;

    fn parse(text: &str) -> Result<config::Config> {
        config::parse(Path::new("t.toml"), text)
    }

    #[test]
    fn networks_with_a_rate_and_networks_that_are_exempt() {
        let config = parse(
            r#"
            [[listener]]
            port = 443
            exempt = ["10.1.0.0/16"]
            [[listener.police]]
            network = "10.0.0.0/8"
            syns_per_s = 500
            burst = 20
            [[listener.police]]
            network = "2001:db8::/32"
            syns_per_s = 3
            "#,
        )
        .unwrap();
        let told = |(network, limit): &(Network, tg_limit)| (network.to_string(), *limit);
        let limits: Vec<_> = config.guards[0].limits.iter().map(told).collect();
        assert_eq!(
            limits,
            [
                ("10.0.0.0/8".to_owned(), tg_limit::new(500, 20)),
                ("2001:db8::/32".to_owned(), tg_limit::new(3, 1)),
                ("10.1.0.0/16".to_owned(), tg_limit::exempt()),
            ]
        );
    }

    /// Each bad file gets one line: the file, the line, what, and the fix.
    #[test]
    fn bad_networks_and_rates_are_answered_in_one_line() {
        let police = |one: &str| format!("[[listener]]\nport = 80\npolice = [{{ {one} }}]");
        let many = (0..=MOST).map(|i| format!("\"10.{}.{}.0/24\"", i >> 8, i & 255));
        let many = many.collect::<Vec<_>>().join(", ");
        for (text, expected) in [
            (
                police("network = \"10.0.0.0/40\", syns_per_s = 5"),
                "t.toml:3: police names \"10.0.0.0/40\", which is no network; write one like \"192.0.2.0/24\" or \"2001:db8::/32\"",
            ),
            (
                police("network = \"10.0.0.0/8\", syns_per_s = 0"),
                "t.toml:3: syns_per_s = 0 is out of range; give a number from 1 to 1000000",
            ),
            (
                police("network = \"10.0.0.0/8\", syns_per_s = 5, burst = 0"),
                "t.toml:3: burst = 0 is out of range; give a number from 1 to 1000000",
            ),
            (
                police("network = \"10.0.0.0/8\""),
                "t.toml:3: missing field `syns_per_s`; see the documentation, configuration.md",
            ),
            (
                format!(
                    "{}\nexempt = [\"10.0.0.0/8\"]",
                    police("network = \"10.0.0.0/8\", syns_per_s = 5")
                ),
                "t.toml:4: 10.0.0.0/8 is named twice in police and exempt; remove one of the two",
            ),
            (
                "[[listener]]\nport = 80\nexempt = [\"192.0.2.1/24\"]".to_owned(),
                "t.toml:3: exempt names \"192.0.2.1/24\", which is no network, but an address in one; write \"192.0.2.0/24\", or \"192.0.2.1\" for that address alone",
            ),
            (
                police("network = \"10.9.0.0/8\", syns_per_s = 5"),
                "t.toml:3: police names \"10.9.0.0/8\", which is no network, but an address in one; write \"10.0.0.0/8\", or \"10.9.0.0\" for that address alone",
            ),
            (
                format!("[[listener]]\nport = 80\nexempt = [{many}]"),
                "t.toml:1: police and exempt name more than 1024 networks; name fewer, larger ones",
            ),
        ] {
            assert_eq!(parse(&text).unwrap_err().to_string(), expected);
        }
    }
}
