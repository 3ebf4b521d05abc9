// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's TCP.

mod ack;
mod conn;
mod established;
mod fin;
mod listener;
mod profile;
mod send;
mod syn;
mod time_wait;

pub(crate) use conn::{Conn, State};
pub(crate) use listener::Listener;
pub use profile::{Kernel, Profile};

use tidegate_client::Close;
use tidegate_policy::overload::{Names, Watch};
use tidegate_policy::police::{Limited, Police};
use tidegate_policy::raw::{
    TG_CALM, TG_SOURCE_ANY, tg_accepts, tg_ack, tg_bucket, tg_counters, tg_decision, tg_judged,
    tg_key, tg_queues, tg_rules, tg_syn, tg_tuple, tg_tw_rules,
};
use tidegate_policy::share::Shares;
use tidegate_policy::time_wait::End;
use tidegate_policy::{decide_ack, decide_syn};

use crate::chance::{Chance, Entity};
use crate::cores::Cores;
use crate::costs::Costs;
use crate::flow::Flow;
use crate::hook::Hook;
use crate::network::Packet;
use crate::pace::Pacing;
use crate::pages::Pages;
use crate::server::App;
use crate::shed::Shedders;
use crate::sources::tuple;
use crate::wire::{Wire, Work};

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
    fn decide_syn(
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
    fn decide_ack(
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
    fn exempts(&self, flow: &Flow) -> bool {
        !self.police.is_empty() && self.police.exempts(&tuple(flow.number, flow.network))
    }

    /// A client's first data of a connection that stands.
    fn hear(&mut self, answers: bool) {
        if let Some(watch) = &mut self.watch {
            watch.hear(answers);
        }
    }
}

/// What was counted at the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// By reason and verdict, as the datapath counts.
    pub judged: tg_counters,
    /// The kernel's `ListenOverflows`.
    pub listen_overflows: u64,
    /// The kernel's `ListenDrops`.
    pub listen_drops: u64,
    /// Packets that the ring had no room for.
    pub ring_lost: u64,
    /// Segments that the server's TCP took in: none that a hook before it, or a held pair, has ended.
    pub received: u64,
    /// Connections that went to TIME-WAIT.
    pub time_waits: u64,
    /// Those that are there now.
    pub time_waits_held: u64,
    /// Connections whose TIME-WAIT is left to the client, by agreement.
    pub time_waits_left: u64,
    /// Connections that it closed second and came to hold blocked, by agreement.
    pub pairs: u64,
    /// Those that it holds now.
    pub pairs_held: u64,
    /// The most in TIME-WAIT at one time, its TCP's and these together.
    pub waiting_max: u64,
    /// How often `auto` came to see an overload in another phase.
    pub phase_changes: u64,
}

impl Counted {
    pub(crate) fn judge(&mut self, decision: tg_decision) {
        self.judged.packets[decision.reason as usize][decision.verdict as usize] += 1;
    }

    #[cfg(test)]
    pub(crate) fn dropped(&self, reason: u32) -> u64 {
        tidegate_policy::queue_drops::dropped(&self.judged, reason)
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        let then = earlier.judged.packets.iter().flatten();
        for (now, then) in since.judged.packets.iter_mut().flatten().zip(then) {
            *now -= then;
        }
        since.listen_overflows -= earlier.listen_overflows;
        since.listen_drops -= earlier.listen_drops;
        since.ring_lost -= earlier.ring_lost;
        since.received -= earlier.received;
        since.time_waits -= earlier.time_waits;
        since.time_waits_left -= earlier.time_waits_left;
        since.pairs -= earlier.pairs;
        since.phase_changes -= earlier.phase_changes;
        since
    }
}

/// The server's machine at work.
#[derive(Debug)]
pub(crate) struct Host {
    pub profile: Profile,
    pub kernel: Kernel,
    pub costs: Costs,
    pub guard: Option<Guard>,
    pub shed: Option<Shedders>,
    pub listener: Listener,
    pub cores: Cores,
    /// The driver's hook is another processor's.
    pub driver_elsewhere: bool,
    pub app: App,
    /// How fast that is.
    pub pacing: Pacing,
    /// How clients end their side: what they ask of the application, and say to it, at the end.
    pub ending: Close,
    /// What the listener wants of TIME-WAIT.
    pub time_wait: tg_tw_rules,
    pub counted: Counted,
    pub chance: Chance,
    pub pages: Pages,
}

impl Host {
    /// Works on a segment, beginning then.
    pub(crate) fn receive(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        began_ns: u64,
        wire: &mut Wire,
    ) {
        let mut work = Work::new(wire, &self.costs, packet.flow, began_ns);
        let is_syn = packet.is_syn();
        if self.guard.is_some() && !is_syn {
            work.took.guard_ns += self.costs.hook_other_ns;
        }
        if work.wire.ends.block(End::Server, flow.pair, false, packet, began_ns) {
            work.took.guard_ns += self.costs.hook_ns;
            let took = work.took;
            return self.cores.spend(flow.pair, began_ns, &took);
        }
        let ended = self.ends_by_fin(flow, packet, &mut work);
        match flow.conn.state {
            _ if ended => {}
            State::None | State::HalfOpen if is_syn => self.syn(flow, packet, &mut work),
            State::None => self.stray(flow, packet, &mut work),
            State::HalfOpen => self.segment_of_request(flow, packet, &mut work),
            State::TimeWait => self.segment_in_time_wait(flow, packet, &mut work),
            State::Queued | State::Accepted | State::Closing => {
                self.hear(&flow.conn, packet);
                work.comes_up();
                self.established(flow, packet, &mut work);
            }
        }
        self.counted.received += u64::from(work.reaches_tcp);
        let took = work.took;
        self.cores.spend(flow.pair, began_ns, &took);
        self.wake(began_ns, wire);
    }

    /// Refuses by a RST: TCP makes a packet of its own, a hook before it turns the frame round.
    fn refuse_at(&self, hook: Hook, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        work.tcp_takes(if hook == Hook::Tcp { self.costs.reset_ns } else { 0 });
        work.refuse(flow, packet);
    }

    /// A timer of a connection has come.
    pub(crate) fn timer(&mut self, flow: &mut Flow, place: u32, now_ns: u64, wire: &mut Wire) {
        flow.conn.timer = None;
        let began_ns = self.cores.for_pair(flow.pair).timer_begins_ns(now_ns);
        let mut work = Work::new(wire, &self.costs, place, began_ns);
        match flow.conn.state {
            State::HalfOpen => self.request_timer(flow, &mut work),
            _ => self.established_timer(flow, now_ns, &mut work),
        }
        let took = work.took;
        if took.whole_ns() > 0 {
            self.cores.spend(flow.pair, began_ns, &took);
        }
    }
}

/// Whether `a` comes before `b`, in sequence numbers that wrap around.
fn is_before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
