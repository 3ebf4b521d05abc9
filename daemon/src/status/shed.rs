// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of persistent dropping.

use serde::Serialize;
use tidegate_datapath::clock;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::shed::condition;
use tidegate_policy::names::{SHED_FALLBACKS, SHED_KEYS, SHED_POLICIES, SHED_REFUSALS};
use tidegate_policy::raw::{TG_RBD, tg_shed_rules};

use crate::failure::Result;
use crate::shed::as_written;

/// Persistent dropping of one guard.
#[derive(Debug, Serialize)]
pub struct ShedStatus {
    /// `rbd`, `slpd` or `sbpd`.
    pub policy: &'static str,
    /// What is dropped as one: `client` (H1) or `connection` (H2); with `rbd` it says nothing.
    pub key: &'static str,
    /// The probability that is asked for, with `rbd` that of each SYN; where it is controlled, the one in force.
    pub p: f64,
    /// The control of `p`, where it is "auto".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<ControlStatus>,
    /// The form of refusal.
    pub refuse: &'static str,
    /// `none`, or what it fell back to because the target was missed.
    pub fallback: &'static str,
    /// How often it fell back, or came back.
    pub fallback_changes: u32,
    /// Preferred proxies are not exempt at present: with them the target was missed.
    pub preferred_judged: bool,
    /// SYNs of preferred proxies that were let through and would have been dropped.
    pub spared: u64,
    /// Entries of its part of the table (M of Eq. 9).
    pub cells: u64,
    /// Of them, those with a time stamp that stands.
    pub cells_in_use: u64,
}

/// What the control of `p` knows.
#[derive(Debug, Serialize)]
pub struct ControlStatus {
    /// New connections that come, a second.
    pub fresh_per_s: f64,
    /// Those that the listener drains, or the rate set by hand.
    pub drain_per_s: f64,
    /// Whether the rate was set by hand.
    pub by_hand: bool,
}

impl ShedStatus {
    /// Of the guard with this number.
    pub fn of(programs: &Programs, index: u32, rules: &tg_shed_rules) -> Result<Self> {
        let condition = condition(programs, index, rules)?;
        let name = |names: &[&'static str], at: u32| names.get(at as usize).copied().unwrap_or("?");
        // A step is a SYN's: where none comes any more the numbers of its time are left.
        let control = condition.state.control.at(clock::monotonic_ns());
        let drain_per_s = match rules.rate_per_s {
            0 => control.drain_per_s().round(),
            by_hand => by_hand.into(),
        };
        Ok(Self {
            policy: name(&SHED_POLICIES, rules.policy),
            key: name(&SHED_KEYS, rules.key),
            p: as_written(if rules.is_auto != 0 { control.p() } else { rules.p() }),
            auto: (rules.is_auto != 0).then(|| ControlStatus {
                fresh_per_s: control.fresh_per_s().round(),
                drain_per_s,
                by_hand: rules.rate_per_s != 0,
            }),
            refuse: name(&SHED_REFUSALS, rules.refusal),
            fallback: name(&SHED_FALLBACKS, condition.state.fallback),
            fallback_changes: condition.state.changes,
            preferred_judged: condition.state.preferred_judged != 0,
            spared: condition.spared,
            cells: condition.cells,
            cells_in_use: condition.standing,
        })
    }

    /// For people.
    pub fn lines(&self) -> Vec<String> {
        let Self { policy, key, p, refuse, cells, cells_in_use, .. } = self;
        // It draws for every SYN, and remembers nobody.
        let is_by_lot = *policy == SHED_POLICIES[TG_RBD as usize];
        let sheds = if is_by_lot {
            format!("{p} of the SYNs with {policy}, {refuse}")
        } else {
            format!("{p} by {key} with {policy}, {refuse}; table: {cells_in_use} of {cells} in use")
        };
        let mut lines = vec![format!("sheds {sheds}")];
        if let Some(ControlStatus { fresh_per_s, drain_per_s, by_hand }) = self.auto {
            let drain = if by_hand { "set by hand" } else { "drained" };
            lines.push(format!("p is controlled: {fresh_per_s}/s new, {drain_per_s}/s {drain}"));
        }
        if self.fallback != "none" {
            lines.push(format!("the target was missed: fallen back to {}", self.fallback));
        }
        if self.preferred_judged {
            lines.push("the target was missed: preferred proxies are not exempt".to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(policy: &'static str) -> ShedStatus {
        ShedStatus {
            policy,
            key: "connection",
            p: 0.5,
            auto: None,
            refuse: "silence",
            fallback: "none",
            fallback_changes: 0,
            preferred_judged: false,
            spared: 0,
            cells: 6208,
            cells_in_use: 7,
        }
    }

    #[test]
    fn what_is_shed_by_lot_is_syns_and_there_is_no_table() {
        let slpd = "sheds 0.5 by connection with slpd, silence; table: 7 of 6208 in use";
        assert_eq!(status("slpd").lines(), [slpd]);
        let rbd = ShedStatus { cells: 0, cells_in_use: 0, ..status("rbd") };
        assert_eq!(rbd.lines(), ["sheds 0.5 of the SYNs with rbd, silence"]);
    }
}
