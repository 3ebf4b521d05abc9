// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A mechanism at its place.

use tidegate_policy::overload::{Names, Watch};
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
