// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source addresses and ports for attempts: each free for as long as possible before it is used
//! again.

use std::net::{IpAddr, SocketAddr};

use crate::sources::Sources;

/// Below are the ports that only servers have.
const FIRST_PORT: u16 = 1024;
const PORTS: u64 = u16::MAX as u64 - FIRST_PORT as u64 + 1;
/// Where Linux' ports for clients begin (`net.ipv4.ip_local_port_range`).
const FIRST_OF_FEW: u16 = 32_768;

/// Between whom a connection is: a target, and an address and port of ours. It counts through all
/// of them, so that attempts of one time have numbers close together.
pub(crate) type Tuple = u64;

/// All tuples there are, taken in turn: targets alternate fastest, then addresses, then ports.
///
/// Where clients have several connections each, the upper half of the ports is for these, so that
/// the two ways of taking turns never meet.
#[derive(Debug)]
pub(crate) struct Tuples {
    ways: Vec<(SocketAddr, Sources)>,
    /// The round of each target that is next.
    next: Vec<u64>,
    /// The target that is next.
    target: usize,
    /// The ports that an address has.
    first_port: u16,
    ports: u64,
    /// Ports that are taken in rounds; the rest is for [`Tuples::take_at`].
    turns: u64,
    /// The port of each target that is next in the rest.
    next_port: Vec<u64>,
}

impl Tuples {
    /// For targets, each with the sources that go there (at least one) and these ports, or all that
    /// there are, beginning anywhere; with ports for [`Tuples::take_at`] if clients have several
    /// connections each.
    pub(crate) fn new(
        ways: Vec<(SocketAddr, Sources)>,
        ports: Option<u16>,
        begin: u64,
        several: bool,
    ) -> Self {
        let (first_port, ports) = match ports {
            // From lower ports on where there are more.
            Some(count) => (FIRST_OF_FEW.min(u16::MAX - (count - 1)), u64::from(count)),
            None => (FIRST_PORT, PORTS),
        };
        let turns = if several { ports / 2 } else { ports };
        let next_port = vec![begin % (ports - turns).max(1); ways.len()];
        let next = Vec::new();
        let mut tuples = Self { ways, next, target: 0, first_port, ports, turns, next_port };
        let rounds = (0..tuples.ways.len()).map(|target| tuples.rounds(target));
        tuples.next = rounds.map(|rounds| begin % rounds).collect();
        tuples
    }

    /// The next target's next tuple that is not taken, and the target's place; `None` when all
    /// of its tuples are taken.
    #[inline]
    pub(crate) fn take(&mut self, is_taken: impl Fn(Tuple) -> bool) -> (usize, Option<Tuple>) {
        let target = self.target;
        self.target = (target + 1) % self.ways.len();
        let rounds = self.rounds(target);
        for _ in 0..rounds {
            let round = self.next[target];
            self.next[target] = if round + 1 == rounds { 0 } else { round + 1 };
            let tuple = round * self.ways.len() as u64 + target as u64;
            if !is_taken(tuple) {
                return (target, Some(tuple));
            }
        }
        (target, None)
    }

    /// Another tuple between a target and an address of ours that is not taken; `None` when all
    /// are taken.
    pub(crate) fn take_at(
        &mut self,
        target: usize,
        address: IpAddr,
        is_taken: impl Fn(Tuple) -> bool,
    ) -> Option<Tuple> {
        let sources = &self.ways[target].1;
        let place = sources.number(address)?;
        let ports = self.ports - self.turns;
        for _ in 0..ports {
            let port = self.turns + self.next_port[target];
            self.next_port[target] = (self.next_port[target] + 1) % ports;
            let round = port * sources.len() + place;
            let tuple = round * self.ways.len() as u64 + target as u64;
            if !is_taken(tuple) {
                return Some(tuple);
            }
        }
        None
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
        let target = self.ways.iter().position(|(target, _)| *target == from)?;
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

    /// How many tuples there are.
    pub(crate) fn len(&self) -> u64 {
        self.sources().fold(0, |sum, sources| sum.saturating_add(sources.len() * self.ports))
    }

    fn rounds(&self, target: usize) -> u64 {
        self.ways[target].1.len() * self.turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Range;
    use std::collections::HashSet;

    fn tuples(several: bool) -> Tuples {
        let sources = |net: &str| Sources::new(vec![Range::of(net.parse().unwrap())]);
        let ways = vec![
            ("10.0.0.1:80".parse().unwrap(), sources("10.128.0.0/30")),
            ("[fd00::1]:80".parse().unwrap(), sources("fd00::10/127")),
        ];
        Tuples::new(ways, None, 2 * 2 * PORTS, several)
    }

    #[test]
    fn few_ports_are_those_of_linux() {
        let sources = Sources::new(vec![Range::of("10.128.0.1/32".parse().unwrap())]);
        let target: SocketAddr = "10.0.0.1:80".parse().unwrap();
        for (count, first) in [(28_232, 32_768), (32_768, 32_768), (64_512, 1024)] {
            let ways = vec![(target, sources.clone())];
            let mut tuples = Tuples::new(ways, Some(count), 0, false);
            assert_eq!(tuples.len(), u64::from(count));
            let ports: Vec<u16> = (0..count)
                .map(|_| {
                    let tuple = tuples.take(|_| false).1.unwrap();
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
        let mut tuples = tuples(false);
        let mut seen = HashSet::new();
        for _ in 0..PORTS * 2 * 2 {
            let (target, tuple) = tuples.take(|_| false);
            let tuple = tuple.unwrap();
            let (of, address, port) = tuples.parts(tuple);
            assert_eq!(target, of);
            assert!(seen.insert((target, address, port)), "used twice: {address}:{port}");
            let (from, to) = (tuples.ways[target].0, SocketAddr::new(address, port));
            assert_eq!(tuples.of(from, to), Some(tuple));
        }
        let (_, again) = tuples.take(|_| false);
        assert_eq!(again, Some(0), "only when all had their turn");
    }

    #[test]
    fn taken_ones_are_passed_over_and_strangers_have_none() {
        let mut tuples = tuples(false);
        assert_eq!(tuples.take(|tuple| tuple < 7), (0, Some(8)));
        assert_eq!(tuples.take(|_| true), (1, None));
        let of = |from: &str, to: &str| tuples.of(from.parse().unwrap(), to.parse().unwrap());
        assert!(of("10.0.0.1:80", "10.128.0.1:1024").is_some());
        assert!(of("10.0.0.1:81", "10.128.0.1:1024").is_none());
        assert!(of("10.0.0.1:80", "10.128.0.3:1024").is_none());
        assert!(of("10.0.0.1:80", "10.128.0.1:1023").is_none());
    }

    #[test]
    fn a_clients_connections_have_ports_of_their_own() {
        let mut tuples = tuples(true);
        let mut seen = HashSet::new();
        for _ in 0..PORTS / 2 * 2 * 2 {
            let tuple = tuples.take(|_| false).1.unwrap();
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
}
