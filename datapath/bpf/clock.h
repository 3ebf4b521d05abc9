/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What time it is, to within a tick. */
#ifndef TG_CLOCK_H
#define TG_CLOCK_H

#include "maps.h"

/*
 * The monotonic clock as bpf_ktime_get_coarse_ns() has it, without a call, of which a judged SYN
 * pays for few others: jiffies are that clock in ticks (tick_do_update_jiffies64(), as of Linux
 * 6.18), and the verifier puts one load in place of bpf_jiffies64() (Linux 5.6). The loader says
 * how long a tick is, and when they began; where it cannot tell, the kernel is asked.
 */
TG_INLINE __u64 tg_now_ns(const struct tg_control *c)
{
	if (!c->tick_ns)
		return bpf_ktime_get_coarse_ns();
	return bpf_jiffies64() * c->tick_ns + c->ticks_began_ns;
}

#endif
