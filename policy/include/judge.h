/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The SYN stage as one call, for a caller that has everything at hand: the simulator, and
 * the tests. Where packets pass, look-ups come in between, at the same places and in the
 * same order (datapath/bpf/syn_stage.h).
 */
#ifndef TG_JUDGE_H
#define TG_JUDGE_H

#include "overload.h"
#include "speaks.h"
#include "syn.h"

/* What auto knows: of the listening socket, and of this client. */
struct tg_crowd {
	struct tg_overload *overload;
	struct tg_waiting_block *block;   /* where the client would be found that has this name */
	struct tg_manners_block *manners; /* and where its address would be */
	const struct tg_speaks *speaks;   /* who speaks first here */
	const struct tg_inside *inside;   /* who waits inside the application */
	__u64 name;
	__u64 address_name;
	__u32 isn; /* its initial sequence number */
	__u32 padding;
};

/* auto, before room is looked for: an enum tg_phase. */
TG_INLINE __u32 tg_judge_begin(const struct tg_rules *rules, struct tg_queues *queues,
                               const struct tg_syn *syn, const struct tg_crowd *crowd)
{
	if (tg_overload_claim_window(crowd->overload, syn->now_ns)) {
		tg_overload_see_window(rules, crowd->overload);
		tg_inside_see(rules, crowd->overload, crowd->inside, syn->now_ns);
		tg_overload_see_queue(crowd->overload, queues, syn->now_ns);
		tg_overload_turn_window(rules, crowd->overload,
		                        queues->listen_len + queues->syn_len, syn->now_ns);
	}
	return tg_overload_begin(crowd->overload, queues, syn->now_ns);
}

/* What is known of a SYN on the way. */
struct tg_judging {
	__u32 phase; /* enum tg_phase */
	__u32 reason;
	__u16 is_watched;
	__u16 takes_over; /* a TIME-WAIT */
	__u32 is_asked;   /* who it is matters */
	__u32 cell;       /* then: which of its block's */
	struct tg_client client;
	struct tg_overload_met met;
};

/* auto, once it is known what room there is: whose turn it is, and is it told? */
TG_INLINE void tg_judge_meet(const struct tg_rules *rules, const struct tg_queues *queues,
                             const struct tg_syn *syn, const struct tg_crowd *crowd,
                             struct tg_judging *j)
{
	if (tg_overload_asks(j->phase, tg_syn_has_room(j->reason))) {
		const struct tg_waiting *cell;

		j->is_asked = 1;
		j->cell = tg_waiting_cell(crowd->block, crowd->name, syn->now_ns);
		cell = &crowd->block->cells[j->cell];
		tg_waiting_know(cell, crowd->name, syn->now_ns, &j->client);
		j->client.sends_again = syn->sends_again;
	}
	j->client.speaks_first = tg_speaks_first(crowd->speaks);
	tg_syn_meet(rules, crowd->overload, j->phase, &j->reason, &j->client,
	            tg_overload_is_half_full(rules, crowd->overload, queues, syn->now_ns),
	            syn->now_ns);
	j->met = tg_syn_met(j->reason, syn->half_open | j->takes_over, crowd->isn);
}

/* auto, to one who is to be told: in which form? */
TG_INLINE void tg_judge_tell(const struct tg_syn *syn, const struct tg_crowd *crowd,
                             struct tg_client *client)
{
	__u32 number = tg_manners_cell(crowd->manners, crowd->address_name, syn->now_ns);

	tg_manners_answer(&crowd->manners->cells[number], crowd->address_name, client, syn->now_ns);
}

/* auto: the answer. */
TG_INLINE void tg_judge_answer(struct tg_syn *syn, const struct tg_crowd *crowd,
                               struct tg_judging *j)
{
	if (tg_syn_is_told(j->reason, syn, &j->client)) {
		j->client.is_kept = tg_overload_keeps_told(crowd->overload);
		tg_judge_tell(syn, crowd, &j->client);
	}
	tg_client_settle(&j->client, syn->cookie_usable);
	syn->answer = j->client.answer;
}

/* auto: what is remembered. */
TG_INLINE void tg_judge_part(const struct tg_syn *syn, const struct tg_crowd *crowd,
                             struct tg_judging *j, struct tg_decision decision)
{
	/* As it is, which the verifier cannot know. */
	__u32 number = j->cell % TG_WAITING_CELLS;
	struct tg_waiting *cell = j->is_asked ? &crowd->block->cells[number] : (void *)0;

	tg_client_part(&j->client, decision);
	tg_overload_end(crowd->overload, &j->met, &j->client, cell, crowd->name, syn->now_ns);
}

/* auto, to one who is held off for its network's sake. */
TG_INLINE void tg_judge_hold_off(struct tg_syn *syn, const struct tg_crowd *crowd,
                                 struct tg_client *client)
{
	tg_syn_meet_held(syn, crowd->overload, client);
	client->sends_again = syn->sends_again;
	tg_judge_tell(syn, crowd, client);
	syn->answer = client->answer;
}

/* First: is it watched, and what is the overload in? *j is all zero; *queues is as auto sees them.
 */
TG_INLINE void tg_syn_judge_begin(const struct tg_rules *rules, struct tg_queues *queues,
                                  const struct tg_syn *syn, const struct tg_crowd *crowd,
                                  struct tg_judging *j)
{
	j->phase = TG_CALM;
	j->is_watched = tg_syn_is_watched(rules, syn);
	if (j->is_watched)
		j->phase = tg_judge_begin(rules, queues, syn, crowd);
}

/* Then: what room there is, and for whom. */
TG_INLINE void tg_syn_judge_room(const struct tg_rules *rules, const struct tg_queues *queues,
                                 const struct tg_syn *syn, const struct tg_crowd *crowd,
                                 struct tg_judging *j)
{
	j->reason = tg_syn_reason(rules, queues, syn);
	j->takes_over = tg_syn_takes_over(rules, queues, syn, j->reason);
	if (j->is_watched)
		tg_judge_meet(rules, queues, syn, crowd, j);
	if (j->takes_over)
		j->reason = tg_syn_room_of_taken(syn);
}

/* What came of a SYN, and what stood against it: the two reasons may differ (tg_syn_lack()). */
struct tg_judged {
	struct tg_decision decision;
	__u32 reason;
};

/* At last. *syn is left as auto saw it. */
TG_INLINE struct tg_decision tg_syn_judge_end(const struct tg_rules *rules, struct tg_syn *syn,
                                              struct tg_bucket *refusals,
                                              const struct tg_crowd *crowd, struct tg_judging *j)
{
	struct tg_decision decision;

	if (j->is_watched)
		tg_judge_answer(syn, crowd, j);
	else if (tg_syn_is_held_off(rules, j->reason, syn))
		tg_judge_hold_off(syn, crowd, &j->client);
	else if (rules->is_auto && j->reason == TG_EXEMPT)
		tg_overload_pass_by(crowd->overload);
	decision = tg_syn_decide(rules, j->reason, syn, refusals);
	if (j->is_watched)
		tg_judge_part(syn, crowd, j, decision);
	return decision;
}

#endif
