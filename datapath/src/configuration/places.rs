// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where each guard stands in the maps: its index, and its part of the table of persistent dropping.

use std::ops::Range;

use super::Guarded;
use crate::error::{Error, Result};
use crate::raw::TG_GUARDS;

/// Gives each guard its index: a listener that was guarded before keeps the one it has, and
/// so its counters.
pub(super) fn place(before: &[(u32, Guarded)], guards: &[Guarded]) -> Result<Vec<u32>> {
    if guards.len() > TG_GUARDS as usize {
        return Err(Error::Limit {
            what: "guarded listeners",
            asked: guards.len(),
            limit: TG_GUARDS as usize,
        });
    }
    let kept: Vec<Option<u32>> = guards
        .iter()
        .map(|g| before.iter().find(|(_, b)| b.has_listener_of(g)).map(|(index, _)| *index))
        .collect();
    let mut free = (0..TG_GUARDS).filter(|i| !kept.contains(&Some(*i)));
    Ok(kept.iter().map(|k| k.unwrap_or_else(|| free.next().expect("as many as guards"))).collect())
}

/// The part of the table that a listener has, where it goes on with one of that size. Without blocks it is empty.
fn standing_part(
    before: &[(u32, Guarded)],
    guarded: &Guarded,
    table_blocks: u32,
) -> Option<Range<u32>> {
    let blocks = guarded.shed.blocks;
    if blocks == 0 {
        return Some(0..0);
    }
    let (_, was) = before.iter().find(|(_, was)| was.has_listener_of(guarded))?;
    let end = was.shed.first_block.checked_add(blocks)?;
    (was.shed.blocks == blocks && end <= table_blocks).then_some(was.shed.first_block..end)
}

/// The first place of the table that has room for so many blocks, between parts that are taken.
fn free_part(taken: &[Option<Range<u32>>], blocks: u32, table_blocks: u32) -> Option<Range<u32>> {
    let taken = || taken.iter().flatten();
    let parts = taken().map(|part| part.end).chain([0]).map(|first| first..first + blocks);
    let is_free = |part: &Range<u32>| {
        part.end <= table_blocks
            && taken().all(|other| part.end <= other.start || other.end <= part.start)
    };
    parts.filter(is_free).min_by_key(|part| part.start)
}

/// Where each guard's part of the table of persistent dropping begins. A listener that was guarded before keeps
/// its own, and so its stamps, whatever comes or goes before it. Where those leave no room in one piece all are moved.
pub(super) fn parts(before: &[(u32, Guarded)], guards: &[Guarded], table_blocks: u32) -> Vec<u32> {
    let placed = |before: &[(u32, Guarded)]| -> Option<Vec<u32>> {
        let mut parts: Vec<Option<Range<u32>>> =
            guards.iter().map(|g| standing_part(before, g, table_blocks)).collect();
        for (at, guarded) in guards.iter().enumerate() {
            if parts[at].is_none() {
                parts[at] = Some(free_part(&parts, guarded.shed.blocks, table_blocks)?);
            }
        }
        Some(parts.into_iter().flatten().map(|part| part.start).collect())
    };
    placed(before).or_else(|| placed(&[])).expect("side by side all have room: require_room()")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_policy::raw::tg_shed_rules;

    fn guarded(port: u16, address: Option<&str>) -> Guarded {
        Guarded { address: address.map(|a| a.parse().unwrap()), port, ..Default::default() }
    }

    #[test]
    fn a_listener_keeps_its_counters_over_a_swap() {
        let before = [(0, guarded(80, None)), (1, guarded(443, None))];
        let after = [guarded(8080, None), guarded(443, None), guarded(80, Some("192.0.2.1"))];
        assert_eq!(place(&before, &after).unwrap(), [0, 1, 2]);
        let fewer = [guarded(443, None)];
        assert_eq!(place(&before, &fewer).unwrap(), [1]);
    }

    /// What comes, goes or changes before it in the file moves nobody, unless there is no room else.
    #[test]
    fn a_listener_keeps_its_part_of_the_table_over_a_swap() {
        let sheds = |port, blocks| {
            let shed = tg_shed_rules { blocks, ..Default::default() };
            Guarded { shed, ..guarded(port, None) }
        };
        let standing = |guards: &[Guarded], firsts: &[u32]| -> Vec<(u32, Guarded)> {
            let mut standing = guards.to_vec();
            for (guarded, first) in standing.iter_mut().zip(firsts) {
                guarded.shed.first_block = *first;
            }
            (0..).zip(standing).collect()
        };
        let first = [sheds(80, 10), sheds(81, 5), sheds(82, 0), sheds(83, 7)];
        assert_eq!(parts(&[], &first, 22), [0, 10, 0, 15]);
        let before = standing(&first, &[0, 10, 0, 15]);
        let [a, b, c, d] = first;
        for (guards, expected, why) in [
            (vec![b.clone(), c.clone(), d.clone()], vec![10, 0, 15], "without the first"),
            (vec![d.clone(), a.clone(), b.clone()], vec![15, 0, 10], "in another order"),
            (vec![sheds(80, 9), b.clone(), d.clone()], vec![0, 10, 15], "the first is smaller"),
            (vec![b.clone(), d.clone(), sheds(84, 10)], vec![10, 15, 0], "one in its place"),
            (vec![a, d, sheds(81, 4), c], vec![0, 15, 10, 0], "between others"),
            (vec![b.clone(), sheds(84, 17)], vec![0, 5], "no room in one piece: all are moved"),
        ] {
            assert_eq!(parts(&before, &guards, 22), expected, "{why}");
        }
        // The table is another: the one that stands was taken away.
        assert_eq!(parts(&before, &[b], 5), [0]);
    }
}
