/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * auto: what is remembered of a listening socket and of its clients, looked up for
 * policy/include/overload.h.
 *
 * The functions are global, as tg_shed is: the verifier walks each once, not once for
 * every way that leads here, and its stack is gone when the next look-up begins. Their
 * arguments are never NULL; the verifier wants to hear it.
 */
#ifndef TG_OVERLOAD_STAGE_H
#define TG_OVERLOAD_STAGE_H

#include "../../policy/include/syn.h"
#include "../../policy/include/system.h"
#include "guard.h"

/* A SYN to be watched, and what is found out of it on the way. */
struct tg_watch {
	__u64 now_ns;
	__u64 name;              /* of the connection, where asked */
	__u32 active;            /* of the configuration */
	__u32 index;             /* of the guard */
	__u32 slot;              /* of the socket */
	__u32 phase;             /* enum tg_phase */
	__u32 asked;             /* who this is matters */
	__u32 cell;              /* then: which of its block's */
	__u32 reason;            /* enum tg_reason */
	__u32 half_open;         /* what it asks for stands already: TG_HALF_OPEN */
	__u32 half_full;         /* half of the queue is taken */
	__u32 isn;               /* of the connection */
	struct tg_client client; /* where asked */
};

/* The one at hand: a processor judges one SYN at a time, and the stack has no room for it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_watch);
} watch_at_hand SEC(".maps");

TG_INLINE struct tg_watch *tg_watch_of(const struct tg_place *at, __u32 slot, __u32 isn,
                                       __u64 now_ns)
{
	__u32 zero = 0;
	struct tg_watch *w = bpf_map_lookup_elem(&watch_at_hand, &zero);

	if (!w)
		return NULL;
	__builtin_memset(w, 0, sizeof(*w));
	w->now_ns = now_ns;
	w->active = at->active;
	w->index = at->index;
	w->slot = slot;
	w->isn = isn;
	return w;
}

TG_INLINE struct tg_waiting_block *tg_watch_block(const struct tg_watch *w)
{
	__u32 index = tg_waiting_block_index(w->name);

	return bpf_map_lookup_elem(&waiting, &index);
}

TG_INLINE struct tg_waiting *tg_watch_cell(const struct tg_watch *w, struct tg_waiting_block *block)
{
	return &block->cells[w->cell & (TG_WAITING_CELLS - 1)];
}

_Static_assert((TG_WAITING_CELLS & (TG_WAITING_CELLS - 1)) == 0, "a cell's number is masked");
_Static_assert((TG_MANNERS_CELLS & (TG_MANNERS_CELLS - 1)) == 0, "a cell's number is masked");

TG_INLINE struct tg_overload *tg_overload_of(__u32 slot)
{
	return bpf_map_lookup_elem(&overload, &slot);
}

TG_INLINE struct tg_config *tg_watch_config(const struct tg_watch *w)
{
	__u32 active = w->active;

	return bpf_map_lookup_elem(&config, &active);
}

TG_INLINE struct tg_rules *tg_watch_rules(const struct tg_watch *w)
{
	struct tg_config *conf = tg_watch_config(w);

	return conf ? &conf->guards[w->index & (TG_GUARDS - 1)].rules : NULL;
}

/* First, where the window is over: what does it show? Returns whether it is this one's to close. */
__noinline int tg_watch_see_window(struct tg_watch *w)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_rules *rules;

	if (!o || !tg_overload_due(o, w->now_ns))
		return 0;
	rules = tg_watch_rules(w);
	if (!rules || !tg_overload_claim_window(o, w->now_ns))
		return 0;
	tg_overload_see_window(rules, o);
	return 1;
}

/* And how long the queue may be, here and inside the application. */
__noinline int tg_watch_see_queue(struct tg_watch *w, const struct tg_queues *queues)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_rules *rules = o ? tg_watch_rules(w) : NULL;
	struct tg_inside *waiting;

	if (!rules || !queues)
		return 0;
	waiting = bpf_map_lookup_elem(&inside, &w->slot);
	if (waiting)
		tg_inside_see(rules, o, waiting, w->now_ns);
	tg_overload_see_queue(o, queues, w->now_ns);
	return 0;
}

/* Then closes it. The rules are there, as when it was claimed. queued: in both queues. */
__noinline int tg_watch_turn_window(struct tg_watch *w, __u32 queued)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_rules *rules = o ? tg_watch_rules(w) : NULL;

	if (rules)
		tg_overload_turn_window(rules, o, queued, w->now_ns);
	return 0;
}

/* Before room is looked for. */
__noinline int tg_watch_begin(struct tg_watch *w, struct tg_queues *queues)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_rules *rules = o ? tg_watch_rules(w) : NULL;

	if (!rules || !queues)
		return 0;
	/*
	 * The clock of ticks stands still for 4 ms: who is let in, and who is left in silence,
	 * would be those at a tick's beginning, and come again together.
	 */
	if (tg_overload_phase(o, w->now_ns) != TG_CALM)
		w->now_ns = bpf_ktime_get_ns();
	w->phase = tg_overload_begin(o, queues, w->now_ns);
	w->half_full = tg_overload_is_half_full(rules, o, queues, w->now_ns);
	return 0;
}

/* Which cell the name has, or may have. */
__noinline int tg_watch_find(struct tg_packet *packet, struct tg_watch *w)
{
	struct tg_config *conf = w ? tg_watch_config(w) : NULL;
	struct tg_waiting_block *block;

	if (!packet || !conf)
		return 0;
	w->name = tg_waiting_name(&conf->shed_key, &packet->tuple, packet->seq);
	block = tg_watch_block(w);
	if (!block)
		return 0;
	w->cell = tg_waiting_cell(block, w->name, w->now_ns);
	tg_waiting_know(tg_watch_cell(w, block), w->name, w->now_ns, &w->client);
	w->client.sends_again = tg_system_sends_again(packet->hops, packet->tcp_header_bytes);
	w->asked = 1;
	return 0;
}

/* Once it is known what room there is, and, where it matters, who this is. */
__noinline int tg_watch_meet(struct tg_watch *w)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_speaks *speaks = o ? tg_speaks_of(w->index) : NULL;
	struct tg_rules *rules = o ? tg_watch_rules(w) : NULL;

	if (speaks)
		w->client.speaks_first = tg_speaks_first(speaks);
	if (rules)
		tg_syn_meet(rules, o, w->phase, &w->reason, &w->client, w->half_full, w->now_ns);
	return 0;
}

/* To one who is to be told: in which form? */
__noinline int tg_watch_tell(struct tg_packet *packet, struct tg_watch *w)
{
	struct tg_config *conf = w ? tg_watch_config(w) : NULL;
	struct tg_manners_block *block;
	__u32 index, number;
	__u64 name;

	if (!packet || !conf)
		return 0;
	name = tg_manners_name(&conf->shed_key, &packet->tuple, w->client.sends_again);
	index = tg_manners_block_index(name);
	block = bpf_map_lookup_elem(&manners, &index);
	if (!block)
		return 0;
	number = tg_manners_cell(block, name, w->now_ns) & (TG_MANNERS_CELLS - 1);
	tg_manners_answer(&block->cells[number], name, &w->client, w->now_ns);
	return 0;
}

TG_INLINE void tg_watch_pass_by(__u32 slot)
{
	struct tg_overload *o = tg_overload_of(slot);

	if (o)
		tg_overload_pass_by(o);
}

/* Of those who find no room. */
TG_INLINE void tg_watch_keep(struct tg_watch *w)
{
	struct tg_overload *o = tg_overload_of(w->slot);

	w->client.is_kept = o && tg_overload_keeps_told(o);
}

/* At the end. */
__noinline int tg_watch_part(struct tg_watch *w)
{
	struct tg_overload *o = w ? tg_overload_of(w->slot) : NULL;
	struct tg_waiting_block *block;
	struct tg_overload_met met;

	if (!o)
		return 0;
	block = w->asked ? tg_watch_block(w) : NULL;
	met = tg_syn_met(w->reason, w->half_open, w->isn);
	/* Nor does the clock of ticks tell a round trip. */
	if (met.has_room && tg_pace_asks(o, w->now_ns))
		w->now_ns = bpf_ktime_get_ns();
	tg_overload_end(o, &met, &w->client, block ? tg_watch_cell(w, block) : NULL, w->name,
	                w->now_ns);
	return 0;
}

#endif
