// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What should be attached, and where.

use std::collections::{BTreeMap, BTreeSet};

use crate::interfaces::Interface;
use crate::link::Place;
use crate::programs::Program;
use crate::raw::{TG_HOOK_AUTO, TG_HOOK_DRIVER};

/// What is attached on one interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hooks {
    /// tc ingress alone: both stages.
    Ip,
    /// XDP for the SYN stage, tc ingress for the ACK stage.
    DriverAndIp,
    /// The same where the driver takes an XDP program, else tc ingress alone.
    DriverIfPossible,
}

/// What should be attached, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// By interface index: its name, whether it is a veth, and its hooks.
    pub interfaces: BTreeMap<u32, (PlannedInterface, Hooks)>,
    /// Of each guard, in their order, where its SYNs are judged.
    pub guards: Vec<PlannedGuard>,
    /// Every guard is a path: what stands at drivers asks for no socket.
    pub only_paths: bool,
    /// The operator named the interfaces, so that each driver which is asked for must take a program.
    pub is_named: bool,
    /// netfilter's local-in, needed by guards at the TCP entry and by reserv.
    pub local_in: bool,
    /// The socket option by which applications say how their connections end.
    pub socket_option: bool,
    /// Who holds TIME-WAIT is decided: both ways of every interface in `ends`, and all sockets.
    pub ends: BTreeMap<u32, String>,
}

/// What the plan keeps of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedInterface {
    /// Its name.
    pub name: String,
    /// XDP answers by redirect there, see `xdp.bpf.c`.
    pub veth: bool,
    /// No crowd comes over it.
    pub loopback: bool,
}

impl From<&Interface> for PlannedInterface {
    fn from(interface: &Interface) -> Self {
        let Interface { name, driver, loopback, .. } = interface;
        PlannedInterface { name: name.clone(), veth: driver == "veth", loopback: *loopback }
    }
}

/// What the plan keeps of a guard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedGuard {
    /// Where it decides: one of `TG_HOOK_*`.
    pub hook: u32,
    /// The interfaces that its SYNs come in at, by index.
    pub interfaces: BTreeSet<u32>,
}

impl PlannedGuard {
    /// Whether it decides at a driver that has a program, whoever asked for that.
    fn is_judged_at_drivers(&self) -> bool {
        [TG_HOOK_AUTO, TG_HOOK_DRIVER].contains(&self.hook)
    }
}

/// What a SYN costs that is dropped in silence, in ns of one processor: at the driver, whose poll it
/// shares with others.
const SYN_AT_DRIVER_NS: u64 = 500;
/// At the IP entry: with an interrupt and a buffer, as the simulator's machine of today has them. At
/// a veth's, too, where what the crowd sends is this host's work: docs/auto-measured.md.
const SYN_AT_IP_NS: u64 = 3_000;

pub(crate) fn driver_pin(index: u32) -> String {
    format!("driver-{index}")
}

pub(crate) fn ends_pin(way: &str, index: u32) -> String {
    format!("ends_{way}-{index}")
}

pub(crate) fn driver_program(interface: &PlannedInterface, only_paths: bool) -> Program {
    match (only_paths, interface.veth) {
        (false, false) => Program::Driver,
        (false, true) => Program::DriverVeth,
        (true, false) => Program::Path,
        (true, true) => Program::PathVeth,
    }
}

/// A link that the plan asks for: the name of its pin, its program and its place.
pub(crate) type Wanted = (String, Program, Place, String);

impl Plan {
    /// The interfaces from whose driver answers leave by redirect: they reach the other end only
    /// where that has NAPI, by GRO or by an XDP program of its own, and are lost else.
    pub fn answers_by_redirect(&self) -> impl Iterator<Item = &str> {
        let at_driver = self.interfaces.values().filter(|(_, hooks)| *hooks != Hooks::Ip);
        at_driver.filter(|(interface, _)| interface.veth).map(|(interface, _)| &*interface.name)
    }

    /// What a SYN to each of the guards costs that is dropped in silence where it is decided, in ns of one
    /// processor. `takes_program` tells of a driver that may or may not.
    pub(crate) fn syn_costs_ns(&self, takes_program: impl Fn(u32) -> bool) -> Vec<u64> {
        self.guards.iter().map(|guard| self.syn_cost_ns(guard, &takes_program)).collect()
    }

    /// At the interface where it costs most.
    fn syn_cost_ns(&self, guard: &PlannedGuard, takes_program: impl Fn(u32) -> bool) -> u64 {
        let met = self.interfaces.iter().filter(|(index, _)| guard.interfaces.contains(index));
        let crowded = met.filter(|(_, (interface, _))| !interface.loopback);
        let is_at_driver = |index: u32, hooks: Hooks| {
            hooks != Hooks::Ip && guard.is_judged_at_drivers() && takes_program(index)
        };
        let costs = crowded.map(|(index, (_, hooks))| match is_at_driver(*index, *hooks) {
            true => SYN_AT_DRIVER_NS,
            false => SYN_AT_IP_NS,
        });
        costs.max().unwrap_or(SYN_AT_IP_NS)
    }

    /// The plan, but for these interfaces.
    pub(crate) fn without(mut self, gone: &BTreeSet<u32>) -> Self {
        self.interfaces.retain(|index, _| !gone.contains(index));
        for guard in &mut self.guards {
            guard.interfaces.retain(|index| !gone.contains(index));
        }
        self.ends.retain(|index, _| !gone.contains(index));
        self
    }

    /// The interface whose driver this is, where its SYNs may be judged at the IP entry all the same.
    pub(crate) fn driver_that_may_be_left(&self, place: Place, needs_drivers: bool) -> Option<u32> {
        let Place::Driver(index) = place else { return None };
        let (_, hooks) = self.interfaces.get(&index)?;
        (*hooks == Hooks::DriverIfPossible || !needs_drivers).then_some(index)
    }

    /// What may have to be loaded for it. A driver that takes no program leaves all to the IP entry.
    pub fn programs(&self) -> Vec<Program> {
        let mut programs: Vec<Program> = self.links().iter().map(|link| link.1).collect();
        if self.interfaces.values().any(|(_, hooks)| *hooks != Hooks::Ip) {
            programs.push(Program::Ip);
        }
        programs
    }

    pub(crate) fn links(&self) -> Vec<Wanted> {
        let mut links = Vec::new();
        for (index, (interface, hooks)) in &self.interfaces {
            let ip = match hooks {
                Hooks::Ip => Program::Ip,
                _ => Program::IpAfterDriver,
            };
            let name = interface.name.clone();
            if *hooks != Hooks::Ip {
                let place = Place::Driver(*index);
                let program = driver_program(interface, self.only_paths);
                links.push((driver_pin(*index), program, place, name.clone()));
            }
            links.push((format!("ingress-{index}"), ip, Place::Ingress(*index), name));
        }
        for (index, name) in &self.ends {
            for (way, program, place) in [
                ("in", Program::EndsIn, Place::Ingress(*index)),
                ("out", Program::EndsOut, Place::Egress(*index)),
            ] {
                links.push((ends_pin(way, *index), program, place, name.clone()));
            }
        }
        if !self.ends.is_empty() {
            let place = Place::Sockets;
            links.push(("sockets".to_owned(), Program::Sockets, place, "cgroup2".to_owned()));
        }
        if self.local_in {
            for (family, name) in [(libc::AF_INET, "ipv4"), (libc::AF_INET6, "ipv6")] {
                let place = Place::LocalIn(family as u8);
                links.push((format!("tcp-{name}"), Program::Tcp, place, name.to_owned()));
            }
        }
        if self.socket_option {
            let root = "the root of the cgroups".to_owned();
            for (pin, program, place) in [
                ("socket-set", Program::SetSocketOption, Place::SetSocketOption),
                ("socket-get", Program::GetSocketOption, Place::GetSocketOption),
            ] {
                links.push((pin.to_owned(), program, place, root.clone()));
            }
        }
        links
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(hook: u32, interfaces: &[u32]) -> PlannedGuard {
        PlannedGuard { hook, interfaces: interfaces.iter().copied().collect() }
    }

    /// Of a host with loopback and these interfaces beside it, and one guard.
    fn plan(interfaces: &[(bool, Hooks)]) -> Plan {
        let loopback = (false, Hooks::Ip);
        let all = [loopback].into_iter().chain(interfaces.iter().copied()).zip(1..);
        let interfaces = all.map(|((veth, hooks), index)| {
            let name = format!("eth{index}");
            (index, (PlannedInterface { name, veth, loopback: index == 1 }, hooks))
        });
        let interfaces: BTreeMap<_, _> = interfaces.collect();
        let everywhere: Vec<u32> = interfaces.keys().copied().collect();
        let guards = vec![guard(TG_HOOK_AUTO, &everywhere)];
        Plan { interfaces, guards, ..Default::default() }
    }

    #[test]
    fn an_interface_that_has_gone_is_in_no_part_of_what_stands() {
        let card = (false, Hooks::DriverIfPossible);
        let ends = [(1, "lo".to_owned()), (2, "eth2".to_owned())];
        let plan = Plan { ends: ends.into(), ..plan(&[card, card]) };
        let stands = plan.without(&BTreeSet::from([2]));
        assert_eq!(stands.guards, [guard(TG_HOOK_AUTO, &[1, 3])]);
        assert_eq!(stands.interfaces.into_keys().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(stands.ends.into_keys().collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_driver_that_takes_no_other_program_is_left_unless_it_must_take_one() {
        let plan = plan(&[(false, Hooks::DriverIfPossible), (false, Hooks::DriverAndIp)]);
        let left = |place, needs_drivers| plan.driver_that_may_be_left(place, needs_drivers);
        assert_eq!(left(Place::Driver(2), true), Some(2), "if possible");
        assert_eq!(left(Place::Driver(3), true), None, "its operator has named it");
        assert_eq!(left(Place::Driver(3), false), Some(3), "it is told of");
        assert_eq!(left(Place::Ingress(2), false), None);
    }

    #[test]
    fn a_syn_costs_what_it_does_where_it_is_dropped() {
        let cost_ns = |interfaces: &[(bool, Hooks)], takes_program| {
            let costs = plan(interfaces).syn_costs_ns(|index| takes_program && index == 2);
            let [cost_ns] = costs[..] else { panic!("one guard: {costs:?}") };
            cost_ns
        };
        let card = (false, Hooks::DriverIfPossible);
        assert_eq!(cost_ns(&[card], true), SYN_AT_DRIVER_NS);
        assert_eq!(cost_ns(&[card], false), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[card, card], true), SYN_AT_IP_NS, "the second takes none");
        assert_eq!(cost_ns(&[(false, Hooks::Ip)], true), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[card, (true, Hooks::Ip)], true), SYN_AT_IP_NS);
        assert_eq!(cost_ns(&[(true, Hooks::DriverAndIp)], true), SYN_AT_DRIVER_NS);
        assert_eq!(cost_ns(&[(true, Hooks::DriverAndIp)], false), SYN_AT_IP_NS, "it came later");
        assert_eq!(cost_ns(&[], true), SYN_AT_IP_NS, "no crowd is expected");
    }

    /// On a host whose cards take a program, with a bridge beside them.
    #[test]
    fn a_syn_costs_what_it_does_where_its_own_guard_decides() {
        use crate::raw::{TG_HOOK_IP, TG_HOOK_TCP};
        let card = (false, Hooks::DriverIfPossible);
        let host = plan(&[card, card, (false, Hooks::Ip)]);
        let cost_ns = |hook, interfaces: &[u32]| {
            let guards = vec![guard(hook, interfaces)];
            Plan { guards, ..host.clone() }.syn_costs_ns(|index| index != 3)[0]
        };
        for hook in [TG_HOOK_AUTO, TG_HOOK_DRIVER] {
            assert_eq!(cost_ns(hook, &[1, 2]), SYN_AT_DRIVER_NS);
            assert_eq!(cost_ns(hook, &[2, 3]), SYN_AT_IP_NS, "the second card takes none");
            assert_eq!(cost_ns(hook, &[2, 4]), SYN_AT_IP_NS, "at the bridge");
        }
        for hook in [TG_HOOK_IP, TG_HOOK_TCP] {
            assert_eq!(cost_ns(hook, &[2]), SYN_AT_IP_NS, "the program is another guard's");
        }
        let guards = [(TG_HOOK_AUTO, 4), (TG_HOOK_AUTO, 2), (TG_HOOK_IP, 2)];
        let guards = guards.map(|(hook, index)| guard(hook, &[index])).to_vec();
        let costs = Plan { guards, ..host }.syn_costs_ns(|_| true);
        assert_eq!(costs, [SYN_AT_IP_NS, SYN_AT_DRIVER_NS, SYN_AT_IP_NS], "each its own");
    }
}
