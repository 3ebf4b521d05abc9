// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients who visit pages, whatever carries their connections.
//!
//! A driver does what [`Visits::next`] says until there is nothing left, at first when a client
//! comes and then whenever it has told something of it or its timer has fired. Times are in ns, on
//! the driver's clock.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1};
use tidegate_client::visit::Start;
use tidegate_client::{Browser, End, Visit, VisitEnd, geometric};

use crate::class::Browsing;
use crate::plan::ns;
use crate::wheel::Wheel;

/// 65 µs: far below any time of a browser's.
const TICK_BITS: u32 = 16;

/// The place of nobody: where attempts stand alone.
pub(crate) const ALONE: u32 = u32::MAX;

/// What a driver calls a connection.
pub(crate) type Key = u64;

/// Whose connections they are, from where and to where: the same for all of a client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    pub class: usize,
    pub target: usize,
    /// `None` leaves it to the kernel.
    pub address: Option<IpAddr>,
    /// How long packets take, one way.
    pub delay_ns: u64,
}

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// A visit begins, and is to be counted.
    Begin { intended_ns: u64 },
    /// A connection is to be opened, and its key told by [`Visits::opened`].
    Open(Opening),
    /// A connection is to be left: it is of no use any more.
    Withdraw(Key),
    /// A visit ended, and is to be counted.
    Finish { end: VisitEnd, intended_ns: u64 },
}

/// A connection to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opening {
    pub home: Home,
    pub intended_ns: u64,
    /// Which of all objects is asked for first; `None` asks for the page itself.
    pub object: Option<u32>,
    pub requests: u16,
    number: u32,
    spare_at_ns: Option<u64>,
}

/// Clients by place.
#[derive(Debug)]
pub(crate) struct Visits {
    clients: Vec<Option<Client>>,
    free: Vec<u32>,
    /// When a client's connections have something to do that no packet tells.
    timers: Wheel,
    counted_ns: Range<u64>,
    /// No visit begins from then on.
    end_ns: u64,
    /// Objects asked for by all visits so far, round and round.
    objects: u32,
    /// Clients whose visit, or the next if they think, counts.
    pub counting: usize,
    /// All connections under way.
    pub connections: usize,
}

#[derive(Debug)]
struct Client {
    home: Home,
    browser: &'static Browser,
    objects: u16,
    think: Duration,
    /// Pages left to visit, the present one included.
    pages: u16,
    /// Since when it visits, or until when it thinks.
    intended_ns: u64,
    counts: bool,
    /// None while it thinks.
    visit: Option<Visit>,
    /// The first of the visit's objects among all.
    first: u32,
    connections: Vec<Connection>,
    /// To be withdrawn.
    unwanted: Vec<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    key: Key,
    number: u32,
    /// When to try a second one, unless it is connected by then.
    spare_at_ns: Option<u64>,
}

impl Visits {
    /// Nobody yet, in a run that counts during this time and whose load ends then.
    pub(crate) fn new(counted_ns: Range<u64>, end_ns: u64, now_ns: u64) -> Self {
        Self {
            clients: Vec::new(),
            free: Vec::new(),
            timers: Wheel::new(TICK_BITS, now_ns),
            counted_ns,
            end_ns,
            objects: 0,
            counting: 0,
            connections: 0,
        }
    }

    /// A client comes; its place.
    pub(crate) fn come(
        &mut self,
        home: Home,
        browsing: &Browsing,
        intended_ns: u64,
        chance: &mut ChaCha8Rng,
    ) -> u32 {
        let counts = self.counted_ns.contains(&intended_ns);
        self.counting += usize::from(counts);
        let client = Some(Client {
            home,
            browser: browsing.browser,
            objects: browsing.objects,
            think: browsing.think,
            pages: geometric(browsing.pages, chance),
            intended_ns,
            counts,
            visit: None,
            first: 0,
            connections: Vec::new(),
            unwanted: Vec::new(),
        });
        if let Some(place) = self.free.pop() {
            self.clients[place as usize] = client;
            return place;
        }
        self.clients.push(client);
        u32::try_from(self.clients.len() - 1).expect("memory ends before numbers do")
    }

    /// What is to be done now for the client of a place; `None` when nothing is, or it has left.
    pub(crate) fn next(
        &mut self,
        place: u32,
        now_ns: u64,
        chance: &mut ChaCha8Rng,
    ) -> Option<Deed> {
        let client = self.clients.get_mut(place as usize)?.as_mut()?;
        if let Some(key) = client.unwanted.pop() {
            return Some(Deed::Withdraw(key));
        }
        let Some(visit) = &mut client.visit else {
            return self.think(place, now_ns, chance);
        };
        if let Some(end) = visit.end() {
            if let Some(connection) = client.connections.pop() {
                self.connections -= 1;
                return Some(Deed::Withdraw(connection.key));
            }
            let intended_ns = client.intended_ns;
            self.finish(place, end, now_ns, chance);
            return Some(Deed::Finish { end, intended_ns });
        }
        if let Some(due_ns) = visit.next_start_ns().filter(|due_ns| *due_ns <= now_ns)
            && let Some(start) = visit.start(due_ns, chance)
        {
            return Some(client.opening(start, due_ns));
        }
        for connection in &mut client.connections {
            if let Some((number, due_ns)) = connection.take_spare(now_ns)
                && let Some(start) = visit.spare(number)
            {
                return Some(client.opening(start, due_ns));
            }
        }
        let spares = client.connections.iter().filter_map(|connection| connection.spare_at_ns);
        let next_ns = spares.chain(visit.next_start_ns()).min();
        self.set_timer(place, next_ns);
        None
    }

    /// What was to be opened is a connection of this key now.
    pub(crate) fn opened(&mut self, place: u32, opening: &Opening, key: Key) {
        let Some(client) = self.client(place) else { return };
        let Opening { number, spare_at_ns, .. } = *opening;
        client.connections.push(Connection { key, number, spare_at_ns });
        self.connections += 1;
    }

    /// What was to be opened could not be.
    pub(crate) fn not_opened(&mut self, place: u32, opening: &Opening, end: End, now_ns: u64) {
        if let Some(visit) = self.client(place).and_then(|client| client.visit.as_mut()) {
            visit.ended(now_ns, opening.number, end);
        }
    }

    /// A connection is connected, or has ended, or both.
    pub(crate) fn heard(
        &mut self,
        place: u32,
        key: Key,
        is_connected: bool,
        end: Option<End>,
        now_ns: u64,
    ) {
        let Some(client) = self.client(place) else { return };
        let Some(visit) = &mut client.visit else { return };
        let find = |connections: &[Connection]| connections.iter().position(|one| one.key == key);
        let Some(at) = find(&client.connections) else { return };
        let number = client.connections[at].number;
        let mut gone = 0;
        if is_connected {
            client.connections[at].spare_at_ns = None;
            if let Some(other) = visit.connected(number)
                && let Some(at) = client.connections.iter().position(|one| one.number == other)
            {
                client.unwanted.push(client.connections.swap_remove(at).key);
                gone += 1;
            }
        }
        if let Some(end) = end {
            client.connections.retain(|one| one.key != key);
            visit.ended(now_ns, number, end);
            gone += 1;
        }
        self.connections -= gone;
    }

    /// Takes the place of a client whose time has come.
    pub(crate) fn fire(&mut self, now_ns: u64) -> Option<u32> {
        self.timers.fire(now_ns)
    }

    /// When to look again.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.timers.next_ns()
    }

    /// Clients there are.
    pub(crate) fn clients(&self) -> usize {
        self.clients.len() - self.free.len()
    }

    /// All leave at once. What becomes of their connections is nothing to them any more.
    pub(crate) fn leave(&mut self, now_ns: u64) {
        *self = Self::new(self.counted_ns.clone(), self.end_ns, now_ns);
    }

    fn client(&mut self, place: u32) -> Option<&mut Client> {
        self.clients.get_mut(place as usize)?.as_mut()
    }

    fn think(&mut self, place: u32, now_ns: u64, chance: &mut ChaCha8Rng) -> Option<Deed> {
        let first = self.objects;
        let client = self.client(place)?;
        let intended_ns = client.intended_ns;
        if intended_ns > now_ns {
            self.set_timer(place, Some(intended_ns));
            return None;
        }
        client.first = first;
        client.visit = Some(Visit::begin(client.browser, client.objects, intended_ns, chance));
        let objects = u32::from(client.objects);
        self.objects = first.wrapping_add(objects);
        Some(Deed::Begin { intended_ns })
    }

    /// A visit is over: the client thinks of the next, or leaves.
    fn finish(&mut self, place: u32, end: VisitEnd, now_ns: u64, chance: &mut ChaCha8Rng) {
        let (counted_ns, end_ns) = (&self.counted_ns, self.end_ns);
        let Some(Some(client)) = self.clients.get_mut(place as usize) else { return };
        let counted = client.counts;
        client.pages -= 1;
        let goes_on = end == VisitEnd::Complete && client.pages > 0;
        let next_ns = goes_on.then(|| {
            let share: f64 = Exp1.sample(chance);
            now_ns.saturating_add((share * ns(client.think) as f64) as u64)
        });
        if let Some(next_ns) = next_ns.filter(|next_ns| *next_ns < end_ns) {
            client.visit = None;
            client.intended_ns = next_ns;
            client.counts = counted_ns.contains(&next_ns);
            self.counting += usize::from(client.counts);
        } else {
            self.clients[place as usize] = None;
            self.free.push(place);
            self.timers.cancel(place);
        }
        self.counting -= usize::from(counted);
    }

    fn set_timer(&mut self, place: u32, at_ns: Option<u64>) {
        match at_ns {
            Some(at_ns) => self.timers.set(place, at_ns),
            None => self.timers.cancel(place),
        }
    }
}

impl Client {
    fn opening(&self, start: Start, intended_ns: u64) -> Deed {
        Deed::Open(Opening {
            home: self.home,
            intended_ns,
            object: start.first.checked_sub(1).map(|object| self.first.wrapping_add(object)),
            requests: start.requests,
            number: start.number,
            spare_at_ns: start.spare_after_ns.map(|after_ns| intended_ns + after_ns),
        })
    }
}

impl Connection {
    /// The number of one that is due a second connection, and when that was.
    fn take_spare(&mut self, now_ns: u64) -> Option<(u32, u64)> {
        let due_ns = self.spare_at_ns.take_if(|at_ns| *at_ns <= now_ns)?;
        Some((self.number, due_ns))
    }
}

#[cfg(test)]
mod tests;
