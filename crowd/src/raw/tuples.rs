// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source addresses and ports for attempts: each free for as long as possible before it is used
//! again.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use crate::plan::Plan;
use crate::raw::marks::Marks;
use crate::sources::Sources;

/// Below are the ports that only servers have.
const FIRST_PORT: u16 = 1024;
const PORTS: u64 = u16::MAX as u64 - FIRST_PORT as u64 + 1;
/// Where Linux' ports for clients begin (`net.ipv4.ip_local_port_range`).
const FIRST_OF_FEW: u16 = 32_768;
/// Addresses whose ports go round on their own. Where there are more, some go round together: a
/// port comes again after 264 million connections then.
const APART: u64 = 1 << 12;
/// Of more places than this (a bit each: 8 MB) none are marked: a start that finds so many taken one behind the
/// other looks at each.
const MARKED_MAX: u64 = 1 << 26;

/// Between whom a connection is: a target, and an address and port of ours. It counts through all
/// of them, so that attempts of one time have numbers close together.
pub(crate) type Tuple = u64;

/// Whom an address's ports are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Clients with a connection each, in turn.
    InTurn,
    /// Clients with several connections each, all from one address.
    ByAddress,
    /// The lower half in turn and the upper half by address, so that the two never meet.
    Both,
}

impl Ports {
    /// As the plan's clients need them.
    pub(crate) fn of(plan: &Plan) -> Self {
        if plan.is_mixed() {
            return Self::Both;
        }
        let all_browse = plan.classes.iter().all(|class| class.browsing.is_some());
        if all_browse { Self::ByAddress } else { Self::InTurn }
    }
}

/// All tuples there are, taken in turn: targets alternate fastest, then addresses, then ports.
#[derive(Debug)]
pub(crate) struct Tuples {
    ways: Vec<(SocketAddr, Sources)>,
    /// For each target the place of the first one like it: whose tuples it has. Who is named twice
    /// has its turn twice, but a packet from it does not say which of the two it is.
    first_like: Vec<usize>,
    /// Where clients of each home come from, at each target; the targets of a home together.
    pools: Vec<Pool>,
    /// The target that is next.
    target: usize,
    /// The ports that an address has.
    first_port: u16,
    ports: u64,
    /// Ports that are taken in rounds; the rest is for [`Tuples::take_at`].
    turns: u64,
    /// The port of each target that is next in the rest, for each address by its number, modulo
    /// [`APART`]: who uses many shortens nobody else's round.
    next_port: Vec<Vec<u16>>,
    /// Ports of the rest that were found taken, of each target and the number of an address of it.
    taken_at: HashMap<(usize, u64), Marks>,
    /// Whether any was ever found taken.
    has_found_taken: bool,
}

/// Addresses at a target whose ports are taken in turn.
#[derive(Debug)]
struct Pool {
    /// Some of the target's; `None`: all.
    sources: Option<Sources>,
    /// The place that is next: of an address, and above it of a port.
    next: u64,
    /// Places that were found taken, once one was.
    taken: Option<Marks>,
    /// The number of the address that is next by itself.
    next_address: u64,
}

impl Pool {
    /// So many addresses with so many ports, beginning anywhere.
    fn new(sources: Option<Sources>, addresses: u64, turns: u64, begin: u64) -> Self {
        // Where there are no ports of a kind, none of them is ever next.
        let next = begin % (addresses * turns).max(1);
        Self { sources, next, taken: None, next_address: begin % addresses }
    }
}

impl Tuples {
    /// For targets, each with the sources that go there (at least one) and these ports, or all that
    /// there are, beginning anywhere.
    pub(crate) fn new(
        ways: Vec<(SocketAddr, Sources)>,
        ports: Option<u16>,
        begin: u64,
        whose: Ports,
    ) -> Self {
        let (first_port, ports) = match ports {
            // From lower ports on where there are more.
            Some(count) => (FIRST_OF_FEW.min(u16::MAX - (count - 1)), u64::from(count)),
            None => (FIRST_PORT, PORTS),
        };
        let turns = match whose {
            Ports::InTurn => ports,
            Ports::ByAddress => 0,
            Ports::Both => ports / 2,
        };
        let addresses: Vec<u64> = ways.iter().map(|(_, sources)| sources.len()).collect();
        let pools = addresses.iter().map(|count| Pool::new(None, *count, turns, begin)).collect();
        let first = (begin % (ports - turns).max(1)) as u16;
        let apart = |count: &u64| vec![first; (*count).min(APART) as usize];
        let next_port = addresses.iter().map(apart).collect();
        let first_like = first_like(&ways);
        Self {
            ways,
            first_like,
            pools,
            target: 0,
            first_port,
            ports,
            turns,
            next_port,
            taken_at: HashMap::new(),
            has_found_taken: false,
        }
    }

    /// The same where clients have homes: of each, for each target, some of the target's sources, at
    /// least one.
    pub(crate) fn with_homes(mut self, homes: Vec<Vec<Sources>>, begin: u64) -> Self {
        let turns = self.turns;
        let own = |sources: Sources| {
            let addresses = sources.len();
            Pool::new(Some(sources), addresses, turns, begin)
        };
        self.pools = homes.into_iter().flatten().map(own).collect();
        self
    }

    /// The next target's next tuple that is not taken, from an address of this home, and the target's
    /// place; `None` when all of them are taken.
    ///
    /// What it finds taken it remembers until it is given back: however few are free, starts are not
    /// held up by looking at the others again and again.
    #[inline]
    pub(crate) fn take(
        &mut self,
        home: usize,
        is_taken: impl Fn(Tuple) -> bool,
    ) -> (usize, Option<Tuple>) {
        let target = self.take_target();
        let (targets, all) = (self.ways.len() as u64, &self.ways[target].1);
        let Pool { sources, next, taken, .. } = &mut self.pools[home * self.ways.len() + target];
        let sources = sources.as_ref();
        let addresses = sources.map_or(all.len(), Sources::len);
        let tuple = next_free(next, addresses * self.turns, taken, |place| {
            let round = match sources {
                None => place,
                Some(own) => {
                    let address = all.number(own.address(place % addresses));
                    place / addresses * all.len() + address.expect("it is one of the target's")
                }
            };
            Some(round * targets + target as u64).filter(|tuple| !is_taken(*tuple))
        });
        self.has_found_taken |= taken.is_some();
        (target, tuple)
    }

    /// The next target's place and the next source of this home, for a client with connections of
    /// its own.
    pub(crate) fn take_address(&mut self, home: usize) -> (usize, IpAddr) {
        let target = self.take_target();
        let pool = &mut self.pools[home * self.ways.len() + target];
        let sources = pool.sources.as_ref().unwrap_or(&self.ways[target].1);
        let address = sources.address(pool.next_address);
        pool.next_address = (pool.next_address + 1) % sources.len();
        (target, address)
    }

    /// Another tuple between a target and an address of ours that is not taken; `None` when all
    /// are taken. It remembers as [`Tuples::take`] does.
    pub(crate) fn take_at(
        &mut self,
        target: usize,
        address: IpAddr,
        is_taken: impl Fn(Tuple) -> bool,
    ) -> Option<Tuple> {
        let (targets, sources) = (self.ways.len() as u64, &self.ways[target].1);
        let place = sources.number(address)?;
        let ports = self.ports - self.turns;
        let shared_next = &mut self.next_port[target][(place % APART) as usize];
        let mut next = u64::from(*shared_next);
        let mut taken = self.taken_at.remove(&(target, place));
        let tuple = next_free(&mut next, ports, &mut taken, |port| {
            let round = (self.turns + port) * sources.len() + place;
            Some(round * targets + target as u64).filter(|tuple| !is_taken(*tuple))
        });
        *shared_next = next as u16;
        if let Some(taken) = taken {
            self.taken_at.insert((target, place), taken);
            self.has_found_taken = true;
        }
        tuple
    }

    /// A tuple that was taken is not any more.
    #[inline]
    pub(crate) fn give_back(&mut self, tuple: Tuple) {
        if self.has_found_taken {
            self.forget_taken(tuple);
        }
    }

    fn forget_taken(&mut self, tuple: Tuple) {
        let targets = self.ways.len();
        let (round, target) = (tuple / targets as u64, (tuple % targets as u64) as usize);
        let all = &self.ways[target].1;
        let (port, number) = (round / all.len(), round % all.len());
        if let Some(port) = port.checked_sub(self.turns) {
            let Some(taken) = self.taken_at.get_mut(&(target, number)) else { return };
            taken.clear(port as usize);
            if taken.is_empty() {
                self.taken_at.remove(&(target, number));
            }
            return;
        }
        // Homes may have addresses in common.
        for pool in self.pools.iter_mut().skip(target).step_by(targets) {
            let Some(taken) = &mut pool.taken else { continue };
            let place = match &pool.sources {
                None => Some(round),
                Some(own) => {
                    let number = own.number(all.address(number));
                    number.map(|number| port * own.len() + number)
                }
            };
            if let Some(place) = place {
                taken.clear(place as usize);
            }
        }
    }

    /// Whose tuple it is: the target's place, our address, our port.
    #[inline]
    pub(crate) fn parts(&self, tuple: Tuple) -> (usize, IpAddr, u16) {
        let ways = self.ways.len() as u64;
        let (round, target) = (tuple / ways, (tuple % ways) as usize);
        let sources = &self.ways[target].1;
        let (port, address) = (round / sources.len(), round % sources.len());
        (target, sources.address(address), self.first_port + port as u16)
    }

    /// The tuple of a target's segment to one of us.
    #[inline]
    pub(crate) fn of(&self, from: SocketAddr, to: SocketAddr) -> Option<Tuple> {
        let target = self.ways.iter().position(|(target, _)| is_like(*target, from))?;
        let sources = &self.ways[target].1;
        let port = u64::from(to.port().checked_sub(self.first_port)?);
        if port >= self.ports {
            return None;
        }
        let round = port * sources.len() + sources.number(to.ip())?;
        Some(round * self.ways.len() as u64 + target as u64)
    }

    /// The sources of each target.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Sources> {
        self.ways.iter().map(|(_, sources)| sources)
    }

    /// The number above every tuple's. Targets may have fewer sources than others.
    pub(crate) fn end(&self) -> Tuple {
        let sources = self.sources().map(Sources::len).max().unwrap_or(0);
        sources.saturating_mul(self.ports).saturating_mul(self.ways.len() as u64)
    }

    /// How many tuples there are.
    pub(crate) fn len(&self) -> u64 {
        let each = self.sources().zip(&self.first_like).enumerate();
        let own = each.filter(|(target, (_, first))| target == *first);
        own.fold(0, |sum, (_, (sources, _))| sum.saturating_add(sources.len() * self.ports))
    }

    /// The place of the target whose turn it is, or of the first one like it.
    #[inline]
    fn take_target(&mut self) -> usize {
        let target = self.target;
        self.target = (target + 1) % self.ways.len();
        self.first_like[target]
    }
}

/// The tuple of a ring's next place that has one to give, and the place behind it becomes the next.
/// Places that have none are marked, and passed over as long as they are.
#[inline]
fn next_free(
    next: &mut u64,
    places: u64,
    taken: &mut Option<Marks>,
    tuple_at: impl Fn(u64) -> Option<Tuple>,
) -> Option<Tuple> {
    for _ in 0..places {
        let place = match taken {
            None => *next,
            Some(taken) => {
                let behind = taken.next_free(*next as usize);
                behind.or_else(|| taken.next_free(0))? as u64
            }
        };
        *next = if place + 1 == places { 0 } else { place + 1 };
        let tuple = tuple_at(place);
        if tuple.is_some() {
            return tuple;
        }
        if places <= MARKED_MAX {
            taken.get_or_insert_with(|| Marks::new(places as usize)).set(place as usize);
        }
    }
    None
}

fn first_like(ways: &[(SocketAddr, Sources)]) -> Vec<usize> {
    let first = |wanted: SocketAddr| ways.iter().position(|(target, _)| is_like(*target, wanted));
    ways.iter().filter_map(|(target, _)| first(*target)).collect()
}

/// Whether packets are from one as from the other: an IPv6 zone is the host's own and not in them.
#[inline]
fn is_like(target: SocketAddr, other: SocketAddr) -> bool {
    target.port() == other.port() && target.ip() == other.ip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Range;
    use std::cell::Cell;
    use std::collections::HashSet;

    fn way(target: &str, net: &str) -> (SocketAddr, Sources) {
        (target.parse().unwrap(), Sources::new(vec![Range::of(net.parse().unwrap())]))
    }

    fn tuples(whose: Ports) -> Tuples {
        let ways = vec![way("10.0.0.1:80", "10.128.0.0/30"), way("[fd00::1]:80", "fd00::10/127")];
        Tuples::new(ways, None, 2 * 2 * PORTS, whose)
    }

    #[test]
    fn few_ports_are_those_of_linux() {
        let way = way("10.0.0.1:80", "10.128.0.1/32");
        let target = way.0;
        for (count, first) in [(28_232, 32_768), (32_768, 32_768), (64_512, 1024)] {
            let mut tuples = Tuples::new(vec![way.clone()], Some(count), 0, Ports::InTurn);
            assert_eq!(tuples.len(), u64::from(count));
            let ports: Vec<u16> = (0..count)
                .map(|_| {
                    let tuple = tuples.take(0, |_| false).1.unwrap();
                    tuples.parts(tuple).2
                })
                .collect();
            let last = first + (count - 1);
            assert_eq!((ports[0], ports[ports.len() - 1]), (first, last));
            let to = |port| SocketAddr::new("10.128.0.1".parse().unwrap(), port);
            assert!(tuples.of(target, to(last)).is_some());
            assert!(last == u16::MAX || tuples.of(target, to(last + 1)).is_none());
            assert!(tuples.of(target, to(first - 1)).is_none());
        }
    }

    #[test]
    fn a_tuple_is_found_by_its_parts() {
        let mut tuples = tuples(Ports::InTurn);
        let mut seen = HashSet::new();
        for _ in 0..PORTS * 2 * 2 {
            let (target, tuple) = tuples.take(0, |_| false);
            let tuple = tuple.unwrap();
            assert!(tuple < tuples.end());
            let (of, address, port) = tuples.parts(tuple);
            assert_eq!(target, of);
            assert!(seen.insert((target, address, port)), "used twice: {address}:{port}");
            let (from, to) = (tuples.ways[target].0, SocketAddr::new(address, port));
            assert_eq!(tuples.of(from, to), Some(tuple));
        }
        let (_, again) = tuples.take(0, |_| false);
        assert_eq!(again, Some(0), "only when all had their turn");
    }

    #[test]
    fn who_is_named_twice_has_its_turn_twice_and_its_tuples_once() {
        let ways = ["10.0.0.1:80", "10.0.0.1:80", "10.0.0.2:80"];
        let ways = ways.map(|target| way(target, "10.128.0.1/32")).to_vec();
        let mut tuples = Tuples::new(ways, Some(4), 0, Ports::InTurn);
        assert_eq!(tuples.len(), 2 * 4);
        let mut seen = HashSet::new();
        for expected in [0, 0, 2, 0, 0, 2] {
            let (target, tuple) = tuples.take(0, |_| false);
            let (of, address, port) = tuples.parts(tuple.unwrap());
            assert_eq!((target, of), (expected, expected));
            let (from, to) = (tuples.ways[target].0, SocketAddr::new(address, port));
            assert!(seen.insert((from, to)), "used twice: {from} {to}");
            assert_eq!(tuples.of(from, to), tuple);
        }
    }

    #[test]
    fn who_has_a_home_comes_from_there_and_from_each_of_its_addresses_in_turn() {
        let (target, all) = way("10.0.0.1:80", "10.128.0.0/22");
        let at = |net: &str| Sources::new(vec![Range::of(net.parse().unwrap())]);
        let nets = ["10.128.0.0/24", "10.128.2.8/31"];
        let homes = nets.map(|net| vec![at(net)]).to_vec();
        let mut tuples =
            Tuples::new(vec![(target, all)], Some(2), 7, Ports::InTurn).with_homes(homes, 7);
        let mut seen = HashSet::new();
        for (home, addresses) in [(0, 254), (1, 2), (1, 2), (0, 254)] {
            let net: ipnet::IpNet = nets[home].parse().unwrap();
            for _ in 0..addresses {
                let tuple = tuples.take(home, |_| false).1.unwrap();
                let (_, address, port) = tuples.parts(tuple);
                assert!(net.contains(&address), "{address} is not of {net}");
                assert!(seen.insert((address, port)), "used twice: {address}:{port}");
                assert_eq!(tuples.of(target, SocketAddr::new(address, port)), Some(tuple));
            }
        }
        assert_eq!(seen.len(), 2 * 256);
        assert_eq!(tuples.take(1, |tuple| tuple % 1022 < 600), (0, None), "others' are not taken");
    }

    #[test]
    fn a_targets_zone_is_in_no_packet() {
        let ways = vec![way("[fe80::1%2]:80", "fe80::7/128")];
        let mut tuples = Tuples::new(ways, None, 0, Ports::InTurn);
        let tuple = tuples.take(0, |_| false).1.unwrap();
        let (_, address, port) = tuples.parts(tuple);
        let from = "[fe80::1]:80".parse().unwrap();
        assert_eq!(tuples.of(from, SocketAddr::new(address, port)), Some(tuple));
    }

    #[test]
    fn taken_ones_are_passed_over_and_strangers_have_none() {
        let mut tuples = tuples(Ports::InTurn);
        assert_eq!(tuples.take(0, |tuple| tuple < 7), (0, Some(8)));
        assert_eq!(tuples.take(0, |_| true), (1, None));
        let of = |from: &str, to: &str| tuples.of(from.parse().unwrap(), to.parse().unwrap());
        assert!(of("10.0.0.1:80", "10.128.0.1:1024").is_some());
        assert!(of("10.0.0.1:81", "10.128.0.1:1024").is_none());
        assert!(of("10.0.0.1:80", "10.128.0.3:1024").is_none());
        assert!(of("10.0.0.1:80", "10.128.0.1:1023").is_none());
    }

    /// A start that finds none, or one among many, must not hold up those that come behind it.
    #[test]
    fn what_is_taken_is_looked_at_once() {
        let few_looks = |tuples: &mut Tuples, is_taken: &dyn Fn(Tuple) -> bool| {
            let looks = Cell::new(0_u64);
            let tuple = tuples.take(0, |tuple| {
                looks.set(looks.get() + 1);
                is_taken(tuple)
            });
            assert!(looks.get() <= 2, "{} looks", looks.get());
            tuple.1
        };
        let ways = vec![way("10.0.0.1:80", "10.128.0.0/30")];
        let mut tuples = Tuples::new(ways, None, 0, Ports::InTurn);
        assert_eq!(tuples.take(0, |_| true).1, None);
        assert_eq!(few_looks(&mut tuples, &|_| true), None);
        // Taken again, its place is just behind the next one.
        for free in [7, 7, 6, tuples.len() - 1, 0] {
            tuples.give_back(free);
            assert_eq!(few_looks(&mut tuples, &|tuple| tuple != free), Some(free));
            assert_eq!(few_looks(&mut tuples, &|_| true), None);
        }
    }

    #[test]
    fn an_addresss_taken_ports_are_looked_at_once() {
        let ways = vec![way("10.0.0.1:80", "10.128.0.0/30")];
        let mut tuples = Tuples::new(ways, None, 0, Ports::Both);
        let looks = Cell::new(0_u64);
        let take_at = |tuples: &mut Tuples, address: &str, free: Option<Tuple>| {
            looks.set(0);
            tuples.take_at(0, address.parse().unwrap(), |tuple| {
                looks.set(looks.get() + 1);
                Some(tuple) != free
            })
        };
        let (one, other) = ("10.128.0.1", "10.128.0.2");
        assert_eq!(take_at(&mut tuples, one, None), None);
        assert_eq!(looks.get(), PORTS / 2);
        let last = tuples.len() - 2;
        assert_eq!(tuples.parts(last).1.to_string(), one);
        tuples.give_back(last);
        assert_eq!(take_at(&mut tuples, one, Some(last)), Some(last));
        assert_eq!(looks.get(), 1);
        assert_eq!(take_at(&mut tuples, other, Some(last + 1)), Some(last + 1), "it has its own");
        // Those of the lower half are the others'.
        tuples.give_back(0);
        assert_eq!(tuples.take(0, |_| false).1, Some(0));
    }

    /// Homes that overlap have tuples in common: what one has found taken the other gives back.
    #[test]
    fn a_tuple_is_given_back_to_each_home_that_has_it() {
        let (target, all) = way("10.0.0.1:80", "10.128.0.0/24");
        let at = |net: &str| Sources::new(vec![Range::of(net.parse().unwrap())]);
        let homes = vec![vec![at("10.128.0.8/30")], vec![at("10.128.0.8/31")]];
        let ways = vec![(target, all)];
        let mut tuples = Tuples::new(ways, Some(2), 0, Ports::InTurn).with_homes(homes, 0);
        let shared = SocketAddr::new("10.128.0.9".parse().unwrap(), FIRST_OF_FEW + 1);
        let shared = tuples.of(target, shared).unwrap();
        for home in [0, 1] {
            assert_eq!(tuples.take(home, |_| true).1, None);
        }
        tuples.give_back(shared);
        for home in [0, 1] {
            assert_eq!(tuples.take(home, |tuple| tuple != shared).1, Some(shared));
        }
    }

    #[test]
    fn a_clients_connections_have_ports_of_their_own() {
        let mut tuples = tuples(Ports::Both);
        let mut seen = HashSet::new();
        for _ in 0..PORTS / 2 * 2 * 2 {
            let tuple = tuples.take(0, |_| false).1.unwrap();
            assert!(seen.insert(tuple), "used twice: {tuple}");
        }
        let (target, address) = (0, "10.128.0.1".parse().unwrap());
        for _ in 0..PORTS / 2 {
            let tuple = tuples.take_at(target, address, |_| false).unwrap();
            assert_eq!((tuples.parts(tuple).0, tuples.parts(tuple).1), (target, address));
            assert!(seen.insert(tuple), "used twice: {tuple}");
        }
        let again = tuples.take_at(target, address, |_| false).unwrap();
        assert!(seen.contains(&again), "only when all had their turn");
        assert_eq!(tuples.take_at(target, address, |_| true), None);
        assert_eq!(tuples.take_at(target, "10.9.9.9".parse().unwrap(), |_| false), None);
    }

    #[test]
    fn an_address_has_all_its_ports_before_it_has_one_again() {
        let ways = vec![way("10.0.0.1:80", "10.128.0.0/30"), way("[fd00::1]:80", "fd00::/112")];
        let mut tuples = Tuples::new(ways, Some(6), 5, Ports::ByAddress);
        let mut seen = HashSet::new();
        for _ in 0..6 * 2 * 2 {
            let (target, address) = tuples.take_address(0);
            let tuple = tuples.take_at(target, address, |_| false).unwrap();
            assert!(seen.insert(tuple), "used twice: {:?}", tuples.parts(tuple));
        }
        // Of so many some share, and each has all ports all the same.
        let last = "fd00::ffff".parse().unwrap();
        let ports = (0..6).map(|_| tuples.take_at(1, last, |_| false).unwrap());
        assert_eq!(ports.collect::<HashSet<_>>().len(), 6);
    }

    #[test]
    fn where_all_have_several_connections_these_have_all_ports() {
        for ports in [1, 2, 7] {
            let ways = vec![way("10.0.0.1:80", "10.128.0.0/30")];
            let mut tuples = Tuples::new(ways, Some(ports), 12_345, Ports::ByAddress);
            let mut seen: HashSet<Tuple> = HashSet::new();
            for _ in 0..2 {
                let (target, address) = tuples.take_address(0);
                for _ in 0..ports {
                    let tuple = tuples.take_at(target, address, |tuple| seen.contains(&tuple));
                    assert_eq!(tuple.map(|tuple| tuples.parts(tuple).1), Some(address));
                    seen.extend(tuple);
                }
                assert_eq!(tuples.take_at(target, address, |tuple| seen.contains(&tuple)), None);
            }
            assert_eq!(seen.len() as u64, tuples.len(), "two addresses, and all of their ports");
        }
    }
}
