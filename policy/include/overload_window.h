/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A listening socket is watched in windows: which phase it is in, by what the last ones showed,
 * and whether the crowd is still there, by the one at hand. A window is closed by the SYN that
 * finds it old enough, so the phases go on while no daemon runs.
 */
#ifndef TG_OVERLOAD_WINDOW_H
#define TG_OVERLOAD_WINDOW_H

#include "listener.h"
#include "overload_state.h"
#include "rate.h"

/* 2^28 ns, 268 ms. */
#define TG_OVERLOAD_WINDOW_NS (1ull << 28)
/* Persistent until so long after the last window with too many new clients: 537 ms. */
#define TG_OVERLOAD_HOLD_NS (1ull << 29)
/*
 * Over so long after its last window: 1.6 s. Longer than the second after which every
 * system of today sends a SYN again.
 */
#define TG_OVERLOAD_CALM_NS (3ull << 29)
/* t: 2^30 ns, 1.07 s. A window that is longer tells nothing of rates. */
#define TG_OVERLOAD_BURST_NS (1ull << 30)
/*
 * Time constant of what the server takes: 2.1 s, for one that takes many at a time (Knot) takes
 * none for half a second.
 */
#define TG_OVERLOAD_DRAIN_NS (1ull << 31)
/* A longer overload has left more who wait than a server can be let have at once: 2 s. */
#define TG_OVERLOAD_LONG_MS 2000
/*
 * A listen queue in which one waits for longer than t, 1.07 s, is no buffer for a burst any more:
 * whoever were left in silence in its stead would come again by then. It has 128 places at least
 * (net.core.somaxconn until Linux 5.4): before a server that hardly anybody comes to nobody knows
 * how many it would take.
 */
#define TG_OVERLOAD_BOUND_LEAST 128
/* So much of a window tells whether new clients still come: 34 ms. */
#define TG_OVERLOAD_GLANCE_NS (1ull << 25)

/* More new clients come than the server takes, or did so a moment ago. */
TG_INLINE int tg_overload_goes_on(const struct tg_overload *o, __u64 now_ns)
{
	return tg_since(now_ns, o->excess_ns) < TG_OVERLOAD_HOLD_NS;
}

/* An enum tg_phase. */
TG_INLINE __u32 tg_overload_phase(const struct tg_overload *o, __u64 now_ns)
{
	if (o->is_persistent && tg_overload_goes_on(o, now_ns))
		return TG_PERSISTENT;
	if (!o->dropped_ns || tg_since(now_ns, o->dropped_ns) >= TG_OVERLOAD_CALM_NS)
		return TG_CALM;
	return o->is_persistent ? TG_RECOVERING : TG_BURST;
}

/* How long the overload at hand, up to its last window. */
TG_INLINE __u64 tg_overload_lasted_ns(const struct tg_overload *o)
{
	return tg_since(o->excess_ns, o->since_ns);
}

/* Is it a long one, the overload at hand? Without a branch: see tg_less(). */
TG_INLINE int tg_overload_is_long(const struct tg_overload *o)
{
	return (int)tg_less(TG_OVERLOAD_LONG_MS * 1000000ull - 1, tg_overload_lasted_ns(o));
}

/* The same of the last, however long ago that was. */
TG_INLINE int tg_overload_last_was_long(const struct tg_overload *o)
{
	if (o->since_ns)
		return tg_overload_is_long(o);
	return o->lasted_ms[(o->ended - 1) % TG_OVERLOAD_KNOWN] >= TG_OVERLOAD_LONG_MS;
}

TG_INLINE int tg_overload_due(const struct tg_overload *o, __u64 now_ns)
{
	return tg_since(now_ns, o->window_ns) >= TG_OVERLOAD_WINDOW_NS;
}

/*
 * Closing takes microseconds. A claim that is older, by as much as a window, is nobody's: the
 * window was copied while it was closed. (Or the processor was taken away meanwhile, as a virtual
 * machine's may be.)
 */
#define TG_OVERLOAD_CLOSING_SHIFT 20
#define TG_OVERLOAD_CLOSING_TICKS ((__u32)(TG_OVERLOAD_WINDOW_NS >> TG_OVERLOAD_CLOSING_SHIFT))

/* Of a clock that is a little ahead, too. */
TG_INLINE int tg_overload_is_closing(__u32 closing_tick, __u32 tick)
{
	return closing_tick &&
	       tick - closing_tick + TG_OVERLOAD_CLOSING_TICKS < 2 * TG_OVERLOAD_CLOSING_TICKS;
}

/*
 * Is the window over, and this the processor that closes it? Of several it is one: what is seen of
 * a window, and what is measured from one to the next, would else be seen twice. It has to see it
 * through to tg_overload_turn_window().
 */
TG_INLINE int tg_overload_claim_window(struct tg_overload *o, __u64 now_ns)
{
	__u32 was = o->closing_tick, tick = (__u32)(now_ns >> TG_OVERLOAD_CLOSING_SHIFT) | 1;

	if (!tg_overload_due(o, now_ns) || tg_overload_is_closing(was, tick) ||
	    __sync_val_compare_and_swap(&o->closing_tick, was, tick) != was)
		return 0;
	if (tg_overload_due(o, now_ns))
		return 1;
	/* Another has closed it in between. */
	o->closing_tick = 0;
	return 0;
}

/*
 * So few new clients in this part of a window, with these that are kept out, that there is no
 * crowd: half of what is taken.
 */
TG_INLINE int tg_overload_is_quiet(const struct tg_overload *o, __u64 kept_out, __u64 passed_ns)
{
	/* Nobody came since: amounts are of up to a second. */
	if (passed_ns > TG_OVERLOAD_BURST_NS)
		return 1;
	return (o->fresh + kept_out) * 512 < tg_rate_amount(o->drain_x256, passed_ns);
}

/* New clients have stopped coming: seen before the window is over, or in the one before. */
TG_INLINE int tg_overload_has_ended(const struct tg_overload *o, __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->window_ns);

	if (passed_ns < TG_OVERLOAD_GLANCE_NS)
		return o->was_quiet;
	return tg_overload_is_quiet(o, 0, passed_ns);
}

/* As many as a server that takes so many a second takes in this time. */
TG_INLINE __u64 tg_overload_taken_in(__u64 drain_x256, __u64 within_ms)
{
	return (drain_x256 >> 8) * within_ms / 1000;
}

/* The shortest queue in which one waits for so long, where the server takes so many. */
TG_INLINE __u64 tg_overload_long_queue(__u64 drain_x256)
{
	__u64 queue = tg_rate_amount(drain_x256, TG_OVERLOAD_BURST_NS) / 256;

	return queue > TG_OVERLOAD_BOUND_LEAST ? queue : TG_OVERLOAD_BOUND_LEAST;
}

/*
 * As many SYNs as these clients have sent since the window began, one a second each: so many find
 * silence, evenly. Had the first of a window what there is, those who wait would all come at the
 * same parts of a second, a second apart, and the server would be idle between.
 */
TG_INLINE __u64 tg_overload_share(const struct tg_overload *o, __u64 clients, __u64 now_ns)
{
	return clients * (1 + (tg_since(now_ns, o->window_ns) >> 20)) / (1000000000 >> 20);
}

#endif
