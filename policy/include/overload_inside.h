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
 * left that is over becomes less.) A crowd that fills the listen queue before that is known has
 * clients dropped from then on; while it persists the server is behind where most of those inside
 * have gone. From then on who waits inside is a part of the queue: what the server takes is what it
 * answers, and, while more new clients come than that, there is no room where too many wait.
 *
 * How many are too many is found by trial: overload_enough.h.
 */
#ifndef TG_OVERLOAD_INSIDE_H
#define TG_OVERLOAD_INSIDE_H

#include "overload_enough.h"

/* An older count tells nothing any more, as where no daemon runs: 2.1 s. */
#define TG_INSIDE_OLD_NS (1ull << 31)
/* Its client has gone that closed so long ago: an application that has time closes behind it. */
#define TG_INSIDE_GONE_NS 1000000000
/* One in so many of those who wait has gone. */
#define TG_INSIDE_SHARE 8
/* Or so many, while a crowd is there: then it works for those who have gone. */
#define TG_INSIDE_MOST 2
/* So many counts that show it, beyond those that do not: 2 s, with a quarter of one between. */
#define TG_INSIDE_COUNTS 8
/* Fewer are chance. */
#define TG_INSIDE_LEAST 16

/* Is it a server that is behind at times, and known how many wait in it? */
TG_INLINE int tg_inside_counts(const struct tg_overload *o)
{
	return o->behind >= TG_INSIDE_COUNTS && o->counted_ns;
}

/* Does a count show a server that is behind? */
TG_INLINE int tg_inside_shows(const struct tg_overload *o, const struct tg_inside *count,
                              __u64 waiting)
{
	__u32 phase = tg_overload_phase(o, count->at_ns);
	int have_gone = count->gone >= TG_INSIDE_LEAST;

	if (phase == TG_PERSISTENT)
		return have_gone && (__u64)count->gone * TG_INSIDE_MOST >= count->unanswered;
	if (phase != TG_CALM || waiting <= o->waiting)
		return 0;
	if (have_gone && (__u64)count->gone * TG_INSIDE_SHARE >= count->unanswered)
		return 1;
	return count->queued >= tg_overload_long_queue(o->answered_x256) &&
	       (__u64)count->unanswered * TG_INSIDE_SHARE >= count->queued;
}

/* What it answers, a second. Where few wait it shows only that it can do so much. */
TG_INLINE void tg_inside_see_answered(struct tg_overload *o, const struct tg_inside *count,
                                      __u64 waiting)
{
	__u64 passed_ns = tg_since(count->at_ns, o->counted_ns);
	__u64 answered = tg_enough_answered(o->counted_let_in, o->waiting, count, waiting);
	__u64 answered_x256 = tg_rate_of(answered, passed_ns);
	__u64 least = waiting < o->waiting ? waiting : o->waiting;

	if (answered_x256 > o->answered_x256 || least >= TG_INSIDE_LEAST)
		o->answered_x256 = tg_rate_toward(o->answered_x256, answered_x256, passed_ns,
		                                  TG_OVERLOAD_DRAIN_NS);
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

/* How many are enough, while as many wait as may. With fewer it shows what comes. */
TG_INLINE void tg_inside_see_enough(const struct tg_rules *rules, struct tg_overload *o,
                                    const struct tg_inside *count, __u64 waiting)
{
	if (tg_inside_counts(o) && 2 * waiting >= o->may_be_waiting &&
	    tg_overload_phase(o, count->at_ns) != TG_CALM)
		tg_enough_see(rules, o, count, waiting);
	else
		o->enough.since_ns = 0;
}

/* A count that was not seen yet. */
TG_INLINE void tg_inside_take(const struct tg_rules *rules, struct tg_overload *o,
                              const struct tg_inside *count)
{
	__u64 waiting = (__u64)count->unanswered + count->queued;

	/* Nobody came meanwhile who would have had the last one seen. */
	if (tg_since(count->at_ns, o->counted_ns) >= TG_INSIDE_OLD_NS)
		o->counted_ns = 0;
	if (o->counted_ns)
		tg_inside_see_answered(o, count, waiting);
	TG_IN_TURN();
	tg_inside_see_enough(rules, o, count, waiting);
	TG_IN_TURN();
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
		tg_inside_take(rules, o, count);
	/* But for the first trial, in which it may answer less for it. */
	if (!o->enough.did_x256 && !o->enough.since_ns)
		o->may_be_waiting = tg_enough_first(rules, o->answered_x256);
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
