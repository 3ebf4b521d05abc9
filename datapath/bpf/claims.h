/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reserv's own count of what the kernel does not show yet.
 *
 * A driver hands up a batch of SYNs before TCP sees the first, and several
 * processors do so at once; for that time a SYN that was let through stands in
 * no queue. So each SYN is claimed before the queues are looked at, and settled
 * when it is refused, or when TCP has certainly seen it: at netfilter's
 * local-in, one step before TCP, a SYN is noted, and the *next* SYN on the same
 * processor, at whichever hook, settles it. At every moment the queues and the
 * claims together count each connection at least once.
 */
#ifndef TG_CLAIMS_H
#define TG_CLAIMS_H

#include "maps.h"

/* Claims that TCP never saw (a firewall took the SYN) are forgotten after this calm. */
#define TG_CLAIM_LIFE_NS 20000000ull

struct tg_unsettled {
	__u64 since_ns; /* when a SYN went up to TCP from this processor; 0: settled */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_unsettled);
} unsettled SEC(".maps");

/* Claims a place; returns how many others are claimed. */
TG_INLINE __u32 tg_claim(struct tg_claims *c, __u64 now_ns)
{
	__u64 before, settled;

	if (now_ns > c->last_ns + TG_CLAIM_LIFE_NS) {
		c->forgotten_ns = now_ns;
		c->settled = c->made;
	}
	c->last_ns = now_ns;
	before = __sync_fetch_and_add(&c->made, 1);
	settled = c->settled;
	return before > settled ? before - settled : 0;
}

/* The places claimed now. */
TG_INLINE __u32 tg_claimed(__u32 guard)
{
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &guard);
	__u64 settled = c ? c->settled : 0;

	return c && c->made > settled ? c->made - settled : 0;
}

TG_INLINE void tg_settle(struct tg_claims *c)
{
	__sync_fetch_and_add(&c->settled, 1);
}

/* Another SYN is here: TCP has seen the one that went up from this processor before. */
TG_INLINE void tg_settle_previous(__u32 guard)
{
	struct tg_unsettled *u = bpf_map_lookup_elem(&unsettled, &guard);
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &guard);

	if (!u || !c)
		return;
	if (u->since_ns > c->forgotten_ns && c->settled < c->made)
		tg_settle(c);
	u->since_ns = 0;
}

/* A SYN goes up to TCP now, and is settled by the next one. */
TG_INLINE void tg_settle_later(__u32 guard, __u64 now_ns)
{
	struct tg_unsettled *u = bpf_map_lookup_elem(&unsettled, &guard);

	tg_settle_previous(guard);
	if (u)
		u->since_ns = now_ns;
}

#endif
