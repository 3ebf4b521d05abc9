/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who waits inside the application. One that accepts whoever is there (a goroutine, a virtual
 * thread or a callback for each) has its queue in itself: nobody is dropped, while everyone waits,
 * until clients leave before they are answered and the server works for those who have gone.
 *
 * The daemon counts the accepted connections whose client has said something and has heard nothing
 * yet. That many wait is no sign of anything, for long polls wait by design. There are two:
 *
 *   - many have *gone*: their clients closed a second ago or longer, and the application, which
 *     would close behind them if it had time for it, has not noticed;
 *   - many wait for accept(), too, for longer than a second: for long polls one has time.
 *
 * Where there is one in count after count, ever more wait, and all the while there seems to be no
 * overload, the server is *behind*. (Who is dropped is seen by overload.h; and what a crowd has
 * left that is over becomes less.) From then on who waits inside is a part of the queue: what the
 * server takes is what it answers, and, while more new clients come than that, there is no room
 * where too many wait.
 *
 * The limit is what it takes in a quarter of the clients' patience, and no less than a second: a
 * request that itself takes half a second needs as many inside as come in that time, and the server
 * would be idle with fewer.
 */
#ifndef TG_OVERLOAD_INSIDE_H
#define TG_OVERLOAD_INSIDE_H

#include "overload_window.h"

/* An older count tells nothing any more, as where no daemon runs: 2.1 s. */
#define TG_INSIDE_OLD_NS (1ull << 31)
/* Its client has gone that closed so long ago: an application that has time closes behind it. */
#define TG_INSIDE_GONE_NS 1000000000
/* One in so many of those who wait has gone. */
#define TG_INSIDE_SHARE 8
/* So many counts that show it, beyond those that do not: 2 s, with a quarter of one between. */
#define TG_INSIDE_COUNTS 8
/* Who is let in is answered within this part of the clients' patience. */
#define TG_INSIDE_PATIENCE 4
/* Fewer are chance, and with fewer who wait a server may be idle. */
#define TG_INSIDE_LEAST 16

/* Is it a server that is behind at times, and known how many wait in it? */
TG_INLINE int tg_inside_counts(const struct tg_overload *o)
{
	return o->behind >= TG_INSIDE_COUNTS && o->counted_ns;
}

/* As many as may wait, in the queues and inside. */
TG_INLINE __u32 tg_inside_most(const struct tg_rules *rules, const struct tg_overload *o)
{
	__u64 within_ms = rules->patience_ms / TG_INSIDE_PATIENCE;
	__u64 least_ms = TG_OVERLOAD_BURST_NS / 1000000, most;

	if (within_ms < least_ms)
		within_ms = least_ms;
	most = tg_overload_taken_in(o->answered_x256, within_ms);
	return most > TG_INSIDE_LEAST ? (__u32)most : TG_INSIDE_LEAST;
}

/* Does a count show a server that is behind? */
TG_INLINE int tg_inside_shows(const struct tg_overload *o, const struct tg_inside *count,
                              __u64 waiting)
{
	if (waiting <= o->waiting || tg_overload_phase(o, count->at_ns) != TG_CALM)
		return 0;
	if (count->gone >= TG_INSIDE_LEAST &&
	    (__u64)count->gone * TG_INSIDE_SHARE >= count->unanswered)
		return 1;
	return count->queued >= tg_overload_long_queue(o->answered_x256) &&
	       (__u64)count->unanswered * TG_INSIDE_SHARE >= count->queued;
}

/*
 * What it answers, a second: who has come since the count before, less those by whom there are
 * more. Where few wait it shows only that it can do so much; and so it does while an overload
 * persists, for it may have been let have too few.
 */
TG_INLINE void tg_inside_see_answered(struct tg_overload *o, const struct tg_inside *count,
                                      __u64 waiting)
{
	__u64 passed_ns = tg_since(count->at_ns, o->counted_ns);
	__u64 in = (__u64)(count->let_in - o->counted_let_in) + o->waiting;
	__u64 answered = tg_rate_of(in > waiting ? in - waiting : 0, passed_ns);
	__u64 least = waiting < o->waiting ? waiting : o->waiting;
	int may_fall =
		least >= TG_INSIDE_LEAST && tg_overload_phase(o, o->window_ns) != TG_PERSISTENT;

	if (answered > o->answered_x256 || may_fall)
		o->answered_x256 =
			tg_rate_toward(o->answered_x256, answered, passed_ns, TG_OVERLOAD_DRAIN_NS);
}

/*
 * Once it is known it is not forgotten. Which count shows more than the one before is partly
 * chance.
 */
TG_INLINE void tg_inside_learn(struct tg_overload *o, int shows)
{
	if (o->behind >= TG_INSIDE_COUNTS)
		return;
	if (shows)
		o->behind++;
	else if (o->behind)
		o->behind--;
}

/* A count that was not seen yet. */
TG_INLINE void tg_inside_take(struct tg_overload *o, const struct tg_inside *count)
{
	__u64 waiting = (__u64)count->unanswered + count->queued;

	/* Nobody came meanwhile who would have had the last one seen, or it was the first. */
	if (tg_since(count->at_ns, o->counted_ns) < TG_INSIDE_OLD_NS)
		tg_inside_see_answered(o, count, waiting);
	tg_inside_learn(o, tg_inside_shows(o, count, waiting));
	o->counted_ns = count->at_ns;
	o->counted_let_in = count->let_in;
	o->waiting = waiting;
}

/* When a window is over, before it is closed: what the daemon has counted last. */
TG_INLINE void tg_inside_see(const struct tg_rules *rules, struct tg_overload *o,
                             const struct tg_inside *count, __u64 now_ns)
{
	if (!count->at_ns || tg_since(now_ns, count->at_ns) >= TG_INSIDE_OLD_NS) {
		o->counted_ns = 0;
		return;
	}
	if (count->at_ns != o->counted_ns)
		tg_inside_take(o, count);
	o->may_be_waiting = tg_inside_most(rules, o);
}

/* So many wait now, by the last count, who was let in since, and what the server answers. */
TG_INLINE __u64 tg_inside_now(const struct tg_overload *o, __u64 now_ns)
{
	__u64 passed_ns = tg_since(now_ns, o->counted_ns);
	__u64 in = o->waiting + (o->let_in - o->counted_let_in), answered;

	/* Amounts are of up to a second. */
	if (passed_ns > TG_OVERLOAD_BURST_NS)
		passed_ns = TG_OVERLOAD_BURST_NS;
	answered = tg_rate_amount(o->answered_x256, passed_ns) / 256;
	return in > answered ? in - answered : 0;
}

/* Half as many as may: it has work, whatever the queues say. */
TG_INLINE int tg_inside_is_half_full(const struct tg_overload *o, __u64 now_ns)
{
	return tg_inside_counts(o) && 2 * tg_inside_now(o, now_ns) >= o->may_be_waiting;
}

/* As many as may: there is no room for anybody. */
TG_INLINE int tg_inside_is_full(const struct tg_overload *o, __u64 now_ns)
{
	return tg_inside_counts(o) && tg_inside_now(o, now_ns) >= o->may_be_waiting &&
	       o->fresh_x256 + o->kept_out_x256 > o->answered_x256;
}

#endif
