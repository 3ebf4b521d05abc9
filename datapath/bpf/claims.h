/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reserv's own count of what the kernel does not show yet.
 *
 * A driver hands up a batch of SYNs before TCP sees the first, and several
 * processors do so at once; for that time a SYN that was let through stands in
 * no queue. So each SYN is claimed before the queues are looked at. The claim is
 * taken back when it is refused, and settled when TCP has certainly seen it: at
 * netfilter's local-in, one step before TCP, a SYN is noted, and the *next* SYN on
 * the same processor, at whichever hook, settles it. At every moment the queues and
 * the claims together count each connection at least once.
 *
 * Some SYNs TCP never sees: the host's firewall takes them, or rp_filter. Which
 * they were nobody tells, so claims are forgotten by age, those of refused SYNs not
 * among them: how many were let through is noted once a period, and what is not
 * settled of them a period later never will be. Others that were settled meanwhile
 * hide as many of the lost; that is too many claims and never too few, and no more than
 * go up in a period. Where nobody is let in nothing is settled either, so that even a guard
 * that such claims have closed is open again after two periods, whatever comes.
 */
#ifndef TG_CLAIMS_H
#define TG_CLAIMS_H

#include "maps.h"

/* A SYN that was let through is at TCP within this time, or lost. */
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

/* Once a period: forgets what was let through before the last time, and is not settled. */
TG_INLINE void tg_claims_forget(struct tg_claims *c, __u64 now_ns)
{
	__u64 noted_ns = c->noted_ns, passed = c->passed, old = c->noted, settled;

	/* One processor does it. */
	if (now_ns <= noted_ns + TG_CLAIM_LIFE_NS ||
	    __sync_val_compare_and_swap(&c->noted_ns, noted_ns, now_ns) != noted_ns)
		return;
	/* The first in a whole period: all are old. */
	if (now_ns > noted_ns + 2 * TG_CLAIM_LIFE_NS)
		old = passed;
	c->noted = passed;
	settled = c->settled;
	if (settled >= old)
		return;
	/* Before the count: what is forgotten is not settled once more. */
	c->forgotten_ns = now_ns;
	__sync_val_compare_and_swap(&c->settled, settled, old);
}

/* Claims a place; returns how many others are claimed. */
TG_INLINE __u32 tg_claim(struct tg_claims *c, __u64 now_ns)
{
	__u64 before, settled;

	tg_claims_forget(c, now_ns);
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

/* The place that was claimed is taken, or it is not: the SYN goes up to TCP, or is refused. */
TG_INLINE void tg_claim_end(struct tg_claims *c, int is_passed)
{
	if (is_passed)
		__sync_fetch_and_add(&c->passed, 1);
	else
		__sync_fetch_and_add(&c->made, -1);
}

/* Another SYN is here: TCP has seen the one that went up from this processor before. */
TG_INLINE void tg_settle_previous(__u32 guard)
{
	struct tg_unsettled *u = bpf_map_lookup_elem(&unsettled, &guard);
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &guard);

	if (!u || !c)
		return;
	if (u->since_ns > c->forgotten_ns && c->settled < c->passed)
		__sync_fetch_and_add(&c->settled, 1);
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
