/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every decision of the policy on one set of inputs: what the native build and
 * the BPF build are held together with. Not used where packets pass.
 */
#ifndef TG_AGREE_H
#define TG_AGREE_H

#include "ack.h"
#include "cookie.h"
#include "fin.h"
#include "judge.h"
#include "shed_auto.h"
#include "syn.h"

struct tg_case {
	struct tg_rules rules;
	struct tg_queues queues;
	struct tg_syn syn;
	struct tg_bucket refusals;
	struct tg_ack ack;
	__u32 client_isn;
	struct tg_tuple tuple;
	struct tg_cookie_options options;
	__u32 epoch;
	struct tg_cookie_keys keys;
	__u64 age_ms;
	struct tg_overload overload;
	struct tg_waiting_block block;
	struct tg_manners_block manners;
	__u64 name;
	__u64 address_name;
	struct tg_speaks speaks;
	struct tg_inside inside;
	__u32 cookie; /* offered to tg_cookie_open */
	struct tg_fin fin;
	__u32 fin_said;   /* by the application */
	__u32 is_limited; /* something holds for the client's network */
	struct tg_limit limit;
	__u64 full_ns; /* of its bucket */
};

struct tg_answers {
	struct tg_decision syn;
	struct tg_bucket refusals;
	struct tg_decision ack;
	struct tg_decision fin;
	struct tg_cookie made;
	struct tg_cookie_options opened;     /* from the cookie that was offered */
	struct tg_cookie_options round_trip; /* from the cookie that was made */
	__u32 overflow_possible;
	__u32 stale;
	__u32 opened_ok;
	__u32 round_trip_ok;
	__u32 room;
	__u32 asks_for_request;
	__u32 wants_cookie;
	__u32 source;
	__u64 watch_ns;
	__u64 full_ns;
	struct tg_auto_queue view;
	struct tg_queues queues; /* as auto leaves them */
	struct tg_judging judging;
	__u32 answer; /* enum tg_answer */
	struct tg_overload overload;
	struct tg_waiting_block block;
	struct tg_manners_block manners;
	__u64 name;         /* of the tuple, with the first key */
	__u64 address_name; /* of its address */
};

/* What is asked first of a SYN. *a is all zero. */
TG_INLINE void tg_agree_source(const struct tg_case *c, struct tg_answers *a)
{
	a->full_ns = c->full_ns;
	a->source = c->syn.source;
	if (c->is_limited)
		a->source = tg_limit_take(&c->limit, &a->full_ns, c->syn.now_ns);
}

TG_INLINE struct tg_crowd tg_agree_crowd(const struct tg_case *c, struct tg_answers *a)
{
	struct tg_crowd crowd = {
		.overload = &a->overload,
		.block = &a->block,
		.manners = &a->manners,
		.speaks = &c->speaks,
		.inside = &c->inside,
		.name = c->name,
		.address_name = c->address_name,
		.isn = c->client_isn,
	};

	return crowd;
}

/* The SYN stage's first part, of what that left. */
TG_INLINE void tg_agree_syn_begin(const struct tg_case *c, struct tg_answers *a)
{
	struct tg_crowd crowd = tg_agree_crowd(c, a);
	struct tg_syn syn = c->syn;

	syn.source = a->source;
	a->queues = c->queues;
	a->overload = c->overload;
	a->block = c->block;
	a->manners = c->manners;
	tg_syn_judge_begin(&c->rules, &a->queues, &syn, &crowd, &a->judging);
}

/* Its second. */
TG_INLINE void tg_agree_syn_room(const struct tg_case *c, struct tg_answers *a)
{
	struct tg_crowd crowd = tg_agree_crowd(c, a);
	struct tg_syn syn = c->syn;

	syn.source = a->source;
	tg_syn_judge_room(&c->rules, &a->queues, &syn, &crowd, &a->judging);
}

/* And its last. */
TG_INLINE void tg_agree_syn_end(const struct tg_case *c, struct tg_answers *a)
{
	struct tg_crowd crowd = tg_agree_crowd(c, a);
	struct tg_syn syn = c->syn;

	syn.source = a->source;
	a->refusals = c->refusals;
	a->syn = tg_syn_judge_end(&c->rules, &syn, &a->refusals, &crowd, &a->judging);
	a->answer = syn.answer;
}

/* All else, of what that left. */
TG_INLINE void tg_agree_rest(const struct tg_case *c, struct tg_answers *a)
{
	struct tg_syn syn = c->syn;

	syn.answer = (__u16)a->answer;
	syn.source = a->source;
	a->name = tg_waiting_name(&c->keys.current, &c->tuple, c->client_isn);
	a->address_name = tg_manners_name(&c->keys.current, &c->tuple, c->syn.sends_again);
	a->room = tg_syn_reason(&c->rules, &a->queues, &syn);
	a->asks_for_request = tg_syn_asks_for_request(a->room, &a->queues);
	a->wants_cookie = tg_syn_wants_cookie(&c->rules, a->room, &syn);
	a->view = tg_auto_view(&c->rules, &a->queues, a->room);
	a->ack = tg_ack_decide(&c->rules, &c->queues, &c->ack);
	a->fin = tg_fin_decide(tg_fin_rule_of(c->rules.fin, c->fin_said), &c->fin);
	a->made = tg_cookie_make(&c->keys.current, &c->tuple, c->client_isn, c->epoch, &c->options);
	a->opened_ok =
		tg_cookie_open(&c->keys, &c->tuple, c->client_isn, c->cookie, c->epoch, &a->opened);
	a->round_trip_ok = tg_cookie_open(&c->keys, &c->tuple, c->client_isn, a->made.isn, c->epoch,
	                                  &a->round_trip);
	a->overflow_possible = tg_syn_overflow_possible(&c->queues);
	a->watch_ns = tg_syn_watch_ns(a->syn, &a->queues, a->judging.phase);
	a->stale = tg_reservation_stale(&c->rules, &c->queues, c->age_ms);
}

#endif
