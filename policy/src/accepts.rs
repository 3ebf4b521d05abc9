// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How an application accepts, and what Pariag's thesis (*Using accept() Strategies to Improve Server
//! Performance*, 2004) would change about it.
//!
//! What is known is what the listen queue shows (`include/accepts.h`): how many connections are taken
//! at a time, how many a second, how many wait, and how many clients find no room.
//!
//! # The rule
//!
//! - **Hardly anybody is refused** ([`REFUSED_LEAST`]): nothing to change. Below the peak every strategy
//!   serves what comes (Figures 4.1 and 4.12).
//! - **They are taken one or a few at a time**, while others are refused: *more*. Each accept phase has
//!   a call for events before it, which few connections pay for (4.1.1, 4.2.1: Accept-Inf made 43 times
//!   fewer calls than Accept-1 and accepted 62 % more, Tables 4.7 and 4.8; Accept-10 had the higher
//!   peak of all three, Figure 4.12). TUX, which has no such call, is the exception (4.1.2), and so
//!   is a server whose processor is not what limits it.
//! - **Hardly anybody waits** ([`WAITING_LEAST`]), though others are refused: nothing to change. What lacks
//!   room is the SYN queue, or a place that a half-open request has, as in a flood of forged SYNs.
//! - **The whole queue is taken each time, and it is long** ([`MANY`]): *fewer*. Long accept phases are
//!   followed by long work phases, in which the queue fills and nobody is let in (Tables 4.4 and 4.5),
//!   and connections wait inside; Accept-10 had the higher peak and the shorter responses (4.2.1), and
//!   chapter 6 wants as many accepted as were closed.
//! - **Between them**: nothing to change. What is refused matters more then than what is accepted.

use crate::raw::{
    self, TG_ACCEPTS_HOLD_NS, TG_ONE_X256, tg_accepts, tg_accepts_sum, tg_judged, tg_queues,
    tg_rules,
};

/// Of the SYNs that came, the share without room below which a server keeps up: chance has some
/// refused before a queue that is long enough.
pub const REFUSED_LEAST: f64 = 0.01;
/// Connections taken in leaps, of all that were taken, below which most come one or a few at a time.
/// Simulated at twice its peak, a userver that accepts one at a time has 0 to 2 in a hundred of them,
/// and one that accepts ten 15 to 80, at four times its peak 3: so near to it `more` may be said.
const LEAPT_FEW: f64 = 0.1;
/// So many at a time are many: Accept-Inf of the thesis took 70 in the mean, and had a lower peak and
/// longer responses than Accept-10 (Table 4.8, Figures 4.12 and 4.16).
pub const MANY: f64 = 64.0;
/// Connections in the listen queue, in the mean, below which none could be taken with another.
const WAITING_LEAST: f64 = 2.0;
/// Leaps that empty the queue, of all: a server that takes all who wait.
const EMPTIED_MOST: f64 = 0.5;
/// SYNs that tell anything.
const SEEN_LEAST_X256: u64 = 100 * TG_ONE_X256 as u64;
/// Of the time looked at, that in which nothing could be told.
const DARK_MOST: f64 = 0.5;

impl tg_accepts {
    /// A SYN was judged so: looks at what it found, where that is worth a look. `queues` are as the decision
    /// has left them.
    pub fn look(&mut self, rules: &tg_rules, queues: &tg_queues, judged: tg_judged, now_ns: u64) {
        // SAFETY: the function reads and writes only through these valid references.
        unsafe { raw::tg_native_accepts(self, rules, queues, judged, now_ns) }
    }

    /// An ACK was judged, for this reason: a cookie that is let in is a connection to be taken.
    pub fn admit(&mut self, rules: &tg_rules, reason: u32) {
        // SAFETY: the functions read and write only through these valid references.
        unsafe {
            if raw::tg_native_accepts_admits(rules, reason) != 0 {
                raw::tg_native_accepts_take(self);
            }
        }
    }

    /// What was seen within the last seconds, by the clock of the SYNs; `None` where nobody has been
    /// without room in that time, or what was seen is too little.
    #[must_use]
    pub fn seen(&self, now_ns: u64) -> Option<Seen> {
        let is_over = now_ns.saturating_sub(self.trouble_ns) >= TG_ACCEPTS_HOLD_NS.into();
        let sum = &self.before;
        if is_over || sum.seen_x256 < SEEN_LEAST_X256 || sum.taken_x256 == 0 || sum.lasted_ns == 0 {
            return None;
        }
        Some(Seen::of(sum))
    }
}

/// How an application has accepted while some found no room.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    /// SYNs that were let in, a second: Pariag's accept rate, or more than that where SYNs come
    /// faster than their ACKs, some of which then find the listen queue full.
    pub let_in_per_s: f64,
    /// How many at a time; `None` where they are one or a few, or where it cannot be told.
    pub at_a_time: Option<f64>,
    /// Whether it can be told: SYNs came often enough, and evenly enough.
    pub is_told: bool,
    /// Of those times, the share in which the listen queue was emptied.
    pub emptied: f64,
    /// Connections in the listen queue, in the mean.
    pub waiting: f64,
    /// The share of SYNs that found no room.
    pub refused: f64,
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: it keeps up, or accepts as it should.
    Keep,
    /// Accept more at a time.
    More,
    /// Accept fewer at a time.
    Fewer,
    /// What was seen does not tell.
    Untold,
}

impl Seen {
    fn of(sum: &tg_accepts_sum) -> Self {
        let share = |part: u64, of: u64| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        let is_told = share(sum.dark_ns, sum.lasted_ns) <= DARK_MOST;
        let leaps = is_told && share(sum.leapt_x256, sum.taken_x256) >= LEAPT_FEW;
        Self {
            let_in_per_s: 1e9 * share(sum.taken_x256, sum.lasted_ns) / f64::from(TG_ONE_X256),
            at_a_time: leaps.then(|| share(sum.leapt_x256, sum.leaps_x256)),
            is_told,
            emptied: share(sum.emptied_x256, sum.leaps_x256),
            waiting: share(sum.waited_x256, sum.seen_x256),
            refused: share(sum.refused_x256, sum.seen_x256),
        }
    }

    /// What Pariag would change.
    #[must_use]
    pub fn advice(&self) -> Advice {
        match self.at_a_time {
            _ if self.refused < REFUSED_LEAST => Advice::Keep,
            _ if !self.is_told => Advice::Untold,
            None if self.waiting < WAITING_LEAST => Advice::Keep,
            None => Advice::More,
            Some(many) if many >= MANY && self.emptied >= EMPTIED_MOST => Advice::Fewer,
            Some(_) => Advice::Keep,
        }
    }
}

#[cfg(test)]
mod tests;
