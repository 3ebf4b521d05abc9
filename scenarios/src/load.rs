// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much load, and how long.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arrivals::Arrivals;
use crate::clients::Clients;
use crate::steps;

/// The shortest duration, step, or patience, in s: the crowd's clock has ticks of a millisecond or less.
pub(crate) const SHORTEST_S: f64 = 0.001;

/// Whether a scenario runs as its paper did, or in minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// A figure in at most ten minutes.
    #[default]
    Short,
    /// As in the paper.
    Full,
}

/// Load, resolved for one form.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    /// Requests offered, in multiples of the measured capacity, rising.
    pub offered: Vec<f64>,
    /// Load before attempts count, in s; by default as long as a client waits, since by then clients
    /// give up as fast as they come, and 3 s where the server can serve all. Of bursts it has at least
    /// the first and its silence, unless it is 0.
    pub warm_up_s: Option<f64>,
    /// How long attempts are counted, in s; steps last as long as they say.
    pub duration_s: f64,
    /// The schedule's seed.
    pub seed: u64,
}

/// The parts of a run, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Load before attempts count.
    pub warm_up: Duration,
    /// Attempts count that start in it.
    pub duration: Duration,
    /// Load after it: attempts counted last must see the same server as the first.
    pub cool_down: Duration,
}

impl Phases {
    /// All of them.
    #[must_use]
    pub fn whole(&self) -> Duration {
        self.warm_up + self.duration + self.cool_down
    }
}

/// What a file says of load.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadKeys {
    offered: Vec<f64>,
    /// Two minutes a point, as both theses have it (Shukla 3.3).
    #[serde(default = "two_minutes")]
    duration_s: f64,
    warm_up_s: Option<f64>,
    #[serde(default = "first_seed")]
    seed: u64,
    short: Option<ShortKeys>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortKeys {
    offered: Option<Vec<f64>>,
    duration_s: Option<f64>,
    warm_up_s: Option<f64>,
}

/// Of the short form, where it does not say; a shorter full one is its own.
const SHORT_DURATION_S: f64 = 5.0;
/// Below so many times capacity no one waits long enough to be waited for.
const CALM_BELOW: f64 = 0.9;
const CALM_WARM_UP_S: f64 = 3.0;

fn two_minutes() -> f64 {
    120.0
}

fn first_seed() -> u64 {
    1
}

impl LoadKeys {
    pub(crate) fn resolve(&self, form: Form) -> Load {
        let full = Load {
            offered: self.offered.clone(),
            warm_up_s: self.warm_up_s,
            duration_s: self.duration_s,
            seed: self.seed,
        };
        if form == Form::Full {
            return full;
        }
        let short = self.short.clone().unwrap_or_default();
        Load {
            offered: short.offered.unwrap_or(full.offered),
            duration_s: short.duration_s.unwrap_or(SHORT_DURATION_S.min(full.duration_s)),
            warm_up_s: short.warm_up_s.or(full.warm_up_s),
            ..full
        }
    }
}

impl Load {
    /// How long a point takes at this offered load, in multiples of capacity.
    #[must_use]
    pub fn phases(&self, clients: &Clients, offered: f64) -> Phases {
        let patience_s = clients.timeout_s;
        let calm_s = CALM_WARM_UP_S.min(patience_s);
        let first = match &clients.arrivals {
            Arrivals::Steps(steps) => steps.first().map_or(0.0, |step| offered * step.times),
            _ => offered,
        };
        let usual_s = if first < CALM_BELOW { calm_s } else { patience_s };
        let mut warm_up_s = self.warm_up_s.unwrap_or(usual_s);
        let duration_s = match &clients.arrivals {
            // A mean rate is one of whole periods, and nothing is as usual before the first is over.
            Arrivals::Bursts { burst_s, silence_s } => {
                let period_s = burst_s + silence_s;
                if warm_up_s > 0.0 {
                    warm_up_s = warm_up_s.max(period_s);
                }
                (self.duration_s / period_s).ceil() * period_s
            }
            Arrivals::Steps(steps) => steps::last_s(steps),
            _ => self.duration_s,
        };
        // The objects of a page come after the page.
        let patiences = if clients.browsing.is_some() { 2 } else { 1 };
        Phases {
            warm_up: Duration::from_secs_f64(warm_up_s),
            duration: Duration::from_secs_f64(duration_s),
            cool_down: patiences * Duration::from_secs_f64(patience_s),
        }
    }

    /// Whether these clients can come so.
    pub(crate) fn suits(&self, clients: &Clients) -> Result<(), String> {
        if matches!(clients.arrivals, Arrivals::Steps(_)) && self.offered.len() > 1 {
            let what = "steps are multiples of one offered rate, and there are several";
            return Err(format!("{what}: write offered = [1]"));
        }
        Ok(())
    }

    // Ranges are written so that NaN is refused too.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.offered.is_empty() {
            return Err(
                "offered names no rate: give multiples of capacity, as in [0.5, 1, 2]".into()
            );
        }
        for rate in &self.offered {
            if !(*rate > 0.0 && *rate <= 100.0) {
                return Err(format!(
                    "offered {rate} is an impossible rate: give multiples of capacity, above 0 and up to 100"
                ));
            }
        }
        if !self.offered.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err("offered must rise from one rate to the next".into());
        }
        if !(SHORTEST_S..=86_400.0).contains(&self.duration_s) {
            return Err(format!("duration_s {} is not {SHORTEST_S} to 86400", self.duration_s));
        }
        let warm_up_s = self.warm_up_s.unwrap_or_default();
        if !(0.0..=86_400.0).contains(&warm_up_s) {
            return Err(format!("warm_up_s {warm_up_s} is not between 0 and 86400"));
        }
        Ok(())
    }
}
