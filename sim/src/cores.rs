// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's processors: the application has the first, packets are spread over all.
//!
//! A connection's packets and timers are always worked on by the same processor, as receive-side
//! scaling has it. What it costs processors to share a listen queue is not simulated.

use crate::costs::Costs;
use crate::cpu::{Cpu, Taken};
use crate::machine::Machine;
use crate::packet::Packet;
use crate::spent::{Spent, Took};

/// All of them; at least one.
#[derive(Debug)]
pub(crate) struct Cores(Vec<Cpu>);

impl Cores {
    pub(crate) fn of(machine: &Machine) -> Self {
        let Machine { cores, napi, costs: Costs { interrupt_ns, .. }, .. } = *machine;
        let count = cores.max(1);
        Self((0..count).map(|_| Cpu::new(napi, interrupt_ns, count > 1)).collect())
    }

    /// Which works for a connection, by its pair of addresses and ports. A multiplication spreads
    /// numbers that are given out in turn (Knuth, *The Art of Computer Programming*, 6.4).
    #[inline]
    pub(crate) fn number_of(&self, pair: u32) -> u32 {
        let count = self.0.len() as u64;
        if count == 1 {
            return 0;
        }
        let hash = u64::from(pair.wrapping_mul(0x9e37_79b1));
        ((hash * count) >> 32) as u32
    }

    #[inline]
    pub(crate) fn get(&mut self, number: u32) -> &mut Cpu {
        &mut self.0[number as usize]
    }

    /// The one that works for a connection.
    #[inline]
    pub(crate) fn for_pair(&mut self, pair: u32) -> &mut Cpu {
        let number = self.number_of(pair);
        self.get(number)
    }

    /// The application's.
    #[inline]
    pub(crate) fn first(&mut self) -> &mut Cpu {
        &mut self.0[0]
    }

    /// A packet arrives at the processor that works for its connection.
    #[inline]
    pub(crate) fn arrives(&mut self, now_ns: u64, pair: u32, packet: &Packet) -> Taken {
        self.for_pair(pair).arrives(now_ns, packet)
    }

    /// What all did.
    pub(crate) fn spent(&self) -> Spent {
        self.0.iter().fold(Spent::default(), |mut all, cpu| {
            all.add(&cpu.spent);
            all
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Packets that wait for any of them.
    pub(crate) fn in_rings(&self) -> usize {
        self.0.iter().map(|cpu| cpu.ring.len()).sum()
    }

    /// Work for a connection that began then took so long.
    #[inline]
    pub(crate) fn spend(&mut self, pair: u32, began_ns: u64, took: &Took) {
        self.for_pair(pair).spend(began_ns, took);
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::Os;

    use super::*;
    use crate::setup::Setup;
    use crate::world::World;

    /// Of a client at a time each comes to the place that the one before has left.
    #[test]
    fn connections_one_after_another_are_spread_as_those_at_once() {
        let machine = Machine { cores: 4, ..Machine::today() };
        let mut world = World::new(Setup::one_packet(machine, None, Os::linux()));
        while world.advance() {}
        let each = (0..4).map(|number| world.host.cores.get(number).spent.softirq_ns);
        let each: Vec<_> = each.collect();
        let mean = each.iter().sum::<u64>() / 4;
        assert!(each.iter().all(|ns| ns.abs_diff(mean) < mean / 5), "{each:?}");
    }

    #[test]
    fn connections_are_spread_evenly_and_stay_where_they_are() {
        for cores in [1, 2, 3, 8] {
            let each = Cores::of(&Machine { cores, ..Machine::today() });
            let mut counts = vec![0; cores as usize];
            for pair in 0..10_000 {
                let number = each.number_of(pair);
                assert_eq!(number, each.number_of(pair));
                counts[number as usize] += 1;
            }
            let mean = 10_000 / cores as i32;
            assert!(counts.iter().all(|count| (count - mean).abs() < mean / 20), "{counts:?}");
        }
    }
}
