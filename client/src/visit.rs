// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A visit to a page: the page itself, then what is embedded in it, over the browser's parallel
//! connections (Jamjoom, section 2.3, E1 to E3).
//!
//! It knows no connections: it says when an attempt is to start, and is told what becomes of it.
//! When one fails, the browser gives up the whole page (section 2.2).
//!
//! Request 0 of a person is the page, the others are its objects.

use rand_core::Rng;

use crate::attempt::End;
use crate::browser::Browser;

/// A visit under way. Times are in ns.
#[derive(Clone, Debug)]
pub struct Visit {
    browser: &'static Browser,
    /// Objects on the page, and how many of them are not on their way yet.
    objects: u16,
    left: u16,
    /// Connections at a time.
    parallel: u16,
    next_number: u32,
    /// When the next attempt may start, if there is room for it.
    due_ns: u64,
    jobs: Vec<Job>,
    end: Option<VisitEnd>,
}

/// How a visit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitEnd {
    /// The page and all its objects came.
    Complete,
    /// An attempt failed. The driver gives up what is [under way](Visit::under_way).
    Abandoned,
}

/// An attempt to start now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Its number in this visit.
    pub number: u32,
    /// Its first request.
    pub first: u32,
    /// How many requests it makes.
    pub requests: u16,
    /// If it is not connected so long after its start, the driver calls [`Visit::spare`].
    pub spare_after_ns: Option<u64>,
}

/// What is fetched by one attempt, or by two of which the first to connect does it.
#[derive(Clone, Copy, Debug)]
struct Job {
    start: Start,
    spare: Option<u32>,
    /// Neither of them has failed or been left.
    is_alone: bool,
}

impl Visit {
    /// A visit to a page with so many embedded objects (21 on average in Jamjoom, table 2). Its
    /// first attempt starts at once.
    pub fn begin(browser: &'static Browser, objects: u16, now_ns: u64, rng: &mut impl Rng) -> Self {
        Self {
            browser,
            objects,
            left: objects,
            parallel: browser.parallel(rng),
            next_number: 0,
            due_ns: now_ns,
            jobs: Vec::new(),
            end: None,
        }
    }

    /// When to call [`Visit::start`]; `None` as long as that depends on what becomes of others.
    #[must_use]
    pub fn next_start_ns(&self) -> Option<u64> {
        let is_first = self.next_number == 0;
        let fetches_page = self.jobs.iter().any(|job| job.start.first == 0);
        let has_room = self.jobs.len() < usize::from(self.parallel);
        let may_start = is_first || (self.left > 0 && has_room && !fetches_page);
        (may_start && self.end.is_none()).then_some(self.due_ns)
    }

    /// The attempt that is due, if one is.
    pub fn start(&mut self, now_ns: u64, rng: &mut impl Rng) -> Option<Start> {
        if self.next_start_ns()? > now_ns {
            return None;
        }
        let (first, requests) = if self.next_number == 0 {
            (0, 1)
        } else {
            let requests = self.browser.requests(self.objects, rng).min(self.left);
            let first = u32::from(self.objects - self.left) + 1;
            self.left -= requests;
            self.due_ns = now_ns + self.browser.gap_ns(rng);
            (first, requests)
        };
        let spare_after_ns = self.browser.spare_after_ms.map(|ms| u64::from(ms) * 1_000_000);
        let start = Start { number: self.number(), first, requests, spare_after_ns };
        self.jobs.push(Job { start, spare: None, is_alone: true });
        Some(start)
    }

    /// The attempt of this number is still not connected after [`Start::spare_after_ns`]: the
    /// second one to start now, from another port.
    pub fn spare(&mut self, number: u32) -> Option<Start> {
        if self.end.is_some() || !self.jobs.iter().any(|job| job.may_have_spare(number)) {
            return None;
        }
        let spare = self.number();
        let job = self.jobs.iter_mut().find(|job| job.may_have_spare(number))?;
        job.spare = Some(spare);
        job.is_alone = false;
        Some(Start { number: spare, spare_after_ns: None, ..job.start })
    }

    /// The attempt of this number is connected. Says which other one to give up, now that it is
    /// not needed.
    pub fn connected(&mut self, number: u32) -> Option<u32> {
        let job = self.jobs.iter_mut().find(|job| job.has(number))?;
        job.leave_other(number)
    }

    /// The attempt of this number has ended. Afterwards [`Visit::end`] and
    /// [`Visit::next_start_ns`] may have changed. Attempts that were given up need not be told.
    pub fn ended(&mut self, now_ns: u64, number: u32, end: End) {
        if self.end.is_some() {
            return;
        }
        let Some(place) = self.jobs.iter().position(|job| job.has(number)) else {
            return;
        };
        if end != End::Replied {
            // The other one may still connect.
            if self.jobs[place].lose(number) {
                self.end = Some(VisitEnd::Abandoned);
            }
            return;
        }
        self.jobs.swap_remove(place);
        self.due_ns = self.due_ns.max(now_ns);
        if self.jobs.is_empty() && self.left == 0 {
            self.end = Some(VisitEnd::Complete);
        }
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn end(&self) -> Option<VisitEnd> {
        self.end
    }

    /// The attempts under way, by number.
    pub fn under_way(&self) -> impl Iterator<Item = u32> {
        self.jobs.iter().flat_map(Job::numbers)
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number - 1
    }
}

impl Job {
    fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        std::iter::once(self.start.number).chain(self.spare)
    }

    fn has(&self, number: u32) -> bool {
        self.numbers().any(|one| one == number)
    }

    fn may_have_spare(&self, number: u32) -> bool {
        self.start.number == number && self.start.spare_after_ns.is_some() && self.spare.is_none()
    }

    /// Leaves the other one to its fate, and says which it was.
    fn leave_other(&mut self, number: u32) -> Option<u32> {
        let other = self.numbers().find(|one| *one != number);
        self.start.number = number;
        self.start.spare_after_ns = None;
        self.spare = None;
        self.is_alone = true;
        other
    }

    /// One of them failed. Says whether there is nobody left.
    fn lose(&mut self, number: u32) -> bool {
        if self.is_alone {
            return true;
        }
        if let Some(other) = self.numbers().find(|one| *one != number) {
            self.leave_other(other);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha8Rng;
    use rand_core::SeedableRng;

    const MS_NS: u64 = 1_000_000;

    fn chance() -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(6)
    }

    /// Plays a visit whose attempts all take 100 ms, and says when each started and for what.
    fn played(browser: &'static Browser, objects: u16) -> Vec<(u64, Start)> {
        let mut rng = chance();
        let mut visit = Visit::begin(browser, objects, 0, &mut rng);
        let mut under_way: Vec<(u64, u32)> = Vec::new();
        let mut starts = Vec::new();
        while visit.end().is_none() {
            let end = under_way.iter().min().copied();
            let start_ns = visit.next_start_ns();
            match (start_ns, end) {
                (Some(start_ns), end) if end.is_none_or(|(end_ns, _)| start_ns <= end_ns) => {
                    let start = visit.start(start_ns, &mut rng).unwrap();
                    under_way.push((start_ns + 100 * MS_NS, start.number));
                    starts.push((start_ns, start));
                }
                (_, Some((end_ns, number))) => {
                    under_way.retain(|(_, other)| *other != number);
                    visit.ended(end_ns, number, End::Replied);
                }
                _ => panic!("the visit waits for nothing"),
            }
            assert!(visit.under_way().count() <= usize::from(browser.parallel_max));
        }
        assert_eq!(visit.end(), Some(VisitEnd::Complete));
        starts
    }

    #[test]
    fn everything_is_asked_for_once_and_the_page_before_all_else() {
        for browser in Browser::all() {
            for objects in [0, 1, 21, 300] {
                let starts = played(browser, objects);
                assert_eq!((starts[0].1.first, starts[0].1.requests), (0, 1));
                assert!(starts[1..].iter().all(|(at_ns, _)| *at_ns >= 100 * MS_NS));
                let mut asked: Vec<u32> = starts
                    .iter()
                    .flat_map(|(_, start)| (0..start.requests).map(|n| start.first + u32::from(n)))
                    .collect();
                asked.sort_unstable();
                assert_eq!(asked, (0..=u32::from(objects)).collect::<Vec<_>>(), "{browser:?}");
            }
        }
    }

    #[test]
    fn chrome_opens_six_connections_at_once() {
        let starts = played(Browser::named("chrome").unwrap(), 21);
        let at_ms: Vec<u64> = starts.iter().map(|(at_ns, _)| at_ns / MS_NS).collect();
        assert_eq!(at_ms, [0, 100, 100, 100, 100, 100, 100]);
        let requests: Vec<u16> = starts.iter().map(|(_, start)| start.requests).collect();
        assert_eq!(requests, [1, 4, 4, 4, 4, 4, 1]);
    }

    #[test]
    fn chrome_tries_a_second_connection_and_keeps_the_first_that_answers() {
        let mut rng = chance();
        let mut visit = Visit::begin(Browser::named("chrome").unwrap(), 0, 0, &mut rng);
        let start = visit.start(0, &mut rng).unwrap();
        assert_eq!(start.spare_after_ns, Some(250 * MS_NS));
        let spare = visit.spare(start.number).unwrap();
        assert_eq!((spare.first, spare.requests, spare.spare_after_ns), (0, 1, None));
        assert_eq!(visit.spare(start.number), None, "one is enough");
        assert_eq!(visit.spare(spare.number), None);
        assert_eq!(visit.under_way().collect::<Vec<_>>(), [start.number, spare.number]);
        assert_eq!(visit.connected(spare.number), Some(start.number));
        assert_eq!(visit.connected(spare.number), None);
        visit.ended(300 * MS_NS, spare.number, End::Replied);
        assert_eq!(visit.end(), Some(VisitEnd::Complete));
    }

    #[test]
    fn of_two_connections_one_may_fail() {
        for (fails, answers) in [(0, 1), (1, 0)] {
            let mut rng = chance();
            let mut visit = Visit::begin(Browser::named("chrome").unwrap(), 0, 0, &mut rng);
            let start = visit.start(0, &mut rng).unwrap();
            visit.spare(start.number).unwrap();
            visit.ended(MS_NS, fails, End::Refused);
            assert_eq!(visit.end(), None);
            assert_eq!(visit.under_way().collect::<Vec<_>>(), [answers]);
            let mut other = visit.clone();
            visit.ended(2 * MS_NS, answers, End::Replied);
            assert_eq!(visit.end(), Some(VisitEnd::Complete));
            other.ended(2 * MS_NS, answers, End::Refused);
            assert_eq!(other.end(), Some(VisitEnd::Abandoned));
        }
    }

    #[test]
    fn one_failure_abandons_the_page() {
        let mut rng = chance();
        let mut visit = Visit::begin(Browser::named("chrome").unwrap(), 12, 0, &mut rng);
        let page = visit.start(0, &mut rng).unwrap();
        visit.ended(MS_NS, page.number, End::Replied);
        let starts: Vec<Start> = std::iter::from_fn(|| visit.start(MS_NS, &mut rng)).collect();
        assert_eq!(starts.len(), 6);
        visit.ended(2 * MS_NS, starts[2].number, End::TimedOutConnecting);
        assert_eq!(visit.end(), Some(VisitEnd::Abandoned));
        assert_eq!(visit.next_start_ns(), None);
        assert_eq!(visit.under_way().count(), 6);
    }
}
