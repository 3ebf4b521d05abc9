// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a server accepts connections, how many, and when it works on those it has.
//!
//! A decision without a socket, a clock or memory of its own: the simulator takes it too. The
//! server tells what happened (`began`, `accepted`, `worked`, …) and asks what to do next.
//!
//! The strategies are those of Pariag, *Using accept() Strategies to Improve Server Performance*
//! (2004): an accept-limit from 1 to infinity (3.1.1), and the dynamic strategy that chapter 6
//! describes and leaves to future work. What chapter 6 leaves open is settled here:
//!
//! - *Saturated* is a server that has not been idle since it accepted [`SATURATED_AFTER`]
//!   connections, or [`ENOUGH_OF_LONG`]. It is so no longer when it is idle.
//! - A listen queue that holds fewer than were closed leaves the rest owed: it holds 128, and a
//!   work phase may close more.
//! - Saturated, it accepts those who waited when the phase began, and leaves those who come meanwhile
//!   to the next one. Otherwise phases grow until the listen queue fills within one, and what is
//!   dropped comes again (simulated at three times the capacity, tux: from 9,400 to 16,000
//!   replies/s by the seed; so, 16,000 to 16,300).
//! - With nothing to work on it accepts them all, up to [`SATURATED_AFTER`], whatever was closed: tux,
//!   which learns of work while it works, finds nothing more to do before it lets anybody in, and
//!   so holds as few as keep it busy. A bound of 20 ms on work phases, which cut them off before,
//!   had its connections grow from 500 to 2,300 within ten seconds (live, 7.2 requests each, at 1.2
//!   times the capacity), and cost a fifth of the replies.
//! - Where connections stay for many rounds, [`ENOUGH_OF_LONG`] do.
//! - A connection is let in every [`STARVED_AFTER_NS`] even if none was closed: otherwise clients
//!   that keep their connections busy would shut everyone else out.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::error::ServerError;

/// Connections accepted without an idle moment, from which on a server is taken to be saturated.
/// So many stay open from then on: those above that are not replaced when they close. A connection
/// with one request is inside for three rounds (it is accepted, replied to, and seen to end), so that
/// a third of them is closed in a work phase: 100, most of a listen queue of 128. With few a part of
/// that is left standing while others are dropped before it (simulated, one-packet workload: with 16
/// the userver serves 6 to 7 % less than with Accept-100), and with 384, which take the whole queue,
/// packets cost more (live, at twice the capacity: 0.96 of Accept-100's replies).
pub const SATURATED_AFTER: u32 = 300;
/// So many connections that stay for many rounds keep a server as busy: few of them are closed in a
/// work phase, and so few are to be let in. More cost memory that is touched in turns: live, with 7.2
/// requests a connection and at 1.2 and 2 times the capacity, the userver with 384 served 0.94 of what
/// Accept-1 did, with 200 inside, at a softirq time per reply that was as much higher; with 128 1.00
/// (eighteen and fourteen pairs of runs, of which one differs from another by a tenth).
pub const ENOUGH_OF_LONG: u32 = 128;
/// They do when less than one in so many of those worked on is closed. One request makes it one
/// in two, 2.62 one in 3.6, 7.2 one in 8.2.
const LONG_BEYOND: u32 = 4;
/// A work phase of fewer tells nothing of that.
const TELLING_ITEMS: u32 = 32;
/// For so long a saturated server that closes nothing accepts nothing.
pub const STARVED_AFTER_NS: u64 = 100_000_000;
/// After so many connections worked on, a strategy that goes by it sees the listen queue again.
pub const LOOK_EVERY: u32 = 16;

/// The most connections accepted in one accept phase; by default as many as there are.
///
/// A low limit favours the connections already held, a high one those still waiting in the
/// kernel's queue (Pariag 3.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AcceptLimit {
    /// Accepts at most so many: Accept-1, Accept-10 and so on.
    AtMost(NonZeroU32),
    /// Accepts until the queue is empty: Accept-Inf.
    #[default]
    Inf,
    /// Until it is saturated as Accept-Inf, and then as many as were closed in the last work phase
    /// (Pariag, chapter 6).
    Dynamic,
}

impl AcceptLimit {
    /// Accepts until the queue is empty.
    pub const INF: Self = Self::Inf;

    /// Accepts at most so many.
    #[must_use]
    pub const fn at_most(connections: NonZeroU32) -> Self {
        Self::AtMost(connections)
    }
}

impl FromStr for AcceptLimit {
    type Err = ServerError;

    fn from_str(given: &str) -> Result<Self, ServerError> {
        match given.to_ascii_lowercase().as_str() {
            "inf" => Ok(Self::Inf),
            "dynamic" => Ok(Self::Dynamic),
            number => number
                .parse()
                .map(Self::AtMost)
                .map_err(|_| ServerError::AcceptLimit { given: given.to_owned() }),
        }
    }
}

impl fmt::Display for AcceptLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => limit.fmt(f),
            Self::Inf => f.write_str("inf"),
            Self::Dynamic => f.write_str("dynamic"),
        }
    }
}

/// What a server does between two looks at what there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It takes connections from the listen queue.
    Accept,
    /// It works on connections that it has.
    Work,
}

/// What waits for the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queues {
    /// Connections in the kernel's listen queue, where that is known.
    pub listen: Option<u32>,
    /// Connections held that can be worked on without waiting.
    pub work: u32,
}

/// The longest that a phase may be, in time and in events of its queue (Pariag 4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// In time, in ns.
    pub time_ns: u64,
    /// In connections accepted, or worked on.
    pub items: u32,
}

impl Bounds {
    /// The thesis has none, and its TUX worked for a third of a second at a time (Tables 4.4 and
    /// 4.5); this only keeps a queue that never empties from shutting out the other.
    pub const LOOSE: Self = Self { time_ns: 1_000_000_000, items: u32::MAX };
}

/// An accept strategy at work.
///
/// ```text
/// began(Accept) ── accept_now() > 0? ── accepted() … or ran_dry()
/// began(Work) ──── worked(), closed() … until next_phase() is Accept
/// idle()           whenever there was nothing to do
/// ```
#[derive(Clone, Debug)]
pub struct Strategy {
    limit: AcceptLimit,
    bounds: Bounds,
    phase: Phase,
    began_ns: u64,
    /// Events of the phase: accepted in an accept phase, worked on in a work phase.
    items: u32,
    /// Connections in the listen queue when the phase began.
    waited: u32,
    /// There was nothing to work on then.
    had_no_work: bool,
    is_dry: bool,
    is_saturated: bool,
    accepted_since_idle: u32,
    /// Closed since the server was idle, and not yet replaced since it was saturated.
    owed: u32,
    /// Of those accepted since the server was idle, those that are not closed.
    held: u32,
    /// Closed in this work phase.
    closed: u32,
    are_long: bool,
    last_accept_ns: u64,
}

impl Strategy {
    /// With the usual bounds.
    #[must_use]
    pub const fn new(limit: AcceptLimit) -> Self {
        Self::within(limit, Bounds::LOOSE)
    }

    /// With bounds of its own.
    #[must_use]
    pub const fn within(limit: AcceptLimit, bounds: Bounds) -> Self {
        Self {
            limit,
            bounds,
            phase: Phase::Work,
            began_ns: 0,
            items: 0,
            waited: 0,
            had_no_work: false,
            is_dry: false,
            is_saturated: false,
            accepted_since_idle: 0,
            owed: 0,
            held: 0,
            closed: 0,
            are_long: false,
            last_accept_ns: 0,
        }
    }

    /// Whether it decides by what the listen queue holds: then it is worth a look.
    #[must_use]
    pub const fn looks_at_queues(&self) -> bool {
        matches!(self.limit, AcceptLimit::Dynamic)
    }

    /// Whether more comes than the server can do. Only the dynamic strategy asks.
    #[must_use]
    pub const fn is_saturated(&self) -> bool {
        self.is_saturated
    }

    /// A phase begins.
    pub fn began(&mut self, phase: Phase, queues: Queues, now_ns: u64) {
        if self.phase == Phase::Work {
            self.judge_length();
        }
        self.phase = phase;
        self.began_ns = now_ns;
        self.items = 0;
        self.waited = queues.listen.unwrap_or(u32::MAX);
        self.had_no_work = queues.work == 0;
        self.is_dry = false;
        if phase == Phase::Accept && queues.listen == Some(0) {
            self.ran_dry();
        }
    }

    /// A work phase is over: have its connections many rounds before them?
    fn judge_length(&mut self) {
        if self.items >= TELLING_ITEMS {
            self.are_long = self.closed.saturating_mul(LONG_BEYOND) < self.items;
        }
        self.closed = 0;
        // More are enough where they were long and are so no longer.
        if self.is_saturated {
            self.owed = self.owed.max(self.enough().saturating_sub(self.held));
        }
    }

    /// So many connections keep it busy.
    const fn enough(&self) -> u32 {
        if self.are_long { ENOUGH_OF_LONG } else { SATURATED_AFTER }
    }

    /// How many connections to accept now, in this accept phase, before asking again.
    #[must_use]
    pub fn accept_now(&self, queues: Queues, now_ns: u64) -> u32 {
        if self.phase != Phase::Accept || self.is_dry || self.is_overdue(now_ns) {
            return 0;
        }
        let wanted = match self.limit {
            AcceptLimit::AtMost(limit) => limit.get().saturating_sub(self.items),
            AcceptLimit::Dynamic if self.is_saturated => {
                let waiting = self.waited.saturating_sub(self.items);
                let unowed = match self.had_no_work {
                    true => self.enough().saturating_sub(self.items),
                    false => u32::from(self.is_starved(now_ns)),
                };
                waiting.min(self.owed.max(unowed))
            }
            AcceptLimit::Inf | AcceptLimit::Dynamic => u32::MAX,
        };
        wanted.min(self.bounds.items - self.items).min(queues.listen.unwrap_or(u32::MAX))
    }

    /// A connection was accepted.
    pub fn accepted(&mut self, now_ns: u64) {
        self.items = self.items.saturating_add(1);
        self.held = self.held.saturating_add(1);
        self.last_accept_ns = now_ns;
        // Until then all that wait are accepted, and none instead of another.
        if self.is_saturated {
            self.owed = self.owed.saturating_sub(1);
        }
        self.accepted_since_idle = self.accepted_since_idle.saturating_add(1);
        self.is_saturated |= self.accepted_since_idle >= self.enough();
    }

    /// The listen queue has nobody more.
    pub fn ran_dry(&mut self) {
        self.is_dry = true;
    }

    /// A connection was worked on.
    pub fn worked(&mut self) {
        self.items = self.items.saturating_add(1);
    }

    /// A connection was closed.
    pub fn closed(&mut self) {
        self.closed = self.closed.saturating_add(1);
        if !(self.is_saturated && self.held > self.enough()) {
            self.owed = self.owed.saturating_add(1);
        }
        self.held = self.held.saturating_sub(1);
    }

    /// There was nothing to do: nobody to work on, and nobody to accept.
    pub fn idle(&mut self) {
        self.is_saturated = false;
        self.accepted_since_idle = 0;
        self.owed = 0;
        self.held = 0;
    }

    /// The phase to go on in: the one that is, or the other. The end of a work phase that has
    /// worked off its queue is an accept phase, even if it accepts nobody.
    #[must_use]
    pub fn next_phase(&self, queues: Queues, now_ns: u64) -> Phase {
        match self.phase {
            Phase::Accept if self.accept_now(queues, now_ns) > 0 => Phase::Accept,
            Phase::Accept => Phase::Work,
            Phase::Work if queues.work == 0 || self.is_overdue(now_ns) => Phase::Accept,
            Phase::Work if self.more_wait_outside(queues) => Phase::Accept,
            Phase::Work => Phase::Work,
        }
    }

    /// Before saturation the longer queue goes first; afterwards whoever is let in only waits
    /// inside instead.
    fn more_wait_outside(&self, queues: Queues) -> bool {
        self.limit == AcceptLimit::Dynamic
            && !self.is_saturated
            && queues.listen.is_some_and(|listen| listen > queues.work)
    }

    fn is_overdue(&self, now_ns: u64) -> bool {
        self.items >= self.bounds.items
            || now_ns.saturating_sub(self.began_ns) >= self.bounds.time_ns
    }

    fn is_starved(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_accept_ns) >= STARVED_AFTER_NS
    }
}

#[cfg(test)]
#[path = "accept/tests.rs"]
mod tests;
