// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits inside the application, counted for `auto` as the daemon counts them: see
//! policy/include/overload_inside.h.

use tidegate_policy::raw::{TG_INSIDE_UNHEEDED_NS, tg_inside};
use tidegate_policy::reserv::CLEANS_EVERY;

use super::conn::{Conn, State};
use super::{Guard, Host};
use crate::flow::Flow;

impl Conn {
    /// Whether the application has accepted it, and its client has said something and has heard nothing yet.
    fn waits_inside(&self) -> bool {
        let has_asked = self.requests > 0 || self.replies || self.fin_seen;
        self.state == State::Accepted && has_asked && self.sent_max() == self.isn.wrapping_add(1)
    }

    /// Whether its client said something last, or closed, so long ago that an application that has time has noticed.
    fn is_due(&self, now_ns: u64) -> bool {
        now_ns - self.heard_at_ns >= u64::from(TG_INSIDE_UNHEEDED_NS)
    }
}

impl Host {
    /// When the daemon looks next, where it has to.
    pub(crate) fn looks_at_ns(&self, now_ns: u64) -> Option<u64> {
        let watches = self.guard.as_ref().is_some_and(|guard| guard.watch.is_some());
        watches.then(|| now_ns + CLEANS_EVERY.as_nanos() as u64)
    }

    /// A look of the daemon's, which takes no time here.
    pub(crate) fn looks<'a>(&mut self, flows: impl Iterator<Item = &'a Flow>, now_ns: u64) {
        let Some(Guard { watch: Some(watch), counting, .. }) = &mut self.guard else { return };
        if !counting.is_due() {
            return;
        }
        let mut inside = tg_inside {
            // 0 is never.
            at_ns: now_ns.max(1),
            queued: self.listener.queue.len() as u32 + self.listener.half_open,
            let_in: watch.overload().let_in,
            ..Default::default()
        };
        for conn in flows.map(|flow| &flow.conn).filter(|conn| conn.waits_inside()) {
            inside.unanswered += 1;
            if conn.is_due(now_ns) {
                inside.gone += u32::from(conn.fin_seen);
                inside.unread += u32::from(!conn.fin_seen && conn.requests > 0);
            }
        }
        watch.count_inside(inside);
        counting.counted([(inside, watch.overload())]);
    }
}
