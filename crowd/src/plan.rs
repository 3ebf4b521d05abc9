// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who goes where, when, and with how much patience.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::error::CrowdError;

const RATE_MAX_PER_S: f64 = 1e7;
const DURATION_MAX: Duration = Duration::from_secs(86_400);

/// How starts come about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Open loop, evenly spaced.
    Constant {
        /// Starts per second.
        per_s: f64,
    },
    /// Open loop, at random.
    Poisson {
        /// Starts per second, on average.
        per_s: f64,
    },
    /// Closed loop: so many clients, each starting again when its attempt has ended. For measuring
    /// a capacity, not for overload: these clients wait for each other.
    Closed {
        /// Clients at work at any time.
        clients: usize,
    },
}

/// How a client ends its side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Close {
    /// Politely.
    #[default]
    Fin,
    /// With a RST (`SO_LINGER` of zero), after a reply as well as when giving up.
    Reset,
}

/// A crowd to send.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where to, in turn.
    pub targets: Vec<SocketAddr>,
    /// Where from, in turn among those of the target's family; empty lets the kernel choose.
    pub sources: Vec<IpAddr>,
    /// How starts come about.
    pub load: Load,
    /// How long load is applied before anything counts.
    pub warm_up: Duration,
    /// How long attempts are counted by their intended start.
    pub duration: Duration,
    /// How long load goes on afterwards, so that the last attempts counted see the same server as
    /// the first. A [`Plan::timeout`] is enough.
    pub cool_down: Duration,
    /// How long a client waits for its whole reply, from its actual start.
    pub timeout: Duration,
    /// Chooses the schedule of [`Load::Poisson`].
    pub seed: u64,
    /// What is asked for.
    pub path: String,
    /// How a client ends its side.
    pub close: Close,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            sources: Vec::new(),
            load: Load::Poisson { per_s: 100.0 },
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(10),
            cool_down: Duration::ZERO,
            timeout: Duration::from_secs(10),
            seed: 1,
            path: "/".to_owned(),
            close: Close::Fin,
        }
    }
}

impl Plan {
    /// Says whether the plan can be carried out.
    ///
    /// # Errors
    /// Whatever is wrong first, as a [`CrowdError`].
    pub fn check(&self) -> Result<(), CrowdError> {
        if self.targets.is_empty() {
            return Err(CrowdError::NoTarget);
        }
        for &target in &self.targets {
            if !self.sources.is_empty() && self.sources_for(target).next().is_none() {
                return Err(CrowdError::NoSource { target });
            }
        }
        match self.load {
            // Written so that NaN is refused too.
            Load::Constant { per_s } | Load::Poisson { per_s }
                if !(per_s > 0.0 && per_s <= RATE_MAX_PER_S) =>
            {
                return Err(CrowdError::Rate { per_s });
            }
            Load::Closed { clients: 0 } => return Err(CrowdError::NoClients),
            _ => {}
        }
        let fits_a_line = self.path.bytes().all(|byte| byte.is_ascii_graphic());
        if !self.path.starts_with('/') || !fits_a_line {
            return Err(CrowdError::Path { path: self.path.clone() });
        }
        for (what, given, zero_allowed) in [
            ("a duration", self.duration, false),
            ("a timeout", self.timeout, false),
            ("a warm-up", self.warm_up, true),
            ("a cool-down", self.cool_down, true),
        ] {
            if given > DURATION_MAX || (given.is_zero() && !zero_allowed) {
                return Err(CrowdError::Duration { what, given_s: given.as_secs_f64() });
            }
        }
        Ok(())
    }

    pub(crate) fn sources_for(&self, target: SocketAddr) -> impl Iterator<Item = IpAddr> {
        self.sources.iter().copied().filter(move |source| source.is_ipv4() == target.is_ipv4())
    }

    /// Descriptors needed when every attempt waits out its timeout.
    pub(crate) fn descriptors_needed(&self) -> u64 {
        let in_flight = match self.load {
            Load::Constant { per_s } | Load::Poisson { per_s } => {
                // A Poisson crowd is now and then larger than its mean.
                per_s * self.timeout.min(self.whole()).as_secs_f64() * 1.1
            }
            Load::Closed { clients } => clients as f64,
        };
        in_flight as u64 + 1000
    }

    /// How long load is applied in all.
    pub(crate) fn whole(&self) -> Duration {
        self.warm_up + self.duration + self.cool_down
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Plan {
        Plan { targets: vec!["10.0.0.1:80".parse().unwrap()], ..Plan::default() }
    }

    #[test]
    fn impossible_plans_are_refused_with_the_value() {
        assert!(good().check().is_ok());
        let refused = |change: fn(&mut Plan)| {
            let mut plan = good();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        assert!(refused(|p| p.targets.clear()).contains("target"));
        assert!(refused(|p| p.sources = vec!["::1".parse().unwrap()]).contains("10.0.0.1:80"));
        assert!(refused(|p| p.load = Load::Poisson { per_s: f64::NAN }).contains("NaN"));
        assert!(refused(|p| p.load = Load::Constant { per_s: -3.0 }).contains("-3"));
        assert!(refused(|p| p.path = "/a b".to_owned()).contains("/a b"));
        assert!(refused(|p| p.duration = Duration::ZERO).contains("duration of 0 s"));
    }
}
