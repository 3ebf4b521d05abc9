// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `tidegate status` says of `auto`.

use std::fmt::Write;

use serde::Serialize;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::{by_socket, clock};
use tidegate_policy::names::PHASES;
use tidegate_policy::raw::{TG_CALM, tg_inside, tg_overload};

use crate::failure::Result;

/// What auto knows of a listening socket.
#[derive(Debug, Serialize)]
pub struct OverloadStatus {
    /// `calm`, `burst`, `persistent` or `recovering`.
    pub phase: &'static str,
    /// Clients that had not come before, a second; null in calm, when nobody is looked up.
    pub new_per_s: Option<f64>,
    /// Connections that the server takes, a second; null in calm, when it takes what comes.
    pub drain_per_s: Option<f64>,
    /// Clients left in silence that may come again.
    pub waiting: u64,
    /// How many of them should, while it persists.
    pub may_wait: u64,
    /// How many places of the listen queue auto lets be taken; null where that is all of them, or where
    /// clients are away and the pace holds.
    pub places: Option<u32>,
    /// Between a SYN/ACK and its ACK, in the mean of the last few that were seen in trouble, in ms; 0 where
    /// none was.
    pub round_trip_ms: f64,
    /// Whether it has been seen to work for clients who had gone, so that who waits inside the application counts.
    pub behind: bool,
    /// Accepted connections whose clients have said something and have heard nothing yet; null where nobody has counted
    /// them of late.
    pub waiting_inside: Option<u32>,
    /// So many may wait, inside and in the queues together, of a server that is behind at times: as many as it was found
    /// to need. Null of others.
    pub waiting_limit: Option<u32>,
}

impl OverloadStatus {
    /// As it is now, by the socket's counter slot.
    ///
    /// # Errors
    /// Where the kernel does not tell.
    pub fn read(programs: &Programs, slot: u32) -> Result<Self> {
        Ok(Self::of(&by_socket::read(programs, slot)?, &by_socket::read(programs, slot)?))
    }

    fn of(overload: &tg_overload, inside: &tg_inside) -> Self {
        let now_ns = clock::monotonic_ns();
        let phase = overload.phase(now_ns);
        // An overload that is over has left the numbers of its time.
        let is_calm = phase == TG_CALM;
        let (waiting, may_wait) =
            if is_calm { (0, 0) } else { (overload.waiting(), overload.may_wait) };
        Self {
            phase: PHASES[phase as usize],
            new_per_s: (!is_calm).then(|| overload.fresh_per_s().round()),
            drain_per_s: (!is_calm).then(|| overload.drain_per_s().round()),
            waiting,
            may_wait,
            places: overload.places(now_ns),
            round_trip_ms: overload.round_trip_ns as f64 / 1e6,
            behind: overload.is_behind(),
            waiting_inside: inside.is_of_now(now_ns).then_some(inside.unanswered),
            waiting_limit: overload.is_behind().then_some(overload.may_be_waiting),
        }
    }

    /// For people.
    pub fn line(&self) -> String {
        let Self { phase, waiting, may_wait, places, .. } = self;
        let (Some(new_per_s), Some(drain_per_s)) = (self.new_per_s, self.drain_per_s) else {
            return phase.to_string();
        };
        let mut line = format!(
            "{phase}: {new_per_s}/s new, {drain_per_s}/s drained; {waiting} left to come again"
        );
        if *phase != "burst" {
            let _ = write!(line, ", of {may_wait} at most");
        }
        if let Some(places) = places {
            let _ = write!(line, "; {places} places");
        }
        if let (Some(limit), Some(inside)) = (self.waiting_limit, self.waiting_inside) {
            let _ = write!(line, "; {inside} inside, of {limit} in all");
        }
        line
    }
}
