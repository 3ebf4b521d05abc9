// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Visits, with a driver that only takes notes.

use rand_chacha::rand_core::SeedableRng;

use super::*;

const MS_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Timers fire up to so much late.
const TICK_NS: u64 = 1 << TICK_BITS;
const FIRST_KEY: Key = 100;

/// Opens what is to be opened, with keys that count up.
struct Notes {
    visits: Visits,
    chance: ChaCha8Rng,
    next_key: Key,
}

impl Notes {
    fn new() -> Self {
        Self {
            visits: Visits::new(SECOND_NS..3 * SECOND_NS, 4 * SECOND_NS, 0),
            chance: ChaCha8Rng::seed_from_u64(8),
            next_key: FIRST_KEY,
        }
    }

    fn come(&mut self, browsing: &Browsing, intended_ns: u64) -> u32 {
        let home = Home { class: 0, target: 0, address: None, delay_ns: 0 };
        self.visits.come(home, browsing, intended_ns, &mut self.chance)
    }

    fn deeds(&mut self, place: u32, now_ns: u64) -> Vec<Deed> {
        let mut deeds = Vec::new();
        while let Some(deed) = self.visits.next(place, now_ns, &mut self.chance) {
            if let Deed::Open(opening) = &deed {
                self.visits.opened(place, opening, self.next_key);
                self.next_key += 1;
            }
            deeds.push(deed);
        }
        deeds
    }

    /// A connection ends, and what comes of it.
    fn ended(&mut self, place: u32, key: Key, end: End, now_ns: u64) -> Vec<Deed> {
        let is_connected = end == End::Replied;
        self.visits.heard(place, key, is_connected, Some(end), now_ns);
        self.deeds(place, now_ns)
    }

    fn fired(&mut self, now_ns: u64) -> Vec<u32> {
        std::iter::from_fn(|| self.visits.fire(now_ns)).collect()
    }
}

fn chrome(objects: u16) -> Browsing {
    Browsing { objects, ..Browsing::with(Browser::named("chrome").unwrap()) }
}

/// What is opened: of which object, for how many requests, and since when.
fn opened(deeds: &[Deed]) -> Vec<(Option<u32>, u16, u64)> {
    let openings = deeds.iter().filter_map(|deed| match deed {
        Deed::Open(opening) => Some((opening.object, opening.requests, opening.intended_ns)),
        _ => None,
    });
    openings.collect()
}

#[test]
fn the_page_comes_first_and_then_its_objects() {
    let mut notes = Notes::new();
    let (at_ns, replied_ns) = (SECOND_NS, SECOND_NS + 90 * MS_NS);
    let place = notes.come(&chrome(8), at_ns);
    let deeds = notes.deeds(place, at_ns + 7);
    assert_eq!(deeds[0], Deed::Begin { intended_ns: at_ns });
    assert_eq!(opened(&deeds), [(None, 1, at_ns)]);
    let deeds = notes.ended(place, FIRST_KEY, End::Replied, replied_ns);
    let expected = [(Some(0), 2), (Some(2), 2), (Some(4), 2), (Some(6), 2)];
    assert_eq!(opened(&deeds), expected.map(|(object, count)| (object, count, replied_ns)));
    assert_eq!((notes.visits.connections, notes.visits.counting), (4, 1));
    let ended_ns = replied_ns + 90 * MS_NS;
    for key in 101..=103 {
        assert_eq!(notes.ended(place, key, End::Replied, ended_ns), []);
    }
    let finish = Deed::Finish { end: VisitEnd::Complete, intended_ns: at_ns };
    assert_eq!(notes.ended(place, 104, End::Replied, ended_ns), [finish]);
    assert_eq!((notes.visits.connections, notes.visits.counting), (0, 0));
    assert_eq!((notes.visits.clients(), notes.visits.next_ns()), (0, None));
}

#[test]
fn a_second_connection_is_tried_and_the_slower_one_withdrawn() {
    for (first_is_faster, keeps, leaves) in [(true, 100, 101), (false, 101, 100)] {
        let mut notes = Notes::new();
        let place = notes.come(&chrome(0), 0);
        notes.deeds(place, 0);
        assert_eq!(notes.fired(249 * MS_NS), []);
        assert_eq!(notes.fired(250 * MS_NS + TICK_NS), [place]);
        // However late the driver looks, the second one was meant for then.
        let deeds = notes.deeds(place, 260 * MS_NS);
        assert_eq!(opened(&deeds), [(None, 1, 250 * MS_NS)], "{first_is_faster}");
        assert_eq!(notes.deeds(place, 600 * MS_NS), [], "one is enough");
        notes.visits.heard(place, keeps, true, None, 700 * MS_NS);
        assert_eq!(notes.deeds(place, 700 * MS_NS), [Deed::Withdraw(leaves)]);
        assert_eq!(notes.visits.connections, 1);
        let finish = Deed::Finish { end: VisitEnd::Complete, intended_ns: 0 };
        assert_eq!(notes.ended(place, keeps, End::Replied, 800 * MS_NS), [finish]);
    }
}

#[test]
fn who_is_connected_tries_no_second_time() {
    let mut notes = Notes::new();
    let place = notes.come(&chrome(0), 0);
    notes.deeds(place, 0);
    notes.visits.heard(place, FIRST_KEY, true, None, 200 * MS_NS);
    assert_eq!(notes.deeds(place, 200 * MS_NS), []);
    assert_eq!(notes.fired(SECOND_NS), []);
    assert_eq!(notes.deeds(place, SECOND_NS), []);
}

#[test]
fn one_failure_has_the_others_withdrawn() {
    let mut notes = Notes::new();
    let place = notes.come(&chrome(3), 2 * SECOND_NS);
    notes.deeds(place, 2 * SECOND_NS);
    notes.ended(place, FIRST_KEY, End::Replied, 2 * SECOND_NS);
    let mut deeds = notes.ended(place, 102, End::Refused, 3 * SECOND_NS);
    let finish = Deed::Finish { end: VisitEnd::Abandoned, intended_ns: 2 * SECOND_NS };
    assert_eq!(deeds.pop(), Some(finish));
    deeds.sort_by_key(|deed| if let Deed::Withdraw(key) = deed { *key } else { 0 });
    assert_eq!(deeds, [Deed::Withdraw(101), Deed::Withdraw(103)]);
    assert_eq!((notes.visits.connections, notes.visits.clients()), (0, 0));
}

#[test]
fn a_page_that_cannot_be_asked_for_ends_the_visit() {
    let mut notes = Notes::new();
    let place = notes.come(&chrome(3), 0);
    assert_eq!(
        notes.visits.next(place, 0, &mut notes.chance),
        Some(Deed::Begin { intended_ns: 0 })
    );
    let Some(Deed::Open(page)) = notes.visits.next(place, 0, &mut notes.chance) else {
        panic!("the page")
    };
    notes.visits.not_opened(place, &page, End::Other(99), 0);
    let finish = Deed::Finish { end: VisitEnd::Abandoned, intended_ns: 0 };
    assert_eq!(notes.deeds(place, 0), [finish]);
    assert_eq!(notes.deeds(place, 0), []);
}

#[test]
fn between_two_pages_clients_think() {
    let mut notes = Notes::new();
    let think = Duration::from_millis(100);
    let place = notes.come(&Browsing { pages: 10_000.0, think, ..chrome(1) }, 0);
    let (mut now_ns, mut key, mut counts) = (0, FIRST_KEY, false);
    let (mut begun_ns, mut objects) = (Vec::new(), Vec::new());
    loop {
        let deeds = notes.deeds(place, now_ns);
        let Some(Deed::Begin { intended_ns }) = deeds.first() else { panic!("{deeds:?}") };
        assert_eq!(counts, (SECOND_NS..3 * SECOND_NS).contains(intended_ns), "{intended_ns}");
        begun_ns.push(*intended_ns);
        // The page, then its object, each in 1 ms.
        objects.extend(opened(&notes.ended(place, key, End::Replied, now_ns + MS_NS)));
        let deeds = notes.ended(place, key + 1, End::Replied, now_ns + 2 * MS_NS);
        assert!(matches!(deeds[0], Deed::Finish { end: VisitEnd::Complete, .. }), "{deeds:?}");
        counts = notes.visits.counting == 1;
        key += 2;
        let mut ticks = (now_ns..5 * SECOND_NS).step_by(TICK_NS as usize);
        match ticks.find(|tick_ns| notes.fired(*tick_ns) == [place]) {
            Some(tick_ns) => now_ns = tick_ns,
            None => break,
        }
    }
    assert_eq!(notes.visits.clients(), 0);
    // No page begins after the load's end, 4 s; 102 ms apart, they are 39 on average.
    assert!((20..60).contains(&begun_ns.len()), "{begun_ns:?}");
    assert!(begun_ns.iter().all(|begun_ns| *begun_ns < 4 * SECOND_NS));
    let asked: Vec<Option<u32>> = objects.iter().map(|(object, ..)| *object).collect();
    let expected: Vec<Option<u32>> = (0..begun_ns.len() as u32).map(Some).collect();
    assert_eq!(asked, expected, "each page has objects of its own");
    assert_eq!(notes.visits.counting, 0);
}
