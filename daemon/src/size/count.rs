// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a listening socket has counted, and what happened between two counts.

use std::ops::RangeInclusive;
use std::time::Instant;

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::counters;
use tidegate_datapath::raw::*;
use tidegate_policy::lets_in;
use tidegate_policy::raw::*;
use tidegate_policy::size::{Look, Record};

/// What keeps a listen queue as short as it is: what it is called, and the places that this leaves.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) name: &'static str,
    pub(super) value: u32,
    pub(super) places: u32,
}

impl Bound {
    /// Where SYNs fall under several guards the queue is as long as one of them lets it become.
    pub(super) fn of<'a>(row: &tg_listener_row, guards: impl Iterator<Item = &'a Guarded>) -> Self {
        let value = row.listen_max;
        // Linux takes one more than the backlog.
        let backlog = Bound { name: "backlog", value, places: value.saturating_add(1) };
        let under = |guarded: &Guarded| {
            let limits = [("places", guarded.rules.places), ("ahead", guarded.rules.ahead)];
            let limits = limits.into_iter().filter(|(_, value)| *value > 0);
            let limits = limits.map(|(name, value)| Bound { name, value, places: value });
            limits.fold(
                backlog,
                |least, limit| if limit.places < least.places { limit } else { least },
            )
        };
        guards.map(under).max_by_key(|bound| bound.places).unwrap_or(backlog)
    }

    /// How the queue becomes one in which a burst is seen.
    pub(super) fn fix(&self) -> String {
        match self.name {
            "backlog" => "give it 128 (resize = true, backlog = 128), and watch again".to_owned(),
            name => format!("take {name} out meanwhile, and watch again"),
        }
    }
}

/// What a socket has counted under one of the guards that its SYNs fall under.
pub(super) struct Under<'a> {
    pub(super) guarded: &'a Guarded,
    pub(super) counted: tg_counters,
}

impl Under<'_> {
    /// Whether it sheds whom the server cannot drain, and a longer queue would have let in.
    fn sheds_by_the_queue(&self) -> bool {
        let shed = &self.guarded.shed;
        shed.is_auto != 0 && shed.rate_per_s == 0
    }

    /// Whether it is of those of whom it sheds a share, or what is above a rate, whatever room there is.
    fn is_shed_anyway(&self, decision: tg_decision) -> bool {
        is_shed(decision) && !self.sheds_by_the_queue()
    }

    /// Whether it is of those who may have been kept out whatever room there is. For want of a refusal, or of a
    /// cookie where the kernel's queues are not full, one is counted alike whom police or a share that is
    /// shed keeps out and who found no room: tg_syn_decide(), tg_shed_refuse().
    fn is_unclear(&self, decision: tg_decision) -> bool {
        let Guarded { shed, has_limits, .. } = self.guarded;
        let refuses_shed = shed.policy != 0 && shed.refusal != TG_REFUSE_SILENTLY;
        match (decision.reason, decision.verdict) {
            (TG_REFUSAL_LIMIT, _) => *has_limits || refuses_shed && !self.sheds_by_the_queue(),
            (TG_NO_COOKIE, TG_DROP) => *has_limits,
            _ => false,
        }
    }

    /// What it counted without these.
    fn others(&self) -> tg_counters {
        let mut counted = self.counted;
        for (reason, of) in (0..).zip(&mut counted.packets) {
            for (verdict, count) in (0..).zip(of) {
                let decision = tg_decision { verdict, reason };
                if self.is_shed_anyway(decision) || self.is_unclear(decision) {
                    *count = 0;
                }
            }
        }
        counted
    }

    fn sum(&self, is: fn(&Self, tg_decision) -> bool) -> u64 {
        sum(&self.counted, |decision| is(self, decision))
    }
}

/// Under one guard: those who were let in, and ACKs that were looked at, while it was watched.
#[derive(Clone, Copy)]
struct Heard {
    entered: u64,
    acks: u64,
}

impl Heard {
    fn of(counted: &tg_counters) -> Self {
        Heard { entered: sum(counted, lets_in), acks: sum(counted, answers) }
    }
}

/// What was counted of a socket so far, under all of its guards, and when.
pub(super) struct Count {
    at: Instant,
    arrived: u64,
    /// Arrived, and found no room. Who was answered with a cookie has found none, and is not lost.
    dropped: u64,
    /// Dropped, and not told.
    silent: u64,
    /// Dropped, and told by RST: Windows sends its SYN again on that.
    reset: u64,
    entered: u64,
    /// ACKs that opened a connection, of those that were looked at.
    opened: u64,
    /// By guard.
    heard: Vec<Heard>,
    shed_anyway: u64,
    unclear: u64,
    queued: u32,
    /// In both queues.
    inside: u64,
    pub(super) bound: Bound,
}

/// Why persistent dropping turns a SYN away.
const SHED: RangeInclusive<u32> = TG_SHED_STATELESS..=TG_SHED_UNIFORM;

fn is_shed(decision: tg_decision) -> bool {
    SHED.contains(&decision.reason)
}

/// Whether it is of a SYN's coming, and a longer queue may let that in: who has its request already does not
/// come anew, and a network that sends more than it may is kept out whatever room there is.
fn arrives(decision: tg_decision) -> bool {
    let is_judged = (TG_ROOM..TG_HANDSHAKE).contains(&decision.reason) || is_shed(decision);
    is_judged && ![TG_HALF_OPEN, TG_POLICED].contains(&decision.reason)
}

fn finds_no_room(decision: tg_decision) -> bool {
    arrives(decision) && decision.verdict != TG_COOKIE && !lets_in(decision)
}

fn is_silent(decision: tg_decision) -> bool {
    finds_no_room(decision) && [TG_DROP, TG_PASS].contains(&decision.verdict)
}

fn is_reset(decision: tg_decision) -> bool {
    finds_no_room(decision) && decision.verdict == TG_RESET
}

/// Whether it is of an ACK to a SYN/ACK behind which there is something.
fn answers(decision: tg_decision) -> bool {
    (TG_HANDSHAKE..=TG_COOKIE_NO_ROOM).contains(&decision.reason)
}

/// Whether the kernel makes a connection of it: of these or fewer, for it may have something else to say to an ACK
/// before it looks for room. But one that came by TCP Fast Open is none of them: it is in the listen queue before its ACK.
fn opens(decision: tg_decision) -> bool {
    let tg_decision { verdict, reason } = decision;
    matches!((reason, verdict), (TG_HANDSHAKE, TG_PASS) | (TG_COOKIE_VALID, TG_ADMIT))
}

fn sum(counted: &tg_counters, is: impl Fn(tg_decision) -> bool) -> u64 {
    let reasons = counted.packets.iter().zip(0..);
    let each =
        reasons.flat_map(|(of, reason)| of.iter().zip(0..).map(move |(n, v)| (n, v, reason)));
    each.filter(|(_, verdict, reason)| is(tg_decision { verdict: *verdict, reason: *reason }))
        .map(|(count, ..)| count)
        .sum()
}

impl Count {
    pub(super) fn of(under: &[Under], row: &tg_listener_row) -> Self {
        let mut counted = tg_counters::default();
        for one in under {
            counters::accumulate(&mut counted, &one.others());
        }
        Count {
            at: Instant::now(),
            arrived: sum(&counted, arrives),
            dropped: sum(&counted, finds_no_room),
            silent: sum(&counted, is_silent),
            reset: sum(&counted, is_reset),
            entered: sum(&counted, lets_in),
            opened: sum(&counted, opens),
            heard: under.iter().map(|one| Heard::of(&one.counted)).collect(),
            shed_anyway: under.iter().map(|one| one.sum(Under::is_shed_anyway)).sum(),
            unclear: under.iter().map(|one| one.sum(Under::is_unclear)).sum(),
            queued: row.listen_len,
            inside: u64::from(row.listen_len) + u64::from(row.syn_len),
            bound: Bound::of(row, under.iter().map(|one| one.guarded)),
        }
    }

    /// Whether ACKs were looked at since, under every guard that has let anybody in. Where a reload has brought
    /// another, or taken one out, nobody knows.
    fn hears_acks_since(&self, before: &Count) -> bool {
        let each = || self.heard.iter().zip(&before.heard);
        self.heard.len() == before.heard.len()
            && each().any(|(now, before)| now.acks > before.acks)
            && each().all(|(now, before)| now.acks > before.acks || now.entered == before.entered)
    }

    /// Connections that the server has taken since, by the ACKs: what came into the listen queue, and is not
    /// there.
    fn taken_since(&self, before: &Count) -> Option<u64> {
        let opened = self.opened.checked_sub(before.opened)?;
        Some((opened + u64::from(before.queued)).saturating_sub(self.queued.into()))
    }

    /// And what has left both queues, by the SYNs: those too whom the server has not taken, since their ACK
    /// met a full listen queue or never came.
    fn left_since(&self, before: &Count) -> Option<u64> {
        let entered = self.entered.checked_sub(before.entered)?;
        Some((entered + before.inside).saturating_sub(self.inside))
    }

    /// What happened since; `None` where counting began anew in between, as it does when a guard is
    /// taken out of the configuration and put back. `hears_acks`: all of that time.
    fn since(&self, before: &Count, hears_acks: bool) -> Option<Look> {
        let (taken, left) = (self.taken_since(before)?, self.left_since(before)?);
        Some(Look {
            lasted_s: (self.at - before.at).as_secs_f64(),
            arrived: self.arrived.checked_sub(before.arrived)?,
            dropped: self.dropped.checked_sub(before.dropped)?,
            drained: if hears_acks { left.min(taken) } else { left },
            queued: self.queued,
            places: self.bound.places,
        })
    }
}

pub(super) struct Watched {
    pub(super) row: tg_listener_row,
    pub(super) last: Count,
    /// ACKs were counted up to the last look: the guard is watched.
    hears_acks: bool,
    pub(super) comes_again: bool,
    pub(super) may_come_again: bool,
    pub(super) shed_anyway: u64,
    pub(super) unclear: u64,
    pub(super) record: Record,
}

impl Watched {
    pub(super) fn new(row: tg_listener_row, last: Count) -> Self {
        Watched {
            row,
            last,
            hears_acks: false,
            comes_again: false,
            may_come_again: false,
            shed_anyway: 0,
            unclear: 0,
            record: Record::default(),
        }
    }

    /// What happened since the last look. A guard that begins to be watched has counted some of the ACKs.
    pub(super) fn see(&mut self, row: tg_listener_row, count: Count) -> Option<Look> {
        let hears_acks = count.hears_acks_since(&self.last);
        let look = count.since(&self.last, hears_acks && self.hears_acks);
        if look.is_some() {
            self.comes_again |= count.silent > self.last.silent;
            self.may_come_again |= count.reset > self.last.reset;
            self.shed_anyway += count.shed_anyway.saturating_sub(self.last.shed_anyway);
            self.unclear += count.unclear.saturating_sub(self.last.unclear);
        }
        (self.row, self.last, self.hears_acks) = (row, count, hears_acks);
        look
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::example::{counted, counted_at, guards, listening_on, under};

    #[test]
    fn who_found_no_room_is_whom_a_longer_queue_would_have_let_in() {
        let count = counted(&[
            (TG_ROOM, TG_PASS, 1000),
            (TG_EXEMPT, TG_PASS, 300),
            (TG_KERNEL_COOKIE, TG_PASS, 20),
            (TG_KERNEL_COOKIE, TG_COOKIE, 4),
            (TG_LISTENQ_FULL_AT_SYN, TG_COOKIE, 60),
            (TG_LISTENQ_FULL_AT_SYN, TG_RESET, 7),
            (TG_BEYOND_SHARE, TG_DROP, 2),
            (TG_COOKIE_VALID, TG_ADMIT, 50),
            (TG_HALF_OPEN, TG_PASS, 90),
            (TG_POLICED, TG_DROP, 5000),
        ]);
        assert_eq!((count.arrived, count.dropped, count.entered), (1393, 9, 1370));
    }

    /// p follows this very queue where it is `auto`; any other is what the section asks for.
    #[test]
    fn who_is_shed_for_the_queues_sake_found_no_room_and_others_did_not_come() {
        let shed = |is_auto, rate_per_s| Guarded {
            shed: tg_shed_rules { policy: TG_SLPD, is_auto, rate_per_s, ..Default::default() },
            ..Default::default()
        };
        let packets = [
            (TG_ROOM, TG_PASS, 1000),
            (TG_SHED_STATELESS, TG_DROP, 400),
            (TG_SHED_AGAIN, TG_DROP, 30),
            (TG_SHED_UNIFORM, TG_RESET, 2),
        ];
        let told = |guarded: &Guarded| {
            let count = Count::of(&[under(guarded, &packets)], &tg_listener_row::default());
            (count.arrived, count.dropped, count.silent, count.shed_anyway)
        };
        assert_eq!(told(&shed(1, 0)), (1432, 432, 430, 0));
        for by_itself in [shed(0, 0), shed(1, 1000)] {
            assert_eq!(told(&by_itself), (1000, 0, 0, 432));
        }
    }

    /// Whom police keeps out, or a share that is shed, is counted with those who found no room where there is no
    /// refusal left for it, or no cookie.
    #[test]
    fn who_may_have_been_kept_out_by_police_or_shed_is_told_apart_from_who_found_no_room() {
        let shed = |is_auto, refusal| Guarded {
            shed: tg_shed_rules { policy: TG_SLPD, is_auto, refusal, ..Default::default() },
            ..Default::default()
        };
        let polices = Guarded { has_limits: true, ..Default::default() };
        let packets = [
            (TG_ROOM, TG_PASS, 1000),
            (TG_REFUSAL_LIMIT, TG_DROP, 5000),
            (TG_NO_COOKIE, TG_DROP, 70),
            (TG_NO_COOKIE, TG_PASS, 6),
        ];
        for (guarded, expected) in [
            (polices, (1006, 6, 6, 5070)),
            (shed(0, TG_REFUSE_RESET), (1076, 76, 76, 5000)),
            (shed(0, TG_REFUSE_COOKIE), (1076, 76, 76, 5000)),
            (shed(0, TG_REFUSE_SILENTLY), (6076, 5076, 5076, 0)),
            (shed(1, TG_REFUSE_RESET), (6076, 5076, 5076, 0)),
            (Guarded::default(), (6076, 5076, 5076, 0)),
        ] {
            let count = Count::of(&[under(&guarded, &packets)], &tg_listener_row::default());
            let told = (count.arrived, count.dropped, count.silent, count.unclear);
            assert_eq!(told, expected, "{guarded:?}");
        }
    }

    /// One socket of every address under the port's guard and under that of one address.
    #[test]
    fn what_comes_to_a_socket_is_counted_under_all_of_its_guards() {
        let guards = guards([None, Some("192.0.2.1")]);
        let half = [(TG_ROOM, TG_PASS, 500), (TG_LISTENQ_FULL_AT_SYN, TG_PASS, 70)];
        let both = [under(&guards[0].1, &half), under(&guards[1].1, &half)];
        let count = Count::of(&both, &listening_on([0; 4]));
        assert_eq!((count.arrived, count.dropped, count.entered), (1140, 140, 1000));
    }

    /// Of two guards one is watched: what the other's ACKs opened nobody has counted.
    #[test]
    fn acks_are_heard_where_every_guard_that_lets_in_is_watched() {
        let every = Guarded::default();
        let at = |guards: [(u64, u64); 2]| {
            let packets = guards.map(|(entered, acks)| {
                [(TG_ROOM, TG_PASS, entered), (TG_HANDSHAKE, TG_PASS, acks)]
            });
            Count::of(&packets.map(|p| under(&every, &p)), &tg_listener_row::default())
        };
        let before = at([(100, 100), (100, 100)]);
        for (now, hears) in [
            ([(200, 200), (200, 200)], true),
            ([(200, 200), (200, 100)], false),
            ([(200, 200), (100, 100)], true),
            ([(100, 100), (100, 100)], false),
        ] {
            assert_eq!(at(now).hears_acks_since(&before), hears, "{now:?}");
        }
        let alone = counted(&[(TG_ROOM, TG_PASS, 200), (TG_HANDSHAKE, TG_PASS, 200)]);
        assert!(!alone.hears_acks_since(&before), "a reload has taken one out");
    }

    #[test]
    fn a_queue_is_as_long_as_one_of_its_guards_lets_it_become() {
        let row = tg_listener_row { listen_max: 5, ..Default::default() };
        let guarded = |places, ahead| Guarded {
            rules: tg_rules { places, ahead, ..Default::default() },
            ..Default::default()
        };
        let bound = |listen_max, guards: &[Guarded]| {
            let bound = Bound::of(&tg_listener_row { listen_max, ..row }, guards.iter());
            (bound.name, bound.value, bound.places)
        };
        assert_eq!(bound(5, &[guarded(0, 0)]), ("backlog", 5, 6));
        assert_eq!(bound(5, &[guarded(16, 0)]), ("backlog", 5, 6));
        assert_eq!(bound(128, &[guarded(4, 16)]), ("places", 4, 4));
        assert_eq!(bound(128, &[guarded(0, 7)]), ("ahead", 7, 7));
        assert_eq!(bound(128, &[guarded(4, 0), guarded(0, 0)]), ("backlog", 128, 129));
    }

    /// A full listen queue, to which 500 come in each look, and from which 100 are taken.
    #[test]
    fn whom_a_full_queue_has_not_let_in_the_server_has_not_taken() {
        let row = tg_listener_row { listen_len: 64, syn_len: 86, ..Default::default() };
        let at = |looks: u64, heard: u64| {
            let packets = [
                (TG_ROOM, TG_PASS, 500 * looks),
                (TG_HANDSHAKE, TG_PASS, 100 * heard),
                (TG_OVERFLOW_SYNACK_ACK, TG_RESET, 400 * heard),
            ];
            counted_at(&row, &packets)
        };
        let mut watched = Watched::new(row, at(0, 0));
        let mut drained = |looks, heard| watched.see(row, at(looks, heard)).unwrap().drained;
        assert_eq!(drained(1, 0), 500, "ACKs are not looked at");
        assert_eq!(drained(2, 1), 500, "nor were all of those between the last two looks");
        assert_eq!(drained(3, 2), 100);
        assert_eq!(drained(4, 2), 500, "no more");
        // What is no handshake may be counted as one: no more have left than came.
        let of =
            |looks: u64| [(TG_ROOM, TG_PASS, 90 * looks), (TG_HANDSHAKE, TG_PASS, 100 * looks)];
        let look = counted_at(&row, &of(2)).since(&counted_at(&row, &of(1)), true).unwrap();
        assert_eq!(look.drained, 90);
    }

    #[test]
    fn who_is_left_in_silence_comes_again_and_windows_on_a_rst() {
        let row = tg_listener_row::default();
        let comes_again = |verdict| {
            let mut watched = Watched::new(row, counted(&[]));
            watched.see(row, counted(&[(TG_LISTENQ_FULL_AT_SYN, verdict, 7)])).unwrap();
            (watched.comes_again, watched.may_come_again)
        };
        assert_eq!([TG_DROP, TG_PASS].map(comes_again), [(true, false); 2]);
        assert_eq!(comes_again(TG_RESET), (false, true));
        assert_eq!([TG_HOLLOW, TG_COOKIE].map(comes_again), [(false, false); 2]);
    }

    #[test]
    fn counts_that_began_anew_between_two_looks_are_no_burst() {
        let count = |arrived, dropped, entered| Count {
            at: Instant::now(),
            arrived,
            dropped,
            entered,
            ..counted(&[])
        };
        let before = count(100, 10, 90);
        let look = count(700, 190, 500).since(&before, false).expect("counts that go on");
        assert_eq!((look.arrived, look.dropped, look.drained), (600, 180, 410));
        for anew in [count(99, 10, 90), count(100, 9, 90), count(100, 10, 89)] {
            assert!(anew.since(&before, false).is_none());
        }
    }
}
