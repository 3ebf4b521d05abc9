// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Persistent dropping, decided by the policy itself, on the server or on routers before it.

use tidegate_policy::mechanism::REFUSALS_PER_S;
use tidegate_policy::raw::{
    TG_PASS, TG_SHED_TURN_SHIFT, tg_auto_queue, tg_decision, tg_key, tg_shed_rules, tg_shed_syn,
    tg_tuple,
};
use tidegate_policy::shed::{OVERSIZE, Shedder, Stands, Word};
use tidegate_scenarios as scenarios;
use tidegate_scenarios::{ShedPlace, ShedShare};

use crate::chance::{Chance, Entity};
use crate::hook::Hook;

/// When the simulated wall clock begins: with a turn of K(t).
const CLOCK_NS: u64 = 6_400_000 << TG_SHED_TURN_SHIFT;
/// When the simulated kernel's does.
const MONOTONIC_NS: u64 = 1 << 40;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shed {
    /// The policy's rules.
    pub rules: tg_shed_rules,
    /// Where a server looks at SYNs for it; `None` is a router, which costs the server nothing.
    pub hook: Option<Hook>,
    /// So many in a row, each with a key of its own.
    pub in_series: u32,
}

impl Shed {
    /// As a scenario names it. A rate is set with the capacity, by [`Shed::at_capacity`].
    #[must_use]
    pub fn of(shed: &scenarios::Shed, hook: Hook) -> Self {
        let (policy, key) = (shed.policy.number(), shed.key.number());
        let rules = match shed.p {
            ShedShare::Of(p) => tg_shed_rules::new(policy, key, p, shed.attempts()),
            ShedShare::Auto => tg_shed_rules::automatic(policy, key, 0, shed.attempts()),
        };
        let rules = rules.with_table(shed.arrivals_per_s, OVERSIZE);
        // Nothing is shed at the TCP entry.
        let hook = if hook == Hook::Tcp { Hook::Ip } else { hook };
        Self {
            rules: tg_shed_rules { refusal: shed.refuse.number(), ..rules },
            hook: (shed.at == ShedPlace::Server).then_some(hook),
            in_series: shed.in_series,
        }
    }

    /// The same for a server of this capacity.
    #[must_use]
    pub fn at_capacity(self, shed: &scenarios::Shed, capacity_per_s: f64) -> Self {
        let rate_per_s = shed.rate_per_s(capacity_per_s);
        Self { rules: tg_shed_rules { rate_per_s, ..self.rules }, ..self }
    }
}

/// Hosts that shed.
#[derive(Debug)]
pub(crate) struct Shedders {
    pub hook: Option<Hook>,
    each: Vec<Shedder>,
    chance: Chance,
}

impl Shedders {
    pub(crate) fn new(shed: &Shed, seed: u64) -> Self {
        let mut chance = Chance::of(seed, Entity::Shed);
        let each = (0..shed.in_series).map(|_| {
            let key = tg_key { k0: chance.draw(), k1: chance.draw() };
            let mut shedder = Shedder::new(shed.rules, key);
            shedder.refusal_cost_ns = 1_000_000_000 / REFUSALS_PER_S;
            shedder
        });
        Self { hook: shed.hook, each: each.collect(), chance }
    }

    /// Whether a SYN from this source may be shed.
    pub(crate) fn concern(&self, source: u32) -> bool {
        self.each.iter().any(|shedder| shedder.concerns(source))
    }

    /// The first answer that is no. `tuple` names the connection.
    pub(crate) fn judge(
        &mut self,
        tuple: &tg_tuple,
        isn: u32,
        now_ns: u64,
        queue: &tg_auto_queue,
        stands: Stands,
    ) -> tg_decision {
        let syn = tg_shed_syn {
            now_ns: MONOTONIC_NS + now_ns,
            clock_ns: CLOCK_NS + now_ns,
            isn,
            ..tg_shed_syn::default()
        };
        let mut decision = tg_decision::default();
        for shedder in &mut self.each {
            let random = (self.chance.draw() >> 32) as u32;
            let syn = tg_shed_syn { random, ..syn };
            decision = shedder.decide_at(tuple, &syn, queue, stands);
            if decision.verdict != TG_PASS {
                break;
            }
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use tidegate_policy::raw::{
        TG_BUCKET_DEPTH_NS, TG_KEY_CONNECTION, TG_REFUSE_RESET, TG_RESET, TG_SLPD,
    };

    use super::*;

    /// As a listener refuses by default, and a path: what a tenth of a second has is saved.
    #[test]
    fn who_is_shed_is_told_so_a_million_times_a_second_at_most() {
        let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
        let rules = tg_shed_rules { refusal: TG_REFUSE_RESET, ..everyone };
        let mut shedders = Shedders::new(&Shed { rules, hook: None, in_series: 1 }, 1);
        let (client, queue) = (tg_tuple::default(), tg_auto_queue::default());
        let mut is_told =
            |isn| shedders.judge(&client, isn, 0, &queue, Stands::Nothing).verdict == TG_RESET;
        let told = (0..200_000).filter(|isn| is_told(*isn)).count() as u32;
        assert_eq!(told, TG_BUCKET_DEPTH_NS / 1000);
    }
}
