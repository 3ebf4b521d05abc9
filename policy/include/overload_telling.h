/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whose turn it is, and who is told that there is no room. While a crowd stays new clients, who
 * have not waited, have the room that there is; and as many find silence as may hope to be served
 * (overload_hope.h).
 */
#ifndef TG_OVERLOAD_TELLING_H
#define TG_OVERLOAD_TELLING_H

#include "client.h"
#include "overload_hope.h"
#include "overload_window.h"
#include "verdict.h"
#include "waiting.h"

/* As many new clients a second are remembered when they are told: for 3 s, a fifth of the table. */
#define TG_OVERLOAD_TOLD_KEPT (TG_WAITING_BLOCKS * TG_WAITING_CELLS / 16)

/* When a crowd has gone so many are enough for each that the server takes. */
#define TG_OVERLOAD_ENOUGH_LEAST 2
#define TG_OVERLOAD_ENOUGH_MOST 4
/* This is the last SYN of who was told so often: Windows sends five. */
#define TG_OVERLOAD_LAST_SYN 3
/* Or of who was told so often, where two were left in silence before. */
#define TG_OVERLOAD_SPENT 2
/* Of these so many wait connected for each that the server takes. */
#define TG_OVERLOAD_CONNECTED 2
/* And so many of a short crowd that is about to go. */
#define TG_OVERLOAD_BRIDGES 1
/* So many that have ended tell how long they are here. */
#define TG_OVERLOAD_FAMILIAR 3

/* Whether one who finds no room is told so. */
enum tg_telling {
	TG_SILENT,
	TG_CONNECTS,   /* it waits connected, by a SYN cookie */
	TG_BRIDGES,    /* the same, or in silence */
	TG_TELLS_SOON, /* to come again soon, by a RST: it sends its SYN again on one */
	TG_TELLS,      /* not to come again */
};

/* Must it be known whether this client waits already? In calm, with room, nobody does. */
TG_INLINE int tg_overload_asks(__u32 phase, int has_room)
{
	return phase != TG_CALM || !has_room;
}

/*
 * Is this the last that is heard of it? So it is of who was told as often as it comes again; and in
 * a small overload, in which hardly anybody is to give up, of who has waited for three fifths of
 * its patience: the times at which a system sends its SYN again are further and further apart (0,
 * 1, 3 and 7 s; 5 and 7 s).
 */
TG_INLINE int tg_overload_is_last(const struct tg_rules *rules, const struct tg_overload *o,
                                  const struct tg_client *client)
{
	__u64 waited_ms = ((__u64)client->waited_ticks << TG_CELL_TICK_SHIFT) / 1000000;

	if (client->times_told >= TG_OVERLOAD_LAST_SYN)
		return 1;
	return 5 * waited_ms >= 3ull * rules->patience_ms && tg_overload_is_small(rules, o);
}

/*
 * New clients first: the reason for who finds room and is to come later. In a burst, and when the
 * crowd has gone, who has waited comes in, but by half of the queue: thousands of them would fill
 * it whenever a place is free, and new ones would have to wait in their stead, who would fill it
 * after them, for as long as the server has little time to spare. Who cannot come again has what
 * new ones have, and behind a short burst everyone has: it was over before they came again.
 */
TG_INLINE __u32 tg_overload_turn(const struct tg_rules *rules, const struct tg_overload *o,
                                 __u32 phase, __u32 reason, const struct tg_client *client,
                                 int is_half_full, __u64 now_ns)
{
	int has_ended = tg_overload_has_ended(o, now_ns);

	if (client->caller == TG_CALLER_NEW || phase == TG_CALM)
		return reason;
	if (phase == TG_PERSISTENT && !has_ended)
		return TG_NEW_FIRST;
	if (phase == TG_BURST && has_ended && !o->was_long)
		return reason;
	if (is_half_full && !tg_overload_is_last(rules, o, client))
		return TG_NEW_FIRST;
	return reason;
}

/*
 * Is there room to remember who is told and not expected again? Not in a flood of new clients, by
 * the mean, or by this quarter of a second where that has not risen yet: they would fill the table,
 * and who waits would be taken for new.
 */
TG_INLINE int tg_overload_keeps_told(const struct tg_overload *o)
{
	return o->fresh_x256 >> 8 < TG_OVERLOAD_TOLD_KEPT && o->fresh < TG_OVERLOAD_TOLD_KEPT / 4;
}

/* Does it send its SYN again on a RST, as it has shown or as it looks? */
TG_INLINE int tg_overload_may_hasten(const struct tg_client *client)
{
	return client->caller == TG_CALLER_TOLD ||
	       (client->caller == TG_CALLER_WAITS && client->sends_again);
}

/*
 * When a crowd has gone so many are to come a second, be it that they were told to or of
 * themselves: as many as wait, but for each that the server takes two at least, and four at most.
 * With fewer it would be idle until the others come; with more all SYNs of those who wait are spent
 * before it has served them.
 */
TG_INLINE __u64 tg_overload_enough(const struct tg_overload *o)
{
	__u64 drain = o->drain_x256 >> 8, waiting = o->silent_x256 >> 8;

	if (waiting < TG_OVERLOAD_ENOUGH_LEAST * drain)
		return TG_OVERLOAD_ENOUGH_LEAST * drain;
	if (waiting > TG_OVERLOAD_ENOUGH_MOST * drain)
		return TG_OVERLOAD_ENOUGH_MOST * drain;
	return waiting;
}

/*
 * Is it to come again soon? Of what is left of a crowd that has gone, while there are not enough:
 * who sends its SYN again on a RST has one, and the others silence. Windows comes again after 1, 3
 * and 7 s, and the server would be idle between; on a RST it comes after half a second, but five
 * times in all.
 */
TG_INLINE int tg_overload_hastens(const struct tg_overload *o, const struct tg_client *client,
                                  __u64 now_ns)
{
	return tg_overload_may_hasten(client) &&
	       o->hastened + o->steady < tg_overload_share(o, tg_overload_enough(o), now_ns);
}

/*
 * Is it to wait connected? Of clients that speak first, and of what is left of a crowd that has
 * gone, who has spent its SYNs: it has a SYN cookie, and its data, which it sends again after 0.3,
 * 0.9 and 2.1 s, brings it in when there is room. Else the server would be idle from when the last
 * SYNs are spent, 5 s after a burst has begun. But no more than that it has time for these as well.
 */
TG_INLINE int tg_overload_connects(const struct tg_overload *o, const struct tg_client *client,
                                   __u64 now_ns)
{
	__u64 most = TG_OVERLOAD_CONNECTED * (o->drain_x256 >> 8);

	return client->speaks_first && client->times_told >= TG_OVERLOAD_SPENT &&
	       o->connected < tg_overload_share(o, most, now_ns);
}

/* To one of those who are left when the crowd has gone: an enum tg_telling. */
TG_INLINE __u32 tg_overload_tells_left(const struct tg_overload *o, const struct tg_client *client,
                                       __u64 now_ns)
{
	if (tg_overload_connects(o, client, now_ns))
		return TG_CONNECTS;
	return tg_overload_hastens(o, client, now_ns) ? TG_TELLS_SOON : TG_SILENT;
}

/*
 * Is one who may wait to wait connected? Of a short crowd that is likely to have gone in 2 s, as
 * many as the server takes. Whoever waits in silence comes after 1, 3 and 7 s, by most systems'
 * schedules, and a server that has served them by then would be idle between: the data of these
 * comes after 0.3, 0.9, 2.1 and 4.5 s. Behind a longer one there are enough; of the first three
 * nobody knows how long they are.
 */
TG_INLINE int tg_overload_bridges(const struct tg_overload *o, const struct tg_client *client,
                                  __u64 now_ns)
{
	__u64 most = TG_OVERLOAD_BRIDGES * (o->drain_x256 >> 8);

	return client->speaks_first && o->ended >= TG_OVERLOAD_FAMILIAR && o->ends_soon &&
	       tg_overload_lasted_ns(o) < TG_OVERLOAD_SETTLED_MS * 1000000ull &&
	       o->connected < tg_overload_share(o, most, now_ns);
}

/*
 * Is one who finds no room to be told so, an enum tg_telling? There is silence for as many SYNs as
 * those who may wait send: in a burst, and when the crowd has gone, who is served in time; while it
 * stays, who may hope for its end. Then who has waited is told sooner than who comes, which has
 * most of its patience left, and who was told once is told again.
 */
TG_INLINE __u32 tg_overload_tells(const struct tg_overload *o, __u32 phase,
                                  const struct tg_client *client, __u64 now_ns)
{
	int has_ended = tg_overload_has_ended(o, now_ns);
	__u64 share;

	if (phase != TG_PERSISTENT || has_ended) {
		share = tg_overload_share(o, o->in_time, now_ns) + TG_POLL_BATCH;
		if (o->silent >= share)
			return TG_TELLS;
		return has_ended ? tg_overload_tells_left(o, client, now_ns) : TG_SILENT;
	}
	if (client->caller == TG_CALLER_TOLD)
		return TG_TELLS;
	share = tg_overload_share(o, o->may_wait, now_ns);
	if (client->caller != TG_CALLER_WAITS)
		share *= 2;
	if (o->silent >= share)
		return TG_TELLS;
	return tg_overload_bridges(o, client, now_ns) ? TG_BRIDGES : TG_SILENT;
}

/* How often it was told, with this time. */
TG_INLINE __u32 tg_overload_times_told(const struct tg_client *client)
{
	if (client->answer != TG_ANSWER_SILENCE)
		return client->times_told + 1;
	return client->times_told < TG_TOLD_MOST ? 0 : client->times_told;
}

/*
 * The ACK stage: is who finds no room left in silence? For t, and when the crowd has gone.
 * Meanwhile it is told, be those who only ask left in silence or not: it takes itself for
 * connected, and sends again and again what it has to say, before nginx at its capacity 90,000
 * segments a second.
 */
TG_INLINE int tg_overload_silences_ack(const struct tg_overload *o, __u64 now_ns)
{
	int is_long = o->since_ns && tg_since(now_ns, o->since_ns) >= TG_OVERLOAD_BURST_NS;

	if (!tg_overload_goes_on(o, now_ns) || tg_overload_has_ended(o, now_ns))
		return 1;
	return !is_long && !o->is_persistent;
}

#endif
