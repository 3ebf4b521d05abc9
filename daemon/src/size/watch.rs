// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guarded listener, watched for bursts: what its SYNs met, and how its queues went.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use serde::Serialize;
use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::Guard;
use tidegate_datapath::pins::Pins;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::{counters, sockets};
use tidegate_policy::lets_in;
use tidegate_policy::raw::*;
use tidegate_policy::size::{Look, NoBurst, Record, Seen};

use super::to_thousandths;
use crate::failure::{Failure, Result};
use crate::{host, mounts};

/// Between two looks. A shorter burst is taken for one of this length.
const EVERY: Duration = Duration::from_millis(50);
/// By now a daemon that runs has given every listening socket its counters: it looks every two seconds at
/// least.
const COUNTED_BY: Duration = Duration::from_secs(3);
/// Who saw less than this share of the time that was asked for is told how much it was.
const WHOLE: f64 = 0.9;

/// The listening socket whose burst it was.
#[derive(Serialize)]
pub struct Socket {
    /// The address and port that it is bound to.
    address: String,
    /// How long it was watched, in s: while it listened, and had its counters under each of its guards.
    watched_s: f64,
    /// How long it was to be.
    #[serde(skip)]
    asked_s: f64,
    /// Its backlog.
    backlog: u32,
    /// Connections that waited for accept() at most.
    queued: u32,
    /// SYNs that found no room.
    dropped: u64,
    /// Whether any of them was left in silence.
    #[serde(skip)]
    comes_again: bool,
    /// SYNs that were shed whatever room there was.
    #[serde(skip)]
    shed_anyway: u64,
    /// Whether the burst was over by the end.
    has_ended: bool,
}

impl Socket {
    /// In one line.
    pub fn line(&self) -> String {
        let Socket { address, watched_s, backlog, queued, dropped, .. } = self;
        format!(
            "{address}, {watched_s:.0} s: {queued} waited at most, of {backlog}; {dropped} SYNs found no room"
        )
    }

    /// Whether it was seen for a part of the time alone.
    fn is_in_part(&self) -> bool {
        self.watched_s < WHOLE * self.asked_s
    }

    /// What makes the recommendation worth less.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_in_part() {
            let Socket { watched_s, asked_s, .. } = self;
            warnings.push(format!(
                "it was seen for {watched_s:.0} s of the {asked_s:.0}: in the others the socket or its section was \
                 not there, or not counted; watch again"
            ));
        }
        if self.comes_again {
            warnings.push(
                "who is left in silence comes again, and was counted again: the burst is smaller than this"
                    .to_owned(),
            );
        }
        if self.shed_anyway > 0 {
            warnings.push(format!(
                "{} SYNs were shed whatever room there was, by a p or a rate_per_s: the burst is without them",
                self.shed_anyway
            ));
        }
        if !self.has_ended {
            let told = match self.is_in_part() {
                true => "the burst had not ended when it was seen last",
                false => "the burst had not ended yet: watch for longer",
            };
            warnings.push(told.to_owned());
        }
        warnings
    }
}

/// What keeps a listen queue as short as it is: what it is called, and the places that this leaves.
#[derive(Clone, Copy)]
struct Bound {
    name: &'static str,
    value: u32,
    places: u32,
}

impl Bound {
    /// Where SYNs fall under several guards the queue is as long as one of them lets it become.
    fn of<'a>(row: &tg_listener_row, guards: impl Iterator<Item = &'a Guarded>) -> Self {
        let value = row.listen_max;
        // Linux takes one more than the backlog.
        let backlog = Bound { name: "backlog", value, places: value.saturating_add(1) };
        let under = |guarded: &Guarded| {
            let limits = [("places", guarded.rules.places), ("ahead", guarded.rules.ahead)];
            let limits = limits.into_iter().filter(|(_, value)| *value > 0);
            let limits = limits.map(|(name, value)| Bound { name, value, places: value });
            limits.fold(
                backlog,
                |least, limit| if limit.places < least.places { limit } else { least },
            )
        };
        guards.map(under).max_by_key(|bound| bound.places).unwrap_or(backlog)
    }

    /// How the queue becomes one in which a burst is seen.
    fn fix(&self) -> String {
        match self.name {
            "backlog" => "give it 128 (resize = true, backlog = 128), and watch again".to_owned(),
            name => format!("take {name} out meanwhile, and watch again"),
        }
    }
}

/// What a socket has counted under one of the guards that its SYNs fall under.
struct Under<'a> {
    guarded: &'a Guarded,
    counted: tg_counters,
}

impl Under<'_> {
    /// Whether it sheds whom the server cannot drain, and a longer queue would have let in.
    fn sheds_by_the_queue(&self) -> bool {
        let shed = &self.guarded.shed;
        shed.is_auto != 0 && shed.rate_per_s == 0
    }

    /// Those of whom it sheds a share, or what is above a rate, whatever room there is.
    fn shed_anyway(&self) -> u64 {
        if self.sheds_by_the_queue() { 0 } else { sum(&self.counted, is_shed) }
    }

    /// What it counted without these.
    fn others(&self) -> tg_counters {
        let mut counted = self.counted;
        if !self.sheds_by_the_queue() {
            for reason in SHED {
                counted.packets[reason as usize] = Default::default();
            }
        }
        counted
    }
}

/// Under one guard: those who were let in, and ACKs that were looked at, while it was watched.
#[derive(Clone, Copy)]
struct Heard {
    entered: u64,
    acks: u64,
}

impl Heard {
    fn of(counted: &tg_counters) -> Self {
        Heard { entered: sum(counted, lets_in), acks: sum(counted, answers) }
    }
}

/// What was counted of a socket so far, under all of its guards, and when.
struct Count {
    at: Instant,
    arrived: u64,
    /// Arrived, and found no room. Who was answered with a cookie has found none, and is not lost.
    dropped: u64,
    /// Dropped, and not told.
    silent: u64,
    entered: u64,
    /// ACKs that opened a connection, of those that were looked at.
    opened: u64,
    /// By guard.
    heard: Vec<Heard>,
    shed_anyway: u64,
    queued: u32,
    /// In both queues.
    inside: u64,
    bound: Bound,
}

/// Why persistent dropping turns a SYN away.
const SHED: RangeInclusive<u32> = TG_SHED_STATELESS..=TG_SHED_UNIFORM;

fn is_shed(decision: tg_decision) -> bool {
    SHED.contains(&decision.reason)
}

/// Whether it is of a SYN's coming, and a longer queue may let that in: who has its request already does not
/// come anew, and a network that sends more than it may is kept out whatever room there is.
fn arrives(decision: tg_decision) -> bool {
    let is_judged = (TG_ROOM..TG_HANDSHAKE).contains(&decision.reason) || is_shed(decision);
    is_judged && ![TG_HALF_OPEN, TG_POLICED].contains(&decision.reason)
}

fn finds_no_room(decision: tg_decision) -> bool {
    arrives(decision) && decision.verdict != TG_COOKIE && !lets_in(decision)
}

fn is_silent(decision: tg_decision) -> bool {
    finds_no_room(decision) && [TG_DROP, TG_PASS].contains(&decision.verdict)
}

/// Whether it is of an ACK to a SYN/ACK behind which there is something.
fn answers(decision: tg_decision) -> bool {
    (TG_HANDSHAKE..=TG_COOKIE_NO_ROOM).contains(&decision.reason)
}

/// Whether the kernel makes a connection of it: of these or fewer, for it may have something else to say to an ACK
/// before it looks for room. But one that came by TCP Fast Open is none of them: it is in the listen queue before its ACK.
fn opens(decision: tg_decision) -> bool {
    let tg_decision { verdict, reason } = decision;
    matches!((reason, verdict), (TG_HANDSHAKE, TG_PASS) | (TG_COOKIE_VALID, TG_ADMIT))
}

fn sum(counted: &tg_counters, is: fn(tg_decision) -> bool) -> u64 {
    let reasons = counted.packets.iter().zip(0..);
    let each =
        reasons.flat_map(|(of, reason)| of.iter().zip(0..).map(move |(n, v)| (n, v, reason)));
    each.filter(|(_, verdict, reason)| is(tg_decision { verdict: *verdict, reason: *reason }))
        .map(|(count, ..)| count)
        .sum()
}

impl Count {
    fn of(under: &[Under], row: &tg_listener_row) -> Self {
        let mut counted = tg_counters::default();
        for one in under {
            counters::accumulate(&mut counted, &one.others());
        }
        Count {
            at: Instant::now(),
            arrived: sum(&counted, arrives),
            dropped: sum(&counted, finds_no_room),
            silent: sum(&counted, is_silent),
            entered: sum(&counted, lets_in),
            opened: sum(&counted, opens),
            heard: under.iter().map(|one| Heard::of(&one.counted)).collect(),
            shed_anyway: under.iter().map(Under::shed_anyway).sum(),
            queued: row.listen_len,
            inside: u64::from(row.listen_len) + u64::from(row.syn_len),
            bound: Bound::of(row, under.iter().map(|one| one.guarded)),
        }
    }

    /// Whether ACKs were looked at since, under every guard that has let anybody in. Where a reload has brought
    /// another, or taken one out, nobody knows.
    fn hears_acks_since(&self, before: &Count) -> bool {
        let each = || self.heard.iter().zip(&before.heard);
        self.heard.len() == before.heard.len()
            && each().any(|(now, before)| now.acks > before.acks)
            && each().all(|(now, before)| now.acks > before.acks || now.entered == before.entered)
    }

    /// Connections that the server has taken since, by the ACKs: what came into the listen queue, and is not
    /// there.
    fn taken_since(&self, before: &Count) -> Option<u64> {
        let opened = self.opened.checked_sub(before.opened)?;
        Some((opened + u64::from(before.queued)).saturating_sub(self.queued.into()))
    }

    /// And what has left both queues, by the SYNs: those too whom the server has not taken, since their ACK
    /// met a full listen queue or never came.
    fn left_since(&self, before: &Count) -> Option<u64> {
        let entered = self.entered.checked_sub(before.entered)?;
        Some((entered + before.inside).saturating_sub(self.inside))
    }

    /// What happened since; `None` where counting began anew in between, as it does when a guard is
    /// taken out of the configuration and put back. `hears_acks`: all of that time.
    fn since(&self, before: &Count, hears_acks: bool) -> Option<Look> {
        let (taken, left) = (self.taken_since(before)?, self.left_since(before)?);
        Some(Look {
            lasted_s: (self.at - before.at).as_secs_f64(),
            arrived: self.arrived.checked_sub(before.arrived)?,
            dropped: self.dropped.checked_sub(before.dropped)?,
            drained: if hears_acks { left.min(taken) } else { left },
            queued: self.queued,
            places: self.bound.places,
        })
    }
}

struct Watched {
    row: tg_listener_row,
    last: Count,
    /// ACKs were counted up to the last look: the guard is watched.
    hears_acks: bool,
    comes_again: bool,
    shed_anyway: u64,
    record: Record,
}

impl Watched {
    fn new(row: tg_listener_row, last: Count) -> Self {
        let record = Record::default();
        Watched { row, last, hears_acks: false, comes_again: false, shed_anyway: 0, record }
    }

    /// What happened since the last look. A guard that begins to be watched has counted some of the ACKs.
    fn see(&mut self, row: tg_listener_row, count: Count) -> Option<Look> {
        let hears_acks = count.hears_acks_since(&self.last);
        let look = count.since(&self.last, hears_acks && self.hears_acks);
        if look.is_some() {
            self.comes_again |= count.silent > self.last.silent;
            self.shed_anyway += count.shed_anyway.saturating_sub(self.last.shed_anyway);
        }
        (self.row, self.last, self.hears_acks) = (row, count, hears_acks);
        look
    }
}

/// Whether `address` names this guard: `0.0.0.0` and `::` are every address, as of a socket that is bound to them.
fn is_named(guarded: &Guarded, address: Option<IpAddr>) -> bool {
    match address {
        Some(address) if address.is_unspecified() => guarded.address.is_none(),
        Some(_) => guarded.address == address,
        None => true,
    }
}

/// The one guard of this port that is meant.
fn guard_on(
    guards: &[(u32, Guarded)],
    port: u16,
    address: Option<IpAddr>,
) -> Result<(u32, Guarded)> {
    let found: Vec<&(u32, Guarded)> =
        listeners_on(guards, port).filter(|(_, g)| is_named(g, address)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => Err(not_guarded(guards, port, address)),
        _ => Err(Failure::argument(
            format!("port {port} has several guards"),
            format!("name one by --address: {}", addresses_on(guards, port).join(", ")),
        )),
    }
}

/// The guards on a port that are no paths.
fn listeners_on(guards: &[(u32, Guarded)], port: u16) -> impl Iterator<Item = &(u32, Guarded)> {
    guards.iter().filter(move |(_, g)| !g.is_path && g.port == port)
}

/// Their addresses, as they are named.
fn addresses_on(guards: &[(u32, Guarded)], port: u16) -> Vec<String> {
    let address = |g: &Guarded| g.address.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    listeners_on(guards, port).map(|(_, g)| address(g).to_string()).collect()
}

fn not_guarded(guards: &[(u32, Guarded)], port: u16, address: Option<IpAddr>) -> Failure {
    let addresses = addresses_on(guards, port);
    if let (Some(address), false) = (address, addresses.is_empty()) {
        return Failure::argument(
            format!("{address} has no guard of its own on port {port}"),
            format!("name one that has by --address: {}", addresses.join(", ")),
        );
    }
    let listeners = guards.iter().filter(|(_, g)| !g.is_path);
    let ports: BTreeSet<u16> = listeners.map(|(_, g)| g.port).collect();
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    match ports[..] {
        [] => Failure::argument(
            "no listener is guarded here, but paths to others'",
            "watch on the listener's host",
        ),
        _ => Failure::argument(
            format!("port {port} is not guarded"),
            format!("give one of those that are: {}", ports.join(", ")),
        ),
    }
}

/// Who listens where connections of a guard can come in.
#[derive(Default)]
struct Listening {
    /// Those whose SYNs it decides.
    judged: Vec<tg_listener_row>,
    /// The addresses of those that have a guard of their own.
    elsewhere: BTreeSet<IpAddr>,
    /// Where a program of the application's chooses from a group, and the kernel alone decides.
    chosen: BTreeSet<SocketAddr>,
}

impl Listening {
    fn of(rows: &[tg_listener_row], guarded: &Guarded, guards: &[(u32, Guarded)]) -> Self {
        let mut listening = Self::default();
        let all = || guards.iter().map(|(_, guarded)| guarded);
        for row in rows.iter().filter(|row| guarded.covers(row)) {
            if !guarded.judges(row, all()) {
                listening.elsewhere.insert(row.address());
            } else if row.chosen != 0 {
                listening.chosen.insert(bound_to(row));
            } else {
                listening.judged.push(*row);
            }
        }
        listening
    }

    /// Why nothing can be seen of this port.
    fn unseen(&self, port: u16) -> Failure {
        if !self.judged.is_empty() {
            return Failure::argument(
                format!("who listens on port {port} has no counters of its own yet"),
                "have `tidegate run` run, which gives them while it has any left",
            );
        }
        if !self.elsewhere.is_empty() {
            return Failure::argument(
                format!("who listens on port {port} has a guard of its own"),
                format!("name one by --address: {}", listed(&self.elsewhere)),
            );
        }
        if !self.chosen.is_empty() {
            return Failure::argument(
                format!(
                    "a program of the application's chooses among those that listen on {}, and the kernel alone decides",
                    listed(&self.chosen)
                ),
                "give the burst (--drain-per-s)",
            );
        }
        Failure::argument(format!("nothing listens on port {port} here"), "start the server first")
    }
}

fn bound_to(row: &tg_listener_row) -> SocketAddr {
    SocketAddr::new(row.address(), row.port as u16)
}

fn listed(all: &BTreeSet<impl ToString>) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The counter slots of a socket, one for each guard that its SYNs fall under: one queue is before them all.
/// `None` while one of them is missing.
fn slots_of<'a>(
    slots: &BTreeMap<(u32, u64), u32>,
    row: &tg_listener_row,
    guards: &'a [(u32, Guarded)],
) -> Option<Vec<(&'a Guarded, u32)>> {
    let all = || guards.iter().map(|(_, guarded)| guarded);
    let judging = guards.iter().filter(|(_, guarded)| guarded.judges(row, all()));
    let slot = |index: u32| slots.get(&(index, row.socket_cookie)).copied();
    judging.map(|(index, guarded)| Some((guarded, slot(*index)?))).collect()
}

fn count(programs: &Programs, slots: &[(&Guarded, u32)], row: &tg_listener_row) -> Result<Count> {
    let mut under = Vec::new();
    for (guarded, slot) in slots {
        under.push(Under { guarded, counted: counters::read(programs, *slot)? });
    }
    Ok(Count::of(&under, row))
}

/// One look at every listening socket of a guard that has counters of its own. Who listens, with counters or
/// without.
fn look(
    programs: &Programs,
    guarded: &Guarded,
    guards: &[(u32, Guarded)],
    watched: &mut BTreeMap<u64, Watched>,
) -> Result<Listening> {
    let slots = counters::slots(programs);
    let listening = Listening::of(&sockets::listeners(programs)?, guarded, guards);
    for row in &listening.judged {
        let Some(own) = slots_of(&slots, row, guards) else { continue };
        let count = count(programs, &own, row)?;
        match watched.get_mut(&row.socket_cookie) {
            Some(socket) => {
                if let Some(look) = socket.see(*row, count) {
                    socket.record.add(look);
                }
            }
            None => {
                watched.insert(row.socket_cookie, Watched::new(*row, count));
            }
        }
    }
    Ok(listening)
}

/// Why nothing is recommended: of several sockets by the one that the most came to.
fn no_burst(port: u16, all: impl Iterator<Item = (Bound, NoBurst)>) -> Failure {
    let busiest = all.max_by_key(|(_, why)| why.arrived());
    match busiest {
        Some((bound, why @ NoBurst::TooShort { .. })) => {
            let Bound { name, value, .. } = bound;
            let what = format!("the queue of port {port} ({name} {value}) is {why}");
            Failure::argument(what, bound.fix())
        }
        calm => {
            let calm = calm.map_or(NoBurst::TooCalm { arrived: 0, queued: 0 }, |(_, why)| why);
            Failure::argument(
                format!("port {port} was {calm}"),
                "watch in a busier hour or for longer (--for), or give the burst (--drain-per-s)",
            )
        }
    }
}

fn socket(watched: &Watched, seen: &Seen, lasts: Duration) -> Socket {
    let row = &watched.row;
    Socket {
        address: bound_to(row).to_string(),
        watched_s: to_thousandths(watched.record.lasted_s()),
        asked_s: lasts.as_secs_f64(),
        backlog: row.listen_max,
        queued: seen.queued,
        dropped: seen.dropped,
        comes_again: watched.comes_again,
        shed_anyway: watched.shed_anyway,
        has_ended: seen.has_ended,
    }
}

fn excess(seen: &Seen) -> f64 {
    (seen.burst_per_s - seen.drain_per_s) * seen.burst_s
}

/// The largest burst that came to a guarded port in this time, and the socket before which it was.
pub fn burst(port: u16, address: Option<IpAddr>, lasts: Duration) -> Result<(Socket, Seen)> {
    host::require_capabilities()?;
    let pins = Pins::here()?;
    let Some(programs) = Guard::open_to_read(&pins)? else {
        mounts::require_those_of_the_daemon(&pins)?;
        return Err(Failure::argument(
            "no guard stands here",
            "start one with `tidegate run`, which counts what comes",
        ));
    };
    let (_, meant) = guard_on(&configuration::read(&programs)?, port, address)?;
    let (begun, mut watched) = (Instant::now(), BTreeMap::new());
    let (mut listening, mut is_out) = (Listening::default(), false);
    while begun.elapsed() < lasts && (!watched.is_empty() || begun.elapsed() < COUNTED_BY) {
        // A reload may have changed it, or brought others that its sockets' SYNs fall under.
        let guards = configuration::read(&programs)?;
        let now =
            guards.iter().find(|(_, guarded)| !guarded.is_path && guarded.has_listener_of(&meant));
        let Some((_, guarded)) = now else {
            is_out = true;
            break;
        };
        listening = look(&programs, guarded, &guards, &mut watched)?;
        if !pins.are_of(programs.maps()) {
            return Err(Failure::argument(
                "the guard was taken down while it was watched",
                "watch again when one stands",
            ));
        }
        std::thread::sleep(EVERY);
    }
    let bursts = || watched.values().map(|one| (one, one.record.burst()));
    let seen = bursts().filter_map(|(one, burst)| Some((one, burst.ok()?)));
    let largest = seen.max_by(|(_, a), (_, b)| excess(a).total_cmp(&excess(b)));
    let Some((one, seen)) = largest else {
        if is_out {
            return Err(Failure::argument(
                format!("the section of port {port} was taken out while it was watched"),
                "watch again when it is back",
            ));
        }
        if watched.is_empty() {
            return Err(listening.unseen(port));
        }
        let none = bursts().filter_map(|(one, burst)| Some((one.last.bound, burst.err()?)));
        return Err(no_burst(port, none));
    };
    Ok((socket(one, &seen, lasts), seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets by reason and verdict.
    type Packets = [(u32, u32, u64)];

    fn counted(packets: &Packets) -> Count {
        counted_at(&tg_listener_row::default(), packets)
    }

    fn counted_at(row: &tg_listener_row, packets: &Packets) -> Count {
        Count::of(&[under(&Guarded::default(), packets)], row)
    }

    fn under<'a>(guarded: &'a Guarded, packets: &Packets) -> Under<'a> {
        let mut counted = tg_counters::default();
        for (reason, verdict, count) in packets {
            counted.packets[*reason as usize][*verdict as usize] = *count;
        }
        Under { guarded, counted }
    }

    #[test]
    fn who_found_no_room_is_whom_a_longer_queue_would_have_let_in() {
        let count = counted(&[
            (TG_ROOM, TG_PASS, 1000),
            (TG_EXEMPT, TG_PASS, 300),
            (TG_KERNEL_COOKIE, TG_PASS, 20),
            (TG_KERNEL_COOKIE, TG_COOKIE, 4),
            (TG_LISTENQ_FULL_AT_SYN, TG_COOKIE, 60),
            (TG_LISTENQ_FULL_AT_SYN, TG_RESET, 7),
            (TG_BEYOND_SHARE, TG_DROP, 2),
            (TG_COOKIE_VALID, TG_ADMIT, 50),
            (TG_HALF_OPEN, TG_PASS, 90),
            (TG_POLICED, TG_DROP, 5000),
        ]);
        assert_eq!((count.arrived, count.dropped, count.entered), (1393, 9, 1370));
    }

    /// p follows this very queue where it is `auto`; any other is what the section asks for.
    #[test]
    fn who_is_shed_for_the_queues_sake_found_no_room_and_others_did_not_come() {
        let shed = |is_auto, rate_per_s| Guarded {
            shed: tg_shed_rules { policy: TG_SLPD, is_auto, rate_per_s, ..Default::default() },
            ..Default::default()
        };
        let packets = [
            (TG_ROOM, TG_PASS, 1000),
            (TG_SHED_STATELESS, TG_DROP, 400),
            (TG_SHED_AGAIN, TG_DROP, 30),
            (TG_SHED_UNIFORM, TG_RESET, 2),
        ];
        let told = |guarded: &Guarded| {
            let count = Count::of(&[under(guarded, &packets)], &tg_listener_row::default());
            (count.arrived, count.dropped, count.silent, count.shed_anyway)
        };
        assert_eq!(told(&shed(1, 0)), (1432, 432, 430, 0));
        for by_itself in [shed(0, 0), shed(1, 1000)] {
            assert_eq!(told(&by_itself), (1000, 0, 0, 432));
        }
    }

    #[test]
    fn a_burst_without_some_who_were_shed_is_told_to_be() {
        let row = tg_listener_row::default();
        let at = |shed: u64| counted(&[(TG_ROOM, TG_PASS, 9), (TG_SHED_NEW, TG_DROP, shed)]);
        let mut watched = Watched::new(row, at(100));
        for shed in [100, 140, 150] {
            watched.see(row, at(shed)).expect("counts that go on");
        }
        let warnings = socket(&watched, &seen(true), Duration::ZERO).warnings();
        assert!(
            warnings.len() == 1 && warnings[0].starts_with("50 SYNs were shed"),
            "{warnings:?}"
        );
    }

    fn seen(has_ended: bool) -> Seen {
        Seen {
            drain_per_s: 1.0,
            burst_per_s: 2.0,
            burst_s: 1.0,
            calm_per_s: 0.0,
            queued: 0,
            dropped: 0,
            has_ended,
        }
    }

    /// Its socket has gone, or another has come: who waits for longer sees no more of it.
    #[test]
    fn what_was_watched_in_part_is_told_as_that_part() {
        let row = tg_listener_row::default();
        let told = |seen_s: u32, has_ended| {
            let mut watched = Watched::new(row, counted(&[]));
            for _ in 0..seen_s {
                watched.record.add(Look { lasted_s: 1.0, ..Look::default() });
            }
            let socket = socket(&watched, &seen(has_ended), Duration::from_secs(60));
            (socket.watched_s, socket.line(), socket.warnings())
        };
        assert_eq!(told(59, true).2, [] as [&str; 0]);
        assert_eq!(told(60, false).2, ["the burst had not ended yet: watch for longer"]);
        let (watched_s, line, warnings) = told(7, false);
        assert!(watched_s == 7.0 && line.starts_with("0.0.0.0:0, 7 s: "), "{watched_s}: {line}");
        assert!(
            warnings[0].starts_with("it was seen for 7 s of the 60: ")
                && warnings[1..] == ["the burst had not ended when it was seen last"],
            "{warnings:?}"
        );
    }

    /// One socket of every address under the port's guard and under that of one address.
    #[test]
    fn what_comes_to_a_socket_is_counted_under_all_of_its_guards() {
        let guards = guards([None, Some("192.0.2.1")]);
        let socket = |address| tg_listener_row { socket_cookie: 7, ..listening_on(address) };
        let counted_under = |slots: &[u32], address| {
            let slots = slots.iter().map(|slot| ((*slot - 100, 7), *slot)).collect();
            slots_of(&slots, &socket(address), &guards)
                .map(|found| found.iter().map(|(_, slot)| *slot).collect::<Vec<_>>())
        };
        assert_eq!(counted_under(&[100, 101], [0; 4]), Some(vec![100, 101]));
        assert_eq!(counted_under(&[100], [0; 4]), None, "half of it is counted elsewhere");
        assert_eq!(counted_under(&[101], [192, 0, 2, 1]), Some(vec![101]));
        assert_eq!(counted_under(&[100], [192, 0, 2, 2]), Some(vec![100]));

        let half = [(TG_ROOM, TG_PASS, 500), (TG_LISTENQ_FULL_AT_SYN, TG_PASS, 70)];
        let both = [under(&guards[0].1, &half), under(&guards[1].1, &half)];
        let count = Count::of(&both, &socket([0; 4]));
        assert_eq!((count.arrived, count.dropped, count.entered), (1140, 140, 1000));
    }

    /// Of two guards one is watched: what the other's ACKs opened nobody has counted.
    #[test]
    fn acks_are_heard_where_every_guard_that_lets_in_is_watched() {
        let every = Guarded::default();
        let at = |guards: [(u64, u64); 2]| {
            let packets = guards.map(|(entered, acks)| {
                [(TG_ROOM, TG_PASS, entered), (TG_HANDSHAKE, TG_PASS, acks)]
            });
            Count::of(&packets.map(|p| under(&every, &p)), &tg_listener_row::default())
        };
        let before = at([(100, 100), (100, 100)]);
        for (now, hears) in [
            ([(200, 200), (200, 200)], true),
            ([(200, 200), (200, 100)], false),
            ([(200, 200), (100, 100)], true),
            ([(100, 100), (100, 100)], false),
        ] {
            assert_eq!(at(now).hears_acks_since(&before), hears, "{now:?}");
        }
        let alone = counted(&[(TG_ROOM, TG_PASS, 200), (TG_HANDSHAKE, TG_PASS, 200)]);
        assert!(!alone.hears_acks_since(&before), "a reload has taken one out");
    }

    #[test]
    fn a_queue_that_is_too_short_is_told_by_what_keeps_it_so() {
        let row = tg_listener_row { listen_max: 5, ..Default::default() };
        let guarded = |places, ahead| Guarded {
            rules: tg_rules { places, ahead, ..Default::default() },
            ..Default::default()
        };
        let bound = |listen_max, guards: &[Guarded]| {
            let bound = Bound::of(&tg_listener_row { listen_max, ..row }, guards.iter());
            (bound.name, bound.value, bound.places)
        };
        assert_eq!(bound(5, &[guarded(0, 0)]), ("backlog", 5, 6));
        assert_eq!(bound(5, &[guarded(16, 0)]), ("backlog", 5, 6));
        assert_eq!(bound(128, &[guarded(4, 16)]), ("places", 4, 4));
        assert_eq!(bound(128, &[guarded(0, 7)]), ("ahead", 7, 7));
        assert_eq!(bound(128, &[guarded(4, 0), guarded(0, 0)]), ("backlog", 128, 129));
        let told = |guards: &[Guarded], why| {
            let listen_max = if guards.is_empty() { 5 } else { 128 };
            let row = tg_listener_row { listen_max, ..row };
            no_burst(80, [(Bound::of(&row, guards.iter()), why)].into_iter()).to_string()
        };
        let short = NoBurst::TooShort { arrived: 50, dropped: 40 };
        let why = "too short to see what the server takes: 50 SYNs came, and 40 found no room";
        assert_eq!(
            told(&[], short),
            format!(
                "the queue of port 80 (backlog 5) is {why}; \
                 give it 128 (resize = true, backlog = 128), and watch again"
            )
        );
        assert_eq!(
            told(&[guarded(4, 0)], short),
            format!(
                "the queue of port 80 (places 4) is {why}; take places out meanwhile, and watch again"
            )
        );
        let calm = NoBurst::TooCalm { arrived: 50, queued: 0 };
        assert!(told(&[], calm).starts_with("port 80 was too calm"));
    }

    /// A full listen queue, to which 500 come in each look, and from which 100 are taken.
    #[test]
    fn whom_a_full_queue_has_not_let_in_the_server_has_not_taken() {
        let row = tg_listener_row { listen_len: 64, syn_len: 86, ..Default::default() };
        let at = |looks: u64, heard: u64| {
            let packets = [
                (TG_ROOM, TG_PASS, 500 * looks),
                (TG_HANDSHAKE, TG_PASS, 100 * heard),
                (TG_OVERFLOW_SYNACK_ACK, TG_RESET, 400 * heard),
            ];
            counted_at(&row, &packets)
        };
        let mut watched = Watched::new(row, at(0, 0));
        let mut drained = |looks, heard| watched.see(row, at(looks, heard)).unwrap().drained;
        assert_eq!(drained(1, 0), 500, "ACKs are not looked at");
        assert_eq!(drained(2, 1), 500, "nor were all of those between the last two looks");
        assert_eq!(drained(3, 2), 100);
        assert_eq!(drained(4, 2), 500, "no more");
        // What is no handshake may be counted as one: no more have left than came.
        let of =
            |looks: u64| [(TG_ROOM, TG_PASS, 90 * looks), (TG_HANDSHAKE, TG_PASS, 100 * looks)];
        let look = counted_at(&row, &of(2)).since(&counted_at(&row, &of(1)), true).unwrap();
        assert_eq!(look.drained, 90);
    }

    #[test]
    fn who_is_told_that_there_is_no_room_does_not_come_again() {
        let row = tg_listener_row::default();
        let comes_again = |verdict| {
            let mut watched = Watched::new(row, counted(&[]));
            watched.see(row, counted(&[(TG_LISTENQ_FULL_AT_SYN, verdict, 7)])).unwrap();
            watched.comes_again
        };
        let told = [TG_RESET, TG_HOLLOW, TG_COOKIE].map(comes_again);
        assert_eq!((told, [TG_DROP, TG_PASS].map(comes_again)), ([false; 3], [true; 2]));
    }

    /// Guards of port 443.
    fn guards<const N: usize>(addresses: [Option<&str>; N]) -> Vec<(u32, Guarded)> {
        let address = |address: &str| address.parse().unwrap();
        let guarded = |of: Option<&str>| {
            let address = of.map(address);
            Guarded { address, port: 443, ..Guarded::default() }
        };
        (0..).zip(addresses.map(guarded)).collect()
    }

    fn listening_on(address: [u8; 4]) -> tg_listener_row {
        let addr = [u32::from_ne_bytes(address), 0, 0, 0];
        tg_listener_row { addr, port: 443, ..Default::default() }
    }

    #[test]
    fn what_cannot_be_seen_of_a_port_is_told_by_its_cause() {
        let guards = guards([None, Some("192.0.2.1")]);
        let socket = |address, chosen| tg_listener_row { chosen, ..listening_on(address) };
        let seen = |guard: usize, rows: &[tg_listener_row]| {
            let listening = Listening::of(rows, &guards[guard].1, &guards);
            (listening.judged.len(), listening.unseen(443).to_string())
        };
        let (own, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let told = |rows: &[tg_listener_row]| {
            let (judged, told) = seen(0, rows);
            assert_eq!(judged, 0, "{told}");
            told
        };
        assert_eq!(
            told(&[socket(own, 0)]),
            "who listens on port 443 has a guard of its own; name one by --address: 192.0.2.1"
        );
        assert_eq!(
            told(&[socket(other, 1), socket(other, 1)]),
            "a program of the application's chooses among those that listen on 192.0.2.2:443, \
             and the kernel alone decides; give the burst (--drain-per-s)"
        );
        let elsewhere = tg_listener_row { port: 80, ..socket(own, 0) };
        assert!(told(&[elsewhere]).starts_with("nothing listens on port 443 here; "));
        let uncounted = |seen: (usize, String)| matches!(seen, (1, told) if told.contains("no counters of its own"));
        assert!(uncounted(seen(0, &[socket(own, 0), socket(other, 0)])));
        assert!(uncounted(seen(1, &[socket(own, 0), socket(other, 0)])));
    }

    #[test]
    fn of_several_guards_on_a_port_one_is_to_be_named() {
        let all = guards([None, Some("192.0.2.1"), Some("2001:db8::1")]);
        let on = |guards: &[(u32, Guarded)], address: Option<&str>| {
            let found = guard_on(guards, 443, address.map(|a| a.parse().unwrap()));
            found.map(|(index, _)| index).map_err(|failure| failure.to_string())
        };
        let several = "port 443 has several guards; name one by --address: ";
        assert_eq!(on(&all, None), Err(format!("{several}0.0.0.0, 192.0.2.1, 2001:db8::1")));
        assert_eq!(on(&all, Some("192.0.2.1")), Ok(1));
        assert_eq!((on(&all, Some("0.0.0.0")), on(&all, Some("::"))), (Ok(0), Ok(0)));
        assert_eq!(on(&all[2..], None), Ok(2), "it is the only one");
        let own = "has no guard of its own on port 443; name one that has by --address: ";
        assert_eq!(
            on(&all[1..], Some("0.0.0.0")),
            Err(format!("0.0.0.0 {own}192.0.2.1, 2001:db8::1"))
        );
        assert_eq!(on(&all[..1], Some("192.0.2.9")), Err(format!("192.0.2.9 {own}0.0.0.0")));
        let told = |guards: &[(u32, Guarded)]| {
            guard_on(guards, 80, None).err().map(|failure| failure.to_string())
        };
        let expected = "port 80 is not guarded; give one of those that are: 443";
        assert_eq!(told(&all), Some(expected.to_owned()), "each port once");
        let path = (0, Guarded { is_path: true, ..all[1].1.clone() });
        assert!(told(&[path]).is_some_and(|told| told.starts_with("no listener is guarded here")));
    }

    #[test]
    fn of_sockets_that_were_too_calm_the_busiest_is_told_of() {
        let bound = Bound::of(&tg_listener_row::default(), [].into_iter());
        let told = |arrived: &[u64]| {
            let calm = |arrived: &u64| (bound, NoBurst::TooCalm { arrived: *arrived, queued: 0 });
            no_burst(443, arrived.iter().map(calm)).to_string()
        };
        let of = |arrived| format!("too calm to recommend anything: {arrived} SYNs came");
        assert!(told(&[3, 9, 0]).contains(&of(9)) && told(&[]).contains(&of(0)));
    }

    #[test]
    fn counts_that_began_anew_between_two_looks_are_no_burst() {
        let count = |arrived, dropped, entered| Count {
            at: Instant::now(),
            arrived,
            dropped,
            entered,
            ..counted(&[])
        };
        let before = count(100, 10, 90);
        let look = count(700, 190, 500).since(&before, false).expect("counts that go on");
        assert_eq!((look.arrived, look.dropped, look.drained), (600, 180, 410));
        for anew in [count(99, 10, 90), count(100, 9, 90), count(100, 10, 89)] {
            assert!(anew.since(&before, false).is_none());
        }
    }
}
