/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every decision about notices on one set of inputs: what the native build and the BPF build are
 * held together with. Not used where packets pass.
 */
#ifndef TG_AGREE_NOTICE_H
#define TG_AGREE_NOTICE_H

#include "notice.h"

struct tg_notice_case {
	__u64 stands_ns;
	__u64 now_ns;
	struct tg_rules rules;
	struct tg_notice_rst rst;
	struct tg_target target;
	__u32 spare_bytes;
	__u32 longest_ms;
	__u32 random;
	__u32 is_of_one;
};

struct tg_notice_answers {
	__u64 until_ns;
	struct tg_target target;
	__u32 parts;
	__u32 verdict;
	__u32 option;
	__u32 padding;
};

TG_INLINE void tg_agree_notice(const struct tg_notice_case *c, struct tg_notice_answers *a)
{
	a->padding = 0;
	a->parts = tg_notice_parts(&c->rules, c->is_of_one, c->spare_bytes);
	a->verdict = tg_notice_hear(&c->rst);
	a->option = tg_notice_option_1(c->rules.come_back_ticks);
	a->until_ns = tg_notice_until(c->stands_ns, tg_notice_ticks(&c->rst), c->longest_ms,
	                              c->random, c->now_ns);
	a->target = c->target;
	tg_target_unmap(&a->target);
}

#endif
