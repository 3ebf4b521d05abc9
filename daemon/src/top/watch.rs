// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens a second: what of a status is another than in the one before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tidegate_policy::is_refusal;
use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::*;

use crate::status::{ListenerStatus, Status, Verdicts, each};

/// Looks that are remembered.
pub const REMEMBERED: usize = 240;

/// What became of clients: a number of them, or so many a second.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Fates<T> {
    /// Their handshake ended with a place in the listen queue.
    pub connected: T,
    /// They were told that there is no room.
    pub refused: T,
    /// They were left in silence, by us or by the kernel.
    pub silent: T,
}

/// One reason and verdict, of all guards.
#[derive(Debug, PartialEq)]
pub struct Cause {
    /// The reason.
    pub reason: &'static str,
    /// What was done.
    pub verdict: &'static str,
    /// Packets a second.
    pub per_s: f64,
    /// Packets so far.
    pub all: u64,
}

/// Packets by reason and verdict.
type Counts = BTreeMap<(&'static str, &'static str), u64>;

fn number(names: &[&str], name: &str) -> u32 {
    names.iter().position(|known| *known == name).unwrap_or(names.len()) as u32
}

fn fates(verdicts: &Verdicts) -> Fates<u64> {
    let mut fates = Fates::default();
    for (reason, verdict, count) in each(verdicts) {
        let (reason, verdict) = (number(&REASONS, reason), number(&VERDICTS, verdict));
        let to = match verdict {
            // A FIN is nobody's attempt to come in.
            _ if reason >= TG_FIN_ENDS => continue,
            TG_ADMIT => &mut fates.connected,
            TG_PASS if reason == TG_HANDSHAKE => &mut fates.connected,
            TG_RESET | TG_HOLLOW => &mut fates.refused,
            TG_DROP => &mut fates.silent,
            _ if is_refusal(tg_decision { verdict, reason }) => &mut fates.silent,
            _ => continue,
        };
        *to += count;
    }
    fates
}

/// By the last two looks.
#[derive(Default)]
pub struct Watch {
    /// What there is now; `None`: nothing stands.
    pub status: Option<Status>,
    /// What happened a second, the last at the end.
    pub history: VecDeque<Fates<f64>>,
    /// The same now, by listening socket.
    by_socket: BTreeMap<u64, Fates<f64>>,
    /// Most a second first.
    pub causes: Vec<Cause>,
    seen_at: Option<Instant>,
    counts: Counts,
    totals: BTreeMap<u64, Fates<u64>>,
}

/// Counts that begin anew, as those of another guard do, are all of this time.
fn per_s(now: u64, before: u64, passed_s: f64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64 / passed_s
}

fn fates_per_s(now: Fates<u64>, before: Fates<u64>, passed_s: f64) -> Fates<f64> {
    Fates {
        connected: per_s(now.connected, before.connected, passed_s),
        refused: per_s(now.refused, before.refused, passed_s),
        silent: per_s(now.silent, before.silent, passed_s),
    }
}

fn counts(status: &Status) -> Counts {
    let mut counts = Counts::new();
    for (reason, verdict, count) in status.guards.iter().flat_map(|guard| each(&guard.verdicts)) {
        *counts.entry((reason, verdict)).or_default() += count;
    }
    counts
}

impl Watch {
    /// Takes in another look. The first says nothing of a second.
    pub fn see(&mut self, status: Option<Status>, now: Instant) {
        let passed_s = self.seen_at.map(|before| (now - before).as_secs_f64());
        self.seen_at = Some(now);
        let empty = Status::default();
        let seen = status.as_ref().unwrap_or(&empty);
        let counts = counts(seen);
        let sockets = seen.guards.iter().flat_map(|guard| &guard.listeners);
        let totals: BTreeMap<u64, _> =
            sockets.map(|socket| (socket.socket_cookie, fates(&socket.verdicts))).collect();
        if let Some(passed_s) = passed_s.filter(|passed_s| *passed_s > 0.0) {
            self.compare(&counts, &totals, passed_s);
        }
        (self.status, self.counts, self.totals) = (status, counts, totals);
    }

    fn compare(&mut self, counts: &Counts, totals: &BTreeMap<u64, Fates<u64>>, passed_s: f64) {
        let before = |cookie: &u64| self.totals.get(cookie).copied().unwrap_or_default();
        let rates = |(cookie, now): (&u64, &Fates<u64>)| {
            (*cookie, fates_per_s(*now, before(cookie), passed_s))
        };
        self.by_socket = totals.iter().map(rates).collect();
        let mut causes: Vec<Cause> = counts
            .iter()
            .map(|(name, all)| {
                let before = self.counts.get(name).copied().unwrap_or(0);
                let (reason, verdict) = *name;
                Cause { reason, verdict, per_s: per_s(*all, before, passed_s), all: *all }
            })
            .collect();
        causes.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then(b.all.cmp(&a.all)));
        self.causes = causes;
        // The sum of none would be -0.
        let sum =
            |of: fn(&Fates<f64>) -> f64| self.by_socket.values().map(of).fold(0.0, |a, b| a + b);
        self.history.push_back(Fates {
            connected: sum(|fates| fates.connected),
            refused: sum(|fates| fates.refused),
            silent: sum(|fates| fates.silent),
        });
        let too_many = self.history.len().saturating_sub(REMEMBERED);
        self.history.drain(..too_many);
    }

    /// Every listening socket with its rates, first who has most trouble.
    pub fn sockets(&self) -> Vec<(&ListenerStatus, Fates<f64>)> {
        let guards = self.status.iter().flat_map(|status| &status.guards);
        let mut sockets: Vec<_> = guards
            .flat_map(|guard| &guard.listeners)
            .map(|socket| (socket, self.by_socket.get(&socket.socket_cookie).copied()))
            .map(|(socket, fates)| (socket, fates.unwrap_or_default()))
            .collect();
        let trouble = |fates: &Fates<f64>| fates.refused + fates.silent;
        sockets.sort_by(|(_, a), (_, b)| trouble(b).total_cmp(&trouble(a)));
        sockets
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::status::example::{Counted, guard, listener};

    fn status(counted: &[Counted]) -> Status {
        Status { guards: vec![guard(vec![listener(counted)], counted)], ..Status::default() }
    }

    fn after(counted: [&[Counted]; 2], passed_s: u64) -> Watch {
        let mut watch = Watch::default();
        let begun = Instant::now();
        watch.see(Some(status(counted[0])), begun);
        let then = begun + Duration::from_secs(passed_s);
        watch.see(Some(status(counted[1])), then);
        watch
    }

    #[test]
    fn what_became_of_clients_is_told_a_second() {
        let watch = after(
            [
                &[("Handshake", "pass", 1000), ("NewFirst", "reset", 10)],
                &[
                    ("Handshake", "pass", 1200),
                    ("CookieValid", "admit", 20),
                    ("Room", "pass", 300),
                    ("NewFirst", "reset", 410),
                    ("WaitLimit", "hollow", 100),
                    ("WaitLimit", "drop", 50),
                    ("ListenQFullAtSyn", "pass", 30),
                    ("FinEnds", "reset", 900),
                ],
            ],
            2,
        );
        let expected = Fates { connected: 110.0, refused: 250.0, silent: 40.0 };
        assert_eq!(watch.sockets()[0].1, expected);
        assert_eq!(watch.history, [expected]);
        let first = &watch.causes[0];
        assert_eq!((first.reason, first.per_s, first.all), ("FinEnds", 450.0, 900));
    }

    #[test]
    fn counts_that_begin_anew_are_no_rates_below_nothing() {
        let watch = after([&[("NewFirst", "reset", 5000)], &[("NewFirst", "reset", 40)]], 1);
        assert_eq!(watch.history[0].refused, 40.0);
    }

    #[test]
    fn a_guard_that_is_gone_is_no_failure() {
        let mut watch = after([&[("NewFirst", "reset", 5)], &[("NewFirst", "reset", 9)]], 1);
        watch.see(None, Instant::now() + Duration::from_secs(5));
        assert!(watch.sockets().is_empty() && watch.causes.is_empty());
        assert_eq!(watch.history.back(), Some(&Fates::default()));
    }

    #[test]
    fn no_more_is_remembered_than_a_screen_shows() {
        let mut watch = Watch::default();
        let begun = Instant::now();
        for second in 0..REMEMBERED as u64 + 10 {
            watch.see(None, begun + Duration::from_secs(second));
        }
        assert_eq!(watch.history.len(), REMEMBERED);
    }
}
