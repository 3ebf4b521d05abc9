// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long the queues before a server should be, for a burst.
//!
//! Shukla's thesis (section 5.2, and 6.1 among what is left to do) leaves the length of the queues to
//! whoever sets it up. Here it follows from a model.
//!
//! # The model
//!
//! The server takes μ connections a second while any wait. Clients come at random: λc a second in
//! calm, and λ a second for d seconds, the burst. What waits is
//!
//! - **the fluid part**, (λ − μ) d: those that come and are not taken;
//! - **chance**. Arrivals are Poisson, and what the server does in a second is taken to vary as much: in
//!   t seconds the difference has the variance (λ + μ) t. The queue is then a reflected Brownian motion,
//!   and for one that was empty
//!
//!   ```text
//!   P(Q(t) > x) = Φ̄((x − θt) / σ√t) + e^(2θx/σ²) Φ̄((x + θt) / σ√t),   θ = λ − μ,  σ² = λ + μ
//!   ```
//!
//!   (J. M. Harrison, *Brownian Motion and Stochastic Flow Systems*, 1985, chapter 1). One formula for all
//!   loads: far above μ it is a normal distribution about the fluid part, at μ twice the tail of one
//!   about 0, below μ it tends to e^(−2(μ − λ)x/(λ + μ)), which is never below M/M/1's (λ/μ)^x. The
//!   longest queue of the whole burst has the same distribution, by reversal of time;
//! - **what waited before**: M/M/1's (λc/μ)^n;
//! - **a pause** p in which the server takes nothing (a collection of garbage, another program on its
//!   processor): μ p more;
//! - less **what may be dropped**: the target's share of the burst.
//!
//! Half-open are those whose ACK is under way: λ times the round trip, Poisson, with Chernoff's bound.
//!
//! Each quantile is that of one burst in a thousand, or less: in the others no more is dropped than the
//! target allows.
//!
//! # Where it ends
//!
//! - A server that takes many at a time has the rest of its queue in itself: the listen queue is shorter
//!   than the model says, or as long.
//! - Bursts that come before the queue is empty again ([`Size::empty_after_s`]) find it longer.
//! - Clients that come in packs (a browser's six connections) vary more than Poisson's.
//! - A drain that falls under load, since packets take the processor, is to be given as it is under load.

mod normal;
mod record;

pub use record::{Look, NoBurst, Record, Seen};

/// One burst in so many is worse than the recommendation allows for.
const BURSTS: f64 = 1000.0;
/// What Poisson arrivals have beyond a normal distribution: the first term of Cornish and Fisher's
/// expansion is (z² − 1) / 6 at most, 1.6 for one in two thousand.
const SKEW_PLACES: f64 = 2.0;
/// Who is dropped sends its SYN again after a second, on every system of today. Half of that before the
/// burst's end are dropped, so that they come back when there is room.
const AGAIN_S: f64 = 0.5;
/// listen() takes an int.
const BACKLOG_MOST: f64 = i32::MAX as f64;

/// The most connections a second that the model knows.
pub const RATE_MOST_PER_S: f64 = 1e8;
/// The longest burst, in s.
pub const BURST_MOST_S: f64 = 86_400.0;
/// The longest round trip or pause, in s.
pub const TIME_MOST_S: f64 = 600.0;
/// The largest share of a burst that may be dropped.
pub const DROPS_MOST: f64 = 0.5;

/// A burst before a server, and what is asked of its queues.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Connections that the server accepts a second while any wait.
    pub drain_per_s: f64,
    /// Connections that come a second before and after the burst.
    pub calm_per_s: f64,
    /// Connections that come a second in the burst.
    pub burst_per_s: f64,
    /// How long it lasts, in s.
    pub burst_s: f64,
    /// From the SYN/ACK to its ACK, in s.
    pub rtt_s: f64,
    /// The longest time in which the server accepts nothing, in s.
    pub pause_s: f64,
    /// The share of the burst's SYNs that may be dropped.
    pub drops: f64,
}

/// What is recommended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// For listen(): as long as the longer of the two queues needs it, since Linux bounds both by it
    /// (4.4 and later). `net.core.somaxconn` must be as large.
    pub backlog: u32,
    /// Connections that wait for accept() at most.
    pub listen_places: u32,
    /// Those of them that the fluid part makes.
    pub fluid_places: u32,
    /// Half-open connections at most.
    pub syn_places: u32,
    /// `net.ipv4.tcp_max_syn_backlog`, which counts where `tcp_syncookies` is 0: a quarter of it is kept
    /// free.
    pub max_syn_backlog: u32,
    /// Both together: where each half-open connection shall have its place in the listen queue, as
    /// with reserv, or above `places`.
    pub both_places: u32,
    /// How long the last of a full queue waits for accept(), in s.
    pub last_waits_s: f64,
    /// How long after the burst the queue is empty again, in s.
    pub empty_after_s: f64,
}

/// Why nothing can be recommended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NoSize {
    /// A number is none that the model knows.
    #[error("{name} = {value} is out of range; give {expected}")]
    Range {
        /// Which.
        name: &'static str,
        /// What it is.
        value: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// More come than are taken, for good.
    #[error(
        "{calm_per_s} come a second in calm and {drain_per_s} are taken: no queue is long enough; \
         refuse those for whom there is no time, with \"abort rst-syn\" or shed = {{ p = \"auto\" }}"
    )]
    NeverEmpty {
        /// What comes.
        calm_per_s: f64,
        /// What is taken.
        drain_per_s: f64,
    },
    /// More than listen() takes.
    #[error("{places:.0} places are more than a listen queue can have; refuse instead of queueing")]
    TooLong {
        /// What would be needed.
        places: f64,
    },
}

impl Burst {
    // Ranges are written so that NaN is refused too.
    fn check(&self) -> Result<(), NoSize> {
        let rate = |per_s: f64| per_s > 0.0 && per_s <= RATE_MOST_PER_S;
        let time = |s: f64| (0.0..=TIME_MOST_S).contains(&s);
        let a_rate = "a rate above 0 a second, up to 100000000";
        for (name, value, is_good, expected) in [
            ("drain", self.drain_per_s, rate(self.drain_per_s), a_rate),
            ("burst rate", self.burst_per_s, rate(self.burst_per_s), a_rate),
            (
                "burst length",
                self.burst_s,
                self.burst_s > 0.0 && self.burst_s <= BURST_MOST_S,
                "seconds above 0, up to 86400",
            ),
            (
                "calm rate",
                self.calm_per_s,
                self.calm_per_s == 0.0 || rate(self.calm_per_s),
                "a rate from 0 to 100000000 a second",
            ),
            ("round trip", self.rtt_s, time(self.rtt_s), "seconds from 0 to 600"),
            ("pause", self.pause_s, time(self.pause_s), "seconds from 0 to 600"),
            (
                "drops",
                self.drops,
                self.drops >= 0.0 && self.drops <= DROPS_MOST,
                "a share from 0 to 0.5",
            ),
        ] {
            if !is_good {
                return Err(NoSize::Range { name, value, expected });
            }
        }
        let Self { calm_per_s, drain_per_s, .. } = *self;
        if calm_per_s >= drain_per_s {
            return Err(NoSize::NeverEmpty { calm_per_s, drain_per_s });
        }
        Ok(())
    }

    fn excess_per_s(&self) -> f64 {
        (self.burst_per_s - self.drain_per_s).max(0.0)
    }

    /// How many wait as the burst begins, but once in so many.
    fn calm_places(&self, once_in: f64) -> f64 {
        if self.calm_per_s == 0.0 {
            return 0.0;
        }
        once_in.ln() / (self.drain_per_s / self.calm_per_s).ln()
    }

    /// How many the burst adds to them, but once in so many.
    fn burst_places(&self, once_in: f64) -> f64 {
        let motion = normal::Motion {
            drift: self.burst_per_s - self.drain_per_s,
            variance: self.burst_per_s + self.drain_per_s,
            time: self.burst_s,
        };
        motion.highest(1.0 / once_in) + SKEW_PLACES
    }

    /// How many of the burst's clients may be dropped: they come back half a second after it at the
    /// earliest, and the server has made room for them by then.
    fn may_drop(&self) -> f64 {
        let asked = self.drops * self.burst_per_s * self.burst_s;
        let last = self.excess_per_s() * AGAIN_S;
        let room = (self.drain_per_s - self.calm_per_s) * AGAIN_S;
        asked.min(last).min(room)
    }

    fn listen_places(&self) -> f64 {
        // Two chances, each with half of what may go wrong.
        let each = 2.0 * BURSTS;
        let most = self.calm_places(each) + self.burst_places(each);
        (most + self.drain_per_s * self.pause_s - self.may_drop()).ceil().max(1.0)
    }

    /// Half-open connections: those who came within the last round trip.
    fn syn_places(&self) -> f64 {
        let within_s = self.rtt_s.min(self.burst_s);
        let mean = self.burst_per_s * within_s + self.calm_per_s * (self.rtt_s - within_s);
        // Round trips of the burst, in each of which there is a chance of its own.
        let trips = if self.rtt_s > 0.0 { 1.0 + self.burst_s / self.rtt_s } else { 1.0 };
        normal::poisson_highest(mean, 1.0 / (BURSTS * trips)).max(1.0)
    }
}

/// The least `tcp_max_syn_backlog` with which so many half-open connections leave a quarter free:
/// Linux drops a SYN where less is (`tcp_conn_request()`, without SYN cookies).
fn max_syn_backlog(syn_places: u32) -> u32 {
    let mut most = syn_places + syn_places.saturating_sub(1) / 3;
    while most - (most >> 2) < syn_places {
        most += 1;
    }
    most
}

/// The queues that hold a burst's drops under their target.
///
/// # Errors
/// [`NoSize`], where no queue does, or a number is impossible.
pub fn recommend(burst: &Burst) -> Result<Size, NoSize> {
    longer_than(burst, 0)
}

/// The same for a burst that was seen, before the clients of `clients`, whose own burst does not count. A calm of
/// which too little was seen is taken for none.
/// A queue that has been as long as it was is not made shorter: a server that takes many at a time
/// drains it by leaps.
///
/// # Errors
/// As of [`recommend`].
pub fn recommend_seen(seen: &Seen, clients: &Burst) -> Result<(Burst, Size), NoSize> {
    let Seen { drain_per_s, burst_per_s, burst_s, .. } = *seen;
    let calm_per_s = seen.calm_per_s.unwrap_or(0.0);
    let burst = Burst { drain_per_s, calm_per_s, burst_per_s, burst_s, ..*clients };
    Ok((burst, longer_than(&burst, seen.queued)?))
}

fn longer_than(burst: &Burst, least: u32) -> Result<Size, NoSize> {
    burst.check()?;
    let (listen, syn) = (burst.listen_places().max(least.into()), burst.syn_places());
    // A quarter more for tcp_max_syn_backlog.
    let most = (listen + syn).max(syn * 2.0);
    if most > BACKLOG_MOST {
        return Err(NoSize::TooLong { places: listen.max(syn) });
    }
    let Burst { drain_per_s, calm_per_s, .. } = *burst;
    let backlog = listen.max(syn);
    Ok(Size {
        backlog: backlog as u32,
        listen_places: listen as u32,
        fluid_places: (burst.excess_per_s() * burst.burst_s).min(listen) as u32,
        syn_places: syn as u32,
        max_syn_backlog: max_syn_backlog(syn as u32),
        both_places: (listen + syn) as u32,
        last_waits_s: backlog / drain_per_s,
        empty_after_s: listen / (drain_per_s - calm_per_s),
    })
}

#[cfg(test)]
mod tests;
