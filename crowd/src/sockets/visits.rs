// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What clients do who visit pages.

use tidegate_client::End;

use super::Crowd;
use crate::attempt::New;
use crate::visits::{Deed, Home, Opening};

impl Crowd<'_> {
    /// Someone comes to visit pages.
    pub(super) fn come(&mut self, home: Home, intended_ns: u64, now_ns: u64) {
        let Some(browsing) = &self.plan.classes[home.class].browsing else { return };
        let place = self.visits.come(home, browsing, intended_ns, &mut self.chance);
        self.browse(place, now_ns);
    }

    pub(super) fn wake_visits(&mut self) {
        while let Some(place) = self.visits.fire(self.now_ns()) {
            self.browse(place, self.now_ns());
        }
    }

    /// Tells a visit of one of its attempts.
    pub(super) fn tell(&mut self, visit: u32, token: u64, is_connected: bool, end: Option<End>) {
        let now_ns = self.now_ns();
        self.visits.heard(visit, token, is_connected, end, now_ns);
        self.browse(visit, now_ns);
    }

    /// Does what a client's visit has it do now.
    fn browse(&mut self, place: u32, now_ns: u64) {
        while let Some(deed) = self.visits.next(place, now_ns, &mut self.chance) {
            match deed {
                Deed::Begin { intended_ns } => self.tally.visit_started(intended_ns),
                Deed::Open(opening) => self.open_for(place, &opening, now_ns),
                // Its visit knows already.
                Deed::Withdraw(token) => {
                    self.finish(token, End::Withdrawn);
                }
                Deed::Finish { end, intended_ns } => {
                    self.tally.visit_ended(end, intended_ns, now_ns);
                }
            }
        }
    }

    fn open_for(&mut self, visit: u32, opening: &Opening, now_ns: u64) {
        let home = opening.home;
        let page = home.class * self.ways.each.len() + home.target;
        let (errand, first) = match (opening.object, self.errands[page].objects) {
            (Some(object), Some(objects)) => (objects, object),
            _ => (page, self.turn.take(opening.requests)),
        };
        let new = New {
            errand,
            first,
            count: opening.requests,
            intended_ns: opening.intended_ns,
            counts: self.tally.counts(opening.intended_ns),
            visit,
        };
        match self.open(&home, new, now_ns) {
            Ok(token) => self.visits.opened(visit, opening, token),
            Err(end) => self.visits.not_opened(visit, opening, end, now_ns),
        }
    }
}
