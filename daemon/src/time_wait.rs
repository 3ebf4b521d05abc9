// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who holds TIME-WAIT, as an operator writes it.

use serde::Deserialize;
use tidegate_datapath::network::Network;
use tidegate_datapath::raw::*;
use tidegate_datapath::time_wait;
use tidegate_policy::raw::*;
use tidegate_policy::time_wait::{ENTRIES, ENTRIES_MOST};
use toml::Spanned;

use crate::failure::Result;
use crate::reader::Reader;

/// Networks that may be named: the map holds those of two configurations, and of each the two that
/// stand for everywhere else.
const DESTINATIONS_MOST: usize = TG_DESTINATIONS as usize / 2 - 2;

/// `[time_wait]`: of every listener and every destination that says nothing else.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeWait {
    negotiate: Option<Spanned<String>>,
    insist: Option<Spanned<bool>>,
    #[serde(default)]
    close_swap: bool,
    entries: Option<Spanned<i64>>,
}

/// `[[destination]]`: a network that this host connects to.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    network: Spanned<String>,
    negotiate: Option<Spanned<String>>,
    insist: Option<bool>,
    close_swap: Option<bool>,
}

/// What is asked of the ends of connections.
#[derive(Debug, Clone, Default)]
pub struct Ends {
    /// Of connections that this host opens, by network.
    pub destinations: Vec<(Network, tg_tw_rules)>,
    /// Of listeners that say nothing else.
    pub listeners: tg_tw_rules,
    /// Entries of the table of held pairs; 0 where nothing is asked.
    pub entries: u32,
}

/// The end of a name.
fn holder(reader: &Reader<'_>, name: &Spanned<String>) -> Result<u32> {
    match name.get_ref().as_str() {
        "off" => Ok(TG_TW_NOBODY),
        "client" => Ok(TG_TW_CLIENT),
        "server" => Ok(TG_TW_SERVER),
        other => Err(reader.wrong(
            name.span(),
            format!("\"{other}\" does not say who holds TIME-WAIT"),
            "write \"client\", \"server\" or \"off\"",
        )),
    }
}

/// A listener's rules: its own word, or the host's.
pub fn listener(
    reader: &Reader<'_>,
    own: &Option<Spanned<String>>,
    host: &tg_tw_rules,
) -> Result<tg_tw_rules> {
    let negotiate = own.as_ref().map_or(Ok(host.negotiate), |own| holder(reader, own))?;
    Ok(tg_tw_rules { negotiate, ..Default::default() })
}

/// Whoever names nobody has nothing to insist on.
fn or_no_insisting(rules: tg_tw_rules) -> tg_tw_rules {
    let insist = if rules.negotiate == TG_TW_NOBODY { 0 } else { rules.insist };
    tg_tw_rules { insist, ..rules }
}

fn destination(
    reader: &Reader<'_>,
    destination: &Destination,
    host: &tg_tw_rules,
) -> Result<(Network, tg_tw_rules)> {
    let wrong = |text: &str| format!("network = \"{text}\" is no network");
    let network = reader.network(&destination.network, wrong)?;
    let own = &destination.negotiate;
    let negotiate = own.as_ref().map_or(Ok(host.negotiate), |own| holder(reader, own))?;
    let rules = tg_tw_rules {
        negotiate,
        insist: destination.insist.map_or(host.insist, u32::from),
        close_swap: destination.close_swap.map_or(host.close_swap, u32::from),
    };
    Ok((network, or_no_insisting(rules)))
}

/// `insist` of the host, where no destination is negotiated with.
fn refuse_vain_insisting(
    reader: &Reader<'_>,
    host: &Option<TimeWait>,
    destinations: &[(Network, tg_tw_rules)],
) -> Result<()> {
    let insist = host.as_ref().and_then(|host| host.insist.as_ref());
    let negotiates = |(_, rules): &(Network, tg_tw_rules)| rules.negotiate != TG_TW_NOBODY;
    let Some(insist) = insist.filter(|insist| *insist.get_ref()) else { return Ok(()) };
    if destinations.iter().any(negotiates) {
        return Ok(());
    }
    Err(reader.wrong(
        insist.span(),
        "insist = true does nothing, for no destination is negotiated with",
        "add negotiate = \"server\" or \"client\", or take insist out",
    ))
}

impl Ends {
    /// Reads both sections.
    pub fn read(
        reader: &Reader<'_>,
        host: &Option<TimeWait>,
        destinations: &[Spanned<Destination>],
    ) -> Result<Self> {
        let mut ends = Ends::default();
        let mut entries = None;
        if let Some(host) = host {
            let negotiate = host.negotiate.as_ref();
            ends.listeners = tg_tw_rules {
                negotiate: negotiate.map_or(Ok(TG_TW_NOBODY), |name| holder(reader, name))?,
                insist: host.insist.as_ref().is_some_and(|insist| *insist.get_ref()).into(),
                close_swap: host.close_swap.into(),
            };
            entries = host.entries.as_ref();
        }
        for one in destinations {
            let (network, rules) = destination(reader, one.get_ref(), &ends.listeners)?;
            if ends.destinations.iter().any(|(other, _)| *other == network) {
                return Err(reader.wrong(
                    one.span(),
                    format!("the destination {network} is named twice"),
                    "remove one of the two [[destination]] sections",
                ));
            }
            ends.destinations.push((network, rules));
            if ends.destinations.len() > DESTINATIONS_MOST {
                return Err(reader.wrong(
                    one.span(),
                    format!("there are more than {DESTINATIONS_MOST} [[destination]] sections"),
                    "name fewer, larger networks",
                ));
            }
        }
        ends.add_elsewhere();
        refuse_vain_insisting(reader, host, &ends.destinations)?;
        ends.entries = match entries {
            Some(entries) => reader.number("entries", entries, 1, ENTRIES_MOST.into())? as u32,
            None => ENTRIES,
        };
        Ok(ends)
    }

    /// The rules of the host are those of everywhere else.
    fn add_elsewhere(&mut self) {
        let elsewhere = or_no_insisting(self.listeners);
        if elsewhere == tg_tw_rules::default() {
            return;
        }
        for all in ["0.0.0.0/0", "::/0"] {
            let all: Network = all.parse().expect("a network");
            if !self.destinations.iter().any(|(network, _)| *network == all) {
                self.destinations.push((all, elsewhere));
            }
        }
    }

    /// The blocks that the table must have, where anything is asked.
    pub fn held_blocks(&self, asked: bool) -> u32 {
        if asked { time_wait::blocks_of(self.entries) } else { 0 }
    }
}

/// What is asked, in words.
pub fn described(rules: &tg_tw_rules) -> String {
    let holder = tidegate_policy::time_wait::holder(rules.negotiate);
    let mut words: Vec<_> =
        holder.map(|end| format!("the {} holds it", end.name())).into_iter().collect();
    if rules.negotiate != TG_TW_NOBODY && rules.insist != 0 {
        words.push("or no connection".to_owned());
    }
    if rules.close_swap != 0 {
        words.push("close_swap".to_owned());
    }
    if words.is_empty() { "as it is today".to_owned() } else { words.join(", ") }
}
