/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which guard of the configuration a packet falls under, and its counters. */
#ifndef TG_GUARD_H
#define TG_GUARD_H

#include "maps.h"
#include "packet.h"

TG_INLINE struct tg_control *tg_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* Read once a packet: a swap of configurations is seen whole or not at all. */
TG_INLINE struct tg_config *tg_config(const struct tg_control *c)
{
	__u32 active = c->active & 1;

	return bpf_map_lookup_elem(&config, &active);
}

/* The port's first guard, as index + 1; 0 where the port is not guarded. */
TG_INLINE __u32 tg_port_guard(const struct tg_config *cfg, __u16 dport)
{
	return cfg->port_guard[bpf_ntohs(dport)];
}

TG_INLINE int tg_guard_covers(const struct tg_guard *g, const struct tg_tuple *t)
{
	if (g->addr_kind == 0)
		return 1;
	if (g->addr_kind != (t->is_ipv6 ? 6 : 4) || g->addr[0] != t->daddr[0])
		return 0;
	return !t->is_ipv6 || (g->addr[1] == t->daddr[1] && g->addr[2] == t->daddr[2] &&
	                       g->addr[3] == t->daddr[3]);
}

/* The guard for this destination, and its index; NULL where there is none. */
TG_INLINE struct tg_guard *tg_find_guard(struct tg_config *cfg, const struct tg_tuple *t,
                                         __u32 *index)
{
	__u32 next = tg_port_guard(cfg, t->dport);

	for (int i = 0; i < TG_GUARDS_A_PORT; i++) {
		struct tg_guard *g;

		if (!next || next > TG_GUARDS)
			return NULL;
		g = &cfg->guards[(next - 1) & (TG_GUARDS - 1)];
		if (tg_guard_covers(g, t)) {
			*index = next - 1;
			return g;
		}
		next = g->next;
	}
	return NULL;
}

TG_INLINE void tg_count(__u32 slot, struct tg_decision decision)
{
	struct tg_counters *c = bpf_map_lookup_elem(&counters, &slot);

	if (c && decision.reason < TG_REASONS && decision.verdict < TG_VERDICTS)
		c->packets[decision.reason][decision.verdict]++;
}

#endif
