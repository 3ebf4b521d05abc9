// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who listens on a guarded port, and why nothing can be seen of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use tidegate_datapath::configuration::Guarded;
use tidegate_datapath::raw::*;

use crate::failure::Failure;

/// Who listens where connections of a guard can come in.
#[derive(Default)]
pub(super) struct Listening {
    /// Those whose SYNs it decides.
    pub(super) judged: Vec<tg_listener_row>,
    /// The addresses of those that have a guard of their own.
    elsewhere: BTreeSet<IpAddr>,
    /// Where a program of the application's chooses from a group, and the kernel alone decides.
    chosen: BTreeSet<SocketAddr>,
}

impl Listening {
    pub(super) fn of(
        rows: &[tg_listener_row],
        guarded: &Guarded,
        guards: &[(u32, Guarded)],
    ) -> Self {
        let mut listening = Self::default();
        let all = || guards.iter().map(|(_, guarded)| guarded);
        for row in rows.iter().filter(|row| guarded.covers(row)) {
            if !guarded.judges(row, all()) {
                listening.elsewhere.insert(row.address());
            } else if row.chosen != 0 {
                listening.chosen.insert(bound_to(row));
            } else {
                listening.judged.push(*row);
            }
        }
        listening
    }

    /// Why nothing can be seen of this port.
    pub(super) fn unseen(&self, port: u16) -> Failure {
        if !self.judged.is_empty() {
            return Failure::argument(
                format!("who listens on port {port} has no counters of its own yet"),
                "have `tidegate run` run, which gives them while it has any left",
            );
        }
        if !self.elsewhere.is_empty() {
            return Failure::argument(
                format!("who listens on port {port} has a guard of its own"),
                format!("name one by --address: {}", listed(&self.elsewhere)),
            );
        }
        if !self.chosen.is_empty() {
            return Failure::argument(
                format!(
                    "a program of the application's chooses among those that listen on {}, and the kernel alone decides",
                    listed(&self.chosen)
                ),
                "give the burst (--drain-per-s)",
            );
        }
        Failure::argument(format!("nothing listens on port {port} here"), "start the server first")
    }
}

pub(super) fn bound_to(row: &tg_listener_row) -> SocketAddr {
    SocketAddr::new(row.address(), row.port as u16)
}

fn listed(all: &BTreeSet<impl ToString>) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The counter slots of a socket, one for each guard that its SYNs fall under: one queue is before them all.
/// `None` while one of them is missing.
pub(super) fn slots_of<'a>(
    slots: &BTreeMap<(u32, u64), u32>,
    row: &tg_listener_row,
    guards: &'a [(u32, Guarded)],
) -> Option<Vec<(&'a Guarded, u32)>> {
    let all = || guards.iter().map(|(_, guarded)| guarded);
    let judging = guards.iter().filter(|(_, guarded)| guarded.judges(row, all()));
    let slot = |index: u32| slots.get(&(index, row.socket_cookie)).copied();
    judging.map(|(index, guarded)| Some((guarded, slot(*index)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size::example::{guards, listening_on};

    /// One socket of every address under the port's guard and under that of one address.
    #[test]
    fn a_socket_is_counted_where_all_of_its_guards_count_it() {
        let guards = guards([None, Some("192.0.2.1")]);
        let socket = |address| tg_listener_row { socket_cookie: 7, ..listening_on(address) };
        let counted_under = |slots: &[u32], address| {
            let slots = slots.iter().map(|slot| ((*slot - 100, 7), *slot)).collect();
            slots_of(&slots, &socket(address), &guards)
                .map(|found| found.iter().map(|(_, slot)| *slot).collect::<Vec<_>>())
        };
        assert_eq!(counted_under(&[100, 101], [0; 4]), Some(vec![100, 101]));
        assert_eq!(counted_under(&[100], [0; 4]), None, "half of it is counted elsewhere");
        assert_eq!(counted_under(&[101], [192, 0, 2, 1]), Some(vec![101]));
        assert_eq!(counted_under(&[100], [192, 0, 2, 2]), Some(vec![100]));
    }

    #[test]
    fn what_cannot_be_seen_of_a_port_is_told_by_its_cause() {
        let guards = guards([None, Some("192.0.2.1")]);
        let socket = |address, chosen| tg_listener_row { chosen, ..listening_on(address) };
        let seen = |guard: usize, rows: &[tg_listener_row]| {
            let listening = Listening::of(rows, &guards[guard].1, &guards);
            (listening.judged.len(), listening.unseen(443).to_string())
        };
        let (own, other) = ([192, 0, 2, 1], [192, 0, 2, 2]);
        let told = |rows: &[tg_listener_row]| {
            let (judged, told) = seen(0, rows);
            assert_eq!(judged, 0, "{told}");
            told
        };
        assert_eq!(
            told(&[socket(own, 0)]),
            "who listens on port 443 has a guard of its own; name one by --address: 192.0.2.1"
        );
        assert_eq!(
            told(&[socket(other, 1), socket(other, 1)]),
            "a program of the application's chooses among those that listen on 192.0.2.2:443, \
             and the kernel alone decides; give the burst (--drain-per-s)"
        );
        let elsewhere = tg_listener_row { port: 80, ..socket(own, 0) };
        assert!(told(&[elsewhere]).starts_with("nothing listens on port 443 here; "));
        let uncounted = |seen: (usize, String)| matches!(seen, (1, told) if told.contains("no counters of its own"));
        assert!(uncounted(seen(0, &[socket(own, 0), socket(other, 0)])));
        assert!(uncounted(seen(1, &[socket(own, 0), socket(other, 0)])));
    }
}
