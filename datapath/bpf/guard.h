/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which guard of the configuration a packet falls under, and its counters. */
#ifndef TG_GUARD_H
#define TG_GUARD_H

#include "maps.h"
#include "packet.h"

/* Where a packet stands in the configuration. */
struct tg_place {
	struct tg_control *control;
	struct tg_config *config;
	struct tg_guard *guard;
	__u32 index;  /* of the guard */
	__u32 active; /* of the configuration */
};

/* Read once a packet: a swap of configurations is seen whole or not at all. */
TG_INLINE int tg_enter(struct tg_place *at)
{
	__u32 active;

	at->control = tg_control_of();
	if (!at->control)
		return 0;
	active = at->control->active & 1;
	at->active = active;
	at->config = bpf_map_lookup_elem(&config, &active);
	return at->config != NULL;
}

/*
 * A port as a place in an array of 65536. Before Linux 7.0, and stable 6.18 and 6.19 of 2026, the
 * verifier has no bounds for what a byte swap leaves, and the compiler, which has, takes a mask
 * away that it can see through.
 */
TG_INLINE __u32 tg_port_place(__be16 port)
{
	__u32 place = bpf_ntohs(port);

	barrier_var(place);
	return place & 0xffff;
}

TG_INLINE int tg_guard_covers(const struct tg_guard *g, const struct tg_tuple *t)
{
	__u32 family = g->addr_kind ^ (t->is_ipv6 ? 6 : 4);

	return !g->addr_kind || !(family | tg_differ(g->addr, t->daddr));
}

/* Finds the guard for this destination; 0 where there is none. */
TG_INLINE int tg_find_guard(const struct tg_tuple *t, struct tg_place *at)
{
	__u32 next;

	if (!tg_enter(at))
		return 0;
	next = at->config->port_guard[tg_port_place(t->dport)];
	for (int i = 0; i < TG_GUARDS_A_PORT; i++) {
		struct tg_guard *g;

		if (!next || next > TG_GUARDS)
			return 0;
		g = &at->config->guards[(next - 1) & (TG_GUARDS - 1)];
		if (tg_guard_covers(g, t)) {
			at->guard = g;
			at->index = next - 1;
			return 1;
		}
		next = g->next;
	}
	return 0;
}

/* By which a client is looked up among a guard's networks. */
TG_INLINE struct tg_network tg_network_of(const struct tg_tuple *t, __u32 active, __u32 guard)
{
	return tg_network_key(t->saddr, t->is_ipv6, tg_client_owner(active, guard, t->is_ipv6));
}

/* A decision in one number, as a global function takes or returns it; 0 is none. */
TG_INLINE __u32 tg_decision_pack(struct tg_decision d)
{
	return d.verdict | d.reason << 16;
}

TG_INLINE struct tg_decision tg_decision_unpack(__u32 decided)
{
	__u32 verdict = decided & 0xffff, reason = decided >> 16;

	/* Else the compiler bounds one copy and counts by another, which the verifier does not
	 * know. */
	barrier_var(verdict);
	barrier_var(reason);
	return tg_decide(verdict, reason);
}

TG_INLINE void tg_count(__u32 slot, struct tg_decision decision)
{
	struct tg_counters *c = bpf_map_lookup_elem(&counters, &slot);

	if (c && decision.reason < TG_REASONS && decision.verdict < TG_VERDICTS)
		c->packets[decision.reason][decision.verdict]++;
}

#endif
