// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How much load, and how long.

use serde::{Deserialize, Serialize};

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
    /// give up as fast as they come, and 3 s where the server can serve all.
    pub warm_up_s: Option<f64>,
    /// How long attempts are counted, in s.
    pub duration_s: f64,
    /// The schedule's seed.
    pub seed: u64,
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

const SHORT_DURATION_S: f64 = 5.0;

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
            duration_s: short.duration_s.unwrap_or(SHORT_DURATION_S),
            warm_up_s: short.warm_up_s.or(full.warm_up_s),
            ..full
        }
    }
}

impl Load {
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
        if !(self.duration_s > 0.0 && self.duration_s <= 86_400.0) {
            return Err(format!("duration_s {} is not above 0 and up to 86400", self.duration_s));
        }
        let warm_up_s = self.warm_up_s.unwrap_or_default();
        if !(0.0..=86_400.0).contains(&warm_up_s) {
            return Err(format!("warm_up_s {warm_up_s} is not between 0 and 86400"));
        }
        Ok(())
    }
}
