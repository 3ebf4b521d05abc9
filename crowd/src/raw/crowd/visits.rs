// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What clients do who visit pages.

use tidegate_client::End;

use super::people::Coming;
use super::{Crowd, TIMERS_PER_TURN};
use crate::plan::ns;
use crate::raw::tuples::Tuple;
use crate::visits::{ALONE, Deed, Home, Opening};

impl Crowd<'_> {
    /// Someone comes to visit pages, from the next address; ports are its connections' to take.
    pub(super) fn come(&mut self, class: usize, intended_ns: u64, now_ns: u64) {
        let kind = &self.plan.classes[class];
        let Some(browsing) = &kind.browsing else { return };
        let (target, address) = self.tuples.take_address(self.homes[class]);
        let delay_ns = ns(kind.network.delay.draw(&mut self.chance));
        let home = Home { class, target, address: Some(address), delay_ns };
        let at_ns = self.begun_ns + intended_ns;
        let before = self.visits.clients();
        let place = self.visits.come(home, browsing, at_ns, &mut self.chance);
        let let_down = self.browse(place, now_ns);
        // Not one whose other connections go on.
        if let Some(end) = let_down.filter(|_| self.visits.clients() == before) {
            self.schedule.failed_at_once(end, now_ns - self.begun_ns);
        }
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

    /// Does what a client's visit has it do now. Says how a connection of it ended at once, if one did.
    pub(super) fn browse(&mut self, place: u32, now_ns: u64) -> Option<End> {
        let mut let_down = None;
        while let Some(deed) = self.visits.next(place, now_ns, &mut self.chance) {
            match deed {
                Deed::Begin { intended_ns } => {
                    self.tally.visit_started(intended_ns - self.begun_ns);
                }
                Deed::Open(opening) => {
                    let_down = self.open_for(place, &opening, now_ns).or(let_down);
                }
                Deed::Withdraw(key) => self.withdraw(key as u32, now_ns),
                Deed::Finish { end, intended_ns } => {
                    let since_ns = now_ns - self.begun_ns;
                    self.tally.visit_ended(end, intended_ns - self.begun_ns, since_ns);
                }
            }
        }
        let_down
    }

    fn open_for(&mut self, visit: u32, opening: &Opening, now_ns: u64) -> Option<End> {
        let Home { class, target, delay_ns, .. } = opening.home;
        let intended_ns = opening.intended_ns - self.begun_ns;
        let Some(tuple) = self.tuple_at(&opening.home, now_ns) else {
            let end = self.no_port(class, intended_ns, now_ns);
            self.visits.not_opened(visit, opening, end, now_ns);
            return Some(end);
        };
        let page = class * self.ways.len() + target;
        let requests = opening.requests;
        let (place, first) = match (opening.object, self.personas[page].objects) {
            (Some(object), Some(objects)) => (objects, object),
            _ => (page, self.turn.take(requests)),
        };
        let coming = Coming { place, tuple, visit, first, requests, delay_ns, intended_ns };
        let opened = self.open(coming, now_ns);
        match opened {
            Ok(number) => self.visits.opened(visit, opening, number.into()),
            Err(end) => self.visits.not_opened(visit, opening, end, now_ns),
        }
        opened.err()
    }

    /// A tuple for another connection of a client; `None` when all of its address are taken.
    fn tuple_at(&mut self, home: &Home, now_ns: u64) -> Option<Tuple> {
        if self.has_no_port(now_ns) {
            return None;
        }
        let (attempts, waiting) = (&self.attempts, &self.waiting);
        self.tuples.take_at(home.target, home.address?, |tuple| {
            attempts.find(tuple).is_some() || waiting.as_ref().is_some_and(|held| held.has(tuple))
        })
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
