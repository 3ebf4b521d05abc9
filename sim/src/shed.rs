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
    /// The network of clients that stands in the list of preferred proxies, where the rules have one.
    pub preferred: Option<u16>,
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
            preferred: None,
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
    preferred: Option<u16>,
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
        Self { hook: shed.hook, each: each.collect(), preferred: shed.preferred, chance }
    }

    /// Whether a SYN from this source may be shed.
    pub(crate) fn concern(&self, source: u32) -> bool {
        self.each.iter().any(|shedder| shedder.concerns(source))
    }

    /// The first answer that is no. `tuple` names the connection, and `network` is its client's.
    pub(crate) fn judge(
        &mut self,
        tuple: &tg_tuple,
        network: Option<u16>,
        isn: u32,
        now_ns: u64,
        queue: &tg_auto_queue,
        stands: Stands,
    ) -> tg_decision {
        let syn = tg_shed_syn {
            now_ns: MONOTONIC_NS + now_ns,
            clock_ns: CLOCK_NS + now_ns,
            isn,
            preferred: (network.is_some() && network == self.preferred).into(),
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
    use tidegate_client::{Arrivals, Os, Step};
    use tidegate_policy::raw::{
        TG_BUCKET_DEPTH_NS, TG_FALLBACK_NONE, TG_FALLBACK_STATELESS, TG_KEY_CONNECTION,
        TG_REFUSE_RESET, TG_RESET, TG_SBPD, TG_SLPD,
    };

    use super::*;
    use crate::machine::Machine;
    use crate::setup::{Load, Setup};
    use crate::world::World;

    const SECOND_NS: u64 = 1_000_000_000;

    /// As a listener refuses by default, and a path: what a tenth of a second has is saved.
    #[test]
    fn who_is_shed_is_told_so_a_million_times_a_second_at_most() {
        let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
        let rules = tg_shed_rules { refusal: TG_REFUSE_RESET, ..everyone };
        let mut shedders =
            Shedders::new(&Shed { rules, hook: None, in_series: 1, preferred: None }, 1);
        let (client, queue) = (tg_tuple::default(), tg_auto_queue::default());
        let mut is_told = |isn| {
            shedders.judge(&client, None, isn, 0, &queue, Stands::Nothing).verdict == TG_RESET
        };
        let told = (0..200_000).filter(|isn| is_told(*isn)).count() as u32;
        assert_eq!(told, TG_BUCKET_DEPTH_NS / 1000);
    }

    /// Section 3.4.2: a table that far more connections come to than it is made for is given up for the hash alone,
    /// which drops as many as it should; and is used again when they have gone, and their stamps have.
    #[test]
    fn a_table_in_a_crowd_beyond_its_design_falls_back_to_the_hash_and_comes_back() {
        const P: f64 = 0.1;
        const CALM_PER_S: u32 = 200;
        let everyone_told = tg_shed_rules {
            refusal: TG_REFUSE_RESET,
            ..tg_shed_rules::new(TG_SBPD, TG_KEY_CONNECTION, P, 5)
        };
        let mut setup = Setup::one_packet(Machine::today(), None, Os::linux());
        let rules = everyone_told.with_table(CALM_PER_S, OVERSIZE);
        setup.shed = Some(Shed { rules, hook: None, in_series: 1, preferred: None });
        // Not in the first 75 s of a turn, in which a hash alone looks for stamps, too.
        let steps = [(80, 1.0), (10, 20.0), (100, 1.0)]
            .map(|(s, times)| Step { lasts_ns: s * SECOND_NS, times });
        setup.crowd.load = Load::Open(Arrivals::poisson(CALM_PER_S.into(), 1).in_steps(&steps));
        setup.crowd.duration_ns = 190 * SECOND_NS;
        let mut world = World::new(setup);
        // By how far it had fallen back: SYNs, and those dropped.
        let mut met = [(0_u64, 0_u64); 2];
        let mut fallbacks = Vec::new();
        loop {
            let (attempts, refused) = (world.balance().attempts, world.balance().refused);
            if !world.advance() {
                break;
            }
            let fallback = world.host.shed.as_ref().unwrap().each[0].state().fallback;
            if fallbacks.last() != Some(&fallback) {
                fallbacks.push(fallback);
            }
            let (all, dropped) = &mut met[usize::from(fallback != TG_FALLBACK_NONE)];
            *all += world.balance().attempts - attempts;
            *dropped += world.balance().refused - refused;
        }
        let expected = [TG_FALLBACK_NONE, TG_FALLBACK_STATELESS, TG_FALLBACK_NONE];
        assert_eq!(fallbacks, expected);
        let share = met[1].1 as f64 / met[1].0 as f64;
        assert!((share - P).abs() < 0.01, "the hash alone drops {share} of {met:?}");
    }
}
