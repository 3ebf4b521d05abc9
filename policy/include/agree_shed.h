/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One step of persistent dropping on one set of inputs, with all that it changes:
 * what the native build and the BPF build are held together with. Not used where
 * packets pass.
 */
#ifndef TG_AGREE_SHED_H
#define TG_AGREE_SHED_H

#include "shed.h"

struct tg_shed_case {
	struct tg_shed_rules rules;
	struct tg_key key;
	struct tg_tuple tuple;
	struct tg_shed_syn syn;
	struct tg_shed_block block; /* whichever is asked for */
	struct tg_shed_state state;
	struct tg_shed_monitor monitor;
	struct tg_bucket refusals;
	__u32 refusal_cost_ns;
	__u32 has_block;
	__u32 is_answered;
	__u32 is_taken;
	struct tg_auto_queue queue;
};

struct tg_shed_answers {
	struct tg_decision decision;
	__u32 wants_block;
	__u32 block_index;
	struct tg_shed_block block;
	struct tg_shed_state state;
	struct tg_shed_monitor monitor;
	struct tg_bucket refusals;
	__u32 answer; /* our number to this SYN, where it is hollow */
	__u32 padding;
};

TG_INLINE void tg_agree_shed(const struct tg_shed_case *c, struct tg_shed_answers *a)
{
	struct tg_shed_work work = {};

	a->block = c->block;
	a->state = c->state;
	a->monitor = c->monitor;
	a->refusals = c->refusals;
	if (c->rules.is_auto)
		tg_auto_begin(&c->rules, &a->state.control, &c->queue, c->syn.now_ns);
	tg_shed_begin(&work, &c->rules, &a->state, &c->key, &c->tuple, &c->syn);
	a->wants_block = work.wants_block;
	a->block_index = work.wants_block ? tg_shed_block_index(&work, &c->rules) : 0;
	a->decision = tg_shed_step(&work, &c->rules, &c->syn, &c->queue,
	                           c->has_block ? &a->block : (void *)0, &a->state, &a->monitor,
	                           &a->refusals, c->refusal_cost_ns, c->is_answered, c->is_taken);
	a->answer = tg_shed_answer(&c->key, &c->tuple, c->syn.isn);
}

#endif
