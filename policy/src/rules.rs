// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the rules of a mechanism ask for.

use crate::raw::{TG_SYN_COOKIE, TG_SYN_RESET, TG_TW_SERVER, tg_rules, tg_tw_rules};

impl tg_rules {
    /// Whether it needs cookies of ours.
    pub fn needs_cookies(&self) -> bool {
        self.syn == TG_SYN_COOKIE || self.cookie_when_reserved != 0
    }

    /// Whether its mechanism has a SYN that finds no room answered: just before TCP it could only be dropped.
    pub fn answers_syns(&self) -> bool {
        [TG_SYN_RESET, TG_SYN_COOKIE].contains(&self.syn)
    }

    /// Whether a cookie of ours may be the answer to a SYN: where auto gives none the kernel does.
    pub fn may_give_cookies(&self) -> bool {
        self.needs_cookies() || self.is_auto != 0
    }

    /// Whether a cookie from the driver could open a pair anew that the server still holds in TIME-WAIT, where its
    /// listener wants this of it: the table of held pairs is behind the driver.
    pub fn would_pass_held_by(&self, time_wait: &tg_tw_rules) -> bool {
        time_wait.negotiate == TG_TW_SERVER && self.may_give_cookies()
    }

    /// Whether it goes by what a SYN costs here, and nobody has said it.
    pub fn asks_syn_ns(&self) -> bool {
        self.is_auto != 0 && self.syn_ns == 0
    }

    /// The same, where it asks, with what a SYN costs here: at least 1 ns, for 0 leaves it open.
    #[must_use]
    pub fn or_syn_ns(self, syn_ns: u64) -> Self {
        if self.asks_syn_ns() { Self { syn_ns: syn_ns.max(1), ..self } } else { self }
    }
}

/// What a SYN costs a host of its time, whose processors drop SYNs side by side, as they serve: to the nearest ns, for
/// a hundred processors have a few each.
pub fn syn_ns_of_host(one_processors_ns: u64, processors: u64) -> u64 {
    (one_processors_ns + processors / 2) / processors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism;

    #[test]
    fn auto_goes_by_what_a_syn_costs_here_unless_it_was_said() {
        let auto = mechanism::parse("auto").unwrap();
        assert_eq!(auto.or_syn_ns(2950), tg_rules { syn_ns: 2950, ..auto });
        assert_eq!(auto.or_syn_ns(0).syn_ns, 1);
        let said = tg_rules { syn_ns: 9000, ..auto };
        assert_eq!(said.or_syn_ns(2950), said);
        let other = mechanism::parse("abort").unwrap();
        assert_eq!(other.or_syn_ns(2950), other);
    }

    #[test]
    fn what_a_syn_costs_many_processors_is_told_to_the_nearest_nanosecond() {
        for (processors, expected) in [(1, 500), (2, 250), (3, 167), (64, 8), (192, 3), (999, 1)] {
            assert_eq!(syn_ns_of_host(500, processors), expected, "{processors}");
        }
    }
}
