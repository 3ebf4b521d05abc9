/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SYN stage, the same at every hook: from a parsed SYN to its decision.
 * What the hook then does with the packet is the hook's.
 */
#ifndef TG_SYN_STAGE_H
#define TG_SYN_STAGE_H

#include "../../policy/include/notice.h"
#include "accepts.h"
#include "claims.h"
#include "guard.h"
#include "hand.h"
#include "log.h"
#include "mptcp.h"
#include "overload_stage.h"
#include "share_stage.h"
#include "socket.h"

/* A SYN that is judged: by pointers, which only the stack may hold. */
struct tg_syn_stage {
	struct tg_packet *packet;
	const struct tg_place *at;
	struct tg_socket socket;
	struct tg_watch *watch; /* where the rules are auto's */
	struct tg_hand *hand;
};

/*
 * Is it this one connection that is refused? Who is shed has no socket yet, and the reason in the
 * hand is of a packet before.
 */
TG_INLINE __u32 tg_syn_is_of_one(const struct tg_syn_stage *s)
{
	return !s->socket.tp || tg_notice_is_of_one(s->hand->reason);
}

/* Keeps the line from bouncing between processors: a second more is enough to write. */
TG_INLINE void tg_prolong(__u64 *watch_until_ns, __u64 until_ns)
{
	if (*watch_until_ns + 1000000000ull < until_ns)
		*watch_until_ns = until_ns;
}

/* What answers a hollow SYN/ACK is met at the driver, or at the entry of IP. */
TG_INLINE void tg_syn_expect_hollow(__u64 until_ns)
{
	__u32 zero = 0;
	__u64 *hollow = bpf_map_lookup_elem(&hollow_until_ns, &zero);

	if (hollow)
		tg_prolong(hollow, until_ns);
}

/*
 * What stands on this very client's addresses and ports already. To anything that is no listener,
 * TIME-WAIT too, the ACK that brings a cookie would go instead of to the listener, and the one that
 * answers a hollow SYN/ACK: neither then.
 */
TG_INLINE void tg_syn_look_up(void *ctx, struct tg_syn_stage *s)
{
	__u32 state = tg_state_of(ctx, &s->packet->tuple);

	s->hand->syn.taken = tg_is_taken(state);
	s->hand->syn.half_open |= tg_is_answered(state);
}

/*
 * What is left of the reason against it, where that is a TIME-WAIT which the kernel lets it take
 * over. Global, as tg_shed is: the verifier walks what follows but once.
 */
__noinline __u32 tg_syn_take_over(struct tg_rules *rules, struct tg_queues *queues,
                                  struct tg_syn *syn, __u32 reason)
{
	if (!rules || !queues || !syn || !tg_syn_takes_over(rules, queues, syn, reason))
		return reason;
	syn->half_open = 1;
	return tg_syn_room_of_taken(syn);
}

/* auto, once it is known what room there is. */
TG_INLINE void tg_syn_watch(struct tg_syn_stage *s)
{
	s->watch->reason = s->hand->reason;
	if (tg_overload_asks(s->watch->phase, tg_syn_has_room(s->hand->reason)))
		tg_watch_find(s->packet, s->watch);
	tg_watch_meet(s->watch);
	s->hand->reason = s->watch->reason;
	s->hand->syn.answer = s->watch->client.answer;
}

/* auto, where it is held off for its network's sake. */
TG_INLINE void tg_syn_hold_off(struct tg_syn_stage *s)
{
	/* The clock by which the others at its address are told. */
	struct tg_watch *w = tg_watch_of(s->at, s->socket.slot, s->packet->seq, bpf_ktime_get_ns());
	struct tg_overload *o = tg_overload_of(s->socket.slot);

	if (!w || !o)
		return;
	tg_syn_meet_held(&s->hand->syn, o, &w->client);
	w->client.sends_again = tg_system_sends_again(s->packet->hops, s->packet->tcp_header_bytes);
	tg_watch_tell(s->packet, w);
	s->hand->syn.answer = w->client.answer;
}

/*
 * May something of this client's stand here that its SYN is not to be refused for? What Fast Open
 * has begun is in neither queue.
 */
TG_INLINE int tg_syn_may_stand(const struct tg_syn_stage *s)
{
	if (tg_syn_asks_for_request(s->hand->reason, &s->hand->queues))
		return 1;
	return !tg_syn_has_room(s->hand->reason) &&
	       s->socket.tp->inet_conn.icsk_accept_queue.fastopenq.max_qlen;
}

/*
 * reserv, before the queues are read: a SYN that TCP sees in between counts twice, not never.
 * Returns how many are claimed.
 */
TG_INLINE __u32 tg_syn_claim(struct tg_syn_stage *s, struct tg_claims *own)
{
	__u32 index = s->at->guard->claims_index;

	/* TCP is done with what went up from this processor before. */
	tg_settle_previous(index);
	tg_settle_all(index, s->hand->syn.now_ns);
	s->hand->syn.random = bpf_get_prandom_u32();
	return tg_claim(own, s->hand->syn.now_ns);
}

/* auto, before room is looked for. */
TG_INLINE void tg_syn_see(struct tg_syn_stage *s)
{
	struct tg_queues *queues = &s->hand->queues;

	if (tg_watch_see_window(s->watch)) {
		tg_watch_see_queue(s->watch, queues);
		tg_watch_turn_window(s->watch, queues->listen_len + queues->syn_len);
	}
	tg_watch_begin(s->watch, queues);
}

/* auto, to one who finds no room, once it is known what stands there: in which form? */
TG_INLINE void tg_syn_tell(struct tg_syn_stage *s)
{
	if (s->watch && tg_syn_is_told(s->hand->reason, &s->hand->syn, &s->watch->client)) {
		tg_watch_keep(s->watch);
		tg_watch_tell(s->packet, s->watch);
		s->hand->syn.answer = s->watch->client.answer;
	} else if (tg_syn_is_held_off(&s->at->guard->rules, s->hand->reason, &s->hand->syn)) {
		tg_syn_hold_off(s);
	}
}

/*
 * First half: what room there is. can_look_up is 0 at the TCP entry, which is told of
 * no SYN that has a request already.
 * Returns whether a cookie is due, for which the hook then reads the options.
 */
TG_INLINE int tg_syn_assess(void *ctx, struct tg_syn_stage *s, int can_look_up)
{
	const struct tg_rules *rules = &s->at->guard->rules;
	__u32 claimed = 0, index = s->at->index, claims_index = s->at->guard->claims_index;
	struct tg_claims *own;
	int wants_cookie, looks_up;

	own = bpf_map_lookup_elem(&claims, &claims_index);
	if (!own)
		return 0;
	if (tg_share_concerns(rules, s->hand->syn.source) &&
	    tg_share_turn_step(s->at->active, index, s->socket.slot, s->hand->syn.now_ns))
		s->hand->syn.source = tg_share_source(s->packet, s->at->active, index,
		                                      s->socket.slot, s->hand->syn.now_ns);
	if (rules->room == TG_ROOM_RESERVE)
		claimed = tg_syn_claim(s, own);
	tg_read_queues(s->socket.tp, &s->hand->queues);
	s->hand->queues.claimed = claimed;
	if (tg_syn_is_watched(rules, &s->hand->syn))
		s->watch = tg_watch_of(s->at, s->socket.slot, s->packet->seq, s->hand->syn.now_ns);
	if (s->watch)
		tg_syn_see(s);
	s->hand->reason = tg_syn_reason(rules, &s->hand->queues, &s->hand->syn);
	s->hand->syn.half_open = tg_syn_needs_no_place(s->hand->reason, s->hand->joins);
	if (s->watch)
		tg_syn_watch(s);
	wants_cookie = tg_syn_wants_cookie(rules, s->hand->reason, &s->hand->syn);
	looks_up = wants_cookie || tg_syn_may_stand(s);
	if (can_look_up && looks_up) {
		tg_syn_look_up(ctx, s);
		s->hand->reason = tg_syn_take_over(&s->at->guard->rules, &s->hand->queues,
		                                   &s->hand->syn, s->hand->reason);
	}
	tg_syn_tell(s);
	/*
	 * Only now is it known that this answer is due. The client counts as told already, though
	 * the SYN be left to what stands; and one that a RST is due to is not looked up for it.
	 */
	if (can_look_up && !looks_up && tg_syn_wants_hollow(rules, &s->hand->syn))
		tg_syn_look_up(ctx, s);
	return wants_cookie;
}

/* No more than the application has asked for (TCP_MAXSEG), as tcp_mss_clamp(). */
TG_INLINE __u32 tg_syn_mss_clamp(const struct tg_syn_stage *s, __u32 mss)
{
	__u32 asked = s->socket.tp->rx_opt.user_mss;

	return asked && asked < mss ? asked : mss;
}

/*
 * Can this SYN be answered with a cookie that keeps all of its options? Its ACK will have as many
 * VLAN tags, and bpf_sk_assign_tcp_reqsk() finds no TCP behind one (it goes by skb->protocol): the
 * kernel takes one out before the IP entry, so that the driver sees one more.
 */
TG_INLINE int tg_syn_cookie_usable(const struct tg_syn_stage *s, __u32 tags_most)
{
	const struct tg_tcp_options *o = &s->hand->options;
	__u32 least;

	if (s->packet->l3_offset > sizeof(struct ethhdr) + tags_most * sizeof(struct tg_vlan))
		return 0;
	/* Without net.ipv4.tcp_syncookies the kernel lets nobody in by one, not by ours either. */
	if (!s->at->control->cookies_work || !s->hand->queues.syncookies || s->hand->syn.taken ||
	    (s->at->control->cookies_ipv4 && s->packet->tuple.is_ipv6) || o->unanswerable ||
	    tg_is_mptcp(s->socket.tp))
		return 0;
	least = tg_cookie_mss_least(s->packet->tuple.is_ipv6);
	return tg_syn_mss_clamp(s, tg_has_option(o, TG_OPTION_MSS) ? o->mss : least) >= least;
}

TG_INLINE void tg_syn_claim_end(const struct tg_syn_stage *s, __u32 verdict)
{
	__u32 index = s->at->guard->claims_index;
	struct tg_claims *own = bpf_map_lookup_elem(&claims, &index);

	if (own)
		tg_claim_end(own, verdict == TG_PASS);
}

/* Second half: decides, counts, and remembers what later packets need. */
TG_INLINE __u32 tg_syn_conclude(struct tg_syn_stage *s)
{
	const struct tg_rules *rules = &s->at->guard->rules;
	__u32 index = s->at->index;
	struct tg_decision decision;
	struct tg_bucket *bucket;
	__u64 *until_ns, watch_ns;

	until_ns = bpf_map_lookup_elem(&watch_until_ns, &index);
	bucket = bpf_map_lookup_elem(&refusals, &index);
	if (!until_ns || !bucket)
		return TG_PASS;
	if (s->watch) {
		s->watch->half_open = s->hand->syn.half_open;
		tg_client_settle(&s->watch->client, s->hand->syn.cookie_usable);
		s->hand->syn.answer = s->watch->client.answer;
	} else if (rules->is_auto && s->hand->reason == TG_EXEMPT) {
		tg_watch_pass_by(s->socket.slot);
	}
	decision = tg_syn_decide(rules, s->hand->reason, &s->hand->syn, bucket);
	if (s->watch) {
		tg_client_part(&s->watch->client, decision);
		tg_watch_part(s->watch);
	}
	tg_count(s->socket.slot, decision);
	tg_log_refusal(s->packet, index, rules, decision, s->hand->syn.now_ns);
	if (tg_share_concerns(rules, s->hand->syn.source))
		tg_share_part(s->socket.slot, s->hand->syn.source,
		              tg_syn_lack(s->hand->reason, decision), s->hand->syn.now_ns);
	tg_accepts_meet(s->socket.slot, rules, &s->hand->queues,
	                tg_syn_of_room(s->hand->reason, decision), s->hand->syn.now_ns);
	if (rules->room == TG_ROOM_RESERVE)
		tg_syn_claim_end(s, decision.verdict);
	watch_ns =
		tg_syn_watch_ns(decision, &s->hand->queues, s->watch ? s->watch->phase : TG_CALM);
	if (!watch_ns)
		return decision.verdict;
	if (decision.verdict == TG_HOLLOW)
		tg_syn_expect_hollow(s->hand->syn.now_ns + watch_ns);
	tg_prolong(until_ns, s->hand->syn.now_ns + watch_ns);
	return decision.verdict;
}

#endif
