// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is told of a SYN: as JSON, and in words.

use std::fmt::Write;

use serde::Serialize;
use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::raw::*;
use tidegate_datapath::rehearsal::Syn;
use tidegate_policy::names::{REASONS, SHED_FALLBACKS, SHED_KEYS, VERDICTS};
use tidegate_policy::raw::*;

use crate::status::{OverloadStatus, Queue};
use crate::{hook, shed};

/// What would become of one SYN.
#[derive(Debug, Serialize)]
pub struct Explained {
    /// The client.
    pub from: String,
    /// The server.
    pub to: String,
    /// The initial sequence number.
    pub isn: u32,
    /// The interface that it comes in at; null: that is not known.
    pub interface: Option<String>,
    /// The guard that it falls under; null: none.
    pub guard: Option<GuardMet>,
    /// Where it was judged: `driver` or `ip`; null where no guard decides.
    pub judged_at: Option<&'static str>,
    /// The listening socket that the kernel would give it to; null where there is none, or which of
    /// several is not known, or where no guard decides.
    pub listener: Option<ListenerMet>,
    /// By the names of `tidegate status`; null where it is not known which interface it comes in at.
    pub verdict: Option<&'static str>,
    /// Likewise; null where no guard decides.
    pub reason: Option<&'static str>,
    /// Both in words.
    pub words: String,
    /// Where chance has a part: what became of so many tries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<Share>,
    /// What the answer hangs on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Explained {
    /// Of a SYN of which nothing is known yet.
    pub fn of(syn: &Syn) -> Self {
        Explained {
            from: syn.from.to_string(),
            to: syn.to.to_string(),
            isn: syn.isn,
            interface: None,
            guard: None,
            judged_at: None,
            listener: None,
            verdict: None,
            reason: None,
            words: String::new(),
            shares: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// A guard of the configuration.
#[derive(Debug, Serialize)]
pub struct GuardMet {
    /// The port.
    pub port: u16,
    /// The address; null: every one.
    pub address: Option<String>,
    /// The mechanism and what is shed, by the papers' names.
    pub mechanism: String,
    /// Where it is configured to decide.
    pub hook: &'static str,
    /// A `[[path]]`.
    pub is_path: bool,
}

impl GuardMet {
    /// As it is configured.
    pub fn of(guarded: &Guarded) -> Self {
        GuardMet {
            port: guarded.port,
            address: guarded.address.map(|a| a.to_string()),
            mechanism: shed::described(guarded),
            hook: hook::name(guarded.hook),
            is_path: guarded.is_path,
        }
    }
}

/// A listening socket, at this moment.
#[derive(Debug, Serialize)]
pub struct ListenerMet {
    /// The address and port that it is bound to.
    pub address: String,
    /// Connections waiting for accept().
    pub listen_queue: Queue,
    /// Half-open connections.
    pub syn_queue: Queue,
    /// What auto knows, where the mechanism is auto.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overload: Option<OverloadStatus>,
}

/// One outcome among several.
#[derive(Debug, Serialize)]
pub struct Share {
    /// Of all tries.
    pub share: f64,
    /// By the names of `tidegate status`.
    pub verdict: &'static str,
    /// Likewise.
    pub reason: &'static str,
    /// Both in words.
    pub words: String,
}

/// Of a verdict and its reason, as `tidegate status` has them.
pub fn names(decision: tg_decision) -> (&'static str, &'static str) {
    (VERDICTS[decision.verdict as usize], REASONS[decision.reason as usize])
}

/// As `tidegate status` says it of a policy that has fallen back to this one.
fn fallen_back(policy: u32) -> String {
    let to = if policy == TG_RBD { TG_FALLBACK_UNIFORM } else { TG_FALLBACK_STATELESS };
    format!("the target was missed: fallen back to {}", SHED_FALLBACKS[to as usize])
}

/// What the answer hangs on, beside the queues. `shed_policy`: the one in force.
pub fn notes(
    guarded: &Guarded,
    shed_policy: u32,
    decision: tg_decision,
    is_ours: bool,
) -> Vec<String> {
    let mut notes = Vec::new();
    if guarded.hook == TG_HOOK_TCP {
        notes.push(
            "judged at the TCP entry, behind the host's firewall; answered here by the same stage at the IP entry"
                .to_owned(),
        );
    }
    if shed_policy != guarded.shed.policy {
        notes.push(fallen_back(shed_policy));
    }
    match shed_policy {
        TG_SLPD => notes.push(format!(
            "slpd goes by {}: its SYNs fare alike until others are chosen, every 275 s",
            SHED_KEYS[guarded.shed.key as usize & 1]
        )),
        TG_SBPD => notes.push(
            "sbpd draws for each connection by its initial sequence number: all its SYNs fare alike"
                .to_owned(),
        ),
        _ => {}
    }
    if decision.verdict == TG_COOKIE && is_ours {
        notes.push(
            "its options are Linux's (MSS, SACK, timestamps, window scale): all of them fit a cookie"
                .to_owned(),
        );
    }
    if guarded.rules.is_auto != 0 {
        notes.push(
            "auto goes by who comes: this client is new, unless its very SYN was here before"
                .to_owned(),
        );
    }
    if decision.reason == TG_REFUSAL_LIMIT {
        notes.push("every processor has a limit of its own: this is one's".to_owned());
    }
    notes
}

/// A few lines for each.
pub fn text(e: &Explained) -> String {
    let mut out = String::new();
    let Explained { from, to, isn, words, .. } = e;
    let place = e.interface.as_ref().map_or(String::new(), |name| format!(", in at {name}"));
    let _ = writeln!(out, "SYN {from} > {to}, sequence number {isn}{place}");
    if let Some(g) = &e.guard {
        let address = g.address.as_deref().unwrap_or("*");
        let kind = if g.is_path { "path" } else { "guard" };
        let _ =
            writeln!(out, "  {kind:<9} {address} port {}: {} at {}", g.port, g.mechanism, g.hook);
    }
    if let Some(l) = &e.listener {
        let _ = writeln!(
            out,
            "  listener  {}: listen queue {} of {}, SYN queue {} of {}",
            l.address,
            l.listen_queue.length,
            l.listen_queue.limit,
            l.syn_queue.length,
            l.syn_queue.limit,
        );
        if let Some(overload) = &l.overload {
            let _ = writeln!(out, "  phase     {}", overload.line());
        }
    }
    let reason = e.reason.map_or(String::new(), |reason| format!(" ({reason})"));
    let place = match e.judged_at {
        Some("driver") => ", at the driver",
        Some(_) => ", at the IP entry",
        None => "",
    };
    let _ = writeln!(out, "  verdict   {words}{reason}{place}");
    for (i, share) in e.shares.iter().enumerate() {
        let key = if i == 0 { "share" } else { "" };
        let percent = share.share * 100.0;
        let _ = writeln!(out, "  {key:<9} {percent:.1} % {} ({})", share.words, share.reason);
    }
    for note in &e.notes {
        let _ = writeln!(out, "  note      {note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use tidegate_policy::shed::policy_now;

    use super::*;

    #[test]
    fn a_syn_that_comes_in_nobody_knows_where_is_told_in_words_alone() {
        let (from, to) = ("192.0.2.9:40000".parse().unwrap(), "192.0.2.1:443".parse().unwrap());
        let syn = Syn { from, to, isn: 7 };
        let e = Explained { words: "not known: why".to_owned(), ..Explained::of(&syn) };
        let told = "SYN 192.0.2.9:40000 > 192.0.2.1:443, sequence number 7\n  \
                    verdict   not known: why\n";
        assert_eq!(text(&e), told);
        let json = serde_json::to_value(&e).unwrap();
        assert!(json["interface"].is_null() && json["verdict"].is_null(), "{json}");
    }

    #[test]
    fn a_shed_policy_that_has_fallen_back_is_told_as_what_it_is_now() {
        let decision = tg_decision { verdict: TG_DROP, reason: TG_SHED_UNIFORM };
        let told = |configured, fallback| {
            let shed = tg_shed_rules::new(configured, TG_KEY_CLIENT, 0.5, 5);
            let guarded = Guarded { shed, ..Guarded::default() };
            let state = tg_shed_state { fallback, ..Default::default() };
            notes(&guarded, policy_now(&shed, &state), decision, true)
        };
        let (slpd, sbpd) = ("slpd goes by client", "sbpd draws for each connection");
        for (configured, fallback, starts) in [
            (TG_SLPD, TG_FALLBACK_NONE, &[slpd][..]),
            (TG_SBPD, TG_FALLBACK_NONE, &[sbpd]),
            (
                TG_SBPD,
                TG_FALLBACK_STATELESS,
                &["the target was missed: fallen back to stateless", slpd],
            ),
            (TG_SLPD, TG_FALLBACK_UNIFORM, &["the target was missed: fallen back to uniform"]),
            (TG_SBPD, TG_FALLBACK_UNIFORM, &["the target was missed: fallen back to uniform"]),
        ] {
            let told = told(configured, fallback);
            let as_expected = told.iter().zip(starts).all(|(note, start)| note.starts_with(start));
            assert!(told.len() == starts.len() && as_expected, "{told:?}");
        }
    }
}
