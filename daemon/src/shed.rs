// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping (Jamjoom and Shin, SIGCOMM 2003) as an operator writes it.

use std::ops::Range;

use serde::Deserialize;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::network::Network;
use tidegate_policy::names::{SHED_KEYS, SHED_POLICIES};
use tidegate_policy::raw::*;
use tidegate_policy::shed::{self, Key, Policy, Refusal, Word};
use toml::{Spanned, Value};

use crate::failure::Result;
use crate::fin;
use crate::reader::Reader;
use crate::setting::Wrong;

/// `shed = { … }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shed {
    policy: Option<Spanned<String>>,
    key: Option<Spanned<String>>,
    p: Option<Spanned<Value>>,
    rate_per_s: Option<Spanned<i64>>,
    refuse: Option<Spanned<String>>,
    attempts: Option<Spanned<i64>>,
    arrivals_per_s: Option<Spanned<i64>>,
    oversize: Option<Spanned<f64>>,
    #[serde(default)]
    preferred: Vec<Spanned<String>>,
}

/// One of a few words.
fn word<W: Word>(reader: &Reader<'_>, what: &str, value: &Option<Spanned<String>>) -> Result<W> {
    let Some(value) = value else { return Ok(W::default()) };
    let text = value.get_ref().as_str();
    W::named(text).ok_or_else(|| {
        reader.wrong(
            value.span(),
            format!("{what} = \"{text}\" is unknown"),
            format!("write one of {}", W::list()),
        )
    })
}

/// What is of no use to `rbd`, which draws for every SYN: it knows nobody again, has no table, and falls
/// back to nothing.
fn refuse_beside_rbd(reader: &Reader<'_>, options: &Shed) -> Result<()> {
    fn place<T>(value: &Option<Spanned<T>>) -> Option<Range<usize>> {
        value.as_ref().map(Spanned::span)
    }
    for (name, written) in [
        ("key", place(&options.key)),
        ("attempts", place(&options.attempts)),
        ("arrivals_per_s", place(&options.arrivals_per_s)),
        ("oversize", place(&options.oversize)),
    ] {
        if let Some(span) = written {
            return Err(reader.wrong(
                span,
                format!("{name} does nothing with policy = \"rbd\", which draws for every SYN"),
                format!("take {name} out, or use policy = \"slpd\""),
            ));
        }
    }
    Ok(())
}

/// `p`: a number, or none where it is controlled.
fn probability(reader: &Reader<'_>, options: &Spanned<Shed>) -> Result<Option<f64>> {
    let fix = format!(
        "give a number from {} to {}, or \"auto\"",
        shed::P_RANGE.start(),
        shed::P_RANGE.end()
    );
    let Some(value) = &options.get_ref().p else {
        return Err(reader.wrong(
            options.span(),
            "shed names no p",
            "give the share of the connections to drop, such as p = 0.1, or p = \"auto\"",
        ));
    };
    let p = match value.get_ref() {
        Value::Float(p) => *p,
        Value::Integer(p) => *p as f64,
        Value::String(word) if word == "auto" => return Ok(None),
        other => {
            return Err(reader.wrong(value.span(), format!("p = {other} is no number"), fix));
        }
    };
    if shed::P_RANGE.contains(&p) {
        return Ok(Some(p));
    }
    Err(reader.wrong(value.span(), format!("p = {p} is out of range"), fix))
}

/// `rate_per_s`: the connections a second to admit, where `p` is "auto"; 0 is what the listener
/// drains, which only a host with the listener can see.
fn rate(
    reader: &Reader<'_>,
    spanned: &Spanned<Shed>,
    p: Option<f64>,
    is_path: bool,
) -> Result<u32> {
    let Some(rate) = &spanned.get_ref().rate_per_s else {
        if is_path && p.is_none() {
            return Err(reader.wrong(
                spanned.span(),
                "on a path there is no listen queue for p = \"auto\" to follow",
                "add what the server can do, such as rate_per_s = 1000",
            ));
        }
        return Ok(0);
    };
    if p.is_some() {
        return Err(reader.wrong(
            rate.span(),
            "rate_per_s is for p = \"auto\"",
            "write p = \"auto\", or take rate_per_s out",
        ));
    }
    Ok(reader.number("rate_per_s", rate, 1, 10_000_000)? as u32)
}

/// What the tables of all listeners and paths may take, in bytes: ten listeners' with a million new
/// connections a second.
const TABLES_MOST: u64 = 1 << 30;

/// Whether tables of so many blocks in all are too large for any host, and the kernel is not even to be
/// asked for them.
pub fn tables_fit(blocks: impl Iterator<Item = u32>) -> std::result::Result<(), Wrong> {
    let bytes = blocks.map(u64::from).sum::<u64>() * size_of::<tg_shed_block>() as u64;
    if bytes <= TABLES_MOST {
        return Ok(());
    }
    let megabytes = |bytes: u64| bytes.div_ceil(1 << 20);
    Err((
        format!("the table of persistent dropping would take {} MB in all", megabytes(bytes)),
        format!(
            "give a smaller arrivals_per_s or oversize: {} MB is the most",
            megabytes(TABLES_MOST)
        ),
    ))
}

fn oversize(reader: &Reader<'_>, value: &Option<Spanned<f64>>) -> Result<f64> {
    let Some(value) = value else { return Ok(shed::OVERSIZE) };
    let number = *value.get_ref();
    if (1.0..=100.0).contains(&number) {
        return Ok(number);
    }
    Err(reader.wrong(
        value.span(),
        format!("oversize = {number} is out of range"),
        "give a number from 1 to 100",
    ))
}

fn preferred(reader: &Reader<'_>, networks: &[Spanned<String>]) -> Result<Vec<Network>> {
    let wrong = |text: &str| format!("preferred names \"{text}\", which is no network");
    networks.iter().map(|text| reader.network(text, wrong)).collect()
}

/// The rules, and the preferred proxies.
pub fn rules(
    reader: &Reader<'_>,
    spanned: &Spanned<Shed>,
    is_path: bool,
) -> Result<(tg_shed_rules, Vec<Network>)> {
    let options = spanned.get_ref();
    let policy: Policy = word(reader, "policy", &options.policy)?;
    let key: Key = word(reader, "key", &options.key)?;
    if !policy.can_shed_by(key) {
        return Err(reader.wrong(
            spanned.span(),
            "sbpd draws for each connection, so by client it would drop nearly everyone",
            "use policy = \"slpd\", or key = \"connection\"",
        ));
    }
    if policy == Policy::Rbd {
        refuse_beside_rbd(reader, options)?;
    }
    let refusal: Refusal = word(reader, "refuse", &options.refuse)?;
    let p = probability(reader, spanned)?;
    let rate_per_s = rate(reader, spanned, p, is_path)?;
    let number = |name, value: &Option<Spanned<i64>>, default: u32, to: u32| match value {
        Some(value) => reader.number(name, value, 1, to.into()).map(|number| number as u32),
        None => Ok(default),
    };
    let attempts = number("attempts", &options.attempts, refusal.attempts(), shed::ATTEMPTS_MOST)?;
    let arrivals_per_s = number(
        "arrivals_per_s",
        &options.arrivals_per_s,
        shed::ARRIVALS_PER_S,
        shed::ARRIVALS_PER_S_MOST,
    )?;
    let oversize = oversize(reader, &options.oversize)?;
    let (policy, key, refusal) = (policy.number(), key.number(), refusal.number());
    let rules = match p {
        Some(p) => tg_shed_rules::new(policy, key, p, attempts),
        None => tg_shed_rules::automatic(policy, key, rate_per_s, attempts),
    };
    let rules = tg_shed_rules { refusal, ..rules.with_table(arrivals_per_s, oversize) };
    Ok((rules, preferred(reader, &options.preferred)?))
}

/// The names that `rules` were put together from; none where nothing is shed.
pub fn name(rules: &tg_shed_rules) -> Option<String> {
    let policy = SHED_POLICIES.get(rules.policy as usize).filter(|name| **name != "off")?;
    let key = SHED_KEYS.get(rules.key as usize).unwrap_or(&"?");
    let refusal = match rules.refusal {
        TG_REFUSE_RESET => ", by rst",
        TG_REFUSE_COOKIE => ", by cookie and rst",
        _ => "",
    };
    let share = match (rules.is_auto != 0, rules.rate_per_s) {
        (false, _) => as_written(rules.p()).to_string(),
        (true, 0) => "what the listener cannot drain".to_owned(),
        (true, rate_per_s) => format!("what is above {rate_per_s}/s"),
    };
    Some(match rules.policy {
        TG_RBD => format!("{policy} of {share} of the SYNs{refusal}"),
        _ => format!("{policy} of {share} by {key}{refusal}"),
    })
}

/// A probability as it was written: parts of 2^32 hold no more than nine digits.
pub fn as_written(p: f64) -> f64 {
    (p * 1e6).round() / 1e6
}

/// What is done for a guard, in words.
pub fn described(guarded: &Guarded) -> String {
    let mechanism = fin::mechanism_name(&guarded.rules);
    match (name(&guarded.shed), guarded.is_path) {
        (Some(shed), true) => shed,
        (Some(shed), false) => format!("{mechanism}, {shed}"),
        (None, _) => mechanism,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tidegate_datapath::raw::TG_HOOK_DRIVER;

    use super::*;
    use crate::config;

    fn parse(text: &str) -> Result<config::Config> {
        config::parse(Path::new("t.toml"), text)
    }

    #[test]
    fn a_listener_and_a_path() {
        let config = parse(
            r#"
            shed_key = "/etc/tidegate/shed.key"
            [[listener]]
            port = 443
            mechanism = "abort rst-syn"
            shed = { policy = "sbpd", key = "connection", p = 0.25, refuse = "rst", arrivals_per_s = 60, preferred = ["192.0.2.0/24", "2001:db8::1"] }
            [[path]]
            port = 443
            address = "198.51.100.7"
            hook = "driver"
            shed = { p = 0.1 }
            [[path]]
            port = 80
            address = "198.51.100.7"
            shed = { policy = "rbd", p = 1 }
            "#,
        )
        .unwrap();
        assert_eq!(config.shed_key.as_deref(), Some(Path::new("/etc/tidegate/shed.key")));
        let first = &config.guards[0];
        let told = |g: &Guarded| (g.shed.policy, g.shed.key, g.shed.refusal, g.shed.blocks);
        assert_eq!(told(first), (TG_SBPD, TG_KEY_CONNECTION, TG_REFUSE_RESET, 97));
        assert_eq!(first.shed.p_x32, 1 << 30);
        assert_eq!(first.preferred.len(), 2);
        assert_eq!(described(first), "abort rst-syn, sbpd of 0.25 by connection, by rst");
        let path = &config.guards[1];
        assert!(path.is_path && path.hook == TG_HOOK_DRIVER);
        assert_eq!(told(path), (TG_SLPD, TG_KEY_CONNECTION, TG_REFUSE_SILENTLY, 16072));
        assert_eq!(described(path), "slpd of 0.1 by connection");
        let rbd = &config.guards[2];
        assert_eq!((rbd.shed.p_x32, rbd.shed.blocks), (1 << 32, 0));
        assert_eq!(described(rbd), "rbd of 1 of the SYNs");
    }

    #[test]
    fn a_listener_and_a_path_whose_p_is_controlled() {
        let config = parse(
            r#"
            [[listener]]
            port = 443
            shed = { p = "auto", refuse = "cookie" }
            [[listener]]
            port = 444
            shed = { p = "auto", rate_per_s = 500, policy = "rbd" }
            [[path]]
            port = 443
            address = "198.51.100.7"
            shed = { p = "auto", rate_per_s = 1000, attempts = 7 }
            "#,
        )
        .unwrap();
        let told = |at: usize| {
            let shed = &config.guards[at].shed;
            (shed.is_auto, shed.rate_per_s, shed.p_x32, shed.attempts)
        };
        assert_eq!([told(0), told(1), told(2)], [(1, 0, 0, 1), (1, 500, 0, 5), (1, 1000, 0, 7)]);
        let described = |at: usize| described(&config.guards[at]);
        assert_eq!(
            described(0),
            "abort rst-syn, slpd of what the listener cannot drain by connection, by cookie and rst"
        );
        assert_eq!(described(1), "abort rst-syn, rbd of what is above 500/s of the SYNs");
        assert_eq!(described(2), "slpd of what is above 1000/s by connection");
    }

    #[test]
    fn who_is_told_sends_one_syn_unless_something_else_is_said() {
        for (options, attempts) in [
            ("", 5),
            ("refuse = \"silence\"", 5),
            ("refuse = \"rst\"", 1),
            ("refuse = \"cookie\"", 1),
            ("refuse = \"rst\", attempts = 5", 5),
            ("attempts = 7", 7),
        ] {
            let text = format!("[[listener]]\nport = 80\nshed = {{ p = 0.1, {options} }}");
            let shed = parse(&text).unwrap().guards[0].shed;
            let uniform_x32 = shed::parts_x32(0.1f64.powf(1.0 / f64::from(attempts)));
            assert_eq!((shed.attempts, shed.uniform_x32), (attempts, uniform_x32), "{options}");
        }
    }

    /// Each bad file gets one line: the file, the line, what, and the fix.
    #[test]
    fn bad_files_are_answered_in_one_line() {
        let listener = |shed: &str| format!("[[listener]]\nport = 80\nshed = {{ {shed} }}");
        for (text, expected) in [
            (
                listener("policy = \"slpd\""),
                "t.toml:3: shed names no p; give the share of the connections to drop, such as p = 0.1, or p = \"auto\"",
            ),
            (
                listener("p = \"automatic\""),
                "t.toml:3: p = \"automatic\" is no number; give a number from 0.001 to 1, or \"auto\"",
            ),
            (
                listener("p = 0.1, rate_per_s = 100"),
                "t.toml:3: rate_per_s is for p = \"auto\"; write p = \"auto\", or take rate_per_s out",
            ),
            (
                listener("p = \"auto\", rate_per_s = 0"),
                "t.toml:3: rate_per_s = 0 is out of range; give a number from 1 to 10000000",
            ),
            (
                "[[path]]\nport = 80\naddress = \"192.0.2.1\"\nshed = { p = \"auto\" }".to_owned(),
                "t.toml:4: on a path there is no listen queue for p = \"auto\" to follow; add what the server can do, such as rate_per_s = 1000",
            ),
            (
                listener("p = 1.5"),
                "t.toml:3: p = 1.5 is out of range; give a number from 0.001 to 1, or \"auto\"",
            ),
            (
                listener("p = 0.1, policy = \"red\""),
                "t.toml:3: policy = \"red\" is unknown; write one of \"rbd\", \"slpd\", \"sbpd\"",
            ),
            (
                listener("p = 0.1, key = \"ip\""),
                "t.toml:3: key = \"ip\" is unknown; write one of \"client\", \"connection\"",
            ),
            (
                listener("p = 0.1, key = \"client\", policy = \"sbpd\""),
                "t.toml:3: sbpd draws for each connection, so by client it would drop nearly everyone; use policy = \"slpd\", or key = \"connection\"",
            ),
            (
                listener("p = 0.1, refuse = \"icmp\""),
                "t.toml:3: refuse = \"icmp\" is unknown; write one of \"silence\", \"rst\", \"cookie\"",
            ),
            (
                listener("policy = \"rbd\", p = 0.5, key = \"client\""),
                "t.toml:3: key does nothing with policy = \"rbd\", which draws for every SYN; take key out, or use policy = \"slpd\"",
            ),
            (
                listener("policy = \"rbd\", p = 0.5, attempts = 7"),
                "t.toml:3: attempts does nothing with policy = \"rbd\", which draws for every SYN; take attempts out, or use policy = \"slpd\"",
            ),
            (
                listener("policy = \"rbd\", p = 0.5, arrivals_per_s = 5"),
                "t.toml:3: arrivals_per_s does nothing with policy = \"rbd\", which draws for every SYN; take arrivals_per_s out, or use policy = \"slpd\"",
            ),
            (
                listener("policy = \"rbd\", p = 0.5, oversize = 2.0"),
                "t.toml:3: oversize does nothing with policy = \"rbd\", which draws for every SYN; take oversize out, or use policy = \"slpd\"",
            ),
            (
                listener("p = 0.1, arrivals_per_s = 0"),
                "t.toml:3: arrivals_per_s = 0 is out of range; give a number from 1 to 1000000",
            ),
            (
                listener("p = 0.1, oversize = 0.5"),
                "t.toml:3: oversize = 0.5 is out of range; give a number from 1 to 100",
            ),
            (
                listener("p = 0.1, arrivals_per_s = 1_000_000, oversize = 100"),
                "t.toml:3: the table of persistent dropping would take 8175 MB in all; give a smaller arrivals_per_s or oversize: 1024 MB is the most",
            ),
            (
                listener("p = 0.1, preferred = [\"10.0.0.1/8\"]"),
                "t.toml:3: preferred names \"10.0.0.1/8\", which is no network, but an address in one; write \"10.0.0.0/8\", or \"10.0.0.1\" for that address alone",
            ),
            (
                listener("p = 0.1, preferred = [\"10.0.0.0/40\"]"),
                "t.toml:3: preferred names \"10.0.0.0/40\", which is no network; write one like \"192.0.2.0/24\" or \"2001:db8::/32\"",
            ),
            (
                format!("{}\nhook = \"tcp\"\nmechanism = \"abort\"", listener("p = 0.1")),
                "t.toml:4: persistent dropping is decided at the driver or the IP entry; use hook = \"auto\", \"driver\" or \"ip\"",
            ),
            (
                "[[path]]\nport = 80\nshed = { p = 0.1 }".to_owned(),
                "t.toml:1: a path leads to no address; add the listener's, such as address = \"192.0.2.1\"",
            ),
            (
                "[[path]]\nport = 80\naddress = \"192.0.2.1\"".to_owned(),
                "t.toml:1: nothing is to be done on this path; add shed = { p = 0.1 }",
            ),
            (
                "[[path]]\nport = 80\naddress = \"192.0.2.1\"\nshed = { p = 0.1 }\n[[listener]]\nport = 80\naddress = \"192.0.2.1\"".to_owned(),
                "t.toml:1: port 80 on 192.0.2.1 is guarded twice; remove one of the two sections",
            ),
        ] {
            assert_eq!(parse(&text).unwrap_err().to_string(), expected);
        }
    }
}
