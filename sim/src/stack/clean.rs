// SPDX-License-Identifier: Apache-2.0 OR MIT
//! reserv: old half-open requests that give their places back.

use tidegate_policy::reserv::CLEANS_EVERY;
use tidegate_policy::reservation_stale;

use super::{Host, State};
use crate::flow::Flow;
use crate::wire::{Wire, Work};

impl Host {
    /// When they are looked for next, where they are at all.
    pub(crate) fn cleans_at_ns(&self, now_ns: u64) -> Option<u64> {
        let cleans = self.guard.as_ref().is_some_and(|guard| guard.rules.clean_after_ms != 0);
        cleans.then(|| now_ns + CLEANS_EVERY.as_nanos() as u64)
    }

    /// Removes a request that is to give its place back, as the daemon does while places are short: its
    /// client learns of it by RST when it sends its ACK. What the daemon takes to look is not reckoned.
    /// True where it was one.
    pub(crate) fn cleans(
        &mut self,
        flow: &mut Flow,
        place: u32,
        now_ns: u64,
        wire: &mut Wire,
    ) -> bool {
        let Some(guard) = self.guard.as_ref().filter(|_| flow.conn.state == State::HalfOpen) else {
            return false;
        };
        let queues = self.listener.shown(self.profile, &self.kernel, &guard.rules);
        let age_ms = flow.conn.half_open_ns(now_ns) / 1_000_000;
        if !reservation_stale(&guard.rules, &queues, age_ms) {
            return false;
        }
        self.counted.cleaned += 1;
        let mut work = Work::new(wire, &self.costs, place, now_ns);
        self.remove_request(flow, &mut work);
        true
    }
}
