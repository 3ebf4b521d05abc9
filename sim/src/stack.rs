// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The server's machine at work.

mod ack;
mod clean;
mod conn;
mod counted;
mod established;
mod fin;
mod guard;
mod inside;
mod listener;
mod profile;
mod send;
mod syn;
mod time_wait;

pub(crate) use conn::{Conn, State};
pub(crate) use counted::Counted;
pub(crate) use guard::Guard;
pub(crate) use listener::Listener;
pub use profile::{Kernel, Profile};

use tidegate_client::Close;
use tidegate_policy::raw::tg_tw_rules;
use tidegate_policy::time_wait::End;

use crate::chance::Chance;
use crate::cores::Cores;
use crate::costs::Costs;
use crate::flow::Flow;
use crate::hook::Hook;
use crate::pace::Pacing;
use crate::packet::Packet;
use crate::pages::Pages;
use crate::server::App;
use crate::shed::Shedders;
use crate::wire::{Wire, Work};

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
