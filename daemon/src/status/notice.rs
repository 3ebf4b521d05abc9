// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of notices in refusals.

use serde::Serialize;
use tidegate_policy::notice;
use tidegate_policy::raw::tg_rules;

/// What refusals of one guard say.
#[derive(Debug, Serialize)]
pub struct NoticeStatus {
    /// When to come back; 0 where they do not say.
    pub come_back_s: f64,
}

impl NoticeStatus {
    /// By the rules in force; none where they say nothing.
    pub fn of(rules: &tg_rules) -> Option<Self> {
        let come_back_s = notice::time(rules.come_back_ticks).as_secs_f64();
        (rules.notice != 0).then_some(NoticeStatus { come_back_s })
    }

    /// For people.
    pub fn line(&self) -> String {
        match self.come_back_s {
            0.0 => "refusals say why".to_owned(),
            seconds => format!("refusals say why, and to come back in {seconds} s"),
        }
    }
}
