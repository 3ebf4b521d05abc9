/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rate of SYNs of one network of clients, whichever processors they come to: SYN policing
 * (Voigt, Tewari, Freimuth and Mehra, USENIX 2001; Shukla, thesis, 2.2.3). A token bucket kept as
 * time, as in bucket.h.
 */
#ifndef TG_POLICE_H
#define TG_POLICE_H

#include "types.h"

/* What the rules of a guard say of where a SYN comes from. */
enum tg_source {
	TG_SOURCE_ANY,    /* nothing, or that it may send one more now */
	TG_SOURCE_OVER,   /* it has sent more than its rate allows */
	TG_SOURCE_EXEMPT, /* the kernel alone decides */
	TG_SOURCE_BEYOND, /* its network has had its share: share.h */
	TG_SOURCE_WITHIN, /* its network sends less than its share, while shares are kept */
};

/* What holds for a network of clients; the longest one that has the client counts. */
struct tg_limit {
	__u64 cost_ns;  /* of one SYN: 1 / rate; 0: the network is exempt */
	__u64 burst_ns; /* what the SYNs of a burst but the first cost */
	__u32 bucket;   /* its number */
	__u32 padding;
};

/* Of several processors that take at once, one is first; who is never first is let through. */
#define TG_LIMIT_TRIES 4

/*
 * An enum tg_source. The bucket is one number, the time at which it will be full again, so
 * that it can be taken from without a lock. All zero is full.
 */
TG_INLINE __u32 tg_limit_take(const struct tg_limit *limit, __u64 *full_ns, __u64 now_ns)
{
	if (!limit->cost_ns)
		return TG_SOURCE_EXEMPT;
	for (int i = 0; i < TG_LIMIT_TRIES; i++) {
		__u64 was_ns = *(volatile __u64 *)full_ns;
		__u64 from_ns = was_ns > now_ns ? was_ns : now_ns;

		if (from_ns - now_ns > limit->burst_ns)
			return TG_SOURCE_OVER;
		if (__sync_val_compare_and_swap(full_ns, was_ns, from_ns + limit->cost_ns) ==
		    was_ns)
			break;
	}
	return TG_SOURCE_ANY;
}

#endif
