// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guarded listener, watched for bursts: what its SYNs met, and how its queues went.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use tidegate_datapath::configuration::{self, Guarded};
use tidegate_datapath::guard::Guard;
use tidegate_datapath::pins::Pins;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::*;
use tidegate_datapath::{counters, sockets};
use tidegate_policy::size::{NoBurst, Seen};

use super::count::{Bound, Count, Under, Watched};
use super::listening::{Listening, slots_of};
use super::meant::guard_on;
use super::socket::Socket;
use crate::failure::{Failure, Result};
use crate::{host, mounts};

/// Between two looks. A shorter burst is taken for one of this length.
const EVERY: Duration = Duration::from_millis(50);
/// By now a daemon that runs has given every listening socket its counters: it looks every two seconds at
/// least.
const COUNTED_BY: Duration = Duration::from_secs(3);

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

fn excess(seen: &Seen) -> f64 {
    (seen.burst_per_s - seen.drain_per_s) * seen.burst_s
}

/// What was seen of a guard in this time: the sockets that came to have counters, who listened at the last look,
/// and whether the section was taken out.
struct Sight {
    watched: BTreeMap<u64, Watched>,
    listening: Listening,
    is_out: bool,
}

fn watch_for(pins: &Pins, programs: &Programs, meant: &Guarded, lasts: Duration) -> Result<Sight> {
    let (begun, mut watched) = (Instant::now(), BTreeMap::new());
    let (mut listening, mut is_out) = (Listening::default(), false);
    while begun.elapsed() < lasts && (!watched.is_empty() || begun.elapsed() < COUNTED_BY) {
        // A reload may have changed it, or brought others that its sockets' SYNs fall under.
        let guards = configuration::read(programs)?;
        let now =
            guards.iter().find(|(_, guarded)| !guarded.is_path && guarded.has_listener_of(meant));
        let Some((_, guarded)) = now else {
            is_out = true;
            break;
        };
        listening = look(programs, guarded, &guards, &mut watched)?;
        if !pins.are_of(programs.maps()) {
            return Err(Failure::argument(
                "the guard was taken down while it was watched",
                "watch again when one stands",
            ));
        }
        std::thread::sleep(EVERY);
    }
    Ok(Sight { watched, listening, is_out })
}

impl Sight {
    fn bursts(&self) -> impl Iterator<Item = (&Watched, std::result::Result<Seen, NoBurst>)> {
        self.watched.values().map(|one| (one, one.record.burst()))
    }

    /// The largest burst, and the socket before which it was; or why there is none.
    fn largest(&self, port: u16) -> Result<(&Watched, Seen)> {
        let seen = self.bursts().filter_map(|(one, burst)| Some((one, burst.ok()?)));
        let largest = seen.max_by(|(_, a), (_, b)| excess(a).total_cmp(&excess(b)));
        largest.ok_or_else(|| self.none(port))
    }

    fn none(&self, port: u16) -> Failure {
        if self.is_out {
            return Failure::argument(
                format!("the section of port {port} was taken out while it was watched"),
                "watch again when it is back",
            );
        }
        if self.watched.is_empty() {
            return self.listening.unseen(port);
        }
        let none = self.bursts().filter_map(|(one, burst)| Some((one.last.bound, burst.err()?)));
        no_burst(port, none)
    }
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
    let sight = watch_for(&pins, &programs, &meant, lasts)?;
    let (one, seen) = sight.largest(port)?;
    Ok((Socket::of(one, &seen, lasts), seen))
}

#[cfg(test)]
mod tests {
    use tidegate_policy::raw::*;

    use super::*;

    #[test]
    fn a_queue_that_is_too_short_is_told_by_what_keeps_it_so() {
        let row = tg_listener_row { listen_max: 5, ..Default::default() };
        let guarded = |places| Guarded {
            rules: tg_rules { places, ..Default::default() },
            ..Default::default()
        };
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
            told(&[guarded(4)], short),
            format!(
                "the queue of port 80 (places 4) is {why}; take places out meanwhile, and watch again"
            )
        );
        let calm = NoBurst::TooCalm { arrived: 50, queued: 0 };
        assert!(told(&[], calm).starts_with("port 80 was too calm"));
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
}
