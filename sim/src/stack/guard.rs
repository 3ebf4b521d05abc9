// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mechanism at its place.

use tidegate_policy::overload::{Counting, Names, Watch};
use tidegate_policy::police::{Limited, Police};
use tidegate_policy::raw::{
    TG_CALM, TG_SOURCE_ANY, tg_accepts, tg_ack, tg_bucket, tg_decision, tg_judged, tg_key,
    tg_queues, tg_rules, tg_syn, tg_tuple,
};
use tidegate_policy::share::Shares;
use tidegate_policy::{decide_ack, decide_syn};

use crate::chance::{Chance, Entity};
use crate::flow::Flow;
use crate::hook::Hook;
use crate::sources::tuple;

/// A mechanism at its place.
#[derive(Debug)]
pub(crate) struct Guard {
    pub rules: tg_rules,
    pub hook: Hook,
    pub refusals: tg_bucket,
    pub police: Police,
    /// Where networks have shares.
    pub shares: Option<Shares>,
    /// Of a guard that is `auto`.
    pub watch: Option<Watch>,
    /// When who waits inside the application is counted for it.
    pub counting: Counting,
    /// In what it says that an overload is, as the last SYN met it; and how often it has said otherwise
    /// than before.
    phase: u32,
    pub phase_changes: u64,
    /// Of the names of those who wait.
    pub key: tg_key,
    /// How the application accepts.
    pub accepts: tg_accepts,
}

impl Guard {
    pub(crate) fn new(rules: tg_rules, hook: Hook, limits: &[Limited], seed: u64) -> Self {
        let mut chance = Chance::of(seed, Entity::Guard);
        Self {
            rules,
            hook,
            refusals: tg_bucket::default(),
            police: Police::new(limits),
            shares: rules.shares().then(Shares::default),
            watch: (rules.is_auto != 0).then(Watch::default),
            counting: Counting::default(),
            phase: TG_CALM,
            phase_changes: 0,
            key: tg_key { k0: chance.draw(), k1: chance.draw() },
            accepts: tg_accepts::default(),
        }
    }

    /// The decision at the SYN stage, which leaves its limits in `queues`; `tuple` and `isn` name the
    /// connection.
    pub(super) fn decide_syn(
        &mut self,
        queues: &mut tg_queues,
        syn: &tg_syn,
        tuple: &tg_tuple,
        isn: u32,
    ) -> tg_judged {
        let source = self.source_by_share(syn, tuple);
        let syn = tg_syn { source: source as u16, ..*syn };
        let judged = self.decide_room(queues, &syn, tuple, isn);
        if let Some(shares) = &mut self.shares {
            shares.end(&self.rules, source, judged, syn.now_ns);
        }
        judged
    }

    /// The source of a SYN, once it is known whether its network has had its share.
    fn source_by_share(&mut self, syn: &tg_syn, tuple: &tg_tuple) -> u32 {
        match (&mut self.shares, u32::from(syn.source)) {
            (Some(shares), TG_SOURCE_ANY) => {
                shares.source(&self.rules, &self.key, tuple, syn.random, syn.now_ns)
            }
            (_, source) => source,
        }
    }

    fn decide_room(
        &mut self,
        queues: &mut tg_queues,
        syn: &tg_syn,
        tuple: &tg_tuple,
        isn: u32,
    ) -> tg_judged {
        let Self { rules, refusals, key, phase: last_phase, phase_changes, .. } = self;
        match &mut self.watch {
            Some(watch) => {
                let names = Names::of(key, tuple, isn, syn.sends_again != 0);
                let judged = watch.decide_syn(rules, queues, syn, refusals, names);
                let phase = watch.overload().phase(syn.now_ns);
                *phase_changes += u64::from(phase != std::mem::replace(last_phase, phase));
                judged
            }
            None => decide_syn(rules, queues, syn, refusals),
        }
    }

    /// The decision at the ACK stage.
    pub(super) fn decide_ack(
        &mut self,
        queues: &tg_queues,
        ack: &tg_ack,
        seq: u32,
        now_ns: u64,
    ) -> tg_decision {
        let asked = self.watch.as_ref().map(|watch| watch.ask_ack(ack, now_ns));
        let decision = decide_ack(&self.rules, queues, asked.as_ref().unwrap_or(ack));
        self.accepts.admit(&self.rules, decision.reason);
        if let Some(watch) = &mut self.watch {
            watch.meet_ack(ack, decision, seq, now_ns);
        }
        decision
    }

    /// Whether the kernel alone decides for this client.
    pub(super) fn exempts(&self, flow: &Flow) -> bool {
        !self.police.is_empty() && self.police.exempts(&tuple(flow.number, flow.network))
    }

    /// A client's first data of a connection that stands.
    pub(super) fn hear(&mut self, answers: bool) {
        if let Some(watch) = &mut self.watch {
            watch.hear(answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::Arrivals;
    use tidegate_policy::raw::{
        TG_OVERFLOW_OTHER, TG_OVERFLOW_SYNACK_ACK, TG_PASS, TG_ROOM, TG_WAIT_LIMIT,
    };
    use tidegate_scenarios::{Form, Scenario};

    use crate::costs::Costs;
    use crate::cpu::Napi;
    use crate::machine::Machine;
    use crate::setting;
    use crate::setup::{Load, Setup};
    use crate::stack::Profile;
    use crate::world::World;

    const PLACES: usize = 16;

    /// A server that takes 1,100 a second, before which half as many more come from 20 ms away, and send one SYN each.
    fn with_places(profile: Profile) -> Setup {
        let text = format!(
            "title = \"t\"\nsource = \"s\"\n[server]\nbacklog = 128\naccept_limit = 1\n\
             [clients]\ndelay = {{ mean_ms = 20 }}\ntimeout_s = 0.9\n[load]\noffered = [1]\n\
             [[curve]]\nmechanism = \"default\"\nplaces = {PLACES}"
        );
        let scenario = Scenario::parse("t", "t.toml", &text).unwrap();
        // Each packet is judged when it comes, and not with others.
        let ideal =
            Machine { profile, costs: Costs::default(), napi: Napi::NONE, ..Machine::today() };
        let load = scenario.load(Form::Full);
        let mut setup = setting::setup(&scenario, &scenario.settings[0], &load, &ideal).unwrap();
        setup.cost_ns = 900_000;
        setup.crowd.load = Load::Open(Arrivals::poisson(1650.0, 1));
        setup.crowd.duration_ns = 10_000_000_000;
        setup
    }

    /// Jamjoom, section 2.1.3, Grow: no new SYN is answered at its limit, and the listen queue grows past it for
    /// those who were answered before.
    #[test]
    fn above_its_places_the_queue_grows_for_who_was_answered_and_no_syn_is() {
        for profile in [Profile::Linux6, Profile::Linux24] {
            let mut world = World::new(with_places(profile));
            let answered = |world: &World| {
                world.host.counted.judged.packets[TG_ROOM as usize][TG_PASS as usize]
            };
            let waiting = |world: &World| world.host.listener.queue.len();
            let mut longest = 0;
            loop {
                let before = (answered(&world), waiting(&world));
                if !world.advance() {
                    break;
                }
                let is_answered = answered(&world) > before.0;
                assert!(!is_answered || before.1 < PLACES, "{profile:?}: {} wait", before.1);
                longest = longest.max(waiting(&world));
            }
            assert!(longest > PLACES, "{profile:?}: {longest} at most");
            let counted = &world.host.counted;
            assert!(counted.dropped(TG_WAIT_LIMIT) > 100, "{profile:?}");
            for full in [TG_OVERFLOW_SYNACK_ACK, TG_OVERFLOW_OTHER] {
                assert_eq!(counted.dropped(full), 0, "{profile:?}");
            }
        }
    }
}
