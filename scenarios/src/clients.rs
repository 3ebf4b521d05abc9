// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients that a scenario sends.

use serde::{Deserialize, Serialize};

/// How packets are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// By the client emulator, with any operating system's manners.
    #[default]
    Raw,
    /// By this kernel's sockets.
    Sockets,
}

/// How a client ends its side of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// With FIN.
    #[default]
    Fin,
    /// With RST (Shukla 4.2.2, `close-rst`).
    Reset,
    /// FIN right after the request, still reading (Shukla 2.1.2).
    HalfClose,
}

/// How starts are spaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// At random.
    #[default]
    Poisson,
    /// Evenly.
    Constant,
    /// Overload for so long, then silence, at the same mean rate (Shukla 5.2).
    Bursts {
        /// Length of a burst, in s.
        burst_s: f64,
        /// Length of the silence after it, in s.
        silence_s: f64,
    },
}

/// One-way delay between client and server, drawn once a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The mean, in ms.
    pub mean_ms: f64,
    /// Standard deviation of a normal distribution cut at zero, in ms.
    #[serde(default)]
    pub spread_ms: f64,
}

/// Clients, resolved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Clients {
    /// Name of an operating system's profile.
    pub os: String,
    /// How packets are made.
    pub driver: Driver,
    /// How long a client waits before it gives up, in s.
    pub timeout_s: f64,
    /// How it ends its side.
    pub close: Close,
    /// Requests on one connection, in the mean.
    pub requests: f64,
    /// Between client and server, each way.
    pub delay: Delay,
    /// Chance of a packet to be lost, each way.
    pub loss: f64,
    /// Chance of a packet to come late, each way, so that those behind it overtake.
    pub reorder: f64,
    /// How they arrive.
    pub arrivals: Arrivals,
}

impl Default for Clients {
    fn default() -> Self {
        Self {
            os: "linux".to_owned(),
            driver: Driver::Raw,
            timeout_s: 10.0,
            close: Close::Fin,
            requests: 1.0,
            delay: Delay::default(),
            loss: 0.0,
            reorder: 0.0,
            arrivals: Arrivals::Poisson,
        }
    }
}

/// What a file says of clients; what it leaves out stays as it was.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientKeys {
    os: Option<String>,
    driver: Option<Driver>,
    timeout_s: Option<f64>,
    close: Option<Close>,
    requests: Option<f64>,
    delay: Option<Delay>,
    loss: Option<f64>,
    reorder: Option<f64>,
    arrivals: Option<Arrivals>,
}

impl ClientKeys {
    pub(crate) fn over(&self, base: &Clients) -> Clients {
        Clients {
            os: self.os.clone().unwrap_or_else(|| base.os.clone()),
            driver: self.driver.unwrap_or(base.driver),
            timeout_s: self.timeout_s.unwrap_or(base.timeout_s),
            close: self.close.unwrap_or(base.close),
            requests: self.requests.unwrap_or(base.requests),
            delay: self.delay.unwrap_or(base.delay),
            loss: self.loss.unwrap_or(base.loss),
            reorder: self.reorder.unwrap_or(base.reorder),
            arrivals: self.arrivals.unwrap_or(base.arrivals),
        }
    }
}

impl Clients {
    /// In a few words, as results name them.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut words = format!("{}, timeout {} s", self.os, self.timeout_s);
        match self.close {
            Close::Fin => {}
            Close::Reset => words.push_str(", close with RST"),
            Close::HalfClose => words.push_str(", half-close"),
        }
        if self.requests > 1.0 {
            words.push_str(&format!(", {} requests a connection", self.requests));
        }
        if self.delay.mean_ms > 0.0 {
            words.push_str(&format!(", {} ms away", self.delay.mean_ms));
        }
        if let Arrivals::Bursts { burst_s, silence_s } = self.arrivals {
            words.push_str(&format!(", bursts of {burst_s} s, {silence_s} s apart"));
        }
        if self.loss > 0.0 {
            words.push_str(&format!(", loss {} %", self.loss * 100.0));
        }
        if self.reorder > 0.0 {
            words.push_str(&format!(", {} % late", self.reorder * 100.0));
        }
        words
    }

    // Ranges are written so that NaN is refused too.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(self.timeout_s > 0.0 && self.timeout_s <= 3600.0) {
            return Err(format!("timeout_s {} is not above 0 and up to 3600", self.timeout_s));
        }
        if !(self.requests >= 1.0 && self.requests <= 1000.0) {
            return Err(format!("requests {} is not between 1 and 1000", self.requests));
        }
        for (key, chance) in [("loss", self.loss), ("reorder", self.reorder)] {
            if !(0.0..1.0).contains(&chance) {
                return Err(format!("{key} {chance} is a chance: from 0 to below 1"));
            }
        }
        let delay = self.delay;
        if !(delay.mean_ms >= 0.0 && delay.mean_ms <= 10_000.0 && delay.spread_ms >= 0.0) {
            return Err(format!("a delay of {} ms is not between 0 and 10000", delay.mean_ms));
        }
        let weather = self.loss > 0.0 || self.reorder > 0.0 || delay.mean_ms > 0.0;
        if self.driver == Driver::Sockets && weather {
            return Err("delay, loss and reorder need driver = \"raw\"".to_owned());
        }
        if let Arrivals::Bursts { burst_s, silence_s } = self.arrivals
            && !(burst_s > 0.0 && silence_s >= 0.0 && burst_s + silence_s <= 86_400.0)
        {
            return Err(format!(
                "bursts of {burst_s} s with {silence_s} s of silence are impossible"
            ));
        }
        Ok(())
    }
}
