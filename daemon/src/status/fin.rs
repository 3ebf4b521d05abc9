// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of rst-fin.

use serde::Serialize;
use tidegate_policy::raw::*;

use crate::fin::name;

/// rst-fin of one guard; why a connection was left alone is among the verdicts.
#[derive(Debug, Serialize)]
pub struct FinStatus {
    /// `half-close`, `rst-fin` or `rst-fin strict`, for sockets whose application says nothing.
    pub rule: &'static str,
    /// Connections ended.
    pub ended: u64,
    /// FINs that ended nothing: they closed as usual, or were not in their place.
    pub left_alone: u64,
}

impl FinStatus {
    /// By the rule in force, and what was counted.
    pub fn of(rule: u32, c: &tg_counters) -> Self {
        let stage = &c.packets[TG_FIN_ENDS as usize..=TG_FIN_UNACKED as usize];
        let judged: u64 = stage.iter().flatten().sum();
        let ended = c.packets[TG_FIN_ENDS as usize][TG_RESET as usize];
        FinStatus { rule: name(rule), ended, left_alone: judged - ended }
    }

    /// For people, where there is something to tell.
    pub fn line(&self) -> Option<String> {
        let FinStatus { rule, ended, left_alone } = self;
        let tells = *rule != name(TG_HALF_CLOSE) || ended + left_alone > 0;
        tells.then(|| format!("FIN: {rule}; {ended} ended, {left_alone} left alone"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_of_a_listener() {
        let mut counted = tg_counters::default();
        assert_eq!(FinStatus::of(TG_HALF_CLOSE, &counted).line(), None);
        counted.packets[TG_FIN_ENDS as usize][TG_RESET as usize] = 5;
        counted.packets[TG_FIN_WITH_DATA as usize][TG_PASS as usize] = 2;
        counted.packets[TG_FIN_UNACKED as usize][TG_PASS as usize] = 1;
        counted.packets[TG_FORWARDED as usize][TG_PASS as usize] = 9;
        let told = FinStatus::of(TG_RST_FIN_STRICT, &counted);
        assert_eq!((told.rule, told.ended, told.left_alone), ("rst-fin strict", 5, 3));
        assert_eq!(told.line().unwrap(), "FIN: rst-fin strict; 5 ended, 3 left alone");
        // Without the rule, applications may have asked.
        assert!(FinStatus::of(TG_HALF_CLOSE, &counted).line().is_some());
    }
}
