/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How fast something goes: counts to rates, rates to counts, and their means over
 * time. Rates are 256ths of one a second, without a sign or a fraction.
 */
#ifndef TG_RATE_H
#define TG_RATE_H

#include "types.h"

/* A larger count in one sample is not believed; no rate is above 2^32 a second. */
#define TG_RATE_COUNT_MOST (1ull << 25)
#define TG_RATE_MOST (1ull << 40)

/* old, moved towards sample: an exponential mean over tau_ns. */
TG_INLINE __u64 tg_rate_toward(__u64 old, __u64 sample, __u64 passed_ns, __u64 tau_ns)
{
	__u64 weight_x16 = (passed_ns << 16) / (passed_ns + tau_ns);

	if (sample >= old)
		return old + ((sample - old) * weight_x16 >> 16);
	return old - ((old - sample) * weight_x16 >> 16);
}

/* So many in this time, as a rate. */
TG_INLINE __u64 tg_rate_of(__u64 count, __u64 passed_ns)
{
	__u64 rate_x256;

	if (count > TG_RATE_COUNT_MOST)
		count = TG_RATE_COUNT_MOST;
	rate_x256 = count * 256000000000ull / (passed_ns ? passed_ns : 1);
	return rate_x256 < TG_RATE_MOST ? rate_x256 : TG_RATE_MOST;
}

/* What a rate comes to in a time of up to a second: in 256ths. */
TG_INLINE __u64 tg_rate_amount(__u64 rate_x256, __u64 time_ns)
{
	return rate_x256 * (time_ns >> 10) / 976563;
}

#endif
