// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of how an application accepts (Pariag, thesis, 2004).

use serde::Serialize;
use tidegate_datapath::clock;
use tidegate_policy::accepts::{Advice, Seen};
use tidegate_policy::raw::tg_accepts;

use crate::size::to_thousandths;

/// How the application of a listening socket has accepted while clients found no room.
#[derive(Debug, Serialize)]
pub struct AcceptsStatus {
    /// What Pariag would change: `keep`, `more` or `fewer` at a time; `untold` where it cannot be said.
    pub advice: &'static str,
    /// SYNs let in, a second: as many as it takes, or more where ACKs find the queue full.
    pub let_in_per_s: f64,
    /// How many at a time; absent where they are one or a few, or where it cannot be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_a_time: Option<f64>,
    /// Whether it can be told.
    #[serde(skip)]
    pub is_told: bool,
    /// The share of those times in which the listen queue was emptied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emptied: Option<f64>,
    /// Connections in the listen queue, in the mean.
    pub waiting: f64,
    /// The share of SYNs that found no room.
    pub refused: f64,
}

fn advice_name(advice: Advice) -> &'static str {
    match advice {
        Advice::Keep => "keep",
        Advice::More => "more",
        Advice::Fewer => "fewer",
        Advice::Untold => "untold",
    }
}

impl AcceptsStatus {
    /// Of what was seen within the last seconds, if that says anything.
    pub fn of(accepts: &tg_accepts) -> Option<Self> {
        accepts.seen(clock::monotonic_ns()).map(|seen| Self::of_seen(&seen))
    }

    fn of_seen(seen: &Seen) -> Self {
        AcceptsStatus {
            advice: advice_name(seen.advice()),
            let_in_per_s: seen.let_in_per_s.round(),
            at_a_time: seen.at_a_time.map(f64::round),
            is_told: seen.is_told,
            emptied: seen.at_a_time.map(|_| to_thousandths(seen.emptied)),
            waiting: seen.waiting.round(),
            refused: to_thousandths(seen.refused),
        }
    }

    /// The advice, and what it is drawn from.
    pub fn line(&self) -> String {
        let advice = match self.advice {
            "more" => "accept more at a time",
            "fewer" => "accept fewer at a time",
            "keep" => "nothing to change",
            _ => "cannot be told: SYNs come too unevenly, or the queue is kept too short",
        };
        let AcceptsStatus { let_in_per_s, waiting, .. } = self;
        let refused = to_thousandths(100.0 * self.refused);
        let how = match (self.at_a_time, self.emptied) {
            (Some(many), Some(emptied)) => {
                let emptied = to_thousandths(100.0 * emptied);
                format!("{many} at a time, {emptied} % of the times all who wait")
            }
            _ if self.is_told => "few at a time".to_owned(),
            _ => "how many at a time is not seen".to_owned(),
        };
        format!(
            "accepts: {advice} ({let_in_per_s}/s let in, {how}; {waiting} wait; {refused} % of SYNs find no room)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_is_drawn_from() {
        let seen = Seen {
            let_in_per_s: 11_365.2,
            at_a_time: None,
            is_told: true,
            emptied: 0.0,
            waiting: 127.4,
            refused: 0.58,
        };
        assert_eq!(
            AcceptsStatus::of_seen(&seen).line(),
            "accepts: accept more at a time (11365/s let in, few at a time; 127 wait; 58 % of SYNs find no room)"
        );
        let all = Seen { at_a_time: Some(70.4), emptied: 0.9, waiting: 60.0, ..seen };
        assert_eq!(
            AcceptsStatus::of_seen(&all).line(),
            "accepts: accept fewer at a time (11365/s let in, 70 at a time, 90 % of the times all who wait; \
             60 wait; 58 % of SYNs find no room)"
        );
    }

    /// Whatever is advised: where hardly anybody is refused that is to keep it as it is.
    #[test]
    fn what_cannot_be_told_is_not_told_as_few() {
        let seen = Seen {
            let_in_per_s: 900.0,
            at_a_time: None,
            is_told: false,
            emptied: 0.0,
            waiting: 3.0,
            refused: 0.005,
        };
        let line = |refused| AcceptsStatus::of_seen(&Seen { refused, ..seen }).line();
        assert_eq!(
            line(0.005),
            "accepts: nothing to change (900/s let in, how many at a time is not seen; 3 wait; \
             0.5 % of SYNs find no room)"
        );
        assert_eq!(
            line(0.5),
            "accepts: cannot be told: SYNs come too unevenly, or the queue is kept too short \
             (900/s let in, how many at a time is not seen; 3 wait; 50 % of SYNs find no room)"
        );
    }
}
