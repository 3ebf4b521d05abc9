// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether what a server counted adds up.

use crate::statistics::Statistics;

impl Statistics {
    /// What does not add up: `N_phases` × `C_avg` is what was accepted (Pariag, Equation 4.1), the
    /// select-rate times the descriptors per call is the fd-rate (Table 4.1), and so with the accept
    /// rate and with work phases; each to the connection, and to the descriptor.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let seconds = self.elapsed_ns as f64 / 1e9;
        let by_phases = self.accept_phases as f64 * self.accepted_per_phase();
        let by_calls = self.event_calls_per_s() * self.fds_per_call() * seconds;
        let by_rate = self.accepted_per_s() * seconds;
        let by_work = self.work_phases as f64 * self.items_per_work_phase();
        [
            ("by its accept phases the server accepted", by_phases, self.accepted),
            ("by its calls the server was told of descriptors:", by_calls, self.fds_told),
            ("by its accept rate the server accepted", by_rate, self.accepted),
            ("by its work phases the server worked on connections:", by_work, self.work_items),
        ]
        .into_iter()
        .find(|(_, product, count)| product.round() as u64 != *count)
        .map(|(what, product, count)| format!("{what} {product:.0}, and it counted {count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> Statistics {
        Statistics {
            accepted: 7,
            accept_phases: 3,
            event_calls: 9,
            fds_told: 31,
            work_phases: 5,
            work_items: 17,
            elapsed_ns: 1_700_000_000,
            ..Statistics::default()
        }
    }

    #[test]
    fn what_adds_up_is_left_alone() {
        assert_eq!(statistics().contradiction(), None);
        assert_eq!(Statistics::default().contradiction(), None);
    }

    #[test]
    fn whatever_does_not_is_told() {
        for (wrong, word) in [
            (Statistics { accept_phases: 0, ..statistics() }, "accept phases"),
            (Statistics { event_calls: 0, ..statistics() }, "descriptors"),
            (Statistics { work_phases: 0, ..statistics() }, "work phases"),
        ] {
            assert!(wrong.contradiction().expect(word).contains(word), "{wrong:?}");
        }
    }
}
