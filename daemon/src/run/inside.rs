// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who waits inside applications, counted for `auto`: see policy/include/overload_inside.h.

use std::collections::BTreeSet;

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::programs::Programs;
use tidegate_datapath::raw::tg_listener_row;
use tidegate_datapath::{by_socket, clock, configuration, counters, sockets};
use tidegate_policy::overload::Counting;
use tidegate_policy::raw::{tg_inside, tg_overload};

use crate::failure::Result;
use crate::pace::Pace;

/// When they are counted next.
pub struct Inside {
    pace: Pace,
    counting: Counting,
}

impl Inside {
    /// At the next look.
    pub fn new() -> Self {
        Self { pace: Pace::unhurried(), counting: Counting::default() }
    }

    /// Counts them, if it is time, and tells the programs. The listening sockets are as they were a moment ago.
    pub fn follow(
        &mut self,
        programs: &Programs,
        guards: &[Guarded],
        rows: &[tg_listener_row],
    ) -> Result<()> {
        let counting = &mut self.counting;
        if !guards.iter().any(|g| g.rules.is_auto != 0) || !counting.is_due() {
            return Ok(());
        }
        self.pace.look(|| {
            let counted = count(programs, rows)?;
            counting.counted(counted.iter().map(|(inside, overload)| (*inside, overload)));
            Ok(())
        })
    }
}

/// Counts them for each listening socket.
fn count(programs: &Programs, rows: &[tg_listener_row]) -> Result<Vec<(tg_inside, tg_overload)>> {
    let guards = configuration::read(programs)?;
    let watched: BTreeSet<u32> =
        guards.iter().filter(|(_, g)| g.rules.is_auto != 0).map(|(index, _)| *index).collect();
    let inside = sockets::waiting_inside(programs)?;
    let at_ns = clock::monotonic_ns();
    let slots: Vec<((u32, u64), u32)> = counters::slots(programs)
        .into_iter()
        .filter(|((guard, _), _)| watched.contains(guard))
        .collect();
    let mut counted = Vec::new();
    for ((guard, cookie), slot) in &slots {
        let Some(row) = rows.iter().find(|row| row.socket_cookie == *cookie) else { continue };
        let sockets = slots.iter().filter(|((of, _), _)| of == guard).count();
        let overload: tg_overload = by_socket::read(programs, *slot)?;
        let of_guard = inside.get(guard).copied().unwrap_or_default();
        let of_socket = tg_inside {
            at_ns,
            queued: row.listen_len + row.syn_len,
            let_in: overload.let_in,
            ..part(of_guard, sockets)
        };
        by_socket::write(programs, *slot, &of_socket)?;
        counted.push((of_socket, overload));
    }
    Ok(counted)
}

/// One socket's part: nothing tells by which of a guard's an accepted connection came in.
fn part(of_guard: tg_inside, sockets: usize) -> tg_inside {
    let part = |count: u32| count.div_ceil(sockets as u32);
    tg_inside {
        unanswered: part(of_guard.unanswered),
        unread: part(of_guard.unread),
        gone: part(of_guard.gone),
        ..of_guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guards_sockets_have_equal_parts_of_those_who_wait() {
        let of_guard = tg_inside { unanswered: 10, unread: 7, gone: 3, ..Default::default() };
        assert_eq!(part(of_guard, 1), of_guard);
        assert_eq!(part(of_guard, 4), tg_inside { unanswered: 3, unread: 2, gone: 1, ..of_guard });
    }
}
