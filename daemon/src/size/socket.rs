// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The socket whose burst it was.

use std::time::Duration;

use serde::Serialize;
use tidegate_policy::size::Seen;

use super::count::Watched;
use super::listening::bound_to;
use super::to_thousandths;

/// Who saw less than this share of the time that was asked for is told how much it was.
const WHOLE: f64 = 0.9;

/// The listening socket whose burst it was.
#[derive(Serialize)]
pub struct Socket {
    /// The address and port that it is bound to.
    address: String,
    /// How long it was watched, in s: while it listened, and had its counters under each of its guards.
    watched_s: f64,
    /// How long it was to be.
    #[serde(skip)]
    asked_s: f64,
    /// Its backlog.
    backlog: u32,
    /// Connections that waited for accept() at most.
    queued: u32,
    /// SYNs that found no room.
    dropped: u64,
    /// Whether any of them was left in silence.
    #[serde(skip)]
    comes_again: bool,
    /// Whether any of them met a RST.
    #[serde(skip)]
    may_come_again: bool,
    /// SYNs that were shed whatever room there was.
    #[serde(skip)]
    shed_anyway: u64,
    /// SYNs that were dropped for want of a refusal or a cookie, some of them perhaps whatever room there was.
    #[serde(skip)]
    unclear: u64,
    /// Whether the burst was over by the end.
    has_ended: bool,
    /// Whether so much was seen before and after it that this tells a rate.
    #[serde(skip)]
    has_calm: bool,
}

impl Socket {
    /// As it was watched, with the burst that was seen in this time.
    pub(super) fn of(watched: &Watched, seen: &Seen, lasts: Duration) -> Self {
        let row = &watched.row;
        Socket {
            address: bound_to(row).to_string(),
            watched_s: to_thousandths(watched.record.lasted_s()),
            asked_s: lasts.as_secs_f64(),
            backlog: row.listen_max,
            queued: seen.queued,
            dropped: seen.dropped,
            comes_again: watched.comes_again,
            may_come_again: watched.may_come_again,
            shed_anyway: watched.shed_anyway,
            unclear: watched.unclear,
            has_ended: seen.has_ended,
            has_calm: seen.calm_per_s.is_some(),
        }
    }

    /// In one line.
    pub fn line(&self) -> String {
        let Socket { address, watched_s, backlog, queued, dropped, .. } = self;
        format!(
            "{address}, {watched_s:.0} s: {queued} waited at most, of {backlog}; {dropped} SYNs found no room"
        )
    }

    /// Whether it was seen for a part of the time alone.
    fn is_in_part(&self) -> bool {
        self.watched_s < WHOLE * self.asked_s
    }

    /// What makes the recommendation worth less.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_in_part() {
            let Socket { watched_s, asked_s, .. } = self;
            warnings.push(format!(
                "it was seen for {watched_s:.0} s of the {asked_s:.0}: in the others the socket or its section was \
                 not there, or not counted; watch again"
            ));
        }
        if self.comes_again {
            warnings.push(
                "who is left in silence comes again, and was counted again: the burst is smaller than this"
                    .to_owned(),
            );
        }
        if self.may_come_again {
            warnings.push(
                "Windows sends its SYN again on a RST, and was counted again: the burst may be smaller than this"
                    .to_owned(),
            );
        }
        if self.shed_anyway > 0 {
            warnings.push(format!(
                "{} SYNs were shed whatever room there was, by a p or a rate_per_s: the burst is without them",
                self.shed_anyway
            ));
        }
        if self.unclear > 0 {
            warnings.push(format!(
                "{} SYNs were dropped for want of a refusal or a cookie, perhaps by police or shed whatever room there \
                 was: the burst is without them, and may be larger",
                self.unclear
            ));
        }
        if !self.has_ended {
            let told = match self.is_in_part() {
                true => "the burst had not ended when it was seen last",
                false => "the burst had not ended yet: watch for longer",
            };
            warnings.push(told.to_owned());
        }
        if !self.has_calm {
            warnings.push(
                "less than a second of calm was seen, and it is taken for none: where some wait when a burst begins, \
                 the queue is to be longer by as many"
                    .to_owned(),
            );
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use tidegate_datapath::configuration::Guarded;
    use tidegate_datapath::raw::*;
    use tidegate_policy::raw::*;
    use tidegate_policy::size::Look;

    use super::*;
    use crate::size::count::Count;
    use crate::size::example::{counted, under};

    /// By a guard under which so many of these were counted before, and at each of three looks.
    fn warnings_of(
        guarded: &Guarded,
        (reason, verdict): (u32, u32),
        counts: [u64; 4],
    ) -> Vec<String> {
        let row = tg_listener_row::default();
        let at = |count| {
            let packets = [(TG_ROOM, TG_PASS, 9), (reason, verdict, count)];
            Count::of(&[under(guarded, &packets)], &row)
        };
        let mut watched = Watched::new(row, at(counts[0]));
        for count in &counts[1..] {
            watched.see(row, at(*count)).expect("counts that go on");
        }
        Socket::of(&watched, &seen(true), Duration::ZERO).warnings()
    }

    #[test]
    fn a_burst_without_some_who_were_shed_is_told_to_be() {
        let warnings =
            warnings_of(&Guarded::default(), (TG_SHED_NEW, TG_DROP), [100, 100, 140, 150]);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("50 SYNs were shed"),
            "{warnings:?}"
        );
    }

    #[test]
    fn a_burst_without_some_of_whom_nobody_knows_whether_they_were_policed_is_told_to_be() {
        let polices = Guarded { has_limits: true, ..Guarded::default() };
        let warnings = warnings_of(&polices, (TG_REFUSAL_LIMIT, TG_DROP), [100, 100, 140, 150]);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("50 SYNs were dropped for want"),
            "{warnings:?}"
        );
    }

    /// Every half second, five in all.
    #[test]
    fn a_burst_of_which_some_met_a_rst_is_told_to_be_smaller_if_they_are_windows() {
        let told = |counts| {
            let met = (TG_LISTENQ_FULL_AT_SYN, TG_RESET);
            warnings_of(&Guarded::default(), met, counts)
        };
        let warnings = told([100, 100, 140, 150]);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("Windows sends its SYN again on a RST"),
            "{warnings:?}"
        );
        assert_eq!(told([100; 4]), [] as [&str; 0], "before it was watched");
    }

    fn seen(has_ended: bool) -> Seen {
        Seen {
            drain_per_s: 1.0,
            burst_per_s: 2.0,
            burst_s: 1.0,
            calm_per_s: Some(0.0),
            queued: 0,
            dropped: 0,
            has_ended,
        }
    }

    #[test]
    fn a_calm_that_was_not_seen_is_told_to_be_taken_for_none() {
        let watched = Watched::new(tg_listener_row::default(), counted(&[]));
        let told = |calm_per_s| {
            let seen = Seen { calm_per_s, ..seen(true) };
            Socket::of(&watched, &seen, Duration::ZERO).warnings()
        };
        assert_eq!(told(Some(0.0)), [] as [&str; 0]);
        let warnings = told(None);
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("less than a second of calm"),
            "{warnings:?}"
        );
    }

    /// Its socket has gone, or another has come: who waits for longer sees no more of it.
    #[test]
    fn what_was_watched_in_part_is_told_as_that_part() {
        let row = tg_listener_row::default();
        let told = |seen_s: u32, has_ended| {
            let mut watched = Watched::new(row, counted(&[]));
            for _ in 0..seen_s {
                watched.record.add(Look { lasted_s: 1.0, ..Look::default() });
            }
            let socket = Socket::of(&watched, &seen(has_ended), Duration::from_secs(60));
            (socket.watched_s, socket.line(), socket.warnings())
        };
        assert_eq!(told(59, true).2, [] as [&str; 0]);
        assert_eq!(told(60, false).2, ["the burst had not ended yet: watch for longer"]);
        let (watched_s, line, warnings) = told(7, false);
        assert!(watched_s == 7.0 && line.starts_with("0.0.0.0:0, 7 s: "), "{watched_s}: {line}");
        assert!(
            warnings[0].starts_with("it was seen for 7 s of the 60: ")
                && warnings[1..] == ["the burst had not ended when it was seen last"],
            "{warnings:?}"
        );
    }
}
