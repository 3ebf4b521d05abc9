/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A token bucket kept as time: credit grows one for one with the clock, up to a bound, and
 * each event costs 1 / rate (the virtual scheduling form of the leaky bucket, ITU-T I.371).
 * No division where packets pass. It is one processor's share of what may be sent or told.
 */
#ifndef TG_BUCKET_H
#define TG_BUCKET_H

#include "types.h"

/* The longest time that credit is saved for. Longer than a timer tick, which
 * is how finely the datapath's coarse clock counts (10 ms at HZ = 100). */
#define TG_BUCKET_DEPTH_NS 100000000ull

struct tg_bucket {
	__u64 last_ns;
	__u64 credit_ns;
};

/* Takes one event's cost from the bucket. Returns 0 where the credit is short. */
TG_INLINE int tg_bucket_take(struct tg_bucket *bucket, __u64 cost_ns, __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, bucket->last_ns);

	/* None by a clock that is a tick behind another: that time has been credited. */
	bucket->last_ns += passed_ns;
	if (passed_ns > TG_BUCKET_DEPTH_NS)
		passed_ns = TG_BUCKET_DEPTH_NS;
	bucket->credit_ns += passed_ns;
	if (bucket->credit_ns > TG_BUCKET_DEPTH_NS)
		bucket->credit_ns = TG_BUCKET_DEPTH_NS;
	if (bucket->credit_ns < cost_ns)
		return 0;
	bucket->credit_ns -= cost_ns;
	return 1;
}

#endif
