// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clients that a scenario sends.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tidegate_client::{Close, Os};

use crate::arrivals::Arrivals;
use crate::browsing::Browsing;
use crate::load::SHORTEST_S;
use crate::networks::Networks;
use crate::systems::Systems;

/// The addresses that a crowd has.
const ADDRESSES: u16 = 254;
/// Ports of an address: those above the servers'.
const PORTS: u16 = u16::MAX - 1023;
/// One way, in ms: no client is farther away.
const FARTHEST_MS: f64 = 10_000.0;

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

/// One-way delay between client and server, drawn once for each connection.
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
    /// Whose TCP they have.
    pub os: Systems,
    /// How packets are made.
    pub driver: Driver,
    /// How long a client waits before it gives up, in s.
    pub timeout_s: f64,
    /// How it ends its side.
    pub close: Close,
    /// Requests on one connection, in the mean; where clients browse, what their browser makes of
    /// a page.
    pub requests: f64,
    /// Whether they visit pages with a browser.
    pub browsing: Option<Browsing>,
    /// The networks that they come from, where these are told apart.
    pub networks: Networks,
    /// Their addresses, where they are fewer than the crowd's 254.
    pub addresses: Option<u16>,
    /// Ports of each address, where they can be short: then none is used while its client holds it in
    /// TIME-WAIT.
    pub ports: Option<u16>,
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
            os: Systems::all(Os::linux()),
            driver: Driver::Raw,
            timeout_s: 10.0,
            close: Close::Fin,
            requests: 1.0,
            browsing: None,
            networks: Networks::default(),
            addresses: None,
            ports: None,
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
    os: Option<Systems>,
    driver: Option<Driver>,
    timeout_s: Option<f64>,
    close: Option<Close>,
    requests: Option<f64>,
    browser: Option<String>,
    objects: Option<u16>,
    pages: Option<f64>,
    think_s: Option<f64>,
    networks: Option<Networks>,
    addresses: Option<u16>,
    ports: Option<u16>,
    delay: Option<Delay>,
    loss: Option<f64>,
    reorder: Option<f64>,
    arrivals: Option<Arrivals>,
}

impl ClientKeys {
    pub(crate) fn over(&self, base: &Clients) -> Clients {
        let browsing = self.browsing_over(base.browsing.as_ref());
        let requests = match (&browsing, self.requests) {
            (Some(browsing), None) => browsing.requests_a_connection(),
            (_, given) => given.unwrap_or(base.requests),
        };
        Clients {
            os: self.os.clone().unwrap_or_else(|| base.os.clone()),
            driver: self.driver.unwrap_or(base.driver),
            timeout_s: self.timeout_s.unwrap_or(base.timeout_s),
            close: self.close.unwrap_or(base.close),
            requests,
            browsing,
            networks: self.networks.clone().unwrap_or_else(|| base.networks.clone()),
            addresses: self.addresses.or(base.addresses),
            ports: self.ports.or(base.ports),
            delay: self.delay.unwrap_or(base.delay),
            loss: self.loss.unwrap_or(base.loss),
            reorder: self.reorder.unwrap_or(base.reorder),
            arrivals: self.arrivals.clone().unwrap_or_else(|| base.arrivals.clone()),
        }
    }

    fn browsing_over(&self, base: Option<&Browsing>) -> Option<Browsing> {
        let says_more = self.objects.is_some() || self.pages.is_some() || self.think_s.is_some();
        if self.browser.is_none() && base.is_none() && !says_more {
            return None;
        }
        let base = base.cloned().unwrap_or_default();
        Some(Browsing {
            browser: self.browser.clone().unwrap_or(base.browser),
            objects: self.objects.unwrap_or(base.objects),
            pages: self.pages.unwrap_or(base.pages),
            think_s: self.think_s.unwrap_or(base.think_s),
        })
    }
}

impl Clients {
    /// Connections a second that bring so many requests a second, in the mean.
    #[must_use]
    pub fn connections_per_s(&self, requests_per_s: f64) -> f64 {
        requests_per_s / self.requests
    }

    /// How many pairs of an address and a port they have, where ports can be short.
    #[must_use]
    pub fn pairs(&self) -> Option<u32> {
        let ports = self.ports?;
        Some(u32::from(ports) * u32::from(self.addresses.unwrap_or(ADDRESSES)))
    }

    /// In a few words, as results name them.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut words = format!("{}, timeout {} s", self.os, self.timeout_s);
        if self.driver == Driver::Sockets {
            words.push_str(", kernel sockets");
        }
        match self.close {
            Close::Fin => {}
            Close::Reset => words.push_str(", close with RST"),
            Close::HalfClose => words.push_str(", half-close"),
            Close::Server => words.push_str(", server closes"),
            Close::ClientClose => words.push_str(", CLIENT_CLOSE"),
        }
        if let Some(browsing) = &self.browsing {
            let Browsing { browser, objects, pages, think_s } = browsing;
            words.push_str(&format!(", visits by {browser} to pages of {objects} objects"));
            if *pages > 1.0 {
                words.push_str(&format!(", {pages} pages a client, {think_s} s apart"));
            }
        } else if self.requests > 1.0 {
            words.push_str(&format!(", {} requests a connection", self.requests));
        }
        if !self.networks.is_empty() {
            words.push_str(&format!(", from {}", self.networks.summary()));
        }
        if let Some(addresses) = self.addresses {
            let plural = if addresses == 1 { "" } else { "es" };
            words.push_str(&format!(", {addresses} address{plural}"));
        }
        if let Some(ports) = self.ports {
            words.push_str(&format!(", {ports} ports each"));
        }
        if self.delay.mean_ms > 0.0 {
            words.push_str(&format!(", {} ms away", self.delay.mean_ms));
        }
        if let Some(arrivals) = self.arrivals.summary() {
            words.push_str(&format!(", {arrivals}"));
        }
        if self.loss > 0.0 {
            words.push_str(&format!(", loss {} %", self.loss * 100.0));
        }
        if self.reorder > 0.0 {
            words.push_str(&format!(", {} % late", self.reorder * 100.0));
        }
        words
    }

    /// A trace's file is named as seen from the scenario's folder.
    pub(crate) fn seen_from(mut self, folder: &Path) -> Self {
        if let Arrivals::Trace(file) = &mut self.arrivals {
            *file = folder.join(&*file);
        }
        self
    }

    // Ranges are written so that NaN is refused too.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(SHORTEST_S..=3600.0).contains(&self.timeout_s) {
            return Err(format!("timeout_s {} is not {SHORTEST_S} to 3600", self.timeout_s));
        }
        if !(self.requests >= 1.0 && self.requests <= 1000.0) {
            return Err(format!("requests {} is not between 1 and 1000", self.requests));
        }
        if let Some(browsing) = &self.browsing {
            browsing.check()?;
            if self.requests.to_bits() != browsing.requests_a_connection().to_bits() {
                return Err("requests is for single connections: a browser decides itself".into());
            }
        }
        self.networks.check()?;
        if !self.networks.is_empty() {
            let is_other = self.addresses.is_some() || self.ports.is_some();
            if is_other || self.driver == Driver::Sockets || self.browsing.is_some() {
                return Err(
                    "networks need driver = \"raw\", and have neither addresses, nor ports, nor a \
                     browser beside them"
                        .to_owned(),
                );
            }
        }
        self.check_addresses()?;
        self.check_weather()?;
        self.arrivals.check()
    }

    fn check_addresses(&self) -> Result<(), String> {
        if self.addresses.is_some_and(|addresses| addresses == 0 || addresses > ADDRESSES) {
            return Err(format!("addresses are 1 to {ADDRESSES}"));
        }
        if self.ports.is_some_and(|ports| ports == 0 || ports > PORTS) {
            return Err(format!("ports are 1 to {PORTS} of each address"));
        }
        let is_short = self.addresses.is_some() || self.ports.is_some();
        if self.driver == Driver::Sockets && is_short {
            return Err("addresses and ports need driver = \"raw\"".to_owned());
        }
        Ok(())
    }

    fn check_weather(&self) -> Result<(), String> {
        for (key, chance) in [("loss", self.loss), ("reorder", self.reorder)] {
            if !(0.0..1.0).contains(&chance) {
                return Err(format!("{key} {chance} is a chance: from 0 to below 1"));
            }
        }
        let delay = self.delay;
        if !(0.0..=FARTHEST_MS).contains(&delay.mean_ms) {
            return Err(format!(
                "a delay of {} ms is not between 0 and {FARTHEST_MS}",
                delay.mean_ms
            ));
        }
        if !(0.0..=FARTHEST_MS).contains(&delay.spread_ms) {
            return Err(format!(
                "a spread_ms of {} is not between 0 and {FARTHEST_MS}",
                delay.spread_ms
            ));
        }
        if delay.mean_ms == 0.0 && delay.spread_ms > 0.0 {
            return Err(format!(
                "a delay that is spread by {} ms has no mean: give mean_ms above 0, or no spread_ms",
                delay.spread_ms
            ));
        }
        let weather = self.loss > 0.0 || self.reorder > 0.0 || delay.mean_ms > 0.0;
        if self.driver == Driver::Sockets && weather {
            return Err("delay, loss and reorder need driver = \"raw\"".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
