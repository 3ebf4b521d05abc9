/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * reserv's own count of what the kernel does not show yet, of all sockets of a port together.
 *
 * A driver hands up a batch of SYNs before TCP sees the first, and several
 * processors do so at once; for that time a SYN that was let through stands in
 * no queue. So each SYN is claimed before the queues are looked at. The claim is
 * taken back when it is refused, and settled when TCP has certainly seen it: at
 * netfilter's local-in, one step before TCP, a SYN is noted, and the *next* SYN on
 * the same processor, at whichever hook, settles it; or, where that has none for a while (there may
 * be more processors than places), the next on any. At every moment the queues and
 * the claims together count each connection at least once.
 *
 * Some SYNs TCP never sees: the host's firewall takes them, or rp_filter. Which
 * they were nobody tells, so claims are forgotten by age, those of refused SYNs not
 * among them: how many were let through is noted once a period, and what is not
 * settled of them a period later never will be. Others that were settled meanwhile
 * hide as many of the lost; that is too many claims and never too few, and no more than
 * go up in a period. Where nobody is let in nothing is settled either, so that even a guard
 * that such claims have closed is open again after two periods, whatever comes.
 *
 * Claims are a port's and not a guard's: one socket may stand behind several guards, each with
 * addresses of its own. Where each has its own socket that is too many claims and never too few.
 * Their index is that of the port's first guard (tg_guard.claims_index). Where a reload puts
 * another first, what is claimed is forgotten: a place may be promised twice for as long as a batch
 * takes.
 */
#ifndef TG_CLAIMS_H
#define TG_CLAIMS_H

#include "maps.h"

/* A SYN that was let through is at TCP within this time, or lost. */
#define TG_CLAIM_LIFE_NS 20000000ull

/*
 * The step from local-in to TCP is one of the same softirq: TCP has seen what was noted so long
 * ago, unless the processor was taken away in between, and then one may be let in too many.
 */
#define TG_CLAIM_SEEN_NS 4000000ull
#define TG_PROCESSORS_MOST 8192

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
TG_INLINE __u32 tg_claimed(__u32 index)
{
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &index);
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

/* TCP has seen the SYN of this note: whoever takes the note settles it. */
TG_INLINE void tg_settle(struct tg_claims *c, struct tg_unsettled *u, __u64 since_ns)
{
	if (!since_ns || __sync_val_compare_and_swap(&u->since_ns, since_ns, 0) != since_ns)
		return;
	if (since_ns > c->forgotten_ns && c->settled < c->passed)
		__sync_fetch_and_add(&c->settled, 1);
}

/* Another SYN is here: TCP has seen the one that went up from this processor before. */
TG_INLINE void tg_settle_previous(__u32 index)
{
	struct tg_unsettled *u = bpf_map_lookup_elem(&unsettled, &index);
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &index);

	if (u && c)
		tg_settle(c, u, u->since_ns);
}

struct tg_settling {
	__u64 now_ns;
	__u32 index;
};

static long tg_settle_processors(__u32 processor, struct tg_settling *s)
{
	struct tg_unsettled *u = bpf_map_lookup_percpu_elem(&unsettled, &s->index, processor);
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &s->index);
	__u64 since_ns;

	/* There are no more. */
	if (!u || !c)
		return 1;
	since_ns = u->since_ns;
	if (s->now_ns > since_ns + TG_CLAIM_SEEN_NS)
		tg_settle(c, u, since_ns);
	return 0;
}

/* Once in a while: settles what every processor has noted. Global: it is verified once. */
__noinline int tg_settle_all(__u32 index, __u64 now_ns)
{
	struct tg_claims *c = bpf_map_lookup_elem(&claims, &index);
	struct tg_settling s = {.now_ns = now_ns, .index = index};
	__u64 looked_ns = c ? c->looked_ns : now_ns;

	/* One processor does it. */
	if (now_ns <= looked_ns + TG_CLAIM_SEEN_NS || !c ||
	    __sync_val_compare_and_swap(&c->looked_ns, looked_ns, now_ns) != looked_ns)
		return 0;
	bpf_loop(TG_PROCESSORS_MOST, tg_settle_processors, &s, 0);
	return 1;
}

/* A SYN goes up to TCP now, and is settled by the next one. */
TG_INLINE void tg_settle_later(__u32 index, __u64 now_ns)
{
	struct tg_unsettled *u = bpf_map_lookup_elem(&unsettled, &index);

	tg_settle_previous(index);
	if (u)
		u->since_ns = now_ns;
}

#endif
