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
        let before = self.visits.clients();
        let place = self.visits.come(home, browsing, intended_ns, &mut self.chance);
        let let_down = self.browse(place, now_ns);
        // Not one whose other connections go on.
        if let Some(end) = let_down.filter(|_| self.visits.clients() == before) {
            self.schedule.failed_at_once(end, now_ns);
        }
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

    /// Does what a client's visit has it do now. Says how a connection of it ended at once, if one did.
    fn browse(&mut self, place: u32, now_ns: u64) -> Option<End> {
        let mut let_down = None;
        while let Some(deed) = self.visits.next(place, now_ns, &mut self.chance) {
            match deed {
                Deed::Begin { intended_ns } => self.tally.visit_started(intended_ns),
                Deed::Open(opening) => {
                    let_down = self.open_for(place, &opening, now_ns).or(let_down);
                }
                // Its visit knows already.
                Deed::Withdraw(token) => {
                    self.finish(token, End::Withdrawn);
                }
                Deed::Finish { end, intended_ns } => {
                    self.tally.visit_ended(end, intended_ns, now_ns);
                }
            }
        }
        let_down
    }

    fn open_for(&mut self, visit: u32, opening: &Opening, now_ns: u64) -> Option<End> {
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
        let opened = self.open(&home, new, now_ns);
        match opened {
            Ok(token) => self.visits.opened(visit, opening, token),
            Err(end) => self.visits.not_opened(visit, opening, end, now_ns),
        }
        opened.err()
    }
}
