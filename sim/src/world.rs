// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything together: clients, the way, the server, and what happens next.

use std::iter::Peekable;

use tidegate_client::{Arrivals, Outcome, Progress, Tally, Turn};
use tidegate_policy::accepts::Seen;
use tidegate_servers::Statistics;

use crate::balance::Balance;
use crate::chance::{Chance, Entity};
use crate::cores::Cores;
use crate::cpu::Taken;
use crate::ends::Ends;
use crate::flow::Flows;
use crate::network::Way;
use crate::pace::Pacing;
use crate::packet::Packet;
use crate::people::People;
use crate::server::App;
use crate::setup::{Crowd, Load, Setup};
use crate::shed::Shedders;
use crate::sources::Sources;
use crate::spent::Spent;
use crate::stack::{Counted, Guard, Host, Listener};
use crate::wire::{Event, Wire};

/// Events between two tellings of how it goes: some tenths of a second of real time.
const TELL_EVERY: u64 = 1 << 21;
/// A mark is as of the event that it comes before; of one so much later, where nobody comes any more,
/// as of its own time.
const MARK_LATE_NS: u64 = 100_000_000;
/// Events between two recounts of everything, in debug builds.
#[cfg(debug_assertions)]
const RECOUNT_EVERY: u64 = 4096;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What clients saw.
    pub outcome: Outcome,
    /// What the server's processors did in the time that counts, all together.
    pub spent: Spent,
    /// How many they are.
    pub cores: usize,
    /// What the application did in the time that counts.
    pub application: Statistics,
    /// How a guard saw it accept, when that time ended; `None` where nobody was refused of late.
    pub accepts: Option<Seen>,
    /// How things stood at the end.
    pub balance: Balance,
    /// Events in all.
    pub events: u64,
    /// The listen queue that the application got.
    pub(crate) backlog: u32,
    /// Sockets that the server had when that time ended, the listening one among them.
    pub(crate) sockets: u64,
    /// What was counted at the server in the time that counts.
    pub(crate) counted: Counted,
}

impl Report {
    /// Segments that the server's TCP took in during the time that counts.
    #[must_use]
    pub fn segments_received(&self) -> u64 {
        self.counted.received
    }

    /// Connections of which it came to hold TIME-WAIT in that time.
    #[must_use]
    pub fn time_waits(&self) -> u64 {
        self.counted.time_waits
    }

    /// Connections of which it held TIME-WAIT when that time ended.
    #[must_use]
    pub fn time_waits_held(&self) -> u64 {
        self.counted.time_waits_held
    }

    /// Connections whose TIME-WAIT it left to the client in that time, by agreement.
    #[must_use]
    pub fn time_waits_left(&self) -> u64 {
        self.counted.time_waits_left
    }

    /// Connections that it closed second and came to hold blocked in that time, by agreement.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.counted.pairs
    }

    /// How often `auto` came to see an overload in another phase in that time, where it is the guard.
    #[must_use]
    pub fn phase_changes(&self) -> u64 {
        self.counted.phase_changes
    }

    /// Half-open requests whose places it took back in that time, for they were old.
    #[must_use]
    pub fn reservations_cleaned(&self) -> u64 {
        self.counted.cleaned
    }

    /// Packets that its ring had no room for in that time.
    #[must_use]
    pub fn ring_lost(&self) -> u64 {
        self.counted.ring_lost
    }
}

/// A run under way.
#[derive(Debug)]
pub struct World {
    pub(crate) crowd: Crowd,
    pub(crate) way: Way,
    pub(crate) seed: u64,
    pub(crate) starts: Starts,
    pub(crate) flows: Flows,
    pub(crate) sources: Sources,
    pub(crate) people: People,
    /// What they ask for.
    pub(crate) turn: Turn,
    pub(crate) wire: Wire,
    pub(crate) host: Host,
    pub(crate) tally: Tally,
    pub(crate) balance: Balance,
    /// Attempts under way that count.
    pub(crate) counting: u64,
    events: u64,
    /// The time that counts, and what stood at its beginning and its end.
    marks: [(u64, Option<Mark>); 2],
    /// The next of them that has not been reached.
    next_mark_ns: u64,
}

/// What stood at a time, with the sockets that there were.
type Mark = (Spent, Counted, Statistics, u64, Option<Seen>);

/// When attempts start.
#[derive(Debug)]
pub(crate) enum Starts {
    Open(Peekable<Arrivals>),
    Closed { clients: usize },
}

impl World {
    /// A world at its beginning.
    ///
    /// # Panics
    /// When the crowd's duration is 0.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let (ends, app) = (Ends::of(&setup), App::of(&setup));
        let listener =
            Listener::new(setup.machine.profile.backlog_given(setup.program, setup.backlog));
        let Setup { machine, kernel, way, crowd, seed, .. } = setup;
        let counted_ns = crowd.warm_up_ns..crowd.warm_up_ns + crowd.duration_ns;
        let guard = setup.guard.map(|(rules, hook)| {
            Guard::new(rules.or_syn_ns(hook.syn_ns(&machine)), hook, &setup.limits, seed)
        });
        let host = Host {
            profile: machine.profile,
            kernel,
            costs: machine.costs,
            guard,
            shed: setup.shed.map(|shed| Shedders::new(&shed, seed)),
            listener,
            cores: Cores::of(&machine),
            driver_elsewhere: machine.driver_elsewhere,
            app,
            pacing: Pacing::of(machine.pace, seed),
            ending: crowd.person.close,
            time_wait: setup.time_wait,
            counted: Counted::default(),
            chance: Chance::of(seed, Entity::Stack),
            pages: setup.pages,
        };
        let mut world = Self {
            starts: match &crowd.load {
                Load::Open(arrivals) => Starts::Open(arrivals.clone().peekable()),
                Load::Closed { clients } => Starts::Closed { clients: *clients },
            },
            wire: Wire::new(&way, machine.clients, ends, crowd.ports.is_some(), seed),
            tally: Tally::new(counted_ns.clone()).with_parts(crowd.networks.len()),
            next_mark_ns: counted_ns.start,
            marks: [(counted_ns.start, None), (counted_ns.end, None)],
            flows: Flows::new(crowd.ports),
            sources: Sources::new(&crowd.networks, seed),
            people: People::of(&crowd, seed),
            turn: Turn::default(),
            crowd,
            way,
            seed,
            host,
            balance: Balance::default(),
            counting: 0,
            events: 0,
        };
        world.tally.will_know_time_waits();
        world.schedule_starts();
        world.clean_later(0);
        world.look_later(0);
        world
    }

    /// Runs to the end: until the load is over and every attempt that counts has come to its end.
    /// `watch` is told how it goes now and then.
    pub fn run(mut self, watch: &mut dyn FnMut(&Progress)) -> Report {
        let mut told = (0, self.balance);
        while self.advance() {
            if self.events.is_multiple_of(TELL_EVERY) {
                let progress = self.progress_since(told);
                told = (self.now_ns(), self.balance);
                watch(&progress);
            }
        }
        for place in 0..2 {
            self.mark(place);
        }
        let balance = self.balance();
        let [(_, begin), (_, end)] = self.marks;
        let (begin, end) = begin.zip(end).expect("both were just taken");
        self.tally.segments = self.wire.segments;
        Report {
            outcome: self.tally.outcome(self.seed),
            spent: end.0.since(&begin.0),
            cores: self.host.cores.count(),
            counted: end.1.since(&begin.1),
            application: end.2.since(&begin.2),
            sockets: end.3,
            accepts: end.4,
            balance,
            events: self.events,
            backlog: self.host.listener.backlog,
        }
    }

    fn progress_since(&self, (before_ns, before): (u64, Balance)) -> Progress {
        let now = &self.balance;
        let since_s = (self.now_ns() - before_ns).max(1) as f64 / 1e9;
        let per_s = |now: u64, before: u64| (now - before) as f64 / since_s;
        let errors = |balance: &Balance| balance.refused + balance.timed_out + balance.others;
        Progress {
            at_s: self.now_ns() as f64 / 1e9,
            started_per_s: per_s(now.attempts, before.attempts),
            replies_per_s: per_s(now.served, before.served),
            errors_per_s: per_s(errors(now), errors(&before)),
            in_flight: now.waiting,
        }
    }

    /// Lets the next event happen; `false` when the run is over.
    pub fn advance(&mut self) -> bool {
        if self.counting == 0 && self.wire.queue.now_ns() >= self.load_ends_ns() {
            return false;
        }
        let Some((now_ns, event)) = self.wire.queue.take_next() else { return false };
        if now_ns >= self.next_mark_ns {
            self.mark_due(now_ns);
        }
        self.events += 1;
        match event {
            Event::Start => self.start_due(now_ns),
            Event::AtServer(packet) => {
                self.wire.under_way -= 1;
                self.at_server(&packet, now_ns);
            }
            Event::AtClient(packet) => {
                self.wire.under_way -= 1;
                self.at_client(&packet, now_ns);
            }
            Event::Client(place) => self.client_timer(place, now_ns),
            Event::Conn(place) => {
                self.host.timer(self.flows.get(place), place, now_ns, &mut self.wire);
                self.host.wake(now_ns, &mut self.wire);
                self.flows.tidy(place);
            }
            // One that comes early was for packets that found their turn sooner.
            Event::Poll(core) if now_ns < self.host.cores.get(core).poll_ns => {}
            Event::Poll(core) => self.poll(core, now_ns),
            Event::Step => {
                self.host.step_event(&mut self.flows, now_ns, &mut self.wire);
                if self.host.cores.first().waits_in_vain() {
                    self.poll(0, now_ns);
                }
            }
            Event::Clean => self.clean(now_ns),
            Event::Look => self.look(now_ns),
        }
        #[cfg(debug_assertions)]
        if self.events.is_multiple_of(RECOUNT_EVERY) {
            self.recount();
        }
        true
    }

    /// How things stand.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let (inward, outward) = (self.wire.inward.carried, self.wire.outward.carried);
        Balance {
            packets_sent: inward.sent + outward.sent,
            packets_lost: inward.lost + outward.lost,
            packets_arrived: inward.arrived + outward.arrived,
            packets_under_way: self.wire.under_way,
            ..self.balance
        }
    }

    /// The time of the last event, in ns.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.wire.queue.now_ns()
    }

    pub(crate) fn load_ends_ns(&self) -> u64 {
        self.crowd.warm_up_ns + self.crowd.duration_ns + self.crowd.cool_down_ns
    }

    #[cold]
    fn mark_due(&mut self, now_ns: u64) {
        self.next_mark_ns = u64::MAX;
        for place in 0..2 {
            let at_ns = self.marks[place].0;
            if now_ns >= at_ns {
                self.mark(place);
            } else {
                self.next_mark_ns = self.next_mark_ns.min(at_ns);
            }
        }
    }

    fn mark(&mut self, place: usize) {
        let (at_ns, None) = self.marks[place] else { return };
        let late_ns = self.now_ns().saturating_sub(at_ns);
        let now_ns = if late_ns > MARK_LATE_NS { at_ns } else { self.now_ns() };
        let pairs_held = self.wire.ends.held_by_server(now_ns);
        if place == 0 {
            // The most at one time is of the time that counts, as live.
            let counted = &mut self.host.counted;
            counted.waiting_max = counted.time_waits_held + pairs_held;
        }
        let host = &self.host;
        let application = Statistics { elapsed_ns: now_ns, ..host.app.statistics };
        let sockets = 1 + self.flows.each().filter(|flow| flow.conn.is_socket()).count() as u64;
        let mut counted = host.counted.clone();
        counted.pairs_held = pairs_held;
        counted.phase_changes = host.guard.as_ref().map_or(0, |guard| guard.phase_changes);
        let accepts = host.guard.as_ref().and_then(|guard| guard.accepts.seen(now_ns));
        let mark = (host.cores.spent(), counted, application, sockets, accepts);
        self.marks[place].1 = Some(mark);
    }

    fn at_server(&mut self, packet: &Packet, now_ns: u64) {
        self.wire.inward.carried.arrived += 1;
        let flow = self.flows.get(packet.flow);
        if self.host.ends_before(flow, packet, now_ns, &mut self.wire) {
            flow.packets -= 1;
            return self.flows.tidy(packet.flow);
        }
        match self.host.cores.arrives(now_ns, flow.pair, packet) {
            Taken::At(begins_ns) => {
                flow.packets -= 1;
                self.host.receive(flow, packet, begins_ns, &mut self.wire);
            }
            Taken::Waits { first } => {
                if first {
                    let core = self.host.cores.number_of(flow.pair);
                    self.poll_later(core);
                }
                return;
            }
            Taken::Lost => {
                flow.packets -= 1;
                self.host.counted.ring_lost += 1;
            }
        }
        self.flows.tidy(packet.flow);
    }

    fn clean_later(&mut self, now_ns: u64) {
        if let Some(at_ns) = self.host.cleans_at_ns(now_ns) {
            self.wire.queue.add(at_ns, Event::Clean);
        }
    }

    fn clean(&mut self, now_ns: u64) {
        for place in 0..self.flows.places() {
            if self.host.cleans(self.flows.get(place), place, now_ns, &mut self.wire) {
                self.flows.tidy(place);
            }
        }
        self.clean_later(now_ns);
    }

    fn look_later(&mut self, now_ns: u64) {
        if let Some(at_ns) = self.host.looks_at_ns(now_ns) {
            self.wire.queue.add(at_ns, Event::Look);
        }
    }

    fn look(&mut self, now_ns: u64) {
        self.host.looks(self.flows.each(), now_ns);
        self.look_later(now_ns);
    }

    fn poll_later(&mut self, core: u32) {
        let at_ns = self.host.cores.get(core).poll_ns;
        self.wire.queue.add(at_ns, Event::Poll(core));
    }

    /// Packets that waited at a processor: for a turn of the application, or for their time.
    fn poll(&mut self, core: u32, now_ns: u64) {
        while let Some((begins_ns, packet)) = self.host.cores.get(core).poll(now_ns) {
            let flow = self.flows.get(packet.flow);
            flow.packets -= 1;
            self.host.receive(flow, &packet, begins_ns, &mut self.wire);
            self.flows.tidy(packet.flow);
        }
        if !self.host.cores.get(core).ring.is_empty() {
            self.poll_later(core);
        }
    }
}
