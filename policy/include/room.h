/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Is there room for one more SYN? The kernel's rule, and reservation. */
#ifndef TG_ROOM_H
#define TG_ROOM_H

#include "listener.h"
#include "verdict.h"

/*
 * SynQ3/4Full: three quarters of tcp_max_syn_backlog are half-open, and the kernel, which gives no
 * cookies, keeps the rest for others.
 */
TG_INLINE int tg_syn_queue_3_4_full(const struct tg_queues *queues)
{
	return !queues->syncookies && (queues->syn_len > queues->syn_max ||
	                               queues->syn_max - queues->syn_len < queues->syn_max >> 2);
}

/*
 * What the kernel does with a SYN now: TG_ROOM, TG_KERNEL_COOKIE, or the rule
 * by which it drops it. In the order of tcp_conn_request(), Linux 4.10 to 6.18; before 6.13 the SYN
 * queue is full one request earlier: see tg_syn_queue_full().
 * SynQ3/4Full spares destinations that the kernel remembers from before
 * (tcp_peer_is_proven); that memory cannot be read, so they are counted with
 * the others.
 */
TG_INLINE __u32 tg_room_kernel(const struct tg_queues *queues)
{
	int want_cookie = queues->syncookies == 2;

	if (tg_syn_queue_full(queues)) {
		if (!queues->syncookies)
			return TG_SYNQ_FULL;
		want_cookie = 1;
	}
	if (tg_listen_queue_full(queues))
		return TG_LISTENQ_FULL_AT_SYN;
	if (want_cookie)
		return TG_KERNEL_COOKIE;
	return tg_syn_queue_3_4_full(queues) ? TG_SYNQ_3_4_FULL : TG_ROOM;
}

/*
 * The queue is as long as it may be for this limit; 0 is none. A logical limit lies below the
 * kernel's: by configuration it is Jamjoom's Grow (2.1.3), where who has its SYN/ACK finds room
 * above it, while no new SYN is answered. With auto it is how long one who is let in should wait.
 */
TG_INLINE int tg_room_ends(__u32 places, const struct tg_queues *queues)
{
	return places && queues->listen_len >= places;
}

/* The least of so many places and the logical limits: configured, and auto's. */
TG_INLINE __u64 tg_least_places(const struct tg_rules *rules, const struct tg_queues *queues,
                                __u64 places)
{
	if (rules->places && rules->places < places)
		places = rules->places;
	if (queues->places && queues->places < places)
		places = queues->places;
	return places;
}

/* The places of the listen queue: Linux takes one more than the backlog. */
TG_INLINE __u64 tg_listen_places(const struct tg_queues *queues)
{
	return (__u64)queues->listen_max + 1;
}

/*
 * Those that can be reserved. lazy accept() answers no SYN before the application asks for a
 * connection (Shukla 4.1.2). One that waits for events asks only once it is told that somebody
 * waits, so there must be one to tell of: it has asked for all that were when it has taken them,
 * and is let have so many ahead.
 */
TG_INLINE __u64 tg_reserve_places(const struct tg_rules *rules, const struct tg_queues *queues)
{
	__u64 places = tg_listen_places(queues);

	return rules->ahead && rules->ahead < places ? rules->ahead : places;
}

/* Beyond so many in the listen queue a SYN finds no room: the kernel's places, or a limit below. */
TG_INLINE __u64 tg_room_most(const struct tg_rules *rules, const struct tg_queues *queues)
{
	__u64 most = rules->room == TG_ROOM_RESERVE ? tg_reserve_places(rules, queues)
	                                            : tg_listen_places(queues);

	return tg_least_places(rules, queues, most);
}

/*
 * The places taken once one more SYN is answered: the connections that wait
 * for accept(), and the half-open ones, each counted as the part of a place
 * that overbooking leaves it.
 */
TG_INLINE __u64 tg_reserve_taken(const struct tg_rules *rules, const struct tg_queues *queues,
                                 __u64 claimed)
{
	__u64 factor_x256 = rules->overbook_x256 > TG_ONE_X256 ? rules->overbook_x256 : TG_ONE_X256;
	__u64 in_flight = (__u64)queues->syn_len + claimed + 1;

	return queues->listen_len + (in_flight * TG_ONE_X256 + factor_x256 - 1) / factor_x256;
}

/*
 * Of a port's claims those for this socket: which member of a SO_REUSEPORT group gets a connection
 * is chosen by a hash, so that each has as many.
 */
TG_INLINE __u64 tg_reserve_own_claims(const struct tg_queues *queues)
{
	return queues->members ? queues->claimed / queues->members : queues->claimed;
}

/*
 * The places that can be reserved, and those that are taken once one more SYN is answered. No place
 * of the listen queue is promised twice, though all claims were for this socket. Beyond those that
 * lazy lets have ahead there are more: it reckons with the likeliest number, or it would refuse
 * whatever a driver hands up at once to a group of many.
 */
struct tg_reserve {
	__u64 places;
	__u64 taken;
};

TG_INLINE struct tg_reserve tg_reserve_view(const struct tg_rules *rules,
                                            const struct tg_queues *queues)
{
	struct tg_reserve all = {
		.places = tg_listen_places(queues),
		.taken = tg_reserve_taken(rules, queues, queues->claimed),
	};
	struct tg_reserve ahead = {.places = tg_reserve_places(rules, queues)};

	if (ahead.places == all.places || all.taken > all.places)
		return all;
	ahead.taken = tg_reserve_taken(rules, queues, tg_reserve_own_claims(queues));
	return ahead;
}

/*
 * Random early drop on reservations (Shukla 4.1.7, after Floyd and Jacobson's
 * RED): nothing below early_from, then linearly up to early_probability where
 * every place is taken. random is uniform over 32 bits.
 */
TG_INLINE int tg_reserve_early_drop(const struct tg_rules *rules, __u64 taken, __u64 places,
                                    __u32 random)
{
	__u64 from = places * rules->early_from_x256 / TG_ONE_X256;
	__u64 threshold;

	if (rules->early_from_x256 >= TG_ONE_X256 || taken <= from || places <= from)
		return 0;
	threshold = (taken - from) * rules->early_probability_x256 / (places - from);
	return (random & 0xff) < threshold;
}

/*
 * Where a place could be reserved: has the kernel no room for the request? The SYN queue is as long
 * as the backlog, so that with overbooking half-open connections fill it first; and without SYN
 * cookies three quarters of tcp_max_syn_backlog may be less. A cookie of the kernel's own, which is
 * its room then, reserves nothing. Before Linux 6.12.10 and 6.13 the queue never is longer than the
 * backlog, and is not seen to be full. Claims are not among them: of those that a driver hands up
 * at once the last may still have such a cookie.
 */
TG_INLINE __u32 tg_reserve_kernel(const struct tg_queues *queues)
{
	if (tg_syn_queue_full(queues))
		return TG_SYNQ_FULL;
	return tg_syn_queue_3_4_full(queues) ? TG_SYNQ_3_4_FULL : TG_ROOM;
}

/* Room under reserv: TG_ROOM, or why not. */
TG_INLINE __u32 tg_room_reserve(const struct tg_rules *rules, const struct tg_queues *queues,
                                __u32 random)
{
	struct tg_reserve at = tg_reserve_view(rules, queues);

	if (queues->listen_len >= tg_listen_places(queues))
		return TG_LISTENQ_FULL_AT_SYN;
	if (at.taken > at.places)
		return TG_NO_RESERVATION;
	if (tg_reserve_early_drop(rules, at.taken, at.places, random))
		return TG_EARLY_RANDOM;
	return tg_reserve_kernel(queues);
}

/* Half-open requests are cleaned as long as with this part more of them there would be no room. */
#define TG_CLEAN_MARGIN 3

/*
 * Should this half-open request give its place back? Oldest first means: all that are older than
 * the stated age, and only while places are short, or the kernel's room for requests is. Short, and
 * not gone: who is removed makes room, so that of a flood one at a time would be.
 */
TG_INLINE int tg_reservation_stale(const struct tg_rules *rules, const struct tg_queues *queues,
                                   __u64 age_ms)
{
	struct tg_queues more = *queues;
	struct tg_reserve at;

	if (rules->room != TG_ROOM_RESERVE || !rules->clean_after_ms ||
	    age_ms < rules->clean_after_ms)
		return 0;
	more.syn_len += more.syn_len / TG_CLEAN_MARGIN;
	at = tg_reserve_view(rules, &more);
	return at.taken > at.places || tg_reserve_kernel(&more) != TG_ROOM;
}

#endif
