// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The SYN stage: a SYN to the listening socket.

use tidegate_policy::raw::{
    TG_COOKIE, TG_DROP, TG_HOLLOW, TG_KERNEL_COOKIE, TG_LISTENQ_FULL_AT_SYN, TG_PASS, TG_RESET,
    TG_ROOM, TG_SOURCE_ANY, tg_auto_queue, tg_decision, tg_queues, tg_rules, tg_syn,
};
use tidegate_policy::shed::{self, Stands};
use tidegate_policy::syn_room;
use tidegate_policy::system::sends_again;
use tidegate_policy::time_wait::End;

use super::conn::Giver;
use super::time_wait::Keeps;
use super::{Conn, Guard, Host, Listener, Profile, State};
use crate::flow::Flow;
use crate::hook::Hook;
use crate::packet::Packet;
use crate::sources::tuple;
use crate::wire::{Wire, Work};

/// The clock of Linux' initial sequence numbers.
const NUMBER_TICK_NS: u64 = 64;

/// What a mechanism leaves to do.
enum Left {
    Nothing,
    ToTheKernel,
}

impl Host {
    /// What persistent dropping says of a SYN.
    fn shed_decision(&mut self, flow: &Flow, packet: &Packet, now_ns: u64) -> tg_decision {
        let rules = self.guard.as_ref().map_or(tg_rules::default(), |guard| guard.rules);
        let shown = self.listener.shown(self.profile, &self.kernel, &rules);
        // Early drop is by lot: nobody's by this one.
        let room = syn_room(&rules, &shown, u32::MAX);
        let queue = tg_auto_queue::of(&rules, &self.listener.queues(&self.kernel), room);
        let Some(shedders) = &mut self.shed else { return tg_decision::default() };
        let is_path = shedders.hook.is_none();
        // A router does not know what stands behind it.
        let stands = if is_path { Stands::Nothing } else { flow.conn.stands() };
        let client = tuple(flow.number, flow.network);
        let decision = shedders.judge(&client, flow.network, packet.seq, now_ns, &queue, stands);
        if shed::counts(decision, is_path) {
            self.counted.judge(decision);
        }
        decision
    }

    /// Whether a segment ends before a processor of the server is at it: on a router, or at a driver
    /// whose work is another's.
    #[inline]
    pub(crate) fn ends_before(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        now_ns: u64,
        wire: &mut Wire,
    ) -> bool {
        (packet.is_syn() && self.router_sheds(flow, packet, now_ns, wire))
            || (self.driver_elsewhere && self.driver_ends(flow, packet, now_ns, wire))
    }

    /// The hook at a driver whose work is another processor's.
    fn driver_ends(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        now_ns: u64,
        wire: &mut Wire,
    ) -> bool {
        if !packet.is_syn() && flow.conn.state != State::None {
            return false;
        }
        let mut work = Work::new(wire, &self.costs, packet.flow, now_ns);
        let ends = match packet.is_syn() {
            true => self.driver_ends_syn(flow, packet, &mut work),
            false => self.decides_at_driver() && self.resets_hollow(flow, packet, &mut work),
        };
        if ends {
            self.cores.first().is_slowed(now_ns, work.took.whole_ns());
        }
        ends
    }

    fn decides_at_driver(&self) -> bool {
        self.guard.as_ref().is_some_and(|guard| guard.hook == Hook::Driver)
    }

    fn driver_ends_syn(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) -> bool {
        let judges = self.decides_at_driver() && flow.conn.is_open();
        let source = if judges { self.source(flow, work.now_ns()) } else { TG_SOURCE_ANY };
        let sheds = self
            .shed
            .as_ref()
            .is_some_and(|shed| shed.hook == Some(Hook::Driver) && shed.concern(source));
        (sheds && self.sheds(flow, packet, work))
            || (judges && matches!(self.judge_syn(flow, packet, source, work), Left::Nothing))
    }

    /// What the guard's rules say of where a SYN comes from.
    fn source(&mut self, flow: &Flow, now_ns: u64) -> u32 {
        match &mut self.guard {
            Some(Guard { police, .. }) if !police.is_empty() => {
                police.source(&tuple(flow.number, flow.network), now_ns)
            }
            _ => TG_SOURCE_ANY,
        }
    }

    /// Whether a hook has looked at every SYN that comes this far.
    fn has_looked(&self, hook: Hook) -> bool {
        self.driver_elsewhere && hook == Hook::Driver
    }

    /// Persistent dropping on a router, which costs the server nothing; true where it ends there.
    fn router_sheds(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        now_ns: u64,
        wire: &mut Wire,
    ) -> bool {
        if self.shed.as_ref().is_none_or(|shed| shed.hook.is_some()) {
            return false;
        }
        let decision = self.shed_decision(flow, packet, now_ns);
        let mut work = Work::new(wire, &self.costs, packet.flow, now_ns);
        self.answer_shed(decision, flow, packet, &mut work)
    }

    /// Persistent dropping on the server; true where it ends there.
    fn sheds(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) -> bool {
        let Some(hook) = self.shed.as_ref().and_then(|shed| shed.hook) else { return false };
        let decision = self.shed_decision(flow, packet, work.now_ns());
        if decision.verdict == TG_PASS {
            // The rest of the way is the mechanism's, or the kernel's.
            work.took.guard_ns += self.costs.hook_ns;
            return false;
        }
        work.took.add(&hook.way_to(&self.costs));
        self.answer_shed(decision, flow, packet, work);
        work.ends_at(hook, self.profile, &self.costs);
        true
    }

    fn answer_shed(
        &self,
        decision: tg_decision,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) -> bool {
        match decision.verdict {
            TG_PASS => return false,
            TG_RESET => work.refuse(flow, packet),
            TG_HOLLOW => self.answer_hollow(flow, packet, work),
            _ => {}
        }
        true
    }

    /// The connection that the SYN/ACK belongs to is nowhere: whoever answers meets nothing.
    fn answer_hollow(&self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let nobody = Conn::of_syn(packet, hollow_isn(packet.seq));
        let segment = nobody.syn_ack(self.profile, work.now_ns());
        work.send(flow, &segment);
    }

    /// The mechanism's decision comes first; what it passes meets the kernel's own rule.
    pub(super) fn syn(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let is_half_open = flow.conn.state == State::HalfOpen;
        // A request's own SYN is none that the TCP entry is told of, and is not judged there.
        let judges = |guard: &Guard| {
            !((is_half_open && guard.hook == Hook::Tcp) || self.has_looked(guard.hook))
        };
        let is_judged = self.guard.as_ref().is_some_and(judges);
        let source = if is_judged { self.source(flow, work.now_ns()) } else { TG_SOURCE_ANY };
        let is_shed_here = self.shed.as_ref().is_some_and(|shed| {
            shed.concern(source) && !shed.hook.is_some_and(|hook| self.has_looked(hook))
        });
        if is_shed_here && self.sheds(flow, packet, work) {
            return;
        }
        if is_judged {
            if let Left::Nothing = self.judge_syn(flow, packet, source, work) {
                return;
            }
        } else {
            work.comes_to_tcp(&self.costs);
        }
        // Not sooner: a SYN that is refused on its way leaves TIME-WAIT standing.
        let was_time_wait = flow.conn.state == State::TimeWait;
        if was_time_wait && !flow.conn.is_begun_anew_by(packet) {
            return self.acknowledge(flow, work);
        }
        if was_time_wait {
            self.end_time_wait(flow, work);
        }
        if is_half_open {
            work.tcp_takes(self.costs.request_again_ns);
            return self.send_syn_ack(flow, work);
        }
        let room = if was_time_wait { Listener::room_after_time_wait } else { Listener::room };
        match room(&self.listener, self.profile, &self.kernel) {
            TG_ROOM => self.make_request(flow, packet, work),
            TG_KERNEL_COOKIE => {
                work.tcp_takes(self.costs.cookie_ns);
                let named = self.names(flow, packet, Keeps::Nothing, work);
                self.give_cookie(Giver::Kernel, flow, packet, named, work);
            }
            reason => self.kernel_drops_syn(reason, flow, packet, work),
        }
    }

    fn judge_syn(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        source: u32,
        work: &mut Work<'_>,
    ) -> Left {
        let Some(guard) = &mut self.guard else { return Left::ToTheKernel };
        let hook = guard.hook;
        work.took.add(&hook.way_to(&self.costs));
        let mut queues = self.listener.shown(self.profile, &self.kernel, &guard.rules);
        let random = (self.chance.draw() >> 32) as u32;
        let syn = asked(flow, packet, source, random, work.now_ns());
        let judged =
            guard.decide_syn(&mut queues, &syn, &tuple(flow.number, flow.network), packet.seq);
        let found = tg_queues { places: queues.places, ..self.listener.queues(&self.kernel) };
        guard.accepts.look(&guard.rules, &found, judged, syn.now_ns);
        let decision = judged.decision;
        self.counted.judge(decision);
        self.carry_out(decision, hook, flow, packet, work)
    }

    fn carry_out(
        &mut self,
        decision: tg_decision,
        hook: Hook,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) -> Left {
        // A hook before TCP turns the frame round; TCP makes a packet of its own.
        let by_tcp = hook == Hook::Tcp;
        match decision.verdict {
            TG_DROP => {}
            TG_RESET => self.refuse_at(hook, flow, packet, work),
            TG_COOKIE => {
                work.tcp_takes(if by_tcp { self.costs.cookie_ns } else { 0 });
                work.took.guard_ns += if by_tcp { 0 } else { self.costs.hook_ns };
                self.give_cookie(Giver::Guard, flow, packet, None, work);
            }
            TG_HOLLOW => {
                work.tcp_takes(if by_tcp { self.costs.cookie_ns } else { 0 });
                self.answer_hollow(flow, packet, work);
            }
            _ => {
                work.took.add(&hook.way_from(&self.costs));
                return Left::ToTheKernel;
            }
        }
        work.ends_at(hook, self.profile, &self.costs);
        Left::Nothing
    }

    fn kernel_drops_syn(
        &mut self,
        reason: u32,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) {
        work.tcp_takes(self.costs.refuse_ns);
        if self.profile.refuses_syns() {
            self.refuse_at(Hook::Tcp, flow, packet, work);
        }
        // Linux 2.4 counts no SYN that it drops.
        if self.profile == Profile::Linux6 {
            self.counted.listen_drops += 1;
            self.counted.listen_overflows += u64::from(reason == TG_LISTENQ_FULL_AT_SYN);
        }
    }

    fn make_request(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        work.tcp_takes(self.costs.request_ns);
        let isn = self.isn(flow, work);
        let named = self.names(flow, packet, Keeps::Request, work);
        let conn = &mut flow.conn;
        *conn = Conn { named, ..Conn::of_syn(packet, isn) };
        conn.state = State::HalfOpen;
        self.listener.half_open += 1;
        self.listener.young += 1;
        conn.sent_at_ns = work.now_ns();
        let again_ns = work.now_ns() + self.profile.syn_ack_again_ns();
        conn.wake_at(work.place, again_ns, work.wire);
        self.send_syn_ack(flow, work);
    }

    /// A SYN/ACK that stands for itself; `named` is whom it names to hold TIME-WAIT.
    fn give_cookie(
        &mut self,
        giver: Giver,
        flow: &mut Flow,
        packet: &Packet,
        named: Option<End>,
        work: &mut Work<'_>,
    ) {
        if flow.conn.cookie.is_some() {
            // The same SYN has the same cookie.
            flow.conn.peer_clock = packet.clocks().map_or(0, |clocks| clocks.value);
        } else {
            let isn = self.isn(flow, work);
            flow.conn = Conn { named, ..Conn::of_syn(packet, isn) };
        }
        flow.conn.cookie = Some(giver);
        self.send_syn_ack(flow, work);
    }

    /// A pair that is used again goes on as `secure_tcp_seq()` has it: its client may hold the last
    /// connection, and know by the number alone that this is another.
    fn isn(&mut self, flow: &Flow, work: &Work<'_>) -> u32 {
        let drawn = (self.chance.draw() >> 32) as u32;
        let first = work.wire.pair_first(flow.pair);
        first.map_or(drawn, |first| first.wrapping_add((work.now_ns() / NUMBER_TICK_NS) as u32))
    }

    fn send_syn_ack(&self, flow: &mut Flow, work: &mut Work<'_>) {
        let segment = flow.conn.syn_ack(self.profile, work.now_ns());
        work.send(flow, &segment);
    }

    /// The SYN/ACK was not answered in time.
    pub(super) fn request_timer(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        let conn = &mut flow.conn;
        let most = self.listener.syn_acks_again(self.profile, &self.kernel, conn.was_acked);
        if conn.again >= most {
            return self.remove_request(flow, work);
        }
        work.tcp_takes(self.costs.request_again_ns);
        if conn.again == 0 {
            self.listener.young -= 1;
        }
        conn.again += 1;
        let again_ns = self.profile.syn_ack_again_ns() << conn.again;
        conn.wake_at(work.place, work.now_ns() + again_ns, work.wire);
        self.send_syn_ack(flow, work);
    }

    pub(super) fn remove_request(&mut self, flow: &mut Flow, work: &mut Work<'_>) {
        self.leave_syn_queue(&flow.conn);
        flow.conn.forget(work.wire);
    }

    pub(super) fn leave_syn_queue(&mut self, conn: &Conn) {
        self.listener.half_open -= 1;
        if conn.again == 0 {
            self.listener.young -= 1;
        }
    }
}

/// The number of the SYN/ACK to this one behind which there is nothing.
pub(super) fn hollow_isn(client_isn: u32) -> u32 {
    client_isn ^ 0x5bd1_e995
}

/// What the policy is asked of a SYN.
fn asked(flow: &Flow, packet: &Packet, source: u32, random: u32, now_ns: u64) -> tg_syn {
    let is_taken = flow.conn.state == State::TimeWait;
    tg_syn {
        now_ns,
        random,
        half_open: u16::from(flow.conn.state == State::HalfOpen),
        // The ACK that brings a cookie would go to TIME-WAIT. What the sysctl has is not asked: the papers' own
        // no-syn-drop needs no cookies of the kernel's.
        cookie_usable: u16::from(!is_taken),
        source: source as u16,
        sends_again: u16::from(sends_again(flow.hops, packet.tcp_header_bytes())),
        taken: u16::from(is_taken),
        ..tg_syn::default()
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::segment::Timestamps;
    use tidegate_client::{Close, Flags, Options, Os, Segment};
    use tidegate_policy::mechanism;
    use tidegate_policy::police::{Limited, Police};
    use tidegate_policy::raw::{
        TG_KEY_CONNECTION, TG_NO_COOKIE, TG_POLICED, TG_REFUSAL_LIMIT, TG_REFUSE_COOKIE,
        TG_REFUSE_RESET, TG_REFUSE_SILENTLY, TG_SHED_STATELESS, TG_SLPD, TG_SYNQ_FULL, tg_accepts,
        tg_limit, tg_shed_rules,
    };

    use super::*;
    use crate::machine::Machine;
    use crate::setup::Setup;
    use crate::shed::{Shed, Shedders};
    use crate::world::World;

    /// The place of the first connection.
    const FIRST: u32 = 0;

    /// A server that has closed its first connection, and holds TIME-WAIT of it.
    fn in_time_wait(name: &str, hook: Hook, driver_elsewhere: bool) -> World {
        let machine = Machine { driver_elsewhere, ..Machine::today() };
        let guard = Some((mechanism::parse(name).unwrap(), hook));
        let mut setup = Setup::one_packet(machine, guard, Os::linux());
        setup.crowd.person.close = Close::Server;
        let mut world = World::new(setup);
        while world.host.counted.time_waits_held == 0 {
            assert!(world.advance());
        }
        world
    }

    fn fill(world: &mut World) {
        let listener = &mut world.host.listener;
        let places = listener.backlog + 1;
        listener.queue.extend(0..places);
    }

    /// A new SYN on the first connection's addresses and ports. Says what then stands there.
    fn comes_again(world: &mut World) -> State {
        let conn = &world.flows.get(FIRST).conn;
        let clocks = Timestamps { value: conn.peer_clock.wrapping_add(1), echo: 0 };
        let seq = conn.expected.wrapping_add(1);
        comes(world, seq, Options { timestamps: Some(clocks), ..Options::default() })
    }

    /// The same, of a SYN with this number and these options.
    fn comes(world: &mut World, seq: u32, options: Options) -> State {
        let now_ns = world.now_ns();
        let flow = world.flows.get(FIRST);
        let syn = Segment { flags: Flags::SYN, seq, options, ..Segment::default() };
        let packet = Packet::of(FIRST, &syn);
        if !world.host.ends_before(flow, &packet, now_ns, &mut world.wire) {
            world.host.receive(flow, &packet, now_ns, &mut world.wire);
        }
        flow.conn.state
    }

    #[test]
    fn a_syn_that_ends_time_wait_needs_no_room_in_the_syn_queue() {
        let mut world = in_time_wait("default", Hook::Ip, false);
        let most = world.host.listener.backlog;
        world.host.listener.half_open += most + 1;
        assert_eq!(world.host.listener.room(Profile::Linux6, &world.host.kernel), TG_KERNEL_COOKIE);
        assert_eq!(comes_again(&mut world), State::HalfOpen);

        // So a mechanism has it.
        for name in ["rst-syn", "early-syn-drop", "auto"] {
            let mut world = in_time_wait(name, Hook::Ip, false);
            world.host.listener.half_open += most + 1;
            world.host.kernel.syncookies = 0;
            assert_eq!(comes_again(&mut world), State::HalfOpen, "{name}");
            assert_eq!(world.host.counted.dropped(TG_SYNQ_FULL), 0, "{name}");
        }

        // The listen queue is another matter, whatever there is in the SYN queue.
        for (half_open, syncookies) in [(0, 1), (most + 1, 0)] {
            let mut world = in_time_wait("default", Hook::Ip, false);
            fill(&mut world);
            world.host.listener.half_open += half_open;
            world.host.kernel.syncookies = syncookies;
            assert_eq!(comes_again(&mut world), State::None);
        }
    }

    #[test]
    fn a_syn_that_is_refused_leaves_time_wait_standing() {
        for (hook, elsewhere) in [(Hook::Ip, false), (Hook::Driver, false), (Hook::Driver, true)] {
            for name in ["rst-syn", "early-syn-drop"] {
                let mut world = in_time_wait(name, hook, elsewhere);
                fill(&mut world);
                let what = format!("{name}, {hook:?}, {elsewhere}");
                assert_eq!(comes_again(&mut world), State::TimeWait, "{what}");
                let counted = &world.host.counted;
                assert_eq!(counted.time_waits_held, 1, "{what}");
                assert_eq!(counted.dropped(TG_LISTENQ_FULL_AT_SYN), 1, "{what}");
            }
        }
    }

    /// The datapath finds the listening socket behind TIME-WAIT without a look at the number.
    #[test]
    fn a_syn_that_may_be_old_is_judged_before_tcp_takes_it_for_one() {
        for (hook, elsewhere) in [(Hook::Ip, false), (Hook::Driver, true)] {
            let old = |world: &mut World| {
                let last = world.flows.get(FIRST).conn.expected;
                comes(world, last.wrapping_sub(1000), Options::default())
            };
            let mut world = in_time_wait("rst-syn", hook, elsewhere);
            let acknowledged = world.wire.outward.carried.sent + 1;
            assert_eq!(old(&mut world), State::TimeWait);
            assert_eq!(world.wire.outward.carried.sent, acknowledged);
            fill(&mut world);
            assert_eq!(old(&mut world), State::TimeWait);
            assert_eq!(world.host.counted.dropped(TG_LISTENQ_FULL_AT_SYN), 1);
        }
    }

    /// The kernel repeats its SYN/ACK, as it does beside the datapath.
    #[test]
    fn nobody_is_shed_by_an_answer_whose_request_stands() {
        for refusal in [TG_REFUSE_RESET, TG_REFUSE_SILENTLY] {
            let mut world = in_time_wait("default", Hook::Ip, false);
            assert_eq!(comes_again(&mut world), State::HalfOpen);
            let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
            let rules = tg_shed_rules { refusal, ..everyone };
            let shed = Shed { rules, hook: Some(Hook::Ip), in_series: 1, preferred: None };
            world.host.shed = Some(Shedders::new(&shed, 1));
            let sent = world.wire.outward.carried.sent;
            assert_eq!(comes_again(&mut world), State::HalfOpen);
            let answers = world.wire.outward.carried.sent - sent;
            assert_eq!(answers, u64::from(refusal == TG_REFUSE_RESET));
            let shed: u64 =
                world.host.counted.judged.packets[TG_SHED_STATELESS as usize].iter().sum();
            assert_eq!(shed, u64::from(refusal == TG_REFUSE_SILENTLY));
        }
    }

    /// The ACK of a hollow SYN/ACK would go to TIME-WAIT.
    #[test]
    fn who_stands_in_time_wait_is_shed_with_rst() {
        for refusal in [TG_REFUSE_RESET, TG_REFUSE_COOKIE] {
            let mut world = in_time_wait("default", Hook::Ip, false);
            let everyone = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
            let rules = tg_shed_rules { refusal, ..everyone };
            let shed = Shed { rules, hook: Some(Hook::Ip), in_series: 1, preferred: None };
            world.host.shed = Some(Shedders::new(&shed, 1));
            assert_eq!(comes_again(&mut world), State::TimeWait);
            let shed = world.host.counted.judged.packets[TG_SHED_STATELESS as usize];
            assert_eq!((shed[TG_RESET as usize], shed[TG_HOLLOW as usize]), (1, 0));
        }
    }

    /// Linux counts where TCP begins: behind netfilter's local-in, where today's hook before TCP is.
    /// Shukla's is TCP's own.
    #[test]
    fn what_a_hook_ends_before_tcp_is_no_segment_of_tcps() {
        for (hook, profile, counts) in [
            (Hook::Driver, Profile::Linux6, 0),
            (Hook::Ip, Profile::Linux6, 0),
            (Hook::Tcp, Profile::Linux6, 0),
            (Hook::Ip, Profile::Linux24, 0),
            (Hook::Tcp, Profile::Linux24, 1),
        ] {
            let mut world = in_time_wait("early-syn-drop", hook, false);
            world.host.profile = profile;
            fill(&mut world);
            // Linux 2.4 refuses nobody there without young requests.
            world.host.listener.young = 2;
            let before = world.host.counted.received;
            assert_eq!(comes_again(&mut world), State::TimeWait);
            assert_eq!(world.host.counted.received - before, counts, "{hook:?} {profile:?}");
        }
    }

    /// As in the datapath: it says nothing of room, nor of how the application accepts.
    #[test]
    fn who_is_over_its_rate_has_not_lacked_room_where_no_refusal_is_left() {
        for name in ["rst-syn", "auto"] {
            let mut world = in_time_wait(name, Hook::Ip, false);
            let everyone =
                Limited { addr: [0; 4], is_ipv6: false, bits: 0, limit: tg_limit::new(1, 1) };
            let flow = world.flows.get(FIRST);
            let client = tuple(flow.number, flow.network);
            let now_ns = world.now_ns();
            let guard = world.host.guard.as_mut().unwrap();
            guard.police = Police::new(&[everyone]);
            guard.police.source(&client, now_ns);
            guard.rules.refusal_cost_ns = u32::MAX;
            comes_again(&mut world);
            assert_eq!(world.host.counted.dropped(TG_REFUSAL_LIMIT), 1, "{name}");
            let accepts = world.host.guard.as_ref().unwrap().accepts;
            assert_eq!(accepts, tg_accepts::default(), "{name}");
        }
    }

    /// Persistent dropping is asked of nobody for whom the rules for networks have the last word.
    #[test]
    fn who_is_exempt_or_policed_is_not_shed() {
        for (hook, elsewhere) in [(Hook::Ip, false), (Hook::Driver, false), (Hook::Driver, true)] {
            let comes_again_under = |limits: &[Limited]| {
                let mut world = in_time_wait("early-syn-drop", hook, elsewhere);
                let all = tg_shed_rules::new(TG_SLPD, TG_KEY_CONNECTION, 1.0, 5);
                let shed = Shed { rules: all, hook: Some(hook), in_series: 1, preferred: None };
                world.host.shed = Some(Shedders::new(&shed, 1));
                let client = world.flows.get(FIRST);
                let client = tuple(client.number, client.network);
                let now_ns = world.now_ns();
                let guard = world.host.guard.as_mut().unwrap();
                guard.police = Police::new(limits);
                // The first spends what there is.
                guard.police.source(&client, now_ns);
                let state = comes_again(&mut world);
                let dropped = |why| world.host.counted.dropped(why);
                (state, dropped(TG_SHED_STATELESS), dropped(TG_POLICED))
            };
            let everyone = |limit| Limited { addr: [0; 4], is_ipv6: false, bits: 0, limit };
            for (limits, expected) in [
                (vec![], (State::TimeWait, 1, 0)),
                (vec![everyone(tg_limit::exempt())], (State::HalfOpen, 0, 0)),
                (vec![everyone(tg_limit::new(1, 1))], (State::TimeWait, 0, 1)),
            ] {
                let met = comes_again_under(&limits);
                assert_eq!(met, expected, "{limits:?}, {hook:?}, {elsewhere}");
            }
        }
    }

    #[test]
    fn a_syn_that_comes_to_tcp_ends_time_wait() {
        for (hook, elsewhere) in [(Hook::Ip, false), (Hook::Driver, true)] {
            let mut world = in_time_wait("rst-syn", hook, elsewhere);
            assert_eq!(comes_again(&mut world), State::HalfOpen);
            assert_eq!(world.host.counted.time_waits_held, 0);
        }
    }

    /// `tg_syn_cookie_usable()` of the datapath. The kernel, which has no room either, drops it.
    #[test]
    fn a_syn_that_meets_time_wait_gets_no_cookie() {
        for (hook, elsewhere) in [(Hook::Ip, false), (Hook::Driver, true)] {
            let mut world = in_time_wait("no-syn-drop", hook, elsewhere);
            fill(&mut world);
            assert_eq!(comes_again(&mut world), State::None);
            assert_eq!(world.flows.get(FIRST).conn.cookie, None);
            let counted = &world.host.counted;
            assert_eq!((counted.dropped(TG_NO_COOKIE), counted.listen_drops), (1, 1));
        }
    }
}
