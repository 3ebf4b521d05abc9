/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How applications accept: what policy/include/accepts.h looks at, by counter slot. */
#ifndef TG_BPF_ACCEPTS_H
#define TG_BPF_ACCEPTS_H

#include "../../policy/include/accepts.h"
#include "maps.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TG_SLOTS);
	__type(key, __u32);
	__type(value, struct tg_accepts);
} accepts SEC(".maps");

/*
 * After a SYN was judged. In calm it costs a look-up; the clock that is coarse enough for calm
 * stands still for milliseconds, in which an application takes a whole queue. Global, as tg_shed
 * is.
 */
__noinline int tg_accepts_meet(__u32 slot, const struct tg_rules *rules,
                               const struct tg_queues *queues, __u32 reason, __u64 coarse_ns)
{
	struct tg_accepts *a = bpf_map_lookup_elem(&accepts, &slot);

	if (a && rules && queues && tg_accepts_asks(a, reason, coarse_ns))
		tg_accepts_look(a, rules, queues, reason, bpf_ktime_get_ns());
	return 0;
}

/* One of our cookies has come back, and is let in: no SYN has said so. */
TG_INLINE void tg_accepts_admit(const struct tg_rules *rules, __u32 slot, __u32 reason)
{
	struct tg_accepts *a = NULL;

	if (tg_accepts_admits(rules, reason))
		a = bpf_map_lookup_elem(&accepts, &slot);
	if (a)
		tg_accepts_take(a);
}

#endif
