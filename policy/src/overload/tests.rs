// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A listening socket, its clients and its server, as small as they can be: what `auto` makes of
//! crowds of a known length and size.

mod hope;
mod inside;
mod pace;
mod phases;
mod places;
mod speaks;
mod telling;
mod windows;

use super::*;
use crate::mechanism;
use crate::raw::*;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
/// What the server takes, a second.
const CAPACITY: u64 = 1000;
const BACKLOG: u32 = 128;

/// What a client does that is told.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Stops,
    /// Windows, by RST: the SYN goes out four times more, every half second.
    SendsAgain,
    /// A program that connects again 10 ms later, served or not.
    ConnectsAgain,
}

/// A client that sends its SYN every second until it is answered, for ten.
#[derive(Clone, Copy)]
struct Client {
    name: u64,
    address: u64,
    came_ns: u64,
    next_ns: u64,
    when_told: Told,
    times_told: u32,
}

/// What has become of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    came: u64,
    served: u64,
    /// SYNs.
    sent: u64,
    /// Answers by RST.
    told: u64,
    /// Clients that were answered by a SYN/ACK behind which there is nothing.
    hollow: u64,
    gave_up: u64,
    /// Served, of those who had come before.
    waited: u64,
    /// Let in, and told when their ACK came.
    turned_back: u64,
    /// Clients that were answered by a SYN cookie.
    connected: u64,
}

/// What a SYN costs, unless a story has it otherwise.
const SYN_NS: u64 = 3_000;

#[derive(Clone)]
struct Story {
    rules: tg_rules,
    /// What those do who come, and how many addresses they have; 0: each its own.
    when_told: Told,
    /// Whether that shows in their SYNs.
    looks_like_it: bool,
    addresses: u64,
    /// What the rules for networks say of them, an `enum tg_source`.
    source: u32,
    /// Whether TIME-WAIT stands on all their addresses and ports.
    taken: bool,
    watch: Watch,
    refusals: tg_bucket,
    now_ns: u64,
    queue: u64,
    /// The longest that the kernel lets it be.
    backlog: u32,
    /// Sockets of its SO_REUSEPORT group; 0: it is in none.
    members: u16,
    /// Connections whose ACK was lost.
    half_open: u32,
    /// Between a SYN/ACK and its ACK; and when the ACKs come of those who were let in.
    round_trip_ms: u64,
    on_their_way: Vec<(u64, u32)>,
    /// Whether the hook can answer by SYN cookies; and who has one, when it sends its data next, how
    /// long after the last time, and its name.
    gives_cookies: bool,
    connected: Vec<(u64, u64, u32)>,
    /// Parts of a connection that the server has done.
    done_ms: u64,
    /// So long it takes none, and as long twice as many; 0: all the same.
    pause_ms: u64,
    /// Parts of a client that have come.
    coming: u64,
    clients: Vec<Client>,
    seen: Seen,
}

fn queues(listen_len: u32, syn_len: u32) -> tg_queues {
    tg_queues {
        listen_len,
        listen_max: BACKLOG,
        syn_len,
        syn_max: 4096,
        syncookies: 1,
        ..Default::default()
    }
}

/// A SYN that finds room, where other processors judge SYNs to the same socket.
fn finds_room(overload: *mut tg_overload, rules: &tg_rules, now_ns: u64) {
    finds_room_from(TG_SOURCE_ANY, overload, rules, now_ns);
}

/// The same of one of whom the rules for networks say so, an `enum tg_source`.
fn finds_room_from(source: u32, overload: *mut tg_overload, rules: &tg_rules, now_ns: u64) {
    let (mut block, mut manners) = (tg_waiting_block::default(), tg_manners_block::default());
    let crowd = tg_crowd {
        overload,
        block: &mut block,
        manners: &mut manners,
        speaks: &tg_speaks::default(),
        inside: &tg_inside::default(),
        name: 7 << 32 | 7,
        address_name: 7 << 32 | 7,
        isn: 7,
        padding: 0,
    };
    let syn = tg_syn { now_ns, source: source as u16, ..Default::default() };
    let (mut room, mut refusals) = (queues(0, 0), tg_bucket::default());
    // SAFETY: the caller's overload is there, and so is all else.
    unsafe { raw::tg_native_judge(rules, &mut room, &syn, &mut refusals, &crowd) };
}

impl Story {
    fn new() -> Self {
        let mut watch = Watch::default();
        (0..TG_SPEAKS_LEAST).for_each(|_| watch.hear(false));
        Self {
            rules: tg_rules { syn_ns: SYN_NS, ..mechanism::parse("auto").unwrap() },
            when_told: Told::Stops,
            looks_like_it: false,
            addresses: 0,
            source: TG_SOURCE_ANY,
            taken: false,
            watch,
            refusals: tg_bucket::default(),
            now_ns: 1000 * S,
            queue: 0,
            backlog: BACKLOG,
            members: 0,
            half_open: 0,
            round_trip_ms: 0,
            on_their_way: Vec::new(),
            gives_cookies: false,
            connected: Vec::new(),
            done_ms: 0,
            pause_ms: 0,
            coming: 0,
            clients: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// As they are now, with so many half-open.
    fn queues(&self, syn_len: u32) -> tg_queues {
        let Self { backlog: listen_max, members, .. } = *self;
        tg_queues { listen_max, members, ..queues(self.queue as u32, syn_len) }
    }

    fn decides(&mut self, client: &Client, queues: &tg_queues) -> tg_decision {
        let sends_again = client.when_told == Told::SendsAgain && self.looks_like_it;
        let syn = tg_syn {
            now_ns: self.now_ns,
            sends_again: sends_again.into(),
            cookie_usable: self.gives_cookies.into(),
            source: self.source as u16,
            taken: self.taken.into(),
            ..Default::default()
        };
        let names = self.names(client);
        let Self { watch, rules, refusals, .. } = self;
        watch.decide_syn(rules, &mut queues.clone(), &syn, refusals, names).decision
    }

    fn names(&self, client: &Client) -> Names {
        let sends_again = client.when_told == Told::SendsAgain && self.looks_like_it;
        let saddr = [client.address as u32, (client.address >> 32) as u32, 0, 0];
        let tuple = tg_tuple { saddr, is_ipv6: 1, ..Default::default() };
        let of_tuple = Names::of(&tg_key::default(), &tuple, client.name as u32, sends_again);
        Names { connection: client.name, ..of_tuple }
    }

    /// What a client that nobody has seen before meets, of queues as they are given.
    fn meets(&mut self, queues: &tg_queues) -> (u32, u32) {
        self.seen.came += 1;
        let client = self.client();
        let decision = self.decides(&client, queues);
        (decision.verdict, decision.reason)
    }

    fn asks(&mut self, client: Client) {
        // Who has one of the kernel's cookies is in no queue.
        let half_open = self.half_open + self.on_their_way.len() as u32;
        let queues = self.queues(half_open.min(self.backlog + 1));
        let decision = self.decides(&client, &queues);
        self.seen.sent += 1;
        match decision.verdict {
            TG_PASS => {
                self.on_their_way.push((self.now_ns + self.round_trip_ms * MS, client.name as u32));
                self.arrive();
                self.seen.waited += u64::from(client.came_ns < self.now_ns);
                self.connects_again(client);
            }
            TG_RESET => {
                self.seen.told += 1;
                self.sends_again(client);
                self.connects_again(client);
            }
            TG_COOKIE => {
                self.seen.connected += 1;
                self.connected.push((self.now_ns, 300 * MS, client.name as u32));
            }
            TG_HOLLOW => {
                self.seen.hollow += 1;
                self.connects_again(client);
            }
            TG_DROP if self.now_ns - client.came_ns >= 10 * S => self.seen.gave_up += 1,
            TG_DROP => {
                let again = Client { next_ns: self.now_ns + S, ..client };
                self.clients.push(again);
            }
            other => panic!("{other} is no answer of auto's"),
        }
    }

    /// What an ACK meets now of the client whose SYN had this number.
    fn acknowledges(&mut self, ack: tg_ack, isn: u32) -> tg_decision {
        let ack = self.watch.ask_ack(&ack, self.now_ns);
        let decision = crate::decide_ack(&self.rules, &self.queues(0), &ack);
        self.watch.meet_ack(&ack, decision, isn.wrapping_add(1), self.now_ns);
        decision
    }

    fn has_place(&mut self) {
        self.queue += 1;
        self.seen.served += 1;
    }

    /// The ACKs that have come by now find a place, or none. Of those who were let in beyond the SYN
    /// queue nothing is kept; of the others the kernel asks again, a second later.
    fn arrive(&mut self) {
        let now_ns = self.now_ns;
        let come: Vec<_> =
            self.on_their_way.extract_if(.., |(at_ns, _)| *at_ns <= now_ns).collect();
        for (_, isn) in come {
            let is_request = self.on_their_way.len() < self.backlog as usize;
            let ack = tg_ack {
                is_request: is_request.into(),
                acceptable: 1,
                bare: 1,
                cookie: TG_ACK_KERNEL_COOKIE,
                ..tg_ack::default()
            };
            let decision = self.acknowledges(ack, isn);
            match (decision.reason, decision.verdict) {
                (TG_HANDSHAKE, _) => self.has_place(),
                (_, TG_PASS) if is_request => self.on_their_way.push((now_ns + S, isn)),
                _ => self.seen.turned_back += 1,
            }
        }
    }

    /// The data of those who have a SYN cookie: it is sent again after 0.3, 0.9, 2.1, and 4.5 s.
    fn bring_cookies(&mut self) {
        let now_ns = self.now_ns;
        let come: Vec<_> = self.connected.extract_if(.., |(at_ns, ..)| *at_ns <= now_ns).collect();
        for (_, later_ns, isn) in come {
            let ack = tg_ack { cookie: TG_ACK_COOKIE, ..Default::default() };
            match self.acknowledges(ack, isn).verdict {
                TG_ADMIT => self.has_place(),
                TG_DROP if later_ns < 4 * S => {
                    self.connected.push((now_ns + later_ns, 2 * later_ns, isn));
                }
                TG_DROP => self.seen.gave_up += 1,
                _ => self.seen.turned_back += 1,
            }
        }
    }

    fn sends_again(&mut self, client: Client) {
        if client.when_told == Told::SendsAgain && client.times_told < 4 {
            let (next_ns, times_told) = (self.now_ns + S / 2, client.times_told + 1);
            self.clients.push(Client { next_ns, times_told, ..client });
        }
    }

    fn connects_again(&mut self, client: Client) {
        if client.when_told == Told::ConnectsAgain {
            // A name that nobody else has.
            let name = self.seen.sent.wrapping_mul(0xd6e8_feb8_6659_fd93);
            let next_ns = self.now_ns + 10 * MS;
            self.clients.push(Client { name, came_ns: next_ns, next_ns, ..client });
        }
    }

    /// A client that comes now.
    fn comes(&mut self) {
        self.seen.came += 1;
        let client = self.client();
        self.asks(client);
    }

    /// Who came last, as it came.
    fn client(&self) -> Client {
        let (name, now_ns) = (self.last_name(), self.now_ns);
        let address = self.seen.came.checked_rem(self.addresses).unwrap_or(name);
        // A name's upper half is its tag.
        let address = address.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let when_told = self.when_told;
        Client { name, address, came_ns: now_ns, next_ns: now_ns, when_told, times_told: 0 }
    }

    /// New clients for some time, at this rate, and a clock that advances by milliseconds.
    fn runs(&mut self, for_ms: u64, per_s: u64) -> Seen {
        let before = self.seen;
        for _ in 0..for_ms {
            self.now_ns += MS;
            self.arrive();
            self.bring_cookies();
            self.done_ms += match (self.now_ns / MS).checked_div(self.pause_ms) {
                Some(number) => number % 2 * 2 * CAPACITY,
                None => CAPACITY,
            };
            let takes = (self.done_ms / 1000).min(self.queue);
            self.done_ms = if self.queue > 0 { self.done_ms - takes * 1000 } else { 0 };
            self.queue -= takes;
            let now_ns = self.now_ns;
            let (due, later): (Vec<Client>, _) =
                self.clients.iter().partition(|client| client.next_ns <= now_ns);
            self.clients = later;
            for client in due {
                self.asks(client);
            }
            self.coming += per_s;
            while self.coming >= 1000 {
                self.coming -= 1000;
                self.comes();
            }
        }
        let now = self.seen;
        Seen {
            came: now.came - before.came,
            served: now.served - before.served,
            sent: now.sent - before.sent,
            told: now.told - before.told,
            hollow: now.hollow - before.hollow,
            gave_up: now.gave_up - before.gave_up,
            waited: now.waited - before.waited,
            turned_back: now.turned_back - before.turned_back,
            connected: now.connected - before.connected,
        }
    }

    /// Crowds that come and go: so many, each with its silence behind it.
    fn bursts(&mut self, number: u32, for_ms: u64, per_s: u64, silence_ms: u64) {
        for _ in 0..number {
            self.runs(for_ms, per_s);
            self.runs(silence_ms, 0);
        }
    }

    /// The name of who came last.
    fn last_name(&self) -> u64 {
        self.seen.came.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn phase(&self) -> &'static str {
        crate::names::PHASES[self.watch.overload().phase(self.now_ns) as usize]
    }
}
