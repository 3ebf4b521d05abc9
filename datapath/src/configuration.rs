// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole configuration as the programs read it, written beside the one in force and
//! then put in its place with one store.

use std::net::IpAddr;

use crate::array::{read_one, write_one};
use crate::error::{Error, Result};
use crate::programs::Programs;
use crate::raw::*;
use tidegate_policy::raw::{tg_cookie_keys, tg_rules};

/// One guarded listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Only this address, or every address of the port.
    pub address: Option<IpAddr>,
    /// The TCP port.
    pub port: u16,
    /// What is decided for it.
    pub rules: tg_rules,
    /// Where its SYN stage is decided: one of `TG_HOOK_*`.
    pub hook: u32,
}

/// Everything that is in force at one time.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// The guarded listeners; no two with the same address and port.
    pub guards: Vec<Guarded>,
    /// The keys of our cookies.
    pub keys: tg_cookie_keys,
    /// Other hosts have these keys too: a cookie of theirs may come to us.
    pub keys_are_shared: bool,
}

/// An address as the programs compare it: kind 0 (any), 4 or 6, and words in network order.
fn address_words(address: Option<IpAddr>) -> (u32, [u32; 4]) {
    match address {
        None => (0, [0; 4]),
        Some(IpAddr::V4(a)) => (4, [u32::from_ne_bytes(a.octets()), 0, 0, 0]),
        Some(IpAddr::V6(a)) => {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(a.octets().chunks_exact(4)) {
                *word = u32::from_ne_bytes(bytes.try_into().expect("chunks of four"));
            }
            (6, words)
        }
    }
}

/// The address that four words and a kind stand for.
pub fn address_of(kind: u32, words: &[u32; 4]) -> Option<IpAddr> {
    let mut octets = [0; 16];
    for (bytes, word) in octets.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    match kind {
        4 => Some(IpAddr::from([octets[0], octets[1], octets[2], octets[3]])),
        6 => Some(IpAddr::from(octets)),
        _ => None,
    }
}

/// Reads the control record.
pub fn read_control(programs: &Programs) -> Result<tg_control> {
    read_one(programs, "control", 0)
}

fn write_control(programs: &Programs, control: &tg_control) -> Result<()> {
    write_one(programs, "control", 0, control)
}

impl Guarded {
    /// Whether connections of this guard can reach a socket that is bound like this.
    pub fn covers(&self, row: &tg_listener_row) -> bool {
        if row.port != u32::from(self.port) {
            return false;
        }
        let bound = row.address();
        match self.address {
            None => true,
            Some(address) if bound.is_unspecified() => {
                // A dual-stack socket takes IPv4 too.
                address.is_ipv6() == bound.is_ipv6() || (bound.is_ipv6() && row.ipv6_only == 0)
            }
            Some(address) => address == bound,
        }
    }
}

/// The configuration in force, by guard index; unused indexes are absent.
pub fn read(programs: &Programs) -> Result<Vec<(u32, Guarded)>> {
    let control = read_control(programs)?;
    let config: Box<tg_config> = Box::new(read_one(programs, "config", control.active & 1)?);
    let mut found = Vec::new();
    for (port, first) in config.port_guard.iter().enumerate() {
        let mut next = u32::from(*first);
        while let Some(guard) = next.checked_sub(1).and_then(|i| config.guards.get(i as usize)) {
            found.push((
                next - 1,
                Guarded {
                    address: address_of(guard.addr_kind, &guard.addr),
                    port: port as u16,
                    rules: guard.rules,
                    hook: guard.hook,
                },
            ));
            next = guard.next;
        }
    }
    found.sort_by_key(|(index, _)| *index);
    Ok(found)
}

/// Gives each guard its index: a listener that was guarded before keeps the one it has, and
/// so its counters.
fn place(before: &[(u32, Guarded)], guards: &[Guarded]) -> Result<Vec<u32>> {
    if guards.len() > TG_GUARDS as usize {
        return Err(Error::Limit {
            what: "guarded listeners",
            asked: guards.len(),
            limit: TG_GUARDS as usize,
        });
    }
    let kept: Vec<Option<u32>> = guards
        .iter()
        .map(|g| {
            before
                .iter()
                .find(|(_, b)| b.port == g.port && b.address == g.address)
                .map(|(index, _)| *index)
        })
        .collect();
    let mut free = (0..TG_GUARDS).filter(|i| !kept.contains(&Some(*i)));
    Ok(kept.iter().map(|k| k.unwrap_or_else(|| free.next().expect("as many as guards"))).collect())
}

fn build(configuration: &Configuration, indexes: &[u32]) -> Result<Box<tg_config>> {
    // SAFETY: all zero is the empty configuration; boxed without passing over the stack.
    let mut config: Box<tg_config> = unsafe { Box::new_zeroed().assume_init() };
    config.keys = configuration.keys;
    // Guards of one address stand before the port's wildcard: each is put in front of the
    // chain, so the wildcards go first.
    let mut order: Vec<usize> = (0..configuration.guards.len()).collect();
    order.sort_by_key(|i| configuration.guards[*i].address.is_some());
    for i in order {
        let (guarded, index) = (&configuration.guards[i], indexes[i]);
        let (addr_kind, addr) = address_words(guarded.address);
        let first = &mut config.port_guard[usize::from(guarded.port)];
        config.guards[index as usize] = tg_guard {
            rules: guarded.rules,
            addr,
            addr_kind,
            hook: guarded.hook,
            next: u32::from(*first),
            padding: 0,
        };
        *first = (index + 1) as u8;
        let on_port = configuration.guards.iter().filter(|g| g.port == guarded.port).count();
        if on_port > TG_GUARDS_A_PORT as usize {
            return Err(Error::Limit {
                what: "guarded addresses on one port",
                asked: on_port,
                limit: TG_GUARDS_A_PORT as usize,
            });
        }
    }
    Ok(config)
}

/// How long ACKs are watched after a swap: connections may be half open under the rules
/// before (Linux repeats a SYN/ACK for 63 s).
const WATCH_AFTER_SWAP_NS: u64 = 64_000_000_000;

/// Until when the ACKs of a guard are watched at least. Where other hosts make cookies
/// with the same keys, one may come at any time.
fn watch_until_ns(configuration: &Configuration, rules: &tg_rules) -> u64 {
    if configuration.keys_are_shared && rules.may_give_cookies() {
        return u64::MAX / 2;
    }
    crate::clock::monotonic_ns() + WATCH_AFTER_SWAP_NS
}

/// Puts `configuration` in force, whole.
pub fn write(programs: &Programs, configuration: &Configuration) -> Result<()> {
    let before = read(programs)?;
    let indexes = place(&before, &configuration.guards)?;
    let config = build(configuration, &indexes)?;
    for (index, rules) in indexes.iter().zip(configuration.guards.iter().map(|g| &g.rules)) {
        if !before.iter().any(|(b, _)| b == index) {
            crate::counters::clear(programs, *index)?;
        }
        write_one(programs, "watch_until_ns", *index, &watch_until_ns(configuration, rules))?;
    }
    let mut control = read_control(programs)?;
    let next = (control.active & 1) ^ 1;
    write_one(programs, "config", next, &*config)?;
    control.active = next;
    control.layout_version = TG_LAYOUT_VERSION;
    write_control(programs, &control)
}

/// Tells the programs the wall clock, and whether this kernel lets our cookies in.
pub fn write_clock(programs: &Programs, cookies_work: bool) -> Result<()> {
    let mut control = read_control(programs)?;
    control.clock_offset_ns = crate::clock::wall_offset_ns();
    control.cookies_work = cookies_work.into();
    write_control(programs, &control)
}

/// Puts new cookie keys in force; the listeners stay as they are.
pub fn write_keys(programs: &Programs, keys: tg_cookie_keys) -> Result<()> {
    let mut control = read_control(programs)?;
    let mut config: Box<tg_config> = Box::new(read_one(programs, "config", control.active & 1)?);
    config.keys = keys;
    let next = (control.active & 1) ^ 1;
    write_one(programs, "config", next, &*config)?;
    control.active = next;
    write_control(programs, &control)
}

/// The cookie keys in force.
pub fn read_keys(programs: &Programs) -> Result<tg_cookie_keys> {
    let control = read_control(programs)?;
    Ok(read_one::<tg_config>(programs, "config", control.active & 1)?.keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_policy::raw::TG_SYN_COOKIE;

    fn guarded(port: u16, address: Option<&str>) -> Guarded {
        Guarded {
            address: address.map(|a| a.parse().unwrap()),
            port,
            rules: tg_rules::default(),
            hook: TG_HOOK_AUTO,
        }
    }

    #[test]
    fn a_listener_keeps_its_counters_over_a_swap() {
        let before = [(0, guarded(80, None)), (1, guarded(443, None))];
        let after = [guarded(8080, None), guarded(443, None), guarded(80, Some("192.0.2.1"))];
        assert_eq!(place(&before, &after).unwrap(), [0, 1, 2]);
        let fewer = [guarded(443, None)];
        assert_eq!(place(&before, &fewer).unwrap(), [1]);
    }

    #[test]
    fn the_wildcard_stands_behind_every_address_of_its_port() {
        let configuration = Configuration {
            guards: vec![guarded(80, None), guarded(80, Some("192.0.2.1")), guarded(81, None)],
            ..Default::default()
        };
        let config = build(&configuration, &[0, 1, 2]).unwrap();
        assert_eq!(config.port_guard[80], 2);
        assert_eq!((config.guards[1].addr_kind, config.guards[1].next), (4, 1));
        assert_eq!((config.guards[0].addr_kind, config.guards[0].next), (0, 0));
        assert_eq!(config.port_guard[81], 3);
        assert_eq!(config.port_guard[82], 0);
    }

    /// A host that gave no cookie itself must look for those that others made.
    #[test]
    fn acks_are_watched_for_good_where_others_make_cookies() {
        let cookies = tg_rules { syn: TG_SYN_COOKIE, ..Default::default() };
        let mut configuration = Configuration { keys_are_shared: true, ..Default::default() };
        assert_eq!(watch_until_ns(&configuration, &cookies), u64::MAX / 2);
        let soon = crate::clock::monotonic_ns() + 2 * WATCH_AFTER_SWAP_NS;
        assert!(watch_until_ns(&configuration, &tg_rules::default()) < soon);
        configuration.keys_are_shared = false;
        assert!(watch_until_ns(&configuration, &cookies) < soon);
    }

    #[test]
    fn addresses_survive_the_way_through_words() {
        for address in ["192.0.2.7", "2001:db8::1:2"] {
            let address: Option<IpAddr> = Some(address.parse().unwrap());
            let (kind, words) = address_words(address);
            assert_eq!(address_of(kind, &words), address);
        }
        assert_eq!(address_of(0, &[0; 4]), None);
    }
}
