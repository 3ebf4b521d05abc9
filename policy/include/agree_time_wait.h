/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every decision about who holds TIME-WAIT on one set of inputs: what the native build and the BPF
 * build are held together with. Not used where packets pass.
 */
#ifndef TG_AGREE_TIME_WAIT_H
#define TG_AGREE_TIME_WAIT_H

#include "held.h"
#include "time_wait.h"

struct tg_tw_case {
	struct tg_held_block one;
	struct tg_held_block other;
	struct tg_held pair;
	struct tg_key key;
	__u64 now_ns;
	struct tg_held_segment segment;
	struct tg_tuple tuple;
	struct tg_tw_value value;
	struct tg_tw_value peer;
	struct tg_tw_option option;
	struct tg_tw_rules rules;
	__u32 offered;
	__u32 answered;
	__u32 confirmed;
	__u32 us;
	__u32 close;
	__u32 can_hold;
	__u32 must;
	__u32 blocks;
};

struct tg_tw_answers {
	struct tg_held_block one; /* after the pair was put */
	struct tg_held_block other;
	__u64 hash;
	__u32 index;
	__u32 room;
	__u32 put;
	__u32 judged; /* on the pair as it was put; TG_HELD_PASS where it was not */
	__u32 bytes;
	struct tg_tw_option written;
	struct tg_tw_value read;
	struct tg_tw_value name;
	struct tg_tw_value met;
	__u32 named;
	__u32 offer;
	__u32 answer;
	__u32 verdict;
	__u32 settled;
	__u32 end;
	__u32 promised;
};

TG_INLINE void tg_agree_time_wait(const struct tg_tw_case *c, struct tg_tw_answers *a)
{
	struct tg_held *cell;

	a->one = c->one;
	a->other = c->other;
	a->hash = tg_held_hash(&c->key, &c->pair);
	a->index = tg_held_index((__u32)a->hash, c->blocks);
	a->room = tg_held_can_hold(&a->one, &a->other, &c->pair, c->now_ns);
	a->put = tg_held_put(&a->one, &a->other, &c->pair, c->must, c->now_ns);
	cell = tg_held_get(&a->one, &a->other, &c->pair, c->now_ns);
	a->judged = cell ? tg_held_judge(cell, &c->segment) : TG_HELD_PASS;
	a->bytes = tg_tw_write(&c->value, &a->written);
	tg_tw_read(&c->option, &a->read);
	a->named = tg_tw_named(&c->tuple, &c->value);
	tg_tw_name(&c->tuple, c->offered, &a->name);
	tg_tw_simultaneous(&c->value, &c->peer, &a->met);
	a->offer = tg_tw_offer(&c->rules, c->can_hold);
	a->answer = tg_tw_answer(&c->rules, c->offered, c->can_hold);
	a->verdict = tg_tw_judge(&c->rules, c->offered, c->answered, c->can_hold);
	a->settled = tg_tw_settle(c->us, c->answered, c->confirmed);
	a->end = tg_tw_end(c->answered, c->us, c->close, c->rules.close_swap);
	a->promised = tg_tw_promise(c->us, c->answered, c->can_hold);
}

#endif
