/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SYN stage as one call, for a caller that has everything at hand: the simulator, and
 * the tests. Where packets pass, look-ups come in between, at the same places and in the
 * same order (datapath/bpf/syn_stage.h).
 */
#ifndef TG_JUDGE_H
#define TG_JUDGE_H

#include "overload.h"
#include "syn.h"

/* What auto knows: of the listening socket, and of this client. */
struct tg_crowd {
	struct tg_overload *overload;
	struct tg_waiting_block *block; /* where the client would be found that has this name */
	__u64 name;
};

/* *queues and *syn are left as auto saw them. */
TG_INLINE struct tg_decision tg_syn_judge(const struct tg_rules *rules, struct tg_queues *queues,
                                          struct tg_syn *syn, struct tg_bucket *refusals,
                                          const struct tg_crowd *crowd)
{
	struct tg_waiting *cell = (void *)0;
	struct tg_overload_met met = {.is_half_open = syn->half_open};
	__u32 reason, phase;

	if (!rules->is_auto)
		return tg_syn_decide(rules, tg_syn_room(rules, queues, syn->random), syn, refusals);
	if (tg_overload_due(crowd->overload, syn->now_ns)) {
		tg_overload_hope(rules, crowd->overload);
		tg_overload_turn_window(rules, crowd->overload,
		                        queues->listen_len + queues->syn_len, syn->now_ns);
	}
	phase = tg_overload_begin(crowd->overload, queues, syn->now_ns);
	reason = tg_syn_room(rules, queues, syn->random);
	if (tg_overload_asks(phase, tg_syn_has_room(reason))) {
		cell = &crowd->block
		                ->cells[tg_waiting_cell(crowd->block, crowd->name, syn->now_ns)];
		met.caller = tg_waiting_caller(cell, crowd->name, syn->now_ns);
	}
	syn->silent = tg_syn_meet(crowd->overload, phase, &reason, met.caller,
	                          tg_overload_is_half_full(queues), syn->now_ns);
	met.has_room = tg_syn_has_room(reason);
	met.is_told = !syn->silent;
	tg_overload_end(crowd->overload, &met, cell, crowd->name, syn->now_ns);
	return tg_syn_decide(rules, reason, syn, refusals);
}

#endif
