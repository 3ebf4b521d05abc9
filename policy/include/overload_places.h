/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The short queue: how many places of the listen queue are in use during an overload, and for whom
 * there is no room whatever the queues say. How long who is let in waits for accept() is what these
 * are long.
 */
#ifndef TG_OVERLOAD_PLACES_H
#define TG_OVERLOAD_PLACES_H

#include "overload_inside.h"
#include "overload_window.h"
#include "pace.h"
#include "room.h"

/*
 * The short queue has at least so many places. With 16 a server of one thread at 1.1 times
 * its capacity is idle for 2 % of its time (M/M/1/K with K = 17), with 8 for 6 %.
 */
#define TG_OVERLOAD_PLACES_LEAST 16
/*
 * And so many where far more come. With 8 it is busy, too (M/M/1/K at twice its capacity is idle
 * for 0.1 %), but takes them in smaller batches than packets are cheap in.
 */
#define TG_OVERLOAD_PLACES_FEWEST 12

/* A server takes, and does not stand still, where it takes this part of what it took before. */
#define TG_OVERLOAD_TAKES 4

/*
 * So long the queue may be though there is no overload yet; 0: as long as it is. Where there were
 * more at the beginning and at the end of a window, a server that goes on taking, for two windows,
 * has taken what it can: that, or what it took before, if that was more. One that stands still (it
 * collects garbage) will take them afterwards; some seem to be taken meanwhile, as those whose
 * handshake is given up.
 */
TG_INLINE __u64 tg_overload_bound(const struct tg_overload *o, __u32 listen_len, __u64 taken_x256)
{
	__u64 drain_x256 = o->drain_x256 > taken_x256 ? o->drain_x256 : taken_x256;
	__u64 bound = tg_overload_long_queue(drain_x256);
	__u64 slower_x256 = o->taken_x256 < taken_x256 ? o->taken_x256 : taken_x256;
	__u64 least = o->listened < listen_len ? o->listened : listen_len;

	if (!slower_x256 || slower_x256 * TG_OVERLOAD_TAKES < o->drain_x256)
		return 0;
	/* Where it is in force already they are hardly more at any time. */
	return least >= (o->bound ? bound / 2 : bound) ? bound : 0;
}

/* The places of the short queue: what the server takes in the time that a client may wait. */
TG_INLINE __u32 tg_overload_places(const struct tg_rules *rules, const struct tg_overload *o)
{
	/* Amounts are of up to a second. */
	__u64 wait_ns = rules->wait_us < 1000000 ? rules->wait_us * 1000ull : 1000000000ull;
	__u64 places = tg_rate_amount(o->drain_x256, wait_ns) / 256;

	return places > TG_OVERLOAD_PLACES_LEAST ? (__u32)places : TG_OVERLOAD_PLACES_LEAST;
}

/* No more than the listen queue has: one that is as long as it gets is at its limit. */
TG_INLINE __u32 tg_overload_within(__u32 places, __u32 listen_max)
{
	__u32 most = listen_max + !listen_max;

	return places < most ? places : most;
}

/*
 * And those that are enough while a crowd is there: the more come, the sooner a place that becomes
 * free is taken again. From half as many again as the server takes fewer, by the excess; a quarter
 * of them at three times. But as many as are let in within a round trip.
 */
TG_INLINE __u32 tg_overload_few_places(const struct tg_overload *o)
{
	__u64 crowd_x256 = o->fresh_x256 + o->kept_out_x256;
	__u64 excess_x256 = crowd_x256 > o->drain_x256 ? crowd_x256 - o->drain_x256 : 0;
	__u32 least = o->on_their_way > TG_OVERLOAD_PLACES_FEWEST ? o->on_their_way
	                                                          : TG_OVERLOAD_PLACES_FEWEST;
	__u64 places;

	if (2 * excess_x256 <= o->drain_x256)
		return o->places;
	places = o->places * o->drain_x256 / (2 * excess_x256);
	return places > least ? (__u32)places : least;
}

/* The short queue's limit, where one is in force; a crowd that stays keeps fewer places taken. */
TG_INLINE __u32 tg_overload_limit(const struct tg_overload *o, __u32 phase, __u64 now_ns)
{
	if (!tg_overload_goes_on(o, now_ns) || (!o->ended && phase != TG_PERSISTENT))
		return (__u32)o->bound;
	if (phase != TG_PERSISTENT || tg_overload_has_ended(o, now_ns) || tg_pace_is_far(o))
		return o->places;
	return o->few_places;
}

/* So much of the listen queue is taken; of one of no places nothing is while nobody waits. */
TG_INLINE int tg_overload_half_fills(const struct tg_queues *queues)
{
	return queues->listen_len && 2 * (__u64)queues->listen_len >= queues->listen_max;
}

/* Or of the short one. */
TG_INLINE int tg_overload_fills_half(const struct tg_queues *queues)
{
	return tg_overload_half_fills(queues) ||
	       (queues->places && 2 * (__u64)queues->listen_len >= queues->places);
}

/* Of so many cookies at least one comes back, where clients have them. */
#define TG_OVERLOAD_COME_BACK 4

/* Did hardly any of so many come back in the window at hand? (Few are chance.) */
TG_INLINE __u8 tg_overload_hardly_come_back(const struct tg_overload *o, __u64 cookies)
{
	__u64 enough = (__u64)TG_OVERLOAD_COME_BACK * o->proved + TG_OVERLOAD_PLACES_LEAST;

	return (__u8)tg_less(enough, cookies);
}

/*
 * Are they a flood's, whose ACKs never come? Of clients that are away those of this window may not
 * have come yet, but those that were on their way before it; so both tell. A flood lasts as long as
 * its own do not come: where all have cookies clients bring more than were out while few had.
 */
TG_INLINE __u8 tg_overload_is_flooded(const struct tg_overload *o)
{
	return tg_overload_hardly_come_back(o, o->cookies) &
	       (o->is_flooded | tg_overload_hardly_come_back(o, o->on_return));
}

/*
 * Do ACKs come? A flood of forged SYNs brings none, though the clients among them may fill half of
 * the short queue now and then.
 */
TG_INLINE int tg_overload_was_half_full(const struct tg_overload *o, __u64 now_ns)
{
	return !o->is_flooded && tg_since(now_ns, o->half_full_ns) < TG_OVERLOAD_HOLD_NS;
}

/* Were more let in than the server takes, of those whose ACKs come? */
TG_INLINE int tg_overload_is_ahead(const struct tg_overload *o, __u64 now_ns)
{
	return tg_overload_was_half_full(o, now_ns) && tg_pace_is_ahead(o, now_ns);
}

/*
 * Are the kernel's SYN cookies, which it gives while its SYN queue is full, no room? Who has one is
 * in no queue until its ACK is back, so that hundreds would be given one for each place that
 * becomes free. So there are none while half of the listen queue is taken; nor, for a while after
 * half of it was, or of the short one, more than twice what the server takes, once that is known.
 * Where the ACKs never come, in a flood of forged SYNs, the queue is empty, and every SYN has the
 * kernel's cookie. A kernel that answers every SYN so is left to itself: its SYN queue is empty.
 */
TG_INLINE int tg_overload_bars_cookies(const struct tg_overload *o, const struct tg_queues *queues,
                                       __u64 now_ns)
{
	__u64 most;

	if (!tg_syn_queue_full(queues))
		return 0;
	if (tg_overload_half_fills(queues))
		return 1;
	if (!o->ended || !tg_overload_was_half_full(o, now_ns))
		return 0;
	most = tg_overload_share(o, 2 * (o->drain_x256 >> 8), now_ns);
	return o->cookies >= most + TG_OVERLOAD_PLACES_LEAST;
}

/* For whom there is no room, whatever the queues say: an enum tg_shut. */
TG_INLINE __u32 tg_overload_shuts(const struct tg_overload *o, const struct tg_queues *queues,
                                  __u64 now_ns)
{
	if (queues->places && tg_pace_is_far(o))
		return tg_overload_is_ahead(o, now_ns) ? TG_SHUT : TG_OPEN;
	return tg_overload_bars_cookies(o, queues, now_ns) ? TG_SHUT_TO_COOKIES : TG_OPEN;
}

/*
 * Half of the places that are in use, by the least of the limits. Who is let in takes a place a
 * round trip later, so those on their way count; not so where clients are away, and no more were
 * let in than the server takes; nor the half-open connections that have stood for a window. Their
 * ACKs found the queue full, and until the kernel sends the SYN/ACK again, a second later, they
 * would keep it empty.
 *
 * After a long overload they are those of the short queue, for who has waited: a server that
 * accepts as many as there are (Knot) would accept what it takes in seconds, as would who still
 * waits, and serve some when they have given up.
 */
TG_INLINE int tg_overload_is_half_full(const struct tg_rules *rules, const struct tg_overload *o,
                                       const struct tg_queues *queues, __u64 now_ns)
{
	__u64 places = tg_least_places(rules, queues, tg_listen_places(queues));
	__u64 coming = queues->syn_len > o->stuck ? queues->syn_len - o->stuck : 0;

	if (tg_inside_is_half_full(o, now_ns))
		return 1;
	if (tg_pace_is_far(o)) {
		if (!tg_overload_is_ahead(o, now_ns))
			coming = 0;
	} else if (o->was_long && o->places < places) {
		places = o->places;
	}
	return 2 * (queues->listen_len + coming) >= places;
}

#endif
