/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SYN stage, the same at every hook: from a parsed SYN to its decision.
 * What the hook then does with the packet is the hook's.
 */
#ifndef TG_SYN_STAGE_H
#define TG_SYN_STAGE_H

#include "../../policy/include/syn.h"
#include "claims.h"
#include "guard.h"
#include "socket.h"

/* A SYN in hand: everything that its decision was made from. */
struct tg_syn_stage {
	struct tg_packet *packet;
	struct tg_tcp_options options;
	struct tg_place at;
	struct tg_queues queues;
	struct tg_socket socket;
	struct tg_runtime *runtime;
	struct tg_bucket *refusals;
	struct tg_syn syn;
	__u64 now_ns;
	__u32 reason;
	__u32 padding;
};

/* A request may still be confirmed this long: SYN/ACKs are sent for 63 s by default. */
#define TG_REQUEST_LIFE_NS 64000000000ull
/* Keeps the line from bouncing between processors: a second more is enough to write. */
TG_INLINE void tg_watch(struct tg_runtime *rt, __u64 until_ns)
{
	if (rt->watch_until_ns + 1000000000ull < until_ns)
		rt->watch_until_ns = until_ns;
}

/* Does a half-open request of this very client stand already? */
TG_INLINE int tg_half_open(void *ctx, const struct tg_tuple *tuple)
{
	struct bpf_sock *sk = tg_lookup(ctx, tuple);
	int half_open = 0;

	if (sk) {
		half_open = sk->state == TCP_NEW_SYN_RECV;
		bpf_sk_release(sk);
	}
	return half_open;
}

/*
 * First half: what room there is. can_look_up is 0 at the TCP entry, where a SYN
 * that has a request already carries no listener and does not come here.
 * Returns whether a cookie is due, for which the hook then reads the options.
 */
TG_INLINE int tg_syn_assess(void *ctx, struct tg_syn_stage *s, int can_look_up)
{
	const struct tg_rules *rules = &s->at.guard->rules;
	__u32 claimed = 0;

	s->runtime = bpf_map_lookup_elem(&runtime, &s->at.index);
	s->refusals = bpf_map_lookup_elem(&refusals, &s->at.index);
	if (!s->runtime || !s->refusals)
		return 0;
	if (rules->room == TG_ROOM_RESERVE) {
		/* TCP is done with what went up from this processor before. */
		tg_settle_previous(s->at.index);
		/* Before the queues are read: a SYN that TCP sees in between counts twice, not
		 * never. */
		claimed = tg_claim(s->runtime, s->now_ns);
		s->syn.random = bpf_get_prandom_u32();
	}
	tg_read_queues(s->socket.tp, &s->queues);
	s->queues.claimed = claimed;
	s->syn.now_ns = s->now_ns;
	s->reason = tg_syn_room(rules, &s->queues, s->syn.random);
	if (can_look_up && tg_syn_asks_for_request(s->reason, &s->queues))
		s->syn.half_open = tg_half_open(ctx, &s->packet->tuple);
	return tg_syn_wants_cookie(rules, s->reason);
}

/* Can this SYN be answered with a cookie that keeps all of its options? */
TG_INLINE int tg_syn_cookie_usable(const struct tg_syn_stage *s)
{
	const struct tg_tcp_options *o = &s->options;

	if (!s->at.control->cookies_work || o->unanswerable || s->socket.tp->is_mptcp)
		return 0;
	return !tg_has_option(o, TG_OPTION_MSS) || o->mss >= TG_COOKIE_MSS_LEAST;
}

/* Second half: decides, counts, and remembers what later packets need. */
TG_INLINE __u32 tg_syn_conclude(struct tg_syn_stage *s)
{
	const struct tg_rules *rules = &s->at.guard->rules;
	struct tg_decision decision;

	if (!s->runtime || !s->refusals)
		return TG_PASS;
	decision = tg_syn_decide(rules, s->reason, &s->syn, s->refusals);
	tg_count(s->socket.slot, decision);
	if (decision.verdict != TG_PASS && rules->room == TG_ROOM_RESERVE)
		tg_settle(s->runtime);
	if (decision.verdict == TG_COOKIE)
		tg_watch(s->runtime, s->now_ns + TG_COOKIE_LIFE_NS);
	else if (tg_syn_overflow_possible(&s->queues))
		tg_watch(s->runtime, s->now_ns + TG_REQUEST_LIFE_NS);
	return decision.verdict;
}

#endif
