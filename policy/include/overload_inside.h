/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who waits inside the application. One that accepts whoever is there (a goroutine, a virtual
 * thread or a callback for each) has its queue in itself: nobody is dropped, while everyone waits,
 * until clients leave before they are answered and the server works for those who have gone.
 *
 * The daemon counts the accepted connections whose client has said something and has heard nothing
 * yet. That many wait is no sign of anything, for long polls wait by design. There are two:
 *
 *   - many are not *heeded*: what their clients said last has not been read for a second, or they
 *     have closed, and the application, which would close behind them, has not noticed;
 *   - many wait for accept(), too, for longer than a second.
 *
 * For long polls an application has time.
 *
 * Where there is one in count after count, ever more wait, and all the while there seems to be no
 * overload, the server is *behind*. (Who is dropped is seen by overload.h; and what a crowd has
 * left that is over becomes less.) A crowd that fills the listen queue before that is known has
 * clients dropped from then on. Then the server is behind where many are not heeded, ever more
 * wait, and more wait inside than may once it is known, in an overload that is a long one; or,
 * however many those are, where most of them have gone while the crowd persists. (One that reads
 * late is held by a short listen queue as a rule.)
 * From then on who waits inside is a part of the queue: what the server takes is what it answers,
 * and, while more new clients come than that, there is no room where too many wait.
 *
 * How many are too many is found by trial: overload_enough.h.
 */
#ifndef TG_OVERLOAD_INSIDE_H
#define TG_OVERLOAD_INSIDE_H

#include "overload_enough.h"

/* An older count tells nothing any more, as where no daemon runs: 2.1 s. */
#define TG_INSIDE_OLD_NS (1ull << 31)
/* An application that has time notices in so long what a client said, or that it has closed. */
#define TG_INSIDE_UNHEEDED_NS 1000000000
/* One in so many of those inside is not heeded. */
#define TG_INSIDE_SHARE 8
/* Or has gone, while a crowd is there. */
#define TG_INSIDE_MOST 2
/* So many counts that show it, beyond those that do not: 2 s, with a quarter of one between. */
#define TG_INSIDE_COUNTS 8
/* Fewer are chance. */
#define TG_INSIDE_LEAST 16

/* What one count shows of a server. */
enum tg_shown {
	TG_IS_BEHIND,
	TG_IS_NOT_BEHIND,
	TG_MAY_BE_BEHIND, /* or it is a burst */
};

/* Is it a server that is behind at times, and known how many wait in it? */
TG_INLINE int tg_inside_counts(const struct tg_overload *o)
{
	return o->behind >= TG_INSIDE_COUNTS && o->counted_ns;
}

/* Are so many one in a few of those inside, and more than chance? */
TG_INLINE int tg_inside_is_part(const struct tg_inside *count, __u64 many, __u32 one_in)
{
	return many >= TG_INSIDE_LEAST && many * one_in >= count->unanswered;
}

/* Do many wait for accept(), and many of those who were accepted, too? */
TG_INLINE int tg_inside_is_long(const struct tg_overload *o, const struct tg_inside *count)
{
	return count->queued >= tg_overload_long_queue(o->answered_x256) &&
	       (__u64)count->unanswered * TG_INSIDE_SHARE >= count->queued;
}

/* Does a count show a server that is behind? */
TG_INLINE enum tg_shown tg_inside_shows(const struct tg_rules *rules, const struct tg_overload *o,
                                        const struct tg_inside *count, __u64 waiting)
{
	__u32 phase = tg_overload_phase(o, count->at_ns);
	__u64 unheeded = (__u64)count->unread + count->gone;
	int heeds_few = tg_inside_is_part(count, unheeded, TG_INSIDE_SHARE);

	if (phase == TG_PERSISTENT && tg_inside_is_part(count, count->gone, TG_INSIDE_MOST))
		return TG_IS_BEHIND;
	if (waiting <= o->waiting)
		return TG_IS_NOT_BEHIND;
	if (phase == TG_CALM)
		return heeds_few || tg_inside_is_long(o, count) ? TG_IS_BEHIND : TG_IS_NOT_BEHIND;
	if (!heeds_few)
		return TG_IS_NOT_BEHIND;
	if (o->was_long && count->unanswered >= tg_enough_first(rules, o->answered_x256))
		return TG_IS_BEHIND;
	return TG_MAY_BE_BEHIND;
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
TG_INLINE void tg_inside_learn(struct tg_overload *o, enum tg_shown shown)
{
	if (o->behind >= TG_INSIDE_COUNTS)
		return;
	if (shown == TG_IS_BEHIND)
		o->behind++;
	else if (shown == TG_IS_NOT_BEHIND && o->behind)
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
	tg_inside_learn(o, tg_inside_shows(rules, o, count, waiting));
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
