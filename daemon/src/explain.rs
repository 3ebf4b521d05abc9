// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `tidegate explain`: what would become of a SYN that came in now, and why. The guard's own
//! programs answer, run on copies of what they write: nothing changes by asking.

mod answer;
mod asked;
mod unjudged;
mod way;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use tidegate_datapath::Error;
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::counters;
use tidegate_datapath::interfaces::{self, Interface};
use tidegate_datapath::pins::Pins;
use tidegate_datapath::rehearsal::{Entry, Found, Rehearsal, Syn};
use tidegate_policy::names::VERDICTS;
use tidegate_policy::raw::*;

use self::answer::{Explained, GuardMet, ListenerMet, Share, names, notes, text};
pub use self::asked::Asked;
use crate::capture::Packet;
use crate::failure::{Failure, Result};
use crate::status::{OverloadStatus, Queue};
use crate::{host, mounts, outcome, output};

/// Where chance has a part, so many tries show the shares.
const TRIES: u32 = 1000;

/// Of a guard that is there in part some pin is missing.
fn in_part(error: Error) -> Failure {
    match error {
        Error::Pin { source, .. } if source.kind() == io::ErrorKind::NotFound => Failure::argument(
            "the guard is just starting, or its start was cut short",
            "ask again; where it stays so, `tidegate run` or `tidegate stop`",
        ),
        other => other.into(),
    }
}

/// Explains what is asked.
pub fn run(asked: &Asked) -> Result<()> {
    let packets = asked.packets()?;
    host::require_capabilities()?;
    let pins = Pins::here()?;
    let Some(rehearsal) = Rehearsal::of(pins.clone()).map_err(in_part)? else {
        mounts::require_those_of_the_daemon(&pins)?;
        return Err(Failure::argument("no guard stands here", "start one with `tidegate run`"));
    };
    let interfaces = interfaces::list()?;
    let named = asked.named(&interfaces);
    let mut stage = Stage { rehearsal, interfaces, named };
    let is_ours = asked.pcap.is_none();
    let explained: Vec<Explained> =
        packets.iter().map(|packet| stage.explain(packet, is_ours)).collect::<Result<_>>()?;
    if !asked.json {
        let texts: Vec<String> = explained.iter().map(text).collect();
        output::print(&texts.join("\n"))
    } else if is_ours {
        output::print_json(&explained[0])
    } else {
        output::print_json(&explained)
    }
}

/// Everything that a SYN is explained with.
struct Stage {
    rehearsal: Rehearsal,
    interfaces: Vec<Interface>,
    named: Option<String>,
}

impl Stage {
    /// `is_ours`: nobody sent it, and another one has another initial sequence number.
    fn explain(&mut self, packet: &Packet, is_ours: bool) -> Result<Explained> {
        let syn = packet.syn;
        let met = configuration::covering(self.rehearsal.guards(), syn.to).cloned();
        let mut explained = Explained::of(&syn);
        explained.guard = met.as_ref().map(|(_, guarded)| GuardMet::of(guarded));
        let interface = match self.interface(&syn) {
            // Of a capture, which may be another host's, the others are explained all the same.
            Err(failure @ Failure::Argument { .. }) if !is_ours && self.named.is_none() => {
                explained.words = format!("not known: {failure}");
                return Ok(explained);
            }
            found => found?,
        };
        let found = self.ask(packet, &interface)?;
        explained.interface = Some(interface.name.clone());
        explained.verdict = Some(VERDICTS[TG_PASS as usize]);
        match (found, &met) {
            (Found::Judged { entry, slot, decision }, Some((index, guarded))) => {
                explained.judged_at = Some(if entry == Entry::Driver { "driver" } else { "ip" });
                let (verdict, reason) = names(decision);
                (explained.verdict, explained.reason) = (Some(verdict), Some(reason));
                explained.words = outcome::words(decision);
                explained.listener = self.listener(*index, guarded, &syn, &interface, slot)?;
                let policy = self.rehearsal.shed_policy_now(*index, guarded)?;
                explained.notes = notes(guarded, policy, decision, is_ours);
                if is_ours && policy == TG_SBPD || self.rehearsal.draws_lots(*index, guarded)? {
                    explained.shares = self.shares(packet, &interface, is_ours)?;
                }
            }
            (Found::Held, _) => {
                explained.verdict = Some(VERDICTS[TG_DROP as usize]);
                explained.words =
                    "dropped in silence: these addresses and ports are held in TIME-WAIT here"
                        .to_owned();
                if is_ours {
                    explained.notes.push(
                        "its time stamp is made up: one that goes on from the last connection's passes"
                            .to_owned(),
                    );
                }
            }
            _ => explained.words = self.unjudged(&syn, &interface, found, met.as_ref(), is_ours)?,
        }
        Ok(explained)
    }

    fn ask(&mut self, packet: &Packet, interface: &Interface) -> Result<Found> {
        let frame = packet.at(interfaces::hardware_address(&interface.name));
        self.rehearsal.ask(&packet.syn, interface, &frame).map_err(in_part)
    }

    /// What becomes of many such SYNs: most frequent first.
    fn shares(
        &mut self,
        packet: &Packet,
        interface: &Interface,
        is_ours: bool,
    ) -> Result<Vec<Share>> {
        let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for _ in 0..TRIES {
            let found = if is_ours {
                self.ask(&Packet::of_linux(packet.syn.from, packet.syn.to), interface)?
            } else {
                self.ask(packet, interface)?
            };
            if let Found::Judged { decision, .. } = found {
                *counts.entry((decision.verdict, decision.reason)).or_default() += 1;
            }
        }
        let mut shares: Vec<Share> = counts
            .into_iter()
            .map(|((verdict, reason), count)| {
                let decision = tg_decision { verdict, reason };
                let share = f64::from(count) / f64::from(TRIES);
                let (verdict, reason) = names(decision);
                Share { share, verdict, reason, words: outcome::words(decision) }
            })
            .collect();
        shares.sort_by(|a, b| b.share.total_cmp(&a.share));
        Ok(shares)
    }

    /// The listening socket behind a counter slot; one that the daemon has not seen yet is the
    /// only one that takes such SYNs.
    fn listener(
        &self,
        index: u32,
        guarded: &Guarded,
        syn: &Syn,
        interface: &Interface,
        slot: u32,
    ) -> Result<Option<ListenerMet>> {
        // Another host's gets it, whatever listens on this port here.
        if guarded.is_path {
            return Ok(None);
        }
        let slots = counters::slots(self.rehearsal.live());
        let cookie = slots.iter().find(|(owner, at)| owner.0 == index && **at == slot);
        let rows = self.takers(syn, interface)?;
        let row = match cookie {
            Some(((_, cookie), _)) => rows.iter().find(|row| row.socket_cookie == *cookie),
            None => rows.first().filter(|_| rows.len() == 1),
        };
        let Some(row) = row else { return Ok(None) };
        let overload = match guarded.rules.is_auto {
            0 => None,
            _ => Some(OverloadStatus::read(self.rehearsal.live(), slot)?),
        };
        Ok(Some(ListenerMet {
            address: SocketAddr::new(row.address(), row.port as u16).to_string(),
            listen_queue: Queue { length: row.listen_len, limit: row.listen_max },
            syn_queue: Queue { length: row.syn_len, limit: row.listen_max },
            overload,
        }))
    }
}
