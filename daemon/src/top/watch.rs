// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens a second: what of a status is another than in the one before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use tidegate_policy::names::{REASONS, VERDICTS};
use tidegate_policy::raw::*;
use tidegate_policy::{is_refusal, lets_in};

use crate::status::{GuardStatus, ListenerStatus, Status, Verdicts, each};

/// Looks that are remembered.
pub const REMEMBERED: usize = 240;

/// What became of clients: a number of them, or so many a second.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Fates<T> {
    /// There was room for them, or they were forwarded.
    pub let_in: T,
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

/// Who counts: the guard of a port, or of an address on it, all that it judges; and with a socket's cookie
/// what comes to that. A socket that is bound to every address may be of several guards.
type Owner = (u16, Option<String>, Option<u64>);

fn owner(guard: &GuardStatus, socket_cookie: Option<u64>) -> Owner {
    (guard.port, guard.address.clone(), socket_cookie)
}

fn sockets_of(status: &Status) -> impl Iterator<Item = (Owner, &ListenerStatus)> {
    let of =
        |guard: &GuardStatus, socket: &ListenerStatus| owner(guard, Some(socket.socket_cookie));
    let guards = status.guards.iter();
    guards.flat_map(move |guard| guard.listeners.iter().map(move |one| (of(guard, one), one)))
}

/// What became of clients by who counts, and when that was seen.
type Totals = BTreeMap<Owner, (Instant, Fates<u64>)>;

/// Of each socket, and of each guard: that counts for sockets which have no place of their own, or are gone,
/// and a path has none.
fn totals(status: &Status, now: Instant) -> Totals {
    let sockets = sockets_of(status).map(|(owner, socket)| (owner, &socket.verdicts));
    let guards = status.guards.iter().map(|guard| (owner(guard, None), &guard.verdicts));
    sockets.chain(guards).map(|(owner, verdicts)| (owner, (now, fates(verdicts)))).collect()
}

/// Those of this look, and of the sockets that it misses and the one before had. The second that misses one says
/// that it is gone, as it does to the daemon, which then gives its counts away.
fn kept(now: Totals, before: Totals, looked_before: Option<Instant>) -> Totals {
    let missed = |((_, _, socket), (seen_at, _)): &(Owner, (Instant, _))| {
        socket.is_some() && Some(*seen_at) == looked_before
    };
    let mut all: Totals = before.into_iter().filter(missed).collect();
    all.extend(now);
    all
}

/// Packets of each guard by reason and verdict. Those of all would fall when one is taken out.
type Counts = BTreeMap<(Owner, &'static str, &'static str), u64>;

fn number(names: &[&str], name: &str) -> u32 {
    names.iter().position(|known| *known == name).unwrap_or(names.len()) as u32
}

fn fates(verdicts: &Verdicts) -> Fates<u64> {
    let mut fates = Fates::default();
    for (reason, verdict, count) in each(verdicts) {
        let (reason, verdict) = (number(&REASONS, reason), number(&VERDICTS, verdict));
        let decision = tg_decision { verdict, reason };
        let to = match verdict {
            // A FIN is nobody's attempt to come in.
            _ if reason >= TG_FIN_ENDS => continue,
            _ if lets_in(decision) => &mut fates.let_in,
            _ if !is_refusal(decision) => continue,
            TG_RESET | TG_HOLLOW => &mut fates.refused,
            _ => &mut fates.silent,
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
    /// The same now, by who counts.
    by_owner: BTreeMap<Owner, Fates<f64>>,
    /// Most a second first.
    pub causes: Vec<Cause>,
    seen_at: Option<Instant>,
    counts: Counts,
    totals: Totals,
}

/// Counts that begin anew, as those of another guard do, are all of this time.
fn per_s(now: u64, before: u64, passed_s: f64) -> f64 {
    now.checked_sub(before).unwrap_or(now) as f64 / passed_s
}

fn fates_per_s(now: Fates<u64>, before: Fates<u64>, passed_s: f64) -> Fates<f64> {
    Fates {
        let_in: per_s(now.let_in, before.let_in, passed_s),
        refused: per_s(now.refused, before.refused, passed_s),
        silent: per_s(now.silent, before.silent, passed_s),
    }
}

fn counts(status: &Status) -> Counts {
    let of = |guard: &GuardStatus| {
        let owner = owner(guard, None);
        let each = each(&guard.verdicts).map(move |(r, v, count)| ((owner.clone(), r, v), count));
        each.collect::<Vec<_>>()
    };
    status.guards.iter().flat_map(of).collect()
}

impl Watch {
    /// Takes in another look. The first says nothing of a second.
    pub fn see(&mut self, status: Option<Status>, now: Instant) {
        let looked_before = self.seen_at.replace(now);
        let passed_s = looked_before.map(|before| (now - before).as_secs_f64());
        let empty = Status::default();
        let seen = status.as_ref().unwrap_or(&empty);
        let counts = counts(seen);
        let totals = totals(seen, now);
        if let Some(passed_s) = passed_s.filter(|passed_s| *passed_s > 0.0) {
            self.compare(&counts, &totals, passed_s);
        }
        (self.status, self.counts) = (status, counts);
        self.totals = kept(totals, std::mem::take(&mut self.totals), looked_before);
    }

    fn compare(&mut self, counts: &Counts, totals: &Totals, passed_s: f64) {
        let rates = |(owner, (now_at, now)): (&Owner, &(Instant, Fates<u64>))| {
            let per_s = match self.totals.get(owner) {
                Some((at, before)) => fates_per_s(*now, *before, (*now_at - *at).as_secs_f64()),
                None => fates_per_s(*now, Fates::default(), passed_s),
            };
            (owner.clone(), per_s)
        };
        self.by_owner = totals.iter().map(rates).collect();
        let mut by_name: BTreeMap<_, (f64, u64)> = BTreeMap::new();
        for (name, count) in counts {
            let before = self.counts.get(name).copied().unwrap_or(0);
            let (rate, all) = by_name.entry((name.1, name.2)).or_default();
            *rate += per_s(*count, before, passed_s);
            *all += count;
        }
        let cause = |((reason, verdict), (per_s, all))| Cause { reason, verdict, per_s, all };
        let mut causes: Vec<Cause> = by_name.into_iter().map(cause).collect();
        causes.sort_by(|a, b| b.per_s.total_cmp(&a.per_s).then(b.all.cmp(&a.all)));
        self.causes = causes;
        let guards = || self.by_owner.iter().filter(|((.., socket), _)| socket.is_none());
        // The sum of none would be -0.
        let sum = |of: fn(&Fates<f64>) -> f64| guards().map(|(_, f)| of(f)).fold(0.0, |a, b| a + b);
        self.history.push_back(Fates {
            let_in: sum(|fates| fates.let_in),
            refused: sum(|fates| fates.refused),
            silent: sum(|fates| fates.silent),
        });
        let too_many = self.history.len().saturating_sub(REMEMBERED);
        self.history.drain(..too_many);
    }

    /// Every listening socket with its rates, first who has most trouble.
    pub fn sockets(&self) -> Vec<(&ListenerStatus, Fates<f64>)> {
        let sockets = self.status.iter().flat_map(sockets_of);
        let fates = |owner: &Owner| self.by_owner.get(owner).copied().unwrap_or_default();
        let mut sockets: Vec<_> = sockets.map(|(owner, socket)| (socket, fates(&owner))).collect();
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
                    ("Room", "pass", 150),
                    ("Exempt", "pass", 50),
                    ("NewFirst", "reset", 410),
                    ("WaitLimit", "hollow", 100),
                    ("HollowAnswered", "reset", 90),
                    ("WaitLimit", "drop", 50),
                    ("ListenQFullAtSyn", "pass", 30),
                    ("FinEnds", "reset", 900),
                ],
            ],
            2,
        );
        let expected = Fates { let_in: 110.0, refused: 250.0, silent: 40.0 };
        assert_eq!(watch.sockets()[0].1, expected);
        assert_eq!(watch.history, [expected]);
        let first = &watch.causes[0];
        assert_eq!((first.reason, first.per_s, first.all), ("FinEnds", 450.0, 900));
    }

    /// Of a router nothing listens here.
    #[test]
    fn what_passes_a_path_is_of_no_socket() {
        let at = |forwarded, dropped| {
            let counted = [("Forwarded", "pass", forwarded), ("ShedStateless", "drop", dropped)];
            Status { guards: vec![guard(vec![], &counted)], ..Status::default() }
        };
        let (mut watch, begun) = (Watch::default(), Instant::now());
        watch.see(Some(at(5, 5)), begun);
        watch.see(Some(at(905, 105)), begun + Duration::from_secs(1));
        assert_eq!(watch.history, [Fates { let_in: 900.0, refused: 0.0, silent: 100.0 }]);
    }

    /// One application listens on every address; one of these is guarded in another way.
    #[test]
    fn a_socket_of_two_guards_has_the_rates_of_each() {
        let of = |address: Option<&str>, counted: &[Counted]| GuardStatus {
            address: address.map(str::to_owned),
            ..guard(vec![listener(counted)], counted)
        };
        let at = |all: u64, one: u64| Status {
            guards: vec![
                of(None, &[("NewFirst", "reset", all)]),
                of(Some("192.0.2.1"), &[("NewFirst", "drop", one)]),
            ],
            ..Status::default()
        };
        let (mut watch, begun) = (Watch::default(), Instant::now());
        watch.see(Some(at(10, 5)), begun);
        watch.see(Some(at(110, 25)), begun + Duration::from_secs(1));
        let refused = Fates { refused: 100.0, ..Fates::default() };
        let silent = Fates { silent: 20.0, ..Fates::default() };
        assert_eq!(watch.sockets().iter().map(|s| s.1).collect::<Vec<_>>(), [refused, silent]);
        assert_eq!(watch.history, [Fates { refused: 100.0, silent: 20.0, let_in: 0.0 }]);
    }

    /// The iterator may pass one over while another closes.
    #[test]
    fn a_socket_that_a_look_has_missed_has_not_begun_anew() {
        let at = |count| {
            let counted = [("NewFirst", "reset", count)];
            Status { guards: vec![guard(vec![listener(&counted)], &counted)], ..Status::default() }
        };
        let missed = |count| {
            let counted = [("NewFirst", "reset", count)];
            Status { guards: vec![guard(vec![], &counted)], ..Status::default() }
        };
        let (mut watch, begun) = (Watch::default(), Instant::now());
        let mut refused = |second, status| {
            watch.see(Some(status), begun + Duration::from_secs(second));
            watch.sockets().first().map(|(_, fates)| fates.refused)
        };
        assert_eq!(refused(0, at(9_000_000)), Some(0.0));
        assert_eq!(refused(1, missed(9_000_004)), None);
        assert_eq!(refused(2, at(9_000_010)), Some(5.0), "of both seconds");
        assert_eq!(refused(3, at(9_000_030)), Some(20.0));
        for second in [4, 5] {
            assert_eq!(refused(second, missed(9_000_030)), None);
        }
        assert_eq!(watch.totals.len(), 1, "of one that is gone nothing is kept");
    }

    #[test]
    fn counts_that_begin_anew_are_no_rates_below_nothing() {
        let watch = after([&[("NewFirst", "reset", 5000)], &[("NewFirst", "reset", 40)]], 1);
        assert_eq!(watch.history[0].refused, 40.0);
    }

    /// What was counted before is none of this time's.
    #[test]
    fn a_guard_that_is_taken_out_leaves_no_packets_of_the_others() {
        let of = |port, count| GuardStatus { port, ..guard(vec![], &[("Room", "pass", count)]) };
        let see = |guards| Some(Status { guards, ..Status::default() });
        let (mut watch, begun) = (Watch::default(), Instant::now());
        watch.see(see(vec![of(80, 9_000_000), of(443, 1_000_000)]), begun);
        watch.see(see(vec![of(443, 1_000_050)]), begun + Duration::from_secs(1));
        let cause = &watch.causes[0];
        assert_eq!((cause.per_s, cause.all), (50.0, 1_000_050));
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
