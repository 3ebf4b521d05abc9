/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * As many are let in as the server takes, where clients are away: between a SYN that is let in and
 * the place that it takes lies a round trip, so that a limit by the listen queue alone would let
 * everybody in for as long as that, and then nobody.
 *
 * Each SYN that is let in moves the time at which the next may be by as much as the server needs
 * for one, with a little less while the queue is short, and more while it is long: a sixteenth
 * either way where it is empty and at its limit. (The generic cell rate algorithm, ITU-T I.371,
 * with that time for its theoretical arrival time.) Twice as much would have the queue swing, by
 * the round trip, between nothing and its end.
 */
#ifndef TG_PACE_H
#define TG_PACE_H

#include "listener.h"

/* So much may be let in at once as the server takes in 2.1 ms. */
#define TG_PACE_AT_ONCE_NS (1ull << 21)

/* On their way are more than the short queue has places: what it tells is of a while ago. */
TG_INLINE int tg_pace_is_far(const struct tg_overload *o)
{
	return o->on_their_way > o->places;
}

/*
 * Before a window is closed: how many were on their way, had the server enough of them, and what
 * does it take?
 */
TG_INLINE void tg_pace_see(struct tg_overload *o)
{
	o->on_their_way = o->seen ? o->half_open_sum / o->seen : 0;
	o->is_sated = tg_pace_is_far(o) && o->waiting_sum >= o->seen * o->places;
	o->apart_ns = o->drain_x256 ? 256000000000ull / o->drain_x256 : 0;
}

/* Between two that are let in, by the queue that there is. */
TG_INLINE __u64 tg_pace_step_ns(const struct tg_overload *o, __u32 listen_len)
{
	__u64 sixteenths = 15 + 2ull * listen_len / (o->places + !o->places);

	return o->apart_ns * (sixteenths < 20 ? sixteenths : 20) / 16;
}

/* Before a SYN is judged. */
TG_INLINE void tg_pace_begin(struct tg_overload *o, const struct tg_queues *queues)
{
	o->half_open_sum += queues->syn_len;
	o->waiting_sum += queues->listen_len;
	o->step_ns = tg_pace_step_ns(o, queues->listen_len);
}

/* Were more let in than the server takes? */
TG_INLINE int tg_pace_is_ahead(const struct tg_overload *o, __u64 now_ns)
{
	return o->next_ns > now_ns + TG_PACE_AT_ONCE_NS;
}

/* Somebody is let in. Those for whom no pace was kept do not count against others. */
TG_INLINE void tg_pace_let_in(struct tg_overload *o, __u64 now_ns)
{
	if (o->next_ns < now_ns)
		o->next_ns = now_ns;
	if (!tg_pace_is_ahead(o, now_ns))
		o->next_ns += o->step_ns;
}

#endif
