// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeps a plan from being carried out, each in one sentence.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::guard::{Hooks, Plan};
use tidegate_datapath::interfaces::Interface;
use tidegate_datapath::raw::*;

use super::stands::{HANDS_ON, by_name, has_no_driver, named, vrf_of};
use crate::config::Config;
use crate::failure::{Failure, Result};

/// The interface of this name, or why it cannot be guarded. Below a tunnel there is no TCP of its own to judge.
fn one<'a>(name: &str, interfaces: &'a [Interface]) -> Result<&'a Interface> {
    let found = named(name, interfaces)?;
    match found.ethernet {
        true => Ok(found),
        false => Err(Failure::argument(
            format!("interface \"{name}\" does not carry Ethernet frames"),
            "none of its kind is guarded; leave it out",
        )),
    }
}

/// Why each of the interfaces that the operator named is not guarded that is not.
pub fn left_out(names: &[String], interfaces: &[Interface]) -> impl Iterator<Item = Failure> {
    names.iter().filter_map(|name| one(name, interfaces).err())
}

/// That all interfaces that the operator named can be guarded.
pub fn require_named(names: &[String], interfaces: &[Interface]) -> Result<()> {
    let Some(first) = left_out(names, interfaces).next() else { return Ok(()) };
    let others: Vec<String> = left_out(names, interfaces).skip(1).map(|f| f.what()).collect();
    Err(match (first, others.is_empty()) {
        (Failure::Argument { what, fix }, false) => {
            Failure::argument(format!("{what}, {}", others.join(", ")), fix)
        }
        (first, _) => first,
    })
}

/// That one of them can be. One that is down, or not made yet, keeps nobody from guarding the others.
pub(super) fn require_any_named(names: &[String], interfaces: &[Interface]) -> Result<()> {
    match left_out(names, interfaces).count() == names.len() {
        true => require_named(names, interfaces),
        false => Ok(()),
    }
}

/// That some interface has a driver, where one is asked for and the operator has named the interfaces. One that is
/// not there yet may have one; and loopback beside a card is for this host's own clients.
pub(super) fn require_driver(
    guards: &[Guarded],
    names: &[String],
    interfaces: &[Interface],
) -> Result<()> {
    let none_has = || names.iter().all(|name| by_name(name, interfaces).is_some_and(has_no_driver));
    if names.is_empty() || !guards.iter().any(|g| g.hook == TG_HOOK_DRIVER) || !none_has() {
        return Ok(());
    }
    Err(Failure::argument(
        format!("the hook \"driver\" is chosen, and {} has no driver of its own", names.join(", ")),
        "choose \"ip\", or name an interface that has one",
    ))
}

fn own_address(guarded: &Guarded, interfaces: &[Interface]) -> Option<IpAddr> {
    guarded.address.filter(|own| interfaces.iter().any(|i| i.addresses.contains(own)))
}

/// That every path leads to another host. One whose address has come to this host later (VRRP) keeps nobody
/// from following the host for all others.
pub fn require_others(guards: &[Guarded], interfaces: &[Interface]) -> Result<()> {
    let mut paths = guards.iter().filter(|g| g.is_path);
    let Some(own) = paths.find_map(|g| own_address(g, interfaces)) else { return Ok(()) };
    Err(Failure::argument(
        format!("[[path]] names {own}, which is this host's own address"),
        "make it a [[listener]]",
    ))
}

/// That there are none of these; or all of them, each once.
fn none_of(places: impl Iterator<Item = String>, what: &str, fix: &str) -> Result<()> {
    let places: BTreeSet<String> = places.collect();
    if places.is_empty() {
        return Ok(());
    }
    let places: Vec<String> = places.into_iter().collect();
    Err(Failure::argument(format!("{what}: {}", places.join(", ")), fix))
}

/// That the guards find all of their listening sockets. The kernel's look-up for BPF goes by the interface that a SYN
/// comes in at, and finds none that is bound to the VRF above that.
pub(super) fn require_found(
    guards: &[Guarded],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
) -> Result<()> {
    let is_guarded = |row: &&tg_listener_row| guards.iter().any(|g| g.covers(row));
    let place = |row: &tg_listener_row| {
        let vrf = vrf_of(row, interfaces)?;
        Some(format!("{} in {}", SocketAddr::new(row.address(), row.port as u16), vrf.name))
    };
    none_of(
        listeners.iter().filter(is_guarded).filter_map(place),
        "no guard finds what listens in a VRF",
        "bind it to an interface of the VRF's, or to none and set net.ipv4.tcp_l3mdev_accept to 1",
    )
}

/// The interface that a listening socket is bound to, where its driver's program goes by another's index.
fn handed_on_of<'a>(
    row: &tg_listener_row,
    interfaces: &'a [Interface],
    plan: &Plan,
) -> Option<&'a Interface> {
    let bound = interfaces.iter().find(|i| i.index == row.bound_ifindex)?;
    let (_, hooks) = plan.interfaces.get(&bound.index)?;
    (*hooks != Hooks::Ip && HANDS_ON.contains(&bound.driver.as_str())).then_some(bound)
}

/// That the guards which are judged at the driver find theirs. The kernel's look-up there goes by the interface that
/// runs the program, and finds none that is bound to the one which was given it.
pub(super) fn require_found_at_driver(
    guards: &[Guarded],
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
    plan: &Plan,
) -> Result<()> {
    let goes_there = |g: &Guarded| matches!(g.hook, TG_HOOK_DRIVER | TG_HOOK_AUTO);
    let is_judged_there =
        |row: &&tg_listener_row| guards.iter().any(|g| goes_there(g) && g.covers(row));
    let place = |row: &tg_listener_row| {
        let bound = handed_on_of(row, interfaces, plan)?;
        Some(format!("{} on {}", SocketAddr::new(row.address(), row.port as u16), bound.name))
    };
    none_of(
        listeners.iter().filter(is_judged_there).filter_map(place),
        "at the driver no guard finds what is bound to its interface",
        "choose the hook \"ip\"",
    )
}

/// That no two sections of `auto` watch one listening socket. Each measures the whole of its queues, and knows of its own
/// clients alone.
pub(super) fn require_one_auto(guards: &[Guarded], listeners: &[tg_listener_row]) -> Result<()> {
    let is_shared = |row: &&tg_listener_row| {
        guards.iter().filter(|g| g.rules.is_auto != 0 && g.judges(row, guards)).count() > 1
    };
    let place = |row: &tg_listener_row| SocketAddr::new(row.address(), row.port as u16).to_string();
    none_of(
        listeners.iter().filter(is_shared).map(place),
        "several sections of auto take one listening socket's queues for their own",
        "write one section of the port without an address, or give all but one another mechanism",
    )
}

/// What `run` refuses at its start, and with a new configuration: where it could guard nothing, or was not meant so.
pub fn require_all(config: &Config, interfaces: &[Interface]) -> Result<()> {
    require_any_named(&config.interfaces, interfaces)?;
    require_others(&config.guards, interfaces)?;
    require_driver(&config.guards, &config.interfaces, interfaces)
}

/// What is wrong all the same with what listens here, and is told of.
pub fn wrongs(
    config: &Config,
    interfaces: &[Interface],
    listeners: &[tg_listener_row],
    plan: &Plan,
) -> impl Iterator<Item = Failure> + use<> {
    let guards = &config.guards;
    let wrongs = [
        require_found(guards, interfaces, listeners),
        require_found_at_driver(guards, interfaces, listeners, plan),
        require_one_auto(guards, listeners),
    ];
    wrongs.into_iter().filter_map(Result::err)
}
