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

/* auto, before room is looked for: an enum tg_phase. */
TG_INLINE __u32 tg_judge_begin(const struct tg_rules *rules, struct tg_queues *queues,
                               const struct tg_syn *syn, const struct tg_crowd *crowd)
{
	if (tg_overload_due(crowd->overload, syn->now_ns)) {
		tg_overload_hope(rules, crowd->overload);
		tg_overload_turn_window(rules, crowd->overload,
		                        queues->listen_len + queues->syn_len, syn->now_ns);
	}
	return tg_overload_begin(crowd->overload, queues, syn->now_ns);
}

/* auto, once it is known what room there is: the reason, which it may change. */
TG_INLINE __u32 tg_judge_meet(const struct tg_rules *rules, const struct tg_queues *queues,
                              struct tg_syn *syn, const struct tg_crowd *crowd, __u32 phase,
                              __u32 reason)
{
	struct tg_overload_met met = {.is_half_open = syn->half_open};
	struct tg_waiting *cell = (void *)0;

	if (tg_overload_asks(phase, tg_syn_has_room(reason))) {
		cell = &crowd->block
		                ->cells[tg_waiting_cell(crowd->block, crowd->name, syn->now_ns)];
		met.caller = tg_waiting_caller(cell, crowd->name, syn->now_ns);
	}
	syn->silent = tg_syn_meet(crowd->overload, phase, &reason, met.caller,
	                          tg_overload_is_half_full(rules, queues), syn->now_ns);
	met.has_room = tg_syn_has_room(reason);
	met.is_told = !syn->silent;
	tg_overload_end(crowd->overload, &met, cell, crowd->name, syn->now_ns);
	return reason;
}

/* *queues and *syn are left as auto saw them. */
TG_INLINE struct tg_decision tg_syn_judge(const struct tg_rules *rules, struct tg_queues *queues,
                                          struct tg_syn *syn, struct tg_bucket *refusals,
                                          const struct tg_crowd *crowd)
{
	int is_watched = tg_syn_is_watched(rules, syn);
	__u32 reason, phase = TG_CALM;

	if (is_watched)
		phase = tg_judge_begin(rules, queues, syn, crowd);
	reason = tg_syn_reason(rules, queues, syn);
	if (is_watched)
		reason = tg_judge_meet(rules, queues, syn, crowd, phase, reason);
	return tg_syn_decide(rules, reason, syn, refusals);
}

#endif
