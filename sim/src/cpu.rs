// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A processor of the server: packets go before the application, up to a budget.
//!
//! A packet is worked on as soon as those before it are done, whatever the application is at; the
//! application's step takes so much longer. Since nothing but packets happens meanwhile, what a
//! packet finds is known when it arrives, and no event is needed for its completion. Where there are
//! other processors, something else may happen: there a packet waits in the ring for its time.
//!
//! Packets wait in the ring where the card may not interrupt again yet, and where they have used up
//! their budget while the application has something to do: then it gets a turn first (NAPI, and
//! ksoftirqd on today's kernels).

use std::collections::VecDeque;

use crate::packet::Packet;
use crate::spent::{Spent, Took};

use serde::{Deserialize, Serialize};

/// How packets and programs share the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Napi {
    /// Packets worked on before the application gets a turn.
    pub packets: u32,
    /// The same in ns.
    pub time_ns: u64,
    /// How long such a turn is, in ns; more than 0 where there are several processors.
    pub turn_ns: u64,
    /// The least time between two interrupts, in ns.
    pub interrupt_gap_ns: u64,
    /// Packets that can wait for the processor; more are lost.
    pub ring: usize,
}

impl Napi {
    /// Linux 2.4 with NAPI: `netdev_max_backlog` packets or a tick of 10 ms; what is left goes on
    /// when the application's system call lets softirqs in again, some 10 µs later. Two e1000 with
    /// 256 descriptors and at most 8,000 interrupts a second each.
    pub const LINUX_2_4: Self = Self {
        packets: 300,
        time_ns: 10_000_000,
        turn_ns: 10_000,
        interrupt_gap_ns: 62_500,
        ring: 512,
    };
    /// Linux 6: ten restarts of 300 packets or 2 ms (`MAX_SOFTIRQ_TIME`), then ksoftirqd, which
    /// shares the processor with the application by slices of about 3 ms. A backlog of 1,000, and
    /// a veth pair, which raises softirqs without interrupts.
    pub const LINUX_6: Self = Self {
        packets: 3000,
        time_ns: 2_000_000,
        turn_ns: 2_800_000,
        interrupt_gap_ns: 0,
        ring: 1000,
    };
    /// Packets never wait.
    pub const NONE: Self = Self {
        packets: u32::MAX,
        time_ns: u64::MAX,
        turn_ns: 0,
        interrupt_gap_ns: 0,
        ring: usize::MAX,
    };
}

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Work on it begins then.
    At(u64),
    /// It waits in the ring until [`Cpu::poll_ns`]; `first` when it is the first that does.
    Waits { first: bool },
    /// The ring is full.
    Lost,
}

#[derive(Debug)]
pub(crate) struct Cpu {
    napi: Napi,
    interrupt_ns: u64,
    /// Packets and timers keep it until then.
    soft_until_ns: u64,
    /// Packets of this run so far, and when it began.
    run_packets: u32,
    run_began_ns: u64,
    /// No interrupt before that.
    interrupts_from_ns: u64,
    /// What waits, waits for an interrupt or for its time, not for the application.
    waits_for_interrupt: bool,
    /// There are others.
    has_company: bool,
    /// When packets begin that have been taken in ahead.
    ahead: VecDeque<u64>,
    pub ring: VecDeque<Packet>,
    /// When the ring is polled again.
    pub poll_ns: u64,
    /// When the application's step is done, if it has one.
    pub step_ends_ns: Option<u64>,
    pub spent: Spent,
}

impl Cpu {
    /// One of several, where it has company.
    pub(crate) fn new(napi: Napi, interrupt_ns: u64, has_company: bool) -> Self {
        let ring = napi.ring.min(1 << 16);
        Self {
            napi,
            interrupt_ns,
            soft_until_ns: 0,
            run_packets: 0,
            run_began_ns: 0,
            interrupts_from_ns: 0,
            waits_for_interrupt: false,
            has_company,
            ahead: VecDeque::with_capacity(ring),
            ring: VecDeque::with_capacity(ring),
            poll_ns: 0,
            step_ends_ns: None,
            spent: Spent::default(),
        }
    }

    /// A packet arrives.
    #[inline]
    pub(crate) fn arrives(&mut self, now_ns: u64, packet: &Packet) -> Taken {
        while self.ahead.front().is_some_and(|begins_ns| *begins_ns <= now_ns) {
            self.ahead.pop_front();
        }
        if self.ahead.len() + self.ring.len() >= self.napi.ring {
            return Taken::Lost;
        }
        let first = self.ring.is_empty();
        if first {
            if !self.is_running(now_ns) && self.interrupts_from_ns > now_ns {
                self.waits_for_interrupt = true;
                self.poll_ns = self.interrupts_from_ns;
            } else if self.is_used_up(now_ns) && self.step_ends_ns.is_some() {
                self.waits_for_interrupt = false;
                self.poll_ns = self.soft_until_ns.saturating_add(self.napi.turn_ns);
            } else if self.has_company && self.soft_until_ns > now_ns {
                self.waits_for_interrupt = true;
                self.poll_ns = self.soft_until_ns;
            } else {
                let begins_ns = self.begin(now_ns);
                if begins_ns > now_ns {
                    self.ahead.push_back(begins_ns);
                }
                return Taken::At(begins_ns);
            }
        }
        self.ring.push_back(*packet);
        Taken::Waits { first }
    }

    /// Whether packets wait only for the application to have its turn, which it does not want.
    pub(crate) fn waits_in_vain(&self) -> bool {
        self.step_ends_ns.is_none() && !self.ring.is_empty() && !self.waits_for_interrupt
    }

    /// Takes a waiting packet for a run that begins now or goes on. `None` when none waits, its time
    /// has not come, or the budget is used up and the application is to have a turn.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<(u64, Packet)> {
        if self.is_used_up(now_ns) && self.step_ends_ns.is_some() && !self.ring.is_empty() {
            self.waits_for_interrupt = false;
            self.poll_ns = self.soft_until_ns.saturating_add(self.napi.turn_ns);
            return None;
        }
        if self.has_company && self.soft_until_ns > now_ns {
            self.waits_for_interrupt = true;
            self.poll_ns = self.soft_until_ns;
            return None;
        }
        let packet = self.ring.pop_front()?;
        Some((self.begin(now_ns), packet))
    }

    /// Whether packets follow each other without a pause.
    fn is_running(&self, now_ns: u64) -> bool {
        // Where a packet waits for its time, it begins when the one before it is just done.
        self.soft_until_ns > now_ns || (self.has_company && self.soft_until_ns == now_ns)
    }

    /// Whether this run has had its budget and still goes on.
    fn is_used_up(&self, now_ns: u64) -> bool {
        self.is_running(now_ns)
            && (self.run_packets >= self.napi.packets
                || self.soft_until_ns - self.run_began_ns >= self.napi.time_ns)
    }

    fn begin(&mut self, now_ns: u64) -> u64 {
        if !self.is_running(now_ns) {
            (self.run_packets, self.run_began_ns) = (0, now_ns);
            self.soft_until_ns = now_ns;
            self.interrupts_from_ns = now_ns + self.napi.interrupt_gap_ns;
            self.spend(now_ns, &Took { driver_ns: self.interrupt_ns, ..Took::default() });
        }
        self.run_packets += 1;
        self.soft_until_ns
    }

    /// When a timer's work can begin.
    pub(crate) fn timer_begins_ns(&self, now_ns: u64) -> u64 {
        now_ns.max(self.soft_until_ns)
    }

    /// Work that began then took so long; the application's step takes so much longer.
    #[inline]
    pub(crate) fn spend(&mut self, began_ns: u64, took: &Took) {
        let took_ns = took.whole_ns();
        self.soft_until_ns = began_ns + took_ns;
        self.spent.softirq_ns += took_ns;
        self.spent.by_component.add(took);
        if let Some(ends_ns) = &mut self.step_ends_ns {
            *ends_ns += took_ns;
        }
    }

    /// A processor that shares a core or caches with this one has been busy: what is under way here
    /// takes so much longer.
    pub(crate) fn is_slowed(&mut self, now_ns: u64, by_ns: u64) {
        if self.soft_until_ns > now_ns {
            self.soft_until_ns += by_ns;
        }
        if let Some(ends_ns) = &mut self.step_ends_ns {
            *ends_ns += by_ns;
        }
    }

    /// Begins a step of the application, after the packets that are being worked on. Says when it
    /// would be done.
    pub(crate) fn step(&mut self, now_ns: u64, took: &Took) -> u64 {
        let whole_ns = took.whole_ns();
        let ends_ns = now_ns.max(self.soft_until_ns) + whole_ns;
        self.spent.user_ns += took.application_ns;
        self.spent.system_ns += whole_ns - took.application_ns;
        self.spent.by_component.add(took);
        self.step_ends_ns = Some(ends_ns);
        ends_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAPI: Napi =
        Napi { packets: 2, time_ns: 1_000_000, turn_ns: 500, interrupt_gap_ns: 0, ring: 4 };

    fn cpu() -> Cpu {
        Cpu::new(NAPI, 10, false)
    }

    fn tcp(ns: u64) -> Took {
        Took { tcp_ns: ns, ..Took::default() }
    }

    fn work(cpu: &mut Cpu, now_ns: u64) -> Taken {
        let taken = cpu.arrives(now_ns, &Packet::default());
        if let Taken::At(begins_ns) = taken {
            cpu.spend(begins_ns, &tcp(100));
        }
        taken
    }

    #[test]
    fn packets_go_one_after_the_other_and_before_the_application() {
        let mut cpu = cpu();
        let step = Took { socket_ns: 300, application_ns: 40, ..Took::default() };
        assert_eq!(cpu.step(1000, &step), 1340);
        assert_eq!(work(&mut cpu, 1100), Taken::At(1110), "after the interrupt");
        assert_eq!(work(&mut cpu, 1150), Taken::At(1210), "after the first, without another");
        assert_eq!(cpu.step_ends_ns, Some(1550));
        let Spent { softirq_ns, system_ns, user_ns, by_component } = cpu.spent;
        assert_eq!((softirq_ns, system_ns, user_ns), (210, 300, 40));
        let each = Took { driver_ns: 10, tcp_ns: 200, ..step };
        assert_eq!(by_component, each);
    }

    #[test]
    fn what_others_do_nearby_takes_time_and_is_not_its_own() {
        let mut cpu = cpu();
        cpu.step(1000, &tcp(300));
        assert_eq!(work(&mut cpu, 1100), Taken::At(1110));
        cpu.is_slowed(1150, 40);
        assert_eq!(work(&mut cpu, 1200), Taken::At(1250), "when the first is done");
        cpu.is_slowed(5000, 7);
        assert_eq!(cpu.step_ends_ns, Some(1300 + 10 + 200 + 40 + 7));
        assert_eq!(cpu.spent.softirq_ns, 10 + 200);
    }

    #[test]
    fn beside_other_processors_a_packet_waits_for_its_time() {
        let mut cpu = Cpu::new(NAPI, 10, true);
        assert_eq!(work(&mut cpu, 1000), Taken::At(1010), "after the interrupt");
        assert_eq!(work(&mut cpu, 1050), Taken::Waits { first: true });
        assert_eq!((cpu.poll_ns, cpu.waits_in_vain()), (1110, false));
        assert_eq!(work(&mut cpu, 1060), Taken::Waits { first: false });
        assert_eq!(cpu.poll(1110).map(|(begins_ns, _)| begins_ns), Some(1110), "without another");
        cpu.spend(1110, &tcp(100));
        assert_eq!((cpu.poll(1110).is_none(), cpu.poll_ns), (true, 1210));
    }

    #[test]
    fn beyond_their_budget_packets_wait_for_a_turn_of_the_application() {
        let mut cpu = cpu();
        cpu.step(0, &tcp(10_000));
        work(&mut cpu, 0);
        work(&mut cpu, 0);
        assert_eq!(work(&mut cpu, 1), Taken::Waits { first: true });
        assert_eq!(cpu.poll_ns, 210 + 500);
        assert_eq!(work(&mut cpu, 2), Taken::Waits { first: false });
        assert_eq!(work(&mut cpu, 3), Taken::Lost, "two ahead and two in the ring");
        let (begins_ns, _) = cpu.poll(710).unwrap();
        assert_eq!(begins_ns, 720);
    }

    #[test]
    fn without_an_application_to_run_nothing_waits() {
        let mut cpu = cpu();
        work(&mut cpu, 0);
        work(&mut cpu, 0);
        assert_eq!(work(&mut cpu, 1), Taken::At(210));
    }

    #[test]
    fn a_card_that_may_not_interrupt_yet_holds_its_packets_back() {
        let mut cpu = Cpu::new(Napi { interrupt_gap_ns: 5000, packets: 99, ..NAPI }, 10, false);
        assert_eq!(work(&mut cpu, 1000), Taken::At(1010));
        assert_eq!(work(&mut cpu, 1050), Taken::At(1110), "it is polled");
        assert_eq!(work(&mut cpu, 1300), Taken::Waits { first: true });
        assert_eq!(cpu.poll_ns, 6000);
        assert!(!cpu.waits_in_vain());
        assert_eq!(work(&mut cpu, 5999), Taken::Waits { first: false });
        assert_eq!(cpu.poll(6000).map(|(begins_ns, _)| begins_ns), Some(6010));
        cpu.spend(6010, &tcp(100));
        assert_eq!(cpu.poll(6000).map(|(begins_ns, _)| begins_ns), Some(6110));
    }
}
