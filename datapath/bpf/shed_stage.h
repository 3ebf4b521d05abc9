/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Persistent dropping, at the driver and at the IP entry: before room is looked
 * for on a listener, and instead of it on a path, whose listener is elsewhere.
 */
#ifndef TG_SHED_STAGE_H
#define TG_SHED_STAGE_H

#include "../../policy/include/shed.h"
#include "../../policy/include/syn.h"
#include "guard.h"
#include "log.h"
#include "mptcp.h"
#include "socket.h"

/* Every guard has its part of it. The loader sets the size, by Eq. 9 of the paper. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	/* Mapped, a block begins where a cache line does; and the daemon counts in it. */
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_shed_block);
} shed_table SEC(".maps");

_Static_assert(sizeof(struct tg_shed_block) == 64, "a block is a cache line");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_shed_state);
} shed_state SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_shed_monitor);
} shed_monitor SEC(".maps");

/* Filled with a configuration, never by a packet. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TG_PREFERRED);
	__type(key, struct tg_network);
	__type(value, __u32);
} preferred SEC(".maps");

/* noinline: its key is on the stack only while it is asked. */
static __noinline int tg_is_preferred(const struct tg_packet *p, __u32 active, __u32 guard)
{
	struct tg_network key = tg_network_of(&p->tuple, active, guard);

	return bpf_map_lookup_elem(&preferred, &key) != NULL;
}

TG_INLINE __u32 tg_shed_prefers(const struct tg_packet *p, const struct tg_place *at)
{
	return at->guard->shed.has_preferred ? tg_is_preferred(p, at->active, at->index) : 0;
}

/* A SYN to be judged where its listener is asked for, and where. */
struct tg_shed_call {
	__u64 now_ns;
	__u32 slot;  /* of the counters */
	__u8 index;  /* of the guard; small, since the stack has no room left */
	__u8 active; /* of the configuration */
	__u8 is_auto : 1;
	__u8 is_mptcp : 1;          /* the listener */
	__u8 joins;                 /* it adds a subflow to a connection that stands */
	struct tg_auto_queue queue; /* where is_auto says so */
};

TG_INLINE void tg_shed_call(struct tg_shed_call *call, const struct tg_place *at, __u64 now_ns)
{
	call->now_ns = now_ns;
	call->active = at->active;
	call->index = at->index;
	call->slot = at->index;
	call->is_auto = at->guard->shed.is_auto;
}

/* What the control of p* wants to know of the listener. */
TG_INLINE void tg_shed_read_queue(struct tg_shed_call *call, struct tcp_sock *tp)
{
	__u32 active = call->active, index = call->index;
	struct tg_config *conf = bpf_map_lookup_elem(&config, &active);
	const struct tg_rules *rules;
	struct tg_queues queues;

	if (!conf || index >= TG_GUARDS)
		return;
	rules = &conf->guards[index & (TG_GUARDS - 1)].rules;
	tg_read_queues(tp, &queues);
	/* Early drop is by lot: nobody's by this one. */
	call->queue = tg_auto_view(rules, &queues,
	                           tg_syn_room(rules, &queues, queues.places, 0xffffffff));
}

/* Finds the listener; 0 where none listens. */
TG_INLINE int tg_shed_find(void *ctx, const struct tg_packet *packet, __u32 ifindex, int is_tagged,
                           struct tg_shed_call *call)
{
	struct tg_socket socket = {};

	if (!tg_find_listener(ctx, &packet->tuple, ifindex, is_tagged, call->now_ns, call->index,
	                      &socket))
		return 0;
	call->slot = socket.slot;
	call->is_mptcp = tg_is_mptcp(socket.tp);
	if (call->is_auto)
		tg_shed_read_queue(call, socket.tp);
	return 1;
}

/* What the control of p* is to do. */
enum tg_shed_control {
	TG_CONTROL_BEGIN, /* before the SYN is judged */
	TG_CONTROL_SHED,  /* after it was, and shed */
	TG_CONTROL_PASSED,
};

TG_INLINE __u32 tg_shed_outcome(struct tg_decision d)
{
	return d.verdict == TG_PASS ? TG_CONTROL_PASSED : TG_CONTROL_SHED;
}

/* Global, for the verifier's sake and for its stack, as tg_shed is. */
__noinline int tg_shed_control(struct tg_shed_call *call, __u32 what)
{
	struct tg_shed_state *state;
	struct tg_config *conf;
	__u32 active, index;

	if (!call || call->index >= TG_GUARDS)
		return 0;
	active = call->active;
	index = call->index;
	conf = bpf_map_lookup_elem(&config, &active);
	state = bpf_map_lookup_elem(&shed_state, &index);
	if (!conf || !state)
		return 0;
	if (what == TG_CONTROL_BEGIN)
		tg_auto_begin(&conf->guards[index & (TG_GUARDS - 1)].shed, &state->control,
		              &call->queue, call->now_ns);
	else
		tg_auto_end(&state->control, &call->queue, what == TG_CONTROL_PASSED);
	return 0;
}

/* Counts and tells what was decided. */
TG_INLINE void tg_shed_account(struct tg_packet *packet, const struct tg_guard *g, __u32 index,
                               __u32 slot, struct tg_decision d, __u64 now_ns)
{
	if (tg_shed_counts(d, g->is_path))
		tg_count(slot, d);
	tg_log_refusal(packet, index, &g->rules, d, now_ns);
}

/* Judges; on a path what was decided is accounted for, too. index is below TG_GUARDS. */
TG_INLINE struct tg_decision tg_shed_here(struct tg_packet *packet, struct tg_config *conf,
                                          __u32 index, __u32 is_preferred, __u64 now_ns,
                                          __u64 clock_offset_ns)
{
	struct tg_shed_work work = {};
	struct tg_shed_syn syn = {};
	struct tg_shed_block *block = NULL;
	struct tg_shed_monitor *monitor;
	struct tg_shed_state *state;
	struct tg_decision d;
	struct tg_guard *g;

	state = bpf_map_lookup_elem(&shed_state, &index);
	monitor = bpf_map_lookup_elem(&shed_monitor, &index);
	if (!state || !monitor)
		return tg_decide(TG_PASS, 0);
	g = &conf->guards[index & (TG_GUARDS - 1)];
	syn.now_ns = now_ns;
	syn.clock_ns = now_ns + clock_offset_ns;
	syn.isn = packet->seq;
	syn.preferred = is_preferred;
	tg_shed_begin(&work, &g->shed, state, &conf->shed_key, &packet->tuple, &syn);
	if (tg_shed_wants_random(&work))
		syn.random = bpf_get_prandom_u32();
	if (work.wants_block && g->shed.blocks) {
		__u32 at = tg_shed_block_index(&work, &g->shed);

		block = bpf_map_lookup_elem(&shed_table, &at);
	}
	d = tg_shed_decide(&work, &g->shed, &syn, block, state, monitor);
	if (tg_shed_answers(&g->shed, d)) {
		struct tg_bucket *bucket = bpf_map_lookup_elem(&refusals, &index);

		if (bucket)
			d = tg_shed_refuse(&g->shed, d, bucket, g->rules.refusal_cost_ns, now_ns);
	}
	if (g->is_path)
		tg_shed_account(packet, g, index, index, d, now_ns);
	return d;
}

/*
 * The same as a function of its own, global: the verifier walks it once, not once for every way
 * that leads here, and its stack is gone when the look-ups begin. packet and conf are never NULL;
 * the verifier wants to hear it. where is the guard's index, and above it whether the client is a
 * preferred one: a function takes five.
 */
__noinline __u32 tg_shed(struct tg_packet *packet, struct tg_config *conf, __u32 where,
                         __u64 now_ns, __u64 clock_offset_ns)
{
	__u32 index = where & 0xffff;

	if (!packet || !conf || index >= TG_GUARDS)
		return TG_PASS;
	return tg_decision_pack(
		tg_shed_here(packet, conf, index, where >> 16, now_ns, clock_offset_ns));
}

TG_INLINE __u32 tg_shed_decided(struct tg_packet *packet, const struct tg_place *at, __u64 now_ns)
{
	__u32 is_preferred = tg_shed_prefers(packet, at);

	return tg_shed(packet, at->config, at->index | is_preferred << 16, now_ns,
	               at->control->clock_offset_ns);
}

/* Whether a listening socket of this host is known to be there, without a look-up. */
TG_INLINE int tg_shed_remembers(const struct tg_tuple *tuple, __u32 ifindex, __u64 now_ns)
{
	struct tg_remembered *r = tg_remembered_at(tuple, ifindex);
	struct tg_socket found;

	return r && tg_recall(r, tuple, ifindex, now_ns, &found);
}

/*
 * What is decided before anyone looks whether somebody listens; 0 where that has to wait. On a
 * path nobody does here. On a listener it is decided where one is remembered, and those who are let
 * through then cost no look-up. Else that comes first: what goes to nobody, or is to be forwarded,
 * must not be measured as the listener's.
 */
TG_INLINE __u32 tg_shed_ahead(struct tg_packet *packet, const struct tg_place *at, __u32 ifindex,
                              __u64 now_ns)
{
	const struct tg_guard *g = at->guard;

	if (g->shed.is_auto)
		return 0;
	if (!g->is_path &&
	    (g->shed.policy == TG_SBPD || !tg_shed_remembers(&packet->tuple, ifindex, now_ns)))
		return 0;
	return tg_shed_decided(packet, at, now_ns);
}

/* Whether what was decided concerns no listener. */
TG_INLINE int tg_shed_is_done(const struct tg_guard *g, __u32 decided)
{
	return decided && (g->is_path || tg_decision_unpack(decided).verdict == TG_PASS);
}

/*
 * Judges, once the listener is found; or only accounts for what was decided before. Who is let
 * through is the SYN stage's to count.
 */
TG_INLINE __u32 tg_shed_judge(void *ctx, struct tg_packet *packet, const struct tg_place *at,
                              struct tg_shed_call *call, __u32 decided)
{
	struct tg_decision d;

	if (call->is_auto)
		tg_shed_control(call, TG_CONTROL_BEGIN);
	if (!decided)
		decided = tg_shed_decided(packet, at, call->now_ns);
	d = tg_shed_joining(tg_decision_unpack(decided), call->joins);
	if (!at->guard->is_path && tg_shed_tells(d)) {
		__u32 state = tg_state_of(ctx, &packet->tuple);

		d = tg_shed_beside(d, tg_is_answered(state), tg_is_taken(state));
	}
	if (call->is_auto)
		tg_shed_control(call, tg_shed_outcome(d));
	/* No map, no decision: the kernel's. */
	if (decided && !at->guard->is_path)
		tg_shed_account(packet, at->guard, at->index, call->slot, d, call->now_ns);
	return d.verdict;
}

#endif
