/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* accepts.h on one set of inputs, to hold the native build and the BPF build together. */
#ifndef TG_AGREE_ACCEPTS_H
#define TG_AGREE_ACCEPTS_H

#include "accepts.h"

struct tg_accepts_case {
	struct tg_accepts accepts;
	struct tg_rules rules;
	struct tg_queues queues;
	__u32 reason;
	__u32 padding;
	__u64 now_ns;
};

struct tg_accepts_answers {
	struct tg_accepts accepts;
	__u64 asks;
};

/* *a is all zero. */
TG_INLINE void tg_agree_accepts(const struct tg_accepts_case *c, struct tg_accepts_answers *a)
{
	a->accepts = c->accepts;
	a->asks = tg_accepts_asks(&c->accepts, c->reason, c->now_ns);
	tg_accepts_look(&a->accepts, &c->rules, &c->queues, c->reason, c->now_ns);
}

#endif
