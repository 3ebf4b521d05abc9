/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* share.h on one set of inputs, to hold the native build and the BPF build together. */
#ifndef TG_AGREE_SHARE_H
#define TG_AGREE_SHARE_H

#include "share.h"

struct tg_share_case {
	struct tg_share share;
	struct tg_share_cell cells[TG_SHARE_ROWS];
	struct tg_key key;
	struct tg_tuple tuple;
	struct tg_rules rules;
	__u32 owner;
	__u32 random;
	__u32 reason; /* if it is let on */
	__u32 padding;
	__u64 now_ns;
};

struct tg_share_answers {
	struct tg_share share;
	struct tg_share_cell cells[TG_SHARE_ROWS];
	__u64 hash;
	__u32 is_on;
	__u32 source;
};

/* *a is all zero. */
TG_INLINE void tg_agree_share(const struct tg_share_case *c, struct tg_share_answers *a)
{
	a->share = c->share;
	a->cells[0] = c->cells[0];
	a->cells[1] = c->cells[1];
	a->hash = tg_share_hash(&c->key, &c->tuple, &c->rules, c->owner);
	a->is_on = tg_share_is_on(&a->share, c->now_ns);
	a->source = tg_share_step(&a->share, &c->rules, &a->cells[0], &a->cells[1], c->random,
	                          c->now_ns);
	if (a->source != TG_SOURCE_BEYOND)
		tg_share_end(&a->share, a->source, c->reason, c->now_ns);
}

#endif
