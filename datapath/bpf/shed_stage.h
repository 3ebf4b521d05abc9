/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Persistent dropping, at the driver and at the IP entry: before room is looked
 * for on a listener, and instead of it on a path, whose listener is elsewhere.
 */
#ifndef TG_SHED_STAGE_H
#define TG_SHED_STAGE_H

#include "../../policy/include/shed.h"
#include "guard.h"

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
	__type(key, struct tg_preferred);
	__type(value, __u32);
} preferred SEC(".maps");

/* noinline: its key is on the stack only while it is asked. */
static __noinline int tg_is_preferred(const struct tg_packet *p, __u32 active, __u32 guard)
{
	const struct tg_tuple *t = &p->tuple;
	struct tg_preferred key = {
		.prefix_bits = TG_PREFERRED_OWNER_BITS + (t->is_ipv6 ? 128 : 32),
		.owner = tg_preferred_owner(active, guard, t->is_ipv6),
		.addr = {t->saddr[0], t->saddr[1], t->saddr[2], t->saddr[3]},
	};

	return bpf_map_lookup_elem(&preferred, &key) != NULL;
}

/*
 * Sheds, and counts what it shed; on a path, what it lets through too. A function of
 * its own, global: the verifier walks it once, not once for every way that leads here,
 * and its stack is gone when the look-ups begin. packet is never NULL; the verifier
 * wants to hear it.
 */
__noinline __u32 tg_shed(struct tg_packet *packet, __u32 active, __u32 index, __u32 slot,
                         __u64 now_ns)
{
	struct tg_shed_work work = {};
	struct tg_shed_syn syn = {};
	struct tg_shed_block *block = NULL;
	struct tg_shed_monitor *monitor;
	struct tg_shed_state *state;
	struct tg_control *c;
	struct tg_bucket *bucket;
	struct tg_config *conf;
	struct tg_decision d;
	struct tg_guard *g;
	__u32 zero = 0;

	if (!packet || index >= TG_GUARDS)
		return TG_PASS;
	c = bpf_map_lookup_elem(&control, &zero);
	conf = bpf_map_lookup_elem(&config, &active);
	state = bpf_map_lookup_elem(&shed_state, &index);
	monitor = bpf_map_lookup_elem(&shed_monitor, &index);
	bucket = bpf_map_lookup_elem(&refusals, &index);
	if (!c || !conf || !state || !monitor || !bucket)
		return TG_PASS;
	g = &conf->guards[index & (TG_GUARDS - 1)];
	syn.now_ns = now_ns;
	syn.clock_ns = now_ns + c->clock_offset_ns;
	syn.isn = packet->seq;
	if (tg_shed_wants_random(&g->shed, state))
		syn.random = bpf_get_prandom_u32();
	if (g->shed.has_preferred)
		syn.preferred = tg_is_preferred(packet, active, index);
	tg_shed_begin(&work, &g->shed, state, &conf->shed_key, &packet->tuple, &syn);
	if (work.wants_block && g->shed.blocks) {
		__u32 at = tg_shed_block_index(&work, &g->shed);

		block = bpf_map_lookup_elem(&shed_table, &at);
	}
	d = tg_shed_decide(&work, &g->shed, &syn, block, state, monitor, bucket,
	                   g->rules.refusal_cost_ns);
	if (d.verdict != TG_PASS || g->is_path)
		tg_count(slot, d);
	return d.verdict;
}

#endif
