// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ACK stage: a segment that may complete a handshake.

use tidegate_client::Flags;
use tidegate_client::segment::is_before;
use tidegate_policy::raw::{
    TG_ACK_BEHIND, TG_ACK_COOKIE, TG_ACK_HOLLOW, TG_ACK_KERNEL, TG_ACK_KERNEL_COOKIE,
    TG_ACK_NO_COOKIE, TG_ACK_RESET, TG_ADMIT, TG_COOKIE_VALID, TG_HANDSHAKE, TG_PASS, TG_RESET,
    tg_ack, tg_decision, tg_rules,
};
use tidegate_policy::{ack_is_behind, ack_leaves, ack_tells, decide_ack};

use super::conn::{Conn, Giver};
use super::syn::hollow_isn;
use super::{Host, State};
use crate::flow::Flow;
use crate::hook::Hook;
use crate::packet::Packet;
use crate::wire::Work;

impl Host {
    /// A segment for a half-open request (Shukla, section 4.1.1: all of them take this way, data and
    /// FIN too).
    pub(super) fn segment_of_request(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) {
        work.comes_to_tcp(&self.costs);
        let conn = &flow.conn;
        let window_end = conn.expected.wrapping_add(self.profile.window());
        let in_window = !is_before(packet.seq, conn.expected) && is_before(packet.seq, window_end);
        if packet.flags.has(Flags::RST) {
            if in_window {
                self.remove_request(flow, work);
            }
            return;
        }
        let acks = packet.ack == conn.isn.wrapping_add(1);
        let mut ack = tg_ack {
            is_request: 1,
            acceptable: u32::from(acks && in_window),
            bare: u32::from(packet.is_bare()),
            cookie: TG_ACK_NO_COOKIE,
            ..tg_ack::default()
        };
        let decision = self.judge_ack(&mut ack, flow, packet.seq, work.now_ns());
        if ack.acceptable == 0 {
            // tcp_check_req(): out of the window gets a challenge, a wrong number a RST.
            if !acks {
                self.refuse_at(Hook::Tcp, flow, packet, work);
            }
        } else if decision.reason == TG_HANDSHAKE {
            self.leave_syn_queue(&flow.conn);
            self.make_child(flow, packet, work);
        } else {
            self.overflow(decision, flow, packet, work);
        }
    }

    /// The listen queue has no place for it.
    fn overflow(
        &mut self,
        decision: tg_decision,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) {
        work.tcp_takes(self.costs.overflow_ns);
        self.count_overflow(decision);
        // What a guard passes meets the kernel's own rule.
        let is_passed = self.guard.is_some() && decision.verdict == TG_PASS;
        if decision.verdict == TG_RESET || (is_passed && self.kernel.abort_on_overflow) {
            self.refuse_at(Hook::Tcp, flow, packet, work);
            self.remove_request(flow, work);
        } else {
            flow.conn.was_acked = true;
        }
    }

    /// The kernel counts both in tcp_v4_syn_recv_sock(), before tcp_check_req() asks
    /// tcp_abort_on_overflow. What a guard refuses does not come so far: it sets the SYN bit, which
    /// tcp_check_req() answers first, and cookies it answers itself.
    fn count_overflow(&mut self, decision: tg_decision) {
        if self.guard.is_none() || decision.verdict == TG_PASS {
            self.counted.listen_overflows += 1;
            self.counted.listen_drops += 1;
        }
    }

    /// A segment of a connection that stands: the guard sees in the first data who speaks first.
    pub(super) fn hear(&mut self, conn: &Conn, packet: &Packet) {
        let is_heard = conn.requests > 0 || conn.served > 0 || conn.state == State::Closing;
        let is_first = !is_heard && packet.length > 0 && packet.seq == conn.expected;
        if let (true, Some(guard)) = (is_first, &mut self.guard) {
            guard.hear(packet.ack != conn.isn.wrapping_add(1));
        }
    }

    /// The guard's rules, which then have whether the client is exempt, or the kernel's own.
    fn judge_ack(&mut self, ack: &mut tg_ack, flow: &Flow, seq: u32, now_ns: u64) -> tg_decision {
        let queues = self.listener.queues_at_ack(self.profile, &self.kernel);
        if let Some(guard) = &mut self.guard {
            ack.exempt = guard.exempts(flow).into();
            let decision = guard.decide_ack(&queues, ack, seq, now_ns);
            self.counted.judge(decision);
            return decision;
        }
        let refusal = if self.kernel.abort_on_overflow { TG_ACK_RESET } else { TG_ACK_KERNEL };
        let kernel = tg_rules { ack: refusal, ..tg_rules::default() };
        decide_ack(&kernel, &queues, ack)
    }

    /// Whether it answers a SYN/ACK of the guard's behind which there is nothing: the RST comes from the
    /// driver, where SYNs are judged there, else from the entry of IP.
    pub(super) fn resets_hollow(
        &mut self,
        flow: &mut Flow,
        packet: &Packet,
        work: &mut Work<'_>,
    ) -> bool {
        let Some(guard) = &self.guard else { return false };
        let is_auto = guard.rules.is_auto != 0;
        let hook = if guard.hook == Hook::Driver { Hook::Driver } else { Hook::Ip };
        let is_hollow = packet.ack == hollow_isn(packet.seq.wrapping_sub(1)).wrapping_add(1);
        if !is_auto || !is_hollow || packet.flags.has(Flags::RST) {
            return false;
        }
        work.took.add(&hook.way_to(&self.costs));
        let is_bare = packet.is_bare();
        let mut ack = tg_ack {
            bare: is_bare.into(),
            cookie: TG_ACK_HOLLOW,
            was_told: std::mem::replace(&mut flow.was_told, is_bare).into(),
            ..tg_ack::default()
        };
        let decision = self.judge_ack(&mut ack, flow, packet.seq, work.now_ns());
        if decision.verdict == TG_RESET {
            work.refuse(flow, packet);
        }
        work.ends_at(hook, self.profile, &self.costs);
        true
    }

    /// A segment that belongs to nothing: perhaps it brings a cookie back.
    pub(super) fn stray(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        if self.resets_hollow(flow, packet, work) {
            return;
        }
        let cookie = brought(&flow.conn, packet, work.now_ns());
        if cookie != TG_ACK_NO_COOKIE {
            return self.cookie_back(cookie, flow, packet, work);
        }
        work.comes_to_tcp(&self.costs);
        if !packet.flags.has(Flags::RST) {
            self.refuse_at(Hook::Tcp, flow, packet, work);
        }
    }

    /// Where a cookie that comes back is looked at, the kernel's too: at the entry of IP by a guard,
    /// unless its mechanisms are TCP's, as in Shukla's kernel; else by TCP.
    fn looks_at_cookies(&self) -> Hook {
        match &self.guard {
            Some(guard) if guard.hook != Hook::Tcp => Hook::Ip,
            _ => Hook::Tcp,
        }
    }

    fn cookie_back(&mut self, cookie: u32, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        let place = self.looks_at_cookies();
        if place == Hook::Ip {
            work.took.add(&place.way_to(&self.costs));
        } else {
            work.comes_to_tcp(&self.costs);
            work.tcp_takes(self.costs.cookie_ns);
        }
        let decision = self.judge_cookie(cookie, flow, packet, work.now_ns());
        let comes_to_tcp = matches!(decision.verdict, TG_ADMIT | TG_PASS);
        if comes_to_tcp && place == Hook::Ip {
            work.took.add(&place.way_from(&self.costs));
            work.tcp_takes(self.costs.cookie_ns);
        }
        if matches!(decision.reason, TG_COOKIE_VALID | TG_HANDSHAKE) {
            flow.conn.cookie = None;
            return self.make_child(flow, packet, work);
        }
        self.count_overflow(decision);
        if decision.verdict == TG_RESET {
            // All that is kept of a cookie is that its client was told.
            self.refuse_at(place, flow, packet, work);
        }
        if !comes_to_tcp {
            work.ends_at(place, self.profile, &self.costs);
        }
    }

    fn judge_cookie(
        &mut self,
        cookie: u32,
        flow: &mut Flow,
        packet: &Packet,
        now_ns: u64,
    ) -> tg_decision {
        let mut ack = tg_ack {
            bare: u32::from(packet.is_bare()),
            cookie,
            was_told: flow.conn.was_told.into(),
            ..tg_ack::default()
        };
        if let Some(guard) = &self.guard {
            let rules = guard.rules;
            let decision = self.judge_ack(&mut ack, flow, packet.seq, now_ns);
            flow.conn.was_told = ack_tells(&ack, decision);
            if ack_leaves(&rules, &ack, decision) {
                flow.conn.left_at_ns = Some(now_ns);
            } else if flow.conn.was_told {
                flow.conn.left_at_ns = None;
            }
            return decision;
        }
        // tcp_abort_on_overflow is not for cookies: a full queue drops their ACKs in silence.
        let queues = self.listener.queues_at_ack(self.profile, &self.kernel);
        decide_ack(&tg_rules::default(), &queues, &ack)
    }

    /// The handshake is complete: the connection goes to the listen queue, and what the segment
    /// brought to the connection.
    fn make_child(&mut self, flow: &mut Flow, packet: &Packet, work: &mut Work<'_>) {
        work.tcp_takes(self.costs.child_ns);
        self.agree(flow, packet);
        let conn = &mut flow.conn;
        conn.state = State::Queued;
        if conn.again == 0 && conn.sent_at_ns > 0 {
            let took_us = work.began_ns.saturating_sub(conn.sent_at_ns) / 1000;
            conn.round_trip_us = took_us.clamp(1, 60_000_000) as u32;
        }
        conn.again = 0;
        conn.begin_flight(self.profile.first_flight());
        conn.takes_window(packet);
        self.listener.queue.push_back(work.place);
        if packet.length > 0 || packet.flags.has(Flags::FIN) {
            self.established(flow, packet, work);
        }
    }
}

/// What a segment brings back that belongs to nothing (`enum tg_ack_cookie`): a cookie is known by both of its
/// numbers, so that a FIN behind a request that was lost brings none.
fn brought(conn: &Conn, packet: &Packet, now_ns: u64) -> u32 {
    let Some(giver) = conn.cookie else { return TG_ACK_NO_COOKIE };
    let answers = packet.ack == conn.isn.wrapping_add(1) && !packet.flags.has(Flags::RST);
    let is_behind = |at_ns| ack_is_behind(now_ns - at_ns, packet.flags.has(Flags::FIN));
    match giver {
        _ if !answers => TG_ACK_NO_COOKIE,
        Giver::Guard if packet.seq == conn.expected => TG_ACK_COOKIE,
        Giver::Kernel if packet.seq == conn.expected => TG_ACK_KERNEL_COOKIE,
        _ if conn.left_at_ns.is_some_and(is_behind) => TG_ACK_BEHIND,
        _ => TG_ACK_NO_COOKIE,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_client::{Arrivals, Os, Segment};
    use tidegate_policy::mechanism;
    use tidegate_policy::police::Limited;
    use tidegate_policy::raw::{
        TG_COOKIE_NO_ROOM, TG_DROP, TG_HOLLOW_ANSWERED, TG_OVERFLOW_OTHER, TG_OVERFLOW_SYNACK_ACK,
        tg_limit,
    };

    use super::super::Counted;
    use super::*;
    use crate::machine::Machine;
    use crate::setup::{Load, Setup};
    use crate::world::{Report, World};

    /// A crowd three times too large, from far enough away that ACKs find the listen queue full.
    fn crowd(machine: Machine, mechanism: Option<&str>, abort_on_overflow: bool) -> Report {
        limited_crowd(machine, mechanism, abort_on_overflow, vec![])
    }

    /// The same, where networks are policed or exempt.
    fn limited_crowd(
        machine: Machine,
        mechanism: Option<&str>,
        abort_on_overflow: bool,
        limits: Vec<Limited>,
    ) -> Report {
        let guard = mechanism.map(|name| (mechanism::parse(name).unwrap(), Hook::Ip));
        let mut setup = Setup::one_packet(machine, guard, Os::named("linux-2.4").unwrap());
        setup.kernel.abort_on_overflow = abort_on_overflow;
        setup.limits = limits;
        setup.way.delay.mean_ms = 10.0;
        setup.crowd.load = Load::Open(Arrivals::poisson(60_000.0, 1));
        setup.crowd.duration_ns = 500_000_000;
        World::new(setup).run(&mut |_| {})
    }

    /// tcp_v4_syn_recv_sock() counts before tcp_check_req() looks at the sysctl.
    #[test]
    fn what_the_kernel_refuses_at_the_ack_it_counts_as_overflow_and_as_drop() {
        for aborts in [false, true] {
            // Linux 2.4 counts no SYNs, so that these are ACKs alone.
            let report = crowd(Machine::xeon(), None, aborts);
            let Counted { listen_overflows, listen_drops, .. } = report.counted;
            assert!(listen_overflows > 1000, "{listen_overflows}");
            assert_eq!(listen_drops, listen_overflows);
            assert_eq!(report.outcome.errors.reset > 1000, aborts);
        }
        let counted = crowd(Machine::xeon(), Some("default"), false).counted;
        let told = [TG_OVERFLOW_SYNACK_ACK, TG_OVERFLOW_OTHER].map(|why| counted.dropped(why));
        assert_eq!(counted.listen_drops, told.iter().sum::<u64>(), "a guard that lets it decide");
        assert_eq!(counted.listen_overflows, counted.listen_drops);
    }

    /// A segment with the SYN bit is answered before anything is counted, and a cookie by the guard.
    #[test]
    fn what_a_guard_refuses_at_the_ack_the_kernel_counts_nowhere() {
        for (machine, mechanism) in [(Machine::xeon(), "abort"), (Machine::today(), "no-syn-drop")]
        {
            let report = crowd(machine, Some(mechanism), false);
            assert!(report.outcome.errors.reset > 1000, "{:?}", report.outcome.errors);
            let Counted { listen_overflows, listen_drops, .. } = report.counted;
            assert_eq!((listen_overflows, listen_drops), (0, 0), "{mechanism}");
        }
    }

    /// What a client says right behind its ACK is on its way when the RST to that goes out: it is neither told
    /// twice, nor let in where a place has come free meanwhile.
    #[test]
    fn who_is_refused_when_its_cookie_comes_back_is_told_once() {
        let Report { counted, outcome, .. } = crowd(Machine::today(), Some("no-syn-drop"), false);
        let judged = |why: u32, what: u32| counted.judged.packets[why as usize][what as usize];
        let told = judged(TG_COOKIE_NO_ROOM, TG_RESET);
        let behind = judged(TG_HOLLOW_ANSWERED, TG_DROP);
        assert!(told > 1000, "{told}");
        assert!(behind.abs_diff(told) * 20 < told, "{behind} behind {told}");
        // Some hear of it when the time that counts is over.
        assert!(told <= outcome.errors.reset, "{told}: {:?}", outcome.errors);
    }

    /// Windows sends its FIN, though the request before it was lost: nobody who has left is let in by it, for
    /// __cookie_v4_check() and the guard's own go by both numbers.
    #[test]
    fn a_cookie_is_brought_back_by_what_comes_first_and_by_nothing_behind_it() {
        let cookie = Some(Giver::Guard);
        let mut conn = Conn { isn: 70, expected: 20, cookie, ..Conn::default() };
        let answers =
            |seq, ack, flags| Packet::of(0, &Segment { flags, seq, ack, ..Segment::default() });
        let says = |seq, flags| answers(seq, 71, flags);
        let (request, fin) = (says(20, Flags::ACK), says(81, Flags::ACK | Flags::FIN));
        let after_s =
            |s: u64, conn: &Conn, packet: Packet| brought(conn, &packet, s * 1_000_000_000);
        assert_eq!(after_s(1, &conn, request), TG_ACK_COOKIE);
        assert_eq!(after_s(1, &conn, answers(20, 72, Flags::ACK)), TG_ACK_NO_COOKIE);
        assert_eq!(after_s(1, &conn, says(20, Flags::RST)), TG_ACK_NO_COOKIE);
        assert_eq!(after_s(1, &conn, fin), TG_ACK_NO_COOKIE, "the kernel resets it");
        conn.left_at_ns = Some(1_000_000_000);
        assert_eq!(after_s(10, &conn, request), TG_ACK_COOKIE);
        assert_eq!(after_s(10, &conn, says(81, Flags::ACK)), TG_ACK_BEHIND, "its second segment");
        assert_eq!(after_s(1, &conn, fin), TG_ACK_BEHIND, "that was all of the request");
        assert_eq!(after_s(2, &conn, fin), TG_ACK_NO_COOKIE, "it has given up");
    }

    fn everyone(limit: tg_limit) -> Vec<Limited> {
        vec![Limited { addr: [0; 4], is_ipv6: false, bits: 0, limit }]
    }

    /// The kernel drops what finds no room, in silence.
    #[test]
    fn who_is_exempt_is_not_refused_at_the_ack() {
        let exempt = everyone(tg_limit::exempt());
        let Report { counted, outcome, .. } =
            limited_crowd(Machine::xeon(), Some("abort"), false, exempt);
        assert!(counted.listen_overflows > 1000, "{}", counted.listen_overflows);
        assert_eq!(outcome.errors.reset, 0, "{:?}", outcome.errors);
    }

    /// A network that is exempt is the kernel's, and so are its cookies, beside a guard with its own.
    #[test]
    fn a_cookie_is_judged_as_whose_it_is() {
        let counted = |limits: Vec<Limited>| {
            let guard = Some((mechanism::parse("no-syn-drop").unwrap(), Hook::Ip));
            let mut setup = Setup::one_packet(Machine::today(), guard, Os::linux());
            (setup.kernel.syncookies, setup.limits) = (2, limits);
            setup.crowd.duration_ns = 100_000_000;
            let judged = World::new(setup).run(&mut |_| {}).counted.judged.packets;
            let [ours, kernels] = [(TG_COOKIE_VALID, TG_ADMIT), (TG_HANDSHAKE, TG_PASS)]
                .map(|(why, what)| judged[why as usize][what as usize]);
            (ours, kernels > 100)
        };
        assert_eq!(counted(everyone(tg_limit::exempt())), (0, true));
    }
}
