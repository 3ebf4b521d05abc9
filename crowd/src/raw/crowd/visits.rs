// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What clients do who visit pages.

use tidegate_client::End;

use super::people::Coming;
use super::{Crowd, TIMERS_PER_TURN};
use crate::visits::{ALONE, Deed, Home, Opening};

impl Crowd<'_> {
    /// Someone comes to visit pages.
    pub(super) fn come(&mut self, home: Home, intended_ns: u64, now_ns: u64) {
        let Some(browsing) = &self.plan.classes[home.class].browsing else { return };
        let at_ns = self.begun_ns + intended_ns;
        let place = self.visits.come(home, browsing, at_ns, &mut self.chance);
        self.browse(place, now_ns);
    }

    pub(super) fn wake_visits(&mut self, now_ns: u64) -> usize {
        if self.visits.clients() == 0 {
            return 0;
        }
        for count in 0..TIMERS_PER_TURN {
            let Some(place) = self.visits.fire(now_ns) else { return count };
            self.browse(place, now_ns);
        }
        TIMERS_PER_TURN
    }

    /// Does what a client's visit has it do now.
    pub(super) fn browse(&mut self, place: u32, now_ns: u64) {
        while let Some(deed) = self.visits.next(place, now_ns, &mut self.chance) {
            match deed {
                Deed::Begin { intended_ns } => {
                    self.tally.visit_started(intended_ns - self.begun_ns);
                }
                Deed::Open(opening) => self.open_for(place, &opening, now_ns),
                Deed::Withdraw(key) => self.withdraw(key as u32, now_ns),
                Deed::Finish { end, intended_ns } => {
                    let since_ns = now_ns - self.begun_ns;
                    self.tally.visit_ended(end, intended_ns - self.begun_ns, since_ns);
                }
            }
        }
    }

    fn open_for(&mut self, visit: u32, opening: &Opening, now_ns: u64) {
        let Home { class, target, address, delay_ns } = opening.home;
        let intended_ns = opening.intended_ns - self.begun_ns;
        let is_taken = |tuple| {
            self.attempts.find(tuple).is_some()
                || self.waiting.as_ref().is_some_and(|held| held.has(tuple))
        };
        let tuple = address.and_then(|address| self.tuples.take_at(target, address, is_taken));
        let Some(tuple) = tuple else {
            self.no_port(intended_ns, now_ns);
            return self.visits.not_opened(visit, opening, End::NO_PORT, now_ns);
        };
        let page = class * self.ways.len() + target;
        let requests = opening.requests;
        let (place, first) = match (opening.object, self.personas[page].objects) {
            (Some(object), Some(objects)) => (objects, object),
            _ => (page, self.turn.take(requests)),
        };
        let coming = Coming { place, tuple, visit, first, requests, delay_ns, intended_ns };
        let number = self.open(coming, now_ns);
        self.visits.opened(visit, opening, number.into());
    }

    /// Leaves an attempt that is of no use any more.
    fn withdraw(&mut self, number: u32, now_ns: u64) {
        if let Some(slot) = self.attempts.get(number) {
            // Its visit knows already.
            slot.visit = ALONE;
        }
        self.attend(number, now_ns, |attempt, person, post| attempt.withdraw(now_ns, person, post));
    }
}
