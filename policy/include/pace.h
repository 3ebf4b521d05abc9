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
#include "overload_state.h"
#include "rate.h"

/*
 * So many may be let in at once, for clients come by chance: where only the next may come in, one
 * in seven of those whom a server could serve that takes a thousand a second find the door shut.
 * But no fewer than it takes in 2.1 ms; and of one that takes none in 2.1 ms only the next: where
 * many share such a server's processor (Knot) each that is too many makes all later.
 */
#define TG_PACE_AT_ONCE 3
#define TG_PACE_AT_ONCE_NS (1ull << 21)

/* An ACK that has not come after so long is waited for no more: 537 ms. */
#define TG_PACE_PROBE_NS (1ull << 29)

/* A server is short of clients where the mean of its queue is below this part of its places. */
#define TG_PACE_STARVED 8

/* On their way are more than half of the short queue: what it tells is of a while ago. */
TG_INLINE int tg_pace_is_far(const struct tg_overload *o)
{
	return 2 * o->on_their_way > o->places;
}

/*
 * When a client is let in: unless another's is waited for, its ACK will tell how far away clients
 * are. (By the number of half-open connections it cannot be told: those whose ACK found the listen
 * queue full are among them.)
 */
TG_INLINE int tg_pace_asks(const struct tg_overload *o, __u64 now_ns)
{
	return !o->probe_isn || tg_since(now_ns, o->probed_ns) >= TG_PACE_PROBE_NS;
}

TG_INLINE void tg_pace_probe(struct tg_overload *o, __u32 isn, __u64 now_ns)
{
	if (!tg_pace_asks(o, now_ns))
		return;
	o->probe_isn = isn;
	o->probed_ns = now_ns;
}

/* Does this segment, the client's first after its SYN, tell? */
TG_INLINE int tg_pace_tells(const struct tg_overload *o, __u32 seq, __u64 now_ns)
{
	return !tg_pace_asks(o, now_ns) && seq == o->probe_isn + 1;
}

/* The round trip is the mean of the last few. */
TG_INLINE void tg_pace_see_round_trip(struct tg_overload *o, __u64 now_ns)
{
	o->round_trip_ns = (3 * o->round_trip_ns + tg_since(now_ns, o->probed_ns)) / 4;
	o->probe_isn = 0;
}

/* An enum tg_supply. */
TG_INLINE __u8 tg_pace_supply(const struct tg_overload *o)
{
	__u64 places = o->seen * o->places;

	if (!tg_pace_is_far(o))
		return TG_FITS;
	if (o->waiting_sum >= places)
		return TG_SATED;
	return o->waiting_sum < places / TG_PACE_STARVED ? TG_STARVED : TG_FITS;
}

/*
 * Before a window is closed: how many are on their way while the server has enough to do, had it
 * enough of them, and what does it take?
 */
TG_INLINE void tg_pace_see(struct tg_overload *o)
{
	o->on_their_way = (__u32)(tg_rate_amount(o->drain_x256, o->round_trip_ns) / 256);
	o->supply = tg_pace_supply(o);
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
	o->waiting_sum += queues->listen_len;
	o->step_ns = tg_pace_step_ns(o, queues->listen_len);
}

/* So far ahead of the pace who is let in may be. */
TG_INLINE __u64 tg_pace_at_once_ns(const struct tg_overload *o)
{
	__u64 at_once_ns = TG_PACE_AT_ONCE * o->apart_ns;

	if (at_once_ns < TG_PACE_AT_ONCE_NS || o->apart_ns > TG_PACE_AT_ONCE_NS)
		return TG_PACE_AT_ONCE_NS;
	return at_once_ns;
}

/* Were more let in than the server takes? */
TG_INLINE int tg_pace_is_ahead(const struct tg_overload *o, __u64 now_ns)
{
	return o->next_ns > now_ns + tg_pace_at_once_ns(o);
}

/* Somebody is let in. Those for whom no pace was kept do not count against others. */
TG_INLINE void tg_pace_let_in(struct tg_overload *o, __u32 isn, __u64 now_ns)
{
	tg_pace_probe(o, isn, now_ns);
	if (o->next_ns < now_ns)
		o->next_ns = now_ns;
	if (!tg_pace_is_ahead(o, now_ns))
		o->next_ns += o->step_ns;
}

#endif
