/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the rules say of where a SYN comes from, before anything else is asked. */
#ifndef TG_POLICE_STAGE_H
#define TG_POLICE_STAGE_H

#include "../../policy/include/police.h"
#include "guard.h"
#include "socket.h"

/* Filled with a configuration, never by a packet. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, TG_LIMITS);
	__type(key, struct tg_network);
	__type(value, struct tg_limit);
} limits SEC(".maps");

/* Their buckets: when each will be full again. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_LIMITS);
	__type(key, __u32);
	__type(value, __u64);
} limit_full_ns SEC(".maps");

/* What holds for the network that a segment comes from, if anything does. */
TG_INLINE struct tg_limit *tg_limit_of(const struct tg_packet *packet, __u32 active, __u32 guard)
{
	struct tg_network key = tg_network_of(&packet->tuple, active, guard);

	return bpf_map_lookup_elem(&limits, &key);
}

/*
 * An enum tg_source. Global, as tg_shed is: its key is on the stack only while it is asked. By
 * the exact clock: between two ticks of the coarse one there may be more SYNs than a burst.
 */
__noinline __u32 tg_police(struct tg_packet *packet, __u32 active, __u32 guard)
{
	struct tg_limit *limit = packet ? tg_limit_of(packet, active, guard) : NULL;
	__u64 *full_ns;
	__u32 bucket;

	if (!limit)
		return TG_SOURCE_ANY;
	bucket = limit->bucket;
	full_ns = bpf_map_lookup_elem(&limit_full_ns, &bucket);
	return full_ns ? tg_limit_take(limit, full_ns, bpf_ktime_get_ns()) : TG_SOURCE_ANY;
}

/* Likewise, of a segment that costs no SYN of its network's. */
__noinline int tg_is_exempt(struct tg_packet *packet, __u32 active, __u32 guard)
{
	struct tg_limit *limit = packet ? tg_limit_of(packet, active, guard) : NULL;

	return limit && !limit->cost_ns;
}

TG_INLINE __u32 tg_source_of(struct tg_packet *packet, const struct tg_place *at)
{
	return at->guard->has_limits ? tg_police(packet, at->active, at->index) : TG_SOURCE_ANY;
}

/*
 * Before routing. What the host forwards costs its network no SYN, though a listener on every
 * address matches it; but on a path that is all there is.
 */
TG_INLINE __u32 tg_source_before(void *ctx, struct tg_packet *packet, const struct tg_place *at,
                                 __u32 ifindex)
{
	if (at->guard->has_limits && !at->guard->is_path &&
	    !tg_is_local(ctx, &packet->tuple, ifindex))
		return TG_SOURCE_ANY;
	return tg_source_of(packet, at);
}

#endif
