// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A whole configuration as the programs read it, written beside the one in force and
//! then put in its place with one store.

mod places;

use crate::array::{read_one, write_one};
use crate::error::{Error, Result};
use crate::network::Network;
use crate::programs::Programs;
use crate::raw::*;
use crate::{address, control, counters, police, shed, speaks, time_wait};
use places::{parts, place};
use tidegate_policy::raw::{
    TG_REQUEST_LIFE_NS, tg_cookie_keys, tg_key, tg_shed_rules, tg_tw_rules,
};

pub use crate::guarded::{Guarded, covering, only_paths};

/// Everything that is in force at one time.
#[derive(Debug, Clone, Default)]
pub struct Configuration {
    /// The guarded listeners; no two with the same address and port.
    pub guards: Vec<Guarded>,
    /// The keys of our cookies.
    pub keys: tg_cookie_keys,
    /// Other hosts have these keys too: a cookie of theirs may come to us.
    pub keys_are_shared: bool,
    /// The key of persistent dropping.
    pub shed_key: tg_key,
    /// Who holds TIME-WAIT of connections that this host opens, by where they go: the longest
    /// network counts.
    pub destinations: Vec<(Network, tg_tw_rules)>,
    /// The blocks that the table of pairs that are held in TIME-WAIT must have.
    pub held_blocks: u32,
}

impl Configuration {
    /// The blocks that the table of persistent dropping must have.
    pub fn shed_blocks(&self) -> u32 {
        shed_blocks(&self.guards)
    }
}

/// The blocks that the table of persistent dropping must have for these.
pub fn shed_blocks(guards: &[Guarded]) -> u32 {
    guards.iter().fold(0, |sum: u32, g| sum.saturating_add(g.shed.blocks))
}

/// The configuration in force, by guard index; unused indexes are absent.
pub fn read(programs: &Programs) -> Result<Vec<(u32, Guarded)>> {
    in_force(programs).map(|config| guards_of(&config))
}

/// The same as the programs have it.
fn in_force(programs: &Programs) -> Result<Box<tg_config>> {
    let control = control::read(programs)?;
    Ok(Box::new(read_one(programs, "config", control.active & 1)?))
}

/// The guards of a configuration, by index.
pub(crate) fn guards_of(config: &tg_config) -> Vec<(u32, Guarded)> {
    let mut found = Vec::new();
    for (port, first) in config.port_guard.iter().enumerate() {
        let mut next = u32::from(*first);
        while let Some(guard) = next.checked_sub(1).and_then(|i| config.guards.get(i as usize)) {
            found.push((
                next - 1,
                Guarded {
                    address: address::of(guard.addr_kind, &guard.addr),
                    port: port as u16,
                    rules: guard.rules,
                    hook: guard.hook,
                    shed: guard.shed,
                    preferred: Vec::new(),
                    limits: Vec::new(),
                    has_limits: guard.has_limits != 0,
                    is_path: guard.is_path != 0,
                    time_wait: guard.time_wait,
                    backlog: None,
                },
            ));
            next = guard.next;
        }
    }
    found.sort_by_key(|(index, _)| *index);
    found
}

fn build(configuration: &Configuration, indexes: &[u32], parts: &[u32]) -> Result<Box<tg_config>> {
    // SAFETY: all zero is the empty configuration; boxed without passing over the stack.
    let mut config: Box<tg_config> = unsafe { Box::new_zeroed().assume_init() };
    config.keys = configuration.keys;
    config.shed_key = configuration.shed_key;
    // Guards of one address stand before the port's wildcard: each is put in front of the
    // chain, so the wildcards go first.
    let mut order: Vec<usize> = (0..configuration.guards.len()).collect();
    order.sort_by_key(|i| configuration.guards[*i].address.is_some());
    for i in order {
        let (guarded, index) = (&configuration.guards[i], indexes[i]);
        let (addr_kind, addr) = address::words(guarded.address);
        let first = &mut config.port_guard[usize::from(guarded.port)];
        let shed = tg_shed_rules {
            first_block: parts[i],
            has_preferred: (!guarded.preferred.is_empty()).into(),
            ..guarded.shed
        };
        config.guards[index as usize] = tg_guard {
            shed,
            rules: guarded.rules,
            addr,
            addr_kind,
            hook: guarded.hook,
            next: u32::from(*first),
            is_path: guarded.is_path.into(),
            time_wait: guarded.time_wait,
            has_limits: (!guarded.limits.is_empty()).into(),
            takes_cookies: guarded.rules.may_give_cookies().into(),
            // Until another is put in front of it.
            claims_index: index,
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
    for (guarded, index) in configuration.guards.iter().zip(indexes) {
        let first = config.port_guard[usize::from(guarded.port)];
        config.guards[*index as usize].claims_index = u32::from(first) - 1;
    }
    Ok(config)
}

const FOR_GOOD_NS: u64 = u64::MAX / 2;

/// Until when the ACKs of a guard are watched at least. Where other hosts make cookies
/// with the same keys, one may come at any time; on a path there are none of ours.
fn watch_until_ns(configuration: &Configuration, guarded: &Guarded) -> u64 {
    if guarded.is_path {
        return 0;
    }
    if configuration.keys_are_shared && guarded.rules.may_give_cookies() {
        return FOR_GOOD_NS;
    }
    // Connections may be half open under the rules before.
    crate::clock::monotonic_ns() + TG_REQUEST_LIFE_NS
}

/// The longer of both: a cookie that is out may come back for longer. But not for good any more, and never
/// on a path.
fn watched_on(standing: u64, until_ns: u64) -> u64 {
    if until_ns == 0 || standing >= FOR_GOOD_NS { until_ns } else { until_ns.max(standing) }
}

/// Whether a cookie may come back to the guard that stood here until now: it gave some, or has taken those of
/// the one before it, whose ACKs are watched still.
fn may_come_back(was: &tg_guard, watch_until_ns: u64) -> bool {
    let is_watched = watch_until_ns > crate::clock::monotonic_ns();
    was.rules.may_give_cookies() || (was.takes_cookies != 0 && is_watched)
}

/// What was decided before for the same listener, with the same index.
fn guarded_before<'a>(
    before: &'a [(u32, Guarded)],
    index: u32,
    now: &Guarded,
) -> Option<&'a Guarded> {
    let same = before.iter().find(|(b, was)| *b == index && was.has_listener_of(now));
    same.map(|(_, was)| was)
}

/// Persistent dropping goes on as it was where its rules are the same, wherever its part of the table is, and begins
/// anew where they are not, but for what it has counted. A stamp is whose the hash says that it is: where another part of the table, another policy
/// or another key says so, it is nobody's.
fn begin_shed_anew(
    programs: &Programs,
    before: &[(u32, Guarded)],
    guards: &[Guarded],
    config: &tg_config,
    indexes: &[u32],
) -> Result<()> {
    let is_key_new = read_shed_key(programs)? != config.shed_key;
    for (index, guarded) in indexes.iter().zip(guards) {
        let now = config.guards[*index as usize].shed;
        let was = guarded_before(before, *index, guarded).map(|was| was.shed);
        let rules = |r: tg_shed_rules| tg_shed_rules { first_block: 0, ..r };
        match was {
            None => shed::clear(programs, *index)?,
            Some(was) if rules(was) != rules(now) => shed::measure_anew(programs, *index)?,
            Some(_) => {}
        }
        let stamps = |r: tg_shed_rules| (r.first_block, r.blocks, r.policy, r.key);
        if is_key_new || was.map(stamps) != Some(stamps(now)) {
            shed::clear_part(programs, &now)?;
        }
    }
    Ok(())
}

/// A guard begins with nothing counted where its index was another listener's, or nobody's. Nor are the
/// counts of that one's sockets to be added to it when they are found to be gone.
fn begin_anew(
    programs: &Programs,
    before: &[(u32, Guarded)],
    guards: &[Guarded],
    indexes: &[u32],
) -> Result<()> {
    let is_new =
        |(index, guarded): &(&u32, &Guarded)| guarded_before(before, **index, guarded).is_none();
    let slots = counters::slots(programs);
    for (index, _) in indexes.iter().zip(guards).filter(is_new) {
        for owner in slots.keys().filter(|(guard, _)| guard == index) {
            counters::release_slot(programs, *owner)?;
        }
        counters::clear_guard(programs, *index)?;
        speaks::clear(programs, *index)?;
    }
    Ok(())
}

/// That the tables which stand have room for a configuration's parts of them.
pub(crate) fn require_room(programs: &Programs, configuration: &Configuration) -> Result<()> {
    let tables = [
        ("persistent dropping", configuration.shed_blocks(), shed::table_blocks(programs)),
        ("TIME-WAIT", configuration.held_blocks, time_wait::table_blocks(programs)),
    ];
    match tables.into_iter().find(|(_, asked, limit)| asked > limit) {
        Some((table, asked, limit)) => Err(Error::TableSize { table, asked, limit }),
        None => Ok(()),
    }
}

/// Puts `configuration` in force, whole.
pub fn write(programs: &Programs, configuration: &Configuration) -> Result<()> {
    require_room(programs, configuration)?;
    let standing = in_force(programs)?;
    let before = guards_of(&standing);
    let indexes = place(&before, &configuration.guards)?;
    let parts = parts(&before, &configuration.guards, shed::table_blocks(programs));
    let mut config = build(configuration, &indexes, &parts)?;
    for (index, guarded) in indexes.iter().zip(&configuration.guards) {
        let at = *index as usize;
        let watched_until_ns = read_one(programs, "watch_until_ns", *index)?;
        let was = guarded_before(&before, *index, guarded).map(|_| &standing.guards[at]);
        let are_out = was.is_some_and(|was| may_come_back(was, watched_until_ns));
        config.guards[at].takes_cookies |= u32::from(are_out);
        let until_ns = watched_on(watched_until_ns, watch_until_ns(configuration, guarded));
        write_one(programs, "watch_until_ns", *index, &until_ns)?;
    }
    let mut control = control::read(programs)?;
    let next = (control.active & 1) ^ 1;
    let preferred: Vec<(u32, Network, u32)> = indexes
        .iter()
        .zip(&configuration.guards)
        .flat_map(|(index, guarded)| guarded.preferred.iter().map(|n| (*index, *n, 1)))
        .collect();
    shed::PREFERRED.write(programs, next, preferred.into_iter())?;
    police::write(programs, next, indexes.iter().copied().zip(&configuration.guards))?;
    let destinations = configuration.destinations.iter();
    let destinations = destinations.map(|(network, rules)| (0, *network, *rules));
    time_wait::DESTINATIONS.write(programs, next, destinations)?;
    control::prepare_held(programs, &mut control)?;
    write_one(programs, "config", next, &*config)?;
    control.active = next;
    control.layout_version = TG_LAYOUT_VERSION;
    control.netns_cookie = crate::cgroup::netns_cookie()?;
    // The last that can fail: a configuration that is not put in force costs nothing that is known or counted.
    begin_shed_anew(programs, &before, &configuration.guards, &config, &indexes)?;
    begin_anew(programs, &before, &configuration.guards, &indexes)?;
    control::write(programs, &control)
}

/// Puts new cookie keys in force; the listeners stay as they are.
pub fn write_keys(programs: &Programs, keys: tg_cookie_keys) -> Result<()> {
    let mut control = control::read(programs)?;
    shed::PREFERRED.copy(programs, control.active & 1)?;
    // Those in force keep their buckets.
    police::LIMITS.copy(programs, control.active & 1)?;
    time_wait::DESTINATIONS.copy(programs, control.active & 1)?;
    let mut config = in_force(programs)?;
    config.keys = keys;
    let next = (control.active & 1) ^ 1;
    write_one(programs, "config", next, &*config)?;
    control.active = next;
    control::write(programs, &control)
}

/// The cookie keys in force.
pub fn read_keys(programs: &Programs) -> Result<tg_cookie_keys> {
    Ok(in_force(programs)?.keys)
}

/// The key of persistent dropping in force.
pub fn read_shed_key(programs: &Programs) -> Result<tg_key> {
    Ok(in_force(programs)?.shed_key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Network;
    use tidegate_policy::raw::{TG_SYN_COOKIE, tg_limit, tg_rules};

    fn guarded(port: u16, address: Option<&str>) -> Guarded {
        Guarded { address: address.map(|a| a.parse().unwrap()), port, ..Default::default() }
    }

    /// A cookie comes back for 137 s, and half-open connections are finished for 64.
    #[test]
    fn a_swap_does_not_shorten_the_watch() {
        for (standing, until_ns, expected) in [
            (0, 64, 64),
            (137, 64, 137),
            (64, FOR_GOOD_NS, FOR_GOOD_NS),
            // Its keys are other hosts' no more; or it is a path now.
            (FOR_GOOD_NS, 64, 64),
            (137, 0, 0),
        ] {
            assert_eq!(watched_on(standing, until_ns), expected, "{standing}, then {until_ns}");
        }
    }

    #[test]
    fn the_wildcard_stands_behind_every_address_of_its_port() {
        let configuration = Configuration {
            guards: vec![guarded(80, None), guarded(80, Some("192.0.2.1")), guarded(81, None)],
            ..Default::default()
        };
        let config = build(&configuration, &[0, 1, 2], &[0; 3]).unwrap();
        assert_eq!(config.port_guard[80], 2);
        assert_eq!((config.guards[1].addr_kind, config.guards[1].next), (4, 1));
        assert_eq!((config.guards[0].addr_kind, config.guards[0].next), (0, 0));
        assert_eq!(config.port_guard[81], 3);
        assert_eq!(config.port_guard[82], 0);
        assert_eq!([0, 1, 2].map(|i| config.guards[i].claims_index), [1, 1, 2]);
    }

    #[test]
    fn that_a_guard_has_limits_is_read_back_where_they_are_not() {
        let network = Network { address: [192, 0, 2, 0].into(), bits: 24 };
        let limits = vec![(network, tg_limit::exempt())];
        let polices = Guarded { limits, ..guarded(80, None) };
        let configuration =
            Configuration { guards: vec![polices, guarded(81, None)], ..Default::default() };
        let read = guards_of(&build(&configuration, &[0, 1], &[0; 2]).unwrap());
        let told: Vec<_> = read.iter().map(|(_, g)| (g.has_limits, g.limits.len())).collect();
        assert_eq!(told, [(true, 0), (false, 0)]);
    }

    /// A host that gave no cookie itself must look for those that others made.
    #[test]
    fn acks_are_watched_for_good_where_others_make_cookies() {
        let rules = tg_rules { syn: TG_SYN_COOKIE, ..Default::default() };
        let cookies = Guarded { rules, ..guarded(80, None) };
        let mut configuration = Configuration { keys_are_shared: true, ..Default::default() };
        assert_eq!(watch_until_ns(&configuration, &cookies), u64::MAX / 2);
        let soon = crate::clock::monotonic_ns() + 2 * TG_REQUEST_LIFE_NS;
        assert!(watch_until_ns(&configuration, &guarded(80, None)) < soon);
        configuration.keys_are_shared = false;
        assert!(watch_until_ns(&configuration, &cookies) < soon);
        let path = Guarded { is_path: true, ..guarded(80, None) };
        assert_eq!(watch_until_ns(&configuration, &path), 0);
    }

    /// No two listeners share a part of the table: a flood on one leaves the other's alone.
    #[test]
    fn every_listener_has_its_own_part_of_the_table() {
        let shed = |blocks| tg_shed_rules { blocks, ..Default::default() };
        let configuration = Configuration {
            guards: vec![
                Guarded { shed: shed(10), ..guarded(80, None) },
                Guarded { shed: shed(5), ..guarded(80, Some("192.0.2.1")) },
                guarded(81, None),
                Guarded { shed: shed(7), ..guarded(82, None) },
            ],
            ..Default::default()
        };
        assert_eq!(configuration.shed_blocks(), 22);
        let parts = parts(&[], &configuration.guards, 22);
        let config = build(&configuration, &[0, 1, 2, 3], &parts).unwrap();
        let mut cells: Vec<u32> = config.guards[..4]
            .iter()
            .flat_map(|g| g.shed.first_block..g.shed.first_block + g.shed.blocks)
            .collect();
        cells.sort_unstable();
        assert_eq!(cells, (0..22).collect::<Vec<u32>>());
    }
}
