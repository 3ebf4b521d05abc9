/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Refusals that are told of, one by one: a few of them, in a ring that the daemon reads. Nothing
 * waits for it. Where no daemon reads, or not soon enough, the ring is full and they are not told.
 */
#ifndef TG_LOG_H
#define TG_LOG_H

#include "guard.h"

/*
 * 4,096 refusals: more than one processor may tell between two looks of the daemon, four a second.
 */
#define TG_LOG_BYTES (256 * 1024)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, TG_LOG_BYTES);
} refused SEC(".maps");

/* Each processor has its share of what a guard may tell. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TG_GUARDS);
	__type(key, __u32);
	__type(value, struct tg_bucket);
} log_buckets SEC(".maps");

/*
 * Global, as tg_shed is, with all that it needs in its arguments: its callers have no stack left.
 * The decision is packed.
 */
__noinline int tg_log(struct tg_packet *packet, __u32 guard, __u32 decision, __u32 cost_ns,
                      __u64 now_ns)
{
	struct tg_bucket *bucket = bpf_map_lookup_elem(&log_buckets, &guard);
	struct tg_refusal *refusal;

	if (!packet || !bucket || !tg_bucket_take(bucket, cost_ns, now_ns))
		return 0;
	refusal = bpf_ringbuf_reserve(&refused, sizeof(*refusal), 0);
	if (!refusal)
		return 0;
	refusal->tuple = packet->tuple;
	refusal->decision = tg_decision_unpack(decision);
	refusal->guard = guard;
	bpf_ringbuf_submit(refusal, BPF_RB_NO_WAKEUP);
	return 0;
}

/* After the decision, so that it costs a load where nothing is told. */
TG_INLINE void tg_log_refusal(struct tg_packet *packet, __u32 guard, const struct tg_rules *rules,
                              struct tg_decision d, __u64 now_ns)
{
	__u32 cost_ns = rules->log_cost_ns;

	if (cost_ns && tg_is_refusal(d))
		tg_log(packet, guard, tg_decision_pack(d), cost_ns, now_ns);
}

#endif
